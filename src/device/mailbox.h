// The host's side of the resident kernel's mailboxes (kernels/resident.h).
//
// A template over the operations on memory, so that the device simulator sees the very order in
// which they are made. Lines are written by one side only; what the device wrote is returned as it
// is, and whoever reads it has to check it.
#ifndef FTAR_DEVICE_MAILBOX_H_
#define FTAR_DEVICE_MAILBOX_H_

#include <atomic>
#include <cstdint>

#include "base/mutant.h"
#include "kernels/resident.h"

namespace ftar::device {

// Memory that both sides see, as this processor does it.
struct HostMemory {
  template <typename T>
  T LoadAcquire(const T* word) const {
    return std::atomic_ref<T>(*const_cast<T*>(word)).load(std::memory_order_acquire);
  }
  template <typename T>
  void StoreRelaxed(T* word, T value) const {
    std::atomic_ref<T>(*word).store(value, std::memory_order_relaxed);
  }
  template <typename T>
  void StoreRelease(T* word, T value) const {
    std::atomic_ref<T>(*word).store(value, std::memory_order_release);
  }
  void StorePack(kernels::Pack* to, const kernels::Pack& pack) const {
    for (int i = 0; i < 4; ++i) StoreRelaxed(&to->word[i], pack.word[i]);
  }
};

template <typename Memory>
class Mailboxes {
 public:
  Mailboxes(kernels::ResidentControl* control, Memory memory)
      : control_(control), memory_(memory) {}

  // What a kernel reads when it comes; before it is launched. `first`: of a block's next part.
  template <typename First>
  void Prepare(uint32_t generation, int blocks, uint64_t silence_ns, uint64_t patience_ns,
               const First& first) {
    generation_ = generation;
    for (int b = 0; b < blocks; ++b) memory_.StoreRelaxed(&control_->host.first[b], first(b));
    memory_.StoreRelaxed(&control_->host.silence_ns, silence_ns);
    memory_.StoreRelaxed(&control_->host.patience_ns, patience_ns);
    memory_.StoreRelease(&control_->host.generation, generation);
  }

  // The slot is free: its part before the last kResidentSlots is done.
  void Post(int block, const kernels::ResidentPart& part) {
    kernels::ResidentSlot& slot = control_->slot[block][part.number % kernels::kResidentSlots];
    if (FTAR_MUTANT(kNumberBeforePart)) memory_.StoreRelease(&slot.number, part.number);
    auto* to = reinterpret_cast<kernels::Pack*>(&slot.part);
    const auto* from = reinterpret_cast<const kernels::Pack*>(&part);
    for (uint32_t i = 0; i < kernels::kResidentPartPacks; ++i) memory_.StorePack(&to[i], from[i]);
    if (!FTAR_MUTANT(kNumberBeforePart)) memory_.StoreRelease(&slot.number, part.number);
  }

  void Abort(uint32_t epoch) { memory_.StoreRelease(&control_->host.abort_epoch, epoch); }
  void Recall() { memory_.StoreRelease(&control_->host.stop, generation_); }
  void Beat() {
    alive_ += 2;
    memory_.StoreRelease(&control_->host.alive, alive_ | (held_ ? 1u : 0u));
  }
  // Held: blocks that have heard it do not leave for silence.
  void Hold(bool held) {
    held_ = held;
    Beat();
  }
  bool Heard(int block) const {
    const uint32_t heard = memory_.LoadAcquire(&control_->device[block].heard);
    return heard == (alive_ | (held_ ? 1u : 0u));
  }

  uint64_t Done(int block) const { return memory_.LoadAcquire(&control_->device[block].done); }
  uint64_t Moved(int block) const { return memory_.LoadAcquire(&control_->device[block].moved); }
  bool Up(int block) const {
    return memory_.LoadAcquire(&control_->device[block].up) == generation_;
  }
  bool Left(int block) const {
    return memory_.LoadAcquire(&control_->device[block].left) == generation_;
  }
  bool Refused(int block) const {
    return memory_.LoadAcquire(&control_->device[block].refused) != 0;
  }

 private:
  kernels::ResidentControl* control_;
  Memory memory_;
  uint32_t generation_ = 0;
  uint32_t alive_ = 0;
  bool held_ = false;
};

}  // namespace ftar::device

#endif  // FTAR_DEVICE_MAILBOX_H_
