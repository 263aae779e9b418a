// The small parts: addresses, buffers, sealed memory, cancelled frames.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <vector>

#include "transport/buffer_pool.h"
#include "transport/out_frame.h"
#include "transport/sealed_memory.h"
#include "transport/tcp/socket.h"
#include "wire/addresses.h"

namespace ftar::transport {
namespace {

TEST(Addresses, FindsByName) {
  const std::string addresses = "tcp=10.0.0.3:4711;shm=@name;watch=@w";
  EXPECT_EQ(wire::FindAddress(addresses, "tcp"), "10.0.0.3:4711");
  EXPECT_EQ(wire::FindAddress(addresses, "shm"), "@name");
  EXPECT_EQ(wire::FindAddress(addresses, "watch"), "@w");
  EXPECT_EQ(wire::FindAddress(addresses, "tc"), "");
  EXPECT_EQ(wire::FindAddress("", "tcp"), "");
  EXPECT_EQ(wire::FindAddress(";;tcp=", "tcp"), "");
}

// A name that no resolver asks for, as it is too long to be one.
TEST(Interface, TheFirstWayThatThereIsSaysWhereToListen) {
  const std::string nowhere = std::string(300, 'a') + ":1";
  const auto found = tcp::ResolveInterface("", {nowhere, "127.0.0.1:1"}, false);
  ASSERT_TRUE(found.ok()) << found.status().text();
  EXPECT_TRUE(found->loopback());
  EXPECT_FALSE(tcp::ResolveInterface("", {nowhere}, false).ok());
}

TEST(BufferPool, ReusesAndOutlivesItself) {
  BufferPool::Buffer kept;
  std::byte* first = nullptr;
  {
    BufferPool pool;
    {
      const BufferPool::Buffer buffer = pool.Get(100'000);
      first = buffer.data();
      EXPECT_EQ(reinterpret_cast<uintptr_t>(first) % 64, 0u);
      std::memset(first, 1, 100'000);
    }
    kept = pool.Get(90'000);
    EXPECT_EQ(kept.data(), first);
    EXPECT_NE(pool.Get(90'000).data(), first);
    EXPECT_TRUE(pool.Get(SIZE_MAX).empty());
    EXPECT_FALSE(pool.Get(0).empty());
  }
  std::memset(kept.data(), 2, 90'000);
}

TEST(BufferPool, GivesBackWhatABurstNeeded) {
  BufferPool pool;
  constexpr size_t kBytes = 1 << 16;
  {
    std::vector<BufferPool::Buffer> burst;
    for (int i = 0; i < 8; ++i) burst.push_back(pool.Get(kBytes));
  }
  TimeNs now = 100 * kSecond;
  pool.Trim(now);  // until now all of them may have been needed
  EXPECT_EQ(pool.kept_bytes(), 8 * kBytes);
  { const BufferPool::Buffer one = pool.Get(kBytes), other = pool.Get(kBytes); }
  pool.Trim(now += 10 * kSecond);  // not long enough
  EXPECT_EQ(pool.kept_bytes(), 8 * kBytes);
  pool.Trim(now += 25 * kSecond);
  EXPECT_EQ(pool.kept_bytes(), 2 * kBytes);
  pool.Trim(now += 35 * kSecond);
  EXPECT_EQ(pool.kept_bytes(), 0u);
  EXPECT_FALSE(pool.Get(kBytes).empty());
}

// Memory that has a descriptor counts as a file: a refusal is an error, and no signal.
TEST(SealedMemory, ALimitOnTheSizeOfFilesEndsNoProgram) {
  const pid_t child = fork();
  if (child == 0) {
    const rlimit small{4096, 4096};
    setrlimit(RLIMIT_FSIZE, &small);
    _exit(CreateSealedMemory("test", 1 << 20, Pages::kNow).ok() ? 1 : 0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), 0) << "more than the limit";
}

TEST(SealedMemory, NobodyElseWritesOrResizes) {
  const auto sealed = CreateSealedMemory("test", 8192, Pages::kNow);
  ASSERT_TRUE(sealed.ok());
  std::memset(sealed->memory->data(), 7, 8192);
  EXPECT_NE(::ftruncate(sealed->fd.get(), 100), 0);
  EXPECT_NE(::ftruncate(sealed->fd.get(), 100'000), 0);
  EXPECT_EQ(::mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, sealed->fd.get(), 0),
            MAP_FAILED);
  const auto mapped = MapSealedMemory(sealed->fd, 8192, 8192);
  ASSERT_TRUE(mapped.ok());
  EXPECT_EQ((*mapped)->data()[8191], std::byte{7});
  EXPECT_NE(::mprotect((*mapped)->data(), 8192, PROT_READ | PROT_WRITE), 0);
  EXPECT_EQ(MapSealedMemory(sealed->fd, 4096, 4096).status().code(), Code::kPeer);
}

TEST(OutFrame, TombstonesKeepTheirNumber) {
  BufferPool pool;
  std::vector<std::byte> bytes(100, std::byte{1});
  OutFrame frame;
  frame.header.kind = wire::FrameKind::kRaw;
  frame.header.group = 3;
  frame.header.seq = 4;
  frame.header.link_seq = 99;
  frame.payload = bytes;
  EXPECT_TRUE(frame.belongs_to(3, 4));
  EXPECT_FALSE(frame.belongs_to(3, 5));
  ASSERT_TRUE(frame.MakePrivate(&pool));
  bytes.assign(100, std::byte{2});
  EXPECT_EQ(frame.payload[50], std::byte{1});
  frame.BecomeTombstone();
  EXPECT_EQ(frame.header.link_seq, 99u);
  EXPECT_EQ(frame.wire_bytes(), sizeof(wire::FrameHeader));
  EXPECT_FALSE(frame.belongs_to(3, 4));  // nothing of the operation is left
}

}  // namespace
}  // namespace ftar::transport
