#include "membership/quorum.h"

#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <vector>

namespace ftar::membership {
namespace {

std::set<int32_t> SetOf(uint32_t mask) {
  std::set<int32_t> set;
  for (int32_t i = 0; i < 32; ++i) {
    if (mask >> i & 1) set.insert(i);
  }
  return set;
}

std::vector<int32_t> ListOf(uint32_t mask) {
  const std::set<int32_t> set = SetOf(mask);
  return {set.begin(), set.end()};
}

bool Granted(std::vector<std::vector<int32_t>> bases, uint32_t survivors, uint32_t dead) {
  return HasQuorum({std::move(bases), SetOf(survivors), SetOf(dead), 1, true}).granted;
}

// The rule once more, as dumb as possible: bits instead of lists, no early exit.
bool DumbGranted(uint32_t base, uint32_t survivors, uint32_t dead) {
  const uint32_t living = base & ~dead;
  const uint32_t held = survivors & living;
  const int n = std::popcount(living), k = std::popcount(held);
  const uint32_t first = living & (~living + 1);
  const bool more_than_half = k > n - k;
  const bool half_with_first = k == n - k && (held & first) != 0;
  return k > 0 && (more_than_half || half_with_first);
}

TEST(Quorum, AgreesWithTheDumbRuleOnAllSmallCases) {
  for (uint32_t base = 1; base < 64; ++base) {
    for (uint32_t survivors = 1; survivors < 64; ++survivors) {
      for (uint32_t dead = 0; dead < 64; ++dead) {
        if ((survivors & ~dead) == 0) continue;
        ASSERT_EQ(Granted({ListOf(base)}, survivors, dead), DumbGranted(base, survivors, dead))
            << base << " " << survivors << " " << dead;
      }
    }
  }
}

// What the rule is for: two parts of one base never both go on, even if they have proof of
// different deaths.
TEST(Quorum, TwoPartsNeverBothGoOn) {
  constexpr int kReplicas = 6;
  constexpr uint32_t kAll = (1u << kReplicas) - 1;
  const std::vector<std::vector<int32_t>> base{ListOf(kAll)};
  for (uint32_t dead = 0; dead <= kAll; ++dead) {
    const uint32_t living = kAll & ~dead;
    for (uint32_t a = living; a != 0; a = (a - 1) & living) {
      const uint32_t b = living & ~a;
      if (b == 0) continue;
      for (uint32_t known_a = dead;; known_a = (known_a - 1) & dead) {
        if (Granted(base, a, known_a)) {
          for (uint32_t known_b = dead;; known_b = (known_b - 1) & dead) {
            ASSERT_FALSE(Granted(base, b, known_b)) << a << " " << b << " of " << living;
            if (known_b == 0) break;
          }
        }
        if (known_a == 0) break;
      }
    }
  }
}

TEST(Quorum, EveryBaseCounts) {
  // Formed with replicas 0 to 2, then 3 and 4 were taken in: a majority of one is not enough.
  const std::vector<std::vector<int32_t>> bases{{0, 1, 2}, {0, 1, 2, 3, 4}};
  EXPECT_FALSE(Granted(bases, 0b11001, 0));  // 3 of the later 5, 1 of the formed 3
  EXPECT_FALSE(Granted(bases, 0b00011, 0));  // 2 of the formed 3, 2 of the later 5
  EXPECT_TRUE(Granted(bases, 0b01011, 0));
}

TEST(Quorum, TheDeadLeaveTheDenominatorAndNeverCount) {
  EXPECT_FALSE(Granted({{0, 1, 2, 3}}, 0b1100, 0));
  EXPECT_TRUE(Granted({{0, 1, 2, 3}}, 0b1100, 0b0001));
  EXPECT_FALSE(Granted({{0, 1, 2, 3}}, 0b1011,
                       0b0011));  // two of them are dead, the third is half without the first
}

TEST(Quorum, AFixedCoordinatorNeedsOnlyMinReplicas) {
  EXPECT_TRUE(HasQuorum({{{0, 1, 2}}, {2}, {}, 1, false}).granted);
  const QuorumAnswer answer = HasQuorum({{{0, 1, 2}}, {2}, {}, 2, false});
  EXPECT_FALSE(answer.granted);
  EXPECT_NE(answer.text.find("1 of at least 2 replicas (min_replicas)"), std::string::npos)
      << answer.text;
  EXPECT_FALSE(HasQuorum({{{0, 1, 2}}, {}, {}, 1, false}).granted);
}

}  // namespace
}  // namespace ftar::membership
