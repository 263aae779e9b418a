// Goal: inputs are copied into the lane the way that makes operations shorter, whatever the others
// think, and a change is found out.
#include "runtime/lane_way.h"

#include <gtest/gtest.h>

#include <utility>

namespace ftar::runtime {
namespace {

constexpr uint64_t kShort = 4096, kLong = 16384;
constexpr Seq kEnough = 20'000;

// Operations [from, to) that take so long with each way; how many of a hundred streamed.
Seq Go(LaneWay* way, Seq from, Seq to, uint64_t bytes, TimeNs cached_ns, TimeNs streamed_ns) {
  Seq streamed = 0;
  for (Seq seq = from; seq < to; ++seq) {
    const bool streams = way->Streams(seq, bytes);
    way->Begin(bytes);
    if (way->Samples(seq, bytes)) way->Note(seq, bytes, streams ? streamed_ns : cached_ns);
    streamed += streams ? 1 : 0;
  }
  return 100 * streamed / (to - from);
}

TEST(LaneWay, GoesTheFasterWay) {
  LaneWay shared, apart;
  EXPECT_LE(Go(&shared, 0, kEnough, kLong, 2400, 4700), 2);
  EXPECT_GE(Go(&apart, 0, kEnough, kLong, 7400, 4100), 97);
}

TEST(LaneWay, EachSizeHasItsOwn) {
  LaneWay way;
  Go(&way, 0, kEnough, kLong, 7400, 4100);
  EXPECT_LE(Go(&way, kEnough, 2 * kEnough, kShort, 1700, 1900), 2);
  EXPECT_GE(Go(&way, 2 * kEnough, 3 * kEnough, kLong, 7400, 4100), 97);
}

TEST(LaneWay, ASizeIsTriedWhenItComesFirst) {
  LaneWay way;
  Go(&way, 0, kEnough, kShort, 1700, 1900);
  EXPECT_GE(Go(&way, kEnough + 100, kEnough + 150, kLong, 7400, 4100), 40);
  EXPECT_EQ(Go(&way, kEnough + 150, kEnough + 200, kLong, 7400, 4100), 100);
}

TEST(LaneWay, FindsOutWhenItChanges) {
  LaneWay way;
  Go(&way, 0, kEnough, kLong, 2400, 4700);
  EXPECT_GE(Go(&way, kEnough, 2 * kEnough, kLong, 7400, 4100), 75) << "within some trials";
  EXPECT_LE(Go(&way, 2 * kEnough, 3 * kEnough, kLong, 2400, 4700), 15);
}

TEST(LaneWay, WhoComesLateSaysNothingOfMemory) {
  LaneWay way;
  for (Seq seq = 0; seq < kEnough; ++seq) {
    const TimeNs late = seq % 3 == 0 ? 0 : 100'000 + 7 * static_cast<TimeNs>(seq % 1000);
    if (way.Samples(seq, kLong))
      way.Note(seq, kLong, late + (way.Streams(seq, kLong) ? 4700 : 2400));
  }
  EXPECT_FALSE(way.Streams(kEnough, kLong));
}

TEST(LaneWay, OneLateOperationDecidesNothing) {
  LaneWay way;
  bool late = false;
  for (Seq seq = 4000; seq < 4060; ++seq) {  // far from the next trial
    const bool streams = way.Streams(seq, kLong);
    if (!way.Samples(seq, kLong)) continue;
    way.Note(seq, kLong, !streams ? 7400 : std::exchange(late, true) ? 4100 : 1'000'000);
  }
  EXPECT_TRUE(way.Streams(4060, kLong));
}

// A first time may be dear for its own sake.
TEST(LaneWay, AFirstTrialIsSoonDoneAgain) {
  constexpr uint64_t kShared = 256 * 1024;
  LaneWay way;
  Go(&way, kEnough, kEnough + 40, kShared, 54'000, 600'000);
  EXPECT_LE(Go(&way, kEnough + 40, kEnough + 160, kShared, 122'000, 54'000), 0);
  Go(&way, kEnough + 160, kEnough + 240, kShared, 122'000, 54'000);
  EXPECT_EQ(Go(&way, kEnough + 240, kEnough + 250, kShared, 122'000, 54'000), 100);
}

TEST(LaneWay, InTrialsAllCopyAlike) {
  LaneWay shared, apart;
  Go(&shared, 0, kEnough, kLong, 2400, 4700);
  Go(&apart, 0, kEnough, kLong, 7400, 4100);
  int differ = 0;
  for (Seq seq = kEnough; seq < 2 * kEnough; ++seq) {
    const bool alike = shared.Streams(seq, kLong) == apart.Streams(seq, kLong);
    EXPECT_TRUE(alike || !shared.Samples(seq, kLong)) << seq;
    differ += alike ? 0 : 1;
  }
  EXPECT_GT(differ, 0);
}

}  // namespace
}  // namespace ftar::runtime
