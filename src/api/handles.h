// The table of live handles. What users hold is a number (kind, generation, slot) dressed up as a
// pointer, never an address: a freed or foreign handle is recognised instead of followed, whatever
// has happened to memory since.
//
// Threads: any. Ownership: the table holds one reference to each object. Find hands out a use of
// it, and an object lives through every call that is using it, even when its handle is released
// meanwhile; the last use ends it then. To find one takes no lock, as every call begins with it. The
// table itself is never destroyed, so that no destructor of a job runs at exit, least of all in a
// forked child, where its threads do not exist.
#ifndef FTAR_API_HANDLES_H_
#define FTAR_API_HANDLES_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>

#include "base/status.h"

namespace ftar::api {

enum class HandleKind : uint8_t { kFree = 0, kConfig, kJob, kGroup, kOp, kView, kMem };

class HandleTable {
 private:
  struct Slot;

 public:
  // Of a live object, or of none. Movable.
  class Use {
   public:
    Use() = default;
    Use(Use&& other) noexcept
        : table_(other.table_), slot_(std::exchange(other.slot_, nullptr)) {}
    Use& operator=(Use&& other) noexcept {
      Use gone(std::move(*this));
      table_ = other.table_;
      slot_ = std::exchange(other.slot_, nullptr);
      return *this;
    }
    ~Use() {
      if (slot_ != nullptr) table_->EndUse(slot_);
    }
    void* get() const;                     // null: of none
    std::shared_ptr<void> Share() const;  // to keep it for longer

   private:
    friend class HandleTable;
    Use(HandleTable* table, Slot* slot) : table_(table), slot_(slot) {}
    HandleTable* table_ = nullptr;
    Slot* slot_ = nullptr;
  };

  // The process's table.
  static HandleTable& Get();

  HandleTable() = default;
  ~HandleTable();
  HandleTable(const HandleTable&) = delete;
  HandleTable& operator=(const HandleTable&) = delete;

  // The new handle; kMemory if all slots are taken.
  Expected<uintptr_t> Add(HandleKind kind, std::shared_ptr<void> object);
  // Of none if there is no such live handle of that kind.
  Use Find(HandleKind kind, uintptr_t handle);
  // The same, and the handle is dead from now on. Of several callers exactly one gets the object.
  Use Remove(HandleKind kind, uintptr_t handle);

  // For who hands out one object again and again. Retire: the handle is dead, and the caller alone
  // has the object, which keeps its slot; null if it is none, or if somebody uses it. Then either
  // Revive, which makes a new handle for it, as long as CanRevive, or Discard.
  void* Retire(HandleKind kind, uintptr_t handle);
  void* Retired(uintptr_t handle);
  bool CanRevive(uintptr_t handle) const;
  uintptr_t Revive(uintptr_t handle);
  void Discard(uintptr_t handle);

  // Around fork(): the lock must not be somebody's in the child.
  void LockForFork() { lock_.lock(); }
  void UnlockAfterFork() { lock_.unlock(); }

 private:
  static constexpr uint32_t kChunkSlots = 1024, kChunks = 1024;
  static constexpr uint32_t kNone = UINT32_MAX;

  struct alignas(64) Slot {
    // Kind and generation as in the handle, whether the handle is alive, and how many use it. Who
    // finds it alive adds a use in one go; nobody touches what is dead and not used.
    std::atomic<uint64_t> word{0};
    std::shared_ptr<void> object;
    uint32_t index = 0, next_free = kNone;
  };
  Slot* SlotOf(uintptr_t handle) const;
  Slot* Change(HandleKind kind, uintptr_t handle, bool dies);
  void EndUse(Slot* slot);
  void Free(Slot* slot);
  Slot* TakeSlot();

  std::array<std::atomic<Slot*>, kChunks> chunks_ = {};  // never given back
  std::mutex lock_;                                      // of what follows
  uint32_t slots_ = 0;
  // First in, first out: the longest time before a slot is used again.
  uint32_t first_free_ = kNone, last_free_ = kNone;
};

template <typename T>
struct HandleTraits;  // kKind and Object of a public handle type; see objects.h

// A use of the object behind a handle of type H.
template <typename H>
class Used {
 public:
  using Object = typename HandleTraits<H>::Object;

  Used() = default;
  explicit Used(HandleTable::Use use)
      : use_(std::move(use)), object_(static_cast<Object*>(use_.get())) {}
  Object* operator->() const { return object_; }
  Object& operator*() const { return *object_; }
  bool operator==(std::nullptr_t) const { return object_ == nullptr; }
  // To keep it for longer than the call.
  std::shared_ptr<Object> Share() const { return std::static_pointer_cast<Object>(use_.Share()); }

 private:
  HandleTable::Use use_;
  Object* object_ = nullptr;
};

template <typename H>
Expected<H> AddHandle(std::shared_ptr<typename HandleTraits<H>::Object> object) {
  Expected<uintptr_t> number = HandleTable::Get().Add(HandleTraits<H>::kKind, std::move(object));
  if (!number.ok()) return number.status();
  return reinterpret_cast<H>(*number);
}

template <typename H>
Used<H> FindHandle(H handle) {
  return Used<H>(
      HandleTable::Get().Find(HandleTraits<H>::kKind, reinterpret_cast<uintptr_t>(handle)));
}

template <typename H>
Used<H> RemoveHandle(H handle) {
  return Used<H>(
      HandleTable::Get().Remove(HandleTraits<H>::kKind, reinterpret_cast<uintptr_t>(handle)));
}

// What a call says about a handle that Find did not know.
Status BadHandle(HandleKind kind, const void* handle);

}  // namespace ftar::api

#endif  // FTAR_API_HANDLES_H_
