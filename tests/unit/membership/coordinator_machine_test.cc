// Goal: what the coordinator's transcripts do not show: when it asks to be stepped, and what it
// keeps.
#include "membership/coordinator_machine.h"

#include <gtest/gtest.h>

#include <algorithm>
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
  void Feed(const CoordinatorEvent& event) {
    machine_.Step(now_, event);
    CoordinatorReady ready = machine_.TakeReady();
    deadline_ = ready.next_deadline;
    said_ = std::move(ready.messages);
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

}  // namespace
}  // namespace ftar::membership
