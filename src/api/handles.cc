#include "api/handles.h"

#include <utility>

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

HandleTable::HandleTable() = default;

Expected<uintptr_t> HandleTable::Add(HandleKind kind, std::shared_ptr<void> object) {
  std::lock_guard<std::mutex> guard(lock_);
  uint32_t index = 0;
  if (!free_.empty()) {
    index = free_.front();
    free_.pop_front();
  } else {
    if (slots_.size() >= kSlotsMax) {
      return Status(Code::kMemory, "handle", "1,048,576 handles are alive; release some");
    }
    index = static_cast<uint32_t>(slots_.size());
    slots_.emplace_back();
  }
  Slot& slot = slots_[index];
  slot.object = std::move(object);
  slot.kind = kind;
  ++slot.generation;
  return Encode(kind, slot.generation, index);
}

HandleTable::Slot* HandleTable::SlotOf(HandleKind kind, uintptr_t handle) {
  const uint32_t index = handle & (kSlotsMax - 1);
  if (index >= slots_.size()) return nullptr;
  Slot& slot = slots_[index];
  const bool alive = slot.kind == kind && handle == Encode(kind, slot.generation, index);
  return alive ? &slot : nullptr;
}

std::shared_ptr<void> HandleTable::Find(HandleKind kind, uintptr_t handle) {
  std::lock_guard<std::mutex> guard(lock_);
  Slot* slot = SlotOf(kind, handle);
  return slot != nullptr ? slot->object : nullptr;
}

std::shared_ptr<void> HandleTable::Remove(HandleKind kind, uintptr_t handle) {
  std::lock_guard<std::mutex> guard(lock_);
  Slot* slot = SlotOf(kind, handle);
  if (slot == nullptr) return nullptr;
  // The slot goes to the free list first: should that run out of memory, the handle stays alive.
  if (slot->generation < kGenerationMax) free_.push_back(handle & (kSlotsMax - 1));
  slot->kind = HandleKind::kFree;
  return std::exchange(slot->object, nullptr);
}

Status BadHandle(HandleKind kind, const void* handle) {
  const std::string name = KindName(kind);
  if (handle == nullptr)
    return Status(Code::kHandle, KindArgument(kind), "the " + name + " is null");
  return Status(Code::kHandle, KindArgument(kind),
                "this is no live " + name + ": released already, or not one of libftar's");
}

}  // namespace ftar::api
