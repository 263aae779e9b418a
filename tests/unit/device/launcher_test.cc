// Goal: what waits and is of one run and one kernel goes out as one launch, what is alone goes at
// once, and numbers are stored in their order, dropped plans' too.
#include "device/launcher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "host_gpu.h"

namespace ftar::device {
namespace {

using testing::ElementsAre;

class LauncherTest : public testing::Test {
 protected:
  LauncherTest() {
    launcher_.Abort(kEpoch);
    gpu_.BlockLaunches(true);
    Launch(Copy(0), 1);
    while (gpu_.calls().empty()) std::this_thread::yield();
  }
  ~LauncherTest() override {
    gpu_.BlockLaunches(false);
    while (!launcher_.End()) std::this_thread::yield();
  }

  // From one half of the memory to the other.
  kernels::Plan Copy(size_t place, size_t bytes = 3000, int blocks = 4) {
    void* const to = memory_.data() + kHalf + 4096 * place;
    return kernels::PlanCopy(memory_.data() + 4096 * place, {&to, 1}, bytes, {},
                             {.blocks = blocks, .threads = 32, .chunk_bytes = 512})
        .value();
  }
  kernels::Plan Sum(size_t place) {
    const reduce::Source sources[] = {{.data = memory_.data() + 4096 * place},
                                      {.data = memory_.data() + kHalf + 4096 * place}};
    void* const to = memory_.data() + kHalf + 4096 * place;
    return kernels::PlanReduction({.sources = sources, .destinations = {&to, 1}, .count = 500})
        .value();
  }
  void Launch(const kernels::Plan& plan, uint64_t run, uint32_t epoch = kEpoch) {
    launcher_.Launch({.number = ++number_, .run = run, .epoch = epoch, .plan = &plan});
  }
  // Of each launch behind the first one.
  struct Seen {
    std::vector<uint32_t> jobs;
    std::vector<int> blocks;
    std::vector<uint64_t> numbers;
  };
  Seen GoOn() {
    gpu_.BlockLaunches(false);
    while (launcher_.Done() < number_) std::this_thread::yield();
    Seen seen;
    for (const HostGpu::Call& call : gpu_.calls()) {
      seen.jobs.push_back(call.jobs);
      seen.blocks.push_back(call.blocks);
      seen.numbers.push_back(call.seq);
    }
    return seen;
  }

  static constexpr size_t kHalf = 64 << 10;
  static constexpr uint32_t kEpoch = 1;
  std::vector<unsigned char> memory_ = std::vector<unsigned char>(2 * kHalf);
  LaunchWords words_;
  HostGpu gpu_;
  uint64_t number_ = 0;
  Launcher launcher_{Unowned(&gpu_), &words_, nullptr};
};

TEST_F(LauncherTest, WhatWaitsGoesOutAsOneLaunch) {
  std::fill_n(memory_.begin(), kHalf, 7);
  for (size_t place : {1, 2, 3}) Launch(Copy(place), 1);
  const Seen seen = GoOn();
  EXPECT_THAT(seen.jobs, ElementsAre(1, 3));
  EXPECT_THAT(seen.numbers, ElementsAre(1, 4));
  // Two chunks each, four blocks wished.
  EXPECT_THAT(seen.blocks, ElementsAre(2, 4));
  for (size_t place : {0, 1, 2, 3}) {
    const auto begin = memory_.begin() + kHalf + 4096 * static_cast<ptrdiff_t>(place);
    EXPECT_EQ(std::count(begin, begin + 4096, 7), 3000) << place;
  }
}

TEST_F(LauncherTest, ARunAKernelAndTheRoomBoundIt) {
  for (size_t place : {1, 2}) Launch(Copy(place), 1);
  for (size_t place : {3, 4}) Launch(Copy(place), 2);
  Launch(Sum(5), 2);
  for (size_t place : {6, 7}) Launch(Copy(place), 2);
  for (size_t i = 0; i < kernels::kMaxJobs + 1; ++i) Launch(Copy(8, 100), 3);
  const Seen seen = GoOn();
  EXPECT_THAT(seen.jobs, ElementsAre(1, 2, 2, 1, 2, kernels::kMaxJobs, 1));
  EXPECT_THAT(seen.numbers, ElementsAre(1, 3, 5, 6, 8, 16, 17));
}

TEST_F(LauncherTest, WhatAnAbortHasDroppedIsCountedInItsTurn) {
  for (size_t place : {1, 2}) Launch(Copy(place), 1);
  launcher_.Abort(kEpoch + 1);
  for (size_t place : {3, 4}) Launch(Copy(place), 2, kEpoch + 1);
  const Seen seen = GoOn();
  EXPECT_THAT(seen.jobs, ElementsAre(1, 0, 2));
  EXPECT_THAT(seen.numbers, ElementsAre(1, 3, 5));
}

TEST_F(LauncherTest, BlocksAreCountedAsTheyWentOut) {
  for (size_t place : {1, 2, 3}) Launch(Copy(place), 1);
  GoOn();
  const TimeNs before = Launcher::Now();
  launcher_.Measure(before + 1000 * kSecond);
  // Plan 1 with 2 blocks, the other three with 4 each, and all have ended between two looks.
  EXPECT_NEAR(static_cast<double>(launcher_.meter().block_ns()), 3.5e12, 0.1e12);
}

// The driver keeps it, maybe for as long as somebody's stream waits.
TEST(LauncherEndTest, AThreadThatIsLeftBehindKeepsItsGpu) {
  std::atomic<bool> gone{false};
  std::shared_ptr<HostGpu> gpu(new HostGpu, [&gone](HostGpu* last) {
    delete last;
    gone = true;
  });
  HostGpu* const kept = gpu.get();
  kept->BlockLaunches(true);
  std::vector<unsigned char> from(100, 7), to(100);
  void* const place = to.data();
  const kernels::Plan plan = kernels::PlanCopy(from.data(), {&place, 1}, to.size()).value();
  LaunchWords words;
  {
    Launcher launcher(gpu, &words, nullptr);
    launcher.Launch({.number = 1, .run = 1, .epoch = 0, .plan = &plan});
    while (kept->calls().empty()) std::this_thread::yield();
    gpu = nullptr;
  }
  EXPECT_FALSE(gone);
  kept->BlockLaunches(false);
  while (!gone) std::this_thread::yield();
}

}  // namespace
}  // namespace ftar::device
