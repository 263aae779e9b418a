#include "runtime/outcome_history.h"

#include <gtest/gtest.h>

namespace ftar::runtime {
namespace {

collective::Outcome Of(Seq seq) {
  collective::Outcome outcome;
  outcome.seq = seq;
  outcome.tag = seq * 10;
  return outcome;
}

TEST(OutcomeHistory, EmptyKnowsNothing) {
  OutcomeHistory history;
  EXPECT_EQ(history.Find(0), nullptr);
  EXPECT_EQ(history.end(), 0u);
}

TEST(OutcomeHistory, KeepsTheLastOnesFromWhereverTheyBegin) {
  OutcomeHistory history;
  constexpr Seq kFirst = 77, kEnd = kFirst + 3 * OutcomeHistory::kMax + 5;
  for (Seq seq = kFirst; seq < kEnd; ++seq) history.Add(Of(seq));
  EXPECT_EQ(history.end(), kEnd);
  EXPECT_EQ(history.Find(kEnd), nullptr);
  EXPECT_EQ(history.Find(kEnd - OutcomeHistory::kMax - 1), nullptr);
  EXPECT_EQ(history.Find(kFirst), nullptr);
  for (Seq seq = kEnd - OutcomeHistory::kMax; seq < kEnd; ++seq) {
    ASSERT_NE(history.Find(seq), nullptr);
    EXPECT_EQ(history.Find(seq)->tag, seq * 10);
  }
}

}  // namespace
}  // namespace ftar::runtime
