// Members behind relays: two replicas of four shards, a relay for each two shards of a replica, and
// one that stands by. Members, relays and the coordinator die; what members deliver must be as
// without relays.
#include <gtest/gtest.h>

#include <signal.h>

#include "tests/process/harness.h"
#include "tests/process/verdicts.h"

namespace {

using process::Coordinator;
using process::Field;
using process::FreeAddresses;
using process::NowSeconds;
using process::ParticipantsOf;
using process::Process;
using process::SleepMs;
using process::Variables;
using process::Verdicts;
using process::VerdictsOf;

constexpr int kReplicas = 2, kShards = 4, kBehind = 2;
constexpr int kMembers = kReplicas * kShards, kRelays = kMembers / kBehind;
constexpr double kPatience = 60;

class Relays : public process::TeamTest {
 protected:
  void Open(const std::string& timeout, int ops, int pause_ms, bool two_levels = false) {
    ops_ = ops;
    state_ = testing::TempDir() + "relay_test_state." + std::to_string(getpid());
    unlink(state_.c_str());
    coordinator_arguments_ = {"--state", state_};
    coordinator_ =
        std::make_unique<Coordinator>(Variables{}, "127.0.0.1:0", coordinator_arguments_);
    ASSERT_NE(coordinator_->address(), "");
    for (int i = 0; two_levels && i <= kReplicas; ++i)
      upper_.push_back(StartRelay("127.0.0.1:0", coordinator_->address(), kShards / kBehind));
    for (int i = 0; i <= kRelays; ++i) {
      // Behind relays above it the one that stands by is of one replica.
      const int replica = i == kRelays ? 0 : i * kBehind / kShards;
      relays_.push_back(StartRelay("127.0.0.1:0", Above(replica), kBehind));
    }
    const Variables variables = {{"FTAR_TIMEOUT", timeout}, {"FTAR_LOG", "info"}};
    team_ = std::make_unique<process::Team>(
        "", kReplicas, variables,
        std::vector<std::string>{"ops=" + std::to_string(ops),
                                 "pause_ms=" + std::to_string(pause_ms), "deadline_s=55"});
  }

  void TearDown() override {
    TeamTest::TearDown();
    if (!state_.empty()) unlink(state_.c_str());
    for (const auto& relay : relays_) {
      if (HasFailure()) fprintf(stderr, "relay:\n%s", relay->process().Output().c_str());
    }
  }

  static std::unique_ptr<Coordinator> StartRelay(const std::string& address,
                                                 const std::string& above, int members) {
    auto relay = std::make_unique<Coordinator>(
        Variables{}, address,
        std::vector<std::string>{"--relay-to", above, "--members", std::to_string(members)});
    EXPECT_NE(relay->address(), "");
    return relay;
  }

  // Where the relays of a replica go to.
  std::string Above(int replica) const {
    if (upper_.empty()) return coordinator_->address();
    return upper_[static_cast<size_t>(replica)]->address() + "," + upper_.back()->address();
  }

  // Number i is shard i % kShards of replica i / kShards.
  void StartMember(int i) {
    const std::string own = relays_[static_cast<size_t>(i / kBehind)]->address();
    team_->Start(i, {{"FTAR_COORDINATOR", own + "," + relays_.back()->address()},
                     {"FTAR_REPLICA", std::to_string(i / kShards)},
                     {"FTAR_SHARD", std::to_string(i % kShards)},
                     {"FTAR_SHARDS", std::to_string(kShards)}});
  }

  void StartAll() {
    for (int i = 0; i < kMembers; ++i) StartMember(i);
    ASSERT_TRUE(team_->WaitReady(kPatience)) << team_->Story();
  }

  void WaitOps(int member, size_t count) {
    const double deadline = NowSeconds() + kPatience;
    while (team_->member(member).LinesWith("op ").size() < count && NowSeconds() < deadline) {
      for (int i = 0; i < kMembers; ++i) team_->member(i).Collect();  // no pipe may fill up
      SleepMs(1);
    }
    ASSERT_GE(team_->member(member).LinesWith("op ").size(), count) << team_->Story();
  }

  bool Logged(int member, const std::string& text) {
    return team_->member(member).Errors().find(text) != std::string::npos;
  }

  // All of a column alike, in all columns, every operation right and with whom it should have.
  void CheckReplica(int replica, size_t ops) {
    for (int i = replica * kShards; i < (replica + 1) * kShards; ++i) {
      Process& member = team_->member(i);
      EXPECT_EQ(member.WaitExit(kPatience), 0) << "member " << i << "\n" << team_->Story();
      EXPECT_EQ(VerdictsOf(member, false).size(), ops) << "member " << i;
      for (const std::string& line : member.LinesWith("op ")) {
        EXPECT_EQ(Field(line, "status"), "FTAR_OK") << line;
        EXPECT_EQ(Field(line, "wrong"), "0") << line;
        EXPECT_TRUE(ParticipantsOf(line).contains(replica)) << line;
      }
    }
  }

  void ExpectAllAlike() {
    for (int i = 0; i < kShards; ++i)
      EXPECT_EQ(VerdictsOf(team_->member(i), false), VerdictsOf(team_->member(i + kShards), false));
  }

  void ExpectNobodyLost() {
    for (int i = 0; i < kMembers; ++i) {
      for (const std::string& line : team_->member(i).LinesWith("op "))
        EXPECT_EQ(ParticipantsOf(line).size(), size_t{kReplicas}) << line;
    }
  }

  int ops_ = 0;
  std::string state_;
  std::vector<std::string> coordinator_arguments_;
  std::vector<std::unique_ptr<Coordinator>> relays_;  // the last one stands by
  std::vector<std::unique_ptr<Coordinator>> upper_;   // a replica each, if any, and one stands by
};

TEST_F(Relays, AMemberThatIsKilledTakesItsReplicaAlongAndComesBack) {
  Open("20s", 400, 5);
  StartAll();
  WaitOps(0, 20);
  team_->member(6).Signal(SIGKILL);
  for (int i = kShards; i < kMembers; ++i) team_->member(i).WaitExit(kPatience);
  WaitOps(0, 60);
  for (int i = kShards; i < kMembers; ++i) StartMember(i);
  CheckReplica(0, static_cast<size_t>(ops_));
  bool without = false, back = false;
  for (const std::string& line : team_->member(0).LinesWith("op ")) {
    const size_t in = ParticipantsOf(line).size();
    without = without || in == 1;
    back = back || (without && in == 2);
  }
  EXPECT_TRUE(without);
  EXPECT_TRUE(back);
}

TEST_F(Relays, ARelayThatIsKilledCostsNobodyItsPlace) {
  Open("5s", 600, 5);
  StartAll();
  WaitOps(0, 20);
  relays_[1]->process().Signal(SIGKILL);
  CheckReplica(0, static_cast<size_t>(ops_));
  CheckReplica(1, static_cast<size_t>(ops_));
  ExpectAllAlike();
  ExpectNobodyLost();
  EXPECT_TRUE(Logged(2, relays_.back()->address() + " is there")) << team_->member(2).Errors();
}

// As if its host had lost its power, or its network: no connection ends.
TEST_F(Relays, ARelayThatStandsStillCostsNobodyItsPlace) {
  Open("3s", 1200, 5);
  StartAll();
  WaitOps(0, 20);
  relays_[1]->process().Signal(SIGSTOP);
  WaitOps(0, 1100);
  relays_[1]->process().Signal(SIGCONT);
  CheckReplica(0, static_cast<size_t>(ops_));
  CheckReplica(1, static_cast<size_t>(ops_));
  ExpectAllAlike();
  ExpectNobodyLost();
  EXPECT_TRUE(Logged(2, relays_.back()->address() + " answers")) << team_->member(2).Errors();
}

TEST_F(Relays, ARelayMayBeStartedAgain) {
  Open("5s", 600, 5);
  StartAll();
  WaitOps(0, 20);
  const std::string address = relays_[3]->address();
  relays_.back()->process().Signal(SIGKILL);  // nobody stands by
  relays_[3]->process().Signal(SIGKILL);
  relays_[3]->process().WaitExit(kPatience);
  relays_[3] = StartRelay(address, coordinator_->address(), kBehind);
  CheckReplica(0, static_cast<size_t>(ops_));
  CheckReplica(1, static_cast<size_t>(ops_));
  ExpectAllAlike();
  ExpectNobodyLost();
}

TEST_F(Relays, TheCoordinatorMayBeStartedAgain) {
  Open("5s", 600, 5);
  StartAll();
  WaitOps(0, 20);
  const std::string address = coordinator_->address();
  coordinator_->process().Signal(SIGKILL);
  coordinator_->process().WaitExit(kPatience);
  coordinator_ = std::make_unique<Coordinator>(Variables{}, address, coordinator_arguments_);
  WaitOps(0, 200);
  team_->member(kMembers - 1).Signal(SIGKILL);
  CheckReplica(0, static_cast<size_t>(ops_));
  EXPECT_EQ(ParticipantsOf(team_->member(0).LinesWith("op ").back()).size(), 1u);
}

TEST_F(Relays, MayStandBehindRelays) {
  Open("5s", 400, 5, true);
  StartAll();
  WaitOps(0, 20);
  relays_[1]->process().Signal(SIGKILL);
  WaitOps(0, 100);
  team_->member(5).Signal(SIGKILL);
  CheckReplica(0, static_cast<size_t>(ops_));
  EXPECT_EQ(ParticipantsOf(team_->member(0).LinesWith("op ").back()).size(), 1u);
  EXPECT_NE(coordinator_->process().Output().find("all 2 members are here"), std::string::npos);
}

TEST_F(Relays, AnUpperOneThatStandsStillCostsNobodyItsPlace) {
  Open("3s", 1200, 5, true);
  StartAll();
  WaitOps(0, 20);
  upper_[1]->process().Signal(SIGSTOP);
  WaitOps(0, 1100);
  upper_[1]->process().Signal(SIGCONT);
  CheckReplica(0, static_cast<size_t>(ops_));
  CheckReplica(1, static_cast<size_t>(ops_));
  ExpectAllAlike();
  ExpectNobodyLost();
  EXPECT_NE(relays_[2]->process().Errors().find("answers"), std::string::npos);
}

TEST_F(Relays, AWrongTokenIsSaidAndEndsTheRelay) {
  coordinator_ = std::make_unique<Coordinator>(Variables{{"FTAR_TOKEN", "right"}});
  Coordinator relay({{"FTAR_TOKEN", "wrong"}}, "127.0.0.1:0",
                    {"--relay-to", coordinator_->address(), "--members", "1"});
  team_ = std::make_unique<process::Team>(relay.address(), 2, Variables{{"FTAR_TOKEN", "wrong"}},
                                          std::vector<std::string>{"ops=1", "deadline_s=20"});
  team_->Start(0);
  EXPECT_EQ(relay.process().WaitExit(kPatience), 1);
  EXPECT_NE(relay.process().Errors().find("token"), std::string::npos) << relay.process().Errors();
  team_->member(0).Signal(SIGKILL);
}

}  // namespace
