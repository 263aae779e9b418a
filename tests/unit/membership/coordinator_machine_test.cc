// Goal: what the coordinator's transcripts do not show: when it asks to be stepped, and what it
// keeps.
#include "membership/coordinator_machine.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "wire/frame.h"

namespace ftar::membership {
namespace {

class MachineTest : public testing::Test {
 protected:
  explicit MachineTest(CoordinatorConfig config = Settings()) : machine_(std::move(config)) {}

  static CoordinatorConfig Settings() {
    CoordinatorConfig config;
    config.incarnation = 7;
    config.settle_ns = 0;
    return config;
  }
  static wire::Hello HelloOf(uint64_t life, int32_t replica, const std::string& knob) {
    wire::Hello hello;
    hello.wire_version = wire::kWireVersion;
    hello.job = "job";
    hello.card.id = {life, static_cast<uint64_t>(replica) + 1};
    hello.card.replica = replica;
    hello.replicas = 2;
    hello.shards = hello.min_replicas = 1;
    hello.agreed_config = {knob};
    return hello;
  }
  // What those who have joined are told they answer as good members would.
  void Feed(const CoordinatorEvent& event) {
    said_.clear();
    std::deque<CoordinatorEvent> events = {event};
    for (; !events.empty(); events.pop_front()) {
      machine_.Step(now_, events.front());
      CoordinatorReady ready = machine_.TakeReady();
      deadline_ = ready.next_deadline;
      for (const Outgoing& out : ready.messages) {
        for (const ConnId conn : out.to) Answer(conn, out.message, &events);
        said_.push_back(out);
      }
    }
  }
  void Answer(ConnId conn, const wire::Message& message, std::deque<CoordinatorEvent>* events) {
    const auto self = joined_.find(conn);
    if (self == joined_.end()) return;
    if (const auto* m = std::get_if<wire::Welcome>(&message)) {
      wire::LinksUp up;
      for (const wire::MemberCard& peer : m->peers) up.peers.push_back(peer.id);
      events->push_back(Received{conn, up});
    } else if (const auto* m = std::get_if<wire::Propose>(&message)) {
      events->push_back(Received{conn, wire::Reserved{m->view.epoch, 0, true, {}}});
    } else if (const auto* m = std::get_if<wire::Install>(&message)) {
      events->push_back(Received{conn, wire::Installed{m->view.epoch}});
    } else if (const auto* m = std::get_if<wire::Prepare>(&message)) {
      if (m->members[0].card.id != self->second) return;  // it leads
      wire::Decided decided{m->epoch, 0, {}};
      for (const wire::ViewEntry& entry : m->members) {
        const wire::Bound always{wire::Bound::Kind::kAlways, 0, 0, {}};
        decided.bounds.push_back({entry.card.id, always, {}, false, false});
      }
      events->push_back(Received{conn, decided});
    }
  }
  void Join(ConnId conn, const wire::Hello& hello) {
    joined_[conn] = hello.card.id;
    Feed(Connected{conn, hello});
  }
  // Stepped as a driver does: when it asks for it, and not otherwise.
  void Pass(TimeNs time) {
    const TimeNs end = now_ + time;
    while (deadline_ <= end) {
      now_ = std::max(deadline_, now_ + 1);
      Feed(Timer{});
    }
    now_ = end;
  }
  template <typename T>
  const T* Said(ConnId to) const {
    for (const Outgoing& out : said_) {
      const T* found = std::get_if<T>(&out.message);
      if (found && std::ranges::find(out.to, to) != out.to.end()) return found;
    }
    return nullptr;
  }

  TimeNs now_ = kSecond, deadline_ = kNever;
  std::map<ConnId, MemberId> joined_;
  std::vector<Outgoing> said_;
  CoordinatorMachine machine_;
};

// Q2: what has been told is kept for as long as the others may come, also if nobody is there to be
// beaten to; then those of another job may begin.
TEST_F(MachineTest, ARecoveryThatNobodyIsLeftOfEnds) {
  Feed(Timer{});
  wire::Hello hello = HelloOf(1, 0, "timeout=1s");
  wire::View view;
  view.epoch = view.era = MakeEpoch(5, 3);
  for (const int32_t replica : {0, 1})
    view.entries.emplace_back().card = HelloOf(1, replica, "").card;
  hello.report.promised = hello.report.installed = view.epoch;
  hello.report.installed_view = view;
  Feed(Connected{1, hello});
  Feed(Disconnected{1, "reset"});
  Pass(900 * kMillisecond);
  EXPECT_NE(deadline_, kNever);
  Pass(200 * kMillisecond);
  EXPECT_EQ(deadline_, kNever) << "nobody is awaited any longer";
  Feed(Connected{2, HelloOf(2, 0, "timeout=2s")});
  EXPECT_EQ(Said<wire::Rejected>(2), nullptr);
  Feed(Connected{3, HelloOf(2, 1, "timeout=2s")});
  EXPECT_NE(Said<wire::Welcome>(3), nullptr);
}

// Q7: a job that is started anew ends the wait for the one before, whose members' connections have
// all closed. One of another name says nothing of these, and waits as long as they have.
class NextJobTest : public MachineTest, public testing::WithParamInterface<const char*> {};
INSTANTIATE_TEST_SUITE_P(All, NextJobTest, testing::Values("job", "another"));

TEST_P(NextJobTest, WaitsForThoseWhoAreAway) {
  const std::string name = GetParam();
  Feed(Timer{});
  const auto hello = [&](uint64_t life, int32_t replica) {
    wire::Hello out = HelloOf(life, replica, life == 1 ? "timeout=1s" : "timeout=2s");
    if (life == 2) out.job = name;
    return out;
  };
  for (const int32_t replica : {0, 1}) Join(ConnId(replica) + 1, hello(1, replica));
  ASSERT_EQ(machine_.view()->entries.size(), 2u);
  for (const ConnId conn : {1, 2}) Feed(Disconnected{conn, "reset"});
  for (const int32_t replica : {0, 1}) Join(ConnId(replica) + 3, hello(2, replica));
  const auto lives_on = [this] {
    return machine_.view() && machine_.view()->entries[0].card.id.hi == 1;
  };
  Pass(2 * kSecond);
  EXPECT_EQ(lives_on(), name != "job");
  Pass(12 * kSecond);
  ASSERT_NE(machine_.view(), nullptr);
  EXPECT_EQ(machine_.view()->entries.size(), 2u);
  EXPECT_FALSE(lives_on());
}

// What its own host has set counts for nobody who has agreed on something else.
class SlowMachineTest : public MachineTest {
 protected:
  SlowMachineTest() : MachineTest(Slow()) {}
  static CoordinatorConfig Slow() {
    CoordinatorConfig config = Settings();
    config.timeout_ns = 10 * kSecond;
    return config;
  }
};

TEST_F(SlowMachineTest, BeatsAndMissesByTheTimeoutOfItsMembers) {
  Feed(Timer{});
  for (const int32_t replica : {0, 1})
    Join(static_cast<ConnId>(replica) + 1, HelloOf(1, replica, "timeout=1s"));
  ASSERT_EQ(machine_.view()->entries.size(), 2u);
  const TimeNs begin = now_;
  int beats = 0;
  while (now_ < begin + 1200 * kMillisecond) {
    now_ = std::max(std::min(deadline_, begin + 1200 * kMillisecond), now_ + 1);
    Feed(Received{1, wire::Heartbeat{machine_.view()->epoch, {}}});  // from one of them
    if (Said<wire::CoordinatorBeat>(1)) ++beats;
  }
  EXPECT_GE(beats, 10);
  EXPECT_EQ(machine_.view()->entries.size(), 1u);
}

// Why somebody is out is kept of the last few thousand.
TEST_F(MachineTest, TheOldestGravesGoFirst) {
  constexpr uint64_t kDeaths = 10'000;
  constexpr size_t kGraves = 4096;
  Join(1, HelloOf(1, 0, "timeout=1s"));
  const auto hello = [](uint64_t death) { return HelloOf(2 * kDeaths - death, 1, "timeout=1s"); };
  for (uint64_t death = 0; death < kDeaths; ++death) {
    const ConnId conn = 2 + death;
    Join(conn, hello(death));
    ASSERT_EQ(machine_.view()->entries.size(), 2u) << "life " << death;
    Feed(Received{conn, wire::Goodbye{Code::kAborted, "death " + std::to_string(death)}});
    joined_.erase(conn);
    Feed(Disconnected{conn, ""});
    ASSERT_EQ(machine_.view()->entries.size(), 1u) << "life " << death;
    ASSERT_LE(machine_.buried(), kGraves);
  }
  Feed(Connected{2 + kDeaths, hello(kDeaths - 1)});
  ASSERT_NE(Said<wire::Evicted>(2 + kDeaths), nullptr);
  EXPECT_NE(Said<wire::Evicted>(2 + kDeaths)->reason.text.find("death 9999"), std::string::npos);
}

}  // namespace
}  // namespace ftar::membership
