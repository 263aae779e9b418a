#include "perf/schedule.h"

#include <gtest/gtest.h>

#include "perf/types.h"

namespace ftar::perf {
namespace {

Options Small() {
  Options options;
  options.collectives = {FTAR_ALLREDUCE};
  options.types = {FTAR_F32};
  options.ops = {FTAR_SUM};
  options.sizes = {4, 8};
  options.warmup = 2;
  options.iters = 3;
  options.check = 1;
  return options;
}

TEST(Schedule, AnOperationsNumberSaysWhatItIs) {
  const Schedule schedule(Small(), false);
  EXPECT_EQ(schedule.size(), 2u * 2u * (1 + 2 + 3 + 1));
  const Phase expected[] = {Phase::kBarrier, Phase::kWarmup, Phase::kWarmup, Phase::kTimed,
                            Phase::kTimed,   Phase::kTimed,  Phase::kCheck};
  for (uint64_t seq = 0; seq < schedule.size(); ++seq) {
    const Slot slot = schedule.At(seq);
    EXPECT_EQ(slot.phase, expected[seq % 7]) << seq;
    EXPECT_EQ(slot.row, seq / 14);
    EXPECT_EQ(slot.in_place, seq / 7 % 2 == 1);
    EXPECT_EQ(slot.first_of_place, seq % 7 == 0);
    EXPECT_EQ(slot.last_of_place, seq % 7 == 6);
  }
}

TEST(Schedule, IterationsAreCountedOverTheRun) {
  Options options = Small();
  options.aggregate = 2;
  const Schedule schedule(options, true);
  EXPECT_EQ(schedule.iterations(), 12u);
  for (uint64_t iteration = 0; iteration < schedule.iterations(); ++iteration) {
    const Slot slot = schedule.At(schedule.SeqOf(iteration));
    EXPECT_EQ(slot.phase, Phase::kTimed);
    EXPECT_EQ(slot.iteration, iteration);
    EXPECT_EQ(slot.index % 2, 0);
    EXPECT_EQ(schedule.At(schedule.SeqOf(iteration) + 1).iteration, iteration);
  }
}

TEST(Schedule, ARunWithoutLauncherSharesTimeThenWrongs) {
  const Schedule schedule(Small(), true);
  EXPECT_EQ(schedule.At(7).phase, Phase::kShareTime);
  EXPECT_EQ(schedule.At(8).phase, Phase::kShareWrong);
  EXPECT_TRUE(schedule.At(8).last_of_place);
}

TEST(Schedule, WithAProductTheTimedIterationsComeTwice) {
  Options options = Small();
  options.matmul = 64;
  const Schedule schedule(options, false);
  EXPECT_EQ(schedule.size(), 2u * 2u * (1 + 2 + 3 + 3 + 1));
  EXPECT_EQ(schedule.At(5).phase, Phase::kTimed);
  EXPECT_EQ(schedule.At(6).phase, Phase::kBeside);
  EXPECT_EQ(schedule.At(6).iteration, 3u) << "no timed iteration: the next one's";
  EXPECT_EQ(schedule.At(8).index, 2);
  EXPECT_EQ(schedule.At(9).phase, Phase::kCheck);
  EXPECT_EQ(schedule.At(schedule.SeqOf(3)).phase, Phase::kTimed);
}

TEST(Schedule, OnePlacementAlone) {
  Options options = Small();
  options.out_of_place = false;
  const Schedule schedule(options, false);
  EXPECT_EQ(schedule.size(), 2u * 7u);
  EXPECT_TRUE(schedule.At(0).in_place);
  EXPECT_EQ(schedule.At(7).row, 1u);
}

TEST(Schedule, CountsBySizeDifferFromRowToRow) {
  Options options = Small();
  options.sizes = {8, 64 << 10, 1 << 30};
  options.iters = options.aggregate = 0;
  const Schedule schedule(options, false);
  const std::vector<Row>& rows = schedule.rows();
  EXPECT_GT(rows[0].aggregate, rows[1].aggregate);
  EXPECT_GT(rows[1].aggregate, 1);
  EXPECT_EQ(rows[2].aggregate, 1);
  EXPECT_GT(rows[0].iters, rows[2].iters);
  EXPECT_GT(rows[2].iters, 1);
  uint64_t iteration = 0;
  for (uint64_t seq = 0; seq < schedule.size(); ++seq) {
    const Slot slot = schedule.At(seq);
    if (slot.phase != Phase::kTimed || slot.index % rows[slot.row].aggregate != 0) continue;
    ASSERT_EQ(slot.iteration, iteration);
    ASSERT_EQ(schedule.SeqOf(iteration), seq);
    ++iteration;
  }
  EXPECT_EQ(iteration, schedule.iterations());
  EXPECT_EQ(schedule.At(schedule.size() - 1).row, 2u);
  EXPECT_TRUE(schedule.At(schedule.size() - 1).last_of_place);
}

TEST(Schedule, SmallOperationsAreWarmedUpForLonger) {
  Options options = Small();
  options.sizes = {8, 1 << 30};
  options.iters = 0;
  options.warmup = -1;
  const Schedule schedule(options, false);
  EXPECT_GT(schedule.rows()[0].warmup, 10);
  EXPECT_EQ(schedule.rows()[1].warmup, 2);
  EXPECT_EQ(schedule.At(1 + schedule.rows()[0].warmup).phase, Phase::kTimed);
}

TEST(Schedule, BucketsMakeOneRowWhosePhasesRunAllOfThem) {
  Options options = Small();
  options.types = {FTAR_BF16};
  options.buckets = {10, 20, 5};
  const Schedule schedule(options, false);
  ASSERT_EQ(schedule.rows().size(), 1u);
  const Row& row = schedule.rows()[0];
  EXPECT_EQ(row.bytes, 70u);
  EXPECT_EQ(row.aggregate, 3);
  EXPECT_EQ(OpBytes(row, 1), 40u);
  EXPECT_EQ(schedule.size(), 2u * (1 + 2 * 3 + 3 * 3 + 1 * 3));
}

TEST(Schedule, RowsAreAllSupportedCombinations) {
  Options options = Small();
  options.collectives = *ParseCollectives("all");
  options.types = {FTAR_F32, FTAR_I8};
  options.ops = *ParseOps("all");
  options.sizes = {4};
  options.root = 1;
  const Schedule schedule(options, false);
  // 6 operators of a float, 5 of an integer; twice, as allreduce and reduce-scatter; then two types
  // of all-gather and broadcast each, and one barrier.
  EXPECT_EQ(schedule.rows().size(), 2u * 11u + 2u + 2u + 1u);
  for (const Row& row : schedule.rows()) {
    EXPECT_TRUE(Supported(row.dtype, row.redop));
    EXPECT_EQ(row.root, row.kind == FTAR_BROADCAST ? 1 : -1);
  }
}

}  // namespace
}  // namespace ftar::perf
