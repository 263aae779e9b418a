#include "kernels/host_resident.h"

#include <time.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "kernels/resident_kernels.h"

namespace ftar::kernels {
namespace {

// A block of one thread.
class HostOps {
 public:
  HostOps(uint32_t block, ResidentControl* control, const Translate& translate)
      : block_(block), control_(control), translate_(translate) {}

  uint32_t Block() const { return block_; }
  uint32_t Thread() const { return 0; }
  uint32_t Threads() const { return 1; }
  ResidentShared* Shared() { return &shared_; }

  template <typename T>
  T LoadAcquire(const T* word) const {
    return std::atomic_ref<T>(*const_cast<T*>(word)).load(std::memory_order_acquire);
  }
  template <typename T>
  T LoadRelaxed(const T* word) const {
    return std::atomic_ref<T>(*const_cast<T*>(word)).load(std::memory_order_relaxed);
  }
  Pack LoadPack(const Pack* from) const {
    Pack pack;
    for (int i = 0; i < 4; ++i) pack.word[i] = LoadRelaxed(&from->word[i]);
    return pack;
  }
  template <typename T>
  void StoreRelaxed(T* word, T value) const {
    std::atomic_ref<T>(*word).store(value, std::memory_order_relaxed);
  }
  template <typename T>
  void StoreRelease(T* word, T value) const {
    std::atomic_ref<T>(*word).store(value, std::memory_order_release);
  }

  bool Any(Meeting, bool mine) const { return mine; }
  uint64_t NowNs() const {
    const auto now = std::chrono::steady_clock::now().time_since_epoch();
    return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(now).count());
  }
  // A device has nothing else to do; a host has.
  void Pause() {
    if (++pauses_ < 200) return std::this_thread::yield();
    const timespec some{.tv_sec = 0, .tv_nsec = 20'000};
    nanosleep(&some, nullptr);
  }

  void RunChunk(const ResidentPart& part, uint64_t chunk, uint32_t* sum) {
    pauses_ = 0;
    ResidentPart here = part;
    checksum_ = nullptr;
    if (!translate_(&here.job)) {
      StoreRelaxed(&control_->device[block_].refused, 1u);
      return;
    }
    checksum_ = here.job.checksum;
    RunResidentChunk(here, chunk, 0, 1, sum);
  }
  // To where the last chunk's job had it.
  void AddToChecksum(uint32_t*, uint32_t sum) {
    if (checksum_ == nullptr) return;
    std::atomic_ref<uint32_t>(*checksum_).fetch_add(sum, std::memory_order_relaxed);
    checksum_ = nullptr;
  }

 private:
  const uint32_t block_;
  ResidentControl* const control_;
  const Translate& translate_;
  ResidentShared shared_;
  uint32_t* checksum_ = nullptr;
  int pauses_ = 0;
};

}  // namespace

void RunResidentOnHost(void* control, int blocks, const Translate& translate) {
  auto* mailboxes = static_cast<ResidentControl*>(control);
  std::vector<std::thread> threads;
  for (int b = 0; b < blocks; ++b) {
    threads.emplace_back([mailboxes, b, &translate] {
      HostOps ops(static_cast<uint32_t>(b), mailboxes, translate);
      RunResidentBlock(ops, mailboxes);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace ftar::kernels
