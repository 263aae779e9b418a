#include "perf/stats.h"

#include <gtest/gtest.h>

namespace ftar::perf {
namespace {

TEST(Stats, QuantilesInterpolate) {
  EXPECT_EQ(Quantile({}, 0.5), 0);
  EXPECT_EQ(Quantile({7}, 0.99), 7);
  EXPECT_DOUBLE_EQ(Quantile({4, 1, 3, 2}, 0.5), 2.5);
  EXPECT_DOUBLE_EQ(Quantile({4, 1, 3, 2}, 0), 1);
  EXPECT_DOUBLE_EQ(Quantile({4, 1, 3, 2}, 1), 4);
}

TEST(Stats, MeanAndDeviation) {
  EXPECT_EQ(Mean({}), 0);
  EXPECT_DOUBLE_EQ(Mean({1, 2, 6}), 3);
  EXPECT_EQ(Deviation({5}), 0);
  EXPECT_DOUBLE_EQ(Deviation({2, 4}), 1.4142135623730951);
}

}  // namespace
}  // namespace ftar::perf
