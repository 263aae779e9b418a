// The invariant itself: what it has to object to, and what it must not.
#include "invariants/agreement.h"

#include <gtest/gtest.h>

namespace ftar::sim {
namespace {

collective::Outcome OutcomeOf(uint64_t tag, std::initializer_list<uint64_t> members) {
  collective::Outcome outcome;
  outcome.seq = 7;
  outcome.epoch = 2;
  outcome.tag = tag;
  for (const uint64_t member : members) {
    collective::Participant one;
    one.id = {1, member};
    one.weight = 1;
    outcome.members.push_back(one);
  }
  outcome.participants = static_cast<int>(members.size());
  outcome.weight_sum = static_cast<double>(members.size());
  return outcome;
}

TEST(Agreement, OneStepOneOutcome) {
  Agreement agreement;
  EXPECT_EQ(agreement.Delivered(0, OutcomeOf(5, {1, 2}), nullptr), "");
  EXPECT_EQ(agreement.Delivered(0, OutcomeOf(5, {1, 2}), nullptr), "");
  EXPECT_EQ(agreement.Delivered(1, OutcomeOf(5, {3, 4}), nullptr), "") << "another column";
  EXPECT_EQ(agreement.Delivered(0, OutcomeOf(6, {3, 4}), nullptr), "") << "another step";
  EXPECT_NE(agreement.Delivered(0, OutcomeOf(5, {3, 4}), nullptr), "");
}

// The stand-in does not know the step, so that nothing says that both sides mean one operation;
// whoever delivers it behind it knows.
TEST(Agreement, TwoHalvesOfWhichOneIsToldByAStandInFirst) {
  Agreement agreement;
  EXPECT_EQ(agreement.Delivered(0, OutcomeOf(0, {1, 2}), nullptr), "");
  EXPECT_EQ(agreement.Delivered(0, OutcomeOf(5, {3, 4}), nullptr), "");
  EXPECT_NE(agreement.Delivered(0, OutcomeOf(5, {1, 2}), nullptr), "");
}

TEST(Agreement, OtherBits) {
  Agreement agreement;
  const Buffer zeros(4), more(5);
  EXPECT_EQ(agreement.Delivered(0, OutcomeOf(5, {1, 2}), &zeros), "");
  EXPECT_EQ(agreement.Delivered(0, OutcomeOf(5, {1, 2}), nullptr), "");
  EXPECT_NE(agreement.Delivered(0, OutcomeOf(5, {1, 2}), &more), "");
}

}  // namespace
}  // namespace ftar::sim
