// Goal: who gets how much time, apart from who has links and connections.
#include "membership/suspects.h"

#include <gtest/gtest.h>

#include "membership/failure_detector.h"

namespace ftar::membership {
namespace {

class SuspectsTest : public testing::Test {
 protected:
  using Links = Suspects::Links;
  static constexpr TimeNs kTimeout = 1000, kCluster = 2;
  static constexpr MemberId kA{1, 1}, kB{1, 2};

  SuspectsTest() : suspects_(kCluster) { suspects_.Configure(kTimeout); }

  void Close(MemberId id, Links links = Links::kNone, bool reset = false, bool away = false) {
    suspects_.OnClosed(now_, id, {"closed", links, reset, away, 0});
  }
  // At its time, which is to be so far away.
  Suspects::Verdict JudgeAfter(TimeNs wait, MemberId id, Links links,
                               const Suspects::Census& census) {
    EXPECT_EQ(suspects_.NextDeadline(), now_ + wait);
    now_ += wait;
    EXPECT_EQ(suspects_.DueAt(now_ - 1).ids.size(), 0u);
    EXPECT_EQ(suspects_.DueAt(now_).ids, std::vector<MemberId>{id});
    return suspects_.Judge(now_, id, links, census);
  }
  static constexpr Suspects::Census kOneOf4{4, 4, 1, false, false};
  static constexpr Suspects::Census k3Of4{4, 4, 3, false, false};

  TimeNs now_ = 100;
  Suspects suspects_;
};

TEST_F(SuspectsTest, OneConnectionIsEvidenceEnough) {
  Close(kA);
  const Suspects::Verdict verdict = JudgeAfter(kCluster, kA, Links::kNone, kOneOf4);
  EXPECT_TRUE(verdict.lost);
  EXPECT_EQ(verdict.text, "closed");
  EXPECT_TRUE(suspects_.empty());
  EXPECT_FALSE(suspects_.Judge(now_, kA, Links::kNone, kOneOf4).lost);
}

TEST_F(SuspectsTest, MoreThanHalfHaveTimeToComeBack) {
  Close(kA);
  Suspects::Verdict verdict = JudgeAfter(kCluster, kA, Links::kNone, k3Of4);
  EXPECT_TRUE(verdict.waits);
  EXPECT_FALSE(verdict.lost);
  EXPECT_TRUE(JudgeAfter(kTimeout / 2, kA, Links::kNone, k3Of4).lost);
  // Who holds a link has it twice, and is told of once.
  Close(kB, Links::kSome);
  EXPECT_TRUE(JudgeAfter(kCluster, kB, Links::kSome, k3Of4).waits);
  verdict = JudgeAfter(kTimeout / 2, kB, Links::kSome, k3Of4);
  EXPECT_FALSE(verdict.lost || verdict.waits);
  EXPECT_TRUE(JudgeAfter(kTimeout / 2, kB, Links::kSome, k3Of4).lost);
}

TEST_F(SuspectsTest, WhoeverIsAloneIsPatientUnlessSomebodyWaitsForThePlace) {
  const Suspects::Census alone{2, 2, 2, true, false};
  Close(kA);
  const TimeNs began = now_;
  while (!JudgeAfter(suspects_.NextDeadline() - now_, kA, Links::kNone, alone).lost) {
  }
  EXPECT_GE(now_ - began, kAloneTimeouts * kTimeout);
  Close(kB);
  suspects_.Judge(now_ + kCluster, kB, Links::kNone, alone);
  suspects_.ReplaceAll();
  EXPECT_TRUE(JudgeAfter(kTimeout / 2, kB, Links::kNone, alone).lost);
}

TEST_F(SuspectsTest, AResetIsNoDeathUntilTheLinksAreLost) {
  Close(kA, Links::kSome, true);
  EXPECT_EQ(suspects_.NextDeadline(), now_ + kTimeout / 2);
  EXPECT_TRUE(suspects_.PutOff(now_, kA, false));
  EXPECT_FALSE(suspects_.PutOff(now_, kB, true));
  suspects_.Hasten(now_, kA);
  EXPECT_TRUE(JudgeAfter(kCluster, kA, Links::kNone, kOneOf4).lost);
  Close(kB, Links::kNobodyTells, false, true);
  EXPECT_EQ(suspects_.NextDeadline(), now_ + kTimeout / 4);
}

TEST_F(SuspectsTest, TroubleGivesTimeOnceToWhoMayHoldLinks) {
  suspects_.ExpectTrouble(now_);
  Close(kA, Links::kSome);
  EXPECT_FALSE(JudgeAfter(kCluster, kA, Links::kSome, kOneOf4).lost);
  EXPECT_TRUE(JudgeAfter(kTimeout / 2 - kCluster, kA, Links::kSome, kOneOf4).lost);
  suspects_.ExpectTrouble(now_);
  Close(kB);
  EXPECT_TRUE(JudgeAfter(kCluster, kB, Links::kNone, kOneOf4).lost);
}

TEST_F(SuspectsTest, AWordEndsSilenceAlone) {
  suspects_.Await(now_, kA, kTimeout, "silence", "no heartbeat");
  Close(kB);
  suspects_.Await(now_, kB, kTimeout, "silence", "is suspected already");
  EXPECT_TRUE(suspects_.OnHeard(kA));
  EXPECT_FALSE(suspects_.OnHeard(kA));
  EXPECT_FALSE(suspects_.OnHeard(kB));
  EXPECT_EQ(suspects_.Ids(), std::vector<MemberId>{kB});
}

TEST_F(SuspectsTest, NewcomersCountThatCloseAtTheSameTimeOrAfter) {
  for (const TimeNs at : {100, 197, 198, 250}) suspects_.OnNewcomerClosed(at);
  EXPECT_EQ(suspects_.NewcomersClosed(300, 200), 2u);
  EXPECT_EQ(suspects_.NewcomersClosed(251 + kTimeout, 0), 0u);
}

}  // namespace
}  // namespace ftar::membership
