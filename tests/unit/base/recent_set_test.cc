#include "base/recent_set.h"

#include <gtest/gtest.h>

#include "base/ids.h"

namespace ftar {
namespace {

TEST(RecentSet, HoldsTheNewest) {
  RecentSet<MemberId> set(3);
  for (uint64_t i = 1; i <= 3; ++i) set.Add({i, 0});
  EXPECT_TRUE(set.Contains({1, 0}));
  set.Add({4, 0});
  EXPECT_FALSE(set.Contains({1, 0}));
  for (uint64_t i = 2; i <= 4; ++i) EXPECT_TRUE(set.Contains({i, 0}));
}

TEST(RecentSet, WhatIsThereTakesOnePlace) {
  RecentSet<MemberId> set(2);
  set.Add({1, 0});
  for (int i = 0; i < 5; ++i) set.Add({2, 0});
  EXPECT_TRUE(set.Contains({1, 0}));
  set.Add({3, 0});
  EXPECT_FALSE(set.Contains({1, 0}));
  EXPECT_TRUE(set.Contains({2, 0}));
}

TEST(RecentSet, DoesNotGrowForEver) {
  RecentSet<MemberId> set(100);
  for (uint64_t i = 0; i < 10'000; ++i) set.Add({i, i});
  EXPECT_EQ(set.size(), 100u);
  EXPECT_TRUE(set.Contains({9'999, 9'999}));
}

}  // namespace
}  // namespace ftar
