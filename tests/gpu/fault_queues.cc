// The GPU's queues: CUDA deals its streams out over a few (CUDA_DEVICE_MAX_CONNECTIONS), and what
// stands in a queue behind a stream that waits, waits with it. A launch of ours that does so can
// only be ended by `timeout`.
//
// Which streams share a queue is not documented, so it is measured: each of many streams waits
// alone, then one more at a time. docs/gpu.md says how many may wait at once.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <thread>
#include <vector>

#include "fault.h"

namespace ftar::device {
namespace {

constexpr int kStreams = 32;
constexpr TimeNs kQueuePatienceNs = 200 * kMillisecond;

std::atomic_ref<uint32_t> WordOf(uint32_t& word) { return std::atomic_ref<uint32_t>(word); }

template <typename End>
bool AwaitQueue(TimeNs patience, const End& end) {
  const TimeNs deadline = Now() + patience;
  while (!end()) {
    if (Now() > deadline) return false;
    std::this_thread::yield();
  }
  return true;
}

// Many streams with a gate each, and a launch of ours.
class Crowd {
 public:
  explicit Crowd(Gpu* gpu) : gpu_(gpu) {
    const Expected<void*> words = gpu_->AllocatePinned(2 * kWordsBytes);
    ExpectOk(words.status(), "pinned memory");
    ExpectOk(gpu_->LoadKernels(), "kernels");
    if (!words.ok()) return;
    gates_ = static_cast<Gate*>(*words);
    done_ = reinterpret_cast<uint64_t*>(static_cast<char*>(*words) + kWordsBytes);
    for (cudaStream_t& stream : streams_) {
      ExpectCuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "stream");
    }
  }
  ~Crowd() {
    for (cudaStream_t stream : streams_) cudaStreamDestroy(stream);
    if (gates_ != nullptr) ExpectOk(gpu_->FreePinned(gates_), "free");
  }
  bool good() const { return gates_ != nullptr; }

  // False if the stream itself stands behind another one.
  bool Close(int stream) {
    gates_[stream] = {};
    closed_.push_back(stream);
    ExpectOk(gpu_->EnqueueGate(streams_[stream], &gates_[stream], nullptr), "gate");
    return AwaitQueue(kQueuePatienceNs, [&] { return WordOf(gates_[stream].ready).load() == 1; });
  }
  // All streams go on, and so does what was launched.
  void Open() {
    for (const int i : closed_) WordOf(gates_[i].done).store(1, std::memory_order_release);
    for (const int i : closed_) ExpectCuda(cudaStreamSynchronize(streams_[i]), "synchronize");
    closed_.clear();
    Expect(AwaitQueue(10 * kSecond, [this] { return Done(); }), "a launch does not end");
  }
  // Whether a launch of ours ends now.
  bool Passes() {
    ExpectOk(gpu_->Launch(Copy(data_.data(), data_.data() + 2048, 64), done_, ++number_), "launch");
    return AwaitQueue(kQueuePatienceNs, [this] { return Done(); });
  }

 private:
  static constexpr size_t kWordsBytes = 4096;
  static_assert(kStreams * sizeof(Gate) <= kWordsBytes);
  bool Done() const {
    return std::atomic_ref<uint64_t>(*done_).load(std::memory_order_acquire) == number_;
  }

  Gpu* gpu_;
  Memory data_{4096};
  Gate* gates_ = nullptr;
  uint64_t* done_ = nullptr;
  uint64_t number_ = 0;
  cudaStream_t streams_[kStreams] = {};
  std::vector<int> closed_;
};

}  // namespace

void TestQueues(Gpu* gpu) {
  Crowd crowd(gpu);
  if (!crowd.good()) return;
  int behind = 0;
  const int before = failures;
  for (int i = 0; i < kStreams && failures == before; ++i) {
    Expect(crowd.Close(i), "a stream that is alone does not come to its gate");
    if (!crowd.Passes()) {
      std::printf("  our launches stand behind stream %d of %d\n", i, kStreams);
      ++behind;
    }
    crowd.Open();
  }
  int together = 0;
  while (together < kStreams && crowd.Close(together) && crowd.Passes()) ++together;
  crowd.Open();
  const int queues = static_cast<int>(gpu->facts().queues);
  std::printf("  %d streams may wait at once beside ours; CUDA_DEVICE_MAX_CONNECTIONS says %d\n",
              together, queues);
  Bar("streams that hold ours up", behind, "of 32", 0);
  Bar("too few may wait, by", std::max(0, queues - 1 - together), "streams", 0);
}

}  // namespace ftar::device
