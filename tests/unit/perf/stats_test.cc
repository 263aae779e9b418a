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

TEST(Stats, TheMediansIntervalIsThatOfOrderStatistics) {
  std::vector<double> sample;
  for (int i = 21; i >= 1; --i) sample.push_back(i);
  EXPECT_EQ(MedianInterval(sample).low, 6);  // the sixth and the sixteenth of 21, as tables have it
  EXPECT_EQ(MedianInterval(sample).high, 16);
  sample.resize(9);  // 21 to 13: the second and the eighth
  EXPECT_EQ(MedianInterval(sample).low, 14);
  EXPECT_EQ(MedianInterval(sample).high, 20);
  EXPECT_EQ(MedianInterval({3, 1, 2}).low, 1);  // too few to leave any out
  EXPECT_EQ(MedianInterval({3, 1, 2}).high, 3);
  EXPECT_EQ(MedianInterval({4}).high, 4);
  EXPECT_EQ(MedianInterval({}).low, 0);
}

TEST(Stats, TheMediansIntervalOfThousandsIsNoPoint) {
  std::vector<double> sample;
  for (int i = 0; i < 10'000; ++i) sample.push_back(i);
  // 1.96 times half the root of their number.
  EXPECT_NEAR(MedianInterval(sample).low, 5000 - 98, 2);
  EXPECT_NEAR(MedianInterval(sample).high, 5000 + 98, 2);
}

TEST(Stats, MeanAndDeviation) {
  EXPECT_EQ(Mean({}), 0);
  EXPECT_DOUBLE_EQ(Mean({1, 2, 6}), 3);
  EXPECT_EQ(Deviation({5}), 0);
  EXPECT_DOUBLE_EQ(Deviation({2, 4}), 1.4142135623730951);
}

}  // namespace
}  // namespace ftar::perf
