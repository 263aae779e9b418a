#include "membership/electorates.h"

#include <gtest/gtest.h>

namespace ftar::membership {
namespace {

MemberId Voter(int32_t replica) { return {9, static_cast<uint64_t>(replica) + 1}; }

wire::View ViewOf(Epoch epoch, const std::vector<int32_t>& replicas) {
  wire::View view;
  view.epoch = epoch;
  for (const int32_t replica : replicas) {
    wire::ViewEntry entry;
    entry.card.id = Voter(replica);
    entry.card.replica = replica;
    view.entries.push_back(entry);
  }
  return view;
}

TEST(Electorates, AreInTheOrderOfTheirEpochs) {
  Electorates electorates;
  for (const Epoch epoch : {5, 3, 7, 3}) electorates.Add(ViewOf(epoch, {0, 1}));
  std::vector<Epoch> epochs;
  for (const wire::Electorate& one : electorates.all()) epochs.push_back(one.epoch);
  EXPECT_EQ(epochs, (std::vector<Epoch>{3, 5, 7}));
  electorates.ForgetBelow(5);
  EXPECT_EQ(electorates.all().size(), 2u);
  EXPECT_EQ(electorates.all().front().epoch, 5u);
}

TEST(Electorates, WhoHasConsentedCountsNoMoreWhoeverTellsOfIt) {
  Electorates electorates;
  electorates.AddReported(ViewOf(3, {0, 1, 2}));
  wire::View later = ViewOf(4, {0, 1});
  later.electorates = {{3, {Voter(0), Voter(2)}}};  // 1 had left when this one was made
  electorates.AddReported(later);
  ASSERT_EQ(electorates.all().size(), 2u);
  EXPECT_EQ(electorates.all()[0].replicas, (std::vector<MemberId>{Voter(0), Voter(2)}));
  electorates.Consent(Voter(0));
  EXPECT_EQ(electorates.all()[0].replicas, std::vector<MemberId>{Voter(2)});
  EXPECT_EQ(electorates.all()[1].replicas, std::vector<MemberId>{Voter(1)});
}

TEST(Electorates, TheNewestInWhichSomebodyCounts) {
  Electorates electorates;
  electorates.Add(ViewOf(3, {0, 1, 2}));
  electorates.Add(ViewOf(4, {0, 1}));
  EXPECT_EQ(electorates.Counting(Voter(0)), 4u);
  EXPECT_EQ(electorates.Counting(Voter(2)), 3u);
  EXPECT_EQ(electorates.Counting(Voter(3)), 0u);
}

}  // namespace
}  // namespace ftar::membership
