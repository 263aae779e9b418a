// Memory that runs out at every point of a short life: from the k-th allocation on nobody in this
// process gets any, or only the k-th fails. Calls may fail, and say so; nothing crashes and nothing
// hangs, and with memory again all works.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <new>

#include "ftar/ftar.h"
#include "tests/process/api/jobs.h"

namespace {

constexpr int64_t kPlenty = INT64_MAX / 2;
std::atomic<int64_t> left{kPlenty};
std::atomic<bool> only_one{false};

void* Give(size_t bytes, size_t alignment) {
  const int64_t before = left.fetch_sub(1, std::memory_order_relaxed);
  if (before == 0 || (before < 0 && !only_one)) return nullptr;
  return alignment == 0 ? std::malloc(bytes) : std::aligned_alloc(alignment, bytes);
}

void* GiveOrThrow(size_t bytes, size_t alignment) {
  if (void* const block = Give(bytes, alignment)) return block;
  throw std::bad_alloc();
}

size_t Rounded(size_t bytes, std::align_val_t alignment) {
  const auto unit = static_cast<size_t>(alignment);
  return (bytes + unit - 1) / unit * unit;
}

}  // namespace

// The library's and its own: a program's operator new is everybody's.
void* operator new(size_t bytes) { return GiveOrThrow(bytes, 0); }
void* operator new[](size_t bytes) { return GiveOrThrow(bytes, 0); }
void* operator new(size_t bytes, const std::nothrow_t&) noexcept { return Give(bytes, 0); }
void* operator new[](size_t bytes, const std::nothrow_t&) noexcept { return Give(bytes, 0); }
void* operator new(size_t bytes, std::align_val_t alignment) {
  return GiveOrThrow(Rounded(bytes, alignment), static_cast<size_t>(alignment));
}
void* operator new[](size_t bytes, std::align_val_t alignment) {
  return GiveOrThrow(Rounded(bytes, alignment), static_cast<size_t>(alignment));
}
void operator delete(void* block) noexcept { std::free(block); }
void operator delete[](void* block) noexcept { std::free(block); }
void operator delete(void* block, size_t) noexcept { std::free(block); }
void operator delete[](void* block, size_t) noexcept { std::free(block); }
void operator delete(void* block, std::align_val_t) noexcept { std::free(block); }
void operator delete[](void* block, std::align_val_t) noexcept { std::free(block); }
void operator delete(void* block, size_t, std::align_val_t) noexcept { std::free(block); }
void operator delete[](void* block, size_t, std::align_val_t) noexcept { std::free(block); }

namespace process {
namespace {

bool IsOutOfMemory(ftarResult_t result) {
  return result == FTAR_ERR_MEMORY || result == FTAR_ERR_SYSTEM || result == FTAR_ERR_ABORTED;
}

// Joins, sums once, goes: with so many allocations. The first result that is not FTAR_OK.
ftarResult_t LiveWith(int64_t allocations) {
  std::array<float, 64> data{};
  ftarJob_t job = nullptr;
  ftarGroup_t group = nullptr;
  ftarOp_t op = nullptr;
  left = allocations;
  ftarResult_t result = ftarJobJoin(nullptr, &job);
  if (result == FTAR_OK) result = ftarGroupOpen(job, nullptr, &group);
  if (result == FTAR_OK)
    result = ftarAllReduce(data.data(), data.data(), 64, FTAR_F32, FTAR_SUM, group, &op);
  if (result == FTAR_OK) result = ftarOpWait(op, kLongNs, nullptr);
  static_cast<void>(ftarOpRelease(op));
  static_cast<void>(ftarGroupClose(group));
  const ftarResult_t gone = ftarJobDestroy(job);
  left = kPlenty;
  return result == FTAR_OK ? gone : result;
}

// Lives with ever more memory, until it suffices. How many failed.
int LiveUntilItSuffices() {
  int failed = 0, good = 0;
  for (int64_t allocations = 0; good < 50; ++allocations) {
    const ftarResult_t result = LiveWith(allocations);
    good = result == FTAR_OK ? good + 1 : 0;
    failed += result == FTAR_OK ? 0 : 1;
    EXPECT_TRUE(result == FTAR_OK || IsOutOfMemory(result))
        << allocations << ": " << ftarResultString(result);
  }
  EXPECT_EQ(LiveWith(kPlenty), FTAR_OK) << LastError().text;
  return failed;
}

TEST(Memory, MayRunOutAtAnyAllocationOfALife) {
  only_one = false;
  ASSERT_EQ(LiveWith(kPlenty), FTAR_OK) << LastError().text;
  EXPECT_GT(LiveUntilItSuffices(), 100);
}

TEST(Memory, MayBeShortForAMoment) {
  only_one = true;
  ASSERT_EQ(LiveWith(kPlenty), FTAR_OK) << LastError().text;
  EXPECT_GT(LiveUntilItSuffices(), 100);
}

}  // namespace
}  // namespace process
