// Goal: with the coordinator gone everybody looks along the list, and its members step up one after
// the other, those whose predecessors are dead without waiting.
#include "membership/succession.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace ftar::membership {
namespace {

constexpr TimeNs kStep = 100, kRetry = 10, kGrace = 20;
constexpr TimeNs kPart = kStep / 4;  // what one waits longer than its neighbour on the list

MemberId Member(uint64_t i) { return {1, i + 1}; }

Succession Follower(uint64_t self) {
  SuccessionConfig config;
  config.self = Member(self);
  config.step_ns = kStep;
  config.retry_ns = kRetry;
  config.grace_ns = kGrace;
  Succession succession(config);
  succession.Step(0, SuccessorsKnown{{Member(0), Member(1), Member(2), Member(3)}});
  succession.Step(0, CoordinatorFound{Member(0)});
  return succession;
}

// Nobody answers. When does it take over?
TimeNs TakesOverAt(Succession* succession, TimeNs from) {
  TimeNs now = from;
  for (int i = 0; i < 1000; ++i) {
    const SuccessionReady ready = succession->TakeReady();
    if (ready.take_over) return now;
    if (ready.next_deadline == kNever && !ready.dial) return kNever;
    if (ready.dial) {
      succession->Step(now, DialFailed{});
    } else {
      now = std::max(now, ready.next_deadline);
      succession->Step(now, SuccessionTick{});
    }
  }
  return kNever;
}

TEST(Succession, TheFounderBegins) {
  Succession succession({Member(0), 1, true, kStep, kRetry, kGrace});
  succession.Step(5, SuccessionTick{});
  const SuccessionReady ready = succession.TakeReady();
  EXPECT_TRUE(ready.take_over);
  ASSERT_TRUE(ready.dial);
  EXPECT_EQ(*ready.dial, Member(0));
}

// The second process in the founder's place must not begin a job that is under way.
TEST(Succession, AFounderLooksAtOtherPlacesFirst) {
  for (const bool begun : {false, true}) {
    Succession succession({Member(0), 1, true, kStep, kRetry, kGrace, 2});
    TimeNs now = 5;
    for (int look = 0; look < 2; ++look, now += kRetry) {
      succession.Step(now, SuccessionTick{});
      const SuccessionReady ready = succession.TakeReady();
      EXPECT_FALSE(ready.take_over);
      ASSERT_TRUE(ready.dial);
      EXPECT_FALSE(ready.dial->valid());
      if (begun && look == 0) succession.Step(now, JobHasBegun{});
      succession.Step(now, DialFailed{});
    }
    EXPECT_EQ(succession.TakeReady().take_over, !begun);
  }
}

// They may only be far away, or packets get lost: where the job is under way, one that says nothing
// is no proof that it is not.
TEST(Succession, AFounderAsksAgainWhoSaysNothing) {
  SuccessionConfig config{Member(0), 1, true, kStep, kRetry, kGrace, 2};
  config.asks_again_ns = 5 * kStep;
  Succession succession(config);
  TimeNs now = 5;
  // Of two one refuses and one says nothing, again and again.
  for (int look = 0; now < 5 + config.asks_again_ns; ++look, now += kRetry) {
    succession.Step(now, SuccessionTick{});
    const SuccessionReady ready = succession.TakeReady();
    EXPECT_FALSE(ready.take_over) << now;
    ASSERT_TRUE(ready.dial);
    succession.Step(now, DialFailed{.silent = look % 2 == 1});
  }
  EXPECT_EQ(TakesOverAt(&succession, now), now + kRetry);
}

TEST(Succession, WhoKnowsNobodyLooksAtTheMeetingPoint) {
  Succession succession({Member(7), 1, false, kStep, kRetry, kGrace});
  succession.Step(5, SuccessionTick{});
  const SuccessionReady ready = succession.TakeReady();
  EXPECT_FALSE(ready.take_over);
  ASSERT_TRUE(ready.dial);
  EXPECT_FALSE(ready.dial->valid());
}

TEST(Succession, EachWaitsForThoseBeforeIt) {
  for (uint64_t i = 1; i < 4; ++i) {
    Succession succession = Follower(i);
    succession.Step(1000, CoordinatorGone{});
    EXPECT_EQ(TakesOverAt(&succession, 1000), 1000 + static_cast<TimeNs>(i) * (kStep + kPart));
  }
}

TEST(Succession, TheDeadKeepNobodyWaiting) {
  Succession succession = Follower(2);
  succession.Step(990, HostExited{Member(0)});
  EXPECT_FALSE(succession.TakeReady().take_over) << "what the dead one has sent is not read yet";
  succession.Step(1000, CoordinatorGone{});
  EXPECT_EQ(TakesOverAt(&succession, 1000), 1000 + kStep + 2 * kPart);  // 1 may live
  Succession next = Follower(1);
  next.Step(990, HostExited{Member(0)});
  next.Step(1000, CoordinatorGone{});
  EXPECT_EQ(TakesOverAt(&next, 1000), 1000);
}

TEST(Succession, WhoHandsOverKeepsNobodyWaiting) {
  Succession first = Follower(1), second = Follower(2);
  for (Succession* succession : {&first, &second}) {
    succession->Step(990, CoordinatorLeaves{});
    EXPECT_FALSE(succession->TakeReady().take_over) << "it is there still";
    succession->Step(1000, CoordinatorGone{});
    EXPECT_TRUE(succession->witnessed().empty()) << "it lives";
  }
  EXPECT_EQ(TakesOverAt(&first, 1000), 1000);
  EXPECT_EQ(TakesOverAt(&second, 1000), 1000 + kStep + 2 * kPart);
}

TEST(Succession, LooksAlongTheListFromWhoWasLost) {
  Succession succession = Follower(3);
  succession.Step(1000, CoordinatorGone{});
  for (const uint64_t next : {0, 1, 2, 0}) {
    SuccessionReady ready = succession.TakeReady();
    if (!ready.dial) {
      EXPECT_EQ(ready.next_deadline, 1000 + kRetry);
      succession.Step(1000 + kRetry, SuccessionTick{});
      ready = succession.TakeReady();
    }
    ASSERT_TRUE(ready.dial);
    EXPECT_EQ(*ready.dial, Member(next));
    succession.Step(1000, DialFailed{});
  }
}

TEST(Succession, FoundAnotherItFollows) {
  Succession succession = Follower(2);
  succession.Step(1000, CoordinatorGone{});
  ASSERT_TRUE(succession.TakeReady().dial);
  succession.Step(1005, CoordinatorFound{Member(1)});
  EXPECT_EQ(TakesOverAt(&succession, 1005), kNever);
}

TEST(Succession, WhoSitsDownLetsAllOthersTryFirst) {
  Succession succession = Follower(1);
  succession.Step(1000, CoordinatorGone{});
  ASSERT_EQ(TakesOverAt(&succession, 1000), 1000 + kStep + kPart);
  succession.Step(2000, StoodDown{});
  EXPECT_FALSE(succession.hosting());
  EXPECT_EQ(TakesOverAt(&succession, 2000), 2000 + 5 * kStep + kPart);
}

// One that stands still keeps a dial waiting until its turn has come; the one before it is there
// meanwhile.
TEST(Succession, WhoStepsUpLooksOnceMoreAtThoseBeforeIt) {
  Succession succession = Follower(2);
  succession.Step(990, HostExited{Member(0)});
  succession.Step(1000, CoordinatorGone{});
  ASSERT_EQ(succession.TakeReady().dial, Member(1));
  succession.Step(1010, DialFailed{});
  ASSERT_EQ(succession.TakeReady().dial, Member(3));  // no answer
  const TimeNs turn = 1000 + kStep + 2 * kPart;
  succession.Step(turn, SuccessionTick{});
  const SuccessionReady ready = succession.TakeReady();
  EXPECT_FALSE(ready.take_over);
  ASSERT_EQ(ready.dial, Member(1));
  succession.Step(turn + 1, CoordinatorFound{Member(1)});
  EXPECT_EQ(TakesOverAt(&succession, turn + 1), kNever);
}

TEST(Succession, WhoSatDownLooksOnceMoreAtAllOthers) {
  Succession succession = Follower(1);
  succession.Step(1000, CoordinatorGone{});
  ASSERT_NE(TakesOverAt(&succession, 1000), kNever);
  succession.Step(2000, StoodDown{});
  const TimeNs turn = 2000 + 5 * kStep + kPart;
  succession.Step(turn, SuccessionTick{});
  for (const uint64_t other : {0, 2, 3}) {
    const SuccessionReady ready = succession.TakeReady();
    EXPECT_FALSE(ready.take_over);
    EXPECT_EQ(ready.dial, Member(other));
    succession.Step(turn, DialFailed{});
  }
  EXPECT_TRUE(succession.TakeReady().take_over);
}

// A view that it hears of late puts it behind another one: what it has looked at for the first turn
// is old at the second.
TEST(Succession, WhoseTurnMovesOnLooksOnceMoreAtTheNextOne) {
  for (const bool a_dial_hangs : {false, true}) {
    Succession succession = Follower(2);
    succession.Step(1000, CoordinatorGone{});
    const TimeNs first = 1000 + 2 * (kStep + kPart), second = 1000 + 3 * (kStep + kPart);
    succession.Step(first, SuccessionTick{});
    ASSERT_EQ(succession.TakeReady().dial, Member(0));
    succession.Step(first, SuccessorsKnown{{Member(0), Member(1), Member(3), Member(2)}});
    succession.Step(first, DialFailed{});
    ASSERT_EQ(succession.TakeReady().dial, Member(1)) << "as before its turn";
    if (!a_dial_hangs) succession.Step(first, DialFailed{});
    succession.Step(second, SuccessionTick{});
    for (const uint64_t before : {0, 1, 3}) {
      const SuccessionReady ready = succession.TakeReady();
      EXPECT_FALSE(ready.take_over);
      ASSERT_EQ(ready.dial, Member(before));
      succession.Step(second, DialFailed{});
    }
    EXPECT_TRUE(succession.TakeReady().take_over);
  }
}

TEST(Succession, TheLastLookIsAlongTheNewestList) {
  Succession succession = Follower(3);
  succession.Step(1000, CoordinatorGone{});
  const TimeNs turn = 1000 + 3 * (kStep + kPart);
  succession.Step(turn, SuccessionTick{});
  for (const uint64_t before : {0, 1}) {
    ASSERT_EQ(succession.TakeReady().dial, Member(before));
    succession.Step(turn, DialFailed{});
  }
  const SuccessorsKnown known{{Member(1), Member(2), Member(3)}};
  for (int times = 0; times < 2; ++times) {  // the same once more is no news
    succession.Step(turn, known);
    const SuccessionReady ready = succession.TakeReady();
    EXPECT_FALSE(ready.take_over);
    ASSERT_EQ(ready.dial, Member(times == 0 ? 1 : 2));
    succession.Step(turn, DialFailed{});
  }
  EXPECT_TRUE(succession.TakeReady().take_over);
}

// The first of two who are left does not know that their coordinator is dead, the second does. So
// they are all but even, and each might find nobody when it looks, for ever.
TEST(Succession, TwoWhoAreEvenDoNotStepUpTogetherForEver) {
  SuccessionConfig config{Member(1), 0x1234, false, kStep, kRetry, kGrace};
  Succession first(config);
  config.self = Member(2);
  config.incarnation = 0x8765;
  Succession second(config);
  for (Succession* one : {&first, &second}) {
    one->Step(0, SuccessorsKnown{{Member(0), Member(1), Member(2)}});
    one->Step(0, CoordinatorFound{Member(0)});
  }
  second.Step(500, HostExited{Member(0)});
  for (Succession* one : {&first, &second}) one->Step(1000, CoordinatorGone{});
  ASSERT_EQ(TakesOverAt(&second, 1000) - TakesOverAt(&first, 1000), kPart);
  int apart = 0;
  for (TimeNs now = 10'000; now < 100'000; now += 10'000) {
    for (Succession* one : {&first, &second}) one->Step(now, StoodDown{});
    const TimeNs a = TakesOverAt(&first, now), b = TakesOverAt(&second, now);
    if (std::max(a, b) - std::min(a, b) >= kStep) ++apart;
  }
  EXPECT_GE(apart, 4);
}

TEST(Succession, WhoIsNoSuccessorNeverTakesOver) {
  Succession succession = Follower(9);
  succession.Step(1000, CoordinatorGone{});
  EXPECT_EQ(TakesOverAt(&succession, 1000), kNever);
}

// Rule Q4: a death that is proven long after the connection was lost does not tell what the dead
// one has numbered meanwhile.
// Whom it dials from a moment on, when nobody answers, in a while.
std::vector<MemberId> Dials(Succession* succession, TimeNs from, TimeNs while_ns) {
  std::vector<MemberId> dials;
  for (TimeNs now = from; now < from + while_ns;) {
    const SuccessionReady ready = succession->TakeReady();
    if (ready.dial) {
      dials.push_back(*ready.dial);
      succession->Step(now, DialFailed{});
    } else {
      now = std::max(now + 1, std::min(ready.next_deadline, from + while_ns));
      succession->Step(now, SuccessionTick{});
    }
  }
  return dials;
}

// All whom it knows may have gone, and others have come since.
TEST(Succession, WhoFindsNobodyInTimeLooksAtTheMeetingPoint) {
  SuccessionConfig config;
  config.self = Member(7);  // no successor: it never takes over
  config.step_ns = kStep;
  config.retry_ns = kRetry;
  for (const bool exited : {false, true}) {
    Succession succession(config);
    succession.Step(0, SuccessorsKnown{{Member(0), Member(1)}});
    succession.Step(0, CoordinatorFound{Member(0)});
    succession.Step(1000, CoordinatorGone{});
    for (uint64_t i = 0; exited && i < 2; ++i) succession.Step(1000, HostExited{Member(i), false});
    for (const MemberId id : Dials(&succession, 1000, 3 * kStep)) EXPECT_TRUE(id.valid());
    std::vector<MemberId> round = Dials(&succession, 1000 + 3 * kStep + 1, kStep);
    EXPECT_EQ(std::ranges::count(round, MemberId{}) > 3, true);
    EXPECT_EQ(std::ranges::count(round, Member(1)) > 3, !exited);
    // Found there, and lost: the list comes first again.
    succession.Step(2000, CoordinatorFound{Member(5)});
    succession.Step(2001, CoordinatorGone{});
    for (const MemberId id : Dials(&succession, 2001, kStep)) EXPECT_TRUE(id.valid());
  }
}

TEST(Succession, WhoSatDownLooksAtTheMeetingPointAtOnce) {
  Succession succession = Follower(1);
  succession.Step(1000, CoordinatorGone{});
  ASSERT_NE(TakesOverAt(&succession, 1000), kNever);
  succession.Step(2000, StoodDown{});
  const std::vector<MemberId> round = Dials(&succession, 2000, kRetry);
  EXPECT_EQ(round, (std::vector<MemberId>{Member(0), Member(2), Member(3), MemberId{}}));
}

TEST(Succession, OnlyWhatWasSeenInTimeIsWitnessed) {
  Succession succession = Follower(1);
  succession.Step(900, HostExited{Member(2), /*led=*/true});
  succession.Step(1000, CoordinatorGone{});
  succession.Step(1000 + kGrace, HostExited{Member(0), /*led=*/true});
  succession.Step(1001 + kGrace, HostExited{Member(3), /*led=*/true});
  EXPECT_EQ(succession.witnessed(), (std::set<MemberId>{Member(0), Member(2)}));
  succession.Step(1100, CoordinatorFound{Member(4)});
  EXPECT_TRUE(succession.witnessed().empty()) << "another may have numbered views since";
}

// Beside a coordinator that lacks a quorum it does not know what the dead one did before it died.
TEST(Succession, WhatWasSeenBesideOneWithoutAQuorumIsNotWitnessed) {
  Succession succession = Follower(1);
  succession.Step(900, HostExited{Member(2), /*led=*/false});
  succession.Step(950, HostExited{Member(3), /*led=*/true});
  succession.Step(1000, CoordinatorGone{});
  succession.Step(1001, HostExited{Member(0), /*led=*/false});
  EXPECT_EQ(succession.witnessed(), (std::set<MemberId>{Member(3)}));
}

}  // namespace
}  // namespace ftar::membership
