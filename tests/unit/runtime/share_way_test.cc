// Goal: two sum all where that is faster, size by size; what is short they always do.
#include "runtime/share_way.h"

#include <gtest/gtest.h>

namespace ftar::runtime {
namespace {

constexpr uint64_t kQuarter = 256 * 1024, kMiB = 1 << 20;
constexpr Seq kTimes = 10'000;

// Operations [from, to) that take so long either way; how many of a hundred were summed by all.
Seq GoShared(ShareWay* way, Seq from, Seq to, uint64_t bytes, TimeNs halves_ns, TimeNs all_ns) {
  Seq all = 0;
  for (Seq seq = from; seq < to; ++seq) {
    const bool sums_all = way->AllSum(seq, bytes);
    way->Begin(bytes);
    if (way->Samples(seq, bytes)) way->Note(seq, bytes, sums_all ? all_ns : halves_ns);
    all += sums_all ? 1 : 0;
  }
  return 100 * all / (to - from);
}

TEST(ShareWay, WhatIsShortIsNotTried) {
  ShareWay way;
  EXPECT_EQ(GoShared(&way, 0, kTimes, kQuarter, 10'000, 20'000), 100u);
  for (Seq seq = 0; seq < kTimes; ++seq) ASSERT_FALSE(way.Samples(seq, kQuarter));
}

TEST(ShareWay, GoesTheFasterWayAndFindsOutWhenItChanges) {
  ShareWay way;
  EXPECT_LE(GoShared(&way, 0, kTimes, kMiB, 50'000, 55'000), 2u);
  EXPECT_GE(GoShared(&way, kTimes, 2 * kTimes, kMiB, 250'000, 80'000), 75u) << "within some trials";
  EXPECT_LE(GoShared(&way, 2 * kTimes, 3 * kTimes, kMiB, 50'000, 55'000), 25u);
}

TEST(ShareWay, EachSizeHasItsOwn) {
  ShareWay way;
  GoShared(&way, 0, kTimes, kMiB, 250'000, 80'000);
  EXPECT_LE(GoShared(&way, kTimes, 2 * kTimes, 2 * kMiB, 400'000, 500'000), 2u);
  EXPECT_GE(GoShared(&way, 2 * kTimes, 3 * kTimes, kMiB, 250'000, 80'000), 97u);
}

// Of a step's operations some are of another size.
TEST(ShareWay, WhoNeverFallsOnANumberThatIsTimedTriesNoMore) {
  for (const Seq offset : {Seq{0}, Seq{1}, Seq{2}, Seq{3}}) {
    ShareWay way;
    int streamed = 0;
    for (Seq seq = offset; seq < kTimes; seq += 4) {
      const bool streams = way.Streams(seq, 4 * kMiB);
      way.Begin(4 * kMiB);
      if (way.Samples(seq, 4 * kMiB)) way.Note(seq, 4 * kMiB, streams ? 900'000 : 100'000);
      if (seq > kTimes / 2 && streams) ++streamed;
    }
    EXPECT_LE(streamed, 40) << offset;
  }
}

TEST(ShareWay, InTrialsBothDoAlike) {
  ShareWay one, other;
  GoShared(&one, 0, kTimes, kMiB, 50'000, 55'000);
  GoShared(&other, 0, kTimes, kMiB, 250'000, 80'000);
  int timed = 0;
  for (Seq seq = kTimes; seq < 2 * kTimes; ++seq) {
    if (!one.Samples(seq, kMiB)) continue;
    EXPECT_EQ(one.AllSum(seq, kMiB), other.AllSum(seq, kMiB)) << seq;
    ++timed;
  }
  EXPECT_GT(timed, 0);
}

}  // namespace
}  // namespace ftar::runtime
