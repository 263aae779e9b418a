// Goal: what a member sees in another's lane is what that one has written there, whole, for the
// operation that is asked for; and of one who freezes and one who delivers one sees the other. Two
// threads over one mapping are what ThreadSanitizer looks at.
#include "transport/lane_memory.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

namespace ftar::transport {
namespace {

constexpr GroupKey kGroup = 7;
constexpr MemberId kOne{0, 1}, kTwo{0, 2};

class Lanes : public testing::Test {
 protected:
  Lanes() {
    ShareMappingsForTest(true);
    one = *LaneMemory::Create(kOne);
    two = *LaneMemory::Create(kTwo);
    EXPECT_TRUE(one->Map(kTwo, UniqueFd(::dup(two->fd()))).ok());
    EXPECT_TRUE(two->Map(kOne, UniqueFd(::dup(one->fd()))).ok());
    EXPECT_TRUE(one->MakeRoom(kGroup) && two->MakeRoom(kGroup));
  }
  ~Lanes() override { ShareMappingsForTest(false); }
  static std::vector<std::byte> Bytes(size_t count, uint64_t seq) {
    return std::vector<std::byte>(count, std::byte(seq % 251));
  }
  static CopyMode ModeOf(Seq seq) { return seq % 2 == 0 ? CopyMode::kCached : CopyMode::kHandOver; }
  static void Publish(LaneMemory& lane, Seq seq, size_t bytes, Seq complete_end = 0) {
    lane.Publish(kGroup, {seq, 5, 5, 9, 1, complete_end}, Bytes(bytes, seq), ModeOf(seq));
  }
  static bool Holds(const LaneMemory& lane, Seq seq, size_t bytes) {
    const std::byte* const input = lane.Input(1, kGroup, seq, 0, bytes);
    const std::vector<std::byte> wanted = Bytes(bytes, seq);
    return input != nullptr && std::equal(wanted.begin(), wanted.end(), input);
  }

  std::shared_ptr<LaneMemory> one, two;
};

TEST_F(Lanes, ALineIsThatOfItsOperationAlone) {
  wire::LaneLine line;
  EXPECT_FALSE(one->Look(1, kGroup, 3, &line));
  Publish(*two, 3, 8);
  ASSERT_TRUE(one->Look(1, kGroup, 3, &line));
  EXPECT_EQ(line.attempt, 5u);
  EXPECT_EQ(line.digest, 9u);
  EXPECT_FALSE(one->Look(1, kGroup, 3 + wire::kLaneSlots, &line));
  EXPECT_FALSE(one->Look(1, kGroup + 1, 3, &line));
  EXPECT_FALSE(one->Look(0, kGroup, 3, &line)) << "its own";
}

TEST_F(Lanes, ALineSaysWhereItsInputIsAndWhetherItStays) {
  for (const Seq seq : {Seq{5}, Seq{6}}) {
    wire::LaneLine said{.seq = seq, .complete_end = 4, .shared = seq == 5, .whole = seq == 6};
    ASSERT_TRUE(two->MakeRoom(kGroup));
    two->PublishShared(kGroup, said, {});
    wire::LaneLine line;
    ASSERT_TRUE(one->Look(1, kGroup, seq, &line));
    EXPECT_EQ(line.complete_end, 4u);
    EXPECT_EQ(line.shared, said.shared);
    EXPECT_EQ(line.whole, said.whole);
  }
}

TEST_F(Lanes, InputsOfAnyLengthThatFits) {
  Seq seq = 0;
  for (const size_t bytes :
       {size_t{0}, size_t{1}, size_t{16}, size_t{17}, size_t{4096}, size_t{wire::kLaneInputMax}}) {
    Publish(*two, seq, bytes);
    EXPECT_TRUE(Holds(*one, seq, bytes)) << bytes;
    ++seq;
  }
  EXPECT_EQ(one->Input(1, kGroup, 0, 0, wire::kLaneInputMax + 1), nullptr);
  EXPECT_EQ(one->Input(1, kGroup, 0, wire::kLaneInputMax, 1), nullptr);
  EXPECT_EQ(one->Input(1, kGroup + 1, 0, 0, 1), nullptr);
  EXPECT_EQ(one->Input(2, kGroup, 0, 0, 1), nullptr);
}

TEST_F(Lanes, WhatIsSharedLiesWhereItsLineSays) {
  const LaneMemory::Places told{{3, 4096}, {0, 0}, 2};
  LaneMemory::Places seen;
  EXPECT_FALSE(one->PlacesOf(1, kGroup, 4, &seen)) << "nothing is there";
  two->PublishShared(kGroup, {4, 5, 5, 9, 1, 3}, told);
  wire::LaneLine line;
  ASSERT_TRUE(one->Look(1, kGroup, 4, &line));
  EXPECT_EQ(line.complete_end, 3u);
  ASSERT_TRUE(one->PlacesOf(1, kGroup, 4, &seen));
  EXPECT_EQ(seen.input.block, 3u);
  EXPECT_EQ(seen.input.offset, 4096u);
  EXPECT_EQ(seen.sums.block, 0u) << "in the area";
  EXPECT_EQ(seen.traits, 2u);
  EXPECT_FALSE(one->PlacesOf(1, kGroup, 4 + wire::kLaneSlots, &seen)) << "another one's";
  EXPECT_FALSE(one->PlacesOf(2, kGroup, 4, &seen)) << "no such segment";
}

TEST_F(Lanes, WordsAreThoseOfTheirOperationAlone) {
  EXPECT_EQ(one->Made(1, kGroup, 4), 0u);
  two->Tell(kGroup, 4, 100, /*done=*/false);
  EXPECT_EQ(one->Made(1, kGroup, 4), 100u);
  EXPECT_FALSE(one->Done(1, kGroup, 4));
  two->Tell(kGroup, 4, wire::kLaneSharedMax, /*done=*/true);
  EXPECT_EQ(one->Made(1, kGroup, 4), wire::kLaneSharedMax);
  constexpr Seq kLate = (Seq{1} << 40) + 4;  // more than there is room for beside the bytes
  EXPECT_EQ(one->Made(1, kGroup, 4 + wire::kLaneSlots), 0u);
  two->Tell(kGroup, kLate, 5, /*done=*/false);
  EXPECT_EQ(one->Made(1, kGroup, kLate), 5u);
  EXPECT_TRUE(one->Done(1, kGroup, 4));
  for (const Seq other : {Seq{4} + wire::kLaneSlots, Seq{5}}) {
    EXPECT_EQ(one->Made(1, kGroup, other), 0u) << other;
    EXPECT_FALSE(one->Done(1, kGroup, other)) << other;
  }
  two->Tell(kGroup, 4, wire::kLaneSharedMax, /*done=*/true);
  EXPECT_EQ(one->Made(1, kGroup, (Seq{1} << 34) + 4), 0u) << "years later";
  EXPECT_EQ(one->Made(1, kGroup + 1, 4), 0u) << "it has no place";
  EXPECT_EQ(one->Made(0, kGroup, 4), 0u) << "its own";
}

TEST_F(Lanes, TheAreaIsOfItsSizeAndNoMore) {
  EXPECT_EQ(two->OwnArea(kGroup, 0, 1), nullptr) << "not made yet";
  ASSERT_TRUE(two->MakeArea(kGroup));
  EXPECT_FALSE(two->MakeArea(kGroup + 1)) << "it has no place";
  std::byte* const own = two->OwnArea(kGroup, wire::kLaneAreaBytes - 1, 1);
  ASSERT_NE(own, nullptr);
  *own = std::byte{42};
  const std::byte* const seen = one->Area(1, kGroup, wire::kLaneAreaBytes - 1, 1);
  ASSERT_NE(seen, nullptr);
  EXPECT_EQ(*seen, std::byte{42});
  EXPECT_EQ(one->Area(1, kGroup, 1, wire::kLaneAreaBytes), nullptr);
  EXPECT_EQ(one->Area(1, kGroup, 0, wire::kLaneAreaBytes + 1), nullptr);
  EXPECT_EQ(one->Area(2, kGroup, 0, 1), nullptr);
}

TEST(LaneArea, OperationsInARowDoNotOverlap) {
  for (uint64_t bytes : {wire::kLaneInputMax + 1, uint64_t{65536}, uint64_t{65537},
                         wire::kLaneLongMax - 3, wire::kLaneLongMax}) {
    for (Seq seq = 0; seq < 3 * wire::kLaneSlots; ++seq) {
      const uint64_t at = wire::LaneAreaOffset(seq, bytes);
      EXPECT_LE(at + bytes, wire::kLaneAreaBytes);
      for (Seq next = seq + 1; next < seq + 4; ++next) {
        const uint64_t other = wire::LaneAreaOffset(next, bytes);
        EXPECT_TRUE(other + bytes <= at || at + bytes <= other) << bytes << " " << seq;
      }
    }
  }
}

// A line's places are its writer's words: of a long operation, too, they may name the area.
TEST_F(Lanes, WhatHasNoRoomInTheAreaIsNotThere) {
  ASSERT_TRUE(two->MakeArea(kGroup));
  for (uint64_t bytes : {wire::kLaneAreaBytes, wire::kLaneAreaBytes + 1, uint64_t{64} << 20,
                         wire::kLaneSharedMax, UINT64_MAX}) {
    for (Seq seq = 0; seq < 3; ++seq) {
      const uint64_t at = wire::LaneAreaOffset(seq, bytes);
      EXPECT_EQ(one->Area(1, kGroup, at, 1) != nullptr, bytes <= wire::kLaneAreaBytes) << bytes;
    }
  }
}

TEST_F(Lanes, SegmentsAreKnownByTheirMembers) {
  EXPECT_EQ(one->SegmentOf(kOne), 0);
  EXPECT_EQ(one->SegmentOf(kTwo), 1);
  EXPECT_EQ(one->SegmentOf({0, 3}), -1);
  EXPECT_TRUE(one->Map(kTwo, UniqueFd(::dup(two->fd()))).ok()) << "a link that was made anew";
  EXPECT_EQ(one->SegmentOf(kTwo), 1);
  one->Drop(kTwo);
  EXPECT_EQ(one->SegmentOf(kTwo), -1);
  const int gone[] = {1};
  EXPECT_TRUE(one->FlagUp(gone, 100)) << "nothing is delivered from what is not there";
}

TEST_F(Lanes, AGroupsPlaceIsThatInTheLaneThatIsThereNow) {
  wire::LaneLine line;
  Publish(*two, 3, 8);
  ASSERT_TRUE(one->Look(1, kGroup, 3, &line));
  one->Drop(kTwo);
  EXPECT_FALSE(one->Look(1, kGroup, 3, &line));
  EXPECT_EQ(one->Input(1, kGroup, 3, 0, 8), nullptr);

  constexpr MemberId kThree{0, 3};
  const auto three = *LaneMemory::Create(kThree);
  ASSERT_TRUE(three->MakeRoom(kGroup + 1) && three->MakeRoom(kGroup));  // not in two's order
  ASSERT_TRUE(one->Map(kThree, UniqueFd(::dup(three->fd()))).ok());
  ASSERT_EQ(one->SegmentOf(kThree), 1);
  three->Publish(kGroup + 1, {3, 5, 5, 10, 1, 0}, Bytes(8, 4), CopyMode::kCached);
  EXPECT_FALSE(one->Look(1, kGroup, 3, &line));
  Publish(*three, 3, 8);
  for (int round = 0; round < 2; ++round) {
    ASSERT_TRUE(one->Look(1, kGroup + 1, 3, &line));
    EXPECT_EQ(line.digest, 10u);
    ASSERT_TRUE(one->Look(1, kGroup, 3, &line));
    EXPECT_EQ(line.digest, 9u);
    EXPECT_TRUE(Holds(*one, 3, 8));
  }
}

TEST_F(Lanes, AForeignDescriptorIsRefused) {
  auto other = CreateSealedMemory("other", 4096, Pages::kNow);
  EXPECT_FALSE(one->Map({0, 3}, other->fd).ok());
  EXPECT_EQ(one->SegmentOf({0, 3}), -1);
}

TEST_F(Lanes, NoPlaceIsLeftForAFifthGroup) {
  for (GroupKey group = 8; group < 11; ++group) EXPECT_TRUE(one->MakeRoom(group));
  EXPECT_FALSE(one->MakeRoom(11));
  EXPECT_TRUE(one->MakeRoom(kGroup)) << "it has one";
}

TEST_F(Lanes, AFlagIsUpBeyondItsEra) {
  const int both[] = {0, 1};
  EXPECT_FALSE(one->FlagUp(both, 5));
  two->RaiseFrozen(6);
  EXPECT_TRUE(one->FlagUp(both, 5));
  EXPECT_FALSE(one->FlagUp(both, 6)) << "its change is installed";
  two->RaiseFrozen(4);
  EXPECT_TRUE(one->FlagUp(both, 5)) << "it never comes down";
}

TEST_F(Lanes, WhoSleepsIsFoundByTheOthers) {
  const auto sleepers = [](const LaneMemory& lane) {
    std::vector<MemberId> found;
    lane.ForSleepers([&](MemberId id) { found.push_back(id); });
    return found;
  };
  EXPECT_TRUE(sleepers(*one).empty());
  two->SetAsleep(true);
  one->SetAsleep(true);
  EXPECT_EQ(sleepers(*one), std::vector{kTwo}) << "and not itself";
  two->SetAsleep(false);
  EXPECT_TRUE(sleepers(*one).empty());
  two->SetAsleep(true);
  one->Drop(kTwo);
  EXPECT_TRUE(sleepers(*one).empty()) << "it has left";
}

// One after the other through all slots, several times: an input is whole while its reader has not
// said that it is done.
TEST_F(Lanes, TwoThreadsExchange) {
  constexpr Seq kOps = 2000;
  const auto run = [](LaneMemory& lane, size_t bytes) {
    const Seq begin = bytes == 8 ? 0 : kOps;
    for (Seq seq = begin; seq < begin + kOps; ++seq) {
      Publish(lane, seq, bytes, seq);
      wire::LaneLine line;
      while (!lane.Look(1, kGroup, seq, &line)) std::this_thread::yield();
      if (!Holds(lane, seq, bytes) || line.complete_end != seq) return false;
    }
    return true;
  };
  for (const size_t bytes : {size_t{8}, size_t{200}}) {
    bool other = false;
    std::thread thread([&] { other = run(*two, bytes); });
    EXPECT_TRUE(run(*one, bytes));
    thread.join();
    EXPECT_TRUE(other);
  }
}

// As a shared operation goes: the own half is made bit by bit and said to be, the other's copied as
// far as that says, and no place is written again before both are done.
TEST_F(Lanes, TwoThreadsShare) {
  constexpr size_t kPiece = 512, kPieces = 5;
  const auto run = [](LaneMemory& lane) {
    for (Seq seq = 0; seq < 1000; ++seq) {
      const uint64_t at = wire::LaneAreaOffset(seq, kPieces * kPiece);
      lane.PublishShared(kGroup, {seq, 5, 5, 9, 1, seq}, {});
      for (size_t made = 0; made < kPieces * kPiece; made += kPiece) {
        std::byte* const own = lane.OwnArea(kGroup, at + made, kPiece);
        std::fill_n(own, kPiece, std::byte(seq % 251));
        lane.Tell(kGroup, seq, made + kPiece, /*done=*/false);
      }
      uint64_t read = 0;
      while (read < kPieces * kPiece) {
        const uint64_t there = lane.Made(1, kGroup, seq);
        if (there == read) std::this_thread::yield();
        const std::byte* const sums = lane.Area(1, kGroup, at, kPieces * kPiece);
        const auto wrong = [&](std::byte b) { return b != std::byte(seq % 251); };
        if (sums == nullptr || std::any_of(sums + read, sums + there, wrong)) return false;
        read = there;
      }
      lane.Tell(kGroup, seq, kPieces * kPiece, /*done=*/true);
      while (!lane.Done(1, kGroup, seq)) std::this_thread::yield();
    }
    return true;
  };
  ASSERT_TRUE(one->MakeArea(kGroup) && two->MakeArea(kGroup));
  bool other = false;
  std::thread thread([&] { other = run(*two); });
  EXPECT_TRUE(run(*one));
  thread.join();
  EXPECT_TRUE(other);
}

// Two threads, as close to each other as can be had.
template <typename One, typename Two>
void AtTheSameTime(const One& first, const Two& second) {
  std::atomic<int> ready{0};
  const auto run = [&ready](const auto& work) {
    ++ready;
    while (ready.load() < 2) {
    }
    work();
  };
  std::thread thread([&] { run(second); });
  run(first);
  thread.join();
}

// F4 (c), (d): who has published and seen no flag is seen by whoever raises its flag and looks.
// Many times in a row, else the two seldom meet within a processor's reordering.
TEST_F(Lanes, OneOfTheTwoSeesTheOther) {
  constexpr Epoch kRounds = 30'000;
  const int other[] = {1};
  std::vector<char> flag_seen(kRounds), line_seen(kRounds);
  std::atomic<Epoch> at_one{0}, at_two{0};
  const auto meet = [](std::atomic<Epoch>* here, const std::atomic<Epoch>& there, Epoch round) {
    here->store(round);
    for (int i = 0; there.load() < round; ++i) {
      if (i % 1000 == 999) std::this_thread::yield();
    }
  };
  const auto publish = [&] {
    for (Epoch era = 1; era < kRounds; ++era) {
      meet(&at_one, at_two, era);
      Publish(*one, era, 8);
      if (era % 2 == 0) one->FullFence();  // the flags are looked at later than the fence
      flag_seen[era] = one->FlagUp(other, era);
    }
  };
  const auto freeze = [&] {
    for (Epoch era = 1; era < kRounds; ++era) {
      meet(&at_two, at_one, era);
      two->RaiseFrozen(era + 1);
      wire::LaneLine line;
      line_seen[era] = two->Look(1, kGroup, era, &line);
    }
  };
  AtTheSameTime(publish, freeze);
  for (Epoch era = 1; era < kRounds; ++era) ASSERT_TRUE(flag_seen[era] || line_seen[era]) << era;
}

// A line that the sleeper does not find when it looks for the last time wakes it.
TEST_F(Lanes, NobodySleepsThroughALine) {
  for (Seq seq = 1; seq < 1000; ++seq) {
    bool line_seen = false, sleeper_seen = false;
    const auto publish = [&] {
      Publish(*one, seq, 8);
      one->FullFence();
      one->ForSleepers([&](MemberId) { sleeper_seen = true; });
    };
    const auto sleep = [&] {
      two->SetAsleep(true);
      wire::LaneLine line;
      line_seen = two->Look(1, kGroup, seq, &line);
    };
    AtTheSameTime(publish, sleep);
    ASSERT_TRUE(line_seen || sleeper_seen) << seq;
    two->SetAsleep(false);
  }
}

}  // namespace
}  // namespace ftar::transport
