// ftar-perf --memory device over a GPU that is none (tests/fakegpu), whose memory the host cannot
// follow: every collective, through streams and through graphs, with faults.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

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

// Sizes that grow: a rank that made room for the larger ones while another's stream waits would
// wait for that stream, under the driver's lock.
TEST_P(Device, RanksMayBeThreadsOfOneProcess) {
  for (const char* ranks : {"2", "4", "8"}) {
    for (const char* memory : {"device", "device-plain"}) {
      const Result result = RunPerf(OnGpu(
          memory, GetParam(), {"-n", ranks, "--threads", "--sizes", "4,64K,1M", "--iters", "3"}));
      ExpectRight(result, 3);
      EXPECT_EQ(result.report["config"]["ranks_are"], "threads");
      EXPECT_EQ(result.report["config"]["devices"].size(), static_cast<size_t>(ranks[0] - '0'));
      EXPECT_EQ(result.report["config"]["devices"][0]["pid"],
                result.report["config"]["devices"][1]["pid"]);
    }
  }
}

TEST_P(Device, ThreadsWithEverythingElse) {
  for (const Arguments& more :
       {Arguments{"--collective", "all", "-d", "float,half", "-o", "sum,avg", "--check-every"},
        Arguments{"--graph", "-m", "3"}, Arguments{"--fresh"}, Arguments{"--streams", "2"},
        Arguments{"--transport", "tcp"}}) {
    Arguments all = {"-n", "3", "--threads", "--sizes", "100K", "--iters", "3"};
    all.insert(all.end(), more.begin(), more.end());
    const Result result = RunPerf(OnGpu("device", GetParam(), all));
    EXPECT_EQ(result.code, 0) << more.front() << result.text << result.errors;
    EXPECT_EQ(result.report["out_of_bounds"]["count"], 0) << more.front();
  }
}

// The run waits for the newcomer behind the leaver's end, which needs operations to come to.
TEST_P(Device, AThreadLeavesAndAProcessJoins) {
  const Result result = RunPerf(OnGpu("device", GetParam(),
                                      {"-n", "3", "--threads", "--sizes", "100K", "--iters", "100",
                                       "--fault", "leave:1@5", "--fault", "join@30"}));
  ExpectRight(result, 1);
  ASSERT_EQ(result.report["faults"].size(), 2u) << result.text;
  EXPECT_EQ(result.report["faults"][0]["participants_after"], 2);
  EXPECT_EQ(result.report["faults"][1]["participants_after"], 3);
}

TEST_P(Device, AProductBesideSaysWhatEachCostsTheOther) {
  const std::string path =
      std::filesystem::temp_directory_path() / ("ftar_matmul." + std::to_string(getpid()) + ".csv");
  std::filesystem::remove(path);
  for (const Arguments& more : {Arguments{}, Arguments{"--threads", "--csv", path}}) {
    Arguments all = {"-n",       "2",  "--sizes", "1M", "--iters",  "20",
                     "--matmul", "32", "-m",      "2",  "--cublas", FTAR_FAKE_GPU};
    all.insert(all.end(), more.begin(), more.end());
    const Result result = RunPerf(OnGpu("device", GetParam(), all));
    ExpectRight(result, 1);
    for (const char* place : {"out_of_place", "in_place"}) {
      const json& found = result.report["results"][0][place];
      ASSERT_TRUE(found.contains("matmul")) << result.text;
      EXPECT_GT(found["matmul"]["product_us"], 0);
      EXPECT_GT(found["matmul"]["product_beside_us"], 0);
      EXPECT_GT(found["matmul"]["time_beside"], 0);
      EXPECT_GT(found["matmul"]["slowdown_percent"], -100);
    }
    EXPECT_NE(result.text.find("mm+"), std::string::npos) << result.text;
  }
  std::ifstream file(path);
  std::string titles;
  std::getline(file, titles);
  EXPECT_NE(titles.find("in_place.matmul.product_slowdown_percent"), std::string::npos) << titles;
  std::filesystem::remove(path);
}

TEST(NoDevice, AProductNeedsALibraryOfIts) {
  const Result nothing = RunPerf(
      OnGpu("device", "bounded", {"-n", "2", "--matmul", "32", "--cublas", "/no/cublas.so"}));
  EXPECT_EQ(nothing.code, kUsage);
  EXPECT_NE(nothing.errors.find("/no/cublas.so"), std::string::npos) << nothing.errors;
  // One that is a library, and no cuBLAS; and what the ranks alone can find.
  const Result other =
      RunPerf(OnGpu("device", "bounded", {"-n", "2", "--matmul", "32", "--cublas", "libm.so.6"}));
  EXPECT_EQ(other.code, kUsage);
  EXPECT_NE(other.errors.find("cublasCreate_v2"), std::string::npos) << other.errors;
  const Result wide =
      RunPerf(OnGpu("device", "bounded",
                    {"-n", "2", "--sizes", "4K", "--matmul", "32", "--cublas", FTAR_FAKE_GPU}),
              {{"FAKEGPU_BLAS", "off"}});
  EXPECT_EQ(wide.code, kUsage) << wide.text;
  EXPECT_NE(wide.errors.find("does not start"), std::string::npos) << wide.errors;
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
