// Operations in a GPU's memory and on streams, over a GPU that is none (tests/fakegpu): its memory
// cannot be followed by the host, its kernels and streams are threads.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "ftar/ftar.h"
#include "tests/fakegpu/fake_runtime.h"
#include "tests/process/api/device_jobs.h"

namespace process {
namespace {

INSTANTIATE_TEST_SUITE_P(All, DeviceTest, EveryCase(), NameOf);

TEST_P(DeviceTest, ResultsAreRightOutOfPlaceAndInPlace) {
  for (const size_t count : {size_t{1}, size_t{1000}, size_t{40'000}, size_t{600'001}}) {
    for (const bool in_place : {false, true}) {
      OnGpu in0(Values(count, 0)), in1(Values(count, 1));
      OnGpu out0(std::vector<float>(count, -1)), out1(std::vector<float>(count, -1));
      const OnGpu& to0 = in_place ? in0 : out0;
      const OnGpu& to1 = in_place ? in1 : out1;
      ftarOp_t a = Start(0, AllReduce(in0.get(), to0.get(), count));
      ftarOp_t b = Start(1, AllReduce(in1.get(), to1.get(), count));
      ASSERT_EQ(Finish(a), FTAR_OK) << LastError().text;
      ASSERT_EQ(Finish(b), FTAR_OK) << LastError().text;
      EXPECT_EQ(to0.Read(), Sum(count)) << count;
      EXPECT_EQ(to1.Read(), Sum(count)) << count;
      if (!in_place) {
        EXPECT_EQ(in0.Read(), Values(count, 0));
      }
    }
  }
}

TEST_P(DeviceTest, EveryPlanAndKind) {
  constexpr size_t kCount = 5000;
  for (const char* plan : {"oneshot", "direct", "ring"}) {
    std::array<std::vector<ftarOp_t>, kMembers> ops;
    OnGpu in0(Values(kCount, 0)), in1(Values(kCount, 1));
    OnGpu all0(2 * kCount), all1(2 * kCount);
    OnGpu half0(kCount / 2), half1(kCount / 2);
    OnGpu cast0(Values(kCount, 0)), cast1(kCount);
    for (int i = 0; i < kMembers; ++i) {
      ftarOpDesc desc = AllReduce(i == 0 ? in0.get() : in1.get(), nullptr, kCount);
      desc.plan = plan;
      desc.kind = FTAR_ALLGATHER;
      desc.recv = i == 0 ? all0.get() : all1.get();
      ops[i].push_back(Start(i, desc));
      desc.kind = FTAR_REDUCE_SCATTER;
      desc.count = kCount / 2;
      desc.recv = i == 0 ? half0.get() : half1.get();
      ops[i].push_back(Start(i, desc));
      desc.kind = FTAR_BROADCAST;
      desc.count = kCount;
      desc.send = desc.recv = i == 0 ? cast0.get() : cast1.get();
      ops[i].push_back(Start(i, desc));
    }
    for (const auto& list : ops) {
      for (ftarOp_t op : list) ASSERT_EQ(Finish(op), FTAR_OK) << plan << " " << LastError().text;
    }
    std::vector<float> both = Values(kCount, 0);
    const std::vector<float> other = Values(kCount, 1);
    both.insert(both.end(), other.begin(), other.end());
    EXPECT_EQ(all0.Read(), both) << plan;
    EXPECT_EQ(all1.Read(), both) << plan;
    const std::vector<float> sum = Sum(kCount);
    EXPECT_EQ(half0.Read(), std::vector<float>(sum.begin(), sum.begin() + kCount / 2)) << plan;
    EXPECT_EQ(half1.Read(), std::vector<float>(sum.begin() + kCount / 2, sum.end())) << plan;
    EXPECT_EQ(cast1.Read(), Values(kCount, 0)) << plan;
  }
}

TEST_P(DeviceTest, AStreamGoesOnWhenTheOperationIsDelivered) {
  constexpr size_t kCount = 20'000;
  std::array<Stream, kMembers> streams;
  void* outcome = nullptr;
  ASSERT_EQ(cudaMalloc(&outcome, sizeof(ftarDeviceOutcome)), 0);
  const Pinned seen(sizeof(ftarDeviceOutcome) / sizeof(float));
  // A copy to other memory than pinned keeps the driver until the stream has come to it.
  std::array<Pinned, kMembers> results{Pinned(kCount), Pinned(kCount)};
  OnGpu data0(std::vector<float>(kCount, -7)), data1(std::vector<float>(kCount, -7));
  const std::vector<float> inputs[] = {Values(kCount, 0), Values(kCount, 1)};
  for (int i = 0; i < kMembers; ++i) {
    const OnGpu& data = i == 0 ? data0 : data1;
    cudaMemcpyAsync(data.get(), inputs[i].data(), data.bytes(), kAnyWay, streams[i].get());
    ftarOpDesc desc = On(streams[i], AllReduce(data.get(), data.get(), kCount));
    desc.device_outcome = i == 0 ? outcome : seen.get();
    ASSERT_EQ(ftarOpStart(groups_[i], &desc, nullptr), FTAR_OK) << LastError().text;
    cudaMemcpyAsync(results[i].get(), data.get(), data.bytes(), kAnyWay, streams[i].get());
  }
  for (int i = 0; i < kMembers; ++i) {
    streams[i].Wait();
    EXPECT_EQ(results[i].Read(), Sum(kCount)) << i;
  }
  ftarDeviceOutcome said{};
  ASSERT_EQ(cudaMemcpy(&said, outcome, sizeof said, kAnyWay), 0);
  EXPECT_EQ(said.status, FTAR_OK);
  EXPECT_EQ(said.participants, kMembers);
  EXPECT_EQ(said.weight_sum, 2.0);
  EXPECT_EQ(said.seq, 0u);
  EXPECT_EQ(std::memcmp(seen.get(), &said, sizeof said), 0);
  EXPECT_EQ(cudaFree(outcome), 0);
}

TEST_P(DeviceTest, ManyCallsOnOneStreamInOnePlace) {
  constexpr size_t kCount = 300;
  constexpr int kRounds = 10;
  std::array<Stream, kMembers> streams;
  OnGpu data0(std::vector<float>(kCount, 1)), data1(std::vector<float>(kCount, 1));
  for (int round = 0; round < kRounds; ++round) {
    for (int i = 0; i < kMembers; ++i) {
      const OnGpu& data = i == 0 ? data0 : data1;
      const ftarOpDesc desc = On(streams[i], AllReduce(data.get(), data.get(), kCount));
      ASSERT_EQ(ftarOpStart(groups_[i], &desc, nullptr), FTAR_OK) << LastError().text;
    }
  }
  for (const Stream& stream : streams) stream.Wait();
  EXPECT_EQ(data0.Read(), std::vector<float>(kCount, 1 << kRounds));
  EXPECT_EQ(data1.Read(), std::vector<float>(kCount, 1 << kRounds));
  ftarOutcome last = FTAR_OUTCOME_INIT;
  EXPECT_EQ(ftarGroupOutcome(groups_[0], kRounds - 1, &last), FTAR_OK);
}

// A graph's call is made anew at each launch, on the buffers that it was captured with.
TEST_P(DeviceTest, AGraphIsLaunchedAgainAndAgain) {
  constexpr size_t kCount = 1000;
  constexpr int kLaunches = 20;
  std::array<Stream, kMembers> streams;
  std::array<void*, kMembers> graphs{}, runs{};
  std::array<std::vector<float>, kMembers> inputs, results;
  OnGpu data0(kCount), data1(kCount);
  ftarDeviceOutcome* outcome = nullptr;
  ASSERT_EQ(cudaMallocHost(reinterpret_cast<void**>(&outcome), sizeof *outcome), 0);
  for (int i = 0; i < kMembers; ++i) {
    const OnGpu& data = i == 0 ? data0 : data1;
    inputs[i].resize(kCount);
    results[i].resize(kCount);
    ASSERT_EQ(cudaStreamBeginCapture(streams[i].get(), 0), 0);
    cudaMemcpyAsync(data.get(), inputs[i].data(), data.bytes(), kAnyWay, streams[i].get());
    ftarOpDesc desc = On(streams[i], AllReduce(data.get(), data.get(), kCount));
    if (i == 0) desc.device_outcome = outcome;
    ftarOp_t op = Start(i, desc);
    cudaMemcpyAsync(results[i].data(), data.get(), data.bytes(), kAnyWay, streams[i].get());
    ASSERT_EQ(cudaStreamEndCapture(streams[i].get(), &graphs[i]), 0);
    ASSERT_EQ(cudaGraphInstantiate(&runs[i], graphs[i], 0), 0);
    EXPECT_EQ(Finish(op), FTAR_ERR_STATE);
  }
  for (int launch = 0; launch < kLaunches; ++launch) {
    for (int i = 0; i < kMembers; ++i) {
      const std::vector<float> values = Values(kCount, i, launch);
      std::copy(values.begin(), values.end(), inputs[i].begin());  // where the graph looks
      ASSERT_EQ(cudaGraphLaunch(runs[i], streams[i].get()), 0);
    }
    for (int i = 0; i < kMembers; ++i) {
      streams[i].Wait();
      ASSERT_EQ(results[i], Sum(kCount, launch)) << launch;
    }
    EXPECT_EQ(outcome->status, FTAR_OK);
    EXPECT_EQ(outcome->seq, static_cast<uint64_t>(launch));
  }
  for (int i = 0; i < kMembers; ++i) {
    cudaGraphExecDestroy(runs[i]);
    cudaGraphDestroy(graphs[i]);
  }
  EXPECT_EQ(cudaFreeHost(outcome), 0);
}

void HoldUntil(void* flag) {
  while (!static_cast<std::atomic<bool>*>(flag)->load()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

// A graph that takes its time, and a call behind it on the same stream, which is made before the
// stream has come to the graph's own.
TEST_P(DeviceTest, ACallBehindAGraphWaitsForTheGraphs) {
  constexpr size_t kCount = 1000;
  std::array<Stream, kMembers> streams;
  std::array<void*, kMembers> graphs{}, runs{};
  std::array<ftarOp_t, kMembers> ops{};
  OnGpu data0(Values(kCount, 0)), data1(Values(kCount, 1));
  OnGpu more0(Values(kCount, 0, 1)), more1(Values(kCount, 1, 1));
  std::atomic<bool> released{false};
  for (int i = 0; i < kMembers; ++i) {
    const OnGpu& data = i == 0 ? data0 : data1;
    ASSERT_EQ(cudaStreamBeginCapture(streams[i].get(), 0), 0);
    EXPECT_EQ(Finish(Start(i, On(streams[i], AllReduce(data.get(), data.get(), kCount)))),
              FTAR_ERR_STATE);
    ASSERT_EQ(cudaStreamEndCapture(streams[i].get(), &graphs[i]), 0);
    ASSERT_EQ(cudaGraphInstantiate(&runs[i], graphs[i], 0), 0);
  }
  for (int i = 0; i < kMembers; ++i) {
    const OnGpu& more = i == 0 ? more0 : more1;
    ASSERT_EQ(cudaLaunchHostFunc(streams[i].get(), HoldUntil, &released), 0);
    ASSERT_EQ(cudaGraphLaunch(runs[i], streams[i].get()), 0);
    ops[i] = Start(i, On(streams[i], AllReduce(more.get(), more.get(), kCount)));
  }
  released = true;
  for (int i = 0; i < kMembers; ++i) {
    EXPECT_EQ(Finish(ops[i]), FTAR_OK) << LastError().text;
    streams[i].Wait();
    EXPECT_EQ((i == 0 ? data0 : data1).Read(), Sum(kCount));
    EXPECT_EQ((i == 0 ? more0 : more1).Read(), Sum(kCount, 1));
    cudaGraphExecDestroy(runs[i]);
    cudaGraphDestroy(graphs[i]);
  }
}

void NoteDisorder(int32_t /*level*/, const char* line, void* seen) {
  if (std::strstr(line, "begins beside another") != nullptr)
    static_cast<std::atomic<bool>*>(seen)->store(true);
}

// Nothing says which of two graphs' calls is first, so that members may differ: it is told.
TEST_P(DeviceTest, CallsOfGraphsThatRunBesideEachOtherAreNoted) {
  constexpr size_t kCount = 1000;
  std::array<Stream, 2 * kMembers> streams;
  std::array<void*, 2 * kMembers> graphs{}, runs{};
  OnGpu data0(2 * kCount), data1(2 * kCount);
  std::atomic<bool> seen{false};
  ASSERT_EQ(ftarSetLogHandler(NoteDisorder, &seen), FTAR_OK);
  for (size_t g = 0; g < streams.size(); ++g) {
    const int member = static_cast<int>(g) / 2;
    float* const data = static_cast<float*>((member == 0 ? data0 : data1).get()) + g % 2 * kCount;
    ASSERT_EQ(cudaStreamBeginCapture(streams[g].get(), 0), 0);
    EXPECT_EQ(Finish(Start(member, On(streams[g], AllReduce(data, data, kCount)))), FTAR_ERR_STATE);
    ASSERT_EQ(cudaStreamEndCapture(streams[g].get(), &graphs[g]), 0);
    ASSERT_EQ(cudaGraphInstantiate(&runs[g], graphs[g], 0), 0);
  }
  for (int i = 0; i < kMembers; ++i) {  // one after the other
    ASSERT_EQ(cudaGraphLaunch(runs[2 * i], streams[2 * i].get()), 0);
  }
  for (int i = 0; i < kMembers; ++i) streams[2 * i].Wait();
  EXPECT_FALSE(seen);
  ASSERT_EQ(cudaGraphLaunch(runs[0], streams[0].get()), 0);
  ASSERT_EQ(cudaGraphLaunch(runs[1], streams[1].get()), 0);
  for (int64_t ms = 0; !seen && ms < kLongNs / 1'000'000; ++ms) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_TRUE(seen);
  ASSERT_EQ(cudaGraphLaunch(runs[2], streams[2].get()), 0);
  ASSERT_EQ(cudaGraphLaunch(runs[3], streams[3].get()), 0);
  for (const Stream& stream : streams) stream.Wait();
  ASSERT_EQ(ftarSetLogHandler(nullptr, nullptr), FTAR_OK);
  for (size_t g = 0; g < streams.size(); ++g) {
    cudaGraphExecDestroy(runs[g]);
    cudaGraphDestroy(graphs[g]);
  }
}

// Late is not dead: nobody is evicted for a stream that does not get there, however long.
TEST_P(DeviceTest, AStreamThatDoesNotArriveHoldsTheOthersAndHarmsNobody) {
  constexpr size_t kCount = 1000;
  std::array<Stream, kMembers> streams;
  OnGpu data0(Values(kCount, 0)), data1(Values(kCount, 1));
  std::atomic<bool> go{false};
  cudaLaunchHostFunc(streams[1].get(), HoldUntil, &go);
  ftarOp_t a = Start(0, On(streams[0], AllReduce(data0.get(), data0.get(), kCount)));
  ftarOp_t b = Start(1, On(streams[1], AllReduce(data1.get(), data1.get(), kCount)));
  EXPECT_EQ(ftarOpWait(a, 3 * kSecondNs, nullptr), FTAR_TIMEOUT);
  go = true;
  EXPECT_EQ(Finish(a), FTAR_OK) << LastError().text;
  EXPECT_EQ(Finish(b), FTAR_OK) << LastError().text;
  for (const Stream& stream : streams) stream.Wait();
  EXPECT_EQ(data0.Read(), Sum(kCount));
  EXPECT_EQ(data1.Read(), Sum(kCount));
}

TEST_P(DeviceTest, WhoIsLeftGetsAResultAndBothStreamsGoOn) {
  constexpr size_t kCount = 50'000;
  std::array<Stream, kMembers> streams;
  OnGpu data0(Values(kCount, 0)), data1(Values(kCount, 1));
  std::atomic<bool> go{false};
  cudaLaunchHostFunc(streams[1].get(), HoldUntil, &go);
  ftarOp_t a = Start(0, On(streams[0], AllReduce(data0.get(), data0.get(), kCount)));
  ftarOp_t b = Start(1, On(streams[1], AllReduce(data1.get(), data1.get(), kCount)));
  ASSERT_EQ(ftarJobAbort(jobs_[1], "enough"), FTAR_OK);
  EXPECT_EQ(Finish(b), FTAR_ERR_ABORTED);
  ftarOutcome outcome = FTAR_OUTCOME_INIT;
  EXPECT_EQ(Finish(a, &outcome), FTAR_OK) << LastError().text;
  EXPECT_EQ(outcome.participants, 1);
  go = true;
  for (const Stream& stream : streams) stream.Wait();
  EXPECT_EQ(data0.Read(), Values(kCount, 0));
  EXPECT_EQ(data1.Read(), Values(kCount, 1));
}

TEST_P(DeviceTest, MemoryOfTheJobs) {
  ftarMemDesc desc = FTAR_MEM_DESC_INIT;
  desc.kind = FTAR_MEM_CUDA;
  std::array<void*, kMembers> memory{};
  std::array<ftarOp_t, kMembers> ops{};
  constexpr size_t kCount = 70'000;
  const size_t imports = fakeGpuImports();
  for (int i = 0; i < kMembers; ++i) {
    ASSERT_EQ(ftarMemAlloc(jobs_[i], kCount * sizeof(float), &desc, &memory[i]), FTAR_OK)
        << LastError().text;
    const std::vector<float> values = Values(kCount, i);
    ASSERT_EQ(cudaMemcpy(memory[i], values.data(), kCount * sizeof(float), kAnyWay), 0);
    ops[i] = Start(i, AllReduce(memory[i], memory[i], kCount));
  }
  for (ftarOp_t op : ops) EXPECT_EQ(Finish(op), FTAR_OK) << LastError().text;
  std::vector<float> result(kCount);
  ASSERT_EQ(cudaMemcpy(result.data(), memory[1], kCount * sizeof(float), kAnyWay), 0);
  EXPECT_EQ(result, Sum(kCount));
  // Members of one host read it where it lies, once they have mapped it.
  for (int round = 0; round < 5; ++round) {
    for (int i = 0; i < kMembers; ++i) {
      const std::vector<float> values = Values(kCount, i, round);
      ASSERT_EQ(cudaMemcpy(memory[i], values.data(), kCount * sizeof(float), kAnyWay), 0);
    }
    for (int i = 0; i < kMembers; ++i) ops[i] = Start(i, AllReduce(memory[i], memory[i], kCount));
    for (ftarOp_t op : ops) ASSERT_EQ(Finish(op), FTAR_OK) << LastError().text;
    for (int i = 0; i < kMembers; ++i) {
      ASSERT_EQ(cudaMemcpy(result.data(), memory[i], kCount * sizeof(float), kAnyWay), 0);
      ASSERT_EQ(result, Sum(kCount, round));
    }
  }
  const bool one_host = std::string(GetParam().transport) == "shm";
  EXPECT_EQ(fakeGpuImports() > imports, one_host);
  EXPECT_EQ(ftarMemFree(jobs_[0], memory[0]), FTAR_OK);
  EXPECT_EQ(ftarMemFree(jobs_[0], memory[1]), FTAR_ERR_ARG);  // the other's, freed with its job
}

void NoteCopies(int32_t /*level*/, const char* line, void* seen) {
  if (std::strstr(line, "comes by way of the host's memory: that card is out of reach") != nullptr)
    ++*static_cast<std::atomic<int>*>(seen);
}

// Slower, and so people are told: once for each peer.
TEST_P(DeviceTest, APeersMemoryThatCannotBeMappedIsNotedAndCopied) {
  ftarMemDesc desc = FTAR_MEM_DESC_INIT;
  desc.kind = FTAR_MEM_CUDA;
  constexpr size_t kCount = 70'000;
  std::array<void*, kMembers> memory{};
  std::atomic<int> seen{0};
  ASSERT_EQ(ftarSetLogHandler(NoteCopies, &seen), FTAR_OK);
  const int expected = std::string(GetParam().transport) == "shm" ? kMembers : 0;
  fakeGpuFailToImport(1000);
  for (int i = 0; i < kMembers; ++i)
    ASSERT_EQ(ftarMemAlloc(jobs_[i], kCount * sizeof(float), &desc, &memory[i]), FTAR_OK);
  for (int round = 0; round < 5 || (seen < expected && round < 200); ++round) {
    std::array<ftarOp_t, kMembers> ops{};
    for (int i = 0; i < kMembers; ++i) {
      const std::vector<float> values = Values(kCount, i, round);
      ASSERT_EQ(cudaMemcpy(memory[i], values.data(), kCount * sizeof(float), kAnyWay), 0);
    }
    for (int i = 0; i < kMembers; ++i) ops[i] = Start(i, AllReduce(memory[i], memory[i], kCount));
    for (ftarOp_t op : ops) ASSERT_EQ(Finish(op), FTAR_OK) << LastError().text;
    std::vector<float> result(kCount);
    ASSERT_EQ(cudaMemcpy(result.data(), memory[0], kCount * sizeof(float), kAnyWay), 0);
    EXPECT_EQ(result, Sum(kCount, round));
  }
  EXPECT_EQ(seen, expected);
  ASSERT_EQ(ftarSetLogHandler(nullptr, nullptr), FTAR_OK);
  fakeGpuFailToImport(0);
}

// One member's buffers are the host's, the other's the GPU's.
TEST_P(DeviceTest, BuffersOfDifferentKinds) {
  ftarMemDesc desc = FTAR_MEM_DESC_INIT;
  desc.kind = FTAR_MEM_CUDA;
  constexpr size_t kCount = 70'000;
  void* memory = nullptr;
  ASSERT_EQ(ftarMemAlloc(jobs_[0], kCount * sizeof(float), &desc, &memory), FTAR_OK);
  OnGpu other(Values(10, 1));
  for (int round = 0; round < 4; ++round) {
    const std::vector<float> values = Values(kCount, 0, round);
    std::vector<float> host = Values(kCount, 1, round), result(kCount);
    ASSERT_EQ(cudaMemcpy(memory, values.data(), kCount * sizeof(float), kAnyWay), 0);
    ftarOp_t a = Start(0, AllReduce(memory, memory, kCount));
    ftarOp_t b = Start(1, AllReduce(host.data(), host.data(), kCount));
    ASSERT_EQ(Finish(a), FTAR_OK) << LastError().text;
    ASSERT_EQ(Finish(b), FTAR_OK) << LastError().text;
    ASSERT_EQ(cudaMemcpy(result.data(), memory, kCount * sizeof(float), kAnyWay), 0);
    EXPECT_EQ(result, Sum(kCount, round));
    EXPECT_EQ(host, Sum(kCount, round));
    // From now on both have a GPU, so that the second maps what the first lends.
    ftarOp_t c = Start(0, AllReduce(memory, memory, 10));
    ftarOp_t d = Start(1, AllReduce(other.get(), other.get(), 10));
    ASSERT_EQ(Finish(c), FTAR_OK);
    ASSERT_EQ(Finish(d), FTAR_OK);
  }
}

TEST_P(DeviceTest, WhatIsWrongIsRefusedAndNamed) {
  std::vector<float> host(10);
  OnGpu data(Values(10, 0));
  const auto refused = [&](const ftarOpDesc& desc) {
    EXPECT_EQ(ftarOpStart(groups_[0], &desc, nullptr), FTAR_ERR_ARG);
    return std::string(LastError().argument);
  };
  EXPECT_EQ(refused(AllReduce(data.get(), host.data(), 10)), "desc.recv");
  EXPECT_EQ(refused(AllReduce(data.get(), data.get(), 1'000'000)), "desc.send");
  ftarOpDesc desc = AllReduce(data.get(), data.get(), 10);
  desc.device = 3;
  EXPECT_EQ(refused(desc), "desc.device");
  desc = AllReduce(data.get(), data.get(), 10);
  desc.stream = &desc;
  EXPECT_EQ(refused(desc), "desc.stream");
  Stream stream;
  desc = On(stream, AllReduce(data.get(), data.get(), 10));
  desc.device_outcome = host.data();
  EXPECT_EQ(refused(desc), "desc.device_outcome");
}

// A step's calls have no numbers before their streams have come to them, and the next step begins
// behind them: at the same number on all members, whoever's stream is late.
TEST_P(DeviceTest, AStepBeginsBehindWhatIsOnStreams) {
  constexpr size_t kCount = 1000;
  std::array<Stream, kMembers> streams;
  OnGpu data0(Values(kCount, 0)), data1(Values(kCount, 1));
  std::atomic<bool> go{false};
  std::atomic<int> begun{0};
  for (int i = 0; i < kMembers; ++i) {
    ftarStepInfo step = FTAR_STEP_INFO_INIT;
    ASSERT_EQ(ftarStepBegin(jobs_[i], nullptr, &step), FTAR_OK) << LastError().text;
  }
  cudaLaunchHostFunc(streams[1].get(), HoldUntil, &go);
  ftarOp_t a = Start(0, On(streams[0], AllReduce(data0.get(), data0.get(), kCount)));
  ftarOp_t b = Start(1, On(streams[1], AllReduce(data1.get(), data1.get(), kCount)));
  std::array<ftarStepInfo, kMembers> steps{};
  std::vector<std::thread> threads;
  for (int i = 0; i < kMembers; ++i) {
    threads.emplace_back([&, i] {
      steps[i] = FTAR_STEP_INFO_INIT;
      EXPECT_EQ(ftarStepBegin(jobs_[i], nullptr, &steps[i]), FTAR_OK);
      ++begun;
    });
  }
  SleepMs(300);
  EXPECT_LT(begun, kMembers);
  ftarGroupInfo info = FTAR_GROUP_INFO_INIT;
  EXPECT_EQ(ftarGroupGetInfo(groups_[1], &info), FTAR_OK);
  EXPECT_EQ(info.next_seq, 1u);
  go = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(Finish(a), FTAR_OK) << LastError().text;
  EXPECT_EQ(Finish(b), FTAR_OK) << LastError().text;
  EXPECT_EQ(steps[0].step, 1);
  EXPECT_EQ(steps[1].step, 1);
  for (const Stream& stream : streams) stream.Wait();
  EXPECT_EQ(data0.Read(), Sum(kCount));
}

// What was called before a leave is delivered, though its stream comes later.
TEST_P(DeviceTest, ALeaveComesBehindWhatIsOnStreams) {
  constexpr size_t kCount = 1000;
  std::array<Stream, kMembers> streams;
  OnGpu data0(Values(kCount, 0)), data1(Values(kCount, 1));
  std::atomic<bool> go{false};
  cudaLaunchHostFunc(streams[1].get(), HoldUntil, &go);
  ftarOp_t a = Start(0, On(streams[0], AllReduce(data0.get(), data0.get(), kCount)));
  ftarOp_t b = Start(1, On(streams[1], AllReduce(data1.get(), data1.get(), kCount)));
  EXPECT_EQ(ftarJobLeave(jobs_[1], kSecondNs / 5), FTAR_TIMEOUT);
  go = true;
  std::thread other([&] { EXPECT_EQ(ftarJobLeave(jobs_[0], kLongNs), FTAR_OK); });
  EXPECT_EQ(ftarJobLeave(jobs_[1], kLongNs), FTAR_OK) << LastError().text;
  other.join();
  EXPECT_EQ(Finish(a), FTAR_OK) << LastError().text;
  EXPECT_EQ(Finish(b), FTAR_OK) << LastError().text;
  for (const Stream& stream : streams) stream.Wait();
  EXPECT_EQ(data1.Read(), Sum(kCount));
}

// ---- user code that keeps the driver meanwhile

void FreeSomething() {
  void* memory = nullptr;
  ASSERT_EQ(cudaMalloc(&memory, 100), 0);
  ASSERT_EQ(cudaFree(memory), 0);
}

// The resident kernel is there as long as a stream waits, and needs no driver. The bounded
// executor's launch would wait for the lock: AMemberWhoseDriverIsKeptIsOutInTime.
TEST_P(DeviceTest, FreeingLoadingAndSynchronisingWhileStreamsWait) {
  const bool resident = std::string(GetParam().executor) == "resident";
  constexpr size_t kCount = 3000;
  for (auto* meddle :
       {&FreeSomething, &fakeGpuLoadModule, +[] { EXPECT_EQ(cudaDeviceSynchronize(), 0); }}) {
    const bool locks = meddle == &FreeSomething || meddle == &fakeGpuLoadModule;
    if (locks && !resident) continue;
    OnGpu data0(Values(kCount, 0)), data1(Values(kCount, 1));
    std::array<Stream, kMembers> streams;
    std::atomic<bool> go{true};
    for (int round = 0; round < 20; ++round) {
      std::array<ftarOp_t, kMembers> ops{};
      // At times one stream is late, for longer than the kernel stays where there is nothing to do.
      go = round % 4 != 0;
      cudaLaunchHostFunc(streams[1].get(), HoldUntil, &go);
      for (int i = 0; i < kMembers; ++i) {
        const OnGpu& data = i == 0 ? data0 : data1;
        ftarOpDesc desc = On(streams[i], AllReduce(data.get(), data.get(), kCount));
        desc.redop = FTAR_AVG;
        ops[i] = Start(i, desc);
      }
      std::thread user(meddle);
      if (!go) SleepMs(20);
      go = true;
      for (ftarOp_t op : ops) EXPECT_EQ(Finish(op), FTAR_OK) << round << " " << LastError().text;
      user.join();
      ASSERT_FALSE(HasFailure());
    }
    for (const Stream& stream : streams) stream.Wait();
    std::vector<float> mean = Sum(kCount);
    for (float& value : mean) value /= 2;
    EXPECT_EQ(data0.Read(), mean);
    EXPECT_EQ(data1.Read(), mean);
  }
}

// One member's buffer is the host's, and what it reads lies in the other's GPU: a launch that is
// kept for a while costs nobody its place.
TEST_P(DeviceTest, AHostsOperationWaitsForADriverThatIsKeptForAWhile) {
  ftarMemDesc desc = FTAR_MEM_DESC_INIT;
  desc.kind = FTAR_MEM_CUDA;
  constexpr size_t kCount = 70'000;
  void *memory = nullptr, *sum = nullptr;
  ASSERT_EQ(ftarMemAlloc(jobs_[0], kCount * sizeof(float), &desc, &memory), FTAR_OK);
  ASSERT_EQ(ftarMemAlloc(jobs_[0], kCount * sizeof(float), &desc, &sum), FTAR_OK);
  const std::vector<float> values = Values(kCount, 0);
  ASSERT_EQ(cudaMemcpy(memory, values.data(), kCount * sizeof(float), kAnyWay), 0);
  std::vector<float> host = Values(kCount, 1), result(kCount);
  OnGpu few0(Values(10, 0)), few1(Values(10, 1));
  const Stream stream;
  std::atomic<bool> go{true};
  const size_t imports = fakeGpuImports();
  const auto run = [&] {
    ftarOp_t a = Start(0, AllReduce(memory, sum, kCount));
    ftarOp_t b = Start(1, AllReduce(host.data(), result.data(), kCount));
    EXPECT_EQ(Finish(a), FTAR_OK) << LastError().text;
    EXPECT_EQ(Finish(b), FTAR_OK) << LastError().text;
    EXPECT_EQ(result, Sum(kCount));
  };
  for (int round = 0; round < 4; ++round) {
    run();
    ftarOp_t c = Start(0, AllReduce(few0.get(), few0.get(), 10));
    ftarOp_t d = Start(1, AllReduce(few1.get(), few1.get(), 10));
    EXPECT_EQ(Finish(c), FTAR_OK);
    EXPECT_EQ(Finish(d), FTAR_OK);
  }
  EXPECT_EQ(fakeGpuImports() > imports, std::string(GetParam().transport) == "shm");
  go = false;
  cudaLaunchHostFunc(stream.get(), HoldUntil, &go);
  std::thread user(&FreeSomething);
  SleepMs(50);
  std::thread later([&go] {  // the start itself may have to wait for it
    SleepMs(500);
    go = true;
  });
  run();
  later.join();
  user.join();
}

// Nobody waits for ever: not the operation, nor whoever called cudaFree, nor the job's own calls.
TEST_P(DeviceTest, AMemberWhoseDriverIsKeptIsOutInTime) {
  if (std::string(GetParam().executor) == "resident") return;  // it needs none
  constexpr size_t kCount = 100'000;
  OnGpu data0(Values(kCount, 0)), data1(Values(kCount, 1));
  std::array<Stream, kMembers> streams;
  std::atomic<bool> go{true};
  ftarOp_t a = nullptr, b = nullptr;
  const auto start = [&] {
    cudaLaunchHostFunc(streams[1].get(), HoldUntil, &go);
    a = Start(0, On(streams[0], AllReduce(data0.get(), data0.get(), kCount)));
    b = Start(1, On(streams[1], AllReduce(data1.get(), data1.get(), kCount)));
  };
  start();  // what operations need is there afterwards
  EXPECT_EQ(Finish(a), FTAR_OK);
  EXPECT_EQ(Finish(b), FTAR_OK);
  go = false;
  start();
  std::thread user(&FreeSomething);  // has the lock, and both streams wait
  SleepMs(50);
  go = true;
  const double begun = NowSeconds();
  EXPECT_EQ(Finish(a), FTAR_ERR_DEVICE);
  EXPECT_EQ(Finish(b), FTAR_ERR_DEVICE);
  EXPECT_LT(NowSeconds() - begun, 8);
  user.join();
  for (const Stream& stream : streams) stream.Wait();
}

// A GPU that fails is its member's failure, and no more: waits end, and say why.
TEST_P(DeviceTest, ABrokenGpuEndsTheMember) {
  constexpr size_t kCount = 1000;
  OnGpu data0(Values(kCount, 0)), data1(Values(kCount, 1));
  ftarOp_t warm0 = Start(0, AllReduce(data0.get(), data0.get(), kCount));
  ftarOp_t warm1 = Start(1, AllReduce(data1.get(), data1.get(), kCount));
  EXPECT_EQ(Finish(warm0), FTAR_OK);
  EXPECT_EQ(Finish(warm1), FTAR_OK);
  fakeGpuBreak();  // the driver does not even say any more what an address is
  for (int i = 0; i < kMembers; ++i) {
    const OnGpu& data = i == 0 ? data0 : data1;
    const ftarOpDesc desc = AllReduce(data.get(), data.get(), kCount);
    ftarOp_t op = nullptr;
    EXPECT_EQ(ftarOpStart(groups_[i], &desc, &op), FTAR_ERR_DEVICE);
    EXPECT_EQ(op, nullptr);
  }
  fakeGpuHeal();
  for (const ftarJob_t job : jobs_) {  // and it is out, as the others hear
    ftarResult_t out = FTAR_OK;
    for (int ms = 0; out == FTAR_OK && ms < kLongNs / 1'000'000; ++ms) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      out = ftarJobWaitReady(job, 0);
    }
    EXPECT_NE(out, FTAR_OK);
  }
}

// Also where the call has no buffer by which that would be seen.
TEST_P(DeviceTest, ABrokenGpuEndsTheMemberThatPutsABarrierOntoAStream) {
  const std::array<Stream, kMembers> streams;
  ftarOpDesc barrier = AllReduce(nullptr, nullptr, 0);
  barrier.kind = FTAR_BARRIER;
  const ftarOpDesc desc = On(streams[0], barrier), others = On(streams[1], barrier);
  ftarOp_t warm0 = Start(0, desc), warm1 = Start(1, others);
  EXPECT_EQ(Finish(warm0), FTAR_OK);
  EXPECT_EQ(Finish(warm1), FTAR_OK);
  fakeGpuBreak();
  EXPECT_EQ(ftarOpStart(groups_[0], &desc, nullptr), FTAR_ERR_DEVICE);
  fakeGpuHeal();
  ftarOp_t left = Start(1, others);
  ftarOutcome outcome = FTAR_OUTCOME_INIT;
  EXPECT_EQ(Finish(left, &outcome), FTAR_OK) << LastError().text;
  EXPECT_EQ(outcome.participants, 1);
  EXPECT_NE(ftarJobWaitReady(jobs_[0], 0), FTAR_OK);
}

// A user's kernel breaks the context before the stream has come to the call: nothing of ours is
// under way, and the stream will never come.
TEST_P(DeviceTest, AGpuThatBreaksBeforeTheStreamArrivesEndsTheMember) {
  constexpr size_t kCount = 1000;
  std::array<Stream, kMembers> streams;
  OnGpu data0(Values(kCount, 0)), data1(Values(kCount, 1));
  std::atomic<bool> go{false};
  for (const Stream& stream : streams) cudaLaunchHostFunc(stream.get(), HoldUntil, &go);
  ftarOp_t a = Start(0, On(streams[0], AllReduce(data0.get(), data0.get(), kCount)));
  ftarOp_t b = Start(1, On(streams[1], AllReduce(data1.get(), data1.get(), kCount)));
  EXPECT_EQ(ftarOpWait(a, kSecondNs / 10, nullptr), FTAR_TIMEOUT);
  fakeGpuBreak();
  go = true;
  EXPECT_EQ(Finish(a), FTAR_ERR_DEVICE);
  EXPECT_EQ(Finish(b), FTAR_ERR_DEVICE);
  fakeGpuHeal();
}

TEST_P(DeviceTest, AHungGpuEndsTheMemberInTime) {
  constexpr size_t kCount = 1000;
  OnGpu data0(Values(kCount, 0)), data1(Values(kCount, 1));
  fakeGpuHang();
  ftarOp_t a = Start(0, AllReduce(data0.get(), data0.get(), kCount));
  ftarOp_t b = Start(1, AllReduce(data1.get(), data1.get(), kCount));
  EXPECT_NE(Finish(a), FTAR_TIMEOUT);
  EXPECT_NE(Finish(b), FTAR_TIMEOUT);
  fakeGpuHeal();
}

void NoteParts(int32_t /*level*/, const char* line, void* seen) {
  if (std::strstr(line, "may leave part of a sum") != nullptr)
    static_cast<std::atomic<bool>*>(seen)->store(true);
}

// What would put an input in place back stands behind what hangs.
TEST_P(DeviceTest, ThatAHungGpuMayLeaveAPartOfASumIsSaid) {
  constexpr size_t kCount = 1000;
  OnGpu data0(Values(kCount, 0)), data1(Values(kCount, 1));
  std::atomic<bool> seen{false};
  ASSERT_EQ(ftarSetLogHandler(NoteParts, &seen), FTAR_OK);
  fakeGpuHang();
  ftarOp_t a = Start(0, AllReduce(data0.get(), data0.get(), kCount));
  ftarOp_t b = Start(1, AllReduce(data1.get(), data1.get(), kCount));
  EXPECT_NE(Finish(a), FTAR_OK);
  EXPECT_NE(Finish(b), FTAR_OK);
  for (int64_t ms = 0; !seen && ms < kLongNs / 1'000'000; ++ms) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_TRUE(seen);
  ASSERT_EQ(ftarSetLogHandler(nullptr, nullptr), FTAR_OK);
  fakeGpuHeal();
}

TEST(NoGpu, IsSaidWhereOneIsWanted) {
  ftarJobConfig config = FTAR_JOB_CONFIG_INIT;
  ftarJob_t job = nullptr;
  ASSERT_EQ(Join(config, {{"gpu", "off"}}, &job), FTAR_OK) << LastError().text;
  ftarMemDesc desc = FTAR_MEM_DESC_INIT;
  desc.kind = FTAR_MEM_CUDA;
  void* memory = nullptr;
  EXPECT_EQ(ftarMemAlloc(job, 100, &desc, &memory), FTAR_ERR_UNSUPPORTED);
  ftarJobDestroy(job);
  ASSERT_EQ(Join(config, {{"gpu", "/nowhere/libnothing.so"}}, &job), FTAR_OK);
  EXPECT_EQ(ftarMemAlloc(job, 100, &desc, &memory), FTAR_ERR_DEVICE);
  EXPECT_NE(std::string(LastError().text).find("libnothing"), std::string::npos);
  ftarJobDestroy(job);
}

}  // namespace
}  // namespace process
