#include "perf/records.h"

#include <gtest/gtest.h>

namespace ftar::perf {
namespace {

TEST(Records, EachKindSurvivesARoundTrip) {
  OpRecord op;
  op.seq = 7;
  op.epoch = UINT64_MAX;
  op.participants = {0, 3};
  op.digest = 0xfedcba9876543210;
  op.delivered_ns = 123456789;
  RowRecord row;
  row.row = 2;
  row.in_place = true;
  row.wrong = -1;
  row.times_ns = {1, 2, 3};
  row.ideal_ns = {4};
  row.ideal_wrong = 5;
  row.matmul_ns = 6;
  row.matmul_beside_ns = 7;
  row.beside_ns = 8;
  row.bulk_rate = 10;
  CountersRecord counters;
  counters.values[kLinksKept] = 9;
  const Record records[] = {HelloRecord{1, "host", 2, 3, 4, 5, 6},
                            op,
                            EventRecord{1, 2, 3, 4, 5, "gone \"quoted\"\n"},
                            row,
                            counters,
                            EndRecord{500, 6, "evicted"}};
  for (const Record& record : records) {
    const std::string line = Encode(record);
    EXPECT_EQ(line.find('\n'), std::string::npos);
    const auto back = Decode(line);
    ASSERT_TRUE(back.has_value()) << line;
    EXPECT_EQ(back->index(), record.index());
    EXPECT_EQ(Encode(*back), line);
  }
}

TEST(Records, TornLinesAreNotRecords) {
  const std::string line = Encode(EndRecord{0, 1, "x"});
  for (size_t n = 0; n < line.size(); ++n) EXPECT_FALSE(Decode(line.substr(0, n)).has_value());
  EXPECT_FALSE(Decode("{\"t\":\"other\"}").has_value());
  EXPECT_FALSE(Decode("[1]").has_value());
}

}  // namespace
}  // namespace ftar::perf
