// Two members in this process whose operations are in a GPU's memory and on streams, over a GPU
// that is none (tests/fakegpu): its memory cannot be followed by the host, its kernels and streams
// are threads.
#ifndef FTAR_TESTS_PROCESS_API_DEVICE_JOBS_H_
#define FTAR_TESTS_PROCESS_API_DEVICE_JOBS_H_

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "ftar/ftar.h"
#include "tests/fakegpu/fake_runtime.h"
#include "tests/process/api/jobs.h"
#include "tests/process/harness.h"

namespace process {

inline constexpr int kMembers = 2;
inline constexpr int kAnyWay = 4;  // cudaMemcpyDefault

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

inline ftarOpDesc On(const Stream& stream, ftarOpDesc desc) {
  desc.stream_kind = FTAR_STREAM_CUDA;
  desc.stream = stream.get();
  return desc;
}

inline std::vector<float> Values(size_t count, int member, int round = 0) {
  std::vector<float> out(count);
  for (size_t i = 0; i < count; ++i) {
    out[i] = static_cast<float>(
        (i * 7 + static_cast<size_t>(member) * 31 + static_cast<size_t>(round) * 3) % 1000);
  }
  return out;
}

inline std::vector<float> Sum(size_t count, int round = 0) {
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

inline auto EveryCase() {
  return testing::Values(Case{"shm", "bounded"}, Case{"shm", "resident"}, Case{"tcp", "bounded"},
                         Case{"tcp", "resident"});
}

inline std::string NameOf(const testing::TestParamInfo<Case>& info) {
  return std::string(info.param.transport) + "_" + info.param.executor;
}

}  // namespace process

#endif  // FTAR_TESTS_PROCESS_API_DEVICE_JOBS_H_
