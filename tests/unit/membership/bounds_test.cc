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

TEST(ColumnOf, HasItsMembersInOrderAndNoRoomForOthers) {
  wire::View view;
  view.epoch = 7;
  view.planned = true;
  view.boundary = Step(3);
  view.electorates.push_back({6, {{1, 1}}});
  for (uint64_t number = 0; number < 1000; ++number) {
    wire::ViewEntry entry;
    entry.card.id = {1, number + 1};
    entry.card.shard = static_cast<int32_t>(number % 100);
    view.entries.push_back(entry);
  }
  const wire::View column = ColumnOf(view, 5);
  wire::View expected = view;
  std::erase_if(expected.entries, [](const wire::ViewEntry& e) { return e.card.shard != 5; });
  EXPECT_EQ(column, expected);
  EXPECT_EQ(column.entries.size(), 10u);
  EXPECT_LT(column.entries.capacity(), 100u);
}

}  // namespace
}  // namespace ftar::membership
