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
  EXPECT_FALSE(history.Find(0));
  EXPECT_EQ(history.end(), 0u);
}

TEST(OutcomeHistory, KeepsTheLastOnesFromWhereverTheyBegin) {
  OutcomeHistory history;
  constexpr Seq kFirst = 77, kEnd = kFirst + 3 * OutcomeHistory::kMax + 5;
  for (Seq seq = kFirst; seq < kEnd; ++seq) history.Add(Of(seq));
  EXPECT_EQ(history.end(), kEnd);
  EXPECT_FALSE(history.Find(kEnd));
  EXPECT_FALSE(history.Find(kEnd - OutcomeHistory::kMax - 1));
  EXPECT_FALSE(history.Find(kFirst));
  for (Seq seq = kEnd - OutcomeHistory::kMax; seq < kEnd; ++seq) {
    ASSERT_TRUE(history.Find(seq));
    EXPECT_EQ(history.Find(seq)->tag, seq * 10);
  }
}

// As a leaver does what lies before the others' first operation.
TEST(OutcomeHistory, WhatNobodyCallsIsPassed) {
  for (const Seq passed : {Seq{1}, Seq{7}, Seq{OutcomeHistory::kMax}, Seq{1} << 40}) {
    OutcomeHistory history;
    Seq seq = 3;
    for (int round = 0; round < 3; ++round, seq += passed) {
      for (int i = 0; i < 600; ++i, ++seq) {
        history.Add(Of(seq));
        ASSERT_TRUE(history.Find(seq)) << seq;
        EXPECT_EQ(history.Find(seq)->tag, seq * 10);
        EXPECT_EQ(history.end(), seq + 1);
        EXPECT_FALSE(history.Find(seq + 1));
      }
      EXPECT_TRUE(history.Find(seq - 600));
      EXPECT_FALSE(history.Find(seq - 600 - 1 - OutcomeHistory::kMax));
      if (round == 0) continue;
      EXPECT_FALSE(history.Find(seq - 601)) << "passed";
      EXPECT_EQ(history.Find(seq - 601 - passed).has_value(), 600 + passed < OutcomeHistory::kMax);
    }
  }
}

// What takes its time to land is noted before.
TEST(OutcomeHistory, TheNewestMayBeThereLater) {
  OutcomeHistory history;
  for (Seq seq = 5; seq < 5 + OutcomeHistory::kMax + 3; ++seq) {
    history.Add(Of(seq));
    history.NewestIsThere(static_cast<TimeNs>(100 + seq));
    EXPECT_EQ(history.Find(seq)->delivered_ns, static_cast<TimeNs>(100 + seq));
    if (seq > 5) {
      EXPECT_EQ(history.Find(seq - 1)->delivered_ns, static_cast<TimeNs>(99 + seq));
    }
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
    const std::optional<collective::Outcome> found = history.Find(seq);
    ASSERT_TRUE(found);
    EXPECT_EQ(found->tag, seq * 10);
    EXPECT_EQ(found->start_ns, static_cast<TimeNs>(seq) + 1);
    EXPECT_EQ(found->complete_ns, static_cast<TimeNs>(seq) + 2);
    EXPECT_EQ(found->delivered_ns, static_cast<TimeNs>(seq) + 3);
    EXPECT_EQ(found->attempts, seq % 2 == 0 ? 1 : 5);
  }
}

// Over wires no two are alike, and who came last is another one each time.
TEST(OutcomeHistory, WhoCameLastIsKeptOfEach) {
  OutcomeHistory history;
  constexpr Seq kEnd = 2 * OutcomeHistory::kMax + 9;
  const auto attempts_of = [](Seq seq) { return seq % 100 == 99 ? 2 : 1; };
  for (Seq seq = 0; seq < kEnd; ++seq) {
    collective::Outcome outcome = Of(seq);
    outcome.alike = seq % 50 == 0 ? seq + 1 : 0;
    outcome.attempts = attempts_of(seq);
    outcome.arrival_skew_ns = static_cast<TimeNs>(seq);
    outcome.slowest = MemberId{1, seq % 3 + 1};
    outcome.members.resize(2);
    history.Add(outcome);
  }
  for (Seq seq = kEnd - OutcomeHistory::kMax; seq < kEnd; ++seq) {
    const std::optional<collective::Outcome> found = history.Find(seq);
    ASSERT_TRUE(found);
    EXPECT_EQ(found->attempts, attempts_of(seq));
    EXPECT_EQ(found->arrival_skew_ns, static_cast<TimeNs>(seq));
    EXPECT_EQ(found->slowest, (MemberId{1, seq % 3 + 1}));
    EXPECT_EQ(found->members.size(), 2u);
  }
}

// Runs of outcomes that are alike, some of one, between others that are like none.
TEST(OutcomeHistory, RunsOfOutcomesAlikeAreToldApart) {
  OutcomeHistory history;
  const auto run_of = [](Seq seq) { return seq / (1 + seq / 97 % 7); };
  const auto is_like_none = [](Seq seq) { return seq % 5 == 3 && seq / 200 % 2 == 1; };
  constexpr Seq kEnd = 5 * OutcomeHistory::kMax + 13;
  for (Seq seq = 0; seq < kEnd; ++seq) {
    collective::Outcome outcome = Of(seq);
    outcome.alike = is_like_none(seq) ? 0 : run_of(seq) + 1;
    outcome.members.resize(1 + (is_like_none(seq) ? seq : run_of(seq)) % 4);
    outcome.epoch = is_like_none(seq) ? seq : run_of(seq);
    history.Add(outcome);
    if (seq % 333 != 0) continue;
    for (Seq past = seq < OutcomeHistory::kMax ? 0 : seq - OutcomeHistory::kMax + 1; past <= seq;
         ++past) {
      const std::optional<collective::Outcome> found = history.Find(past);
      ASSERT_TRUE(found);
      ASSERT_EQ(found->tag, past * 10);
      ASSERT_EQ(found->epoch, is_like_none(past) ? past : run_of(past));
      ASSERT_EQ(found->members.size(), 1 + found->epoch % 4);
    }
  }
}

}  // namespace
}  // namespace ftar::runtime
