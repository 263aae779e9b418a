#include "membership/failure_detector.h"

#include <gtest/gtest.h>

namespace ftar::membership {
namespace {

constexpr MemberId kA{1, 1}, kB{2, 2}, kC{3, 3};
constexpr TimeNs kTick = kSecond / 10;

wire::Heartbeat Inside(Seq called, Seq delivered, uint64_t counter,
                       std::vector<MemberId> waits_for) {
  return {1, {{7, called, delivered, counter, std::move(waits_for)}}};
}

class FailureDetectorTest : public testing::Test {
 protected:
  FailureDetectorTest() {
    detector_.Configure(kSecond, 0, true);
    for (MemberId id : {kA, kB, kC}) detector_.Watch(now_, id);
  }
  // One tick in which these send the beats given before.
  std::vector<Finding> Tick(std::vector<MemberId> beating) {
    now_ += kTick;
    detector_.Advance(now_);
    for (MemberId id : beating) {
      detector_.Heard(id);
      detector_.Beat(id, beats_[id]);
    }
    return detector_.Check();
  }
  std::vector<Finding> Run(TimeNs duration, const std::vector<MemberId>& beating) {
    std::vector<Finding> all;
    for (const TimeNs end = now_ + duration; now_ < end;) {
      for (const Finding& finding : Tick(beating)) all.push_back(finding);
    }
    return all;
  }

  FailureDetector detector_;
  TimeNs now_ = 5 * kSecond;
  std::map<MemberId, wire::Heartbeat> beats_;
};

TEST_F(FailureDetectorTest, SilenceIsFoundOnceAfterTheTimeout) {
  EXPECT_TRUE(Run(900 * kMillisecond, {kA, kB}).empty());
  const std::vector<Finding> found = Run(2 * kSecond, {kA, kB});
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].kind, Finding::Kind::kSilent);
  EXPECT_EQ(found[0].member, kC);
  EXPECT_GE(found[0].for_ns, kSecond);
  EXPECT_LE(found[0].for_ns, kSecond + kTick);
}

TEST_F(FailureDetectorTest, AnyMessageBreaksTheSilence) {
  Run(900 * kMillisecond, {kA, kB});
  detector_.Heard(kC);
  EXPECT_TRUE(Run(900 * kMillisecond, {kA, kB}).empty());
}

TEST_F(FailureDetectorTest, NextCheckIsNotLaterThanTheEndOfTheTimeout) {
  now_ += 30 * kMillisecond;
  detector_.Advance(now_);
  detector_.Heard(kA);
  detector_.Heard(kB);
  for (int i = 0; i < 9; ++i) Tick({kA, kB});
  EXPECT_EQ(detector_.NextCheck(), 6 * kSecond);  // kC was last heard at 5 s
}

TEST_F(FailureDetectorTest, StuckHoldsEverythingAndStandsStill) {
  beats_[kA] = Inside(3, 2, 10, {});
  beats_[kB] = Inside(3, 2, 10, {kA});
  beats_[kC] = Inside(2, 2, 10, {});
  const std::vector<Finding> found = Run(1200 * kMillisecond, {kA, kB, kC});
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].kind, Finding::Kind::kStuck);
  EXPECT_EQ(found[0].member, kA);
  EXPECT_EQ(found[0].group, 7u);
  EXPECT_EQ(found[0].seq, 2u);
}

TEST_F(FailureDetectorTest, SlowIsNotStuck) {
  for (uint64_t counter = 0; counter < 8; ++counter) {
    beats_[kA] = Inside(3, 2, counter, {});
    EXPECT_TRUE(Run(900 * kMillisecond, {kA, kB, kC}).empty());
  }
}

TEST_F(FailureDetectorTest, WaitingIsNotStuck) {
  beats_[kA] = Inside(3, 2, 10, {kB});
  beats_[kB] = Inside(3, 2, 10, {kA});
  EXPECT_TRUE(Run(5 * kSecond, {kA, kB, kC}).empty());
}

TEST_F(FailureDetectorTest, LateIsShownAndNotEvicted) {
  beats_[kA] = Inside(3, 2, 10, {kB});
  beats_[kB] = Inside(2, 2, 10, {});
  std::vector<TimeNs> shown;
  for (const Finding& finding : Run(10 * kSecond, {kA, kB, kC})) {
    EXPECT_EQ(finding.kind, Finding::Kind::kLate);
    EXPECT_EQ(finding.member, kB);
    shown.push_back(finding.for_ns / kSecond);
  }
  EXPECT_EQ(shown, (std::vector<TimeNs>{1, 2, 4, 8}));
  EXPECT_TRUE(detector_.HoldsOthersUp(kB));
  EXPECT_FALSE(detector_.HoldsOthersUp(kA));
}

TEST_F(FailureDetectorTest, EachOperationStartsTheClockOfLatenessAnew) {
  for (Seq seq = 2; seq < 8; ++seq) {
    beats_[kA] = Inside(seq + 1, seq, 10, {kB});
    beats_[kB] = Inside(seq, seq, 10, {});
    EXPECT_TRUE(Run(900 * kMillisecond, {kA, kB, kC}).empty());
  }
}

TEST_F(FailureDetectorTest, LateTimeoutEvicts) {
  detector_.Configure(kSecond, 3 * kSecond, true);
  beats_[kA] = Inside(3, 2, 10, {kB});
  const std::vector<Finding> found = Run(6 * kSecond, {kA, kB, kC});
  ASSERT_FALSE(found.empty());
  const auto evictions = std::count_if(found.begin(), found.end(), [](const Finding& finding) {
    return finding.kind == Finding::Kind::kLateTooLong;
  });
  EXPECT_EQ(evictions, 1);
}

TEST_F(FailureDetectorTest, TimeSleptThroughCountsForNobody) {
  Run(kSecond, {kA, kB, kC});
  now_ += 3600 * kSecond;  // stopped, or the clock jumped
  EXPECT_TRUE(Run(900 * kMillisecond, {kA, kB}).empty());
  ASSERT_EQ(Run(kSecond, {kA, kB}).size(), 1u) << "the detector must still work afterwards";
}

TEST_F(FailureDetectorTest, TimeInWhichNobodyIsHeardCountsForNobody) {
  Run(kSecond, {kA, kB, kC});
  EXPECT_TRUE(Run(5 * kSecond, {}).empty()) << "its own network";
  EXPECT_TRUE(Run(4900 * kMillisecond, {kA}).empty()) << "the others may come as late again";
  const std::vector<Finding> found = Run(kSecond, {kA, kC});
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].member, kB);
}

TEST_F(FailureDetectorTest, WhoGaveItUpMeanwhileHasAsLongToComeBack) {
  Run(kSecond, {kA, kB, kC});
  EXPECT_EQ(detector_.Grace(), 0);
  Run(600 * kMillisecond, {});
  EXPECT_EQ(detector_.Grace(), kSecond) << "a timeout at least";
  Run(2400 * kMillisecond, {});
  EXPECT_EQ(detector_.Grace(), 3 * kSecond);
  Run(500 * kMillisecond, {kA});
  EXPECT_EQ(detector_.Grace(), 2700 * kMillisecond) << "from the first that was heard again";
  Run(3 * kSecond, {kA, kB, kC});
  EXPECT_EQ(detector_.Grace(), 0);
}

// What was sent to it before comes first, and then nothing again for a while.
TEST_F(FailureDetectorTest, AnEchoOfThePastDoesNotEndTheGrace) {
  Run(3 * kSecond, {});
  Run(100 * kMillisecond, {kA});
  EXPECT_EQ(detector_.Grace(), 3100 * kMillisecond);
  Run(700 * kMillisecond, {});
  EXPECT_EQ(detector_.Grace(), 2400 * kMillisecond);
  Run(100 * kMillisecond, {kB});
  EXPECT_EQ(detector_.Grace(), 2300 * kMillisecond);
  EXPECT_TRUE(Run(2 * kSecond, {kB}).empty());
}

TEST_F(FailureDetectorTest, WhatNobodyCouldHearIsNoStandstill) {
  for (MemberId id : {kA, kB, kC}) beats_[id] = Inside(4, 3, 1, {});
  Run(500 * kMillisecond, {kA, kB, kC});
  Run(3 * kSecond, {});
  EXPECT_TRUE(Run(900 * kMillisecond, {kA}).empty());
}

TEST_F(FailureDetectorTest, NobodyIsHeardForTooLong) {
  EXPECT_EQ(Run(12 * kSecond, {}).size(), 3u);
}

TEST_F(FailureDetectorTest, AClockThatGoesBackStandsStill) {
  Run(kSecond, {kA, kB, kC});
  now_ -= 100 * kSecond;
  EXPECT_TRUE(Run(5 * kSecond, {kA, kB}).empty());
}

TEST_F(FailureDetectorTest, WithoutFaultToleranceNobodyIsFound) {
  detector_.Configure(kSecond, 0, false);
  EXPECT_TRUE(Run(10 * kSecond, {}).empty());
  EXPECT_EQ(detector_.NextCheck(), kNever);
}

TEST_F(FailureDetectorTest, AChangeStartsProgressAnew) {
  beats_[kA] = Inside(3, 2, 10, {});
  Run(900 * kMillisecond, {kA, kB, kC});
  detector_.Restart();
  EXPECT_TRUE(Run(900 * kMillisecond, {kA, kB, kC}).empty());
}

TEST_F(FailureDetectorTest, ForgottenMembersAreNotFound) {
  detector_.Forget(kC);
  EXPECT_TRUE(Run(3 * kSecond, {kA, kB}).empty());
  EXPECT_EQ(detector_.SilentFor(kC), 0);
}

}  // namespace
}  // namespace ftar::membership
