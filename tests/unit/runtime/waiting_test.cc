// Goal: who may spin, when a waiter gives way, when it sleeps; and that it never goes back while
// nothing comes.
#include "runtime/waiting.h"

#include <gtest/gtest.h>

namespace ftar::runtime {
namespace {

WaitStep Step(int ranks, int cores, TimeNs idle_ns, int idle_polls) {
  WaitInputs in;
  in.pace = PaceOf(ranks, cores);
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

// A rank that sleeps because a round of thirty-two lasts long has to be woken for each operation,
// by everybody, which makes the rounds longer still.
TEST(NextWaitStep, TheMoreRanksToACoreTheLongerARoundIsWaitedForAwake) {
  EXPECT_EQ(Step(32, 2, 1500 * kMicrosecond, 50), WaitStep::kYield);
  EXPECT_EQ(Step(32, 2, 1600 * kMicrosecond, 50), WaitStep::kSleep);
  EXPECT_EQ(Step(64, 2, 1600 * kMicrosecond, 50), WaitStep::kYield);
}

TEST(PaceOf, GrowsWithTheRanksOfACoreOnly) {
  const Pace alone = PaceOf(4, 4);
  EXPECT_FALSE(alone.crowded);
  EXPECT_EQ(alone.look_ns, kMillisecond);
  Pace before = alone;
  for (int ranks = 5; ranks <= 1024; ++ranks) {
    const Pace pace = PaceOf(ranks, 4);
    EXPECT_TRUE(pace.crowded);
    EXPECT_GE(pace.round_ns, before.round_ns) << ranks;
    EXPECT_GE(pace.look_ns, before.look_ns) << ranks;
    // Half of a look is how long nobody hears the coordinator (job_fast.cc).
    EXPECT_LT(pace.round_ns, pace.look_ns / 2) << ranks;
    before = pace;
  }
  EXPECT_EQ(PaceOf(64, 4).look_ns, PaceOf(640, 40).look_ns);
}

TEST(NextWaitStep, TheProgressThreadAndAViewChangeNeverSpin) {
  for (const int ranks : {1, 8}) {
    WaitInputs in;
    in.pace = PaceOf(ranks, 4);
    EXPECT_NE(NextWaitStep(in), WaitStep::kSleep);
    in.user_thread = false;
    EXPECT_EQ(NextWaitStep(in), WaitStep::kSleep);
    in.user_thread = true;
    in.changing = true;
    EXPECT_EQ(NextWaitStep(in), WaitStep::kSleep);
  }
}

TEST(NextWaitStep, NeverGoesBackWhileNothingComes) {
  for (const int ranks : {2, 4, 16, 64}) {
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

TEST(GuardUntil, IsNearWhileThereAreCallsAndNeverOnceThereAreNone) {
  const TimeNs now = 100 * kSecond;
  for (const TimeNs ago : {TimeNs{0}, 20 * kMillisecond, 5 * kSecond}) {
    EXPECT_GT(GuardUntil(now, now - ago), now) << ago;
    // Members are called late after much longer, and an idle job takes next to nothing of a core.
    EXPECT_LE(GuardUntil(now, now - ago), now + 50 * kMillisecond) << ago;
    EXPECT_GE(GuardUntil(now, now - ago), now + 10 * kMillisecond) << ago;
  }
  EXPECT_EQ(GuardUntil(now, now - 60 * kSecond), kNever);
}

TEST(GuardIsLate, OnlyOnceItsTurnHasLongCome) {
  const TimeNs until = 100 * kSecond;
  EXPECT_FALSE(GuardIsLate(until - kSecond, until));
  EXPECT_FALSE(GuardIsLate(until, until));
  EXPECT_FALSE(GuardIsLate(until + PaceOf(8, 2).round_ns, until));  // others had the core
  EXPECT_TRUE(GuardIsLate(until + kSecond, until));
  EXPECT_FALSE(GuardIsLate(until, kNever));
}

TEST(GuardStepsBack, ForACallerWhoLeavesNothingBehindAndComesBackSoon) {
  for (const int ranks : {2, 32}) {
    const Pace pace = PaceOf(ranks, 2);
    EXPECT_TRUE(GuardStepsBack(pace, 0, false)) << ranks;
    EXPECT_FALSE(GuardStepsBack(pace, 0, true)) << ranks;
    EXPECT_FALSE(GuardStepsBack(pace, pace.look_ns, false)) << ranks;
    EXPECT_FALSE(GuardStepsBack(pace, kSecond, false)) << ranks;
  }
}

TEST(WaitsAtOnce, WhoComputesInBetweenDoesNot) {
  constexpr TimeNs kMoved = 3 * kSecond;
  EXPECT_TRUE(WaitsAtOnce(kMoved, kMoved));
  EXPECT_TRUE(WaitsAtOnce(kMoved, kMoved + 10 * kMicrosecond));
  EXPECT_FALSE(WaitsAtOnce(kMoved, kMoved + kMillisecond));
}

// Who has gone by frames never writes a line: that is not waited for as long as a copy may take.
TEST(FastPatience, GrowsWithTheBytesOnceAllAreHere) {
  const Pace alone = PaceOf(2, 2), crowded = PaceOf(32, 2);
  constexpr uint64_t kBytes = 4 << 20;
  for (const Pace& pace : {alone, crowded})
    EXPECT_GE(FastPatience(pace, kBytes, true), FastPatience(pace, 8, true) + kMillisecond);
  EXPECT_EQ(FastPatience(alone, kBytes, false), FastPatience(alone, 8, false));
  EXPECT_LE(FastPatience(alone, kBytes, false), 100 * kMicrosecond);
  EXPECT_GE(FastPatience(crowded, 8, false), crowded.round_ns) << "all have had their turn";
}

// All who share the core copy before it is this one's turn again.
TEST(FastPatience, GrowsWithTheRanksOfACore) {
  constexpr uint64_t kBytes = 1 << 20;
  const Pace few = PaceOf(4, 2), many = PaceOf(32, 2);
  const auto grown = [&](const Pace& pace) {
    return FastPatience(pace, kBytes, true) - FastPatience(pace, 0, true);
  };
  EXPECT_EQ(grown(many), 8 * grown(few));
  EXPECT_LE(FastPatience(many, kBytes, false), 10 * kMillisecond);
  EXPECT_EQ(FastPatience(many, kBytes, false), FastPatience(many, 64 * kBytes, false));
}

TEST(SleepFor, IsNeverNegative) {
  EXPECT_EQ(SleepFor(100, 150), 50);
  EXPECT_EQ(SleepFor(100, 40), 0) << "overdue";
  EXPECT_EQ(SleepFor(100, kNever), kNever);
}

}  // namespace
}  // namespace ftar::runtime
