#include "base/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace ftar {
namespace {

using testing::HasSubstr;
using Layer = Config::Layer;

TEST(Knobs, EveryDefaultParsesToItselfAndNamesAreUnique) {
  std::set<std::string> names;
  for (const Knob& knob : Knobs()) {
    EXPECT_TRUE(names.insert(knob.name).second) << knob.name;
    const Expected<KnobValue> value = ParseKnob(knob, knob.default_text);
    ASSERT_TRUE(value.ok()) << value.status().ToString();
    EXPECT_EQ(value->text, knob.default_text)
        << knob.name << ": write the default in canonical form";
    EXPECT_EQ(FindKnob(knob.name), &knob);
    EXPECT_GT(std::string(knob.help).size(), 10u) << knob.name;
  }
  EXPECT_EQ(FindKnob("nonsense"), nullptr);
}

TEST(Config, StartsWithDefaults) {
  const Config config;
  EXPECT_EQ(config.duration_ns(KnobId::kTimeout), 10 * kSecond);
  EXPECT_EQ(config.duration_ns(KnobId::kLateTimeout), kNever);
  EXPECT_EQ(config.integer(KnobId::kWindow), 16);
  EXPECT_EQ(config.integer(KnobId::kReplica), -1);
  EXPECT_EQ(config.bytes(KnobId::kChunk), 0);
  EXPECT_TRUE(config.on(KnobId::kFt));
  EXPECT_EQ(config.text(KnobId::kPlan), "auto");
  EXPECT_EQ(config.ports(KnobId::kPorts).first, 0);
  EXPECT_EQ(config.Origin(KnobId::kPlan), "default");
}

TEST(Config, HeartbeatFollowsTimeoutUntilSet) {
  Config config;
  ASSERT_TRUE(config.Set(Layer::kProgram, "timeout", "1s").ok());
  EXPECT_EQ(config.duration_ns(KnobId::kHeartbeat), 100 * kMillisecond);
  EXPECT_EQ(config.ShownText(KnobId::kHeartbeat), "100ms (timeout / 10)");
  ASSERT_TRUE(config.Set(Layer::kProgram, "heartbeat", "7ms").ok());
  EXPECT_EQ(config.duration_ns(KnobId::kHeartbeat), 7 * kMillisecond);
  EXPECT_EQ(config.ShownText(KnobId::kHeartbeat), "7ms");
}

TEST(Config, AHeartbeatIsAQuarterOfTheTimeoutAtMost) {
  for (const char* timeout : {"1ms", "10s", "24h"}) {
    Config config;
    ASSERT_TRUE(config.Set(Layer::kProgram, "timeout", timeout).ok()) << timeout;
    EXPECT_TRUE(CheckTogether(config).ok()) << timeout;
  }
  Config config;
  ASSERT_TRUE(config.Set(Layer::kProgram, "heartbeat", "2500ms").ok());
  EXPECT_TRUE(CheckTogether(config).ok());
  ASSERT_TRUE(config.Set(Layer::kProgram, "heartbeat", "2501ms").ok());
  EXPECT_FALSE(CheckTogether(config).ok());
  ASSERT_TRUE(config.SetFromEnvironment(std::vector<std::string>{"FTAR_TIMEOUT=1s"}).ok());
  const Status status = CheckTogether(config);
  EXPECT_EQ(status.code(), Code::kConfig);
  EXPECT_EQ(status.argument(), "heartbeat");
  for (const char* said : {"2501ms", "program", "1s (environment FTAR_TIMEOUT)", "250ms at most"})
    EXPECT_THAT(status.text(), HasSubstr(said));
}

// The stronger layer wins whichever was set first.
TEST(Config, LayersWinByStrengthNotByOrder) {
  const std::vector<std::string> environment = {"FTAR_WINDOW=20", "HOME=/nowhere"};
  Config config;
  ASSERT_TRUE(config.Set(Layer::kProgram, "plan", "ring").ok());
  ASSERT_TRUE(config.SetFromEnvironment(environment).ok());
  ASSERT_TRUE(
      config.SetFromFile("f.conf", "window = 30\nplan = direct\n\n# note\n tcp_streams=4 \n").ok());
  EXPECT_EQ(config.integer(KnobId::kWindow), 20);
  EXPECT_EQ(config.text(KnobId::kPlan), "ring");
  EXPECT_EQ(config.integer(KnobId::kTcpStreams), 4);
  EXPECT_EQ(config.Origin(KnobId::kWindow), "environment FTAR_WINDOW");
  EXPECT_EQ(config.Origin(KnobId::kPlan), "program");
  EXPECT_EQ(config.Origin(KnobId::kTcpStreams), "ftar.conf f.conf:5");
}

TEST(Config, UnknownNamesAreErrorsThatGuess) {
  Config config;
  const Status variable = config.SetFromEnvironment(std::vector<std::string>{"FTAR_TIMOUT=1s"});
  EXPECT_EQ(variable.code(), Code::kConfig);
  EXPECT_EQ(variable.argument(), "FTAR_TIMOUT");
  EXPECT_THAT(variable.text(), HasSubstr("did you mean FTAR_TIMEOUT?"));
  const Status program = config.Set(Layer::kProgram, "colour", "red");
  EXPECT_EQ(program.argument(), "colour");
  EXPECT_EQ(program.text(), "unknown knob colour");
  const Status another = config.Set(Layer::kProgram, "foo", "red");
  EXPECT_EQ(another.text(), "unknown knob foo")
      << "two edits make job of it, and of all that short";
  EXPECT_THAT(config.Set(Layer::kProgram, "jub", "red").text(), HasSubstr("did you mean job?"));
  EXPECT_THAT(config.Set(Layer::kProgram, "FTAR_TIMEOUT", "3s").text(),
              HasSubstr("did you mean timeout?"));
  const auto variable_text = [&](const char* entry) {
    return config.SetFromEnvironment(std::vector<std::string>{entry}).text();
  };
  EXPECT_THAT(variable_text("FTAR_RANK=0"), HasSubstr("did you mean FTAR_REPLICA?"));
  EXPECT_THAT(variable_text("FTAR_WORLD_SIZE=2"), HasSubstr("did you mean FTAR_REPLICAS?"));
  const Status file = config.SetFromFile("f.conf", "plan=ring\nwindw = 3\n");
  EXPECT_THAT(file.text(), HasSubstr("f.conf:2"));
  EXPECT_THAT(file.text(), HasSubstr("did you mean window?"));
}

// In a namespace with a Service ftar-coordinator every pod has these.
TEST(Config, VariablesOfAServiceAreNobodysMistake) {
  const std::vector<std::string> links = {
      "FTAR_COORDINATOR_SERVICE_HOST=10.0.0.1",
      "FTAR_COORDINATOR_SERVICE_PORT=7000",
      "FTAR_COORDINATOR_SERVICE_PORT_CONTROL=7000",
      "FTAR_COORDINATOR_PORT=tcp://10.0.0.1:7000",
      "FTAR_COORDINATOR_PORT_7000_TCP=tcp://10.0.0.1:7000",
      "FTAR_COORDINATOR_PORT_7000_TCP_PROTO=tcp",
      "FTAR_COORDINATOR_PORT_7000_TCP_PORT=7000",
      "FTAR_COORDINATOR_PORT_7000_TCP_ADDR=10.0.0.1",
      "FTAR_PORT=udp://10.0.0.1:53",
      "FTAR_PORT_53_UDP_ADDR=10.0.0.1",
      "FTAR_SERVICE_HOST=10.0.0.1",
      "FTAR_TEST_A_SERVICE_HOST=10.0.0.1",
      "FTAR_PORT_FORWARDER_PORT_7000_TCP=tcp://10.0.0.1:7000",
      "FTAR_PORT_FORWARDER_PORT_7000_TCP_ADDR=10.0.0.1",
      "FTAR_A_SERVICE_PORTAL_SERVICE_PORT=7000",
  };
  Config config;
  for (const std::string& link : links) {
    const Status status = config.SetFromEnvironment(std::vector<std::string>{link});
    EXPECT_TRUE(status.ok()) << status.text();
  }
  EXPECT_EQ(config.text(KnobId::kCoordinator), "");
  for (const char* mistake : {"FTAR_COORDINATOR_PORT=7000", "FTAR_COORDINATOR_HOST=10.0.0.1",
                              "FTAR_COORDINATOR_SERVICE_PORTS=1", "FTAR_PORT_TCP=1"}) {
    const std::string name(mistake, std::string_view(mistake).find('='));
    EXPECT_EQ(config.SetFromEnvironment(std::vector<std::string>{mistake}).argument(), name);
  }
}

TEST(Config, BadValuesNameTheVariableAndLeaveTheOldValue) {
  Config config;
  const Status status = config.SetFromEnvironment(std::vector<std::string>{"FTAR_TIMEOUT=10"});
  EXPECT_EQ(status.code(), Code::kConfig);
  EXPECT_EQ(status.argument(), "timeout");
  EXPECT_THAT(status.text(), HasSubstr("(FTAR_TIMEOUT)"));
  EXPECT_THAT(status.text(), HasSubstr("10s"));
  EXPECT_EQ(config.duration_ns(KnobId::kTimeout), 10 * kSecond);
}

TEST(Config, FileLineWithoutEqualsIsAnError) {
  Config config;
  EXPECT_THAT(config.SetFromFile("f.conf", "# fine\nwindow 3").text(),
              HasSubstr("f.conf:2: expected 'name = value'"));
}

TEST(Config, TestVariablesNeedTestHooks) {
  Config config;
  const Status status =
      config.SetFromEnvironment(std::vector<std::string>{"FTAR_TEST_FAULT=x", "FTAR_CONF=/a"});
#ifdef FTAR_TEST_HOOKS
  EXPECT_TRUE(status.ok());
#else
  EXPECT_EQ(status.argument(), "FTAR_TEST_FAULT");
#endif
}

TEST(Config, SecretsAreNeitherShownNorQuoted) {
  Config config;
  ASSERT_TRUE(config.Set(Layer::kProgram, "token", "hunter2").ok());
  EXPECT_EQ(config.ShownText(KnobId::kToken), "(hidden)");
  EXPECT_EQ(config.text(KnobId::kToken), "hunter2");
  const Status status = config.Set(Layer::kProgram, "token", std::string("hun\nter2"));
  EXPECT_FALSE(status.ok());
  EXPECT_EQ(status.text().find("ter2"), std::string::npos);
}

// Equal settings written differently agree; different ones are named.
TEST(Config, AgreementIsOnValuesNotOnSpelling) {
  Config a, b;
  ASSERT_TRUE(a.Set(Layer::kProgram, "timeout", "2000ms").ok());
  ASSERT_TRUE(b.Set(Layer::kEnvironment, "timeout", "2s").ok());
  ASSERT_TRUE(b.Set(Layer::kProgram, "log", "debug").ok());
  EXPECT_EQ(AgreementDifference(a.AgreedList(), b.AgreedList()), "");
  ASSERT_TRUE(b.Set(Layer::kProgram, "timeout", "3s").ok());
  EXPECT_EQ(AgreementDifference(a.AgreedList(), b.AgreedList()), "timeout: 2s here, 3s there");
}

TEST(Config, AgreementSurvivesForeignLists) {
  const std::vector<std::string> ours = {"plan=ring"}, odd = {"", "=", "plan"},
                                 more = {"plan=ring", "zeal=high"};
  EXPECT_EQ(AgreementDifference(ours, odd), "plan: ring here,  there");
  EXPECT_EQ(AgreementDifference(ours, more), "zeal: unknown here, high there");
}

}  // namespace
}  // namespace ftar
