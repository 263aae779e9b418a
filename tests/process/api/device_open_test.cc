// Goal: which GPU a job uses is said by the first call that is about one, and what no GPU could be
// opened for is refused, not followed.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <atomic>
#include <filesystem>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "ftar/ftar.h"
#include "tests/fakegpu/fake_runtime.h"
#include "tests/process/api/device_jobs.h"

namespace process {
namespace {

constexpr size_t kCount = 1000;

// Descriptors of the fake GPU's memory beyond the one that it keeps itself of each block.
size_t ShownBlocks() {
  std::multiset<ino_t> open;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    struct stat info = {};
    const std::string name = std::filesystem::read_symlink(entry.path(), gone).string();
    if (name.find("memfd:fakegpu") != std::string::npos && stat(entry.path().c_str(), &info) == 0)
      open.insert(info.st_ino);
  }
  return open.size() - std::set<ino_t>(open.begin(), open.end()).size();
}

// A job of one member.
class FirstUse : public testing::Test {
 protected:
  void SetUp() override { Open(FTAR_FAKE_GPU); }
  void TearDown() override {
    Close();
    fakeGpuFailToOpen(0);
    EXPECT_EQ(cudaSetDevice(0), 0);
  }
  void Open(const char* library) {
    ftarJobConfig config = FTAR_JOB_CONFIG_INIT;
    ASSERT_EQ(Join(config, {{"gpu", library}}, &job_), FTAR_OK) << LastError().text;
    ASSERT_EQ(ftarGroupOpen(job_, nullptr, &group_), FTAR_OK) << LastError().text;
  }
  void Close() {
    ftarGroupClose(group_);
    ftarJobDestroy(job_);
  }
  ftarResult_t Run(const ftarOpDesc& desc) {
    ftarOp_t op = nullptr;
    const ftarResult_t started = ftarOpStart(group_, &desc, &op);
    if (started != FTAR_OK) return started;
    const ftarResult_t ended = ftarOpWait(op, kLongNs, nullptr);
    EXPECT_EQ(ftarOpRelease(op), FTAR_OK);
    return ended;
  }
  static ftarOpDesc AllReduce(void* data) {
    ftarOpDesc desc = FTAR_OP_DESC_INIT;
    desc.send = desc.recv = data;
    desc.count = kCount;
    return desc;
  }
  static ftarOpDesc Barrier() {
    ftarOpDesc desc = FTAR_OP_DESC_INIT;
    desc.kind = FTAR_BARRIER;
    return desc;
  }

  ftarJob_t job_ = nullptr;
  ftarGroup_t group_ = nullptr;
  std::vector<float> host_ = Values(kCount, 0);
};

TEST_F(FirstUse, CallsOnTheHostsMemoryOpenNoGpu) {
  const size_t before = fakeGpuAllocations();
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(Run(Barrier()), FTAR_OK);
    EXPECT_EQ(Run(AllReduce(host_.data())), FTAR_OK);
  }
  EXPECT_LE(fakeGpuAllocations(), before);  // an earlier test's may go meanwhile
}

// What an operation in place saves may be hundreds of blocks, and a process may have 1,024
// descriptors.
TEST_F(FirstUse, OnlyWhatPeersMayMapHasADescriptor) {
  OnGpu data(Values(kCount, 0));
  EXPECT_EQ(Run(AllReduce(data.get())), FTAR_OK) << LastError().text;
  EXPECT_EQ(ShownBlocks(), 0u);
  ftarMemDesc where = FTAR_MEM_DESC_INIT;
  where.kind = FTAR_MEM_CUDA;
  void* shown = nullptr;
  ASSERT_EQ(ftarMemAlloc(job_, 1, &where, &shown), FTAR_OK) << LastError().text;
  EXPECT_EQ(ShownBlocks(), 1u);
}

// It had left, it was told, whatever had ended it while it waited for a stream.
TEST_F(FirstUse, ALeaveThatAnAbortOvertakesHasFailed) {
  const OnGpu data(kCount);
  const Stream stream;
  std::atomic<bool> go{false};
  const auto hold = [](void* flag) {
    while (!static_cast<std::atomic<bool>*>(flag)->load()) SleepMs(1);
  };
  ASSERT_EQ(cudaLaunchHostFunc(stream.get(), hold, &go), 0);
  const ftarOpDesc desc = On(stream, AllReduce(data.get()));
  ASSERT_EQ(ftarOpStart(group_, &desc, nullptr), FTAR_OK) << LastError().text;
  EXPECT_EQ(ftarJobLeave(job_, 1), FTAR_TIMEOUT);
  std::thread leaves([this] { EXPECT_EQ(ftarJobLeave(job_, kLongNs), FTAR_ERR_ABORTED); });
  SleepMs(50);
  EXPECT_EQ(ftarJobAbort(job_, "a test of abort"), FTAR_OK);
  leaves.join();
  go = true;
  stream.Wait();
}

TEST_F(FirstUse, ATensorsGpuIsTheJobs) {
  EXPECT_EQ(Run(Barrier()), FTAR_OK);
  EXPECT_EQ(Run(AllReduce(host_.data())), FTAR_OK);
  ASSERT_EQ(cudaSetDevice(1), 0);
  OnGpu data(Values(kCount, 0));
  ASSERT_EQ(cudaSetDevice(0), 0);
  OnGpu elsewhere(Values(kCount, 0));
  EXPECT_EQ(Run(AllReduce(data.get())), FTAR_OK) << LastError().text;
  EXPECT_EQ(data.Read(), Values(kCount, 0));
  EXPECT_EQ(Run(AllReduce(elsewhere.get())), FTAR_ERR_ARG);
  EXPECT_NE(std::string(LastError().text).find("is on GPU 0"), std::string::npos);
}

TEST_F(FirstUse, AStreamsGpuIsTheJobs) {
  ASSERT_EQ(cudaSetDevice(1), 0);
  const Stream stream;
  OnGpu data(Values(kCount, 0));
  ASSERT_EQ(cudaSetDevice(0), 0);
  EXPECT_EQ(Run(On(stream, Barrier())), FTAR_OK) << LastError().text;
  EXPECT_EQ(Run(AllReduce(data.get())), FTAR_OK) << LastError().text;
}

TEST_F(FirstUse, AStreamOfAnotherGpuIsRefused) {
  ASSERT_EQ(cudaSetDevice(1), 0);
  const Stream elsewhere;
  ASSERT_EQ(cudaSetDevice(0), 0);
  const Stream stream;
  OnGpu data(Values(kCount, 0));
  EXPECT_EQ(Run(On(stream, AllReduce(data.get()))), FTAR_OK) << LastError().text;
  EXPECT_EQ(Run(On(elsewhere, AllReduce(data.get()))), FTAR_ERR_ARG);
  EXPECT_EQ(Run(On(stream, AllReduce(data.get()))), FTAR_OK) << LastError().text;
}

// The default stream is every GPU's.
TEST_F(FirstUse, ATensorsGpuIsThatOfTheDefaultStream) {
  ASSERT_EQ(cudaSetDevice(1), 0);
  OnGpu data(Values(kCount, 0));
  ASSERT_EQ(cudaSetDevice(0), 0);
  ftarOpDesc desc = AllReduce(data.get());
  desc.stream_kind = FTAR_STREAM_CUDA;
  EXPECT_EQ(Run(desc), FTAR_OK) << LastError().text;
}

// Written there by a kernel of the job's GPU, it would break the context.
TEST_F(FirstUse, AnOutcomeOnAnotherGpuIsRefused) {
  const Stream stream;
  OnGpu data(Values(kCount, 0));
  ASSERT_EQ(cudaSetDevice(1), 0);
  OnGpu elsewhere(kCount);
  ASSERT_EQ(cudaSetDevice(0), 0);
  ftarOpDesc desc = On(stream, AllReduce(data.get()));
  desc.device_outcome = elsewhere.get();
  EXPECT_EQ(Run(desc), FTAR_ERR_ARG);
  EXPECT_EQ(std::string(LastError().argument), "desc.device_outcome");
  EXPECT_NE(std::string(LastError().text).find("is on GPU 1"), std::string::npos);
  desc.device_outcome = data.get();
  EXPECT_EQ(Run(desc), FTAR_OK) << LastError().text;
}

TEST_F(FirstUse, AGpuThatDoesNotOpenIsTriedAgain) {
  OnGpu data(Values(kCount, 0));
  for (int i = 0; i < 3; ++i) EXPECT_EQ(Run(AllReduce(host_.data())), FTAR_OK);
  fakeGpuFailToOpen(2);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(Run(AllReduce(data.get())), FTAR_ERR_DEVICE);
    EXPECT_NE(std::string(LastError().text).find("no memory left for a context"),
              std::string::npos);
    EXPECT_EQ(std::string(LastError().argument), "desc.send");
    EXPECT_EQ(Run(AllReduce(host_.data())), FTAR_OK);
  }
  EXPECT_EQ(Run(AllReduce(data.get())), FTAR_OK) << LastError().text;
}

TEST_F(FirstUse, WithoutItsLibraryAGpusMemoryIsRefused) {
  Close();
  Open("/nowhere/libnothing.so");
  OnGpu data(Values(kCount, 0));
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(Run(AllReduce(host_.data())), FTAR_OK);
    EXPECT_EQ(Run(AllReduce(data.get())), FTAR_ERR_DEVICE);
    EXPECT_NE(std::string(LastError().text).find("libnothing"), std::string::npos);
  }
  ftarOpDesc desc = AllReduce(host_.data());
  desc.recv = data.get();
  EXPECT_EQ(Run(desc), FTAR_ERR_DEVICE);
  EXPECT_EQ(std::string(LastError().argument), "desc.recv");
}

// No GPU's either: a mistake of the caller's, like memory that is not mapped.
TEST_F(FirstUse, WhatNobodyCanReadIsRefused) {
  constexpr size_t kBytes = kCount * sizeof(float);
  void* const closed = mmap(nullptr, kBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(closed, MAP_FAILED);
  EXPECT_EQ(Run(AllReduce(closed)), FTAR_ERR_ARG);
  EXPECT_EQ(std::string(LastError().argument), "desc.send");
  ASSERT_EQ(munmap(closed, kBytes), 0);
}

}  // namespace
}  // namespace process
