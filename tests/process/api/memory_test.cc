// Memory that runs out at every point of a short life: from the k-th allocation on nobody in this
// process gets any, or only the k-th fails. Calls may fail, and say so; nothing crashes and nothing
// hangs, and with memory again all works.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <new>
#include <string>
#include <vector>

#include "ftar/ftar.h"
#include "tests/process/api/jobs.h"
#include "tests/process/harness.h"

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

// The library's and its own: a program's operator new is everybody's. None is inlined, since a
// compiler that sees only half of a pair takes it for mismatched.
[[gnu::noinline]] void* operator new(size_t bytes) { return GiveOrThrow(bytes, 0); }
[[gnu::noinline]] void* operator new[](size_t bytes) { return GiveOrThrow(bytes, 0); }
[[gnu::noinline]] void* operator new(size_t bytes, const std::nothrow_t&) noexcept {
  return Give(bytes, 0);
}
[[gnu::noinline]] void* operator new[](size_t bytes, const std::nothrow_t&) noexcept {
  return Give(bytes, 0);
}
[[gnu::noinline]] void* operator new(size_t bytes, std::align_val_t alignment) {
  return GiveOrThrow(Rounded(bytes, alignment), static_cast<size_t>(alignment));
}
[[gnu::noinline]] void* operator new[](size_t bytes, std::align_val_t alignment) {
  return GiveOrThrow(Rounded(bytes, alignment), static_cast<size_t>(alignment));
}
[[gnu::noinline]] void operator delete(void* block) noexcept { std::free(block); }
[[gnu::noinline]] void operator delete[](void* block) noexcept { std::free(block); }
[[gnu::noinline]] void operator delete(void* block, size_t) noexcept { std::free(block); }
[[gnu::noinline]] void operator delete[](void* block, size_t) noexcept { std::free(block); }
[[gnu::noinline]] void operator delete(void* block, std::align_val_t) noexcept { std::free(block); }
[[gnu::noinline]] void operator delete[](void* block, std::align_val_t) noexcept {
  std::free(block);
}
[[gnu::noinline]] void operator delete(void* block, size_t, std::align_val_t) noexcept {
  std::free(block);
}
[[gnu::noinline]] void operator delete[](void* block, size_t, std::align_val_t) noexcept {
  std::free(block);
}

namespace process {
namespace {

bool IsOutOfMemory(ftarResult_t result) {
  return result == FTAR_ERR_MEMORY || result == FTAR_ERR_SYSTEM || result == FTAR_ERR_ABORTED;
}

// Joins, multiplies in place by 3, goes: with so many allocations. The first result that is not
// FTAR_OK; then the input is as it was.
ftarResult_t LiveWith(int64_t allocations) {
  std::array<float, 64> data{};
  data.fill(1);
  ftarOpDesc desc = FTAR_OP_DESC_INIT;
  desc.send = desc.recv = data.data();
  desc.count = data.size();
  desc.scale = 3;
  ftarJob_t job = nullptr;
  ftarGroup_t group = nullptr;
  ftarOp_t op = nullptr;
  left = allocations;
  ftarResult_t result = ftarJobJoin(nullptr, &job);
  if (result == FTAR_OK) result = ftarGroupOpen(job, nullptr, &group);
  if (result == FTAR_OK) result = ftarOpStart(group, &desc, &op);
  if (result == FTAR_OK) result = ftarOpWait(op, kLongNs, nullptr);
  const float expected = result == FTAR_OK ? 3 : 1;
  static_cast<void>(ftarOpRelease(op));
  static_cast<void>(ftarGroupClose(group));
  const ftarResult_t gone = ftarJobDestroy(job);
  left = kPlenty;
  for (const float value : data) EXPECT_EQ(value, expected) << allocations;
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

// Two members that add in place.
struct Two {
  static constexpr size_t kCount = 5000;

  explicit Two(const std::string& coordinator) {
    for (int32_t i = 0; i < 2; ++i) {
      ftarJobConfig config = FTAR_JOB_CONFIG_INIT;
      config.replica = i;
      config.replicas = 2;
      config.coordinator = coordinator.c_str();
      config.timeout_ns = 2 * kSecondNs;
      config.flags = FTAR_JOB_NONBLOCKING;
      EXPECT_EQ(ftarJobJoin(&config, &jobs[i]), FTAR_IN_PROGRESS) << LastError().text;
      data[i].assign(kCount, 1);
    }
    for (int i = 0; i < 2; ++i) {
      EXPECT_EQ(ftarJobWaitReady(jobs[i], kLongNs), FTAR_OK) << LastError().text;
      EXPECT_EQ(ftarGroupOpen(jobs[i], nullptr, &groups[i]), FTAR_OK) << LastError().text;
    }
  }
  ~Two() {
    for (int i = 0; i < 2; ++i) {
      ftarOpRelease(ops[i]);
      ftarGroupClose(groups[i]);
      ftarJobDestroy(jobs[i]);
    }
  }
  // With so many allocations from now on. How many had not enough.
  int Add(int64_t allocations, const char* plan) {
    ftarOutcome outcomes[2] = {FTAR_OUTCOME_INIT, FTAR_OUTCOME_INIT};
    ftarResult_t results[2] = {};
    left = allocations;
    for (int i = 0; i < 2; ++i) {
      ftarOpDesc desc = FTAR_OP_DESC_INIT;
      desc.send = desc.recv = data[i].data();
      desc.count = kCount;
      desc.plan = plan;
      results[i] = ftarOpStart(groups[i], &desc, &ops[i]);
    }
    for (int i = 0; i < 2; ++i) {  // whoever could not even start is not waited for
      if (results[i] == FTAR_OK) continue;
      left = kPlenty;
      static_cast<void>(ftarJobAbort(jobs[i], "no memory"));  // it may be out by itself
    }
    for (int i = 0; i < 2; ++i) {
      if (results[i] == FTAR_OK) results[i] = ftarOpWait(ops[i], kSecondNs, &outcomes[i]);
    }
    left = kPlenty;
    int failed = 0;
    for (int i = 0; i < 2; ++i) {
      if (results[i] == FTAR_TIMEOUT) continue;  // a process without memory may starve its waits
      const bool good = results[i] == FTAR_OK;
      EXPECT_TRUE(good || IsOutOfMemory(results[i])) << ftarResultString(results[i]);
      const auto expected = static_cast<float>(good ? outcomes[i].participants : 1);
      size_t wrong = 0;
      for (const float value : data[i]) wrong += value != expected ? 1 : 0;
      EXPECT_EQ(wrong, 0u) << plan << " member " << i << " after " << allocations << ": "
                           << ftarResultString(results[i]);
      failed += good ? 0 : 1;
    }
    return failed;
  }

  std::array<ftarJob_t, 2> jobs{};
  std::array<ftarGroup_t, 2> groups{};
  std::array<ftarOp_t, 2> ops{};
  std::array<std::vector<float>, 2> data;
};

class MemoryOfTwo : public testing::TestWithParam<const char*> {};

TEST_P(MemoryOfTwo, MayRunOutInTheMiddleOfAnOperation) {
  only_one = false;
  static const Coordinator coordinator;
  int failed = 0;
  for (int64_t allocations = 20; allocations < 200; allocations += 13) {
    Two two(coordinator.address());
    failed += two.Add(allocations, GetParam());
  }
  EXPECT_GT(failed, 4);
}

INSTANTIATE_TEST_SUITE_P(Plans, MemoryOfTwo, testing::Values("oneshot", "direct", "ring"));

}  // namespace
}  // namespace process
