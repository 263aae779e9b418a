#include "api/handles.h"

#include <new>
#include <utility>

#include "runtime/no_cancel.h"

namespace ftar::api {
namespace {

static_assert(sizeof(uintptr_t) == 8, "a handle's number needs 64 bits");

// From the top: a mark no address of a user process carries, kind, generation, slot.
constexpr uintptr_t kMark = 0xF7A9;
constexpr int kMarkShift = 48, kKindShift = 44, kGenerationShift = 20;
constexpr uint32_t kGenerationMax = (1u << 24) - 1;
constexpr uint32_t kSlotsMax = 1u << 20;

uintptr_t Encode(HandleKind kind, uint32_t generation, uint32_t slot) {
  return kMark << kMarkShift | static_cast<uintptr_t>(kind) << kKindShift |
         static_cast<uintptr_t>(generation) << kGenerationShift | slot;
}

HandleKind KindIn(uintptr_t handle) { return static_cast<HandleKind>(handle >> kKindShift & 15); }
uint32_t GenerationIn(uintptr_t handle) {
  return static_cast<uint32_t>(handle >> kGenerationShift) & kGenerationMax;
}

// A slot's word.
constexpr uint64_t kUsesMask = (uint64_t{1} << 32) - 1;
constexpr uint64_t kAlive = uint64_t{1} << 32;
constexpr int kWordKindShift = 33, kWordGenerationShift = 37;

// Alive, and used by nobody.
uint64_t WordOf(HandleKind kind, uint32_t generation) {
  return uint64_t{generation} << kWordGenerationShift |
         static_cast<uint64_t>(kind) << kWordKindShift | kAlive;
}
uint32_t GenerationOf(uint64_t word) {
  return static_cast<uint32_t>(word >> kWordGenerationShift) & kGenerationMax;
}

const char* KindName(HandleKind kind) {
  switch (kind) {
    case HandleKind::kFree: break;
    case HandleKind::kConfig: return "configuration";
    case HandleKind::kJob: return "job";
    case HandleKind::kGroup: return "group";
    case HandleKind::kOp: return "operation";
    case HandleKind::kView: return "view";
    case HandleKind::kMem: return "memory";
  }
  return "handle";
}

const char* KindArgument(HandleKind kind) {
  switch (kind) {
    case HandleKind::kFree: break;
    case HandleKind::kConfig: return "config";
    case HandleKind::kJob: return "job";
    case HandleKind::kGroup: return "group";
    case HandleKind::kOp: return "op";
    case HandleKind::kView: return "view";
    case HandleKind::kMem: return "mem";
  }
  return "handle";
}

}  // namespace

HandleTable& HandleTable::Get() {
  static HandleTable* const table = new HandleTable;
  return *table;
}

HandleTable::~HandleTable() {
  for (std::atomic<Slot*>& chunk : chunks_) delete[] chunk.load();
}

void* HandleTable::Use::get() const { return slot_ != nullptr ? slot_->object.get() : nullptr; }

std::shared_ptr<void> HandleTable::Use::Share() const {
  return slot_ != nullptr ? slot_->object : nullptr;
}

HandleTable::Slot* HandleTable::SlotOf(uintptr_t handle) const {
  const uint32_t index = handle & (kSlotsMax - 1);
  Slot* const chunk = chunks_[index / kChunkSlots].load(std::memory_order_acquire);
  return chunk != nullptr ? chunk + index % kChunkSlots : nullptr;
}

// With lock_. Null: there is none left, or no memory.
HandleTable::Slot* HandleTable::TakeSlot() {
  if (first_free_ != kNone) {
    Slot* const slot = SlotOf(first_free_);
    first_free_ = slot->next_free;
    if (first_free_ == kNone) last_free_ = kNone;
    return slot;
  }
  if (slots_ >= kSlotsMax) return nullptr;
  if (slots_ % kChunkSlots == 0) {
    Slot* const chunk = new (std::nothrow) Slot[kChunkSlots];
    if (chunk == nullptr) return nullptr;
    for (uint32_t i = 0; i < kChunkSlots; ++i) chunk[i].index = slots_ + i;
    chunks_[slots_ / kChunkSlots].store(chunk, std::memory_order_release);
  }
  return SlotOf(slots_++);
}

Expected<uintptr_t> HandleTable::Add(HandleKind kind, std::shared_ptr<void> object) {
  std::lock_guard<std::mutex> guard(lock_);
  Slot* const slot = TakeSlot();
  if (slot == nullptr) {
    return Status(Code::kMemory, "handle", "1,048,576 handles are alive; release some");
  }
  slot->object = std::move(object);
  const uint32_t generation = GenerationOf(slot->word.load(std::memory_order_relaxed)) + 1;
  slot->word.store(WordOf(kind, generation), std::memory_order_release);
  return Encode(kind, generation, slot->index);
}

// One use more, of what is alive until then. Null: it is no such handle, or no live one.
HandleTable::Slot* HandleTable::Change(HandleKind kind, uintptr_t handle, bool dies) {
  Slot* const slot = SlotOf(handle);
  if (slot == nullptr) return nullptr;
  uint64_t word = slot->word.load(std::memory_order_acquire);
  while (true) {
    if ((word | kUsesMask) != (WordOf(kind, GenerationIn(handle)) | kUsesMask) ||
        handle != Encode(kind, GenerationIn(handle), slot->index))
      return nullptr;
    const uint64_t next = (dies ? word & ~kAlive : word) + 1;
    if (slot->word.compare_exchange_weak(word, next, std::memory_order_acq_rel)) return slot;
  }
}

HandleTable::Use HandleTable::Find(HandleKind kind, uintptr_t handle) {
  return {this, Change(kind, handle, /*dies=*/false)};
}

HandleTable::Use HandleTable::Remove(HandleKind kind, uintptr_t handle) {
  return {this, Change(kind, handle, /*dies=*/true)};
}

void HandleTable::EndUse(Slot* slot) {
  const uint64_t word = slot->word.fetch_sub(1, std::memory_order_acq_rel) - 1;
  if ((word & (kAlive | kUsesMask)) == 0) Free(slot);
}

// Dead, and used by nobody. A worn-out slot is not used again.
void HandleTable::Free(Slot* slot) {
  const runtime::NoCancel whole;  // a job may end here
  const std::shared_ptr<void> gone = std::exchange(slot->object, nullptr);  // ends without the lock
  std::lock_guard<std::mutex> guard(lock_);
  if (GenerationOf(slot->word.load(std::memory_order_relaxed)) >= kGenerationMax) return;
  slot->next_free = kNone;
  (last_free_ == kNone ? first_free_ : SlotOf(last_free_)->next_free) = slot->index;
  last_free_ = slot->index;
}

void* HandleTable::Retire(HandleKind kind, uintptr_t handle) {
  Slot* const slot = SlotOf(handle);
  if (slot == nullptr || handle != Encode(kind, GenerationIn(handle), slot->index)) return nullptr;
  uint64_t word = WordOf(kind, GenerationIn(handle));
  const bool done =
      slot->word.compare_exchange_strong(word, word & ~kAlive, std::memory_order_acq_rel);
  return done ? slot->object.get() : nullptr;
}

void* HandleTable::Retired(uintptr_t handle) { return SlotOf(handle)->object.get(); }

bool HandleTable::CanRevive(uintptr_t handle) const {
  return GenerationIn(handle) < kGenerationMax;
}

uintptr_t HandleTable::Revive(uintptr_t handle) {
  Slot* const slot = SlotOf(handle);
  const HandleKind kind = KindIn(handle);
  const uint32_t generation = GenerationIn(handle) + 1;
  slot->word.store(WordOf(kind, generation), std::memory_order_release);
  return Encode(kind, generation, slot->index);
}

void HandleTable::Discard(uintptr_t handle) { Free(SlotOf(handle)); }

Status BadHandle(HandleKind kind, const void* handle) {
  const std::string name = KindName(kind);
  if (handle == nullptr)
    return Status(Code::kHandle, KindArgument(kind), "the " + name + " is null");
  return Status(Code::kHandle, KindArgument(kind),
                "this is no live " + name + ": released already, or not one of libftar's");
}

}  // namespace ftar::api
