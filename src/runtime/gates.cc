#include "runtime/gates.h"

#include <algorithm>
#include <atomic>

namespace ftar::runtime {
namespace {

constexpr size_t kBlockBytes = 4096;

std::atomic_ref<uint32_t> Word(uint32_t& word) { return std::atomic_ref<uint32_t>(word); }

}  // namespace

GatePool::~GatePool() {
  TakePassed();
  if (free_.size() < gates_) return;
  for (void* const block : blocks_) static_cast<void>(gpu_->FreePinned(block));
}

void GatePool::TakePassed() {
  std::erase_if(opened_, [this](device::Gate* gate) {
    if (Word(gate->passed).load(std::memory_order_acquire) == 0) return false;
    Word(gate->passed).store(0, std::memory_order_relaxed);
    Word(gate->ready).store(0, std::memory_order_relaxed);
    free_.push_back(gate);
    return true;
  });
}

Expected<device::Gate*> GatePool::Take() {
  if (free_.empty()) TakePassed();
  if (free_.empty()) {
    // Before there are more gates: all that is done with those that there are needs no memory.
    constexpr size_t kMore = kBlockBytes / sizeof(device::Gate);
    free_.reserve(gates_ + kMore);
    opened_.reserve(gates_ + kMore);
    blocks_.reserve(blocks_.size() + 1);
    const Expected<void*> block = gpu_->AllocatePinned(kBlockBytes);
    if (!block.ok()) return block.status();
    blocks_.push_back(*block);
    auto* const first = static_cast<device::Gate*>(*block);
    for (size_t i = 0; i < kMore; ++i) {
      free_.push_back(new (first + i) device::Gate);
      ++gates_;
    }
  }
  device::Gate* const gate = free_.back();
  free_.pop_back();
  return gate;
}

bool GatePool::TakeReady(device::Gate* gate) {
  if (Word(gate->ready).load(std::memory_order_acquire) == 0) return false;
  Word(gate->ready).store(0, std::memory_order_relaxed);
  return true;
}

void GatePool::Open(device::Gate* gate, const device::Gate::Outcome& outcome, bool again) {
  gate->outcome = outcome;
  if (!again) opened_.push_back(gate);
  Word(gate->done).store(1, std::memory_order_release);
}

}  // namespace ftar::runtime
