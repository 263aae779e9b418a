// A job without a coordinator process: a member coordinates, and when it goes, whichever way, the
// next one takes over. Survivors must finish every operation, alike and right.
#include <gtest/gtest.h>

#include <signal.h>

#include <algorithm>
#include <set>

#include "tests/process/harness.h"
#include "tests/process/verdicts.h"

namespace {

using process::Field;
using process::FreeAddresses;
using process::NowSeconds;
using process::ParticipantsOf;
using process::Process;
using process::SleepMs;
using process::Team;
using process::Variables;
using process::Verdicts;
using process::VerdictsOf;

constexpr double kPatience = 60;
// With a timeout of 5 s: until all have heard that all hold the view, which goes with a beat.
// Whoever is struck before that leaves the majority to be counted over the view before it, too. In
// operations, since they need all to run.
constexpr size_t kFormedOps = 50;

class Hosted : public process::TeamTest {
 protected:
  // The timeout is far beyond the patience of anything that must not wait for it.
  void Open(int replicas, const std::string& timeout, int ops, int pause_ms) {
    const Variables variables = {
        {"FTAR_COORDINATOR_KIND", "hosted"}, {"FTAR_TIMEOUT", timeout}, {"FTAR_LOG", "info"}};
    replicas_ = replicas;
    arguments_ = {"ops=" + std::to_string(ops), "pause_ms=" + std::to_string(pause_ms),
                  "deadline_s=55"};
    ops_ = ops;
    team_ = std::make_unique<Team>(FreeAddresses(replicas), replicas, variables, arguments_);
  }

  void OpenAndStart(int replicas, const std::string& timeout, int ops, int pause_ms = 5) {
    Open(replicas, timeout, ops, pause_ms);
    for (int replica = 0; replica < replicas; ++replica) team_->Start(replica);
    ASSERT_TRUE(team_->WaitReady(kPatience));
  }

  // The same, but that one has fewer operations to do, and other arguments.
  void StartButOne(int other, std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), arguments_.begin(), arguments_.end());
    for (int replica = 0; replica < replicas_; ++replica) {
      if (replica == other) {
        team_->StartWith(replica, {}, arguments);
      } else {
        team_->Start(replica);
      }
    }
    ASSERT_TRUE(team_->WaitReady(kPatience));
  }

  void Kill(int replica) {
    team_->member(replica).Signal(SIGKILL);
    EXPECT_EQ(team_->member(replica).WaitExit(kPatience), 128 + SIGKILL);
    gone_.insert(replica);
  }

  void LoseTheFirst() {
    ASSERT_TRUE(WaitOp(1, 20));
    Kill(0);
    ASSERT_TRUE(WaitLog(1, "members lost: 1"));
  }
  void StartTheFirstAnew() {
    team_->Start(0);
    gone_.erase(0);
    newcomers_.insert(0);
  }

  // As by a launcher: who had promised a view to a coordinator that is gone is refused, once.
  bool ComesIn(int replica) {
    const auto says = [&](const char* text) {
      team_->member(replica).Collect();
      return !team_->member(replica).LinesWith(text).empty();
    };
    const double end = NowSeconds() + kPatience;
    while (!says("ready") && !says("end join") && NowSeconds() < end) SleepMs(10);
    if (!says("ready")) {
      const std::vector<std::string> ends = team_->member(replica).LinesWith("end join");
      EXPECT_TRUE(!ends.empty() && Field(ends[0], "status") == "FTAR_ERR_PEER");
      team_->Start(replica);
    }
    return team_->member(replica).WaitLine("ready", kPatience);
  }

  // Until some time has passed in which its log has come to say so.
  bool WaitLog(int replica, const std::string& text, int times = 1) {
    for (const double end = NowSeconds() + kPatience; NowSeconds() < end; SleepMs(10)) {
      const std::string log = team_->member(replica).Errors();
      int count = 0;
      for (size_t at = log.find(text); at != std::string::npos; at = log.find(text, at + 1))
        ++count;
      if (count >= times) return true;
    }
    return false;
  }

  bool WaitOp(int replica, int seq) {
    return team_->member(replica).WaitLine("op seq=" + std::to_string(seq) + " ", kPatience);
  }

  void GoOn(int replica) {
    Process& member = team_->member(replica);
    member.Collect();
    const size_t then = member.LinesWith("op ").size() + kFormedOps;
    for (const double end = NowSeconds() + kPatience; NowSeconds() < end; SleepMs(20)) {
      member.Collect();
      if (member.LinesWith("op ").size() >= then) return;
    }
    ADD_FAILURE() << "replica " << replica << " does not go on";
  }

  // Those who are left end well, agree, and have the sums of those who took part.
  void CheckSurvivors() {
    for (int replica = 0; replica < replicas_; ++replica) {
      if (gone_.contains(replica)) continue;
      Process& member = team_->member(replica);
      EXPECT_EQ(member.WaitExit(kPatience), 0) << "replica " << replica;
      EXPECT_EQ(member.LinesWith("end status=FTAR_OK").size(), 1u) << "replica " << replica;
      const Verdicts own = VerdictsOf(member, false);
      if (!newcomers_.contains(replica)) {
        EXPECT_EQ(own.size(), static_cast<size_t>(ops_)) << "replica " << replica;
      }
      for (const auto& [seq, verdict] : own) {
        const auto [known, fresh] = agreed_.insert({seq, verdict});
        EXPECT_EQ(verdict, known->second) << "replica " << replica << " seq " << seq;
      }
      for (const std::string& line : member.LinesWith("op ")) {
        EXPECT_EQ(Field(line, "status"), "FTAR_OK") << line;
        // Whoever has left and stands in gives nothing, which the worker does not know.
        const bool stands_in = std::stoi(Field(line, "seq")) >= left_at_;
        if (!stands_in || !ParticipantsOf(line).contains(0)) {
          EXPECT_EQ(Field(line, "wrong"), "0") << line;
        }
      }
      EXPECT_EQ(LastOf(replica).count(replica), 1u);
    }
  }

  std::set<int> LastOf(int replica) {
    const std::vector<std::string> lines = team_->member(replica).LinesWith("op ");
    return lines.empty() ? std::set<int>{} : ParticipantsOf(lines.back());
  }

  int replicas_ = 0, ops_ = 0;
  int left_at_ = 1 << 30;  // the operation that member 0 did not call any more
  std::vector<std::string> arguments_;
  std::set<int> gone_, newcomers_;
};

TEST_F(Hosted, TheHostIsKilledWhileOperationsRun) {
  OpenAndStart(4, "120s", 150);
  ASSERT_TRUE(WaitOp(1, 30));
  Kill(0);
  CheckSurvivors();
  EXPECT_EQ(LastOf(1), (std::set<int>{1, 2, 3}));
  ExpectAgrees(team_->member(0));
}

TEST_F(Hosted, HostsDieOneAfterTheOther) {
  OpenAndStart(5, "5s", 400, 15);
  ASSERT_TRUE(WaitOp(4, 20));
  for (int host = 0; host < 4; ++host) {
    Kill(host);
    ASSERT_TRUE(WaitLog(4, "replica " + std::to_string(host) + " shard 0 on", host == 0 ? 2 : 1));
    ASSERT_TRUE(WaitLog(host + 1, "members lost: 1"));
    GoOn(4);
  }
  CheckSurvivors();
  EXPECT_EQ(LastOf(4), (std::set<int>{4}));
}

TEST_F(Hosted, AHostThatStandsStillIsOutWhenItGoesOn) {
  OpenAndStart(3, "1s", 400, 30);
  ASSERT_TRUE(WaitOp(1, 20));
  team_->member(0).Signal(SIGSTOP);
  gone_.insert(0);
  ASSERT_TRUE(WaitLog(1, "members lost: 1"));
  team_->member(0).Signal(SIGCONT);
  EXPECT_EQ(team_->member(0).WaitExit(kPatience), 0);
  EXPECT_EQ(team_->member(0).LinesWith("out").size(), 1u);
  const std::vector<std::string> ops = team_->member(0).LinesWith("op ");
  ASSERT_FALSE(ops.empty());
  EXPECT_EQ(Field(ops.back(), "status"), "FTAR_ERR_EVICTED");
  EXPECT_EQ(Field(ops.back(), "wrong"), "0") << "its input is back";
  CheckSurvivors();
  EXPECT_EQ(LastOf(1), (std::set<int>{1, 2}));
  ExpectAgrees(team_->member(0));
}

TEST_F(Hosted, TheHostLeavesAsPlanned) {
  Open(4, "120s", 200, 5);
  StartButOne(0, {"ops=60"});
  left_at_ = 60;
  EXPECT_EQ(team_->member(0).WaitExit(kPatience), 0);
  EXPECT_EQ(team_->member(0).LinesWith("end status=FTAR_OK").size(), 1u);
  gone_.insert(0);
  CheckSurvivors();
  EXPECT_EQ(LastOf(1), (std::set<int>{1, 2, 3}));
}

TEST_F(Hosted, TheHostLeavesOneMember) {
  Open(2, "120s", 200, 5);
  StartButOne(0, {"ops=60"});
  left_at_ = 60;
  EXPECT_EQ(team_->member(0).WaitExit(kPatience), 0);
  EXPECT_EQ(team_->member(0).LinesWith("end status=FTAR_OK").size(), 1u);
  gone_.insert(0);
  CheckSurvivors();
  EXPECT_EQ(LastOf(1), (std::set<int>{1}));
}

// It has said that it goes, and needs no proof of its death.
TEST_F(Hosted, TheHostOfTwoIsDestroyed) {
  Open(2, "120s", 200, 5);
  StartButOne(0, {"ops=60", "leave=0"});
  EXPECT_EQ(team_->member(0).WaitExit(kPatience), 0);
  gone_.insert(0);
  CheckSurvivors();
  EXPECT_EQ(LastOf(1), (std::set<int>{1}));
}

TEST_F(Hosted, ANewcomerFindsTheJobWhenItsFirstHostHasGone) {
  OpenAndStart(3, "20s", 300, 15);
  LoseTheFirst();
  StartTheFirstAnew();
  ASSERT_TRUE(team_->member(0).WaitLine("ready", kPatience));
  CheckSurvivors();
  EXPECT_EQ(LastOf(1), (std::set<int>{0, 1, 2}));
}

// The others say where it is, and it does not answer: that is no reason to found another job.
TEST_F(Hosted, AFirstProcessFindsTheJobThoughItsHostStandsStill) {
  OpenAndStart(4, "6s", 300, 30);
  LoseTheFirst();
  GoOn(1);
  team_->member(1).Signal(SIGSTOP);
  StartTheFirstAnew();
  SleepMs(2500);
  team_->member(1).Signal(SIGCONT);
  ASSERT_TRUE(team_->member(0).WaitLine("ready", kPatience));
  CheckSurvivors();
  EXPECT_EQ(LastOf(1), (std::set<int>{0, 1, 2, 3}));
}

TEST_F(Hosted, TheHostIsKilledDuringAJoin) {
  OpenAndStart(4, "5s", 300, 15);
  ASSERT_TRUE(WaitOp(1, 20));
  Kill(3);
  ASSERT_TRUE(WaitLog(0, "members lost: 1"));
  GoOn(1);
  team_->Start(3);
  gone_.erase(3);
  newcomers_.insert(3);
  ASSERT_TRUE(WaitLog(0, "wants to join", 5));
  Kill(0);
  ASSERT_TRUE(ComesIn(3));
  CheckSurvivors();
  EXPECT_EQ(LastOf(1), (std::set<int>{1, 2, 3}));
}

// One of three: its waits end, its operation goes on when another one is back.
TEST_F(Hosted, WithoutAQuorumWaitsEndAndTheOperationLivesOn) {
  OpenAndStart(3, "1s", 300, 10);
  ASSERT_TRUE(WaitOp(2, 20));
  team_->member(0).Signal(SIGSTOP);
  team_->member(1).Signal(SIGSTOP);
  const auto told = [this] {
    team_->member(2).Collect();
    const std::vector<std::string> waits = team_->member(2).LinesWith("wait ");
    return std::any_of(waits.begin(), waits.end(), [](const std::string& line) {
      return Field(line, "status") == "FTAR_ERR_QUORUM";
    });
  };
  for (const double end = NowSeconds() + kPatience; !told() && NowSeconds() < end;) SleepMs(20);
  EXPECT_TRUE(told());
  team_->member(1).Signal(SIGCONT);
  gone_.insert(0);
  CheckSurvivors();
  EXPECT_EQ(LastOf(2), (std::set<int>{1, 2}));
}

}  // namespace
