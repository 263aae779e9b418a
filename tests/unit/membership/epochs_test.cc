#include "membership/epochs.h"

#include <gtest/gtest.h>

namespace ftar::membership {
namespace {

TEST(Epochs, AreAboveWhatWasMadeAndHeard) {
  Epochs epochs(7);
  EXPECT_EQ(epochs.Next(), MakeEpoch(1, 7));
  epochs.Hear(MakeEpoch(5, 9));
  epochs.Hear(MakeEpoch(3, 9));
  EXPECT_EQ(epochs.Next(), MakeEpoch(6, 7));
  epochs.VoidLast();
  EXPECT_EQ(epochs.Next(), MakeEpoch(7, 7));
}

// A hosted coordinator may have had its turn before, under the same incarnation.
TEST(Epochs, MadeHereIsWhatThisOneHasMade) {
  Epochs epochs(7);
  EXPECT_FALSE(epochs.MadeHere(MakeEpoch(1, 7)));
  epochs.Hear(MakeEpoch(1, 7));
  const Epoch first = epochs.Next();
  EXPECT_TRUE(epochs.MadeHere(first));
  EXPECT_FALSE(epochs.MadeHere(MakeEpoch(1, 7)));
  EXPECT_FALSE(epochs.MadeHere(MakeEpoch(2, 9)));
}

TEST(Epochs, WhatIsTakenIntoAccountIsNoOthersAnyMore) {
  Epochs epochs(7);
  epochs.Hear(MakeEpoch(4, 9));
  EXPECT_TRUE(epochs.IsAnothers(MakeEpoch(4, 9)));
  epochs.TakeHeardIntoAccount();
  EXPECT_FALSE(epochs.IsAnothers(MakeEpoch(4, 9)));
  EXPECT_TRUE(epochs.IsAnothers(MakeEpoch(5, 1)));
  EXPECT_FALSE(epochs.MadeHere(MakeEpoch(4, 9)));
}

}  // namespace
}  // namespace ftar::membership
