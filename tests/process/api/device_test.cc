// Operations in a GPU's memory and on streams, over a GPU that is none (tests/fakegpu): its memory
// cannot be followed by the host, its kernels and streams are threads.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "ftar/ftar.h"
#include "tests/fakegpu/fake_runtime.h"
#include "tests/process/api/jobs.h"
#include "tests/process/harness.h"

namespace process {
namespace {

constexpr int kMembers = 2;
constexpr int kAnyWay = 4;  // cudaMemcpyDefault

struct Case {
  const char* transport;
  const char* executor;
};

// A buffer of floats in the GPU's memory.
class OnGpu {
 public:
  explicit OnGpu(size_t count) : OnGpu(std::vector<float>(count)) {}
  explicit OnGpu(const std::vector<float>& values) : count_(values.size()) {
    EXPECT_EQ(cudaMalloc(&address_, bytes()), 0);
    EXPECT_EQ(cudaMemcpy(address_, values.data(), bytes(), kAnyWay), 0);
  }
  ~OnGpu() { EXPECT_EQ(cudaFree(address_), 0); }
  OnGpu(const OnGpu&) = delete;
  OnGpu& operator=(const OnGpu&) = delete;
  void* get() const { return address_; }
  size_t bytes() const { return count_ * sizeof(float); }
  std::vector<float> Read() const {
    std::vector<float> out(count_);
    EXPECT_EQ(cudaMemcpy(out.data(), address_, bytes(), kAnyWay), 0);
    return out;
  }

 private:
  void* address_ = nullptr;
  size_t count_;
};

class Pinned {
 public:
  explicit Pinned(size_t count) : count_(count) {
    EXPECT_EQ(cudaMallocHost(&address_, count * sizeof(float)), 0);
  }
  ~Pinned() { EXPECT_EQ(cudaFreeHost(address_), 0); }
  Pinned(const Pinned&) = delete;
  Pinned& operator=(const Pinned&) = delete;
  void* get() const { return address_; }
  std::vector<float> Read() const {
    const auto* const floats = static_cast<const float*>(address_);
    return {floats, floats + count_};
  }

 private:
  void* address_ = nullptr;
  size_t count_;
};

class Stream {
 public:
  Stream() { EXPECT_EQ(cudaStreamCreateWithFlags(&stream_, 1), 0); }
  ~Stream() { EXPECT_EQ(cudaStreamDestroy(stream_), 0); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  void* get() const { return stream_; }
  void Wait() const { EXPECT_EQ(cudaStreamSynchronize(stream_), 0); }

 private:
  void* stream_ = nullptr;
};

std::vector<float> Values(size_t count, int member, int round = 0) {
  std::vector<float> out(count);
  for (size_t i = 0; i < count; ++i) {
    out[i] = static_cast<float>(
        (i * 7 + static_cast<size_t>(member) * 31 + static_cast<size_t>(round) * 3) % 1000);
  }
  return out;
}

std::vector<float> Sum(size_t count, int round = 0) {
  std::vector<float> out = Values(count, 0, round);
  const std::vector<float> other = Values(count, 1, round);
  for (size_t i = 0; i < count; ++i) out[i] += other[i];
  return out;
}

class DeviceTest : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    for (int32_t i = 0; i < kMembers; ++i) {
      ftarJobConfig config = FTAR_JOB_CONFIG_INIT;
      config.replica = i;
      config.replicas = kMembers;
      config.coordinator = coordinator_.address().c_str();
      config.timeout_ns = 2 * kSecondNs;
      config.flags = FTAR_JOB_NONBLOCKING;
      const Knobs knobs = {{"gpu", FTAR_FAKE_GPU},
                           {"transport", GetParam().transport},
                           {"gpu_executor", GetParam().executor}};
      ASSERT_EQ(Join(config, knobs, &jobs_[i]), FTAR_IN_PROGRESS) << LastError().text;
    }
    for (int32_t i = 0; i < kMembers; ++i) {
      ASSERT_EQ(ftarJobWaitReady(jobs_[i], kLongNs), FTAR_OK) << LastError().text;
      ASSERT_EQ(ftarGroupOpen(jobs_[i], nullptr, &groups_[i]), FTAR_OK) << LastError().text;
    }
  }
  void TearDown() override {
    for (int i = 0; i < kMembers; ++i) {
      ftarGroupClose(groups_[i]);
      ftarJobDestroy(jobs_[i]);
    }
    fakeGpuHeal();
  }
  static ftarOpDesc AllReduce(void* send, void* recv, uint64_t count) {
    ftarOpDesc desc = FTAR_OP_DESC_INIT;
    desc.send = send;
    desc.recv = recv;
    desc.count = count;
    return desc;
  }
  static ftarOpDesc On(const Stream& stream, ftarOpDesc desc) {
    desc.stream_kind = FTAR_STREAM_CUDA;
    desc.stream = stream.get();
    return desc;
  }
  ftarOp_t Start(int member, const ftarOpDesc& desc) {
    ftarOp_t op = nullptr;
    EXPECT_EQ(ftarOpStart(groups_[member], &desc, &op), FTAR_OK) << LastError().text;
    return op;
  }
  static ftarResult_t Finish(ftarOp_t op, ftarOutcome* outcome = nullptr) {
    const ftarResult_t result = ftarOpWait(op, kLongNs, outcome);
    EXPECT_EQ(ftarOpRelease(op), FTAR_OK);
    return result;
  }

  Coordinator coordinator_;
  std::array<ftarJob_t, kMembers> jobs_{};
  std::array<ftarGroup_t, kMembers> groups_{};
};
INSTANTIATE_TEST_SUITE_P(All, DeviceTest,
                         testing::Values(Case{"shm", "bounded"}, Case{"shm", "resident"},
                                         Case{"tcp", "bounded"}, Case{"tcp", "resident"}),
                         [](const auto& info) {
                           return std::string(info.param.transport) + "_" + info.param.executor;
                         });

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

// Ends the process, saying where, if what it stands beside does not end by itself.
class Watchdog {
 public:
  explicit Watchdog(const char* what) : what_(what), thread_([this] { Main(); }) {}
  ~Watchdog() {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      over_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

 private:
  void Main() {
    std::unique_lock<std::mutex> lock(mutex_);
    const auto over = [this] { return over_; };
    if (changed_.wait_for(lock, std::chrono::nanoseconds(kLongNs), over)) return;
    std::fprintf(stderr, "%s has not ended\n", what_);
    std::_Exit(1);
  }

  const char* const what_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool over_ = false;
  std::thread thread_;
};

// More of them than a stream's queue takes.
TEST_P(DeviceTest, MoreCallsAtOnceThanAStreamTakes) {
  constexpr size_t kCalls = 500, kCount = 16;
  const Watchdog dog("ftarOpStartMany");
  std::array<Stream, kMembers> streams;
  OnGpu data0(std::vector<float>(kCalls * kCount, 1)),
      data1(std::vector<float>(kCalls * kCount, 2));
  std::vector<std::thread> threads;
  for (int i = 0; i < kMembers; ++i) {
    threads.emplace_back([&, i] {
      auto* const floats = static_cast<float*>((i == 0 ? data0 : data1).get());
      std::vector<ftarOpDesc> calls;
      for (size_t c = 0; c < kCalls; ++c) {
        float* const at = floats + c * kCount;
        calls.push_back(On(streams[i], AllReduce(at, at, kCount)));
      }
      std::vector<ftarOp_t> ops(kCalls);
      EXPECT_EQ(ftarOpStartMany(groups_[i], calls.data(), sizeof(ftarOpDesc), kCalls, ops.data()),
                FTAR_OK)
          << LastError().text;
      for (ftarOp_t op : ops) EXPECT_EQ(Finish(op), FTAR_OK) << LastError().text;
      streams[i].Wait();
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(data0.Read(), std::vector<float>(kCalls * kCount, 3));
  EXPECT_EQ(data1.Read(), std::vector<float>(kCalls * kCount, 3));
}

// One after the other, while the other member is late. They wait here, where the driver is nobody's
// and where the callers' lock, which callbacks take, keeps nobody.
TEST_P(DeviceTest, MoreCallsThanAStreamTakesBehindALatePeer) {
  constexpr int kCalls = 400;
  constexpr size_t kCount = 16;
  const Watchdog dog("ftarOpStart");
  std::array<Stream, kMembers> streams;
  OnGpu data0(std::vector<float>(kCount, 0)), data1(std::vector<float>(kCount, 0));
  std::array<std::mutex, kMembers> taken;
  std::array<std::atomic<int>, kMembers> begun{};
  const auto start_all = [&](int i) {
    ftarOpDesc desc = On(streams[i], AllReduce((i == 0 ? data0 : data1).get(), nullptr, kCount));
    desc.recv = const_cast<void*>(desc.send);
    desc.user = &taken[i];
    desc.on_done = [](const ftarOutcome*, void* user) {
      const std::lock_guard<std::mutex> lock(*static_cast<std::mutex*>(user));
    };
    for (; begun[i] < kCalls; ++begun[i]) {
      const std::lock_guard<std::mutex> lock(taken[i]);
      EXPECT_EQ(ftarOpStart(groups_[i], &desc, nullptr), FTAR_OK) << LastError().text;
    }
    streams[i].Wait();
  };
  std::thread early(start_all, 0);
  SleepMs(200);
  EXPECT_LT(begun[0], kCalls);
  const Pinned somebodys(kCount);  // asks the driver
  std::thread late(start_all, 1);
  early.join();
  late.join();
  ftarOutcome last = FTAR_OUTCOME_INIT;
  EXPECT_EQ(ftarGroupOutcome(groups_[0], kCalls - 1, &last), FTAR_OK);
  EXPECT_EQ(last.participants, kMembers);
}

TEST_P(DeviceTest, ACallThatWaitsForItsStreamHearsOfTheEnd) {
  constexpr int kCalls = 200;
  constexpr size_t kCount = 16;
  const Watchdog dog("ftarOpStart");
  const Stream stream;
  OnGpu data(kCount);
  std::atomic<int> begun{0};
  std::thread caller([&] {
    const ftarOpDesc desc = On(stream, AllReduce(data.get(), data.get(), kCount));
    while (ftarOpStart(groups_[0], &desc, nullptr) == FTAR_OK) ++begun;
  });
  SleepMs(200);
  EXPECT_LT(begun, kCalls);
  EXPECT_EQ(ftarJobAbort(jobs_[0], "enough"), FTAR_OK);
  caller.join();
  EXPECT_LT(begun, kCalls);
  stream.Wait();
}

// The kernel that copies the outcome stands behind the gate, and keeps the caller (as
// CUDA_LAUNCH_BLOCKING has it, with which the resident executor does not begin).
TEST_P(DeviceTest, LaunchesThatBlock) {
  if (std::string(GetParam().executor) == "resident") return;
  constexpr size_t kCount = 1000;
  const Watchdog dog("ftarOpStart");
  std::array<Stream, kMembers> streams;
  OnGpu data0(Values(kCount, 0)), data1(Values(kCount, 1));
  const Pinned outcomes(kMembers * sizeof(ftarDeviceOutcome) / sizeof(float));
  auto* const said = static_cast<ftarDeviceOutcome*>(outcomes.get());
  fakeGpuLetLaunchesBlock(1);
  std::vector<std::thread> threads;
  for (int i = 0; i < kMembers; ++i) {
    threads.emplace_back([&, i] {
      void* const data = (i == 0 ? data0 : data1).get();
      ftarOpDesc desc = On(streams[i], AllReduce(data, data, kCount));
      desc.device_outcome = said + i;
      EXPECT_EQ(Finish(Start(i, desc)), FTAR_OK) << LastError().text;
    });
  }
  for (std::thread& thread : threads) thread.join();
  fakeGpuLetLaunchesBlock(0);
  for (int i = 0; i < kMembers; ++i) {
    streams[i].Wait();
    EXPECT_EQ(said[i].participants, kMembers);
  }
  EXPECT_EQ(data0.Read(), Sum(kCount));
  EXPECT_EQ(data1.Read(), Sum(kCount));
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
      for (ftarOp_t op : ops) ASSERT_EQ(Finish(op), FTAR_OK) << round << " " << LastError().text;
      user.join();
    }
    for (const Stream& stream : streams) stream.Wait();
    std::vector<float> mean = Sum(kCount);
    for (float& value : mean) value /= 2;
    EXPECT_EQ(data0.Read(), mean);
    EXPECT_EQ(data1.Read(), mean);
  }
}

// Somebody's kernels fill the card: the first call waits for the resident kernel in vain, for 20
// ms.
TEST_P(DeviceTest, ManyCallsWaitOnceForAKernelThatDoesNotCome) {
  constexpr size_t kCalls = 100;
  const std::array<Stream, kMembers> streams;
  ftarOpDesc barrier = AllReduce(nullptr, nullptr, 0);
  barrier.kind = FTAR_BARRIER;
  for (const bool full : {false, true}) {  // launched twice, and not there the second time
    if (full) SleepMs(50);
    fakeGpuFill(full ? 1 : 0);
    ftarOp_t a = Start(0, On(streams[0], barrier)), b = Start(1, On(streams[1], barrier));
    EXPECT_EQ(Finish(a), FTAR_OK);
    EXPECT_EQ(Finish(b), FTAR_OK);
  }
  std::vector<ftarOp_t> ops(2 * kCalls);
  const double begun = NowSeconds();
  for (size_t i = 0; i < kMembers; ++i) {
    const std::vector<ftarOpDesc> calls(kCalls, On(streams[i], barrier));
    EXPECT_EQ(ftarOpStartMany(groups_[i], calls.data(), sizeof(ftarOpDesc), kCalls,
                              ops.data() + i * kCalls),
              FTAR_OK);
  }
  EXPECT_LT(NowSeconds() - begun, 1);
  fakeGpuFill(0);
  for (ftarOp_t op : ops) EXPECT_EQ(Finish(op), FTAR_OK) << LastError().text;
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
