// Memory that runs out in calls on streams: a call is made once or not at all, callbacks come once,
// and streams go on.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "ftar/ftar.h"
#include "tests/fakegpu/fake_runtime.h"
#include "tests/process/api/device_jobs.h"
#include "tests/process/api/scarce_memory.h"

namespace process {
namespace {

constexpr size_t kCount = 1000;
constexpr int64_t kMost = 40;  // more allocations than anything here takes

void HoldUntil(void* flag) {
  while (!static_cast<std::atomic<bool>*>(flag)->load()) SleepMs(1);
}

void Count(const ftarOutcome*, void* count) { ++*static_cast<std::atomic<int>*>(count); }

// A job of one member, whose GPU is open.
struct Solo {
  Solo() {
    ftarJobConfig config = FTAR_JOB_CONFIG_INIT;
    EXPECT_EQ(Join(config, {{"gpu", FTAR_FAKE_GPU}}, &job), FTAR_OK) << LastError().text;
    EXPECT_EQ(ftarGroupOpen(job, nullptr, &group), FTAR_OK) << LastError().text;
    ftarOp_t op = nullptr;
    const Stream stream;
    const ftarOpDesc desc = On(stream, AllReduce(nullptr));
    EXPECT_EQ(ftarOpStart(group, &desc, &op), FTAR_OK) << LastError().text;
    EXPECT_EQ(ftarOpWait(op, kLongNs, nullptr), FTAR_OK) << LastError().text;
    EXPECT_EQ(ftarOpRelease(op), FTAR_OK);
  }
  ~Solo() {
    ftarGroupClose(group);
    EXPECT_EQ(ftarJobDestroy(job), FTAR_OK);
  }
  ftarOpDesc AllReduce(std::atomic<int>* count) const {
    ftarOpDesc desc = FTAR_OP_DESC_INIT;
    desc.send = desc.recv = data.get();
    desc.count = kCount;
    desc.user = count;
    if (count != nullptr) desc.on_done = Count;
    return desc;
  }
  uint64_t NextSeq() const {
    ftarGroupInfo info = FTAR_GROUP_INFO_INIT;
    EXPECT_EQ(ftarGroupGetInfo(group, &info), FTAR_OK);
    return info.next_seq;
  }

  OnGpu data{kCount};
  ftarJob_t job = nullptr;
  ftarGroup_t group = nullptr;
};

// Calls many behind one whose stream is not there yet, with so many allocations. How many of them
// it took.
int64_t CallManyBehindAStream(bool on_stream, int64_t allocations) {
  constexpr int kMany = 40;
  std::optional<Solo> solo(std::in_place);
  std::atomic<bool> go{false};
  std::atomic<int> first = 0, done = 0;
  const Stream stream;
  EXPECT_EQ(cudaLaunchHostFunc(stream.get(), HoldUntil, &go), 0);
  const ftarOpDesc waits = On(stream, solo->AllReduce(&first));
  EXPECT_EQ(ftarOpStart(solo->group, &waits, nullptr), FTAR_OK) << LastError().text;
  const uint64_t next = solo->NextSeq();
  ftarOpDesc desc = FTAR_OP_DESC_INIT;
  desc.kind = FTAR_BARRIER;
  desc.user = &done;
  desc.on_done = Count;
  const std::vector<ftarOpDesc> calls(kMany, on_stream ? On(stream, desc) : desc);
  mine_left = allocations;
  const ftarResult_t result =
      ftarOpStartMany(solo->group, calls.data(), sizeof desc, kMany, nullptr);
  const int64_t taken = allocations - std::exchange(mine_left, kPlenty);
  const bool made = result == FTAR_OK;
  EXPECT_TRUE(made || result == FTAR_ERR_MEMORY) << LastError().text;
  EXPECT_EQ(solo->NextSeq(), next + (made ? kMany : 0)) << allocations;
  go = true;
  stream.Wait();
  EXPECT_EQ(ftarJobLeave(solo->job, kLongNs), FTAR_OK) << LastError().text;
  solo.reset();  // behind the last callback
  EXPECT_EQ(first, 1) << allocations;
  EXPECT_EQ(done, made ? kMany : 0) << on_stream << " " << allocations;
  return taken;
}

// Those that were held when memory ran out were made later, though they had been refused.
TEST(DeviceMemory, CallsBehindAStreamAreMadeAllOrNone) {
  for (const bool on_stream : {false, true}) {
    const int64_t enough = CallManyBehindAStream(on_stream, kPlenty);
    for (int64_t fewer = 1; fewer < kMost; ++fewer)
      CallManyBehindAStream(on_stream, enough - fewer);
  }
}

// Without memory to note that its gate was open its stream waited for ever, and its callback, which
// waited for its turn already, was to come once more.
TEST(DeviceMemory, AStreamGoesOnAndACallbackComesOnce) {
  for (int64_t allocations = 0; allocations < kMost; ++allocations) {
    Solo solo;
    std::atomic<bool> go{false};
    std::atomic<int> done = 0;
    const Stream stream;
    ASSERT_EQ(cudaLaunchHostFunc(stream.get(), HoldUntil, &go), 0);
    const ftarOpDesc desc = On(stream, solo.AllReduce(&done));
    std::array<ftarOp_t, 30> ops{};
    for (ftarOp_t& op : ops) ASSERT_EQ(ftarOpStart(solo.group, &desc, &op), FTAR_OK);
    std::thread later([&go] {
      SleepMs(10);
      go = true;
    });
    mine_left = allocations;
    for (ftarOp_t op : ops) static_cast<void>(ftarOpWait(op, kLongNs, nullptr));
    mine_left = kPlenty;
    later.join();
    stream.Wait();
    for (ftarOp_t op : ops) EXPECT_EQ(ftarOpRelease(op), FTAR_OK);
    for (int ms = 0; done < std::ssize(ops) && ms < 1000; ++ms) SleepMs(1);
    EXPECT_EQ(done, std::ssize(ops)) << allocations;
  }
}

// The stream of a launch that was forgotten waited for ever.
TEST(DeviceMemory, AGraphGoesOnWhateverBecomesOfItsCall) {
  for (int64_t allocations = 0; allocations < kMost; ++allocations) {
    Solo solo;
    std::atomic<bool> go{false};
    const Stream stream, busy;
    void *graph = nullptr, *run = nullptr;
    ASSERT_EQ(cudaStreamBeginCapture(stream.get(), 0), 0);
    ftarOpDesc desc = On(stream, solo.AllReduce(nullptr));
    ftarOp_t op = nullptr;
    ASSERT_EQ(ftarOpStart(solo.group, &desc, &op), FTAR_OK) << LastError().text;
    EXPECT_EQ(ftarOpRelease(op), FTAR_OK);
    ASSERT_EQ(cudaStreamEndCapture(stream.get(), &graph), 0);
    ASSERT_EQ(cudaGraphInstantiate(&run, graph, 0), 0);
    ftarGroupConfig other = FTAR_GROUP_CONFIG_INIT;
    other.name = "other";
    ftarGroup_t group = nullptr;
    ASSERT_EQ(ftarGroupOpen(solo.job, &other, &group), FTAR_OK);
    ASSERT_EQ(cudaLaunchHostFunc(busy.get(), HoldUntil, &go), 0);
    OnGpu more(kCount);
    desc = On(busy, solo.AllReduce(nullptr));
    desc.send = desc.recv = more.get();
    ASSERT_EQ(ftarOpStart(group, &desc, &op), FTAR_OK) << LastError().text;
    std::thread later([&] {
      SleepMs(10);
      EXPECT_EQ(cudaGraphLaunch(run, stream.get()), 0);
      SleepMs(20);
      go = true;
    });
    mine_left = allocations;
    static_cast<void>(ftarOpWait(op, kLongNs, nullptr));
    mine_left = kPlenty;
    later.join();
    const Watchdog dog("a graph");
    stream.Wait();
    busy.Wait();
    EXPECT_EQ(ftarOpRelease(op), FTAR_OK);
    ftarGroupClose(group);
    cudaGraphExecDestroy(run);
    cudaGraphDestroy(graph);
  }
}

}  // namespace
}  // namespace process
