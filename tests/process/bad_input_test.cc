// Bad input and bad weather with real processes: a clear error that names the argument or peer,
// nothing crashes, others are not disturbed.
#include <arpa/inet.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "tests/process/harness.h"

namespace {

using process::Coordinator;
using process::Field;
using process::NowSeconds;
using process::Process;
using process::Team;
using process::Variables;
using testing::Contains;
using testing::HasSubstr;
using testing::Not;

constexpr double kPatience = 20;

std::vector<std::string> Scenario(const std::string& name, std::vector<std::string> more = {}) {
  more.push_back("scenario=" + name);
  return more;
}

class BadInput : public testing::Test {
 protected:
  void Open(int replicas, Variables variables = {}, Variables coordinator = {}) {
    if (!variables.contains("FTAR_TIMEOUT")) variables["FTAR_TIMEOUT"] = "5s";
    coordinator_ = std::make_unique<Coordinator>(coordinator);
    ASSERT_NE(coordinator_->address(), "") << coordinator_->process().Output();
    team_ = std::make_unique<Team>(coordinator_->address(), replicas, variables,
                                   std::vector<std::string>{});
  }

  Process& Start(int replica, const std::string& scenario, std::vector<std::string> more = {},
                 const Variables& extra = {}) {
    return team_->StartWith(replica, extra, Scenario(scenario, std::move(more)));
  }

  // The value of "found NAME=VALUE ...".
  static std::string Found(Process& process, const std::string& name) {
    for (const std::string& line : process.LinesWith("found ")) {
      if (const std::string value = Field(line, name); !value.empty()) return value;
    }
    return "";
  }
  static std::string End(Process& process) {
    const std::vector<std::string> lines = process.LinesWith("end ");
    return lines.empty() ? "" : lines.back();
  }

  // Two whose buffers are of another kind each time; none is wrong.
  void MixKinds(const std::vector<std::string>& more) {
    for (const int replica : {0, 1}) {
      std::vector<std::string> arguments = more;
      arguments.push_back("seed=" + std::to_string(replica));
      Start(replica, "kinds", arguments);
    }
    for (const int replica : {0, 1}) {
      Process& member = team_->member(replica);
      EXPECT_EQ(member.WaitExit(kPatience), 0);
      EXPECT_EQ(Found(member, "wrong"), "0") << "of member " << replica;
    }
  }

  void TearDown() override {
    if (!HasFailure() || !team_) return;
    fprintf(stderr, "%scoordinator:\n%s", team_->Story().c_str(),
            coordinator_->process().Output().c_str());
  }

  std::unique_ptr<Coordinator> coordinator_;
  std::unique_ptr<Team> team_;
};

TEST_F(BadInput, APlaceThatIsHeldEndsInPeerNamingTheHolder) {
  Open(2, {}, {{"FTAR_JOIN_TIMEOUT", "500ms"}});
  Start(0, "plain", {"ops=30", "pause_ms=100"});
  Start(1, "plain", {"ops=30", "pause_ms=100"});
  ASSERT_TRUE(team_->WaitReady(kPatience));
  const Variables variables = {{"FTAR_COORDINATOR", coordinator_->address()},
                               {"FTAR_REPLICA", "1"},
                               {"FTAR_REPLICAS", "2"},
                               {"FTAR_TIMEOUT", "5s"},
                               {"FTAR_JOIN_TIMEOUT", "500ms"}};
  Process second(process::WorkerPath(), Scenario("join"), variables);
  second.WaitExit(kPatience);
  EXPECT_THAT(End(second), HasSubstr("status=FTAR_ERR_PEER")) << second.Output();
  EXPECT_THAT(End(second), HasSubstr("replica 1"));
  for (const int replica : {0, 1}) {
    EXPECT_EQ(team_->member(replica).WaitExit(kPatience), 0);
    EXPECT_EQ(Found(team_->member(replica), "op29"), "FTAR_OK");
  }
}

TEST_F(BadInput, DestroyWithOperationsInFlightAbortsThem) {
  Open(2);
  Start(0, "destroy");
  Start(1, "plain", {"ops=3"});
  EXPECT_EQ(team_->member(0).WaitExit(kPatience), 0);
  EXPECT_EQ(team_->member(1).WaitExit(kPatience), 0);
  EXPECT_EQ(Found(team_->member(0), "destroy"), "FTAR_OK");
  EXPECT_THAT(Found(team_->member(0), "wait"), testing::AnyOf("FTAR_ERR_ABORTED", "FTAR_OK"));
  EXPECT_EQ(Found(team_->member(1), "op2"), "FTAR_OK");
  EXPECT_EQ(Found(team_->member(1), "leave"), "FTAR_OK");
}

TEST_F(BadInput, EveryCallInAForkedChildSaysSo) {
  Open(2);
  Start(0, "fork");
  Start(1, "plain", {"ops=1"});
  Process& forker = team_->member(0);
  EXPECT_EQ(forker.WaitExit(kPatience), 0);
  EXPECT_EQ(team_->member(1).WaitExit(kPatience), 0);
  for (const char* call : {"child_wait_ready", "child_start", "child_leave", "child_view",
                           "child_step", "child_destroy"}) {
    EXPECT_EQ(Found(forker, call), "FTAR_ERR_FORKED") << call;
  }
  EXPECT_EQ(Found(forker, "child_exit"), "0");
  EXPECT_EQ(Found(forker, "parent_op"), "FTAR_OK");
  EXPECT_EQ(Found(forker, "parent_leave"), "FTAR_OK");
}

// With a timeout of 30 s, who finishes within the patience has not waited for it.
TEST_F(BadInput, ALivingForkedChildDoesNotHideItsParentsDeath) {
  for (const char* transport : {"tcp", "shm"}) {
    Open(3, {{"FTAR_TIMEOUT", "30s"}, {"FTAR_TRANSPORT", transport}});
    Start(0, "plain", {"ops=3"});
    Start(1, "fork_then_die");
    Start(2, "plain", {"ops=3"});
    EXPECT_EQ(team_->member(0).WaitExit(10), 0) << transport;
    EXPECT_EQ(team_->member(2).WaitExit(10), 0) << transport;
    EXPECT_EQ(Found(team_->member(0), "op2"), "FTAR_OK");
    team_->member(1).CloseInput();
  }
}

TEST_F(BadInput, DisagreementNamesTwoMembersAndTheField) {
  Open(3);
  for (const int replica : {0, 1}) Start(replica, "plain", {"ops=2", "count=1000"});
  Start(2, "plain", {"ops=2", "count=1001"});
  std::string said;
  for (const int replica : {0, 1, 2}) {
    Process& member = team_->member(replica);
    EXPECT_EQ(member.WaitExit(kPatience), 0);
    EXPECT_EQ(Found(member, "op0"), "FTAR_ERR_MISMATCH");
    EXPECT_EQ(Found(member, "op1"), "FTAR_ERR_MISMATCH");
    const std::string text = Field(member.LinesWith("found op0").at(0), "text");
    EXPECT_THAT(text, HasSubstr("count"));
    EXPECT_THAT(text, HasSubstr("1001"));
    EXPECT_THAT(text, HasSubstr("replica 2"));
    EXPECT_THAT(text, testing::AnyOf(HasSubstr("replica 0"), HasSubstr("replica 1")));
    if (said.empty()) said = text;
    EXPECT_EQ(text, said) << "all say the same";
    EXPECT_EQ(Found(member, "leave"), "FTAR_OK");
  }
}

TEST_F(BadInput, ATokenThatIsAbsentOrWrongIsRefused) {
  const Variables secret = {{"FTAR_TOKEN", "secret of this job"}};
  Open(2, secret, secret);
  Start(0, "plain", {"ops=1"});
  for (const char* token : {"", "another secret"}) {
    Variables variables = {{"FTAR_COORDINATOR", coordinator_->address()},
                           {"FTAR_REPLICA", "1"},
                           {"FTAR_REPLICAS", "2"}};
    if (*token != '\0') variables["FTAR_TOKEN"] = token;
    Process stranger(process::WorkerPath(), Scenario("join"), variables);
    stranger.WaitExit(kPatience);
    EXPECT_THAT(End(stranger), HasSubstr("status=FTAR_ERR_AUTH")) << stranger.Output();
    EXPECT_THAT(End(stranger), HasSubstr("argument=token"));
    EXPECT_THAT(End(stranger), HasSubstr(*token != '\0' ? "the tokens differ, or the peer has none"
                                                          : "FTAR_TOKEN_FILE"));
  }
  EXPECT_THAT(coordinator_->process().Errors(), HasSubstr("does not know the job's token"));
  Start(1, "plain", {"ops=1"});
  EXPECT_EQ(team_->member(0).WaitExit(kPatience), 0);
  EXPECT_EQ(team_->member(1).WaitExit(kPatience), 0);
  EXPECT_EQ(Found(team_->member(0), "op0"), "FTAR_OK");
}

TEST_F(BadInput, TheCoordinatorTakesAllDescriptorsThatItMay) {
  Process coordinator(
      "/bin/sh",
      {"-c", "ulimit -Sn 64; exec \"$0\" --listen 127.0.0.1:0", process::CoordinatorPath()}, {});
  ASSERT_TRUE(coordinator.WaitLine("ftar-coordinator listening", kPatience));
  std::ifstream limits("/proc/" + std::to_string(coordinator.pid()) + "/limits");
  std::string line, soft, hard;
  while (std::getline(limits, line) && line.find("Max open files") != 0) continue;
  std::istringstream(line.substr(std::string("Max open files").size())) >> soft >> hard;
  EXPECT_NE(soft, "");
  EXPECT_EQ(soft, hard);
}

TEST_F(BadInput, AMemberOfAnotherJobIsRefused) {
  Open(2);
  Start(0, "plain", {"ops=1"}, {{"FTAR_JOB", "one"}});
  process::SleepMs(300);
  const Variables variables = {{"FTAR_COORDINATOR", coordinator_->address()},
                               {"FTAR_REPLICA", "1"},
                               {"FTAR_REPLICAS", "2"},
                               {"FTAR_TIMEOUT", "5s"},
                               {"FTAR_JOB", "two"}};
  Process stranger(process::WorkerPath(), Scenario("join"), variables);
  stranger.WaitExit(kPatience);
  EXPECT_THAT(End(stranger), HasSubstr("two")) << stranger.Output();
  EXPECT_THAT(End(stranger),
              testing::AnyOf(HasSubstr("FTAR_ERR_AUTH"), HasSubstr("FTAR_ERR_CONFIG")));
  Start(1, "plain", {"ops=1"}, {{"FTAR_JOB", "one"}});
  EXPECT_EQ(team_->member(0).WaitExit(kPatience), 0);
  EXPECT_EQ(Found(team_->member(0), "op0"), "FTAR_OK");
}

TEST_F(BadInput, AnUnknownVariableOrABadValueIsNamed) {
  Open(1);
  Start(0, "join", {}, {{"FTAR_TIMEUOT", "3s"}});
  team_->member(0).WaitExit(kPatience);
  EXPECT_THAT(End(team_->member(0)), HasSubstr("status=FTAR_ERR_CONFIG"));
  EXPECT_THAT(End(team_->member(0)), HasSubstr("FTAR_TIMEUOT"));
  Start(0, "join", {}, {{"FTAR_TIMEOUT", "three"}});
  team_->member(0).WaitExit(kPatience);
  EXPECT_THAT(End(team_->member(0)), HasSubstr("status=FTAR_ERR_CONFIG"));
  EXPECT_THAT(End(team_->member(0)), HasSubstr("timeout"));
}

TEST_F(BadInput, MembersThatDisagreeOnAKnobFindOutAtJoin) {
  Open(2);
  Start(0, "join", {}, {{"FTAR_WINDOW", "8"}});
  process::SleepMs(300);
  Start(1, "join", {}, {{"FTAR_WINDOW", "4"}});
  team_->member(1).WaitExit(kPatience);
  EXPECT_THAT(End(team_->member(1)), HasSubstr("status=FTAR_ERR_CONFIG"));
  EXPECT_THAT(End(team_->member(1)), HasSubstr("window"));
}

TEST_F(BadInput, NoCoordinatorEndsTheJoinNamingTheAddress) {
  const Variables variables = {{"FTAR_COORDINATOR", "127.0.0.1:9"},
                               {"FTAR_REPLICA", "0"},
                               {"FTAR_REPLICAS", "2"},
                               {"FTAR_JOIN_TIMEOUT", "500ms"}};
  Process lonely(process::WorkerPath(), Scenario("join"), variables);
  lonely.WaitExit(kPatience);
  EXPECT_THAT(End(lonely), HasSubstr("status=FTAR_ERR_COORDINATOR")) << lonely.Output();
  EXPECT_THAT(End(lonely), HasSubstr("127.0.0.1:9"));
  EXPECT_THAT(lonely.Errors(), HasSubstr("waiting for a coordinator at 127.0.0.1:9: "));
  EXPECT_THAT(lonely.Errors(), HasSubstr("refused; giving up after join_timeout (500ms)"));
}

// At a coordinator: what is waited for is said before the join ends in it, and once.
TEST_F(BadInput, AReplicaThatIsMissingIsWaitedForByNumber) {
  const Coordinator coordinator;
  const auto join = [&](Variables place) {
    place.insert({{"FTAR_COORDINATOR", coordinator.address()}, {"FTAR_JOIN_TIMEOUT", "500ms"}});
    auto member = std::make_unique<Process>(process::WorkerPath(), Scenario("join"), place);
    member->WaitExit(kPatience);
    return member;
  };
  const auto first = join({{"FTAR_REPLICA", "0"}, {"FTAR_REPLICAS", "2"}});
  const char* const waits = "the first view waits for replicas 0 to 1; this is replica 0";
  EXPECT_THAT(End(*first), HasSubstr("status=FTAR_TIMEOUT"));
  EXPECT_THAT(End(*first),
              HasSubstr("the first view waits for replicas 0 to 1; here: 0; missing: 1"));
  const std::string said = first->Errors();
  EXPECT_THAT(said, HasSubstr("connected to the coordinator at " + coordinator.address()));
  EXPECT_THAT(said, HasSubstr(waits));
  EXPECT_THAT(said, HasSubstr("; where another process is replica 0, this one waits for its end"));
  EXPECT_EQ(said.find("connected to"), said.rfind("connected to"));
  const auto beyond = join({{"FTAR_REPLICA", "2"}, {"FTAR_REPLICAS", "2"}});
  const char* const count = "the first view does not wait for replica 2";
  EXPECT_THAT(End(*beyond), HasSubstr(count));
  EXPECT_THAT(beyond->Errors(), HasSubstr(std::string(count) + ", which can only join later"));
  EXPECT_THAT(beyond->Errors(), Not(HasSubstr("is not set")));
  const auto uncounted = join({{"FTAR_REPLICA", "1"}});
  EXPECT_THAT(End(*uncounted), HasSubstr("with replicas=1 (FTAR_REPLICAS is not set) the first"));
  const auto alone = join({});
  EXPECT_THAT(alone->Errors(), HasSubstr("this is a job of one"));
}

TEST_F(BadInput, TwoThatWereGivenOnePlaceHearOfEachOther) {
  const Coordinator coordinator;
  const Variables place = {{"FTAR_COORDINATOR", coordinator.address()},
                           {"FTAR_REPLICA", "0"},
                           {"FTAR_REPLICAS", "2"},
                           {"FTAR_JOIN_TIMEOUT", "1s"}};
  Process first(process::WorkerPath(), Scenario("join"), place);
  process::SleepMs(300);
  Process second(process::WorkerPath(), Scenario("join"), place);
  for (Process* member : {&first, &second}) member->WaitExit(kPatience);
  EXPECT_THAT(End(first), HasSubstr("status=FTAR_TIMEOUT"));
  EXPECT_THAT(End(second), HasSubstr("status=FTAR_ERR_PEER")) << second.Output();
  EXPECT_THAT(End(second), HasSubstr("held by replica 0"));
}

TEST_F(BadInput, ACoordinatorSaysWhatItsArgumentsLack) {
  const std::pair<std::vector<std::string>, const char*> cases[] = {
      {{"--listen", "127.0.0.1:99999"}, "a port from 0 to 65535"},
      {{"--lissen", "127.0.0.1:0"}, "ftar-coordinator: The following arguments"},
      {{"--listen", "192.0.2.2:7022"}, "--token-file"}};
  for (const auto& [arguments, said] : cases) {
    Process coordinator(process::CoordinatorPath(), arguments, {});
    EXPECT_EQ(coordinator.WaitExit(kPatience), 1);
    EXPECT_THAT(coordinator.Errors(), HasSubstr(said));
  }
  Process version(process::CoordinatorPath(), {"--version"}, {});
  EXPECT_EQ(version.WaitExit(kPatience), 0);
  EXPECT_THAT(version.Output(), HasSubstr("ftar-coordinator 1."));
}

TEST_F(BadInput, WithoutATokenOnlyLoopbackIsServed) {
  const Variables variables = {
      {"FTAR_COORDINATOR", "192.0.2.1:4000"}, {"FTAR_REPLICA", "0"}, {"FTAR_REPLICAS", "2"}};
  Process open(process::WorkerPath(), Scenario("join"), variables);
  open.WaitExit(kPatience);
  EXPECT_THAT(End(open), HasSubstr("status=FTAR_ERR_CONFIG")) << open.Output();
  EXPECT_THAT(End(open), HasSubstr("argument=token"));
  EXPECT_THAT(End(open), HasSubstr("before any name is looked up"));
}

TEST_F(BadInput, WhatWasStartedBeforeLeavingMayBeWaitedForAfterwards) {
  Open(2);
  Start(0, "leave_then_wait");
  Start(1, "plain", {"ops=3"});
  EXPECT_EQ(team_->member(0).WaitExit(kPatience), 0);
  EXPECT_EQ(team_->member(1).WaitExit(kPatience), 0);
  Process& leaver = team_->member(0);
  EXPECT_EQ(Found(leaver, "leave"), "FTAR_OK");
  EXPECT_EQ(Found(leaver, "wait"), "FTAR_OK");
  EXPECT_EQ(Found(leaver, "start"), "FTAR_ERR_LEFT");
  EXPECT_EQ(Found(leaver, "leave_again"), "FTAR_OK");
  EXPECT_EQ(Found(team_->member(1), "op2"), "FTAR_OK");
}

TEST_F(BadInput, ACallbackMayNotStartWaitOrDestroy) {
  Open(2);
  Start(0, "callback");
  Start(1, "plain", {"ops=2"});
  EXPECT_EQ(team_->member(0).WaitExit(kPatience), 0);
  Process& member = team_->member(0);
  for (const char* call : {"callback_start", "callback_leave", "callback_destroy"}) {
    EXPECT_EQ(Found(member, call), "FTAR_ERR_STATE") << call;
  }
  for (const char* call : {"op", "next", "leave"})
    EXPECT_EQ(Found(member, call), "FTAR_OK") << call;
}

TEST_F(BadInput, OutOfDescriptorsAtJoinIsAnError) {
  for (const char* descriptors : {"3", "5", "8", "12"}) {
    Open(1, {{"FTAR_JOIN_TIMEOUT", "500ms"}});
    Start(0, "no_descriptors_at_join", {std::string("descriptors=") + descriptors});
    EXPECT_EQ(team_->member(0).WaitExit(kPatience), 0) << "a crash or a hang";
    EXPECT_THAT(End(team_->member(0)), HasSubstr("status=FTAR_")) << descriptors;
  }
}

TEST_F(BadInput, OutOfDescriptorsMidwayDisturbsNobody) {
  Open(2);
  Start(0, "no_descriptors_midway");
  Start(1, "plain", {"ops=2", "count=100000"});
  EXPECT_EQ(team_->member(0).WaitExit(kPatience), 0);
  EXPECT_EQ(Found(team_->member(0), "after"), "FTAR_OK");
  EXPECT_EQ(Found(team_->member(0), "leave"), "FTAR_OK");
  EXPECT_EQ(team_->member(1).WaitExit(kPatience), 0);
}

// An address space that ends while joining: at once, before the first thread, at the links.
TEST_F(BadInput, OutOfMemoryAtJoinIsAnError) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer needs all addresses there are";
#endif
  for (const char* megabytes : {"0", "2", "9", "12"}) {
    Open(2, {{"FTAR_JOIN_TIMEOUT", "2s"}, {"FTAR_TIMEOUT", "1s"}});
    const bool hopeless = std::stoi(megabytes) < 9;
    Start(0, "no_memory_at_join", {std::string("megabytes=") + megabytes});
    if (!hopeless) Start(1, "plain", {"ops=1"});
    EXPECT_EQ(team_->member(0).WaitExit(kPatience), 0) << megabytes << ": a crash or a hang";
    const auto error =
        testing::AnyOf(HasSubstr("status=FTAR_ERR_MEMORY"), HasSubstr("status=FTAR_ERR_SYSTEM"));
    if (hopeless) {
      EXPECT_THAT(End(team_->member(0)), error);
    } else {
      EXPECT_THAT(End(team_->member(0)), testing::AnyOf(error, HasSubstr("status=FTAR_OK")));
    }
  }
}

// A ring needs staging for its partial sums; whoever has no memory for it ends itself, and the
// others go on.
TEST_F(BadInput, OutOfMemoryInAnOperationEndsThatMemberOnly) {
  Open(3, {{"FTAR_PLAN", "ring"}});
  Start(0, "plain", {"ops=3", "count=100000"});
  Start(1, "plain", {"ops=3", "count=100000"}, {{"FTAR_TEST_MALLOC", "0"}});
  Start(2, "plain", {"ops=3", "count=100000"});
  for (const int replica : {0, 1, 2}) EXPECT_EQ(team_->member(replica).WaitExit(kPatience), 0);
  EXPECT_EQ(Found(team_->member(1), "op0"), "FTAR_ERR_MEMORY");
  for (const int replica : {0, 2}) {
    EXPECT_EQ(Found(team_->member(replica), "op2"), "FTAR_OK");
    EXPECT_EQ(Found(team_->member(replica), "participants"), "2");
  }
}

int ConnectTo(const std::string& address) {
  const size_t colon = address.rfind(':');
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(static_cast<uint16_t>(std::stoi(address.substr(colon + 1))));
  inet_pton(AF_INET, address.substr(0, colon).c_str(), &to.sin_addr);
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (connect(fd, reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0) return fd;
  close(fd);
  return -1;
}

TEST_F(BadInput, GarbageAndAThousandIdleConnectionsDoNotLockMembersOut) {
  Open(2);
  std::vector<int> idle;
  for (int i = 0; i < 1000; ++i) {
    const int fd = ConnectTo(coordinator_->address());
    if (fd >= 0) idle.push_back(fd);
  }
  ASSERT_GE(idle.size(), 500u) << "this process may not have more descriptors";
  const int garbage = ConnectTo(coordinator_->address());
  const std::string noise(10000, 'x');
  EXPECT_GT(send(garbage, noise.data(), noise.size(), MSG_NOSIGNAL), 0);
  const int half = ConnectTo(coordinator_->address());
  EXPECT_EQ(send(half, "F", 1, MSG_NOSIGNAL), 1);
  Start(0, "plain", {"ops=2"});
  Start(1, "plain", {"ops=2"});
  for (const int replica : {0, 1}) {
    EXPECT_EQ(team_->member(replica).WaitExit(kPatience), 0);
    EXPECT_EQ(Found(team_->member(replica), "op1"), "FTAR_OK");
  }
  for (const int fd : idle) close(fd);
  close(garbage);
  close(half);
}

TEST_F(BadInput, ABrokenStandardErrorEndsNobody) {
  Open(2, {{"FTAR_LOG", "debug"}});
  Start(0, "broken_stderr", {"ops=3"});
  Start(1, "plain", {"ops=3"});
  for (const int replica : {0, 1}) {
    EXPECT_EQ(team_->member(replica).WaitExit(kPatience), 0) << "141 is a death by SIGPIPE";
    EXPECT_EQ(Found(team_->member(replica), "op2"), "FTAR_OK");
    EXPECT_EQ(Found(team_->member(replica), "leave"), "FTAR_OK");
  }
}

TEST_F(BadInput, AFullDiskUnderTheLogDisturbsNobody) {
  Open(2, {{"FTAR_LOG", "debug"}, {"FTAR_LOG_FILE", "/dev/full"}});
  for (const int replica : {0, 1}) Start(replica, "plain", {"ops=3"});
  for (const int replica : {0, 1}) {
    EXPECT_EQ(team_->member(replica).WaitExit(kPatience), 0);
    EXPECT_EQ(Found(team_->member(replica), "op2"), "FTAR_OK");
  }
}

// A port of 127.0.0.1 that nobody has now.
int FreePort() {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  EXPECT_EQ(bind(fd, reinterpret_cast<const sockaddr*>(&address), size), 0);
  getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size);
  close(fd);
  return ntohs(address.sin_port);
}

// Whoever stands still while the others dial it is dialled again: nobody waits for it for ever.
TEST_F(BadInput, WhoStandsStillWhileTheJobFormsJoinsWhenItGoesOn) {
  for (const char* transport : {"tcp", "shm"}) {
    const Coordinator coordinator;
    process::Team team(coordinator.address(), 3,
                       {{"FTAR_TIMEOUT", "2s"}, {"FTAR_TRANSPORT", transport}},
                       Scenario("plain", {"ops=3"}));
    team.Start(0);
    team.Start(1);
    process::SleepMs(300);
    team.member(1).Signal(SIGSTOP);
    team.Start(2);
    process::SleepMs(1600);  // longer than a handshake may take
    team.member(1).Signal(SIGCONT);
    ASSERT_TRUE(team.WaitReady(kPatience)) << transport << "\n" << team.Story();
    for (int replica = 0; replica < 3; ++replica)
      EXPECT_EQ(team.member(replica).WaitExit(kPatience), 0) << team.Story();
  }
}

// Under a launcher rank 0 starts the coordinator, and takes it along neither by its death nor by
// its return.
TEST_F(BadInput, WithoutACoordinatorTheLaunchersFirstRankStartsOne) {
  Variables launcher = {{"WORLD_SIZE", "2"},
                        {"LOCAL_WORLD_SIZE", "2"},
                        {"MASTER_ADDR", "127.0.0.1"},
                        {"FTAR_TIMEOUT", "5s"},
                        {"FTAR_JOIN_TIMEOUT", "15s"}};
  launcher["MASTER_PORT"] = std::to_string(FreePort() - 1);
  const auto start = [&launcher](const char* rank) {
    launcher["RANK"] = rank;
    return std::make_unique<Process>(process::WorkerPath(),
                                     Scenario("plain", {"ops=40", "pause_ms=50"}), launcher);
  };
  std::unique_ptr<Process> first = start("0");
  const std::unique_ptr<Process> second = start("1");
  ASSERT_TRUE(first->WaitLine("found op1", kPatience)) << first->Output();
  first->Signal(SIGKILL);
  EXPECT_EQ(first->WaitExit(kPatience), 128 + SIGKILL);
  const auto alone = [&second] {
    second->Collect();
    return second->lines().back().find("participants=1") != std::string::npos;
  };
  for (const double end = NowSeconds() + kPatience; !alone();) {
    ASSERT_LT(NowSeconds(), end) << second->Output();
    process::SleepMs(1);
  }
  first = start("0");
  ASSERT_TRUE(first->WaitLine("ready", kPatience)) << first->Output();
  EXPECT_EQ(second->WaitExit(kPatience), 0) << second->Output();
  EXPECT_EQ(Found(*second, "op39"), "FTAR_OK");
  EXPECT_EQ(Found(*second, "participants"), "2");
  EXPECT_EQ(Found(*second, "leave"), "FTAR_OK") << second->Output();
}

TEST_F(BadInput, TheCoordinatorMayBeKilledAndStartedAgain) {
  Open(2, {{"FTAR_TIMEOUT", "3s"}});
  for (const int replica : {0, 1}) Start(replica, "plain", {"ops=25", "pause_ms=100"});
  ASSERT_TRUE(team_->WaitReady(kPatience));
  const std::string address = coordinator_->address();
  coordinator_->process().Signal(SIGKILL);
  coordinator_->process().WaitExit(5);
  process::SleepMs(500);
  coordinator_ = std::make_unique<Coordinator>(Variables{}, address);
  ASSERT_EQ(coordinator_->address(), address) << "the same address works at once";
  for (const int replica : {0, 1}) {
    EXPECT_EQ(team_->member(replica).WaitExit(kPatience), 0);
    EXPECT_EQ(Found(team_->member(replica), "op24"), "FTAR_OK");
    EXPECT_EQ(Found(team_->member(replica), "leave"), "FTAR_OK");
  }
}

// In the middle of a change each time: it dies as soon as it has said that it begins one.
TEST_F(BadInput, ACoordinatorWithARecordMayBeKilledInAChange) {
  char folder[] = "/tmp/ftar_record_XXXXXX";
  ASSERT_NE(mkdtemp(folder), nullptr);
  const std::string state = folder + std::string("/state");
  Open(3, {{"FTAR_TIMEOUT", "3s"}});
  const std::string address = coordinator_->address();
  coordinator_->process().Signal(SIGKILL);  // made way for one with a record
  coordinator_->process().WaitExit(5);
  const auto restart = [&] {
    coordinator_ = std::make_unique<Coordinator>(Variables{{"FTAR_LOG", "debug"}}, address,
                                                 std::vector<std::string>{"--state", state});
    return coordinator_->address() == address;
  };
  ASSERT_TRUE(restart()) << coordinator_->process().Errors();
  for (const int replica : {0, 1, 2}) Start(replica, "plain", {"ops=40", "pause_ms=100"});
  ASSERT_TRUE(team_->WaitReady(kPatience));
  team_->member(2).Signal(SIGKILL);
  const double deadline = NowSeconds() + 5;
  while (coordinator_->process().Errors().find("members lost: 1") == std::string::npos &&
         NowSeconds() < deadline)
    process::SleepMs(1);
  coordinator_->process().Signal(SIGKILL);
  coordinator_->process().WaitExit(5);
  ASSERT_TRUE(restart()) << coordinator_->process().Errors();
  EXPECT_THAT(coordinator_->process().Errors(), HasSubstr("members is recorded in " + state));
  for (const int replica : {0, 1}) {
    EXPECT_EQ(team_->member(replica).WaitExit(kPatience), 0);
    EXPECT_EQ(Found(team_->member(replica), "op39"), "FTAR_OK");
    EXPECT_EQ(Found(team_->member(replica), "leave"), "FTAR_OK");
  }
  std::filesystem::remove_all(folder);
}

TEST_F(BadInput, AStateThatIsNoneIsNamed) {
  Coordinator coordinator({}, "127.0.0.1:0", {"--state", "/proc/self/status"});
  EXPECT_EQ(coordinator.process().WaitExit(5), 1);
  EXPECT_THAT(coordinator.process().Errors(),
              HasSubstr("cannot use /proc/self/status: it is no coordinator's state"));
}

TEST_F(BadInput, ACoordinatorHearsSignalsThatItsStarterBlocks) {
  sigset_t all, before;
  sigfillset(&all);
  ASSERT_EQ(pthread_sigmask(SIG_BLOCK, &all, &before), 0);
  Coordinator coordinator;
  ASSERT_EQ(pthread_sigmask(SIG_SETMASK, &before, nullptr), 0);
  coordinator.process().Signal(SIGTERM);
  EXPECT_EQ(coordinator.process().WaitExit(5), 0);
}

// It would be a coordinator of its own, keep nothing, or end when somebody knocks.
TEST_F(BadInput, ACoordinatorsOptionThatSaysNothingIsNamed) {
  const std::vector<std::string> cases[] = {
      {"--relay-to", "", "--members", "4"}, {"--state", ""}, {"--exit-when-empty", "inf"}};
  for (const std::vector<std::string>& arguments : cases) {
    Coordinator coordinator({}, "127.0.0.1:0", arguments);
    EXPECT_NE(coordinator.process().WaitExit(5), 0) << arguments.front();
    EXPECT_THAT(coordinator.process().Errors(), HasSubstr(arguments.front()));
  }
}

TEST_F(BadInput, MembersMayHaveBuffersOfDifferentKinds) {
  Open(2, {{"FTAR_TRANSPORT", "shm"}});
  MixKinds({});
}

// Of those that are in place sums wait aside.
TEST_F(BadInput, SoMayMembersOfLongOperations) {
  Open(2, {{"FTAR_TRANSPORT", "shm"}});
  MixKinds({"least=600000", "calls=600"});
}

TEST_F(BadInput, WaitingCostsNoProcessorTime) {
  Open(2);
  Start(0, "idle");
  Start(1, "idle");
  Process& member = team_->member(0);
  EXPECT_EQ(member.WaitExit(kPatience), 0);
  EXPECT_LT(std::stoi(Found(member, "outside")), 50) << "ms in 1 s";
}

}  // namespace
