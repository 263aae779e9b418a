// A GPU breaks, or hangs, in one process of a team, or that process aborts its job, at some moment
// of an operation on streams. The others finish alike and go on with their own GPUs; the member
// itself is told, and nobody's stream waits for ever.
#include <gtest/gtest.h>

#include <random>

#include "tests/process/harness.h"
#include "tests/process/verdicts.h"

namespace process {
namespace {

constexpr int kReplicas = 3, kOps = 10, kStruckOp = 4, kVictim = 1;
constexpr double kPatience = 25;

struct Case {
  const char* kind;
  const char* executor;
  const char* transport;
  bool lent;
};

std::ostream& operator<<(std::ostream& out, const Case& one) {
  return out << one.kind << "_" << one.executor << "_" << one.transport
             << (one.lent ? "_lent" : "");
}

class DeviceFault : public TeamTest, public testing::WithParamInterface<Case> {
 protected:
  void Play(int delay_us, int window) {
    const Case& one = GetParam();
    const std::vector<std::string> arguments = {"ops=" + std::to_string(kOps),
                                                "count=40000",
                                                "window=" + std::to_string(window),
                                                "gpu=1",
                                                std::string("library=") + (one.lent ? "1" : "0"),
                                                "deadline_s=15"};
    coordinator_ = std::make_unique<Coordinator>();
    team_ = std::make_unique<Team>(coordinator_->address(), kReplicas,
                                   Variables{{"FTAR_TRANSPORT", one.transport},
                                             {"FTAR_TIMEOUT", "1s"},
                                             {"FTAR_GPU", FTAR_FAKE_GPU},
                                             {"FTAR_GPU_EXECUTOR", one.executor}},
                                   arguments);
    for (int replica = 0; replica < kReplicas; ++replica) {
      std::vector<std::string> own = arguments;
      if (replica == kVictim) {
        own.push_back(std::string("gpu_fault=") + one.kind + "@" + std::to_string(kStruckOp));
        own.push_back("gpu_delay_us=" + std::to_string(delay_us));
      }
      team_->StartWith(replica, {}, own);
    }
    for (int replica = 0; replica < kReplicas; ++replica) {
      EXPECT_EQ(team_->member(replica).WaitExit(kPatience), 0) << "replica " << replica;
    }
  }

  void ExpectStreams(int replica, const std::string& state) {
    const std::vector<std::string> lines = team_->member(replica).LinesWith("streams");
    ASSERT_EQ(lines.size(), 1u) << "replica " << replica;
    EXPECT_NE(lines[0].find(state), std::string::npos) << lines[0];
    EXPECT_EQ(lines[0].find("unusable"), std::string::npos) << lines[0];
  }

  void CheckSurvivors() {
    Verdicts agreed;
    for (int replica = 0; replica < kReplicas; ++replica) {
      if (replica == kVictim) continue;
      Process& member = team_->member(replica);
      const Verdicts own = VerdictsOf(member, false);
      EXPECT_EQ(own.size(), static_cast<size_t>(kOps)) << "replica " << replica;
      if (agreed.empty()) agreed = own;
      EXPECT_EQ(own, agreed) << "replica " << replica;
      for (const std::string& line : member.LinesWith("op ")) {
        EXPECT_EQ(Field(line, "status"), "FTAR_OK") << line;
        EXPECT_EQ(Field(line, "wrong"), "0") << line;
      }
      ExpectStreams(replica, "usable");
    }
  }

  void CheckVictim() {
    Process& victim = team_->member(kVictim);
    const std::vector<std::string> ops = victim.LinesWith("op ");
    ASSERT_FALSE(ops.empty());
    const std::string streams = std::string(GetParam().kind) == "break" ? "released" : "usable";
    // A GPU may hang while only its user waits for it: its member is late, and no more. Any strike
    // may come when all is delivered.
    const bool whole = VerdictsOf(victim, false).size() == static_cast<size_t>(kOps);
    if (whole && Field(ops.back(), "status") == "FTAR_OK") return ExpectStreams(kVictim, streams);
    EXPECT_EQ(victim.LinesWith("out").size(), 1u);
    const bool aborts = std::string(GetParam().kind) == "abort";
    EXPECT_EQ(Field(ops.back(), "status"), aborts ? "FTAR_ERR_ABORTED" : "FTAR_ERR_DEVICE");
    for (const std::string& line : ops) EXPECT_EQ(Field(line, "wrong"), "0") << line;
    ExpectStreams(kVictim, streams);
  }
};

TEST_P(DeviceFault, OnlyTheMemberIsOutAndAllStreamsGoOn) {
  std::random_device seed;
  for (int run = 0; run < 4 && !HasFailure(); ++run) {
    const int delay_us = static_cast<int>(seed() % 4000) >> (run % 3);
    SCOPED_TRACE("after " + std::to_string(delay_us) + " us");
    Play(delay_us, run % 2 == 0 ? 1 : 3);
    CheckSurvivors();
    CheckVictim();
  }
}

std::vector<Case> Cases() {
  std::vector<Case> cases;
  for (const char* kind : {"break", "hang", "abort"}) {
    for (const char* executor : {"bounded", "resident"}) {
      cases.push_back({kind, executor, "shm", true});
      cases.push_back({kind, executor, "tcp", false});
    }
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Gpu, DeviceFault, testing::ValuesIn(Cases()),
                         testing::PrintToStringParamName());

}  // namespace
}  // namespace process
