#include "collective/surroundings.h"

#include <gtest/gtest.h>

namespace ftar::collective {
namespace {

wire::ViewEntry Member(uint64_t number, const char* host, int32_t cores, uint64_t core_set) {
  wire::ViewEntry entry;
  entry.card.id = {1, number};
  entry.card.host_key = host;
  entry.card.cores = cores;
  entry.card.core_set = core_set;
  entry.card.lane = true;
  return entry;
}

TEST(Surroundings, CrowdedWhereMoreMembersThanCoresShareThem) {
  wire::View view;
  view.entries = {Member(1, "a", 2, 3), Member(2, "a", 2, 3), Member(3, "b", 2, 3)};
  EXPECT_FALSE(SurroundingsOf(view, 0).crowded);
  view.entries.push_back(Member(4, "a", 2, 3));
  EXPECT_TRUE(SurroundingsOf(view, 0).crowded);
}

TEST(Surroundings, MembersBoundToCoresOfTheirOwnAreNoCrowd) {
  wire::View view;
  view.entries = {Member(1, "a", 1, 1), Member(2, "a", 1, 2), Member(3, "a", 1, 4)};
  EXPECT_FALSE(SurroundingsOf(view, 0).crowded);
}

TEST(Surroundings, OtherColumnsAreOfTheCrowdButNeedNoLane) {
  wire::View view;
  view.entries = {Member(1, "a", 1, 1), Member(2, "a", 1, 1)};
  view.entries[1].card.shard = 1;
  view.entries[1].card.lane = false;
  EXPECT_TRUE(SurroundingsOf(view, 0).crowded);
  EXPECT_TRUE(SurroundingsOf(view, 0).lane);
  EXPECT_FALSE(SurroundingsOf(view, 1).lane);
}

TEST(Surroundings, NoLaneBetweenHosts) {
  wire::View view;
  view.entries = {Member(1, "a", 0, 0), Member(2, "b", 0, 0)};
  EXPECT_FALSE(SurroundingsOf(view, 0).lane);
  EXPECT_FALSE(SurroundingsOf(view, 0).crowded);  // nobody told
}

TEST(Surroundings, WiredUnlessAllOfTheColumnShareMemoryOfOneHost) {
  wire::View view;
  view.entries = {Member(1, "a", 0, 0), Member(2, "a", 0, 0), Member(3, "b", 0, 0)};
  view.entries[2].card.shard = 1;
  view.entries[0].card.addresses = "shm=x;tcp=127.0.0.1:1";
  view.entries[1].card.addresses = "tcp=127.0.0.1:2;shm=y";
  EXPECT_FALSE(SurroundingsOf(view, 0).wired);
  view.entries[1].card.addresses = "tcp=127.0.0.1:2;watch=@shm=";
  EXPECT_TRUE(SurroundingsOf(view, 0).wired);
  view.entries[1].card.addresses = "shm=y";
  view.entries[1].card.host_key = "b";
  EXPECT_TRUE(SurroundingsOf(view, 0).wired);
}

TEST(Surroundings, WiresCostWhatTheColumnsMembersSayInTheMiddle) {
  wire::View view;
  view.entries = {Member(1, "a", 0, 0), Member(2, "b", 0, 0), Member(3, "c", 0, 0),
                  Member(4, "d", 0, 0)};
  view.entries[0].card.wire = {10'000, 80};
  view.entries[1].card.wire = {90'000, 0};
  view.entries[2].card.wire = {20'000, 320};
  view.entries[3].card.wire = {1, 1};
  view.entries[3].card.shard = 1;
  EXPECT_EQ(SurroundingsOf(view, 0).wire, (wire::WireCosts{20'000, 80}));
  EXPECT_EQ(SurroundingsOf(view, 1).wire, (wire::WireCosts{1, 1}));
}

TEST(Surroundings, TheHubIsWhoAnnouncesForTheColumn) {
  wire::View view;
  view.entries = {Member(1, "a", 0, 0), Member(2, "a", 0, 0)};
  EXPECT_EQ(SurroundingsOf(view, 0).hub, view.entries[0].card.id);
  view.entries[0].last.kind = wire::Bound::Kind::kSeq;  // it leaves
  EXPECT_EQ(SurroundingsOf(view, 0).hub, view.entries[1].card.id);
}

}  // namespace
}  // namespace ftar::collective
