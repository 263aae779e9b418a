#include "membership/quorum.h"

#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <vector>

namespace ftar::membership {
namespace {

MemberId Replica(int i) { return {1, static_cast<uint64_t>(i) + 1}; }

std::vector<MemberId> ListOf(uint32_t mask) {
  std::vector<MemberId> list;
  for (int i = 0; i < 32; ++i) {
    if (mask >> i & 1) list.push_back(Replica(i));
  }
  return list;
}

std::set<MemberId> SetOf(uint32_t mask) {
  const std::vector<MemberId> list = ListOf(mask);
  return {list.begin(), list.end()};
}

bool Granted(const std::vector<uint32_t>& bases, uint32_t survivors, uint32_t dead) {
  QuorumQuestion question;
  for (const uint32_t base : bases) question.bases.push_back(ListOf(base));
  question.survivors = SetOf(survivors);
  question.proven_dead = SetOf(dead);
  question.replicas = static_cast<size_t>(std::popcount(survivors));
  return HasQuorum(question).granted;
}

// The rule once more, as dumb as possible: bits instead of lists, no early exit.
bool DumbGranted(uint32_t base, uint32_t survivors, uint32_t dead) {
  const uint32_t held = survivors & base & ~dead;
  const uint32_t away = base & ~held;
  const int k = std::popcount(held), n = std::popcount(base);
  const uint32_t first = base & (~base + 1);
  const bool more_than_half = k > n - k;
  const bool half_with_first = k == n - k && (held & first) != 0;
  const bool nobody_else = (away & ~dead) == 0;
  return k > 0 && (more_than_half || half_with_first || nobody_else);
}

TEST(Quorum, AgreesWithTheDumbRuleOnAllSmallCases) {
  for (uint32_t base = 1; base < 64; ++base) {
    for (uint32_t survivors = 1; survivors < 64; ++survivors) {
      for (uint32_t dead = 0; dead < 64; ++dead) {
        if ((survivors & ~dead) == 0) continue;
        ASSERT_EQ(Granted({base}, survivors, dead), DumbGranted(base, survivors, dead))
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
  const std::vector<uint32_t> base{kAll};
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

// And not when one part has numbered a view in between, with the vote of somebody who died since:
// whoever has proof of that death may not count it for less.
TEST(Quorum, TheDeadMayHaveVotedForAnotherView) {
  EXPECT_TRUE(Granted({0b111}, 0b110, 0));       // 1 and 2 go on without 0
  EXPECT_TRUE(Granted({0b110}, 0b010, 0b100));   // 2 dies
  EXPECT_FALSE(Granted({0b111}, 0b001, 0b100));  // 0 sees that, and does not know of their view
}

TEST(Quorum, EveryBaseCounts) {
  // Formed with replicas 0 to 2, then 3 and 4 were taken in: a majority of one is not enough.
  const std::vector<uint32_t> bases{0b00111, 0b11111};
  EXPECT_FALSE(Granted(bases, 0b11001, 0));  // 3 of the later 5, 1 of the formed 3
  EXPECT_FALSE(Granted(bases, 0b00011, 0));  // 2 of the formed 3, 2 of the later 5
  EXPECT_TRUE(Granted(bases, 0b01011, 0));
}

TEST(Quorum, TheDeadNeverCount) {
  EXPECT_FALSE(Granted({0b1111}, 0b1100, 0));
  EXPECT_FALSE(Granted({0b1111}, 0b1100, 0b0001));  // 1 may live, and 0 have promised to it
  EXPECT_TRUE(Granted({0b1111}, 0b1100, 0b0011));   // nobody else lives
  EXPECT_FALSE(Granted({0b1111}, 0b1011, 0b0011));  // two of them are dead themselves
  EXPECT_FALSE(Granted({0b1111}, 0b1111, 0b1111));
}

TEST(Quorum, AFixedCoordinatorNeedsOnlyMinReplicas) {
  QuorumQuestion question;
  question.bases = {ListOf(0b111)};
  question.survivors = SetOf(0b100);
  question.needs_majority = false;
  question.replicas = 1;
  EXPECT_TRUE(HasQuorum(question).granted);
  question.min_replicas = 2;
  const QuorumAnswer answer = HasQuorum(question);
  EXPECT_FALSE(answer.granted);
  EXPECT_NE(answer.text.find("1 of at least 2 replicas (min_replicas)"), std::string::npos)
      << answer.text;
  question.min_replicas = 1;
  question.replicas = 0;
  EXPECT_FALSE(HasQuorum(question).granted);
}

}  // namespace
}  // namespace ftar::membership
