#include "wire/view.h"

#include <gtest/gtest.h>

namespace ftar::wire {
namespace {

TEST(Bound, NoneIsNeverReachedAndAlwaysIs) {
  EXPECT_FALSE((Bound{Bound::Kind::kNone, 0, 0, {}}.Reached(1, 100, 100)));
  EXPECT_TRUE((Bound{Bound::Kind::kAlways, 9, 9, {}}.Reached(1, 0, 0)));
}

TEST(Bound, StepLooksAtTheStepAlone) {
  const Bound bound{Bound::Kind::kStep, 5, 100, {{1, 100}}};
  EXPECT_FALSE(bound.Reached(1, 1000, 4));
  EXPECT_TRUE(bound.Reached(1, 0, 5));
}

TEST(Bound, SeqHasADefaultForGroupsNotListed) {
  const Bound bound{Bound::Kind::kSeq, 0, 3, {{7, 10}}};
  EXPECT_FALSE(bound.Reached(7, 9, 99));
  EXPECT_TRUE(bound.Reached(7, 10, 0));
  EXPECT_FALSE(bound.Reached(8, 2, 0));
  EXPECT_TRUE(bound.Reached(8, 3, 0));
}

TEST(ViewEntry, LastIsExclusive) {
  ViewEntry entry;
  entry.first = {Bound::Kind::kSeq, 0, 2, {}};
  entry.last = {Bound::Kind::kSeq, 0, 4, {}};
  EXPECT_FALSE(entry.Contains(1, 1, 0));
  EXPECT_TRUE(entry.Contains(1, 2, 0));
  EXPECT_TRUE(entry.Contains(1, 3, 0));
  EXPECT_FALSE(entry.Contains(1, 4, 0));
}

TEST(View, FindsByMember) {
  View view;
  view.entries.resize(2);
  view.entries[1].card.id = {3, 4};
  EXPECT_EQ(view.Find({3, 4}), &view.entries[1]);
  EXPECT_EQ(view.Find({4, 3}), nullptr);
}

TEST(WireCosts, OfThoseWhoKnowEachByItself) {
  EXPECT_EQ(MedianOf({}), WireCosts());
  EXPECT_EQ(MedianOf({{0, 0}, {7, 0}}), (WireCosts{7, 0}));
  EXPECT_EQ(MedianOf({{9, 1}, {1, 30}, {5, 0}, {0, 20}}), (WireCosts{5, 20}));
  EXPECT_EQ(MedianOf({{4, 0}, {2, 0}}), (WireCosts{2, 0})) << "the lower one of an even number";
}

}  // namespace
}  // namespace ftar::wire
