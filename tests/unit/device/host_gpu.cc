#include "host_gpu.h"

#include <cstdlib>
#include <cstring>
#include <utility>

#include "kernels/host_grid.h"
#include "kernels/host_resident.h"

namespace ftar::device {

HostGpu::HostGpu() : stream_([this] { RunStream(); }) {}

HostGpu::~HostGpu() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    ends_ = true;
    held_ = blocks_ = false;
    changed_.notify_all();
  }
  stream_.join();
  for (std::thread& thread : resident_) thread.join();
  for (void* memory : pinned_) std::free(memory);  // what its owner has left to us
}

void HostGpu::Hold(bool held) {
  const std::lock_guard<std::mutex> lock(mutex_);
  held_ = held;
  changed_.notify_all();
}

void HostGpu::BlockLaunches(bool block) {
  const std::lock_guard<std::mutex> lock(mutex_);
  blocks_ = block;
  changed_.notify_all();
}

std::vector<HostGpu::Call> HostGpu::calls() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return calls_;
}

Expected<void*> HostGpu::AllocatePinned(size_t bytes) {
  const size_t whole = (bytes + 4095) / 4096 * 4096;
  void* memory = std::aligned_alloc(4096, whole);
  std::memset(memory, 0, whole);
  const std::lock_guard<std::mutex> lock(mutex_);
  pinned_.insert(memory);
  return memory;
}

Status HostGpu::FreePinned(void* address) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (pinned_.erase(address) == 0) return Status(Code::kArg, "nothing of ours");
  std::free(address);
  return Status::Ok();
}

Status HostGpu::Launch(const kernels::Batch& batch, uint64_t* done, uint64_t seq) {
  if (fail_launches_) return Status(Code::kDevice, "the launch fails, as the test asked");
  std::unique_lock<std::mutex> lock(mutex_);
  calls_.push_back({.jobs = batch.jobs.count, .blocks = batch.blocks, .seq = seq});
  changed_.notify_all();
  changed_.wait(lock, [this] { return !blocks_; });
  queue_.push_back({.batch = batch, .done = done, .seq = seq});
  changed_.notify_all();
  return Status::Ok();
}

// kernels::RunOnHost reads the abort word as a device does, without atomics; these tests store it
// meanwhile. So it is looked at here, once for each launch.
void HostGpu::RunStream() {
  std::unique_lock<std::mutex> lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return ends_ || (!held_ && !queue_.empty()); });
    if (queue_.empty()) return;
    Launched launched = queue_.front();
    queue_.pop_front();
    lock.unlock();
    bool runs = true;
    for (uint32_t j = 0; j < launched.batch.jobs.count; ++j) {
      kernels::Job& job = launched.batch.jobs.job[j];
      auto* const word = const_cast<uint32_t*>(std::exchange(job.abort_word, nullptr));
      if (word == nullptr) continue;
      const std::atomic_ref<uint32_t> told(*word);
      runs = runs && told.load(std::memory_order_relaxed) == job.epoch;
    }
    if (runs && launched.batch.blocks > 0) static_cast<void>(kernels::RunOnHost(launched.batch));
    std::atomic_ref<uint64_t>(*launched.done).store(launched.seq, std::memory_order_release);
    lock.lock();
  }
}

Status HostGpu::LaunchResident(void* control, int blocks) {
  if (fail_launches_) return Status(Code::kDevice, "the launch fails, as the test asked");
  ++resident_launches_;
  resident_.emplace_back([this, control, blocks] {
    kernels::RunResidentOnHost(control, blocks - missing_,
                               [this](kernels::Job*) { return !refuses_; });
  });
  return Status::Ok();
}

Status HostGpu::Health() {
  return broken_ ? Status(Code::kDevice, "the context is broken, as the test asked") : Status::Ok();
}

}  // namespace ftar::device
