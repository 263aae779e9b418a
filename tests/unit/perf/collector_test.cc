#include "perf/collector.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ftar::perf {
namespace {

using ::testing::HasSubstr;

class CollectorTest : public ::testing::Test {
 protected:
  CollectorTest() {
    options_.ranks = 3;
    options_.collectives = {FTAR_ALLREDUCE};
    options_.types = {FTAR_F32};
    options_.ops = {FTAR_SUM};
    options_.sizes = {4};
    for (int rank = 0; rank < 3; ++rank) collector_.OnStart(rank, true);
  }

  OpRecord Op(uint64_t seq) {
    OpRecord op;
    op.seq = seq;
    op.epoch = 0x10000;
    op.participants = {0, 1, 2};
    op.digest = 5;
    return op;
  }

  void HelloAll() {
    for (int rank = 0; rank < 3; ++rank) collector_.OnRecord(rank, HelloRecord{});
  }

  RowRecord FirstRow() {
    RowRecord row;
    row.time_ns = 1000;
    row.members = 3;
    return row;
  }

  Options options_;
  Schedule schedule_{[this] {
                       options_.collectives = {FTAR_ALLREDUCE};
                       options_.types = {FTAR_F32};
                       options_.ops = {FTAR_SUM};
                       options_.sizes = {4};
                       return options_;
                     }(),
                     false};
  Table table_{options_, schedule_, nullptr};
  Collector collector_{options_, schedule_, &table_};
};

TEST_F(CollectorTest, EqualRecordsAgree) {
  for (int rank = 0; rank < 3; ++rank) collector_.OnRecord(rank, Op(1));
  EXPECT_TRUE(collector_.disagreements().empty());
  EXPECT_TRUE(collector_.Complaints().empty());
}

TEST_F(CollectorTest, EachFieldOfTheVerdictIsCompared) {
  std::vector<OpRecord> others(5, Op(1));
  others[0].digest = 6;
  others[1].participants = {0, 1};
  others[2].epoch = 0x20000;
  others[3].status = FTAR_ERR_MISMATCH;
  others[4].who = 1;
  for (const OpRecord& other : others) EXPECT_NE(Difference(Op(1), other), "");
  collector_.OnRecord(0, Op(1));
  collector_.OnRecord(2, others[0]);
  ASSERT_EQ(collector_.disagreements().size(), 1u);
  EXPECT_THAT(collector_.disagreements()[0], HasSubstr("ranks 0 and 2"));
}

TEST_F(CollectorTest, AMissingParticipantWithoutFaultIsAComplaint) {
  OpRecord op = Op(1);
  op.participants = {0, 2};
  for (int rank = 0; rank < 3; ++rank) collector_.OnRecord(rank, op);
  EXPECT_TRUE(collector_.disagreements().empty());
  ASSERT_EQ(collector_.Complaints().size(), 1u);
}

TEST_F(CollectorTest, AVictimThatStaysIsAComplaint) {
  options_.faults = {*ParseFault("kill:1@0")};
  for (int rank = 0; rank < 3; ++rank) collector_.OnRecord(rank, Op(1));
  ASSERT_EQ(collector_.Complaints().size(), 1u);
  OpRecord later = Op(2);
  later.participants = {0, 2};
  for (int rank : {0, 2}) collector_.OnRecord(rank, later);
  EXPECT_TRUE(collector_.Complaints().empty());
}

TEST_F(CollectorTest, ARowNeedsAllThatLive) {
  HelloAll();
  collector_.OnRecord(0, FirstRow());
  collector_.OnRecord(1, FirstRow());
  EXPECT_EQ(table_.average_bus_bandwidth(), 0);
  collector_.OnGone(2);
  EXPECT_GT(table_.average_bus_bandwidth(), 0);
}

TEST_F(CollectorTest, WrongElementsAddUp) {
  OpRecord op = Op(1);
  op.wrong = 2;
  for (int rank = 0; rank < 3; ++rank) collector_.OnRecord(rank, op);
  EXPECT_EQ(collector_.wrong(), 6u);
}

}  // namespace
}  // namespace ftar::perf
