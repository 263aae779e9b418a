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
// It bears the mark, too; which slot it names is not asked.
bool IsOf(HandleKind kind, uintptr_t handle) {
  return handle >> kKindShift ==
         (kMark << (kMarkShift - kKindShift) | static_cast<uintptr_t>(kind));
}

// A slot's word. Kind and generation lie side by side, as in the handle.
constexpr uint64_t kUsesMask = (uint64_t{1} << 32) - 1;
constexpr uint64_t kAlive = uint64_t{1} << 32;
constexpr int kWordGenerationShift = 33, kWordKindShift = 57;
constexpr uintptr_t kNameMask = (uintptr_t{1} << (kMarkShift - kGenerationShift)) - 1;
static_assert(kWordKindShift - kWordGenerationShift == kKindShift - kGenerationShift);
constexpr uint64_t kRests = uint64_t{1} << 61, kAnswered = uint64_t{1} << 62;

// Alive, and used by nobody.
uint64_t WordOf(HandleKind kind, uint32_t generation) {
  return uint64_t{generation} << kWordGenerationShift |
         static_cast<uint64_t>(kind) << kWordKindShift | kAlive;
}
uint64_t WordOf(uintptr_t handle) {
  return uint64_t{handle >> kGenerationShift & kNameMask} << kWordGenerationShift | kAlive;
}
// Nobody has it.
bool IsOver(uint64_t word) { return (word & (kAlive | kUsesMask | kRests)) == 0; }
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

constinit internal::ProcessTable internal::g_table;

HandleTable::~HandleTable() {
  for (std::atomic<Slot*>& chunk : chunks_) {
    Slot* const slots = chunk.load();
    for (uint32_t i = 0; slots != nullptr && i < kChunkSlots; ++i) delete slots[i].answer;
    delete[] slots;
  }
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
  slot->beside.store(0, std::memory_order_relaxed);
  slot->recurs.store(false, std::memory_order_relaxed);
  const uint32_t generation = GenerationOf(slot->word.load(std::memory_order_relaxed)) + 1;
  slot->word.store(WordOf(kind, generation), std::memory_order_release);
  return Encode(kind, generation, slot->index);
}

// One use more, of what is alive until then. Null: it is no such handle, or no live one.
HandleTable::Slot* HandleTable::Change(HandleKind kind, uintptr_t handle, bool dies) {
  Slot* const slot = SlotOf(handle);
  if (slot == nullptr || !IsOf(kind, handle)) return nullptr;
  uint64_t word = slot->word.load(std::memory_order_acquire);
  while ((word & ~(kUsesMask | kAnswered)) == WordOf(handle)) {
    const uint64_t next = (dies ? word & ~kAlive : word) + 1;
    if (slot->word.compare_exchange_weak(word, next, std::memory_order_acq_rel)) return slot;
  }
  return nullptr;
}

HandleTable::Use HandleTable::Find(HandleKind kind, uintptr_t handle) {
  return {this, Change(kind, handle, /*dies=*/false)};
}

HandleTable::Use HandleTable::Remove(HandleKind kind, uintptr_t handle) {
  return {this, Change(kind, handle, /*dies=*/true)};
}

[[gnu::hot]] void HandleTable::EndUse(Slot* slot) {
  const uint64_t word = slot->word.fetch_sub(1, std::memory_order_acq_rel) - 1;
  if (IsOver(word)) Free(slot);
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

void HandleTable::LetRecur(uintptr_t slot_of) {
  Slot* const slot = SlotOf(slot_of);
  if (slot->answer == nullptr) slot->answer = new (std::nothrow) ftarOutcome(FTAR_OUTCOME_INIT);
  slot->recurs.store(true);
}

// Of one who lets it rest, and one who ends the recurrence, one at least sees both: the one's word
// is out before it looks at the other's.
[[gnu::hot]] void HandleTable::FreeIfItRests(Slot* slot) {
  uint64_t word = slot->word.load();
  if ((word & kRests) != 0 && !slot->recurs.load() &&
      slot->word.compare_exchange_strong(word, word & ~kRests))
    Free(slot);
}

void HandleTable::EndRecurrence(uintptr_t slot_of) {
  Slot* const slot = SlotOf(slot_of);
  slot->recurs.store(false);
  FreeIfItRests(slot);
}

bool HandleTable::Rest(HandleKind kind, uintptr_t handle) {
  Slot* const slot = SlotOf(handle);
  if (slot == nullptr || !IsOf(kind, handle) || !slot->recurs.load(std::memory_order_relaxed))
    return false;
  uint64_t word = slot->word.load(std::memory_order_relaxed);
  if ((word & ~kAnswered) != WordOf(handle) ||
      !slot->word.compare_exchange_strong(word, (word & ~(kAlive | kAnswered)) | kRests))
    return false;
  FreeIfItRests(slot);
  return true;
}

void* HandleTable::Claim(uintptr_t slot_of) {
  Slot* const slot = SlotOf(slot_of);
  uint64_t word = slot->word.load(std::memory_order_acquire);
  const bool can = (word & kRests) != 0 && GenerationOf(word) < kGenerationMax;
  if (!can || !slot->word.compare_exchange_strong(word, (word & ~kRests) + 1)) return nullptr;
  return slot->object.get();
}

// Nobody else changes the word of what is claimed.
uintptr_t HandleTable::Revive(uintptr_t slot_of, bool answered) {
  Slot* const slot = SlotOf(slot_of);
  const uint32_t generation = GenerationOf(slot->word.load(std::memory_order_relaxed)) + 1;
  const HandleKind kind = KindIn(slot_of);
  slot->word.store(WordOf(kind, generation) | (answered ? kAnswered : 0),
                   std::memory_order_release);
  return Encode(kind, generation, slot->index);
}

void HandleTable::RestAgain(uintptr_t slot_of) {
  Slot* const slot = SlotOf(slot_of);
  slot->word.fetch_add(kRests - 1);
  FreeIfItRests(slot);
}

const ftarOutcome* HandleTable::FindAnswer(HandleKind kind, uintptr_t handle) const {
  const Slot* const slot = SlotOf(handle);
  if (slot == nullptr || !IsOf(kind, handle)) return nullptr;
  const uint64_t word = slot->word.load(std::memory_order_acquire);
  return (word & ~kUsesMask) == (WordOf(handle) | kAnswered) ? slot->answer : nullptr;
}

[[gnu::hot]] std::atomic<uintptr_t>* HandleTable::WordBeside(HandleKind kind, uintptr_t handle) {
  Slot* const slot = SlotOf(handle);
  if (slot == nullptr || !IsOf(kind, handle)) return nullptr;
  const uint64_t word = slot->word.load(std::memory_order_acquire);
  return (word & ~(kUsesMask | kAnswered)) == WordOf(handle) ? &slot->beside : nullptr;
}

Status BadHandle(HandleKind kind, const void* handle) {
  const std::string name = KindName(kind);
  if (handle == nullptr)
    return Status(Code::kHandle, KindArgument(kind), "the " + name + " is null");
  return Status(Code::kHandle, KindArgument(kind),
                "this is no live " + name + ": released already, or not one of libftar's");
}

}  // namespace ftar::api
