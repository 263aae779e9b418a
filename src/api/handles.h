// The table of live handles. What users hold is a number (kind, generation, slot) dressed up as a
// pointer, never an address: a freed or foreign handle is recognised instead of followed, whatever
// has happened to memory since.
//
// Threads: any. Ownership: the table holds one reference to each object. Find hands out a use of
// it, and an object lives through every call that is using it, even when its handle is released
// meanwhile; the last use ends it then. To find one takes no lock, as every call begins with it.
// The table itself is never destroyed, so that no destructor of a job runs at exit, least of all in
// a forked child, where its threads do not exist.
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
#include "ftar/ftar.h"

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

  constexpr HandleTable() = default;
  ~HandleTable();
  HandleTable(const HandleTable&) = delete;
  HandleTable& operator=(const HandleTable&) = delete;

  // The new handle; kMemory if all slots are taken.
  Expected<uintptr_t> Add(HandleKind kind, std::shared_ptr<void> object);
  // Of none if there is no such live handle of that kind.
  Use Find(HandleKind kind, uintptr_t handle);
  // The same, and the handle is dead from now on. Of several callers exactly one gets the object.
  Use Remove(HandleKind kind, uintptr_t handle);

  // For who hands out one object again and again, each time under another handle: what recurs keeps
  // its slot when its handle is dead. `slot_of` is any handle that the object has had.
  void LetRecur(uintptr_t slot_of);
  void EndRecurrence(uintptr_t slot_of);
  // Remove, for what recurs and is used by nobody. False: it is something else, nothing has
  // happened.
  bool Rest(HandleKind kind, uintptr_t handle);
  // Takes what rests: the caller alone has it, and Revives it, which makes its next handle, or lets
  // it rest again. Null: it does not rest, or has had all the handles that its slot can make.
  void* Claim(uintptr_t slot_of);
  // With an answer, whoever has the handle can read that without using the object.
  uintptr_t Revive(uintptr_t slot_of, bool answered);
  void RestAgain(uintptr_t slot_of);
  // Of what is claimed, to be filled in; null if there was no memory for it.
  ftarOutcome* AnswerOf(uintptr_t slot_of) { return SlotOf(slot_of)->answer; }
  // Null: it is no such handle, or no live one, or has none. Good until the handle is removed; its
  // memory stays readable after that.
  const ftarOutcome* FindAnswer(HandleKind kind, uintptr_t handle) const;
  // A word beside a live handle, for its maker's use; 0 at first. Stays readable for ever: what it
  // says of a handle that dies meanwhile means nothing. Null: it is no such handle, or no live one.
  std::atomic<uintptr_t>* WordBeside(HandleKind kind, uintptr_t handle);

  // Around fork(): the lock must not be somebody's in the child.
  void LockForFork() { lock_.lock(); }
  void UnlockAfterFork() { lock_.unlock(); }

 private:
  static constexpr uint32_t kChunkSlots = 1024, kChunks = 1024;
  static constexpr uint32_t kNone = UINT32_MAX;

  struct alignas(64) Slot {
    // Kind and generation as in the handle, whether the handle is alive and answered, or the object
    // rests, and how many use it. Who finds it alive adds a use in one go; nobody touches what is
    // dead and not used, but for one who claims what rests there.
    std::atomic<uint64_t> word{0};
    std::atomic<uintptr_t> beside{0};
    std::atomic<bool> recurs{false};
    ftarOutcome* answer = nullptr;  // never given back
    std::shared_ptr<void> object;
    uint32_t index = 0, next_free = kNone;
  };
  Slot* SlotOf(uintptr_t handle) const;
  Slot* Change(HandleKind kind, uintptr_t handle, bool dies);
  void EndUse(Slot* slot);
  void Free(Slot* slot);
  void FreeIfItRests(Slot* slot);
  Slot* TakeSlot();

  std::array<std::atomic<Slot*>, kChunks> chunks_ = {};  // never given back
  std::mutex lock_;                                      // of what follows
  uint32_t slots_ = 0;
  // First in, first out: the longest time before a slot is used again.
  uint32_t first_free_ = kNone, last_free_ = kNone;
};

namespace internal {
// Around the process's table, so that it is there from the start on and never destroyed.
union ProcessTable {
  constexpr ProcessTable() : table() {}
  ~ProcessTable() {}
  HandleTable table;
};
extern ProcessTable g_table;
}  // namespace internal

inline HandleTable& HandleTable::Get() { return internal::g_table.table; }

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
