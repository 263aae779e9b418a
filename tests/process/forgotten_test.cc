// A control connection that something between its ends forgets in silence, as a firewall does that
// starts anew: nothing comes through any more, and neither end hears of that. A new one would get
// through, so it costs nobody anything.
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <set>
#include <string>

#include "tests/process/connections.h"
#include "tests/process/harness.h"
#include "tests/process/verdicts.h"

namespace {

using process::Coordinator;
using process::Field;
using process::ForConnections;
using process::FreeAddresses;
using process::ParticipantsOf;
using process::Process;
using process::Team;
using process::Variables;

constexpr int kReplicas = 3;
constexpr int kVictim = 1;
constexpr double kPatience = 40;
// Together they last for two timeouts.
constexpr int kOps = 200;
constexpr int kPauseMs = 30;
constexpr char kTimeout[] = "3s";

uint16_t OwnPort(int fd) {
  sockaddr_storage own{};
  socklen_t size = sizeof own;
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&own), &size) != 0) return 0;
  return ntohs(reinterpret_cast<sockaddr_in*>(&own)->sin_port);
}

class Forgotten : public process::TeamTest {
 protected:
  void StartAll(const std::string& coordinator, Variables variables) {
    variables["FTAR_TIMEOUT"] = kTimeout;
    variables["FTAR_LOG"] = "info";
    const std::string first = coordinator.substr(0, coordinator.find(','));
    port_ = std::stoi(first.substr(first.rfind(':') + 1));
    team_ = std::make_unique<Team>(
        coordinator, kReplicas, variables,
        std::vector<std::string>{"ops=" + std::to_string(kOps),
                                 "pause_ms=" + std::to_string(kPauseMs), "deadline_s=30"});
    for (int replica = 0; replica < kReplicas; ++replica) team_->Start(replica);
    ASSERT_TRUE(team_->WaitReady(kPatience));
    ASSERT_TRUE(team_->member(kVictim).WaitLine("op seq=1 ", kPatience));
  }

  // Of the victim to who coordinates, both ends.
  void ForgetItsConnection(const Process& coordinates) {
    std::set<uint16_t> own;
    const bool allowed =
        ForConnections(team_->member(kVictim).pid(), [&](int fd, uint16_t peer_port) {
          if (peer_port == port_ && process::Deafen(fd)) own.insert(OwnPort(fd));
        });
    if (!allowed) GTEST_SKIP() << "SKIP_PTRACE: not allowed here";
    int ends = 0;
    ForConnections(coordinates.pid(), [&](int fd, uint16_t peer_port) {
      if (own.contains(peer_port) && process::Deafen(fd)) ++ends;
    });
    ASSERT_EQ(own.size(), 1u);
    ASSERT_EQ(ends, 1);
  }

  void ExpectNobodyLost() {
    for (int replica = 0; replica < kReplicas; ++replica) {
      Process& member = team_->member(replica);
      EXPECT_EQ(member.WaitExit(kPatience), 0) << "replica " << replica;
      const auto lines = member.LinesWith("op ");
      EXPECT_EQ(lines.size(), static_cast<size_t>(kOps)) << "replica " << replica;
      for (const std::string& line : lines) {
        EXPECT_EQ(Field(line, "status"), "FTAR_OK") << line;
        EXPECT_EQ(Field(line, "wrong"), "0") << line;
        EXPECT_EQ(ParticipantsOf(line).size(), static_cast<size_t>(kReplicas)) << line;
      }
    }
    EXPECT_NE(team_->member(kVictim).Errors().find("answers on another one"), std::string::npos);
  }

  int port_ = 0;
};

TEST_F(Forgotten, WithACoordinatorProcess) {
  coordinator_ = std::make_unique<Coordinator>();
  ASSERT_NO_FATAL_FAILURE(StartAll(coordinator_->address(), {}));
  ASSERT_NO_FATAL_FAILURE(ForgetItsConnection(coordinator_->process()));
  if (!IsSkipped()) ExpectNobodyLost();
}

TEST_F(Forgotten, WhereAMemberCoordinates) {
  ASSERT_NO_FATAL_FAILURE(
      StartAll(FreeAddresses(kReplicas), {{"FTAR_COORDINATOR_KIND", "hosted"}}));
  ASSERT_NO_FATAL_FAILURE(ForgetItsConnection(team_->member(0)));
  if (!IsSkipped()) ExpectNobodyLost();
}

}  // namespace
