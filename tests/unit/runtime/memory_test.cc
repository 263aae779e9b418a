// Goal: staging blocks are reused and given back to the system when they lie about; users' memory
// is zeroed, found again, and gone with its owner.
#include "runtime/memory.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

namespace ftar::runtime {
namespace {

constexpr size_t kMany = 64u << 20;

TEST(StagingPool, GivesAlignedBlocksOfAtLeastTheSizeAndReusesThem) {
  StagingPool pool(kMany);
  for (const size_t bytes : {size_t{1}, size_t{256}, size_t{257}, size_t{65536}, size_t{1000001}}) {
    const StagingBlock block = pool.Take(bytes);
    ASSERT_NE(block.data, nullptr);
    EXPECT_GE(block.capacity, bytes);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(block.data) % kStagingAlignment, 0u);
    EXPECT_EQ(pool.used_bytes(), block.capacity);
    std::memset(block.data, 0xff, block.capacity);
    pool.Give(block, 0);
    EXPECT_EQ(pool.used_bytes(), 0u);
    EXPECT_EQ(pool.cached_bytes(), block.capacity);
    const StagingBlock again = pool.Take(bytes);
    EXPECT_EQ(again.data, block.data);
    EXPECT_EQ(pool.cached_bytes(), 0u);
    pool.Give(again, 0);
    pool.Trim(1, 0);
    EXPECT_EQ(pool.cached_bytes(), 0u);
  }
}

TEST(StagingPool, KeepsNoMoreThanItMay) {
  StagingPool pool(1024);
  std::vector<StagingBlock> blocks;
  for (int i = 0; i < 4; ++i) blocks.push_back(pool.Take(512));
  for (const StagingBlock& block : blocks) pool.Give(block, 0);
  EXPECT_EQ(pool.cached_bytes(), 1024u);
  EXPECT_EQ(pool.used_bytes(), 0u);
}

TEST(StagingPool, TrimsWhatHasLainUnusedOnly) {
  StagingPool pool(kMany);
  const StagingBlock old = pool.Take(256), young = pool.Take(256), other = pool.Take(4096);
  pool.Give(old, 10);
  pool.Give(young, 60);
  pool.Give(other, 20);
  pool.Trim(100, 60);
  EXPECT_EQ(pool.cached_bytes(), 256u);
  EXPECT_EQ(pool.Take(256).data, young.data);
  pool.Give(young, 100);
}

TEST(StagingPool, NoMemoryIsNoBlock) {
  StagingPool pool(kMany);
  EXPECT_EQ(pool.Take(SIZE_MAX / 2).data, nullptr);
  pool.FailAfter(1);
  const StagingBlock last = pool.Take(256);
  EXPECT_NE(last.data, nullptr);
  EXPECT_EQ(pool.Take(256).data, nullptr);
  EXPECT_EQ(pool.used_bytes(), last.capacity);
  pool.Give(last, 0);
  const StagingBlock reused = pool.Take(256);
  EXPECT_EQ(reused.data, last.data) << "a cached block needs no system";
  pool.Give(reused, 0);
}

bool Mapped(void* memory) { return msync(memory, 1, MS_ASYNC) == 0 || errno != ENOMEM; }

std::shared_ptr<transport::ExportedMemory> Exports() {
  return std::make_shared<transport::ExportedMemory>();
}

TEST(UserMemory, IsZeroedWritableAndPageAligned) {
  UserMemory memory(Exports());
  for (const size_t bytes : {size_t{1}, size_t{4096}, size_t{4097}, size_t{1} << 20}) {
    const Expected<void*> block = memory.Allocate(bytes);
    ASSERT_TRUE(block.ok()) << block.status().ToString();
    auto* data = static_cast<unsigned char*>(*block);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(data) % 4096, 0u);
    EXPECT_EQ(data[0], 0);
    EXPECT_EQ(data[bytes - 1], 0);
    std::memset(data, 1, bytes);
    EXPECT_TRUE(memory.Free(data).ok());
    EXPECT_FALSE(Mapped(data));
  }
}

TEST(UserMemory, ForeignAndFreedMemoryIsRefused) {
  UserMemory memory(Exports()), other(Exports());
  int mine = 0;
  EXPECT_TRUE(memory.Free(nullptr).ok());
  EXPECT_EQ(memory.Free(&mine).code(), Code::kArg);
  const Expected<void*> block = memory.Allocate(100);
  ASSERT_TRUE(block.ok());
  EXPECT_EQ(memory.Free(static_cast<char*>(*block) + 8).code(), Code::kArg);
  EXPECT_EQ(other.Free(*block).code(), Code::kArg) << "another job's";
  EXPECT_TRUE(memory.Free(*block).ok());
  EXPECT_EQ(memory.Free(*block).code(), Code::kArg) << "twice";
}

TEST(UserMemory, MoreThanThereIsIsAnError) {
  UserMemory memory(Exports());
  EXPECT_EQ(memory.Allocate(SIZE_MAX).status().code(), Code::kArg);
  EXPECT_EQ(memory.Allocate(SIZE_MAX / 4).status().code(), Code::kMemory);
}

TEST(UserMemory, GoesWithItsOwner) {
  std::optional<UserMemory> memory(std::in_place, Exports());
  const Expected<void*> block = memory->Allocate(100);
  ASSERT_TRUE(block.ok());
  EXPECT_TRUE(Mapped(*block));
  memory.reset();
  EXPECT_FALSE(Mapped(*block));
}

TEST(UserMemory, ManyThreadsAtOnce) {
  UserMemory memory(Exports());
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&memory, t] {
      for (int i = 0; i < 100; ++i) {
        const Expected<void*> block = memory.Allocate(64);
        ASSERT_TRUE(block.ok());
        *static_cast<int*>(*block) = t;
        EXPECT_EQ(*static_cast<int*>(*block), t);
        EXPECT_TRUE(memory.Free(*block).ok());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace ftar::runtime
