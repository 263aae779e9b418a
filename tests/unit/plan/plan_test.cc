// Plans as data: for every size, plan, owner and member, what one sends the other expects, and
// every input is added once.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <vector>

#include "plan/choose.h"
#include "plan/grid.h"
#include "plan/owners.h"
#include "plan/role.h"

namespace ftar::plan {
namespace {

bool Has(const std::vector<int>& list, int value) {
  return std::find(list.begin(), list.end(), value) != list.end();
}

struct Case {
  Kind kind;
  PlanKind plan;
};

class Roles : public testing::TestWithParam<Case> {};

TEST_P(Roles, WhatOneSendsTheOtherExpects) {
  for (int n = 1; n <= 9; ++n) {
    for (int owner = 0; owner < n; ++owner) {
      std::vector<Role> roles;
      for (int me = 0; me < n; ++me)
        AddRole(GetParam().kind, GetParam().plan, n, owner, me, &roles.emplace_back());
      for (int a = 0; a < n; ++a) {
        EXPECT_FALSE(Has(roles[a].raw_to, a));
        EXPECT_TRUE(std::is_sorted(roles[a].raw_from.begin(), roles[a].raw_from.end()));
        for (int b = 0; b < n; ++b) {
          if (a == b) continue;
          EXPECT_EQ(Has(roles[a].raw_to, b), Has(roles[b].raw_from, a)) << n << owner << a << b;
          EXPECT_EQ(roles[a].partial_to == b, roles[b].partial_from == a) << n << owner << a << b;
          EXPECT_EQ(Has(roles[a].final_to, b), roles[b].final_from == a) << n << owner << a << b;
        }
      }
    }
  }
}

// Follows the contributions through the plan: who makes the final has every member's input in it,
// once.
std::multiset<int> ContributionsOf(const std::vector<Role>& roles, int maker) {
  std::multiset<int> sum(roles[maker].raw_from.begin(), roles[maker].raw_from.end());
  sum.insert(maker);
  for (int at = roles[maker].partial_from, hops = 0; at >= 0 && hops < 100;
       at = roles[at].partial_from, ++hops)
    sum.insert(at);
  return sum;
}

TEST_P(Roles, EveryInputOnceAndEverybodyGetsTheFinal) {
  for (int n = 1; n <= 9; ++n) {
    for (int owner = 0; owner < n; ++owner) {
      std::vector<Role> roles;
      for (int me = 0; me < n; ++me)
        AddRole(GetParam().kind, GetParam().plan, n, owner, me, &roles.emplace_back());
      for (int me = 0; me < n; ++me) {
        if (GetParam().kind == Kind::kReduceScatter && me != owner) {
          EXPECT_FALSE(roles[me].lands);
          continue;
        }
        EXPECT_TRUE(roles[me].lands);
        int maker = me, hops = 0;  // back along the finals to whoever made it
        while (!roles[maker].makes_final && hops++ < 100) maker = roles[maker].final_from;
        ASSERT_TRUE(roles[maker].makes_final);
        if (roles[maker].gathers) {
          EXPECT_EQ(maker, owner);
          continue;
        }
        std::multiset<int> all;
        for (int i = 0; i < n; ++i) all.insert(i);
        EXPECT_EQ(ContributionsOf(roles, maker), all) << n << " " << owner << " " << me;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, Roles,
                         testing::Values(Case{Kind::kAllReduce, PlanKind::kOneShot},
                                         Case{Kind::kAllReduce, PlanKind::kDirect},
                                         Case{Kind::kAllReduce, PlanKind::kRing},
                                         Case{Kind::kBarrier, PlanKind::kOneShot},
                                         Case{Kind::kReduceScatter, PlanKind::kDirect},
                                         Case{Kind::kAllGather, PlanKind::kDirect},
                                         Case{Kind::kBroadcast, PlanKind::kDirect}));

TEST(Grid, CoversEveryElementOnce) {
  for (uint64_t count : {0ull, 1ull, 3ull, 1000ull, 4096ull, 100'003ull, 5'000'000ull}) {
    for (uint32_t width : {1u, 2u, 4u, 8u}) {
      for (int segments : {1, 3}) {
        for (uint64_t bytes : {1ull, 64ull, 4096ull, 100'000ull, 1ull << 60}) {
          if (bytes <= 64 && count > 100'003) continue;
          const Grid grid(count, width, width, segments, bytes);
          std::vector<uint64_t> next(segments, 0);
          for (uint32_t c = 0; c < grid.chunks(); ++c) {
            const Chunk chunk = grid.At(c);
            ASSERT_EQ(chunk.first, next[chunk.segment]);
            next[chunk.segment] += chunk.count;
            ASSERT_LE(chunk.count * width, kAskedBytesMax);
          }
          for (uint64_t end : next) ASSERT_EQ(end, count);
          ASSERT_GE(grid.chunks(), static_cast<uint32_t>(segments));
        }
      }
    }
  }
}

// A frame holds a whole chunk, also as a partial sum: integers to be averaged become eight bytes.
TEST(Grid, PartialSumsAreNoLargerThanChunksMayBe) {
  for (uint32_t width : {1u, 2u, 4u}) {
    const Grid grid(50'000'000, width, 8, 1, kChunkBytesMax);
    EXPECT_EQ(grid.At(0).count * 8, kChunkBytesMax) << width;
  }
}

uint64_t Pieces(Kind kind, PlanKind plan, uint64_t bytes, const Ground& ground) {
  return Grid(bytes / 4, 4, 4, 1, PieceBytes(kind, plan, bytes, ground)).chunks();
}

TEST(Pieces, EachOwnerHasAsManyAsTheOthers) {
  for (int members : {2, 3, 4, 7, 8, 16}) {
    for (uint64_t bytes = 4096; bytes <= uint64_t{1} << 30; bytes = bytes * 3 / 2 / 4 * 4) {
      const uint64_t pieces =
          Pieces(Kind::kAllReduce, PlanKind::kDirect, bytes, {.members = members});
      const uint64_t fit = std::max<uint64_t>(bytes / kChunkBytesMin, 1);
      ASSERT_LE(pieces, std::max<uint64_t>(fit, members)) << bytes;
      if (fit < static_cast<uint64_t>(members)) continue;
      // Whole cache lines may make it one less at the end.
      ASSERT_LE((members - pieces % members) % members, 1) << bytes << " in " << pieces;
      ASSERT_LE(PieceBytes(Kind::kAllReduce, PlanKind::kDirect, bytes, {.members = members}),
                kChunkBytesMax);
    }
  }
}

TEST(Pieces, AreFewWhereFramesCostMost) {
  constexpr uint64_t kMiB = 1 << 20;
  const auto all_reduce = [](uint64_t bytes, const Ground& ground) {
    return Pieces(Kind::kAllReduce, PlanKind::kDirect, bytes, ground);
  };
  EXPECT_EQ(all_reduce(kMiB, {.members = 2}), 2);
  EXPECT_EQ(all_reduce(4 * kMiB, {.members = 2}), 8);
  EXPECT_EQ(all_reduce(4 * kMiB, {.members = 3}), 9);
  EXPECT_EQ(all_reduce(64 * 1024, {.members = 8}), 1);
  EXPECT_EQ(all_reduce(kMiB, {.members = 8}), 8);
  EXPECT_EQ(all_reduce(kMiB, {.members = 8, .crowded = true}), 4);
  EXPECT_EQ(all_reduce(kMiB, {.members = 8, .crowded = true, .wired = true}), 2);
  EXPECT_EQ(all_reduce(64 * 1024, {.members = 8, .crowded = true, .wired = true}), 1);
  EXPECT_EQ(Pieces(Kind::kAllReduce, PlanKind::kOneShot, 256 * 1024, {.members = 2}), 1);
  EXPECT_EQ(Pieces(Kind::kReduceScatter, PlanKind::kDirect, kMiB / 2, {.members = 8}), 1);
  EXPECT_EQ(Pieces(Kind::kAllGather, PlanKind::kDirect, 2 * kMiB, {.members = 8}), 4);
  EXPECT_EQ(Pieces(Kind::kBroadcast, PlanKind::kDirect, kMiB, {.members = 8}), 2);
  EXPECT_EQ(Pieces(Kind::kAllReduce, PlanKind::kDirect, 0, {.members = 8}), 1);
}

// Who has a wire of its own to each of the others does not send and receive for them.
TEST(Pieces, EveryOwnerHasOneOnWiresOfItsOwn) {
  const auto all_reduce = [](uint64_t bytes, const Ground& ground) {
    return Pieces(Kind::kAllReduce, PlanKind::kDirect, bytes, ground);
  };
  EXPECT_EQ(all_reduce(64 * 1024, {.members = 8, .wired = true}), 8);
  EXPECT_EQ(all_reduce(16 * 1024, {.members = 8, .wired = true}), 4);
  EXPECT_EQ(all_reduce(64 * 1024, {.members = 2, .wired = true}), 1);
  EXPECT_EQ(all_reduce(4 * 1024, {.members = 4, .wired = true, .byte_ps = 150}), 1);
  EXPECT_EQ(all_reduce(4 * 1024, {.members = 4, .wired = true, .byte_ps = 40'000}), 4);
}

TEST(Blocks, AreHalfOfWhatAnOwnerHas) {
  constexpr uint64_t kKiB = 1024, kMiB = 1024 * kKiB;
  const auto block = [](uint64_t bytes, size_t owners) {
    return BlockBytes(bytes, owners, kBlockBytesMin, kBlockBytesMax);
  };
  EXPECT_EQ(block(1 * kMiB, 2), 256 * kKiB);
  EXPECT_EQ(block(2 * kMiB, 4), 256 * kKiB);
  EXPECT_EQ(block(1 * kMiB + 12'345, 2), 256 * kKiB) << "whole pages";
  for (const uint64_t bytes : {uint64_t{4}, 64 * kKiB, 512 * kKiB})
    EXPECT_EQ(block(bytes, 2), 128 * kKiB) << bytes;
  for (const uint64_t bytes : {2 * kMiB, 256 * kMiB}) EXPECT_EQ(block(bytes, 2), 512 * kKiB);
}

// What is asked for may be larger than what is chosen, up to a bound of its own.
TEST(Grid, AskedForChunksMayBeLarger) {
  for (uint32_t width : {1u, 4u, 8u}) {
    for (uint64_t asked : {uint64_t{1} << 20, kAskedBytesMax, uint64_t{1} << 30}) {
      const uint64_t most = std::min(asked, kAskedBytesMax);
      const Grid grid(50'000'000, width, width, 1, asked);
      EXPECT_EQ(grid.At(0).count * width, most);
      EXPECT_EQ(PieceBytesMax(asked), most);
      const Grid wide(50'000'000, width, 8, 1, asked);
      EXPECT_LE(wide.At(0).count * 8, most) << "partial sums are no wider";
    }
  }
  EXPECT_EQ(PieceBytesMax(0), kChunkBytesMax);
  EXPECT_EQ(PieceBytesMax(64), 64 * kPartialWideningMax);
}

// F5: only the leaver's chunks change owner, whoever leaves, and again when a second one does.
TEST(Owner, OnlyTheLeaversChunksMove) {
  const std::vector<int> origin = {10, 11, 12, 13, 14};
  for (int leaver : origin) {
    std::vector<int> left = origin;
    std::erase(left, leaver);
    for (int second : left) {
      std::vector<int> fewer = left;
      std::erase(fewer, second);
      const Owners all(origin, origin), in_left(origin, left), in_fewer(origin, fewer);
      std::set<int> owners;
      for (uint32_t chunk = 0; chunk < 100; ++chunk) {
        const int before = origin[all.ByTurns(chunk)];
        const int after = left[in_left.ByTurns(chunk)];
        const int last = fewer[in_fewer.ByTurns(chunk)];
        if (before != leaver) {
          EXPECT_EQ(before, after);
        }
        if (before != leaver && before != second) {
          EXPECT_EQ(before, last);
        }
        owners.insert(after);
      }
      EXPECT_EQ(owners.size(), left.size());
    }
  }
}

PlanKind ChooseAllReduce(uint64_t bytes, const Ground& ground, const Wish& wish = {}) {
  return Choose(Kind::kAllReduce, bytes, ground, wish);
}

TEST(Choose, ForcedUnlessTheOrderOfAdditionsForbidsIt) {
  const Ground four{.members = 4};
  EXPECT_EQ(ChooseAllReduce(1 << 20, four, {.forced = PlanKind::kRing}), PlanKind::kRing);
  EXPECT_EQ(ChooseAllReduce(1 << 20, four, {.forced = PlanKind::kRing, .deterministic = true}),
            PlanKind::kDirect);
  EXPECT_EQ(ChooseAllReduce(8, four), PlanKind::kOneShot);
  EXPECT_EQ(ChooseAllReduce(1 << 20, four), PlanKind::kDirect);
  EXPECT_EQ(ChooseAllReduce(64 << 10, {.members = 2}), PlanKind::kOneShot);
  EXPECT_EQ(ChooseAllReduce(64 << 10, {.members = 3}), PlanKind::kDirect);
  EXPECT_EQ(ChooseAllReduce(4096, {.members = 64}), PlanKind::kOneShot);
  EXPECT_EQ(ChooseAllReduce(4097, {.members = 64}), PlanKind::kDirect);
  EXPECT_EQ(ChooseAllReduce(1 << 20, {.members = 500}), PlanKind::kRing);
  EXPECT_EQ(ChooseAllReduce(8, four, {.oneshot_max_bytes = 0}), PlanKind::kDirect);
  EXPECT_EQ(ChooseAllReduce(1 << 20, four, {.oneshot_max_bytes = 1 << 20}), PlanKind::kOneShot);
  EXPECT_EQ(Choose(Kind::kBarrier, 0, four, {.forced = PlanKind::kRing}), PlanKind::kOneShot);
}

TEST(Choose, TwoOnAWireSpareARoundLonger) {
  EXPECT_EQ(ChooseAllReduce(256 << 10, {.members = 2, .wired = true}), PlanKind::kOneShot);
  EXPECT_EQ(ChooseAllReduce((256 << 10) + 1, {.members = 2, .wired = true}), PlanKind::kDirect);
  EXPECT_EQ(ChooseAllReduce(256 << 10, {.members = 2}), PlanKind::kDirect);
  EXPECT_EQ(ChooseAllReduce(64 << 10, {.members = 3, .wired = true}), PlanKind::kDirect);
}

TEST(Choose, FewMessagesGoThroughAnOwner) {
  const Ground crowd{.members = 4, .crowded = true};
  EXPECT_EQ(ChooseAllReduce(8, crowd), PlanKind::kDirect);
  EXPECT_EQ(Choose(Kind::kBarrier, 0, {.members = 3, .crowded = true}, {}), PlanKind::kDirect);
  EXPECT_EQ(ChooseAllReduce(8, {.members = 2, .crowded = true}), PlanKind::kOneShot);
  EXPECT_EQ(ChooseAllReduce(8, crowd, {.oneshot_max_bytes = 4096}), PlanKind::kOneShot);
  EXPECT_EQ(ChooseAllReduce(8, {.members = 4, .crowded = true, .lane = true}), PlanKind::kOneShot);
}

// The largest size for which one-shot is taken.
uint64_t OneShotMost(const Ground& ground) {
  uint64_t low = 0, high = 64 << 20;
  while (high - low > 1) {
    const uint64_t middle = (low + high) / 2;
    (ChooseAllReduce(middle, ground) == PlanKind::kOneShot ? low : high) = middle;
  }
  return low;
}

// What choose.h says it takes, written down once more; in nanoseconds.
double Takes(PlanKind plan, double bytes, const Ground& ground) {
  constexpr double kMessage = 3000, kReduce = 0.045;
  const double n = ground.members, byte = ground.byte_ps / 1e3;
  if (plan == PlanKind::kOneShot)
    return ground.round_ns + (n - 1) * (kMessage + bytes * (byte + kReduce));
  return 2.0 * ground.round_ns + (n - 1) * (2 * kMessage + bytes / n * (2 * byte + kReduce));
}

TEST(Choose, OnKnownWiresWhatTakesLess) {
  for (int members : {2, 3, 4, 8, 64}) {
    for (uint32_t round_ns : {5'000u, 30'000u, 500'000u}) {
      for (uint32_t byte_ps : {150u, 320u, 8'000u}) {
        const Ground ground{
            .members = members, .wired = true, .round_ns = round_ns, .byte_ps = byte_ps};
        const auto most = static_cast<double>(OneShotMost(ground));
        if (most == 16 << 20) continue;  // a bound of its own
        EXPECT_LE(Takes(PlanKind::kOneShot, most, ground), Takes(PlanKind::kDirect, most, ground));
        EXPECT_GE(Takes(PlanKind::kOneShot, most + 2, ground),
                  Takes(PlanKind::kDirect, most + 2, ground));
      }
    }
  }
}

TEST(Choose, LongerRoundsAndFasterWiresAreForOneShot) {
  const auto most = [](uint32_t round_ns, uint32_t byte_ps) {
    return OneShotMost({.members = 8, .wired = true, .round_ns = round_ns, .byte_ps = byte_ps});
  };
  EXPECT_GT(most(50'000, 320), most(10'000, 320));
  EXPECT_GT(most(10'000, 150), most(10'000, 320));
  EXPECT_EQ(most(10'000, 0), most(10'000, 150));  // not stated
}

}  // namespace
}  // namespace ftar::plan
