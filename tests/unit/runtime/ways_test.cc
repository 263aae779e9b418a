// Goal: of some ways the one that makes operations shorter is gone, size by size, whatever the
// others think, and a change is found out; and what is made in such ways: what is copied into the
// lane, and what two share.
#include "runtime/ways.h"

#include <gtest/gtest.h>

#include <array>
#include <utility>

#include "runtime/lane_way.h"
#include "runtime/share_way.h"

namespace ftar::runtime {
namespace {

constexpr uint64_t kKiB = 1024, kShort = 4 * kKiB, kLong = 16 * kKiB, kMiB = 1024 * kKiB;
constexpr Seq kEnough = 20'000;

Ways Two() {
  return Ways({.ways = 2, .trial = 20, .samples = 4, .every = 2048},
              {.above = kKiB, .first = 2 * kShort, .most = 32 * kLong});
}

// Operations [from, to) that take so long each way; how many of a hundred went the second.
Seq Go(Ways* ways, Seq from, Seq to, uint64_t bytes, std::array<TimeNs, 2> spent) {
  Seq second = 0;
  for (Seq seq = from; seq < to; ++seq) {
    const size_t way = ways->Of(seq, bytes);
    ways->Begin(bytes);
    if (ways->Samples(seq, bytes)) ways->Note(seq, bytes, spent[way]);
    second += way;
  }
  return 100 * second / (to - from);
}

TEST(Ways, GoesTheFasterOne) {
  Ways first = Two(), second = Two();
  EXPECT_LE(Go(&first, 0, kEnough, kLong, {2400, 4700}), 2);
  EXPECT_GE(Go(&second, 0, kEnough, kLong, {7400, 4100}), 97);
}

TEST(Ways, EachSizeHasItsOwn) {
  Ways ways = Two();
  Go(&ways, 0, kEnough, kLong, {7400, 4100});
  EXPECT_LE(Go(&ways, kEnough, 2 * kEnough, kShort, {1700, 1900}), 2);
  EXPECT_GE(Go(&ways, 2 * kEnough, 3 * kEnough, kLong, {7400, 4100}), 97);
}

TEST(Ways, WhatIsShorterOrLongerThanAllSizesIsNotTried) {
  for (const uint64_t bytes : {kKiB, 32 * kLong + 1, 1024 * kMiB}) {
    Ways ways = Two();
    for (Seq seq = 0; seq < kEnough; ++seq) {
      ways.Begin(bytes);
      ASSERT_FALSE(ways.Samples(seq, bytes)) << bytes;
      ASSERT_EQ(ways.Of(seq, bytes), 0u) << bytes;
    }
  }
}

// The first and the last of each size: none lies beyond the table.
TEST(Ways, AllBetweenIsTried) {
  constexpr uint64_t kEnds[] = {kKiB + 1, 2 * kShort, 2 * kShort + 1, kLong, kLong + 1, 32 * kLong};
  for (const uint64_t bytes : kEnds) {
    Ways ways = Two();
    EXPECT_GE(Go(&ways, 0, kEnough, bytes, {7400, 4100}), 97) << bytes;
  }
}

TEST(Ways, ASizeIsTriedWhenItComesFirst) {
  Ways ways = Two();
  Go(&ways, 0, kEnough, kShort, {1700, 1900});
  EXPECT_GE(Go(&ways, kEnough + 100, kEnough + 150, kLong, {7400, 4100}), 40);
  EXPECT_EQ(Go(&ways, kEnough + 150, kEnough + 200, kLong, {7400, 4100}), 100);
}

TEST(Ways, FindsOutWhenItChanges) {
  Ways ways = Two();
  Go(&ways, 0, kEnough, kLong, {2400, 4700});
  EXPECT_GE(Go(&ways, kEnough, 2 * kEnough, kLong, {7400, 4100}), 75) << "within some trials";
  EXPECT_LE(Go(&ways, 2 * kEnough, 3 * kEnough, kLong, {2400, 4700}), 15);
}

TEST(Ways, WhoComesLateSaysNothingOfMemory) {
  Ways ways = Two();
  for (Seq seq = 0; seq < kEnough; ++seq) {
    const TimeNs late = seq % 3 == 0 ? 0 : 100'000 + 7 * static_cast<TimeNs>(seq % 1000);
    if (ways.Samples(seq, kLong))
      ways.Note(seq, kLong, late + (ways.Of(seq, kLong) == 1 ? 4700 : 2400));
  }
  EXPECT_EQ(ways.Of(kEnough, kLong), 0u);
}

TEST(Ways, OneLateOperationDecidesNothing) {
  Ways ways = Two();
  bool late = false;
  for (Seq seq = 4000; seq < 4060; ++seq) {  // far from the next trial
    const bool second = ways.Of(seq, kLong) == 1;
    ways.Begin(kLong);
    if (!ways.Samples(seq, kLong)) continue;
    ways.Note(seq, kLong, !second ? 7400 : std::exchange(late, true) ? 4100 : 1'000'000);
  }
  EXPECT_EQ(ways.Of(4060, kLong), 1u);
}

// A first time may be dear for its own sake.
TEST(Ways, AFirstTrialIsSoonDoneAgain) {
  Ways ways = Two();
  Go(&ways, kEnough, kEnough + 40, kLong, {54'000, 600'000});
  EXPECT_LE(Go(&ways, kEnough + 40, kEnough + 160, kLong, {122'000, 54'000}), 0);
  Go(&ways, kEnough + 160, kEnough + 240, kLong, {122'000, 54'000});
  EXPECT_EQ(Go(&ways, kEnough + 240, kEnough + 250, kLong, {122'000, 54'000}), 100);
}

// What a trial said wrongly is found out by those that go that way.
TEST(Ways, TheWayThatIsGoneIsTimedBetweenTrials) {
  Ways ways = Two();
  Go(&ways, 0, 4000, kLong, {7400, 4100});
  for (Seq seq = 4000; seq < 4090; ++seq) {  // far from the next trial
    ASSERT_FALSE(ways.Samples(seq, kLong));
    const bool second = ways.Of(seq, kLong) == 1;
    ways.Note(seq, kLong, second ? 9000 : 7400);
    EXPECT_EQ(second, seq < 4008) << seq;
  }
}

TEST(Ways, OneLateOperationBetweenTrialsDecidesNothing) {
  Ways ways = Two();
  Go(&ways, 0, 4000, kLong, {7400, 4100});
  for (Seq seq = 4000; seq < 4090; ++seq) {
    ways.Note(seq, kLong, seq % 8 < 7 ? 1'000'000 : 4100);
    EXPECT_EQ(ways.Of(seq, kLong), 1u) << seq;
  }
}

TEST(Ways, TheFirstAreTriedNoWay) {
  Ways ways = Two();
  for (Seq seq = 0; seq < 4; ++seq) {
    EXPECT_FALSE(ways.Samples(seq + 16, kLong)) << seq;
    ways.Begin(kLong);
  }
  EXPECT_TRUE(ways.Samples(16, kLong));
}

TEST(Ways, InTrialsAllGoTheSame) {
  Ways one = Two(), other = Two();
  Go(&one, 0, kEnough, kLong, {2400, 4700});
  Go(&other, 0, kEnough, kLong, {7400, 4100});
  int differ = 0, timed = 0;
  for (Seq seq = kEnough; seq < 2 * kEnough; ++seq) {
    const bool alike = one.Of(seq, kLong) == other.Of(seq, kLong);
    EXPECT_TRUE(alike || !one.Samples(seq, kLong)) << seq;
    differ += alike ? 0 : 1;
    timed += one.Samples(seq, kLong) ? 1 : 0;
  }
  EXPECT_GT(differ, 0);
  EXPECT_GT(timed, 0);
}

// Of a step's operations some are of another size.
TEST(Ways, WhoNeverFallsOnANumberThatIsTimedTriesNoMore) {
  for (Seq offset = 0; offset < 20; ++offset) {
    Ways ways = Two();
    int second = 0;
    for (Seq seq = offset; seq < kEnough; seq += 20) {
      const size_t way = ways.Of(seq, kLong);
      ways.Begin(kLong);
      if (ways.Samples(seq, kLong)) ways.Note(seq, kLong, way == 1 ? 900'000 : 100'000);
      if (seq > kEnough / 2 && way == 1) ++second;
    }
    EXPECT_LE(second, 40) << offset;
  }
}

TEST(LaneWay, WhatIsNotWorthIt) {
  LaneWay way;
  EXPECT_EQ(Go(&way, 0, kEnough, kHandOverMinBytes - 1, {7400, 4100}), 0);
  EXPECT_GE(Go(&way, 0, kEnough, kHandOverMinBytes, {7400, 4100}), 97);
  EXPECT_TRUE(way.Streams(kEnough, kHandOverMinBytes));
}

// By halves, by the caches or past them, and all by each: [from, to).
void GoShared(ShareWay* way, Seq from, Seq to, uint64_t bytes, std::array<TimeNs, 3> spent) {
  for (Seq seq = from; seq < to; ++seq) {
    const size_t gone = way->AllSum(seq, bytes) ? 2 : way->Streams(seq, bytes) ? 1 : 0;
    way->Note(seq, bytes, gone == 2, spent[gone]);
  }
}

TEST(ShareWay, WhatIsShortIsSummedByAllWithoutAsking) {
  ShareWay way;
  for (Seq seq = 0; seq < kEnough; ++seq) {
    ASSERT_TRUE(way.AllSum(seq, kMiB / 2));
    way.Note(seq, kMiB / 2, true, 30'000);
  }
}

TEST(ShareWay, InTheMiddleWhicheverOfThreeIsFastest) {
  for (const uint64_t bytes : {kMiB / 2 + 1, kMiB, kMiB + 1, 2 * kMiB}) {
    ShareWay cached, streamed, all;
    GoShared(&cached, 0, kEnough, bytes, {50'000, 90'000, 55'000});
    GoShared(&streamed, 0, kEnough, bytes, {250'000, 90'000, 95'000});
    GoShared(&all, 0, kEnough, bytes, {250'000, 90'000, 80'000});
    const Seq seq = kEnough + 1000;  // no trial's
    EXPECT_FALSE(cached.AllSum(seq, bytes) || cached.Streams(seq, bytes)) << bytes;
    EXPECT_TRUE(streamed.Streams(seq, bytes) && !streamed.AllSum(seq, bytes)) << bytes;
    EXPECT_TRUE(all.AllSum(seq, bytes)) << bytes;
  }
}

// Who would sum all, but the other has found that halves are better, learns nothing of it.
TEST(ShareWay, WhatWentAnotherWayIsNotNoted) {
  ShareWay way;
  const std::array<TimeNs, 3> spent = {250'000, 90'000, 80'000};
  GoShared(&way, 0, 4000, kMiB, spent);
  for (Seq seq = 4000; seq < 4090; ++seq) {
    way.Note(seq, kMiB, false, 250'000);
    EXPECT_TRUE(way.AllSum(seq, kMiB)) << seq;
  }
}

TEST(ShareWay, WhatIsLongIsNeverSummedByAll) {
  for (const uint64_t bytes : {2 * kMiB + 1, 4 * kMiB, 4 * kMiB + 1, 8 * kMiB}) {
    ShareWay way;
    GoShared(&way, 0, kEnough, bytes, {250'000, 90'000, 1});
    EXPECT_TRUE(way.Streams(kEnough + 1000, bytes)) << bytes;
    EXPECT_TRUE(ShareWay::Knows(bytes));
    for (Seq seq = 0; seq < kEnough; ++seq) ASSERT_FALSE(way.AllSum(seq, bytes)) << bytes;
  }
  EXPECT_FALSE(ShareWay::Knows(8 * kMiB + 1));
}

}  // namespace
}  // namespace ftar::runtime
