#include "perf/options.h"

#include <gtest/gtest.h>

#include "perf/types.h"

namespace ftar::perf {
namespace {

ParseResult Parse(std::vector<const char*> arguments) {
  arguments.insert(arguments.begin(), "ftar-perf");
  return ParseOptions(static_cast<int>(arguments.size()), arguments.data());
}

TEST(Options, DefaultsAreThoseOfNcclTests) {
  const ParseResult result = Parse({});
  ASSERT_TRUE(result.run) << result.text;
  const Options& options = result.options;
  EXPECT_EQ(options.sizes, (std::vector<uint64_t>{32 << 20}));
  EXPECT_EQ(options.types, (std::vector<ftarDtype_t>{FTAR_F32}));
  EXPECT_EQ(options.ops, (std::vector<ftarRedop_t>{FTAR_SUM}));
  EXPECT_EQ(options.check, 1);
  EXPECT_EQ(options.average, Average::kMean);
  EXPECT_FALSE(options.CheckEvery());
}

// Twenty small operations say little; a fault's iteration is one of few, whatever the size.
TEST(Options, IterationsAreBySizeUnlessTheyAreGivenOrEachIsChecked) {
  const auto counts = [](const ParseResult& result) {
    return std::pair(result.options.iters, result.options.warmup);
  };
  EXPECT_EQ(counts(Parse({})), std::pair(0, -1));
  EXPECT_EQ(counts(Parse({"--iters", "20"})), std::pair(20, 1));
  EXPECT_EQ(counts(Parse({"-w", "3"})), std::pair(0, 3));
  EXPECT_EQ(counts(Parse({"--check-every"})), std::pair(20, 1));
  EXPECT_EQ(counts(Parse({"-n", "3", "--fault", "kill:2@20"})), std::pair(20, 1));
  EXPECT_EQ(counts(Parse({"-n", "3", "--fault", "leave:2@20"})), std::pair(60, 1));
  EXPECT_EQ(counts(Parse({"-n", "3", "--fresh"})), std::pair(0, 1));
  EXPECT_FALSE(Parse({"-w", "-1"}).run);
}

TEST(Options, ChurnIsSmallUnlessASizeIsGiven) {
  EXPECT_EQ(Parse({"-n", "3", "--churn", "5"}).options.sizes, std::vector<uint64_t>{64 << 10});
  EXPECT_EQ(Parse({"-n", "3", "--churn", "5", "-b", "1K", "-e", "1K"}).options.sizes,
            std::vector<uint64_t>{1 << 10});
  EXPECT_EQ(Parse({"-n", "3", "--churn", "5", "--sizes", "8"}).options.sizes,
            std::vector<uint64_t>{8});
}

TEST(Options, SomebodyStays) {
  EXPECT_TRUE(Parse({"-n", "2", "--fault", "kill:1@3"}).run);
  EXPECT_FALSE(Parse({"-n", "2", "--fault", "kill:1@3", "--fault", "leave:0@9"}).run);
  EXPECT_TRUE(
      Parse({"-n", "2", "--fault", "kill:1@3", "--fault", "leave:0@9", "--fault", "join@5"}).run);
  EXPECT_FALSE(
      Parse({"-n", "2", "--fault", "kill:1@3", "--fault", "leave:0@9", "--fault", "join@12"}).run);
  EXPECT_FALSE(
      Parse({"-n", "2", "--fault", "stop:0@3", "--fault", "start@1", "--fault", "drop:1@3"}).run);
}

TEST(Options, PairsThatDoNotGoAreLeftOutButNotAll) {
  EXPECT_FALSE(Parse({"-d", "int8,int32", "-o", "wavg"}).run);
  EXPECT_TRUE(Parse({"-d", "int8,float", "-o", "wavg"}).run);
  EXPECT_TRUE(Parse({"-d", "int8", "-o", "wavg,sum"}).run);
  EXPECT_TRUE(Parse({"-d", "int8", "-o", "wavg", "--collective", "broadcast"}).run);
}

TEST(Options, ARankMayCoordinate) {
  EXPECT_FALSE(Parse({"-n", "3"}).options.hosted);
  EXPECT_FALSE(Parse({"-n", "3", "--coordinator", "fixed"}).options.hosted);
  const ParseResult result = Parse({"-n", "3", "--coordinator", "hosted", "--fault", "kill:0@3"});
  ASSERT_TRUE(result.run) << result.text;
  EXPECT_TRUE(result.options.hosted);
  EXPECT_FALSE(Parse({"--coordinator", "hosted"}).run) << "another launcher has its own way";
  EXPECT_FALSE(Parse({"-n", "3", "--coordinator", "hosted", "--against", "ft=off"}).run);
  EXPECT_FALSE(Parse({"-n", "3", "--coordinator", "stored"}).run);
}

TEST(Options, ReadsAFaultRun) {
  const ParseResult result =
      Parse({"-n", "4", "-b", "8", "-e", "1M", "-f", "2", "--fault", "kill:2@40", "--fault",
             "join@60", "--timeout", "1s", "--ft", "on", "-z", "1"});
  ASSERT_TRUE(result.run) << result.text;
  EXPECT_EQ(result.options.ranks, 4);
  EXPECT_EQ(result.options.sizes.size(), 18u);
  EXPECT_EQ(result.options.sizes.back(), 1u << 20);
  ASSERT_EQ(result.options.faults.size(), 2u);
  EXPECT_EQ(result.options.faults[1].kind, FaultKind::kJoin);
  EXPECT_TRUE(result.options.CheckEvery());
  EXPECT_TRUE(result.options.blocking);
}

TEST(Options, FreshAndIdealBringTheirOwnDefaults) {
  const ParseResult fresh = Parse({"-n", "2", "--fresh"});
  ASSERT_TRUE(fresh.run) << fresh.text;
  EXPECT_TRUE(fresh.options.blocking && fresh.options.per_iteration);
  EXPECT_EQ(fresh.options.aggregate, 0);
  EXPECT_EQ(fresh.options.iters, 0);
  EXPECT_TRUE(fresh.options.in_place && fresh.options.out_of_place);
  const ParseResult ideal = Parse({"-n", "2", "--ideal", "--iters", "9", "-m", "2", "-z", "0"});
  ASSERT_TRUE(ideal.run) << ideal.text;
  EXPECT_EQ(ideal.options.ideal, IdealKind::kPull);
  EXPECT_TRUE(ideal.options.fresh && !ideal.options.blocking);
  EXPECT_EQ(ideal.options.iters, 9);
  EXPECT_EQ(ideal.options.aggregate, 2);
  EXPECT_EQ(ideal.options.pairs, 21);
  EXPECT_FALSE(ideal.options.in_place);
  EXPECT_EQ(Parse({"-n", "2", "--ideal=push"}).options.ideal, IdealKind::kPush);
}

TEST(Options, WhatRunsBesideHasASizeAndTheMeasuredAPriority) {
  const ParseResult plain = Parse({"-n", "2"});
  EXPECT_EQ(plain.options.beside_bytes, 0u);
  EXPECT_EQ(plain.options.priority, 0);
  const ParseResult beside = Parse({"-n", "2", "--beside", "16M", "--priority", "-10"});
  ASSERT_TRUE(beside.run) << beside.text;
  EXPECT_EQ(beside.options.beside_bytes, 16u << 20);
  EXPECT_EQ(beside.options.priority, -10);
}

TEST(Options, EachBadValueIsAnErrorThatNamesIt) {
  const std::vector<std::pair<std::vector<const char*>, const char*>> cases = {
      {{"-b", "x"}, "-b"},
      {{"-b", "2M", "-e", "1M"}, "-b"},
      {{"-d", "float,quad"}, "quad"},
      {{"-o", "xor"}, "xor"},
      {{"--collective", "alltoall"}, "alltoall"},
      {{"--fresh"}, "-n"},
      {{"-n", "2", "--ideal=pool"}, "pool"},
      {{"-n", "2", "--ideal", "-d", "half"}, "floats"},
      {{"-n", "2", "--ideal", "--placement", "both"}, "--placement"},
      {{"-n", "2", "--fresh", "--fault", "kill:1@2"}, "--fault"},
      {{"-n", "4", "--fault", "kill:2"}, "kill:2"},
      {{"--fault", "kill:2@4"}, "-n"},
      {{"--set", "chunk"}, "chunk"},
      {{"--ft", "maybe"}, "--ft"},
      {{"-a", "4"}, "-a"},
      {{"-t", "2"}, "-t"},
      {{"--threads"}, "-n"},
      {{"-n", "2", "--threads", "--fault", "kill:1@2"}, "kill:1@2"},
      {{"-n", "2", "--threads", "--fault", "stop:1@2"}, "threads of one process"},
      {{"-n", "2", "--threads", "--transport", "tcp", "--fault", "reset:1@2"}, "reset:1@2"},
      {{"-n", "3", "--threads", "--churn", "5"}, "--churn"},
      {{"-n", "3", "--churn", "5", "--csv", "x"}, "--csv"},
      {{"-n", "3", "--churn", "5", "--report", "x"}, "--report"},
      {{"-n", "2", "--threads", "-C", "1"}, "CPU time"},
      {{"-n", "2", "--threads", "--fault", "leave:1@2", "--fault-stage", "before"}, "faults"},
      {{"-n", "2", "--beside", "x"}, "--beside"},
      {{"-n", "2", "--beside", "6"}, "--beside"},
      {{"-n", "2", "--beside", "1M", "--fresh"}, "--fresh"},
      {{"-n", "4", "--beside", "1M", "--fault", "kill:1@2"}, "--fault"},
      {{"-n", "2", "--beside", "1M", "--memory", "device"}, "--beside"},
      {{"-n", "2", "--beside", "1M", "-C", "1"}, "--beside"},
      {{"-n", "2", "--memory", "device", "--matmul", "64", "-C", "1"}, "-C"},
      {{"-n", "2", "--priority", "101"}, "--priority"},
      {{"-n", "2", "--matmul", "64"}, "--memory device"},
      {{"-n", "2", "--memory", "device", "--matmul", "64", "--graph"}, "--graph"},
      {{"-n", "2", "--memory", "device", "--matmul", "64", "-w", "0"}, "-w"},
      {{"-n", "2", "--memory", "device", "--cublas", "x.so"}, "--matmul"},
      {{"-n", "-1"}, "-n"},
      {{"-n", "0"}, "-n is 1 to"},
      {{"-n", "3", "--collective", "broadcast", "-r", "3"}, "no rank 3"},
      {{"-d", "quad"}, "bfloat16"},
      {{"-o", "xor"}, "wavg"},
      {{"--collective", "alltoall"}, "reduce_scatter"},
      {{"-n", "3", "--fault", "kill:1@2", "--fault-stage", "foo"}, "stability"},
      {{"-n", "3", "--fault", "delay:1@5:10", "--fault", "kill:1@9"}, "rank 1 has a fault already"},
      {{"-n", "3", "--fault", "leave:1@5", "--fault-stage", "sending"}, "--fault-stage"},
      {{"-n", "3", "--fault-stage", "sending"}, "--fault-stage"},
      {{"-n", "3", "--fault", "kill:1@5", "--fault-chunk", "2"}, "--fault-chunk"},
      {{"--iters", "-1"}, "--iters"},
      {{"--placement", "over"}, "--placement"},
      {{"--memory", "gold"}, "--memory"},
      {{"--sizes", "1,2,z"}, "z"},
      {{"-b", "0", "-e", "10", "-i", "0"}, "-i"},
      {{"--no-such-flag"}, "no-such-flag"},
  };
  for (const auto& [arguments, name] : cases) {
    const ParseResult result = Parse(arguments);
    EXPECT_FALSE(result.run) << name;
    EXPECT_EQ(result.exit_code, kExitUsage) << name;
    EXPECT_NE(result.text.find(name), std::string::npos) << result.text;
  }
}

TEST(Options, BucketsHaveTheirOwnSizes) {
  const std::string list = std::string(FTAR_BUCKET_FOLDER) + "/gpt2.txt";
  const char* path = list.c_str();
  const ParseResult result = Parse({"-n", "2", "--buckets", path, "-d", "half,float"});
  ASSERT_TRUE(result.run) << result.text;
  EXPECT_EQ(result.options.sizes, (std::vector<uint64_t>{2 * 124439808, 4 * 124439808}));
  EXPECT_FALSE(Parse({"-n", "2", "--buckets", path, "--sizes", "8"}).run);
  EXPECT_FALSE(Parse({"-n", "2", "--buckets", path, "-b", "8"}).run);
  EXPECT_FALSE(Parse({"-n", "2", "--buckets", path, "-m", "8"}).run);
}

TEST(Options, HelpIsNoError) {
  const ParseResult result = Parse({"--help"});
  EXPECT_FALSE(result.run);
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_NE(result.text.find("--fault"), std::string::npos);
  EXPECT_EQ(result.text.find("--rank-index"), std::string::npos);
  for (const char* name : {"bfloat16", "wavg", "reduce_scatter", "gathering"})
    EXPECT_NE(result.text.find(name), std::string::npos) << name;
}

TEST(Options, TheVersionIsTheLibrarys) {
  const ParseResult result = Parse({"--version"});
  EXPECT_FALSE(result.run);
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.text, "ftar-perf " + LibraryVersion() + "\n");
}

TEST(Options, ACommandFollowsTheDashes) {
  const ParseResult result = Parse({"-n", "2", "--", "./trainer", "--steps", "3"});
  ASSERT_TRUE(result.run) << result.text;
  EXPECT_EQ(result.options.command, (std::vector<std::string>{"./trainer", "--steps", "3"}));
}

TEST(SizeSeries, StepsFactorsAndZero) {
  EXPECT_EQ(SizeSeries(8, 8, 0, 1), (std::vector<uint64_t>{8}));
  EXPECT_EQ(SizeSeries(0, 4, 2, 1), (std::vector<uint64_t>{0, 2, 4}));
  EXPECT_EQ(SizeSeries(0, 8, 1, 2), (std::vector<uint64_t>{0, 1, 2, 4, 8}));
  EXPECT_EQ(SizeSeries(1, 3, 1, 1.1), (std::vector<uint64_t>{1, 2, 3}));
  EXPECT_TRUE(SizeSeries(0, 8, 0, 1).empty());
}

TEST(ParseSize, SuffixesAreBinary) {
  EXPECT_EQ(ParseSize("8"), 8u);
  EXPECT_EQ(ParseSize("4K"), 4096u);
  EXPECT_EQ(ParseSize("1.5M"), 3u << 19);
  EXPECT_EQ(ParseSize("2G"), 2ull << 30);
  for (const char* text : {"", "K", "-1", "1KB", "1T", "1e30", "nan"}) {
    EXPECT_FALSE(ParseSize(text).has_value()) << text;
  }
}

}  // namespace
}  // namespace ftar::perf
