// ftar-perf as people and scripts use it: a table with nothing wrong, every kind of fault with a
// report that makes sense, exit codes that tell good from bad, and the launchers' variables.
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/process/perf_run.h"

namespace process {
namespace {

using nlohmann::json;

constexpr int kWrong = 1, kUsage = 2, kHang = 3, kLost = 4;

// ---- tables

class Tables : public testing::TestWithParam<int> {};

TEST_P(Tables, NothingIsWrongAndTheFileSaysTheSame) {
  for (const char* transport : {"shm", "tcp"}) {
    const Result result = RunPerf({"-n", std::to_string(GetParam()), "--transport", transport,
                                   "--sizes", "0,4,4100,64K", "-d", "float,half,int8", "-o",
                                   "sum,avg", "--iters", "2", "-T", "20"});
    ASSERT_EQ(result.code, 0) << result.text << result.errors;
    ASSERT_TRUE(result.report.is_object()) << result.text;
    EXPECT_EQ(result.report["out_of_bounds"]["count"], 0);
    EXPECT_EQ(result.report["results"].size(), 4u * 3 * 2);
    for (const json& row : result.report["results"]) {
      EXPECT_EQ(row["out_of_place"]["nwrong"], 0) << row;
      EXPECT_EQ(row["in_place"]["nwrong"], 0) << row;
      EXPECT_GT(row["out_of_place"]["time"], 0) << row;
    }
  }
}
INSTANTIATE_TEST_SUITE_P(Ranks, Tables, testing::Values(1, 2, 3));

// On the host's memory, too: what a rank lends, its neighbour in the same process reads.
TEST(Perf, OthersRunBesideAndEndWithTheMeasured) {
  for (const char* transport : {"shm", "tcp"}) {
    const Result result =
        RunPerf({"-n", "3", "--transport", transport, "--sizes", "8,64K", "--iters", "10",
                 "--beside", "1M", "--priority", "10", "-T", "20"});
    ASSERT_EQ(result.code, 0) << result.text << result.errors;
    EXPECT_EQ(result.report["config"]["beside_bytes"], 1 << 20);
    EXPECT_EQ(result.report["config"]["priority"], 10);
    EXPECT_EQ(result.report["out_of_bounds"]["count"], 0);
    EXPECT_GE(result.report["results"][1]["in_place"]["beside_bw"], 0);
  }
}

TEST(Perf, RanksMayBeThreadsOfOneProcess) {
  for (const char* transport : {"shm", "tcp"}) {
    for (const char* memory : {"plain", "library", "registered"}) {
      const Result result = RunPerf({"-n", "4", "--threads", "--transport", transport, "--memory",
                                     memory, "--sizes", "4,300K", "--iters", "5", "-T", "20"});
      ASSERT_EQ(result.code, 0) << transport << memory << result.text << result.errors;
      EXPECT_EQ(result.report["out_of_bounds"]["count"], 0);
      EXPECT_EQ(result.report["config"]["devices"].size(), 4u);
    }
  }
  const Result hosted = RunPerf({"-n", "3", "--threads", "--coordinator", "hosted", "--sizes", "4K",
                                 "-T", "20", "--fault", "delay:1@3:50", "--fault", "leave:0@6"});
  EXPECT_EQ(hosted.code, 0) << hosted.text << hosted.errors;
}

// Of a process that dies with all of them, each rank is told of, and nothing waits.
TEST(Perf, ThreadsThatCannotJoinEndTheRunAtOnce) {
  const double begun = NowSeconds();
  const Result result = RunPerf({"-n", "3", "--threads", "--set", "no_such_knob=1", "-T", "20"});
  EXPECT_NE(result.code, 0);
  EXPECT_NE(result.text.find("no_such_knob"), std::string::npos) << result.text << result.errors;
  EXPECT_LT(NowSeconds() - begun, 10);
}

// No process coordinates: rank 0 does, and is struck.
TEST(Perf, TheRankThatCoordinatesMayDie) {
  for (const char* fault : {"kill:0@8", "leave:0@8"}) {
    const Result result = RunPerf({"-n", "3", "-b", "4K", "-e", "4K", "--iters", "30", "-T", "20",
                                   "--coordinator", "hosted", "--fault", fault});
    ASSERT_EQ(result.code, 0) << result.text << result.errors;
    EXPECT_EQ(result.report["out_of_bounds"]["count"], 0);
  }
}

// Partial sums of averaged integers are the widest frames there are.
TEST(Perf, LargeAveragesOfIntegersFitThroughEveryTransport) {
  for (const char* transport : {"shm", "tcp"}) {
    const Result result =
        RunPerf({"-n", "2", "--transport", transport, "--plan", "ring", "-d", "int8", "-o", "avg",
                 "--sizes", "17000000", "--iters", "1", "-w", "0", "-T", "20"});
    EXPECT_EQ(result.code, 0) << result.text << result.errors;
    EXPECT_EQ(result.errors, "");
  }
}

// Larger than any that is chosen: the ring grows with them, unless its size was asked for, too.
TEST(Perf, ChunksOfMegabytesAreRightWhenAskedFor) {
  for (const Arguments& more :
       {Arguments{"--transport", "tcp"}, Arguments{"--transport", "shm", "--fault", "kill:1@2"},
        Arguments{"--transport", "shm", "--plan", "ring", "-d", "int8", "-o", "avg"}}) {
    Arguments all = {"-n",       "3",       "--set", "chunk=4M", "--sizes",
                     "17000000", "--iters", "4",     "-T",       "20"};
    all.insert(all.end(), more.begin(), more.end());
    const Result result = RunPerf(all);
    EXPECT_EQ(result.code, 0) << more.back() << result.text << result.errors;
  }
  const Result small = RunPerf({"-n", "2", "--transport", "shm", "--set", "chunk=4M", "--set",
                                "shm_ring=1M", "--sizes", "4K", "-T", "20"});
  EXPECT_NE(small.errors.find("a ring of 1048576 bytes"), std::string::npos) << small.errors;
}

TEST(Perf, WithoutFaultToleranceTheRunEndsInTime) {
  // Some are done while others still wait for the last chunks; all leave at once.
  for (int i = 0; i < 6; ++i) {
    const double begun = NowSeconds();
    const Result result = RunPerf({"-n", "3", "-b", "1M", "-e", "1M", "--iters", "20", "-c", "0",
                                   "--placement", "out", "--ft", "off", "-T", "20"});
    ASSERT_EQ(result.code, 0) << result.text << result.errors;
    EXPECT_LT(NowSeconds() - begun, 8);  // a leave that nobody grants takes ten seconds
  }
}

TEST(Perf, TheIdealStandsBesideEachRowAndIsRight) {
  for (const auto& [ideal, memory] : {std::pair{"--ideal", "library"},
                                      {"--ideal=push", "plain"},
                                      {"--against=ft=off", "plain"},
                                      {"--against=plan=ring", "library"}}) {
    const Result result =
        RunPerf({"-n", "3", "--transport", "shm", "--sizes", "4,200,1M", "--pairs", "2", "--iters",
                 "5", "-m", "2", "--memory", memory, "-T", "20", ideal, "--set", "lane_max=0"});
    ASSERT_EQ(result.code, 0) << result.text << result.errors;
    EXPECT_EQ(result.report["out_of_bounds"]["count"], 0);
    ASSERT_EQ(result.report["results"].size(), 3u);
    for (const json& row : result.report["results"]) {
      EXPECT_EQ(row["actual_iterations"], 5) << row;
      EXPECT_EQ(row["out_of_place"]["nwrong"], 0) << row;
      EXPECT_EQ(row["out_of_place_per_iter"]["times_us"].size(), 5u) << row;
      const json& beside = row["out_of_place_ideal"];
      EXPECT_EQ(beside["nwrong"], 0) << row;
      EXPECT_EQ(beside["times_us"].size(), 5u) << row;
      EXPECT_EQ(beside["ratios"].size(), 2u) << row;
      EXPECT_GT(beside["moved_per_byte"], 0) << row;
      EXPECT_GT(beside["ideal_moved_per_byte"], 0) << row;
      // Inputs and results are read where they lie. (In the lane, too, but who comes late to that
      // has frames copied.)
      const bool lies = std::string(memory) == "library" && std::string(ideal) == "--ideal";
      if (lies && row["size"] == 1 << 20) {
        const double moved = beside["moved_per_byte"], least = beside["ideal_moved_per_byte"];
        EXPECT_NEAR(moved, least, 0.02) << row;
      }
      EXPECT_GT(beside["time"], 0) << row;
      EXPECT_LE(beside["ratio_low"], beside["ratio"]) << row;
      EXPECT_LE(beside["ratio"], beside["ratio_high"]) << row;
    }
  }
}

TEST(Perf, FreshWorksForEveryCollectiveAndWithOperationsInFlight) {
  for (const char* blocking : {"0", "1"}) {
    const Result result = RunPerf({"-n", "3", "--fresh", "--collective", "all", "--sizes", "48K",
                                   "--iters", "2", "-m", "3", "-z", blocking, "-T", "20"});
    ASSERT_EQ(result.code, 0) << result.text << result.errors;
    EXPECT_EQ(result.report["out_of_bounds"]["count"], 0);
    for (const json& row : result.report["results"]) {
      EXPECT_EQ(row["out_of_place_per_iter"]["times_us"].size(), 2u) << row;
      EXPECT_EQ(row["in_place"]["nwrong"], 0) << row;
    }
  }
}

TEST(Perf, BucketsAreOneRowAndTheFilesSayTheSame) {
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("ftar_perf_files." + std::to_string(getpid()));
  std::filesystem::create_directory(folder);
  std::ofstream(folder / "list.txt") << "# three\n1000 a\n70000 b\n3 c\n";
  const Result result =
      RunPerf({"-n", "2", "--buckets", folder / "list.txt", "-d", "half", "--iters", "2", "--csv",
               folder / "out.csv", "--report", folder / "out.html"});
  std::ifstream csv(folder / "out.csv"), page(folder / "out.html");
  std::string titles, row, text(std::istreambuf_iterator<char>(page), {});
  std::getline(csv, titles);
  std::getline(csv, row);
  std::filesystem::remove_all(folder);
  ASSERT_EQ(result.code, 0) << result.text << result.errors;
  ASSERT_EQ(result.report["results"].size(), 1u);
  const json& only = result.report["results"][0];
  EXPECT_EQ(only["size"], 71003 * 2);
  EXPECT_EQ(only["aggregated_iterations"], 3);
  EXPECT_EQ(result.report["config"]["minimum_bytes"], 71003 * 2);
  EXPECT_EQ(only["in_place"]["nwrong"], 0);
  EXPECT_EQ(only["out_of_place"]["nwrong"], 0);
  EXPECT_TRUE(titles.starts_with("size,count,type,redop,root,")) << titles;
  EXPECT_NE(titles.find("out_of_place.bus_bw"), std::string::npos) << titles;
  EXPECT_EQ(std::count(titles.begin(), titles.end(), ','), std::count(row.begin(), row.end(), ','));
  EXPECT_TRUE(row.starts_with("142006,71003,half,sum,-1,")) << row;
  EXPECT_NE(text.find("\"size\":142006"), std::string::npos);
}

// ---- faults

struct FaultCase {
  const char* text;
  const char* transport;
  int after;     // participants, from four
  bool noticed;  // somebody must have said so
  bool decided;  // a new view
};

void PrintTo(const FaultCase& value, std::ostream* out) {
  *out << value.text << " " << value.transport;
}

class Faults : public testing::TestWithParam<FaultCase> {};

TEST_P(Faults, TheReportMakesSense) {
  const FaultCase& wanted = GetParam();
  const Result result =
      RunPerf({"-n", "4", "--transport", wanted.transport, "-b", "64K", "-e", "64K", "--iters",
               "60", "--placement", "out", "--timeout", "1s", "-T", "20", "--fault", wanted.text});
  ASSERT_EQ(result.code, 0) << result.text << result.errors;
  ASSERT_TRUE(result.report.contains("fault")) << result.text;
  const json& fault = result.report["fault"];
  const std::string story = fault.dump() + "\n" + result.errors;
  const std::string text = wanted.text;
  EXPECT_EQ(fault["kind"], text.substr(0, text.find_first_of(":@"))) << story;
  EXPECT_EQ(fault["iteration"], 20) << story;
  EXPECT_EQ(fault["rank"], text.find(':') == std::string::npos ? 4 : 2) << story;
  EXPECT_EQ(fault["participants_before"], 4) << story;
  EXPECT_EQ(fault["participants_after"], wanted.after) << story;
  EXPECT_EQ(fault["agreed"], true) << story;
  EXPECT_EQ(result.report["out_of_bounds"]["count"], 0) << story;
  EXPECT_TRUE(!wanted.noticed || fault["detect_ms"].is_number()) << story;
  EXPECT_EQ(fault["decide_ms"].is_number(), wanted.decided) << story;
  ASSERT_TRUE(fault["finish_ms"].is_number()) << story;
  ASSERT_TRUE(fault["stall_ms"].is_number()) << story;
  EXPECT_GT(fault["stall_ms"], 0) << story;
  EXPECT_LT(fault["finish_ms"], 15'000) << story;
  if (wanted.decided && fault["detect_ms"].is_number()) {
    EXPECT_LE(fault["detect_ms"], fault["decide_ms"]) << story;
    EXPECT_LE(fault["decide_ms"], fault["finish_ms"]) << story;
  }
  // Links between those who stay are never touched, counted at either end: three survivors; four
  // members whom a fifth joins; three and the victim that lives.
  const int kept = wanted.after == 3 ? 6 : wanted.after == 4 ? 9 : 12;
  EXPECT_EQ(fault["links_kept"], kept) << story;
  EXPECT_EQ(fault["links_opened"], wanted.after > 4 ? 4 : 0) << story;
}
INSTANTIATE_TEST_SUITE_P(Kinds, Faults,
                         testing::Values(FaultCase{"kill:2@20", "shm", 3, true, true},
                                         FaultCase{"kill:2@20", "tcp", 3, true, true},
                                         FaultCase{"stop:2@20", "shm", 3, true, true},
                                         FaultCase{"stop:2@20", "tcp", 3, true, true},
                                         FaultCase{"drop:2@20", "shm", 3, true, true},
                                         FaultCase{"drop:2@20", "tcp", 3, true, true},
                                         FaultCase{"leave:2@20", "shm", 3, true, true},
                                         FaultCase{"leave:2@20", "tcp", 3, true, true},
                                         FaultCase{"join@20", "shm", 5, true, true},
                                         FaultCase{"join@20", "tcp", 5, true, true},
                                         FaultCase{"delay:2@20:50", "shm", 4, false, false},
                                         FaultCase{"delay:2@20:50", "tcp", 4, false, false},
                                         FaultCase{"reset:2@20", "tcp", 4, false, false},
                                         FaultCase{"corrupt:2@20", "tcp", 4, true, false}));

TEST(Perf, RepairedPathsSendAgain) {
  for (const char* fault : {"reset:2@20", "corrupt:2@20"}) {
    const Result result =
        RunPerf({"-n", "3", "--transport", "tcp", "-b", "1M", "-e", "1M", "--iters", "40",
                 "--placement", "out", "-T", "20", "--fault", fault});
    ASSERT_EQ(result.code, 0) << result.text << result.errors;
    EXPECT_EQ(result.report["fault"]["links_closed"], 0) << fault;
    if (std::string(fault).starts_with("corrupt")) {
      EXPECT_NE(result.errors.find("replica 2"), std::string::npos) << result.errors;
    }
  }
}

// A leave ends at an operation that the others have yet to call, while they hold for a newcomer.
TEST(Perf, ANewcomerIsWaitedForWhileSomebodyLeaves) {
  for (const Arguments& faults : {Arguments{"--fault", "leave:1@5", "--fault", "join@9"},
                                  Arguments{"--fault", "join@9", "--fault", "leave:1@9"},
                                  Arguments{"--fault", "join@5", "--fault", "join@9"}}) {
    Arguments all = {"-n", "3", "-b", "1M", "-e", "1M", "-T", "20"};
    all.insert(all.end(), faults.begin(), faults.end());
    const Result result = RunPerf(all);
    ASSERT_EQ(result.code, 0) << faults[1] << result.text << result.errors;
    for (const json& fault : result.report["faults"]) {
      ASSERT_TRUE(fault["finish_ms"].is_number()) << fault;
      EXPECT_LT(fault["finish_ms"], 4'000) << fault;
    }
  }
}

TEST(Perf, PercentilesAreOfIterationsAndGivenForOneOperation) {
  const Result result = RunPerf({"-n", "2", "--sizes", "1K", "--iters", "20", "-m", "8", "-I", "1",
                                 "--placement", "out", "-T", "20"});
  ASSERT_EQ(result.code, 0) << result.text << result.errors;
  const json& row = result.report["results"][0];
  const json& each = row["out_of_place_per_iter"];
  EXPECT_EQ(each["times_us"].size(), 20);
  // Of each iteration the slower rank counts.
  EXPECT_GE(each["avg_us"].get<double>(), 0.99 * row["out_of_place"]["time"].get<double>());
  EXPECT_LE(each["avg_us"].get<double>(), 2.01 * row["out_of_place"]["time"].get<double>());
}

TEST(Perf, ANewcomerMayBeStruckBeforeItIsWaitedFor) {
  const Result result = RunPerf({"-n", "3", "--sizes", "1K", "--iters", "300", "-T", "20",
                                 "--timeout", "1s", "--fault", "join@2", "--fault", "kill:3@500"});
  EXPECT_EQ(result.code, 0) << result.text << result.errors;
}

// ---- churn

TEST(Perf, AShortChurnSaysWhatItDoesAndEndsSoon) {
  const double begun = NowSeconds();
  const Result result = RunPerf({"-n", "3", "--churn", "6", "--timeout", "1s", "-T", "20"});
  ASSERT_EQ(result.code, 0) << result.text << result.errors;
  EXPECT_EQ(result.report["actions"], 6);
  EXPECT_NE(result.text.find("# action 1: of 3 members"), std::string::npos) << result.text;
  EXPECT_NE(result.text.find("replica 3 is started"), std::string::npos) << result.text;
  EXPECT_LT(NowSeconds() - begun, 20);
}

TEST(Perf, AVictimsChildIsGoneSoonAfterTheLauncher) {
  const auto file =
      std::filesystem::temp_directory_path() / ("ftar_perf_child." + std::to_string(getpid()));
  Process perf(PerfPath(),
               {"-n", "3", "--sizes", "64K", "--iters", "100000", "--fault", "kill:1@90000",
                "--victim-child", "-J", file},
               {});
  const std::string mark = "#  Rank  1 Group  0 Pid ";
  ASSERT_TRUE(perf.WaitLine(mark, 20)) << perf.Output() << perf.Errors();
  const int rank = std::stoi(perf.LinesWith(mark).at(0).substr(mark.size()));
  const std::string children = "/proc/" + std::to_string(rank) + "/task/" + std::to_string(rank);
  int child = 0;
  for (int i = 0; i < 100 && child == 0; ++i, usleep(50'000))
    std::ifstream(children + "/children") >> child;
  ASSERT_GT(child, 0);
  perf.Signal(SIGKILL);
  for (int i = 0; i < 200 && kill(child, 0) == 0; ++i) usleep(50'000);
  EXPECT_NE(kill(child, 0), 0);
}

// ---- what must not look like success

TEST(Perf, AFileThatCannotBeWrittenIsSaidBeforeTheRun) {
  const std::filesystem::path nowhere = std::filesystem::temp_directory_path() / "no-folder/x";
  for (const char* flag : {"--json", "--csv", "--report"}) {
    Process perf(PerfPath(), {"-n", "2", "--sizes", "4K", flag, nowhere}, {});
    EXPECT_EQ(perf.WaitExit(20), kUsage) << flag;
    EXPECT_EQ(perf.Output().find("nRanks"), std::string::npos) << flag;
    EXPECT_NE(perf.Errors().find("cannot write " + nowhere.string()), std::string::npos) << flag;
  }
}

// Room for a file may go while it is filled.
TEST(Perf, AFileThatCouldNotBeWrittenIsNoSuccess) {
  Process perf(PerfPath(), {"-n", "2", "--sizes", "4K", "--report", "/dev/full"}, {});
  EXPECT_EQ(perf.WaitExit(20), kWrong) << perf.Output();
  EXPECT_NE(perf.Errors().find("cannot write /dev/full"), std::string::npos) << perf.Errors();
}

TEST(Perf, AnErrorsNameIsSaidOnce) {
  const Result result = RunPerf({"-n", "2", "--set", "no_such_knob=1", "-T", "20"});
  EXPECT_NE(result.code, 0);
  const size_t line = result.text.find("# ERROR: rank ");
  ASSERT_NE(line, std::string::npos) << result.text;
  const std::string said = result.text.substr(line, result.text.find('\n', line) - line);
  const size_t name = said.find("FTAR_");
  ASSERT_NE(name, std::string::npos) << said;
  EXPECT_EQ(said.find("FTAR_", name + 1), std::string::npos) << said;
}

// The others spin where they meet, and neither the library nor a hang's timeout is needed to tell.
TEST(Perf, ADeathEndsAFreshRunAtOnce) {
  const double begun = NowSeconds();
  Process perf(PerfPath(), {"-n", "2", "--fresh", "--sizes", "1M", "--iters", "100000", "-T", "60"},
               {});
  const std::string mark = "#  Rank  1 Group  0 Pid ";
  ASSERT_TRUE(perf.WaitLine(mark, 20)) << perf.Output() << perf.Errors();
  ASSERT_EQ(kill(std::stoi(perf.LinesWith(mark).at(0).substr(mark.size())), SIGKILL), 0);
  EXPECT_EQ(perf.WaitExit(30), kLost) << perf.Output();
  EXPECT_NE(perf.Output().find("rank 1 died of signal 9"), std::string::npos) << perf.Output();
  EXPECT_LT(NowSeconds() - begun, 30);
}

TEST(Perf, AHangIsNoSuccess) {
  // The stopped rank is evicted after 30 s at the earliest; the launcher has lost its patience
  // then.
  const Result result =
      RunPerf({"-n", "3", "-b", "64K", "-e", "64K", "--iters", "60", "--placement", "out",
               "--timeout", "30s", "-T", "2", "--fault", "stop:1@20"});
  EXPECT_EQ(result.code, kHang) << result.text << result.errors;
  EXPECT_NE(result.text.find("hang: rank"), std::string::npos) << result.text;
}

TEST(Perf, DamageThatNobodyLooksForIsNoSuccess) {
  const Result result = RunPerf({"-n", "3", "--transport", "tcp", "-b", "64K", "-e", "64K",
                                 "--iters", "40", "--placement", "out", "-T", "20", "--set",
                                 "tcp_crc=off", "--fault", "corrupt:1@20"});
  EXPECT_EQ(result.code, kWrong) << result.text << result.errors;
  EXPECT_NE(result.text.find("nobody noticed corrupt:1@20"), std::string::npos) << result.text;
}

TEST(Perf, ABadFlagIsNamed) {
  const struct {
    Arguments arguments;
    const char* named;
  } cases[] = {
      {{"--no-such-flag"}, "--no-such-flag"},
      {{"-d", "quaternion"}, "quaternion"},
      {{"-b", "2M", "-e", "1M"}, "-b 2M"},
      {{"-b", "lots"}, "lots"},
      {{"--ft", "maybe"}, "--ft"},
      {{"-n", "-3"}, "-n"},
      {{"-n", "0"}, "-n"},
      {{"-d", "int32", "-o", "wavg"}, "wavg needs a floating type"},
      {{"-n", "4", "--fault", "kill:2"}, "kill:2"},
      {{"-n", "4", "--fault", "kill:4@3"}, "no rank 4"},
      {{"-n", "4", "--iters", "5", "--placement", "out", "--fault", "kill:2@9"}, "kill:2@9"},
      {{"-n", "4", "--transport", "shm", "--fault", "corrupt:2@3"}, "--transport tcp"},
      {{"-n", "4", "--fault", "reset:2@3"}, "--transport tcp"},
      {{"-n", "4", "--ft", "off", "--fault", "kill:2@3"}, "--ft off"},
      {{"-n", "2", "--against", "ft"}, "--against"},
      {{"-n", "2", "--ideal", "--against", "ft=off"}, "--ideal"},
      {{"-n", "2", "--memory", "device", "--against", "ft=off"}, "host's memory"},
      {{"--fault", "kill:2@3"}, "-n"},
      {{"-n", "2", "--fault", "kill:0@3", "--fault", "kill:1@3"}, "nobody would be left"},
      {{"-n", "3", "--iters", "20", "--fault", "leave:1@5", "--fault", "join@9"}, "comes after it"},
      {{"-n", "2", "--fault", "kill:0@3", "--fault-stage", "foo"}, "gathering"},
      {{"-n", "2", "--set", "novalue"}, "novalue"},
  };
  for (const auto& item : cases) {
    const Result result = RunPerf(item.arguments);
    EXPECT_EQ(result.code, kUsage) << item.named << result.text << result.errors;
    EXPECT_NE((result.text + result.errors).find(item.named), std::string::npos)
        << "'" << item.named << "' is not in: " << result.text << result.errors;
  }
}

// ---- under other people's launchers

struct Launcher {
  const char* name;
  const char* rank;
  Variables variables;
};

void PrintTo(const Launcher& value, std::ostream* out) { *out << value.name; }

class Launchers : public testing::TestWithParam<Launcher> {};

TEST_P(Launchers, RanksFindEachOtherByItsVariables) {
  const std::string unique = std::to_string(getpid());
  Variables common = GetParam().variables;
  for (auto& [name, value] : common) {
    if (value == "UNIQUE") value = unique;
    if (value == "PORT") value = std::to_string(20'000 + getpid() % 9'000);
  }
  std::vector<std::unique_ptr<Process>> ranks;
  for (int rank = 0; rank < 3; ++rank) {
    Variables variables = common;
    variables[GetParam().rank] = std::to_string(rank);
    ranks.push_back(std::make_unique<Process>(
        PerfPath(), Arguments{"-b", "4K", "-e", "64K", "-f", "4", "--iters", "3", "-T", "20"},
        variables));
  }
  for (const auto& rank : ranks) {
    ASSERT_EQ(rank->WaitExit(40), 0) << rank->Output() << rank->Errors();
  }
  // Rank 0 alone prints, with three members and nothing wrong.
  EXPECT_NE(ranks[0]->Output().find("Out of bounds values : 0 OK"), std::string::npos)
      << ranks[0]->Output();
  EXPECT_NE(ranks[0]->Output().find("nRanks 3"), std::string::npos) << ranks[0]->Output();
  for (int rank = 1; rank < 3; ++rank)
    EXPECT_EQ(ranks[rank]->Output().find("Out of bounds"), std::string::npos);
}
INSTANTIATE_TEST_SUITE_P(All, Launchers,
                         testing::Values(Launcher{"torchrun",
                                                  "RANK",
                                                  {{"WORLD_SIZE", "3"},
                                                   {"LOCAL_WORLD_SIZE", "3"},
                                                   {"MASTER_ADDR", "127.0.0.1"},
                                                   {"MASTER_PORT", "PORT"}}},
                                         Launcher{"OpenMPI",
                                                  "OMPI_COMM_WORLD_RANK",
                                                  {{"OMPI_COMM_WORLD_SIZE", "3"},
                                                   {"OMPI_COMM_WORLD_LOCAL_SIZE", "3"},
                                                   {"PMIX_NAMESPACE", "UNIQUE"}}},
                                         Launcher{"MPICH",
                                                  "PMI_RANK",
                                                  {{"PMI_SIZE", "3"},
                                                   {"MPI_LOCALNRANKS", "3"},
                                                   {"PMI_JOBID", "UNIQUE"}}},
                                         Launcher{"Slurm",
                                                  "SLURM_PROCID",
                                                  {{"SLURM_NTASKS", "3"},
                                                   {"SLURM_JOB_ID", "UNIQUE"},
                                                   {"SLURM_STEP_ID", "0"},
                                                   {"SLURM_STEP_NUM_NODES", "1"},
                                                   {"SLURM_STEP_NODELIST", "127.0.0.1"}}}),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace process
