// Bad weather that only a preloaded library can make: a clock that steps, no space for shared
// memory.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/process/harness.h"

namespace {

using process::Coordinator;
using process::Field;
using process::Process;
using process::Team;
using process::Variables;
using testing::ContainsRegex;
using testing::HasSubstr;

constexpr double kPatience = 20;

Variables Preloaded(const std::string& name, const std::string& value) {
  return {{"LD_PRELOAD", process::WeatherPath()}, {name, value}};
}

class Weather : public testing::Test {
 protected:
  void Open(int replicas, const Variables& coordinator, const std::string& transport) {
    coordinator_ = std::make_unique<Coordinator>(coordinator);
    ASSERT_NE(coordinator_->address(), "") << coordinator_->process().Output();
    const Variables variables = {
        {"FTAR_TIMEOUT", "2s"}, {"FTAR_LOG", "debug"}, {"FTAR_TRANSPORT", transport}};
    team_ = std::make_unique<Team>(
        coordinator_->address(), replicas, variables,
        std::vector<std::string>{"scenario=plain", "ops=20", "pause_ms=50", "count=100000"});
  }
  // All its operations, with so many participants in the last.
  void ExpectDone(int replica, const std::string& participants) {
    Process& member = team_->member(replica);
    EXPECT_EQ(member.WaitExit(kPatience), 0) << "replica " << replica;
    const std::vector<std::string> last = member.LinesWith("found op19=FTAR_OK");
    ASSERT_EQ(last.size(), 1u) << "replica " << replica;
    EXPECT_EQ(Field(last[0], "participants"), participants) << "replica " << replica;
  }
  void TearDown() override {
    if (HasFailure() && team_) fprintf(stderr, "%s", team_->Story().c_str());
  }

  std::unique_ptr<Coordinator> coordinator_;
  std::unique_ptr<Team> team_;
};

// Nobody is taken for silent, and who dies is still noticed.
TEST_F(Weather, AClockThatStepsMovesNoTimeout) {
  const Variables stepping = Preloaded("WEATHER_CLOCK", "1");
  for (const char* transport : {"tcp", "shm"}) {
    Open(3, stepping, transport);
    for (const int replica : {0, 1, 2}) team_->Start(replica, stepping);
    Process& victim = team_->member(2);
    ASSERT_TRUE(victim.WaitLine("found op8=FTAR_OK", kPatience));
    EXPECT_EQ(Field(victim.LinesWith("found op8").at(0), "participants"), "3");
    victim.Signal(SIGSTOP);  // silence: its timeout is counted by the clock that does not step
    for (const int replica : {0, 1}) {
      ExpectDone(replica, "2");
      EXPECT_THAT(team_->member(replica).Errors(), ContainsRegex("weather: clock [1-9]"));
    }
  }
}

TEST_F(Weather, NoSpaceForSharedMemoryAtJoinIsSaid) {
  Open(2, {}, "shm");
  Process& poor = team_->Start(0, Preloaded("WEATHER_NO_SPACE", "0"));
  EXPECT_NE(poor.WaitExit(kPatience), -1) << "a hang";
  const std::vector<std::string> end = poor.LinesWith("end join");
  ASSERT_EQ(end.size(), 1u) << poor.Output();
  EXPECT_THAT(end[0], HasSubstr("No space left")) << poor.Output();
  EXPECT_THAT(poor.Errors(), ContainsRegex("refused [1-9]"));
}

// A newcomer has space for itself but none for a link; those who run are not disturbed.
TEST_F(Weather, NoSpaceForANewcomersLinksDisturbsNobody) {
  Open(2, {}, "shm");
  for (const int replica : {0, 1}) team_->Start(replica);
  ASSERT_TRUE(team_->member(0).WaitLine("found op2=FTAR_OK", kPatience));
  Variables variables = Preloaded("WEATHER_NO_SPACE", "1");
  variables["FTAR_JOIN_TIMEOUT"] = "2s";
  Process& poor = team_->Start(2, variables);
  for (const int replica : {0, 1}) ExpectDone(replica, "2");
  EXPECT_NE(poor.WaitExit(kPatience), -1) << "a hang";
  EXPECT_THAT(poor.Output(), HasSubstr("No space left"));
  EXPECT_THAT(poor.Errors(), ContainsRegex("refused [1-9]"));
}

// It never has its links; who comes behind it and has all but that one does not wait for it.
TEST_F(Weather, ANewcomerThatHangsInItsJoinKeepsNobodyOut) {
  Open(2, {}, "tcp");
  for (const int replica : {0, 1})
    team_->StartWith(replica, {}, {"scenario=plain", "ops=400", "pause_ms=50", "count=100000"});
  ASSERT_TRUE(team_->member(0).WaitLine("found op2=FTAR_OK", kPatience));
  Process& hung = team_->Start(2, Preloaded("WEATHER_HANG", "1"));
  for (int i = 0; i < 500 && !hung.Stopped(); ++i) process::SleepMs(10);
  ASSERT_TRUE(hung.Stopped()) << "it was to stop at its first link\n" << hung.Output();
  team_->Start(3);
  ExpectDone(3, "3");
  EXPECT_THAT(coordinator_->process().Output(), HasSubstr("it has been silent for long, and"));
}

}  // namespace
