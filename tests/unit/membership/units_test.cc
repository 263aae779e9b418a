// Goal: rule Q7 as the coordinator sees it, whose members are relays.
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "membership/coordinator_machine.h"
#include "wire/frame.h"

namespace ftar::membership {
namespace {

class UnitsTest : public ::testing::Test {
 protected:
  UnitsTest() : machine_(Settings()) {}

  static CoordinatorConfig Settings() {
    CoordinatorConfig config;
    config.settle_ns = 0;
    config.timeout_ns = kSecond;
    return config;
  }
  void Feed(const CoordinatorEvent& event) {
    machine_.Step(now_, event);
    CoordinatorReady ready = machine_.TakeReady();
    for (Outgoing& out : ready.messages) said_.push_back(std::move(out));
    closed_.insert(closed_.end(), ready.close.begin(), ready.close.end());
  }
  static MemberId Unit(int replica) { return {static_cast<uint64_t>(replica) + 1, 5}; }
  static wire::Hello Hello(int replica) {
    wire::Hello hello;
    hello.wire_version = wire::kWireVersion;
    hello.job = "job";
    hello.card.id = Unit(replica);
    hello.card.replica = replica;
    hello.card.host = "host" + std::to_string(replica);
    hello.replicas = 3;
    hello.shards = hello.min_replicas = 1;
    hello.roster = "who is behind " + std::to_string(replica);
    return hello;
  }
  static ConnId Conn(int replica) { return static_cast<ConnId>(replica) + 1; }
  template <typename T>
  const T* Said() const {
    for (auto out = said_.rbegin(); out != said_.rend(); ++out) {
      if (const T* found = std::get_if<T>(&out->message)) return found;
    }
    return nullptr;
  }
  void Form() {
    for (int replica = 0; replica < 3; ++replica) Feed(Connected{Conn(replica), Hello(replica)});
    for (int replica = 1; replica < 3; ++replica)
      Feed(Received{Conn(replica), wire::LinksUp{{Unit(0), Unit(1)}}});
    ASSERT_NE(Said<wire::Prepare>(), nullptr);
    wire::Decided decided{Said<wire::Prepare>()->epoch, 0, {}};
    for (int replica = 0; replica < 3; ++replica)
      decided.bounds.push_back(
          {Unit(replica), {wire::Bound::Kind::kAlways, 0, 0, {}}, {}, false, false});
    Feed(Received{Conn(0), decided});
    ASSERT_NE(machine_.view(), nullptr);
    said_.clear();
  }
  void Pass(TimeNs time) {
    for (TimeNs end = now_ + time; now_ < end; now_ += kMillisecond) {
      for (int replica = 0; replica < 3; ++replica) {
        if (replica != 2) Feed(Received{Conn(replica), wire::Heartbeat{}});
      }
      Feed(Timer{});
    }
  }

  CoordinatorMachine machine_;
  TimeNs now_ = kSecond;
  std::vector<Outgoing> said_;
  std::vector<ConnId> closed_;
};

TEST_F(UnitsTest, RostersGoToAllOfTheColumn) {
  for (int replica = 0; replica < 3; ++replica) Feed(Connected{Conn(replica), Hello(replica)});
  std::set<std::pair<ConnId, std::string>> told;
  bool welcomed = false;
  for (const Outgoing& out : said_) {
    welcomed = welcomed || std::holds_alternative<wire::Welcome>(out.message);
    if (const auto* roster = std::get_if<wire::Roster>(&out.message)) {
      EXPECT_FALSE(welcomed) << "names come before the first message that speaks of them";
      for (const ConnId conn : out.to) told.insert({conn, roster->bytes});
    }
  }
  EXPECT_EQ(told.size(), 6u);  // each of three hears of two
}

// A newcomer's relay is lost in the first change, and the next one knows nobody yet.
TEST_F(UnitsTest, AChangeNamesNobodyWhoseRosterHasNotCome) {
  for (int replica = 0; replica < 3; ++replica) Feed(Connected{Conn(replica), Hello(replica)});
  for (int replica = 1; replica < 3; ++replica)
    Feed(Received{Conn(replica), wire::LinksUp{{Unit(0), Unit(1)}}});
  ASSERT_NE(Said<wire::Prepare>(), nullptr);
  said_.clear();
  constexpr ConnId kNext = 9;
  Feed(Connected{kNext, Hello(0)});
  size_t rosters = 0;
  for (const Outgoing& out : said_) {
    if (std::find(out.to.begin(), out.to.end(), kNext) == out.to.end()) continue;
    if (std::holds_alternative<wire::Roster>(out.message)) ++rosters;
    if (std::holds_alternative<wire::Prepare>(out.message)) break;
  }
  EXPECT_EQ(rosters, 2u);
}

// Q2: an order of the coordinator before came to its end behind the newcomer's Hello.
TEST_F(UnitsTest, WhoInstallsAnOlderViewIsToReportIt) {
  Feed(Connected{Conn(0), Hello(0)});
  Feed(Received{Conn(0), wire::Installed{MakeEpoch(3, 9)}});
  EXPECT_EQ(closed_, std::vector<ConnId>{Conn(0)});
}

TEST_F(UnitsTest, ARelaysLossIsNotItsMembersLoss) {
  Form();
  Feed(Disconnected{Conn(2), "reset"});
  Pass(200 * kMillisecond);
  EXPECT_EQ(Said<wire::Prepare>(), nullptr);
  wire::Hello back = Hello(2);
  back.report.installed = machine_.view()->epoch;
  Feed(Connected{9, back});
  EXPECT_NE(Said<wire::Roster>(), nullptr);  // it may be another process
  Pass(400 * kMillisecond);
  EXPECT_EQ(Said<wire::Prepare>(), nullptr);
}

// A relay that does not hear them, and does not know it, would come again.
TEST_F(UnitsTest, ARelayHearsThatAnotherOneSpeaksForItsNewcomers) {
  Feed(Connected{Conn(0), Hello(0)});
  said_.clear();
  Feed(Connected{9, Hello(0)});
  ASSERT_NE(Said<wire::Redirect>(), nullptr);
  EXPECT_EQ(said_[0].to, std::vector<ConnId>{Conn(0)});
  EXPECT_EQ(closed_, std::vector<ConnId>{Conn(0)});
}

// Restarted without a record: of a view's members one has left, and the relay that reported the
// other one's view is lost. Who takes over knows that they hold it, and cannot show it.
class TakenOverTest : public UnitsTest, public ::testing::WithParamInterface<bool> {};
INSTANTIATE_TEST_SUITE_P(LossIsSeen, TakenOverTest, ::testing::Bool());

TEST_P(TakenOverTest, AViewThatALostRelayReportedGoesOn) {
  wire::Hello hello = Hello(0);
  hello.report.promised = hello.report.installed = MakeEpoch(3, 9);
  wire::Hello taken_over = hello;
  wire::View& view = hello.report.installed_view.emplace();
  view.epoch = view.era = hello.report.installed;
  for (int replica : {0, 1}) {
    view.entries.emplace_back().card = Hello(replica).card;
    view.entries.back().first = {wire::Bound::Kind::kAlways, 0, 0, {}};
  }
  Feed(Connected{Conn(0), hello});
  if (GetParam()) Feed(Disconnected{Conn(0), "reset"});
  Feed(Connected{9, taken_over});
  Feed(Connected{Conn(2), Hello(2)});
  for (const TimeNs end = now_ + 5 * kSecond; now_ < end && !machine_.view(); now_ += kMillisecond)
    Feed(Timer{});
  EXPECT_EQ(Said<wire::Evicted>(), nullptr);
  EXPECT_EQ(Said<wire::Rejected>(), nullptr);
  ASSERT_NE(machine_.view(), nullptr);
  EXPECT_NE(machine_.view()->Find(Unit(0)), nullptr);
}

TEST_F(UnitsTest, ButTheyDoNotHaveForEver) {
  Form();
  Feed(Disconnected{Conn(2), "reset"});
  Pass(260 * kMillisecond);
  ASSERT_NE(Said<wire::Prepare>(), nullptr);
  EXPECT_EQ(Said<wire::Prepare>()->members.size(), 2u);
}

TEST_F(UnitsTest, NorWhenTheirLinksAreLostToo) {
  Form();
  Feed(Disconnected{Conn(2), "reset"});
  const wire::Evidence lost{wire::EvidenceKind::kLinkLost, Unit(2), Code::kLink, 0, ""};
  Feed(Received{Conn(0), lost});
  Pass(4 * kMillisecond);
  EXPECT_EQ(Said<wire::Prepare>(), nullptr) << "one link may be lost by itself";
  Feed(Received{Conn(1), lost});
  Pass(4 * kMillisecond);
  EXPECT_NE(Said<wire::Prepare>(), nullptr);
}

TEST_F(UnitsTest, MembersOfTheirOwnAndRelaysDoNotMix) {
  Feed(Connected{Conn(0), Hello(0)});
  wire::Hello alone = Hello(1);
  alone.roster.clear();
  Feed(Connected{Conn(1), alone});
  ASSERT_NE(Said<wire::Rejected>(), nullptr);
  EXPECT_EQ(Said<wire::Rejected>()->argument, "relay");
}

}  // namespace
}  // namespace ftar::membership
