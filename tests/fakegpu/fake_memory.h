// The fake GPU's memory: what the GPU owns lies behind addresses that the host cannot follow, so
// that a library which follows one by mistake dies of it.
//
// A device allocation is a memfd, mapped twice: without any access at the address that is given
// out, and readable at one that only the fake's kernels know. Other processes map it by its
// descriptor. Any thread.
#ifndef FTAR_TESTS_FAKEGPU_FAKE_MEMORY_H_
#define FTAR_TESTS_FAKEGPU_FAKE_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>

#include "device/gpu.h"

namespace ftar::fakegpu {

// Programs see the first card alone. Tests know of the second.
inline constexpr int32_t kCards = 2;
int32_t& CurrentCard();  // the calling thread's

class FakeMemory {
 public:
  static FakeMemory& Get();

  Expected<device::SharedBlock> AllocateDevice(size_t bytes, int32_t card);
  Expected<void*> Import(int descriptor, size_t bytes, int32_t card);
  Status FreeDevice(void* address);  // of either
  Status Unmap(void* address);       // of what was imported
  Expected<device::DmaBuf> OpenDmaBuf(const void* address, size_t bytes) const;
  Expected<void*> AllocatePinned(size_t bytes);
  Status FreePinned(void* address);

  device::PointerFacts Identify(const void* address) const;
  bool Holds(const void* address, size_t bytes) const;
  // Where the host finds what the GPU has at `address`; null where the GPU has nothing, as in
  // ordinary memory of the host.
  void* Reach(const void* address) const;
  // Null also where it does not reach as far, or is not to be written.
  void* Reach(const void* address, size_t bytes, bool writes) const;
  bool IsPinned(const void* address, size_t bytes) const;
  size_t allocations() const;
  size_t imports() const;

 private:
  struct Allocation {
    device::PointerKind kind = device::PointerKind::kDevice;
    size_t bytes = 0;
    void* reachable = nullptr;
    int descriptor = -1;
    bool imported = false;
    int32_t card = 0;
  };
  Expected<device::SharedBlock> Map(int descriptor, size_t bytes, bool imported, int32_t card);
  const Allocation* Find(const void* address, size_t* offset) const;

  mutable std::mutex mutex_;
  std::map<uintptr_t, Allocation> allocations_;
  size_t imports_ = 0;
};

}  // namespace ftar::fakegpu

#endif  // FTAR_TESTS_FAKEGPU_FAKE_MEMORY_H_
