// Goal: a relay takes members over from one that is lost (rule Q7), in the middle of a change, or
// lower relays, each of which speaks for several (design 5 "Scale").
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "membership/relay_machine.h"
#include "wire/codec.h"
#include "wire/frame.h"

namespace ftar::membership {
namespace {

// The relay of shards 0 and 1 of replica 0, which are its connections 1 and 2; where these are
// relays, it is the upper one of two such blocks.
class RelayTakeoverTest : public ::testing::Test {
 protected:
  RelayTakeoverTest() : machine_({2, 0, 2 * kMillisecond}) {}

  static wire::MemberCard CardOf(int replica, int shard) {
    wire::MemberCard card;
    card.id = {static_cast<uint64_t>(replica + 1), static_cast<uint64_t>(shard + 1)};
    card.replica = replica;
    card.shard = shard;
    return card;
  }
  static std::string RosterOf(const wire::MemberCard& one, const wire::MemberCard& other) {
    const std::vector<std::byte> bytes = wire::Encode(wire::Behind{{one, other}, {"", ""}});
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
  wire::Hello HelloOf(int shard) const {
    const wire::MemberCard card = CardOf(0, shard);
    wire::Hello hello;
    hello.wire_version = wire::kWireVersion;
    hello.job = "job";
    hello.card = card;
    hello.replicas = hello.min_replicas = 1;
    hello.shards = 2;
    hello.agreed_config = agreed_;
    if (upper_) hello.roster = RosterOf(card, card);
    return hello;
  }
  void Feed(const RelayEvent& event) {
    machine_.Step(now_, event);
    ready_ = machine_.TakeReady();
  }
  void Come(int shard, const wire::Report& report) {
    wire::Hello hello = HelloOf(shard);
    hello.report = report;
    Feed(Connected{static_cast<ConnId>(shard + 1), hello});
  }
  void Say(int shard, wire::Message message) {
    Feed(Received{static_cast<ConnId>(shard + 1), std::move(message)});
  }
  wire::View View() const {
    wire::View view;
    view.epoch = view.era = 10;
    view.entries.emplace_back().card.id = machine_.unit();
    return view;
  }
  void Prepare() {
    Come(0, {});
    Come(1, {});
    Feed(AboveUp{});
    wire::Prepare prepare;
    prepare.epoch = 10;
    prepare.members = View().entries;
    Feed(FromAbove{prepare});
  }
  template <typename T>
  const T* Up() const {
    for (const wire::Message& message : ready_.up) {
      if (const T* found = std::get_if<T>(&message)) return found;
    }
    return nullptr;
  }
  template <typename T>
  bool Hears() const {
    return std::ranges::any_of(ready_.down, [](const Outgoing& out) {
      return std::holds_alternative<T>(out.message);
    });
  }

  bool upper_ = false;
  std::vector<std::string> agreed_ = {"timeout=1s"};
  RelayMachine machine_;
  TimeNs now_ = kSecond;
  RelayReady ready_;
};

// A relay is lost when one of its two members has the Install, and another takes over: what the
// other lacks it has from nobody else.
TEST_F(RelayTakeoverTest, WhoHoldsAViewInPartHearsItAgain) {
  upper_ = true;
  Prepare();
  Feed(FromAbove{wire::Install{View(), {}}});
  Say(0, wire::Installed{10});
  Feed(Disconnected{2, "reset"});
  wire::Report report;
  report.promised = report.installed = 10;
  report.in_part = true;
  Come(1, report);
  EXPECT_TRUE(Hears<wire::Prepare>());
  EXPECT_TRUE(Hears<wire::Install>());
  EXPECT_EQ(Up<wire::Installed>(), nullptr);
  now_ += 100 * kMillisecond;
  Feed(Timer{});
  ASSERT_NE(Up<wire::Heartbeat>(), nullptr);
  EXPECT_EQ(Up<wire::Heartbeat>()->installed, 0u);
  Say(1, wire::Installed{10});
  ASSERT_NE(Up<wire::Installed>(), nullptr);
  EXPECT_EQ(Up<wire::Installed>()->epoch, 10u);
}

// An upper relay has lost its line, and what it had told of links is void: it says Welcome again,
// on lines that have stood all the while.
TEST_F(RelayTakeoverTest, WhoIsWelcomedAgainTellsOfItsLinksAgain) {
  wire::MemberCard other;
  other.id = {0xb, 0xb};
  other.replica = 1;
  Come(0, {});
  Come(1, {});
  Feed(AboveUp{});
  Feed(FromAbove{wire::Roster{other.id, RosterOf(CardOf(1, 0), CardOf(1, 1))}});
  for (int times = 0; times < 2; ++times) {
    Feed(FromAbove{wire::Welcome{{other}}});
    Say(0, wire::LinksUp{{CardOf(1, 0).id}, {}});
    const bool at_once = Up<wire::LinksUp>() != nullptr;
    Say(1, wire::LinksUp{{CardOf(1, 1).id}, {}});
    EXPECT_TRUE(at_once || Up<wire::LinksUp>() != nullptr) << times;
  }
}

// Members of a lost relay tell their links at once, and the rosters of the others come after that.
class EarlyLinksTest : public RelayTakeoverTest, public ::testing::WithParamInterface<bool> {};
INSTANTIATE_TEST_SUITE_P(LostAgain, EarlyLinksTest, ::testing::Bool());

TEST_P(EarlyLinksTest, CountWhenTheRosterComesUnlessTheyAreLostAgain) {
  wire::MemberCard other;
  other.id = {0xb, 0xb};
  Come(0, {});
  Come(1, {});
  Feed(AboveUp{});
  Say(0, wire::LinksUp{{CardOf(1, 0).id}, {}});
  Say(1, wire::LinksUp{{CardOf(1, 1).id}, {}});
  EXPECT_EQ(Up<wire::LinksUp>(), nullptr);
  if (GetParam())
    Say(1, wire::Evidence{wire::EvidenceKind::kLinkLost, CardOf(1, 1).id, Code::kLink, 0, ""});
  Feed(FromAbove{wire::Roster{other.id, RosterOf(CardOf(1, 0), CardOf(1, 1))}});
  EXPECT_EQ(Up<wire::LinksUp>() != nullptr, !GetParam());
}

// A coordinator that knows of an older view alone names somebody as a newcomer whom its predecessor
// had let in; a member's word on that comes late.
TEST_F(RelayTakeoverTest, WhoIsNamedAnewIsNotInByTheViewOfAnEarlierCoordinator) {
  wire::ViewEntry other;
  other.card.id = {0xb, 0xb};
  const wire::Roster roster{other.card.id, RosterOf(CardOf(1, 0), CardOf(1, 1))};
  Prepare();
  Feed(FromAbove{roster});
  wire::View with = View();
  with.entries.push_back(other);
  Feed(FromAbove{wire::Install{with, {}}});
  Feed(AboveDown{});
  Feed(AboveUp{});
  Feed(FromAbove{roster});
  Say(0, wire::Installed{10});
  wire::View without = View();
  without.epoch = without.era = 11;
  Feed(FromAbove{wire::Install{without, {}}});
  EXPECT_EQ(machine_.units(), 2u);
}

// The others may be in a view with them by now, and miss whoever is silent.
TEST_F(RelayTakeoverTest, WhoHasPromisedIsHeard) {
  Come(0, {});
  Come(1, {});
  Feed(AboveUp{});
  now_ += 100 * kMillisecond;
  Feed(Timer{});
  EXPECT_EQ(Up<wire::Heartbeat>(), nullptr);
  wire::Prepare prepare;
  prepare.epoch = 10;
  prepare.members = View().entries;
  Feed(FromAbove{prepare});
  now_ += 100 * kMillisecond;
  Feed(Timer{});
  EXPECT_NE(Up<wire::Heartbeat>(), nullptr);
}

// The coordinator is away and a change has stopped them: who holds all data of an operation waits
// for that change, whoever its relay is by now.
TEST_F(RelayTakeoverTest, WhoIsStoppedByAChangeIsNotStuck) {
  wire::Report report;
  report.promised = 11;
  report.installed = 10;
  Come(0, report);
  Come(1, report);
  wire::Heartbeat beat{10, {}};
  beat.groups.push_back({1, 8, 7, 3, {}});
  for (int i = 0; i < 30; ++i) {
    now_ += 100 * kMillisecond;
    for (const int shard : {0, 1}) Say(shard, beat);
    Feed(Timer{});
  }
  Feed(AboveUp{});
  EXPECT_NE(Up<wire::Hello>(), nullptr);
  EXPECT_EQ(Up<wire::Goodbye>(), nullptr);
}

// Their own relay stood still for a moment, and they went back to it; half a `timeout` later it
// does so again, and they do not come all at once.
TEST_F(RelayTakeoverTest, WhoComesAfterAnotherLossHasItsTimeAgain) {
  wire::Report report;
  report.promised = report.installed = 10;
  Come(0, report);
  now_ += 100 * kMillisecond;
  Feed(Timer{});
  ASSERT_EQ(ready_.close, std::vector<ConnId>{1});
  now_ += 895 * kMillisecond;
  Come(0, report);
  now_ += 10 * kMillisecond;
  Feed(Timer{});
  EXPECT_FALSE(Hears<wire::Evicted>());
  Come(1, report);
  EXPECT_TRUE(machine_.complete());
}

// Whoever finds no mates for a whole `timeout` is out, though it was sent to look again meanwhile.
TEST_F(RelayTakeoverTest, WhoseMatesDoNotComeIsOut) {
  wire::Report report;
  report.promised = report.installed = 10;
  int rounds = 0;
  for (; rounds < 20 && !Hears<wire::Evicted>(); ++rounds) {
    Come(0, report);
    now_ += 100 * kMillisecond;
    Feed(Timer{});
    now_ += 200 * kMillisecond;
  }
  EXPECT_EQ(rounds, 4);
}

// Members look for another relay when theirs is silent. Whoever of them was heard, or was not, of
// those who are in when this one's connections end.
class LeftAloneTest : public RelayTakeoverTest {
 protected:
  void SetUp() override {
    Prepare();
    Feed(FromAbove{wire::Install{View(), {}}});
    for (const int shard : {0, 1}) Say(shard, wire::Installed{10});
  }
  void Pass(TimeNs time, bool first_speaks) {
    for (const TimeNs end = now_ + time; now_ < end;) {
      now_ += 50 * kMillisecond;
      if (first_speaks) Say(0, wire::Heartbeat{10, {}});
      Say(1, wire::Heartbeat{10, {}});
    }
  }
  static constexpr ConnId kFirst = 1, kSecond = 2;
};

TEST_F(LeftAloneTest, WhoWasHeardAndIsGoneIsLost) {
  Pass(400 * kMillisecond, true);
  Feed(Disconnected{kFirst, "reset"});
  EXPECT_FALSE(machine_.over());
  now_ += 3 * kMillisecond;
  Feed(Timer{});
  EXPECT_NE(Up<wire::Goodbye>(), nullptr);
}

TEST_F(LeftAloneTest, WhoWasNotHeardHasFoundAnotherRelayAndMayBeBack) {
  Pass(400 * kMillisecond, false);
  Feed(Disconnected{kFirst, "reset"});
  EXPECT_FALSE(machine_.over());
  Pass(200 * kMillisecond, false);
  Come(0, {});
  Pass(400 * kMillisecond, true);
  EXPECT_FALSE(machine_.over());
}

TEST_F(LeftAloneTest, WhoDoesNotComeBackIsFollowedByItsMates) {
  Pass(400 * kMillisecond, false);
  Feed(Disconnected{kFirst, "reset"});
  for (int i = 0; i < 5 && !machine_.over(); ++i) {
    now_ += 50 * kMillisecond;
    Say(1, wire::Heartbeat{10, {}});
    EXPECT_EQ(Up<wire::Goodbye>(), nullptr);
  }
  EXPECT_TRUE(machine_.over());
  EXPECT_EQ(ready_.close, std::vector<ConnId>{kSecond});
}

// The way to it was cut for nearly a `timeout`, which is over before its time to come back is.
TEST_F(LeftAloneTest, WhoMayBeBackIsNotMissedMeanwhile) {
  Pass(850 * kMillisecond, false);
  Feed(Disconnected{kFirst, "reset"});
  for (int i = 0; i < 6 && !machine_.over(); ++i) {
    now_ += 50 * kMillisecond;
    Say(1, wire::Heartbeat{10, {}});
    EXPECT_EQ(Up<wire::Goodbye>(), nullptr) << i;
  }
  EXPECT_TRUE(machine_.over());
}

TEST_F(LeftAloneTest, WhenAllAreGoneNobodyIsAwaited) {
  Pass(400 * kMillisecond, true);
  now_ += 500 * kMillisecond;  // it stands still
  Feed(Disconnected{kFirst, "reset"});
  EXPECT_FALSE(machine_.over());
  Feed(Disconnected{kSecond, "reset"});
  EXPECT_TRUE(machine_.over());
  EXPECT_EQ(Up<wire::Goodbye>(), nullptr);
}

// The way to it is cut, the way from it is not.
TEST_F(LeftAloneTest, WhoSaysThatItHasFoundAnotherRelayIsNotLost) {
  Pass(400 * kMillisecond, true);
  Say(0, wire::Redirect{0, {}, "10.0.0.2:7100", false, true});
  EXPECT_EQ(ready_.close, std::vector<ConnId>{kFirst});
  Pass(100 * kMillisecond, false);
  EXPECT_FALSE(machine_.over());
  EXPECT_EQ(Up<wire::Goodbye>(), nullptr);
}

// The one above has closed its line, as another relay speaks for them by now. To speak up again
// would take it their place.
TEST_F(LeftAloneTest, WhoHearsNobodySpeaksForNobody) {
  for (int i = 0; i < 8; ++i) {
    now_ += 50 * kMillisecond;
    Feed(Timer{});
  }
  Feed(AboveDown{});
  EXPECT_TRUE(machine_.over());
  EXPECT_EQ(ready_.close.size(), 2u);
}

// There are no beats, so who says nothing is there all the same. All relays that let their members
// go when the coordinator is lost would lose what these hold.
class BeatlessTest : public LeftAloneTest {
 protected:
  void SetUp() override {
    agreed_.emplace_back("ft=off");
    LeftAloneTest::SetUp();
    for (int i = 0; i < 30; ++i) {
      now_ += 50 * kMillisecond;
      Feed(Timer{});
    }
  }
};

TEST_F(BeatlessTest, WhoIsGoneIsLost) {
  Feed(Disconnected{kFirst, "reset"});
  now_ += 3 * kMillisecond;
  Feed(Timer{});
  EXPECT_NE(Up<wire::Goodbye>(), nullptr);
}

TEST_F(BeatlessTest, WhoSaysNothingIsSpokenForWhenTheCoordinatorIsBack) {
  Feed(AboveDown{});
  EXPECT_FALSE(machine_.over());
  Feed(AboveUp{});
  ASSERT_NE(Up<wire::Hello>(), nullptr);
  EXPECT_TRUE(Up<wire::Hello>()->report.installed_view);
}

TEST_F(LeftAloneTest, NorDoesWhoHearsThatAnotherOneSpeaks) {
  Feed(FromAbove{wire::Redirect{0, {}, {}, false, true}});
  EXPECT_TRUE(machine_.over());
  EXPECT_EQ(Up<wire::Goodbye>(), nullptr);
  EXPECT_EQ(ready_.close.size(), 2u);
}

TEST_F(RelayTakeoverTest, ALowerRelayHearsThatAnotherOneSpeaks) {
  upper_ = true;
  Come(0, {});
  Come(1, {});
  Feed(Connected{7, HelloOf(0)});
  ASSERT_TRUE(Hears<wire::Redirect>());
  EXPECT_EQ(ready_.down[0].to, std::vector<ConnId>{1});
  EXPECT_EQ(ready_.close, std::vector<ConnId>{1});
}

// It stands by for the upper one of theirs, which is back: the lower relay that takes over looks
// for that one, and its mates have to go there, too.
TEST_F(RelayTakeoverTest, ALowerRelayThatIsLostIsFollowedByItsMates) {
  upper_ = true;
  Prepare();
  Feed(FromAbove{wire::Install{View(), {}}});
  for (const int shard : {0, 1}) Say(shard, wire::Installed{10});
  Feed(Disconnected{1, "reset"});
  for (int i = 0; i < 6 && !machine_.over(); ++i) {
    now_ += 50 * kMillisecond;
    Say(1, wire::Heartbeat{10, {}});
    EXPECT_EQ(Up<wire::Goodbye>(), nullptr) << i;
  }
  EXPECT_TRUE(machine_.over());
  EXPECT_EQ(ready_.close, std::vector<ConnId>{2});
}

TEST_F(LeftAloneTest, WhoHearsOneSpeaksForAll) {
  Pass(400 * kMillisecond, false);
  Feed(AboveDown{});
  EXPECT_FALSE(machine_.over());
  Feed(AboveUp{});
  EXPECT_NE(Up<wire::Hello>(), nullptr);
}

}  // namespace
}  // namespace ftar::membership
