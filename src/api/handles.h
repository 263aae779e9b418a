// The table of live handles. What users hold is a number (kind, generation, slot) dressed up as a
// pointer, never an address: a freed or foreign handle is recognised instead of followed, whatever
// has happened to memory since.
//
// Threads: any. Ownership: the table holds one reference to each object; Find hands out another, so
// an object lives through every call that is using it, even when its handle is released meanwhile.
// The table itself is never destroyed, so that no destructor of a job runs at exit, least of all in
// a forked child, where its threads do not exist.
#ifndef FTAR_API_HANDLES_H_
#define FTAR_API_HANDLES_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <vector>

#include "base/status.h"

namespace ftar::api {

enum class HandleKind : uint8_t { kFree = 0, kConfig, kJob, kGroup, kOp, kView, kMem };

class HandleTable {
 public:
  // The process's table.
  static HandleTable& Get();

  HandleTable();
  HandleTable(const HandleTable&) = delete;
  HandleTable& operator=(const HandleTable&) = delete;

  // The new handle; kMemory if all slots are taken.
  Expected<uintptr_t> Add(HandleKind kind, std::shared_ptr<void> object);
  // Null if there is no such live handle of that kind.
  std::shared_ptr<void> Find(HandleKind kind, uintptr_t handle);
  // The same, and the handle is dead from now on. Of several callers exactly one gets the object.
  std::shared_ptr<void> Remove(HandleKind kind, uintptr_t handle);

  // Around fork(): the lock must not be somebody's in the child.
  void LockForFork() { lock_.lock(); }
  void UnlockAfterFork() { lock_.unlock(); }

 private:
  struct Slot {
    std::shared_ptr<void> object;
    HandleKind kind = HandleKind::kFree;
    uint32_t generation = 0;  // grows with every use of the slot; a worn-out slot is not used again
  };
  Slot* SlotOf(HandleKind kind, uintptr_t handle);

  std::mutex lock_;
  std::vector<Slot> slots_;
  std::deque<uint32_t> free_;  // first in, first out: the longest time before a slot is used again
};

template <typename T>
struct HandleTraits;  // kKind and Object of a public handle type; see objects.h

template <typename H>
Expected<H> AddHandle(std::shared_ptr<typename HandleTraits<H>::Object> object) {
  Expected<uintptr_t> number = HandleTable::Get().Add(HandleTraits<H>::kKind, std::move(object));
  if (!number.ok()) return number.status();
  return reinterpret_cast<H>(*number);
}

template <typename H>
std::shared_ptr<typename HandleTraits<H>::Object> FindHandle(H handle) {
  return std::static_pointer_cast<typename HandleTraits<H>::Object>(
      HandleTable::Get().Find(HandleTraits<H>::kKind, reinterpret_cast<uintptr_t>(handle)));
}

template <typename H>
std::shared_ptr<typename HandleTraits<H>::Object> RemoveHandle(H handle) {
  return std::static_pointer_cast<typename HandleTraits<H>::Object>(
      HandleTable::Get().Remove(HandleTraits<H>::kKind, reinterpret_cast<uintptr_t>(handle)));
}

// What a call says about a handle that Find did not know.
Status BadHandle(HandleKind kind, const void* handle);

}  // namespace ftar::api

#endif  // FTAR_API_HANDLES_H_
