// Goal: who may spin, when a waiter gives way, when it sleeps; and that it never goes back while
// nothing comes.
#include "runtime/waiting.h"

#include <gtest/gtest.h>

namespace ftar::runtime {
namespace {

WaitStep Step(int ranks, int cores, TimeNs idle_ns, int idle_polls) {
  WaitInputs in;
  in.ranks_on_host = ranks;
  in.cores = cores;
  in.idle_ns = idle_ns;
  in.idle_polls = idle_polls;
  return NextWaitStep(in);
}

TEST(NextWaitStep, WithACoreForEachRankSpinsThenYieldsThenSleeps) {
  for (const int ranks : {1, 2, 4}) {
    EXPECT_EQ(Step(ranks, 4, 0, 0), WaitStep::kSpin);
    EXPECT_EQ(Step(ranks, 4, 149 * kMicrosecond, 100000), WaitStep::kSpin);
    EXPECT_EQ(Step(ranks, 4, 150 * kMicrosecond, 100000), WaitStep::kYield);
    EXPECT_EQ(Step(ranks, 4, 999 * kMicrosecond, 100000), WaitStep::kYield);
    EXPECT_EQ(Step(ranks, 4, kMillisecond, 100000), WaitStep::kSleep);
  }
}

TEST(NextWaitStep, WithMoreRanksThanCoresSpinsHardlyAtAll) {
  EXPECT_EQ(Step(5, 4, 0, 1), WaitStep::kSpin);
  EXPECT_EQ(Step(5, 4, 0, 2), WaitStep::kYield);
  EXPECT_EQ(Step(5, 4, 299 * kMicrosecond, 2), WaitStep::kYield);
  EXPECT_EQ(Step(5, 4, 300 * kMicrosecond, 2), WaitStep::kSleep);
}

TEST(NextWaitStep, TheProgressThreadAndAViewChangeNeverSpin) {
  for (const int ranks : {1, 8}) {
    WaitInputs in;
    in.ranks_on_host = ranks;
    in.cores = 4;
    EXPECT_NE(NextWaitStep(in), WaitStep::kSleep);
    in.user_thread = false;
    EXPECT_EQ(NextWaitStep(in), WaitStep::kSleep);
    in.user_thread = true;
    in.changing = true;
    EXPECT_EQ(NextWaitStep(in), WaitStep::kSleep);
  }
}

TEST(NextWaitStep, NeverGoesBackWhileNothingComes) {
  for (const int ranks : {2, 4, 64}) {
    WaitStep before = WaitStep::kSpin;
    int polls = 0;
    for (TimeNs idle = 0; idle < 3 * kMillisecond; idle += 5 * kMicrosecond) {
      const WaitStep step = Step(ranks, 4, idle, polls++);
      EXPECT_GE(static_cast<int>(step), static_cast<int>(before)) << ranks << " at " << idle;
      before = step;
    }
    EXPECT_EQ(before, WaitStep::kSleep);
  }
}

TEST(SleepFor, IsTheFirstOfAllAndNeverNegative) {
  EXPECT_EQ(SleepFor(100, 150, 170, 160, 180), 50);
  EXPECT_EQ(SleepFor(100, 190, 120, 160, 180), 20);
  EXPECT_EQ(SleepFor(100, kNever, kNever, 130, kNever), 30);
  EXPECT_EQ(SleepFor(100, kNever, kNever, kNever, 101), 1);
  EXPECT_EQ(SleepFor(100, kNever, 40, kNever, kNever), 0) << "overdue";
  EXPECT_EQ(SleepFor(100, kNever, kNever, kNever, kNever), kNever);
}

}  // namespace
}  // namespace ftar::runtime
