#include "membership/relay_machine.h"

#include <gtest/gtest.h>

#include <span>
#include <string>
#include <vector>

#include "membership/relay_lines.h"
#include "wire/codec.h"
#include "wire/frame.h"

namespace ftar::membership {
namespace {

using wire::Bound;
using wire::Message;

constexpr int32_t kMembers = 2;       // behind a relay
constexpr MemberId kOther{0xb, 0xb};  // the unit of replica 1

MemberId IdOf(int replica, int shard) {
  return {static_cast<uint64_t>(replica + 1) << 8, static_cast<uint64_t>(shard + 1)};
}

wire::MemberCard CardOf(int replica, int shard) {
  wire::MemberCard card;
  card.id = IdOf(replica, shard);
  card.replica = replica;
  card.shard = shard;
  card.host = "host" + std::to_string(replica);
  return card;
}

wire::Hello HelloOf(int replica, int shard) {
  wire::Hello hello;
  hello.wire_version = wire::kWireVersion;
  hello.job = "job";
  hello.card = CardOf(replica, shard);
  hello.replicas = 2;
  hello.shards = 4;
  hello.min_replicas = 1;
  hello.agreed_config = {"timeout=1s"};
  return hello;
}

std::string RosterOf(int replica, int first) {
  const wire::Behind behind{{CardOf(replica, first), CardOf(replica, first + 1)}, {"", ""}};
  const std::vector<std::byte> bytes = wire::Encode(behind);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

wire::ViewEntry UnitEntry(MemberId id, int replica, int block) {
  wire::ViewEntry entry;
  entry.card.id = id;
  entry.card.replica = replica;
  entry.card.shard = block;
  return entry;
}

Bound SeqBoundOf(Seq seq) { return {Bound::Kind::kSeq, 0, seq, {}}; }

// The relay of shards 2 and 3 of replica 0; its members' connections are 2 and 3.
class RelayTest : public ::testing::Test {
 protected:
  RelayTest() : machine_({kMembers, 0, 2 * kMillisecond}) {}

  void Feed(const RelayEvent& event) {
    machine_.Step(now_, event);
    RelayReady ready = machine_.TakeReady();
    up_ = std::move(ready.up);
    down_ = std::move(ready.down);
    close_ = std::move(ready.close);
    deadline_ = ready.next_deadline;
  }
  void Pass(TimeNs time) {
    now_ += time;
    Feed(Timer{});
  }
  void Arrive(int shard) { Feed(Connected{static_cast<ConnId>(shard), HelloOf(0, shard)}); }
  void Say(int shard, Message message) {
    Feed(Received{static_cast<ConnId>(shard), std::move(message)});
  }
  // Both are here, the line stands, and it knows who the unit of replica 1 is.
  void Introduce() {
    Arrive(2);
    Arrive(3);
    Feed(AboveUp{});
    Feed(FromAbove{wire::Roster{kOther, RosterOf(1, 2)}});
  }
  wire::Prepare MakePrepare(Epoch epoch) const {
    wire::Prepare prepare;
    prepare.epoch = epoch;
    prepare.members = {UnitEntry(machine_.unit(), 0, 1), UnitEntry({7, 7}, 0, 0),
                       UnitEntry(kOther, 1, 1)};
    prepare.survivors = {machine_.unit(), {7, 7}, kOther};
    return prepare;
  }
  wire::View MakeView(Epoch epoch) const {
    wire::View view;
    view.epoch = view.era = epoch;
    view.entries = MakePrepare(epoch).members;
    return view;
  }
  void Enter() {
    Introduce();
    Feed(FromAbove{MakePrepare(10)});
    Feed(FromAbove{wire::Install{MakeView(10), {}}});
    Say(2, wire::Installed{10});
    Say(3, wire::Installed{10});
  }
  template <typename T>
  const T* Up() const {
    for (const Message& message : up_) {
      if (const T* found = std::get_if<T>(&message)) return found;
    }
    return nullptr;
  }
  template <typename T>
  const T* Down(int shard) const {
    for (const Outgoing& out : down_) {
      const auto conn = static_cast<ConnId>(shard);
      const T* found = std::get_if<T>(&out.message);
      if (found && std::find(out.to.begin(), out.to.end(), conn) != out.to.end()) return found;
    }
    return nullptr;
  }
  wire::Decided DecidedBy(Epoch epoch, int shard, wire::BoundOf own, wire::BoundOf other) {
    own.member = IdOf(0, shard);
    other.member = IdOf(1, shard);
    return {epoch, shard, {own, other}};
  }

  RelayMachine machine_;
  TimeNs now_ = kSecond, deadline_ = kNever;
  std::vector<Message> up_;
  std::vector<Outgoing> down_;
  std::vector<ConnId> close_;
};

TEST_F(RelayTest, SpeaksForItsMembersWhenAllAreHere) {
  Arrive(3);
  EXPECT_FALSE(machine_.complete());
  Arrive(2);
  ASSERT_TRUE(machine_.complete());
  Feed(AboveUp{});
  const auto* hello = Up<wire::Hello>();
  ASSERT_NE(hello, nullptr);
  EXPECT_EQ(hello->card.shard, 1);
  EXPECT_EQ(hello->shards, 2);
  EXPECT_EQ(hello->card.id, machine_.unit());
  auto behind = wire::Decode(std::as_bytes(std::span(hello->roster)));
  ASSERT_TRUE(behind.ok());
  ASSERT_EQ(std::get<wire::Behind>(*behind).cards.size(), 2u);
  EXPECT_EQ(std::get<wire::Behind>(*behind).cards[1].id, IdOf(0, 3));
}

TEST_F(RelayTest, AnotherRelayOfTheSameMembersIsTheSameUnit) {
  Introduce();
  RelayMachine second({kMembers, 0, 2 * kMillisecond});
  second.Step(now_, Connected{3, HelloOf(0, 3)});
  second.Step(now_, Connected{2, HelloOf(0, 2)});
  EXPECT_EQ(second.unit(), machine_.unit());
  wire::Hello stranger = HelloOf(0, 3);
  stranger.card.id = {99, 99};
  RelayMachine third({kMembers, 0, 2 * kMillisecond});
  third.Step(now_, Connected{2, HelloOf(0, 2)});
  third.Step(now_, Connected{3, stranger});
  EXPECT_NE(third.unit(), machine_.unit());
}

TEST_F(RelayTest, RefusesWhoDisagrees) {
  Arrive(2);
  wire::Hello hello = HelloOf(0, 3);
  hello.agreed_config = {"timeout=2s"};
  Feed(Connected{3, hello});
  ASSERT_NE(Down<wire::Rejected>(3), nullptr);
  EXPECT_EQ(Down<wire::Rejected>(3)->argument, "timeout");
  EXPECT_EQ(close_, std::vector<ConnId>{3});
  EXPECT_FALSE(machine_.complete());
  EXPECT_FALSE(machine_.Takes(HelloOf(1, 2)));
}

TEST_F(RelayTest, GoesByTheTimeoutOfItsMembers) {
  RelayMachine slow({kMembers, 10 * kSecond, 2 * kMillisecond});
  slow.Step(now_, Connected{2, HelloOf(0, 2)});
  EXPECT_EQ(slow.timeout_ns(), kSecond);
  EXPECT_LE(slow.TakeReady().next_deadline, now_ + 100 * kMillisecond);
}

TEST_F(RelayTest, TellsEachOfItsOwnColumn) {
  Introduce();
  Feed(FromAbove{MakePrepare(10)});
  for (const int shard : {2, 3}) {
    const auto* prepare = Down<wire::Prepare>(shard);
    ASSERT_NE(prepare, nullptr);
    ASSERT_EQ(prepare->members.size(), 2u);
    EXPECT_EQ(prepare->members[0].card, CardOf(0, shard));
    EXPECT_EQ(prepare->members[1].card, CardOf(1, shard));
    EXPECT_EQ(prepare->survivors, (std::vector<MemberId>{IdOf(0, shard), IdOf(1, shard)}));
  }
}

TEST_F(RelayTest, AChangeOfWhomItDoesNotKnowIsNotPassedOn) {
  Arrive(2);
  Arrive(3);
  Feed(AboveUp{});
  Feed(FromAbove{MakePrepare(10)});
  EXPECT_TRUE(down_.empty());
  Feed(FromAbove{wire::Roster{kOther, "no roster"}});
  Feed(FromAbove{MakePrepare(11)});
  EXPECT_TRUE(down_.empty());
}

TEST_F(RelayTest, DecisionsGoUpWithTheLast) {
  Introduce();
  Feed(FromAbove{MakePrepare(10)});
  wire::BoundOf always;
  always.first = {Bound::Kind::kAlways, 0, 0, {}};
  Say(2, DecidedBy(10, 2, always, always));
  EXPECT_EQ(Up<wire::Decided>(), nullptr);
  Say(3, DecidedBy(9, 3, always, always));  // of an older change
  EXPECT_EQ(Up<wire::Decided>(), nullptr);
  Say(3, DecidedBy(10, 3, always, always));
  const auto* decided = Up<wire::Decided>();
  ASSERT_NE(decided, nullptr);
  EXPECT_EQ(decided->shard, 1);
  ASSERT_EQ(decided->bounds.size(), 2u);
  EXPECT_EQ(decided->bounds[1].member, kOther);
}

TEST_F(RelayTest, DecisionsEndWithTheirPrepare) {
  Introduce();
  Feed(FromAbove{MakePrepare(10)});
  Say(2, DecidedBy(10, 2, {}, {}));
  Feed(FromAbove{MakePrepare(11)});
  Say(3, DecidedBy(11, 3, {}, {}));
  EXPECT_EQ(Up<wire::Decided>(), nullptr);
  Say(2, DecidedBy(11, 2, {}, {}));
  EXPECT_NE(Up<wire::Decided>(), nullptr);
}

TEST_F(RelayTest, FreshBoundsBecomeTheLatestAndKnownOnesStand) {
  Introduce();
  Feed(FromAbove{MakePrepare(10)});
  wire::BoundOf own, early, late;
  own.first = {Bound::Kind::kAlways, 0, 0, {}};
  early.first = SeqBoundOf(5);
  late.first = SeqBoundOf(9);
  early.fresh_first = late.fresh_first = true;
  Say(2, DecidedBy(10, 2, own, late));
  Say(3, DecidedBy(10, 3, own, early));
  ASSERT_NE(Up<wire::Decided>(), nullptr);
  EXPECT_EQ(Up<wire::Decided>()->bounds[1].first, SeqBoundOf(9));
  EXPECT_TRUE(Up<wire::Decided>()->bounds[1].fresh_first);

  Feed(FromAbove{MakePrepare(11)});
  wire::BoundOf known = late;
  known.fresh_first = false;
  Say(2, DecidedBy(11, 2, own, known));
  Say(3, DecidedBy(11, 3, own, early));
  ASSERT_NE(Up<wire::Decided>(), nullptr);
  EXPECT_EQ(Up<wire::Decided>()->bounds[1].first, SeqBoundOf(9));
  EXPECT_FALSE(Up<wire::Decided>()->bounds[1].fresh_first);
}

TEST_F(RelayTest, AReplicaWhoseColumnsWouldBeginApartIsGivenUp) {
  Introduce();
  Feed(FromAbove{MakePrepare(10)});
  wire::BoundOf own, known, passed;
  own.first = {Bound::Kind::kAlways, 0, 0, {}};
  known.first = SeqBoundOf(5);
  passed.first = SeqBoundOf(9);
  passed.fresh_first = true;
  Say(2, DecidedBy(10, 2, own, known));
  Say(3, DecidedBy(10, 3, own, passed));
  EXPECT_EQ(Up<wire::Decided>(), nullptr);
  const auto* evidence = Up<wire::Evidence>();
  ASSERT_NE(evidence, nullptr);
  EXPECT_EQ(evidence->subject, kOther);
  EXPECT_EQ(evidence->kind, wire::EvidenceKind::kOperator);
}

TEST_F(RelayTest, LinkedByAllLostByOneBackByAll) {
  Introduce();
  Feed(FromAbove{wire::Welcome{{UnitEntry(kOther, 1, 1).card}}});
  ASSERT_NE(Down<wire::Welcome>(3), nullptr);
  EXPECT_EQ(Down<wire::Welcome>(3)->peers, std::vector{CardOf(1, 3)});
  Say(2, wire::LinksUp{{IdOf(1, 2)}});
  EXPECT_EQ(Up<wire::LinksUp>(), nullptr);
  Say(3, wire::LinksUp{{IdOf(1, 3)}});
  ASSERT_NE(Up<wire::LinksUp>(), nullptr);
  EXPECT_EQ(Up<wire::LinksUp>()->peers, std::vector{kOther});
  const auto evidence = [](wire::EvidenceKind kind, int shard) {
    return wire::Evidence{kind, IdOf(1, shard), Code::kLink, 0, "reset"};
  };
  Say(2, evidence(wire::EvidenceKind::kLinkLost, 2));
  ASSERT_NE(Up<wire::Evidence>(), nullptr);
  EXPECT_EQ(Up<wire::Evidence>()->subject, kOther);
  Say(3, evidence(wire::EvidenceKind::kLinkLost, 3));
  EXPECT_TRUE(up_.empty());
  Say(2, evidence(wire::EvidenceKind::kLinkRestored, 2));
  EXPECT_TRUE(up_.empty());
  Say(3, evidence(wire::EvidenceKind::kLinkRestored, 3));
  ASSERT_NE(Up<wire::Evidence>(), nullptr);
  EXPECT_EQ(Up<wire::Evidence>()->kind, wire::EvidenceKind::kLinkRestored);
}

// What it has said of its links is void with its connection, and it says so again when welcomed.
TEST_F(RelayTest, ANewcomerThatIsBackIsWelcomedAgain) {
  constexpr MemberId kThird{0xc, 0xc};
  Introduce();
  Arrive(3);
  EXPECT_EQ(Down<wire::Welcome>(3), nullptr);  // it has not been before
  Feed(FromAbove{wire::Welcome{{UnitEntry(kOther, 1, 1).card}}});
  Feed(FromAbove{wire::Roster{kThird, RosterOf(2, 2)}});
  Feed(FromAbove{wire::Connect{{UnitEntry(kThird, 2, 1).card}}});
  Say(3, wire::LinksUp{{IdOf(1, 3), IdOf(2, 3)}});
  Feed(Disconnected{3, ""});
  Arrive(3);
  ASSERT_NE(Down<wire::Welcome>(3), nullptr);
  EXPECT_EQ(Down<wire::Welcome>(3)->peers, (std::vector{CardOf(1, 3), CardOf(2, 3)}));
  EXPECT_EQ(Down<wire::Welcome>(2), nullptr);
  Say(2, wire::LinksUp{{IdOf(1, 2), IdOf(2, 2)}});
  EXPECT_EQ(Up<wire::LinksUp>(), nullptr);
  Say(3, wire::LinksUp{{IdOf(1, 3), IdOf(2, 3)}});
  ASSERT_NE(Up<wire::LinksUp>(), nullptr);
}

// That a link is up again it may have said to nobody, and who is accused for it would go.
TEST_F(RelayTest, ReportsEndWithTheirConnection) {
  Enter();
  Say(2, wire::Evidence{wire::EvidenceKind::kLinkLost, IdOf(1, 2), Code::kLink, 0, "reset"});
  ASSERT_NE(Up<wire::Evidence>(), nullptr);
  Say(3, wire::Evidence{wire::EvidenceKind::kLinkLost, IdOf(2, 3), Code::kLink, 0, "reset"});
  Arrive(2);
  ASSERT_NE(Up<wire::Evidence>(), nullptr);
  EXPECT_EQ(Up<wire::Evidence>()->kind, wire::EvidenceKind::kLinkRestored);
  Arrive(3);
  Feed(FromAbove{wire::Roster{{0xc, 0xc}, RosterOf(2, 2)}});
  EXPECT_EQ(Up<wire::Evidence>(), nullptr);
  Feed(AboveDown{});
  Feed(AboveUp{});
  EXPECT_EQ(Up<wire::Evidence>(), nullptr);
}

// It is taken in by what it says, so nothing is said for it meanwhile.
TEST_F(RelayTest, ReportsOfANewcomerEndWhenItSaysWhichLinksItHas) {
  Introduce();
  Feed(FromAbove{wire::Welcome{{UnitEntry(kOther, 1, 1).card}}});
  for (const int shard : {2, 3}) Say(shard, wire::LinksUp{{IdOf(1, shard)}});
  Say(2, wire::Evidence{wire::EvidenceKind::kLinkLost, IdOf(1, 2), Code::kLink, 0, "reset"});
  Arrive(2);
  EXPECT_EQ(Up<wire::Evidence>(), nullptr);
  Say(2, wire::LinksUp{{IdOf(1, 2)}});
  ASSERT_NE(Up<wire::Evidence>(), nullptr);
  EXPECT_EQ(Up<wire::Evidence>()->kind, wire::EvidenceKind::kLinkRestored);
  EXPECT_NE(Up<wire::LinksUp>(), nullptr);
}

// Members say it once a connection to their relay, which may have none up then, or lose it.
TEST_F(RelayTest, DeadlinesAreToldAgainWhileTheyStand) {
  Enter();
  const auto beat = [](std::vector<MemberId> lacks) {
    return wire::Heartbeat{10, {{1, 3, 2, 0, std::move(lacks)}}};
  };
  Say(2, beat({IdOf(1, 2)}));
  Feed(AboveDown{});
  Say(2, wire::Evidence{wire::EvidenceKind::kDeadline, IdOf(1, 2), Code::kPeer, 0, "late"});
  EXPECT_EQ(Up<wire::Evidence>(), nullptr);
  for (int i = 0; i < 2; ++i) {
    Feed(AboveUp{});
    ASSERT_NE(Up<wire::Evidence>(), nullptr);
    EXPECT_EQ(Up<wire::Evidence>()->kind, wire::EvidenceKind::kDeadline);
    EXPECT_EQ(Up<wire::Evidence>()->subject, kOther);
    Feed(AboveDown{});
  }
  Say(2, beat({}));
  Feed(AboveUp{});
  EXPECT_EQ(Up<wire::Evidence>(), nullptr);
}

TEST_F(RelayTest, WhoIsUnwantedIsToldAgain) {
  Enter();
  Feed(AboveDown{});
  Say(2, wire::Evidence{wire::EvidenceKind::kOperator, IdOf(1, 2), Code::kEvicted, 0, "drained"});
  Feed(AboveUp{});
  ASSERT_NE(Up<wire::Evidence>(), nullptr);
  EXPECT_EQ(Up<wire::Evidence>()->kind, wire::EvidenceKind::kOperator);
  wire::Install without;
  without.view.epoch = without.view.era = 11;
  without.view.entries = {UnitEntry(machine_.unit(), 0, 1)};
  Feed(FromAbove{without});
  Feed(AboveDown{});
  Feed(AboveUp{});
  EXPECT_EQ(Up<wire::Evidence>(), nullptr);
}

TEST_F(RelayTest, WhatAllHearWhoIsBackHearsAsWell) {
  Enter();
  Feed(FromAbove{wire::NoQuorum{"too few"}});
  Arrive(2);
  ASSERT_NE(Down<wire::NoQuorum>(2), nullptr);
  EXPECT_EQ(Down<wire::NoQuorum>(3), nullptr);
  Feed(FromAbove{MakePrepare(11)});
  Arrive(2);
  EXPECT_EQ(Down<wire::NoQuorum>(2), nullptr);
  EXPECT_EQ(Down<wire::Release>(2), nullptr);
  Feed(FromAbove{wire::Release{10}});
  Arrive(2);
  ASSERT_NE(Down<wire::Release>(2), nullptr);
  EXPECT_EQ(Down<wire::Release>(3), nullptr);
}

// The connection up was lost with the first one's word.
TEST_F(RelayTest, AskedAgainItRefusesAgain) {
  Enter();
  for (int i = 0; i < 2; ++i) {
    Feed(FromAbove{MakePrepare(11)});
    wire::Refuse refuse;
    refuse.epoch = 11;
    refuse.report.promised = 12;
    Say(2, refuse);
    EXPECT_NE(Up<wire::Refuse>(), nullptr);
    Say(3, refuse);
    EXPECT_EQ(Up<wire::Refuse>(), nullptr);
  }
}

// What wires cost is one word for a unit, and stands at each of its members in all views.
TEST_F(RelayTest, WiresCostInTheMiddleWhatItsMembersSay) {
  Introduce();
  Feed(FromAbove{wire::Welcome{{UnitEntry(kOther, 1, 1).card}}});
  Say(2, wire::LinksUp{{IdOf(1, 2)}, {30, 4}});
  Say(3, wire::LinksUp{{IdOf(1, 3)}, {10, 8}});
  ASSERT_NE(Up<wire::LinksUp>(), nullptr);
  EXPECT_EQ(Up<wire::LinksUp>()->wire, (wire::WireCosts{10, 4}));
  wire::Prepare prepare = MakePrepare(10);
  for (wire::ViewEntry& entry : prepare.members) entry.card.wire = {7, 9};
  Feed(FromAbove{prepare});
  ASSERT_NE(Down<wire::Prepare>(2), nullptr);
  for (const wire::ViewEntry& entry : Down<wire::Prepare>(2)->members)
    EXPECT_EQ(entry.card.wire, (wire::WireCosts{7, 9}));
}

TEST_F(RelayTest, AViewIsHeldWhenAllHoldIt) {
  Introduce();
  Feed(FromAbove{MakePrepare(10)});
  Say(3, wire::Installed{10});
  EXPECT_TRUE(up_.empty());
  Say(2, wire::Installed{10});
  ASSERT_NE(Up<wire::Installed>(), nullptr);
  EXPECT_EQ(Up<wire::Installed>()->epoch, 10u);
}

TEST_F(RelayTest, OneBeatForAll) {
  Enter();
  Say(2, wire::Heartbeat{10, {{7, 5, 4, 100, {IdOf(1, 2)}}}});
  Say(3, wire::Heartbeat{10, {{7, 6, 6, 11, {}}}});
  Pass(100 * kMillisecond);
  const auto* beat = Up<wire::Heartbeat>();
  ASSERT_NE(beat, nullptr);
  EXPECT_EQ(beat->installed, 10u);
  ASSERT_EQ(beat->groups.size(), 1u);
  EXPECT_EQ(beat->groups[0].called_end, 5u);
  EXPECT_EQ(beat->groups[0].delivered_end, 4u);
  EXPECT_EQ(beat->groups[0].counter, 111u);
  EXPECT_EQ(beat->groups[0].waits_for, std::vector{kOther});
}

// Or they would drop the relay, and be taken for lost, when the coordinator is away for longer.
TEST_F(RelayTest, BeatsToItsMembersWhetherTheCoordinatorIsThereOrNot) {
  Enter();
  const auto hears = [this](bool away) {
    Pass(100 * kMillisecond);
    for (const int shard : {2, 3}) {
      const auto* beat = Down<wire::CoordinatorBeat>(shard);
      ASSERT_NE(beat, nullptr) << shard << " at " << now_;
      EXPECT_EQ(beat->away, away);
    }
    for (const int shard : {2, 3}) Say(shard, wire::Heartbeat{10, {}});
  };
  hears(false);
  Feed(FromAbove{wire::CoordinatorBeat{}});
  EXPECT_TRUE(down_.empty());  // one is enough
  hears(false);
  Feed(AboveDown{});
  for (int i = 0; i < 30; ++i) hears(true);
  Feed(AboveUp{});
  hears(false);
  EXPECT_EQ(Up<wire::Goodbye>(), nullptr);
  // The one above is a relay, and its line has ended.
  Feed(FromAbove{wire::CoordinatorBeat{0, true}});
  hears(true);
  Feed(FromAbove{wire::CoordinatorBeat{}});
  hears(false);
}

TEST_F(RelayTest, TheUnitGoesWithAnyOfItsMembers) {
  Enter();
  Feed(Disconnected{2, ""});
  EXPECT_TRUE(up_.empty());
  Pass(2 * kMillisecond);
  ASSERT_NE(Up<wire::Goodbye>(), nullptr);
  EXPECT_NE(Up<wire::Goodbye>()->text.find("shard 2"), std::string::npos);
  wire::Evicted evicted{11, {}};
  evicted.reason.member = machine_.unit();
  Feed(FromAbove{evicted});
  ASSERT_NE(Down<wire::Evicted>(3), nullptr);
  EXPECT_EQ(Down<wire::Evicted>(3)->reason.member, IdOf(0, 3));
  EXPECT_TRUE(machine_.over());
}

TEST_F(RelayTest, ASilentMemberIsFoundHere) {
  Enter();
  for (int i = 0; i < 12; ++i) {
    Say(3, wire::Heartbeat{10, {}});
    if (Up<wire::Goodbye>()) break;
    Pass(100 * kMillisecond);
    if (Up<wire::Goodbye>()) break;
  }
  ASSERT_NE(Up<wire::Goodbye>(), nullptr);
  EXPECT_NE(Up<wire::Goodbye>()->text.find("shard 2"), std::string::npos);
}

// The others may be in the view with it by now.
TEST_F(RelayTest, WhoHangsBeforeItHoldsTheViewIsMissed) {
  Introduce();
  Feed(FromAbove{MakePrepare(10)});
  Feed(FromAbove{wire::Install{MakeView(10), {}}});
  Say(3, wire::Installed{10});
  for (int i = 0; i < 12 && !Up<wire::Goodbye>(); ++i) {
    Pass(100 * kMillisecond);
    if (!Up<wire::Goodbye>()) Say(3, wire::Heartbeat{10, {}});
  }
  ASSERT_NE(Up<wire::Goodbye>(), nullptr);
  EXPECT_NE(Up<wire::Goodbye>()->text.find("shard 2"), std::string::npos);
}

TEST_F(RelayTest, ANewcomersMateWaitsForAnotherOne) {
  Introduce();
  Feed(Disconnected{2, ""});
  Pass(2 * kMillisecond);
  EXPECT_NE(Up<wire::Goodbye>(), nullptr);
  EXPECT_FALSE(machine_.complete());
  EXPECT_FALSE(machine_.over());
  wire::Hello next = HelloOf(0, 2);
  next.card.id = {50, 50};
  EXPECT_TRUE(machine_.Takes(next));
  Feed(Connected{20, next});
  EXPECT_TRUE(machine_.complete());
}

// What they had agreed on goes with them.
TEST(RelayLines, NewcomersThatAreAllGoneLeaveNothing) {
  RelayLines lines({kMembers, 0, 2 * kMillisecond});
  TimeNs now = kSecond;
  const auto feed = [&](const RelayLinesEvent& event) {
    lines.Step(now, event);
    return lines.TakeReady();
  };
  for (const int shard : {2, 3}) feed(Connected{static_cast<ConnId>(shard), HelloOf(0, shard)});
  feed(LineUp{1});
  for (const ConnId conn : {2, 3}) feed(Disconnected{conn, ""});
  now += 2 * kMillisecond;
  const RelayLinesReady gone = feed(Timer{});
  EXPECT_EQ(gone.hang_up, std::vector<LineId>{1});
  EXPECT_EQ(gone.next_deadline, kNever);
  wire::Hello next = HelloOf(0, 2);
  next.card.id = {50, 50};
  next.agreed_config = {"timeout=2s"};
  const RelayLinesReady ready = feed(Connected{20, next});
  EXPECT_TRUE(ready.down.empty());
  EXPECT_TRUE(ready.close.empty());
}

// The plan that was to take them in may have been announced, so the unit waits for a word; with the
// line it is over.
TEST_F(RelayTest, NewcomersThatHaveConfirmedGatherAgainWhenTheLineEnds) {
  Introduce();
  wire::Confirm confirm;
  confirm.view.epoch = 10;
  confirm.view.entries = MakePrepare(10).members;
  Feed(FromAbove{confirm});
  Feed(Disconnected{2, ""});
  Pass(2 * kMillisecond);
  EXPECT_NE(Up<wire::Goodbye>(), nullptr);
  EXPECT_TRUE(machine_.complete());
  Feed(AboveDown{});
  EXPECT_FALSE(machine_.complete());
  ASSERT_NE(Down<wire::VoidPlan>(3), nullptr);
  EXPECT_EQ(Down<wire::VoidPlan>(3)->epoch, 10u);
  wire::Hello next = HelloOf(0, 2);
  next.card.id = {50, 50};
  ASSERT_TRUE(machine_.Takes(next));
  Feed(Connected{20, next});
  Feed(AboveUp{});
  EXPECT_NE(Up<wire::Hello>(), nullptr);
  EXPECT_EQ(Up<wire::Goodbye>(), nullptr);
}

// Q7: the members of a lost relay come back by another one, which asks for nothing but time.
TEST_F(RelayTest, TakesOverFromALostRelay) {
  Introduce();
  RelayMachine second({kMembers, 0, 2 * kMillisecond});
  for (const int shard : {2, 3}) {
    wire::Hello hello = HelloOf(0, shard);
    hello.report.promised = hello.report.installed = 10;
    hello.report.installed_view.emplace();
    second.Step(now_, Connected{static_cast<ConnId>(shard), hello});
  }
  ASSERT_TRUE(second.complete());
  second.Step(now_, AboveUp{});
  const RelayReady ready = second.TakeReady();
  ASSERT_EQ(ready.up.size(), 1u);
  const auto& hello = std::get<wire::Hello>(ready.up[0]);
  EXPECT_EQ(hello.card.id, machine_.unit());
  EXPECT_EQ(hello.report.installed, 10u);
  EXPECT_EQ(hello.report.promised, 10u);
}

// Q2: of a unit that takes over only one has installed what all have promised.
TEST_F(RelayTest, WhatOneHoldsIsNotReportedAsHeldByAll) {
  wire::Hello holds = HelloOf(0, 2), lacks = HelloOf(0, 3);
  holds.report.promised = holds.report.installed = lacks.report.promised = 10;
  holds.report.installed_view.emplace();
  Feed(Connected{2, holds});
  Feed(Connected{3, lacks});
  Feed(AboveUp{});
  ASSERT_NE(Up<wire::Hello>(), nullptr);
  EXPECT_EQ(Up<wire::Hello>()->report.installed, 10u);
  EXPECT_EQ(Up<wire::Hello>()->report.installed_by_all(), 0u);
  Say(3, wire::Installed{10});
  Feed(AboveDown{});
  Feed(AboveUp{});
  ASSERT_NE(Up<wire::Hello>(), nullptr);
  EXPECT_EQ(Up<wire::Hello>()->report.installed_by_all(), 10u);
}

TEST_F(RelayTest, ANewcomerDoesNotStandForOneWhoWasIn) {
  wire::Hello member = HelloOf(0, 2), mate = HelloOf(0, 3);
  member.report.promised = member.report.installed = mate.report.promised = 10;
  member.report.installed_view.emplace();
  Feed(Connected{2, member});
  EXPECT_FALSE(machine_.Takes(HelloOf(0, 3)));
  EXPECT_TRUE(machine_.Takes(mate));
  RelayMachine of_newcomers({kMembers, 0, 2 * kMillisecond});
  of_newcomers.Step(now_, Connected{3, HelloOf(0, 3)});
  EXPECT_FALSE(of_newcomers.Takes(member));
  EXPECT_TRUE(of_newcomers.Takes(HelloOf(0, 2)));
}

TEST_F(RelayTest, MatesThatDoNotComeBackTakeTheOthersAlong) {
  wire::Hello hello = HelloOf(0, 2);
  hello.report.installed = 10;
  hello.report.installed_view.emplace();
  Feed(Connected{2, hello});
  bool looked_again = false;
  for (int i = 0; i < 12; ++i) {
    Pass(100 * kMillisecond);
    if (machine_.over()) break;
    looked_again = looked_again || !close_.empty();  // its mates may be elsewhere
    if (!close_.empty()) Feed(Connected{2, hello});
  }
  EXPECT_TRUE(looked_again);
  EXPECT_TRUE(machine_.over());
  EXPECT_NE(Down<wire::Evicted>(2), nullptr);
}

TEST_F(RelayTest, LeavesWhenAllDo) {
  Enter();
  Say(2, wire::LeaveRequest{});
  EXPECT_TRUE(up_.empty());
  Say(3, wire::LeaveRequest{});
  EXPECT_NE(Up<wire::LeaveRequest>(), nullptr);
  Say(2, wire::Goodbye{Code::kLeft, ""});
  EXPECT_TRUE(up_.empty());
  Feed(Disconnected{2, ""});
  Pass(5 * kMillisecond);
  EXPECT_EQ(Up<wire::Goodbye>(), nullptr);
  Say(3, wire::Goodbye{Code::kLeft, ""});
  ASSERT_NE(Up<wire::Goodbye>(), nullptr);
  EXPECT_EQ(Up<wire::Goodbye>()->code, Code::kLeft);
  EXPECT_TRUE(machine_.over());
}

TEST_F(RelayTest, WhoHasLeftInPartIsInNoChange) {
  Enter();
  Say(2, wire::Goodbye{Code::kLeft, ""});
  Feed(FromAbove{MakePrepare(11)});
  ASSERT_NE(Up<wire::Goodbye>(), nullptr);
  EXPECT_NE(Down<wire::Evicted>(3), nullptr);
  EXPECT_TRUE(machine_.over());
}

TEST_F(RelayTest, AProposalEndsWithTheLine) {
  Enter();
  wire::Propose propose;
  propose.view.epoch = 12;
  propose.view.entries = MakePrepare(10).members;
  Feed(FromAbove{propose});
  EXPECT_NE(Down<wire::Propose>(2), nullptr);
  Say(2, wire::Reserved{12, 2, false, SeqBoundOf(7)});
  EXPECT_TRUE(up_.empty());
  Feed(AboveDown{});
  ASSERT_NE(Down<wire::VoidPlan>(3), nullptr);
  EXPECT_EQ(Down<wire::VoidPlan>(3)->epoch, 12u);
  Feed(AboveUp{});
  Say(3, wire::Reserved{12, 3, false, SeqBoundOf(9)});
  EXPECT_EQ(Up<wire::Reserved>(), nullptr);
}

TEST_F(RelayTest, ReservesTheLatestOfItsColumns) {
  Enter();
  wire::Propose propose;
  propose.view.epoch = 12;
  propose.view.entries = MakePrepare(10).members;
  Feed(FromAbove{propose});
  Say(2, wire::Reserved{12, 2, true, SeqBoundOf(7)});
  Say(3, wire::Reserved{12, 3, false, SeqBoundOf(9)});
  const auto* reserved = Up<wire::Reserved>();
  ASSERT_NE(reserved, nullptr);
  EXPECT_EQ(reserved->shard, 1);
  EXPECT_FALSE(reserved->idle);
  EXPECT_EQ(reserved->earliest, SeqBoundOf(9));
}

// Memory stays flat however often a replica is lost and comes back: by a plan that a failure ends,
// by two plans, or as a newcomer that gives up.
TEST_F(RelayTest, KeepsFewWhoAreOut) {
  Enter();
  Epoch epoch = 10;
  const auto view = [&](std::vector<MemberId> others) {
    wire::View of;
    of.epoch = of.era = ++epoch;
    of.entries = {UnitEntry(machine_.unit(), 0, 1)};
    for (const MemberId id : others) of.entries.push_back(UnitEntry(id, 1, 1));
    return of;
  };
  for (uint64_t life = 1; life <= 10'000; ++life) {
    const MemberId gives_up{0xc, life}, dies{0xd, life}, leaves{0xe, life};
    for (const MemberId next : {gives_up, dies}) {
      Feed(FromAbove{wire::Roster{next, RosterOf(1, 2)}});
      for (const int shard : {2, 3}) Say(shard, wire::LinksUp{{IdOf(1, shard)}});
    }
    Feed(FromAbove{wire::Announce{view({dies})}});
    ASSERT_NE(Down<wire::Announce>(2), nullptr);
    Feed(FromAbove{wire::Install{view({}), {}}});
    ASSERT_NE(Down<wire::Install>(2), nullptr);
    Feed(FromAbove{wire::Roster{leaves, RosterOf(1, 2)}});
    Feed(FromAbove{wire::Announce{view({leaves})}});
    Feed(FromAbove{wire::Announce{view({})}});
    ASSERT_LE(machine_.units(), 10u) << "after life " << life;  // itself, and the last newcomers
  }
}

// Who waits is named once, and may wait for long.
TEST_F(RelayTest, KeepsWhoIsOnItsWay) {
  Enter();
  constexpr MemberId kNewcomer{0xc, 1}, kNext{0xd, 1};
  const auto install = [this](Epoch epoch, MemberId with) {
    wire::Install of;
    of.view.epoch = of.view.era = epoch;
    of.view.entries = {UnitEntry(machine_.unit(), 0, 1), UnitEntry(with, 1, 1)};
    Feed(FromAbove{of});
    return Down<wire::Install>(2) != nullptr;
  };
  Feed(FromAbove{wire::Roster{kNewcomer, RosterOf(1, 2)}});
  EXPECT_TRUE(install(11, kOther));
  EXPECT_EQ(machine_.units(), 3u);
  // It was let in while the line was down, and is lost a change later, its successor named.
  Feed(AboveDown{});
  Feed(AboveUp{});
  Feed(FromAbove{wire::Roster{kNewcomer, RosterOf(1, 2)}});
  Feed(FromAbove{wire::Roster{kNext, RosterOf(1, 2)}});
  EXPECT_TRUE(install(12, kNewcomer));
  EXPECT_TRUE(install(13, kNext));
  EXPECT_EQ(machine_.units(), 2u);
}

// A failure came between: the newcomer is not in, and waits for the change behind that one.
TEST_F(RelayTest, KeepsANewcomerWhosePlanIsVoid) {
  constexpr MemberId kNewcomer{0xc, 1};
  Enter();
  wire::View planned = MakeView(11);
  planned.entries.push_back(UnitEntry(kNewcomer, 2, 1));
  Feed(FromAbove{wire::Roster{kNewcomer, RosterOf(2, 2)}});
  Feed(FromAbove{wire::Announce{planned}});
  Feed(FromAbove{wire::VoidPlan{11}});
  Feed(FromAbove{wire::Install{MakeView(12), {}}});
  wire::Prepare prepare = MakePrepare(13);
  prepare.members = planned.entries;
  Feed(FromAbove{prepare});
  ASSERT_NE(Down<wire::Prepare>(2), nullptr);
  EXPECT_EQ(Down<wire::Prepare>(2)->members.back().card, CardOf(2, 2));
}

}  // namespace
}  // namespace ftar::membership
