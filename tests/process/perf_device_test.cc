// ftar-perf --memory device over a GPU that is none (tests/fakegpu), whose memory the host cannot
// follow: every collective, through streams and through graphs, with faults.
#include <gtest/gtest.h>

#include "tests/process/perf_run.h"

namespace process {
namespace {

using nlohmann::json;

constexpr int kUsage = 2;

Arguments OnGpu(const char* memory, const char* executor, const Arguments& more) {
  Arguments all = {"--memory",
                   memory,
                   "--cuda-runtime",
                   FTAR_FAKE_GPU,
                   "--set",
                   std::string("gpu=") + FTAR_FAKE_GPU,
                   "--set",
                   std::string("gpu_executor=") + executor,
                   "-T",
                   "20"};
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

void ExpectRight(const Result& result, size_t rows) {
  ASSERT_EQ(result.code, 0) << result.text << result.errors;
  ASSERT_TRUE(result.report.is_object()) << result.text;
  EXPECT_EQ(result.report["out_of_bounds"]["count"], 0);
  ASSERT_EQ(result.report["results"].size(), rows);
  for (const json& row : result.report["results"]) {
    EXPECT_EQ(row["out_of_place"]["nwrong"], 0) << row;
    EXPECT_EQ(row["in_place"]["nwrong"], 0) << row;
    // Who comes in the middle of one of the two is no part of its time, nor are the others.
    const double out = row["out_of_place"]["time"], in = row["in_place"]["time"];
    EXPECT_GT(out + in, 0) << row;
  }
}

class Device : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Executors, Device, testing::Values("bounded", "resident"));

TEST_P(Device, EveryCollectiveIsRightInBothKindsOfMemory) {
  for (const char* memory : {"device", "device-plain"}) {
    const Result result =
        RunPerf(OnGpu(memory, GetParam(),
                      {"-n", "3", "--collective", "all", "--sizes", "0,4,64K,600K", "-d",
                       "float,half", "-o", "sum,avg", "--iters", "2", "--check-every"}));
    // Two operators where there is one, and a barrier is one row.
    ExpectRight(result, 4 * 2 * (2 + 2 + 1 + 1) + 1);
    for (const json& row : result.report["results"]) {
      if (row["size"].get<int>() < 64'000) continue;
      EXPECT_GT(row["in_place"]["block_seconds_per_gb"], 0) << row;
    }
    EXPECT_EQ(result.report["config"]["devices"][0]["device_info"],
              std::string(memory) == "device" ? "GPU memory of the library" : "GPU memory");
  }
}

TEST_P(Device, OverTcpAndWithManyStreams) {
  const Result result = RunPerf(OnGpu("device", GetParam(),
                                      {"-n", "2", "--transport", "tcp", "--sizes", "100K,1M",
                                       "--iters", "4", "--streams", "3", "-u", "1"}));
  ExpectRight(result, 2);
}

TEST_P(Device, AGraphIsLaunchedForEachIteration) {
  const Result result =
      RunPerf(OnGpu("device", GetParam(),
                    {"-n", "2", "--graph", "--sizes", "4K,300K", "--iters", "6", "-m", "3",
                     "--collective", "allreduce,all_gather", "-I", "1"}));
  ExpectRight(result, 4);
  for (const json& row : result.report["results"]) {
    EXPECT_EQ(row["in_place_per_iter"]["times_us"].size(), 6u) << row;
  }
}

TEST_P(Device, FreshInputsAndBuckets) {
  const Result result = RunPerf(OnGpu(
      "device", GetParam(), {"-n", "2", "--fresh", "--sizes", "64K", "--iters", "3", "-m", "2"}));
  ExpectRight(result, 1);
}

TEST_P(Device, SurvivorsOfAKillAreRight) {
  for (const char* fault : {"kill:1@8", "stop:0@8", "leave:2@8"}) {
    const Result result = RunPerf(OnGpu(
        "device", GetParam(),
        {"-n", "3", "--sizes", "200K", "--iters", "20", "--timeout", "1s", "--fault", fault}));
    ExpectRight(result, 1);
    EXPECT_EQ(result.report["fault"]["participants_after"], 2) << fault;
    EXPECT_EQ(result.report["agreed"], true) << fault;
  }
}

TEST_P(Device, AKillInTheMiddleOfReadingThePeersMemory) {
  const Result result = RunPerf(OnGpu("device", GetParam(),
                                      {"-n", "3", "--sizes", "600K", "--iters", "12", "--timeout",
                                       "1s", "--fault", "kill:1@4", "--fault-stage", "reducing"}));
  ExpectRight(result, 1);
}

TEST_P(Device, ANewcomerComesInWithMemoryOfItsOwn) {
  const Result result = RunPerf(OnGpu(
      "device", GetParam(), {"-n", "2", "--sizes", "100K", "--iters", "30", "--fault", "join@3"}));
  ExpectRight(result, 1);
  EXPECT_EQ(result.report["fault"]["participants_after"], 3);
}

TEST(NoDevice, IsSaidAndIsTheCallersMistake) {
  const Result nothing =
      RunPerf({"-n", "2", "--memory", "device", "--cuda-runtime", "/no/cuda.so"});
  EXPECT_EQ(nothing.code, kUsage);
  EXPECT_NE(nothing.errors.find("/no/cuda.so"), std::string::npos) << nothing.errors;
  for (const Arguments& wrong :
       {Arguments{"-n", "2", "--graph"}, Arguments{"-n", "2", "--streams", "2"},
        Arguments{"-n", "2", "--memory", "device", "--ideal"},
        Arguments{"-n", "2", "--memory", "device", "--graph", "--fault", "kill:1@1"},
        Arguments{"-n", "2", "--memory", "gpu"}}) {
    EXPECT_EQ(RunPerf(wrong).code, kUsage) << wrong.back();
  }
}

}  // namespace
}  // namespace process
