// Many calls on one stream: its queue takes only so many, and whoever fills it waits in the driver.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstring>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "ftar/ftar.h"
#include "tests/fakegpu/fake_runtime.h"
#include "tests/process/api/device_jobs.h"

namespace process {
namespace {

class StreamQueue : public DeviceTest {};
INSTANTIATE_TEST_SUITE_P(All, StreamQueue, EveryCase(), NameOf);

// More of them than a stream's queue takes.
TEST_P(StreamQueue, MoreCallsAtOnceThanAStreamTakes) {
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
TEST_P(StreamQueue, MoreCallsThanAStreamTakesBehindALatePeer) {
  constexpr int kCalls = 400;
  constexpr size_t kCount = 16;
  const Watchdog dog("ftarOpStart");
  std::array<Stream, kMembers> streams;
  OnGpu data0(std::vector<float>(kCount, 0)), data1(std::vector<float>(kCount, 0));
  struct Calls {
    std::mutex taken;
    std::atomic<int> begun = 0, done = 0;
  };
  std::array<Calls, kMembers> calls;
  const auto start_all = [&](int i) {
    Calls& mine = calls[i];
    ftarOpDesc desc = On(streams[i], AllReduce((i == 0 ? data0 : data1).get(), nullptr, kCount));
    desc.recv = const_cast<void*>(desc.send);
    desc.user = &mine;
    desc.on_done = [](const ftarOutcome*, void* user) {
      auto* const told = static_cast<Calls*>(user);
      { const std::lock_guard<std::mutex> lock(told->taken); }
      ++told->done;
    };
    for (; mine.begun < kCalls; ++mine.begun) {
      const std::lock_guard<std::mutex> lock(mine.taken);
      EXPECT_EQ(ftarOpStart(groups_[i], &desc, nullptr), FTAR_OK) << LastError().text;
    }
    streams[i].Wait();
    while (mine.done < kCalls) SleepMs(1);  // a stream may go on before its callback comes
  };
  std::thread early(start_all, 0);
  SleepMs(200);
  EXPECT_LT(calls[0].begun, kCalls);
  const Pinned somebodys(kCount);  // asks the driver
  std::thread late(start_all, 1);
  early.join();
  late.join();
  ftarOutcome last = FTAR_OUTCOME_INIT;
  EXPECT_EQ(ftarGroupOutcome(groups_[0], kCalls - 1, &last), FTAR_OK);
  EXPECT_EQ(last.participants, kMembers);
}

TEST_P(StreamQueue, ACallThatWaitsForItsStreamHearsOfTheEnd) {
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
TEST_P(StreamQueue, LaunchesThatBlock) {
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

// Somebody's kernels fill the card: the first call waits for the resident kernel in vain, for 20
// ms.
TEST_P(StreamQueue, ManyCallsWaitOnceForAKernelThatDoesNotCome) {
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
  EXPECT_LT(NowSeconds() - begun, 3);  // 4 s and more, if each of them waited
  fakeGpuFill(0);
  for (ftarOp_t op : ops) EXPECT_EQ(Finish(op), FTAR_OK) << LastError().text;
}

void NoteQueues(int32_t /*level*/, const char* line, void* seen) {
  if (std::strstr(line, "CUDA_DEVICE_MAX_CONNECTIONS") != nullptr)
    ++*static_cast<std::atomic<int>*>(seen);
}

// A GPU has 8 queues, and some stream is the library's own.
TEST_P(StreamQueue, MoreStreamsThanAGpuHasQueuesAreNotedOnce) {
  constexpr size_t kFew = 6, kMany = 12;
  std::array<Stream, kMany> streams;
  ftarOpDesc barrier = AllReduce(nullptr, nullptr, 0);
  barrier.kind = FTAR_BARRIER;
  std::atomic<int> seen{0};
  ASSERT_EQ(ftarSetLogHandler(NoteQueues, &seen), FTAR_OK);
  for (const size_t at_once : {kFew, kMany}) {
    std::vector<ftarOp_t> ops;
    for (size_t s = 0; s < at_once; ++s) ops.push_back(Start(0, On(streams[s], barrier)));
    for (size_t s = 0; s < at_once; ++s) ops.push_back(Start(1, barrier));
    for (ftarOp_t op : ops) EXPECT_EQ(Finish(op), FTAR_OK) << LastError().text;
    for (const Stream& stream : streams) stream.Wait();
    EXPECT_EQ(seen, at_once == kFew ? 0 : 1);
  }
  ASSERT_EQ(ftarSetLogHandler(nullptr, nullptr), FTAR_OK);
}

// Whichever call is first: its gate is the first on the stream, too.
TEST_P(StreamQueue, TwoThreadsCallOnOneStream) {
  constexpr int kCalls = 300;
  const Watchdog dog("a call beside another thread's");
  std::array<Stream, kMembers> streams;
  std::vector<std::thread> threads;
  for (int i = 0; i < 2 * kMembers; ++i) {
    threads.emplace_back([&, member = i / 2] {
      ftarOpDesc desc = FTAR_OP_DESC_INIT;
      desc.kind = FTAR_BARRIER;
      desc = On(streams[member], desc);
      for (int call = 0; call < kCalls; ++call) {
        EXPECT_EQ(ftarOpStart(groups_[member], &desc, nullptr), FTAR_OK) << LastError().text;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Stream& stream : streams) stream.Wait();
}

}  // namespace
}  // namespace process
