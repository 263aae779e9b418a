#include "membership/no_quorum.h"

#include <gtest/gtest.h>

namespace ftar::membership {
namespace {

TEST(NoQuorum, IsHeardOnceAConnectionAndAgainTheNextTime) {
  NoQuorum no_quorum;
  EXPECT_TRUE(no_quorum.Begin("two of five"));
  EXPECT_TRUE(no_quorum.IsToHear(1));
  EXPECT_FALSE(no_quorum.Begin("one of five"));
  EXPECT_FALSE(no_quorum.IsToHear(1));
  EXPECT_TRUE(no_quorum.IsToHear(2));
  EXPECT_EQ(no_quorum.why(), "one of five");
  EXPECT_TRUE(no_quorum.End());
  EXPECT_FALSE(no_quorum.End());
  EXPECT_TRUE(no_quorum.Begin("two of five"));
  EXPECT_TRUE(no_quorum.IsToHear(1));
}

TEST(NoQuorum, IsDueForWhoIsBackWhileItIsLacking) {
  NoQuorum no_quorum;
  no_quorum.OnReconnect();
  EXPECT_FALSE(no_quorum.due());
  no_quorum.Begin("two of five");
  EXPECT_FALSE(no_quorum.due());
  no_quorum.OnReconnect();
  EXPECT_TRUE(no_quorum.due());
  no_quorum.Begin("two of five");
  EXPECT_FALSE(no_quorum.due());
}

TEST(NoQuorum, TheFirstTimeToStandDownCountsUnlessSomebodyIsComing) {
  NoQuorum no_quorum;
  no_quorum.StayUntil(50);
  EXPECT_EQ(no_quorum.stand_down_at(), kNever);
  no_quorum.StandDownBy(100);
  no_quorum.StandDownBy(200);
  no_quorum.StayUntil(50);
  EXPECT_EQ(no_quorum.stand_down_at(), 100);
  no_quorum.StayUntil(150);
  EXPECT_EQ(no_quorum.stand_down_at(), 150);
  no_quorum.Stay();
  EXPECT_EQ(no_quorum.stand_down_at(), kNever);
}

}  // namespace
}  // namespace ftar::membership
