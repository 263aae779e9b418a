// Goal: both executors, over a device that is this process: bits of the plans run one after the
// other, in order, aborted at any moment, with blocks that are missing, launches that fail, and a
// context that breaks; and nothing is left behind.
#include "device/executor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <random>
#include <thread>

#include "host_gpu.h"
#include "kernels/host_grid.h"

namespace ftar::device {
namespace {

using kernels::Plan;
using reduce::Dtype;
using testing::HasSubstr;
using testing::Not;

TimeNs Now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// Memory in which plans are drawn; the same plan at another base is the same work.
class Arena {
 public:
  static constexpr size_t kBytes = 64 << 10;
  explicit Arena(uint64_t seed) : memory_(kBytes) {
    std::mt19937_64 random(seed);
    for (auto& byte : memory_) byte = static_cast<unsigned char>(random());
  }
  unsigned char* base() { return memory_.data(); }
  bool operator==(const Arena& other) const { return memory_ == other.memory_; }

 private:
  std::vector<unsigned char> memory_;
};

Plan DrawPlan(std::mt19937_64* random, unsigned char* base) {
  static constexpr Dtype kDtypes[] = {Dtype::kF32, Dtype::kBF16, Dtype::kF16, Dtype::kI32};
  const Dtype dtype = kDtypes[(*random)() % 4];
  const size_t count = 1 + (*random)() % 1000;
  const auto place = [&] { return base + (*random)() % 16 * (Arena::kBytes / 16); };
  const kernels::Shape shape{.threads = 32, .chunk_bytes = 2048};
  void* to = base + (*random)() % 16 * (Arena::kBytes / 16);
  if ((*random)() % 3 == 0) {
    const void* from = place();
    return kernels::PlanCopy(from, {&to, 1}, from == to ? 0 : count, {}, shape).value();
  }
  const reduce::Source sources[] = {{.data = place(), .format = dtype, .weight = 1},
                                    {.data = place(), .format = dtype, .weight = 1},
                                    {.data = to, .format = dtype, .weight = 1}};
  return kernels::PlanReduction({.dtype = dtype,
                                 .sources = {sources, 2 + (*random)() % 2},
                                 .destinations = {&to, 1},
                                 .count = count},
                                {}, shape)
      .value();
}

class ExecutorTest : public testing::TestWithParam<ExecutorKind> {
 protected:
  std::unique_ptr<Executor> Open(int blocks = 2) {
    options_.kind = GetParam();
    options_.blocks = blocks;
    auto executor = OpenExecutor(Unowned(&gpu_), options_);
    EXPECT_TRUE(executor.ok()) << executor.status().ToString();
    return executor.ok() ? std::move(*executor) : nullptr;
  }
  // True if all are done before the deadline.
  static bool Drain(Executor* executor) {
    const TimeNs deadline = Now() + 20 * kSecond;
    while (executor->Poll(Now()) < executor->submitted()) {
      if (Now() > deadline || !executor->status().ok()) return false;
      std::this_thread::yield();
    }
    return true;
  }
  HostGpu gpu_;
  ExecutorOptions options_;
};

TEST_P(ExecutorTest, GivesTheBitsOfThePlansOneAfterTheOther) {
  for (int blocks = 1; blocks <= 4; ++blocks) {
    auto executor = Open(blocks);
    ASSERT_NE(executor, nullptr);
    const auto seed = static_cast<uint64_t>(blocks);
    Arena ours(seed), model(seed);
    std::mt19937_64 random(seed), same(seed);
    for (int i = 0; i < 150; ++i) {
      EXPECT_EQ(executor->Submit(DrawPlan(&random, ours.base())), static_cast<uint64_t>(i + 1));
      if (i % 3 == 0) executor->Poll(Now());
      ASSERT_TRUE(kernels::RunOnHost(DrawPlan(&same, model.base())).ok());
    }
    ASSERT_TRUE(Drain(executor.get())) << executor->status().ToString();
    EXPECT_TRUE(ours == model) << blocks;
  }
}

TEST_P(ExecutorTest, AfterAnAbortNothingIsTouchedAndItGoesOn) {
  auto executor = Open();
  ASSERT_NE(executor, nullptr);
  std::mt19937_64 random(7);
  Arena ours(7);
  for (int round = 0; round < 30; ++round) {
    for (int i = 0; i < 20; ++i) executor->Submit(DrawPlan(&random, ours.base()));
    if (round % 2 == 0) std::this_thread::yield();
    executor->Abort();
    ASSERT_TRUE(Drain(executor.get()));
    // Under a sanitizer this races with whoever is not done.
    Arena fresh(static_cast<uint64_t>(round));
    std::memcpy(ours.base(), fresh.base(), Arena::kBytes);
    std::mt19937_64 same = random;
    executor->Submit(DrawPlan(&random, ours.base()));
    ASSERT_TRUE(kernels::RunOnHost(DrawPlan(&same, fresh.base())).ok());
    ASSERT_TRUE(Drain(executor.get()));
    EXPECT_TRUE(ours == fresh) << round;
  }
}

TEST_P(ExecutorTest, GivesItsMemoryBack) {
  { const auto executor = Open(); }
  EXPECT_EQ(gpu_.pinned(), 0u);
  {
    auto executor = Open();
    Arena arena(1);
    std::mt19937_64 random(1);
    for (int i = 0; i < 30; ++i) executor->Submit(DrawPlan(&random, arena.base()));
    executor.reset();
  }
  EXPECT_EQ(gpu_.pinned(), 0u);
}

TEST_P(ExecutorTest, ABrokenContextIsReported) {
  auto executor = Open();
  Arena arena(1);
  std::mt19937_64 random(1);
  gpu_.Hold(true);
  gpu_.Break();
  uint64_t last = 0;
  for (int i = 0; i < 50; ++i) last = executor->Submit(DrawPlan(&random, arena.base()));
  const TimeNs deadline = Now() + 20 * kSecond;
  while (executor->status().ok() && executor->Poll(Now()) < last && Now() < deadline) {
    std::this_thread::yield();
  }
  if (GetParam() == ExecutorKind::kBounded) {
    EXPECT_LT(executor->Poll(Now()), last);
  }
  EXPECT_EQ(executor->status().code(), Code::kDevice);
  EXPECT_THAT(executor->status().text(), HasSubstr("as the test asked"));
  // What might still write keeps its memory.
  executor.reset();
  EXPECT_EQ(gpu_.pinned(), 1u);
}

TEST_P(ExecutorTest, WhatIsRefusedIsNotDone) {
  if (GetParam() == ExecutorKind::kBounded) return;  // its kernels have nobody to refuse
  auto executor = Open(1);
  Arena arena(1);
  gpu_.Refuse();
  void* to = arena.base() + 4096;
  const Plan copy = kernels::PlanCopy(arena.base(), {&to, 1}, 1024, {}, {}).value();
  EXPECT_EQ(executor->Submit(copy), 1u);
  const TimeNs deadline = Now() + 20 * kSecond;
  while (executor->status().ok() && Now() < deadline) EXPECT_EQ(executor->Poll(Now()), 0u);
  EXPECT_EQ(executor->status().code(), Code::kDevice);
  EXPECT_EQ(executor->Poll(Now()), 0u);
}

TEST_P(ExecutorTest, IsStuckWhenTheDeviceDoesNotMove) {
  options_.stuck_ns = 200 * kMillisecond;
  auto executor = Open();
  gpu_.Hold(true);
  const reduce::Source source{.data = &gpu_, .format = Dtype::kF64, .weight = 1};
  double result = 0;
  void* to = &result;
  // A type that the resident kernel does not know.
  executor->Submit(
      kernels::PlanReduction(
          {.dtype = Dtype::kF64, .sources = {&source, 1}, .destinations = {&to, 1}, .count = 1})
          .value());
  const TimeNs start = Now();
  while (executor->status().ok() && Now() < start + 20 * kSecond) executor->Poll(Now());
  EXPECT_GE(Now() - start, 200 * kMillisecond);
  EXPECT_THAT(executor->status().text(), HasSubstr("has not moved"));
  EXPECT_THAT(executor->status().text(), Not(HasSubstr("CUDA_DEVICE_MAX_CONNECTIONS")));
  executor->Hold(true);
  EXPECT_THAT(executor->status().text(), HasSubstr("CUDA_DEVICE_MAX_CONNECTIONS"));
  executor->Hold(false);
  executor->Abort();
  gpu_.Hold(false);
  while (executor->Poll(Now()) < 1 && Now() < start + 20 * kSecond) std::this_thread::yield();
  EXPECT_EQ(executor->Poll(Now()), 1u);
}

TEST_P(ExecutorTest, PlansWithNothingToDoAreDone) {
  auto executor = Open();
  Plan plan;
  EXPECT_EQ(executor->Submit(plan), 1u);
  EXPECT_EQ(executor->Poll(Now()), 1u);
}

INSTANTIATE_TEST_SUITE_P(Kinds, ExecutorTest,
                         testing::Values(ExecutorKind::kBounded, ExecutorKind::kResident),
                         [](const auto& info) {
                           return info.param == ExecutorKind::kBounded ? "bounded" : "resident";
                         });

TEST(OpenExecutorTest, RefusesWhatCannotBe) {
  HostGpu gpu;
  EXPECT_EQ(OpenExecutor(nullptr, {}).status().code(), Code::kArg);
  EXPECT_EQ(
      OpenExecutor(Unowned(&gpu), {.kind = ExecutorKind::kResident, .blocks = 5}).status().code(),
      Code::kArg);
  EXPECT_EQ(OpenExecutor(Unowned(&gpu), {.kind = ExecutorKind::kResident, .silence_ns = 1})
                .status()
                .code(),
            Code::kArg);
  gpu.FailLaunches(true);
  const auto executor = OpenExecutor(Unowned(&gpu), {.kind = ExecutorKind::kResident});
  EXPECT_THAT(executor.status().text(), HasSubstr("the launch fails"));
}

TEST(ResidentExecutorTest, LeavesWhenThereIsNothingToDoAndComesAgain) {
  HostGpu gpu;
  auto opened = OpenExecutor(
      Unowned(&gpu),
      {.kind = ExecutorKind::kResident, .blocks = 2, .silence_ns = 100 * kMillisecond});
  ASSERT_TRUE(opened.ok());
  Executor* const executor = opened->get();
  Arena arena(3);
  std::mt19937_64 random(3);
  for (int i = 0; i < 10; ++i) executor->Submit(DrawPlan(&random, arena.base()));
  while (executor->Poll(Now()) < executor->submitted()) std::this_thread::yield();
  const TimeNs silent_until = Now() + 300 * kMillisecond;
  while (Now() < silent_until) std::this_thread::yield();
  const TimeNs deadline = Now() + 20 * kSecond;
  for (int i = 0; i < 40; ++i) executor->Submit(DrawPlan(&random, arena.base()));
  while (executor->Poll(Now()) < executor->submitted() && Now() < deadline) {
    std::this_thread::yield();
  }
  EXPECT_EQ(executor->Poll(Now()), executor->submitted());
  EXPECT_EQ(gpu.resident_launches(), 2);
}

// A user's synchronisation waits for it: for some silence, not for a first part that never comes.
TEST(ResidentExecutorTest, WhoWasHeldForNothingLeavesSoon) {
  HostGpu gpu;
  auto opened =
      OpenExecutor(Unowned(&gpu),
                   {.kind = ExecutorKind::kResident, .blocks = 2, .silence_ns = 20 * kMillisecond});
  ASSERT_TRUE(opened.ok());
  Executor* const executor = opened->get();
  const auto poll_for = [executor](TimeNs time) {
    for (const TimeNs until = Now() + time; Now() < until; std::this_thread::yield())
      executor->Poll(Now());
  };
  const auto hold = [executor] {
    executor->Hold(true);
    const TimeNs deadline = Now() + 20 * kSecond;
    while (!executor->Stays() && Now() < deadline) std::this_thread::yield();
  };
  poll_for(300 * kMillisecond);
  hold();
  EXPECT_EQ(gpu.resident_launches(), 2);  // the one that was opened with had gone
  poll_for(100 * kMillisecond);
  executor->Hold(false);
  poll_for(300 * kMillisecond);
  hold();
  EXPECT_EQ(gpu.resident_launches(), 3);
  executor->Hold(false);
}

TEST(ResidentExecutorTest, WorksWithTheBlocksThatCome) {
  HostGpu gpu;
  gpu.MissBlocks(2);
  // With silence the one that is there would leave, so that a device had room for the others.
  auto opened = OpenExecutor(Unowned(&gpu), {.kind = ExecutorKind::kResident,
                                             .blocks = 3,
                                             .stuck_ns = 500 * kMillisecond,
                                             .silence_ns = 0});
  ASSERT_TRUE(opened.ok());
  Arena ours(5), model(5);
  std::mt19937_64 random(5), same(5);
  for (int i = 0; i < 60; ++i) {
    (*opened)->Submit(DrawPlan(&random, ours.base()));
    ASSERT_TRUE(kernels::RunOnHost(DrawPlan(&same, model.base())).ok());
  }
  const TimeNs deadline = Now() + 20 * kSecond;
  while ((*opened)->Poll(Now()) < (*opened)->submitted() && Now() < deadline) {
    std::this_thread::yield();
  }
  EXPECT_TRUE(ours == model);
}

}  // namespace
}  // namespace ftar::device
