// Goal: the index says what comparing each with each says. Method: both, on few bytes, at random.
#include "runtime/overlap.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

namespace ftar::runtime {
namespace {

bool Collide(const OpRanges& a, const OpRanges& b) {
  const bool collide = a.written.Overlaps(b.written) || a.written.Overlaps(b.read) ||
                       a.read.Overlaps(b.written);
  EXPECT_EQ(ClashOf(a, b).first != nullptr, collide);
  return collide;
}

TEST(OverlapIndex, SaysWhatComparingEachWithEachSays) {
  std::mt19937 random(7);
  const auto range = [&](unsigned most) {
    const uintptr_t begin = random() % 60;
    return ByteRange{begin, begin + random() % (most + 1)};
  };
  int collisions = 0, met = 0;
  constexpr int kRounds = 20'000;
  for (int round = 0; round < kRounds; ++round) {
    std::vector<OpRanges> ops(random() % 5);
    for (OpRanges& op : ops) {
      op = {range(4), range(4)};
      if (random() % 3 == 0) op.written = op.read;  // in place
    }
    bool any = false;
    for (size_t i = 0; i < ops.size(); ++i) {
      for (size_t j = 0; j < i; ++j) any = any || Collide(ops[i], ops[j]);
    }
    const OverlapIndex index(ops);
    ASSERT_EQ(index.collide(), any) << "round " << round;
    const OpRanges other{range(20), range(20)};
    bool meets = false;
    for (const OpRanges& op : ops) meets = meets || Collide(op, other);
    ASSERT_EQ(index.CollidesWith(other), meets) << "round " << round;
    collisions += any;
    met += meets;
  }
  EXPECT_GT(collisions, kRounds / 20);
  EXPECT_LT(collisions, kRounds * 19 / 20);
  EXPECT_GT(met, kRounds / 20);
  EXPECT_LT(met, kRounds * 19 / 20);
}

TEST(OverlapIndex, AClashNamesTheFieldsOfBoth) {
  const ByteRange low{100, 200}, high{200, 300};
  const auto named = [](const OpRanges& a, const OpRanges& b) {
    const Clash clash = ClashOf(a, b);
    return std::string(clash.first) + "/" + clash.second;
  };
  EXPECT_EQ(named({low, high}, {low, high}), "recv/recv");
  EXPECT_EQ(named({low, high}, {high, {400, 500}}), "recv/send");
  EXPECT_EQ(named({low, high}, {{400, 500}, low}), "send/recv");
  EXPECT_EQ(ClashOf({low, high}, {low, {400, 500}}).first, nullptr) << "both only read";
}

TEST(OverlapIndex, WhatIsEmptyOverlapsNothing) {
  const ByteRange whole{100, 200}, nothing{150, 150};
  const OverlapIndex index(std::vector<OpRanges>{{whole, whole}, {nothing, nothing}});
  EXPECT_FALSE(index.collide());
  EXPECT_FALSE(index.CollidesWith({nothing, nothing}));
  EXPECT_TRUE(index.CollidesWith({{150, 151}, nothing}));
}

}  // namespace
}  // namespace ftar::runtime
