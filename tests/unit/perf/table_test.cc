#include "perf/table.h"

#include <gtest/gtest.h>

namespace ftar::perf {
namespace {

Row FloatRow(ftarKind_t kind, uint64_t bytes) {
  Row row;
  row.kind = kind;
  row.bytes = bytes;
  return row;
}

RowRecord Timed(int64_t time_ns, int64_t wrong, int32_t members) {
  RowRecord record;
  record.time_ns = time_ns;
  record.wrong = wrong;
  record.members = members;
  return record;
}

TEST(Table, BandwidthsAreThoseOfNcclTests) {
  const std::vector<RowRecord> records = {Timed(1'000'000, 0, 4), Timed(3'000'000, 2, 4)};
  const PlaceResult mean = Combine(FloatRow(FTAR_ALLREDUCE, 4'000'000), records, Average::kMean);
  EXPECT_DOUBLE_EQ(mean.time_us, 2000);
  EXPECT_DOUBLE_EQ(mean.algorithm_bandwidth, 2);
  EXPECT_DOUBLE_EQ(mean.bus_bandwidth, 3);  // 2(n-1)/n
  EXPECT_EQ(mean.wrong, 2);
  EXPECT_DOUBLE_EQ(
      Combine(FloatRow(FTAR_ALLGATHER, 4'000'000), records, Average::kMin).bus_bandwidth, 3);
  EXPECT_DOUBLE_EQ(
      Combine(FloatRow(FTAR_BROADCAST, 3'000'000), records, Average::kMax).bus_bandwidth, 1);
  EXPECT_DOUBLE_EQ(Combine(FloatRow(FTAR_ALLREDUCE, 4), records, Average::kRank0).time_us, 1000);
}

TEST(Table, RankWithoutTimeDoesNotCount) {
  const PlaceResult result =
      Combine(FloatRow(FTAR_ALLREDUCE, 4), {Timed(0, 0, 2), Timed(5000, 0, 2)}, Average::kMean);
  EXPECT_DOUBLE_EQ(result.time_us, 5);
}

TEST(Table, TheGapIsTheMedianOfThePairs) {
  // Three pairs of two iterations: the machine was slower in the second, for both.
  const Gap gap = GapOf({2, 2, 40, 40, 3, 3}, {1, 1, 20, 20, 1, 1}, 3);
  EXPECT_EQ(gap.ratios, (std::vector<double>{2, 2, 3}));
  EXPECT_EQ(gap.ratio, 2);
  EXPECT_EQ(gap.interval.low, 2);
  EXPECT_EQ(gap.interval.high, 3);
  EXPECT_EQ(gap.ideal_us, 1);
}

TEST(Table, TheTailHasPercentilesAndTheGap) {
  RowRecord record = Timed(5000, 0, 2);
  record.times_ns = {4000, 6000};
  record.ideal_ns = {2000, 2000};
  record.moved = 40;
  record.ideal_moved = 20;
  Row row = FloatRow(FTAR_ALLREDUCE, 4);
  row.pairs = 1;
  row.iters = 2;
  const PlaceResult place = Combine(row, {record, record}, Average::kMean);
  ASSERT_TRUE(place.gap.has_value());
  EXPECT_EQ(place.gap->ratio, 2.5);
  EXPECT_EQ(FormatTail(place),
            "     5.00     5.90     5.98     2.00   2.500   2.500   2.500    5.00    2.50");
  Options options;
  options.per_iteration = true;
  options.in_place = false;
  options.ideal = IdealKind::kPull;
  EXPECT_EQ(TailTitles(options, false).size(), FormatTail(place).size());
  EXPECT_EQ(TailTitles(options, true).size(), FormatTail(place).size());
  EXPECT_EQ(FormatTail(std::nullopt), "");
}

TEST(Table, TheSlowdownIsOfBothSides) {
  RowRecord record = Timed(5000, 0, 2);
  record.matmul_ns = 10'000;
  record.matmul_beside_ns = 12'000;
  record.beside_ns = 10'000;
  const Row row = FloatRow(FTAR_ALLREDUCE, 4);
  const PlaceResult place = Combine(row, {record, record}, Average::kMean);
  ASSERT_TRUE(place.slowdown.has_value());
  EXPECT_DOUBLE_EQ(place.slowdown->product_us, 10);
  EXPECT_NEAR(place.slowdown->product_percent, 20, 1e-9);
  EXPECT_NEAR(place.slowdown->operation_percent, 100, 1e-9);
  EXPECT_EQ(FormatTail(place), "     20.0    100.0");
  // What one rank does not know is not made up from the others.
  record.matmul_beside_ns = 0;
  EXPECT_FALSE(Combine(row, {record}, Average::kMean).slowdown.has_value());
}

TEST(Table, TheBandwidthBesideIsTheMeanOfTheRanks) {
  RowRecord record = Timed(5000, 0, 2), other = record;
  const Row row = FloatRow(FTAR_ALLREDUCE, 4);
  EXPECT_FALSE(Combine(row, {record, other}, Average::kMean).bulk_bandwidth.has_value());
  record.bulk_rate = 1'000'000'000;
  other.bulk_rate = 2'000'000'000;
  const PlaceResult place = Combine(row, {record, other}, Average::kMean);
  EXPECT_EQ(FormatTail(place), "     1.50");
  Options options;
  options.out_of_place = false;
  options.beside_bytes = 4;
  EXPECT_EQ(TailTitles(options, false).size(), FormatTail(place).size());
}

TEST(Table, ColumnsHaveTheWidthsOfNcclTests) {
  PlaceResult place;
  place.time_us = 9.1;
  place.algorithm_bandwidth = 1.25;
  place.bus_bandwidth = 2.5;
  place.wrong = 0;
  PlaceResult unchecked = place;
  unchecked.wrong = -1;
  unchecked.time_us = 12345.6;
  EXPECT_EQ(FormatRow(FloatRow(FTAR_ALLREDUCE, 1024), 256, 1024, place, unchecked),
            "        1024           256     float     sum      -1     9.10    1.25    2.50       0"
            "    12346    1.25    2.50     N/A");
  EXPECT_EQ(FormatRow(FloatRow(FTAR_BARRIER, 0), 0, 0, place, std::nullopt),
            "           0             0      none    none      -1     9.10    1.25    2.50       0"
            "        -       -       -       -");
}

}  // namespace
}  // namespace ftar::perf
