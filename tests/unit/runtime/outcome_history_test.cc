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

// A place that is used again holds the new outcome, whether it is like the old one or not.
TEST(OutcomeHistory, OutcomesAlikeDifferInWhatTheyDifferIn) {
  OutcomeHistory history;
  const auto add = [&history](Seq seq, uint64_t alike, int32_t attempts) {
    collective::Outcome outcome = Of(seq);
    outcome.alike = alike;
    outcome.attempts = attempts;
    outcome.start_ns = static_cast<TimeNs>(seq) + 1;
    outcome.complete_ns = static_cast<TimeNs>(seq) + 2;
    outcome.delivered_ns = static_cast<TimeNs>(seq) + 3;
    history.Add(outcome);
  };
  for (Seq seq = 0; seq < OutcomeHistory::kMax; ++seq) add(seq, 1, 1);
  for (Seq seq = OutcomeHistory::kMax; seq < 2 * OutcomeHistory::kMax; ++seq)
    add(seq, seq % 2 == 0 ? 1 : 2, seq % 2 == 0 ? 1 : 5);
  for (Seq seq = OutcomeHistory::kMax; seq < 2 * OutcomeHistory::kMax; ++seq) {
    const collective::Outcome* const found = history.Find(seq);
    ASSERT_NE(found, nullptr);
    EXPECT_EQ(found->tag, seq * 10);
    EXPECT_EQ(found->start_ns, static_cast<TimeNs>(seq) + 1);
    EXPECT_EQ(found->complete_ns, static_cast<TimeNs>(seq) + 2);
    EXPECT_EQ(found->delivered_ns, static_cast<TimeNs>(seq) + 3);
    EXPECT_EQ(found->attempts, seq % 2 == 0 ? 1 : 5);
  }
}

}  // namespace
}  // namespace ftar::runtime
