// The survive matrix's second set: members struck from outside, at a random time, wherever they
// happen to be. Survivors must finish every operation, alike and right; a victim that lives on must
// agree with what they delivered.
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <random>

#include "tests/process/connections.h"
#include "tests/process/harness.h"
#include "tests/process/verdicts.h"

namespace {

using process::Coordinator;
using process::Cut;
using process::Deafen;
using process::Field;
using process::ForConnections;
using process::NowSeconds;
using process::ParticipantsOf;
using process::Process;
using process::SleepMs;
using process::Team;
using process::Variables;
using process::Verdicts;
using process::VerdictsOf;

constexpr int kReplicas = 5;
constexpr int kOps = 300;
constexpr double kPatience = 40;

// kDeaf: packets to it vanish on all its data connections, and no news of that comes.
enum class Kind { kKill, kStop, kCut, kDeaf };

struct Strike {
  Kind kind = Kind::kKill;
  const char* transport = "tcp";
  const char* plan = "auto";
  int victims = 1;
  unsigned seed = 0;

  bool ByTimeout() const { return kind == Kind::kStop || kind == Kind::kDeaf; }
  std::string Name() const {
    const char* const kinds[] = {"kill", "stop", "cut", "deaf"};
    return std::string(kinds[static_cast<int>(kind)]) + std::to_string(victims) + "_" + transport +
           "_" + plan + "_" + std::to_string(seed);
  }
};

std::ostream& operator<<(std::ostream& out, const Strike& strike) { return out << strike.Name(); }

class Outside : public process::TeamTest, public testing::WithParamInterface<Strike> {
 protected:
  void StartAll() {
    const Strike& strike = GetParam();
    // These shall be found by their timeout; nothing else may wait for one.
    const Variables variables = {{"FTAR_TRANSPORT", strike.transport},
                                 {"FTAR_PLAN", strike.plan},
                                 {"FTAR_TIMEOUT", strike.ByTimeout() ? "1s" : "20s"},
                                 {"FTAR_LOG", "info"}};
    coordinator_ = std::make_unique<Coordinator>();
    ASSERT_NE(coordinator_->address(), "");
    team_ = std::make_unique<Team>(
        coordinator_->address(), kReplicas, variables,
        std::vector<std::string>{"ops=" + std::to_string(kOps), "count=30000", "window=2",
                                 "deadline_s=30"});
    for (int replica = 0; replica < kReplicas; ++replica) team_->Start(replica);
    ASSERT_TRUE(team_->WaitReady(kPatience));
  }

  // Between the second and about the hundredth operation of the first victim.
  void StrikeVictims() {
    std::mt19937 random(GetParam().seed * 7919 + static_cast<unsigned>(GetParam().kind));
    std::vector<int> order(kReplicas);
    for (int i = 0; i < kReplicas; ++i) order[static_cast<size_t>(i)] = i;
    std::shuffle(order.begin(), order.end(), random);
    victims_.assign(order.begin(), order.begin() + GetParam().victims);
    ASSERT_TRUE(team_->member(victims_[0]).WaitLine("op seq=1 ", kPatience));
    usleep(std::uniform_int_distribution<useconds_t>(0, 100'000)(random));
    for (const int victim : victims_) {
      Process& member = team_->member(victim);
      switch (GetParam().kind) {
        case Kind::kKill: member.Signal(SIGKILL); break;
        case Kind::kStop: member.Signal(SIGSTOP); break;
        case Kind::kCut:
        case Kind::kDeaf:
          if (!StrikeConnections(member)) GTEST_SKIP() << "SKIP_PTRACE: not allowed here";
          break;
      }
    }
  }

  // The coordinator hears from a deaf member, which beats on; only its peers lack it.
  bool StrikeConnections(const Process& member) {
    const bool deafen = GetParam().kind == Kind::kDeaf;
    const std::string& address = coordinator_->address();
    const int spared = deafen ? std::stoi(address.substr(address.rfind(':') + 1)) : 0;
    return ForConnections(member.pid(), [&](int fd, uint16_t peer_port) {
      if (peer_port != spared && (deafen ? Deafen(fd) : Cut(fd))) ++cut_;
    });
  }

  bool IsVictim(int replica) const {
    return std::find(victims_.begin(), victims_.end(), replica) != victims_.end();
  }

  void WaitSurvivors() {
    for (int replica = 0; replica < kReplicas; ++replica) {
      if (IsVictim(replica)) continue;
      EXPECT_EQ(team_->member(replica).WaitExit(kPatience), 0) << "replica " << replica;
    }
  }

  void CheckSurvivors() {
    for (int replica = 0; replica < kReplicas; ++replica) {
      if (IsVictim(replica)) continue;
      const Process& member = team_->member(replica);
      const Verdicts own = VerdictsOf(member, false);
      EXPECT_EQ(own.size(), static_cast<size_t>(kOps)) << "replica " << replica;
      if (agreed_.empty()) agreed_ = own;
      EXPECT_EQ(own, agreed_) << "replica " << replica;
      for (const std::string& line : member.LinesWith("op ")) CheckLine(line);
    }
  }

  void CheckLine(const std::string& line) {
    EXPECT_EQ(Field(line, "status"), "FTAR_OK") << line;
    EXPECT_EQ(Field(line, "wrong"), "0") << line;
    const std::set<int> in = ParticipantsOf(line);
    for (int other = 0; other < kReplicas; ++other) {
      EXPECT_TRUE(IsVictim(other) || in.contains(other)) << line;
    }
    if (std::stoi(Field(line, "seq")) == kOps - 1) last_ = in;
  }

  void CheckVictim(int replica) {
    Process& victim = team_->member(replica);
    if (GetParam().kind == Kind::kKill) {
      EXPECT_EQ(victim.WaitExit(kPatience), 128 + SIGKILL);
      EXPECT_FALSE(last_.contains(replica));
    } else {
      if (GetParam().kind == Kind::kStop) {
        EXPECT_FALSE(last_.contains(replica)) << "the run must outlast the timeout";
        victim.Signal(SIGCONT);
      }
      EXPECT_EQ(victim.WaitExit(kPatience), 0);
      EXPECT_NE(victim.LinesWith("out").empty(), !last_.contains(replica)) << "out or in, not both";
    }
    ExpectAgrees(victim);
  }

  std::vector<int> victims_;
  std::set<int> last_;  // participants of the last operation
  int cut_ = 0;
};

TEST_P(Outside, SurvivorsFinishAlike) {
  StartAll();
  if (HasFatalFailure()) return;
  StrikeVictims();
  if (HasFatalFailure() || IsSkipped()) return;
  const bool cuts = GetParam().kind == Kind::kCut || GetParam().kind == Kind::kDeaf;
  EXPECT_TRUE(!cuts || cut_ > 0);
  WaitSurvivors();
  CheckSurvivors();
  for (const int victim : victims_) CheckVictim(victim);
}

std::vector<Strike> Strikes() {
  std::vector<Strike> out;
  const char* const plans[] = {"direct", "ring", "auto"};
  unsigned turn = 0;
  for (const char* transport : {"tcp", "shm"}) {
    for (const int victims : {1, 2}) {
      for (unsigned seed = 1; seed <= 3; ++seed) {
        for (const Kind kind : {Kind::kKill, Kind::kStop, Kind::kCut}) {
          out.push_back({kind, transport, plans[turn++ % 3], victims, seed});
        }
        ++turn;
        if (out.back().transport == std::string("tcp"))
          out.push_back({Kind::kDeaf, transport, plans[seed % 3], victims, seed});
      }
    }
  }
  return out;
}

std::string NameOf(const testing::TestParamInfo<Strike>& info) { return info.param.Name(); }

INSTANTIATE_TEST_SUITE_P(Random, Outside, testing::ValuesIn(Strikes()), NameOf);

}  // namespace
