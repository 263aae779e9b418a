// Goal: a kernel's bars are of the grid that is chosen for it, and of no other that was measured.
#include <gtest/gtest.h>

#include "perf/kernel_bench/bench.h"

namespace ftar::kernel_bench {
namespace {

Row Sum(int blocks, int sources, double of_copy, double us) {
  Row row;
  row.kernel = "sum";
  row.type = "f32";
  row.cache = "out";
  row.blocks = blocks;
  row.threads = 512;
  row.sources = sources;
  row.of_copy = of_copy;
  row.us = us;
  row.result_gbs = 1000 / us;
  return row;
}

Row Curve(Row row) {
  row.curve = true;
  return row;
}

Row Checked(Row row, double us) {
  row.checksum = true;
  row.us = us;
  return row;
}

TEST(KernelBars, NothingMeasuredIsNothingMet) {
  const Bars bars = BarsOf({});
  EXPECT_EQ(bars.share, 0);
  EXPECT_EQ(bars.two_blocks_gbs, 0);
}

TEST(KernelBars, TheWorstOfWhatIsChosenCounts) {
  std::vector<Row> rows = {Sum(264, 2, 0.97, 100), Sum(264, 16, 0.93, 300), Sum(2, 2, 0.05, 10),
                           Sum(2, 4, 0.06, 5), Sum(264, 4, 0.5, 1)};
  rows.back().cache = "in";
  rows.push_back(Checked(rows[1], 303));
  const Bars bars = BarsOf(rows);
  EXPECT_EQ(bars.share, 0.93);
  EXPECT_EQ(bars.two_blocks_gbs, 100);
  EXPECT_NEAR(bars.checksum_cost, 0.01, 1e-9);
}

// A block on each second place, one pack at a time: slow, and nobody's choice.
TEST(KernelBars, CurvesAreNoBars) {
  const std::vector<Row> rows = {Sum(264, 2, 0.97, 100), Sum(2, 2, 0.05, 10),
                                 Curve(Sum(132, 2, 0.6, 160)), Curve(Sum(2, 2, 0.05, 1))};
  const Bars bars = BarsOf(rows);
  EXPECT_EQ(bars.share, 0.97);
  EXPECT_EQ(bars.two_blocks_gbs, 100);
}

}  // namespace
}  // namespace ftar::kernel_bench
