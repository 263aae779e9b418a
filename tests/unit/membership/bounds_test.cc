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

class FillBoundsTest : public testing::Test {
 protected:
  static wire::BoundOf Of(MemberId id, const Bound& first, bool fresh_first, const Bound& last = {},
                          bool fresh_last = false) {
    return {id, first, last, fresh_first, fresh_last};
  }
  static wire::ViewEntry Entry(MemberId id, int32_t replica, int32_t shard) {
    wire::ViewEntry entry;
    entry.card.id = id;
    entry.card.replica = replica;
    entry.card.shard = shard;
    return entry;
  }
  static constexpr MemberId kOld{1, 1}, kNew0{2, 1}, kNew1{2, 2};
  const Bound always_{Bound::Kind::kAlways, 0, 0, {}};
};

TEST_F(FillBoundsTest, WhatWasChosenNowIsTheLatestOfAllColumns) {
  std::vector<wire::ViewEntry> entries = {Entry(kOld, 0, 0), Entry(kNew0, 1, 0),
                                          Entry(kNew1, 1, 1)};
  entries[0].last = Step(3);
  FillBounds({{0, {1, 0, {Of(kNew0, Step(4), true)}}}, {1, {1, 1, {Of(kNew1, Step(7), true)}}}},
             &entries);
  EXPECT_EQ(entries[1].first, Step(7));
  EXPECT_EQ(entries[2].first, Step(7));
  EXPECT_EQ(entries[0].last, Bound{});  // of whom no leader tells
}

TEST_F(FillBoundsTest, WhatOneColumnHasHeardOfBindsTheReplicaIfNobodyHasPassedIt) {
  for (const uint64_t chosen : {4, 6}) {
    std::vector<wire::ViewEntry> entries = {Entry(kNew0, 1, 0), Entry(kNew1, 1, 1)};
    FillBounds({{0, {1, 0, {Of(kNew0, always_, false, Step(5))}}},
                {1, {1, 1, {Of(kNew1, always_, false, Step(chosen), true)}}}},
               &entries);
    EXPECT_EQ(entries[0].last, Step(5));
    EXPECT_EQ(entries[1].last, Step(chosen < 5 ? 5 : 6));
  }
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
