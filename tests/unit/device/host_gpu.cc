#include "host_gpu.h"

#include <cstdlib>
#include <cstring>

#include "kernels/host_grid.h"
#include "kernels/host_resident.h"

namespace ftar::device {

HostGpu::HostGpu() : stream_([this] { RunStream(); }) {}

HostGpu::~HostGpu() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    ends_ = true;
    held_ = false;
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

Status HostGpu::Launch(const kernels::Plan& plan, uint64_t* done, uint64_t seq) {
  if (fail_launches_) return Status(Code::kDevice, "the launch fails, as the test asked");
  const std::lock_guard<std::mutex> lock(mutex_);
  queue_.push_back({.plan = plan, .done = done, .seq = seq});
  changed_.notify_all();
  return Status::Ok();
}

// kernels::RunOnHost reads the abort word as a device does, without atomics; these tests store it
// meanwhile. So its chunks are run one at a time here, with a look in between.
void HostGpu::RunStream() {
  std::unique_lock<std::mutex> lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return ends_ || (!held_ && !queue_.empty()); });
    if (queue_.empty()) return;
    Launched launched = queue_.front();
    queue_.pop_front();
    lock.unlock();
    kernels::Plan plan = launched.plan;
    const uint32_t* word = plan.job.abort_word;
    plan.job.abort_word = nullptr;
    const bool runs =
        word == nullptr ||
        std::atomic_ref<uint32_t>(*const_cast<uint32_t*>(word)).load(std::memory_order_relaxed) ==
            plan.job.epoch;
    if (runs && plan.blocks > 0) static_cast<void>(kernels::RunOnHost(plan));
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
