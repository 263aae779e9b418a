#include "membership/bounds.h"

#include <gtest/gtest.h>

namespace ftar::membership {
namespace {

using wire::Bound;

Bound Step(uint64_t step) { return {Bound::Kind::kStep, step, 0, {}}; }

TEST(LatestBound, TakesTheLatestStep) {
  LatestBound latest;
  latest.Add(Step(4));
  latest.Add(Step(7));
  latest.Add(Step(5));
  EXPECT_EQ(latest.Common(), Step(7));
  EXPECT_EQ(latest.Of(Step(4)), Step(7));
}

TEST(LatestBound, TakesTheLatestOfEachGroupAgainstTheOthersDefault) {
  LatestBound latest;
  latest.Add({Bound::Kind::kSeq, 0, 10, {{1, 3}, {2, 30}}});
  latest.Add({Bound::Kind::kSeq, 0, 12, {{1, 5}, {3, 11}}});
  EXPECT_EQ(latest.Common(), (Bound{Bound::Kind::kSeq, 0, 12, {{1, 5}, {2, 30}, {3, 11}}}));
}

TEST(LatestBound, MixedKindsHaveNothingInCommon) {
  LatestBound latest;
  const Bound seq{Bound::Kind::kSeq, 0, 10, {}};
  latest.Add(Step(4));
  latest.Add(seq);
  latest.Add(Step(6));
  EXPECT_FALSE(latest.Common());
  EXPECT_EQ(latest.Of(Step(4)), Step(6));
  EXPECT_EQ(latest.Of(seq), seq);
}

TEST(LatestBound, WhatIsNoBoundaryIsNotInCommon) {
  LatestBound latest;
  EXPECT_FALSE(latest.Common());
  latest.Add(Step(4));
  latest.Add({Bound::Kind::kAlways, 0, 0, {}});
  EXPECT_FALSE(latest.Common());
}

}  // namespace
}  // namespace ftar::membership
