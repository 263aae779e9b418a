#include "fake_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace ftar::fakegpu {
namespace {

constexpr size_t kPage = 4096;
constexpr size_t kGranule = size_t{2} << 20;  // of what is shared, as a GPU has it
// A GPU's memory is not zeroed. Not all of it is written here, as nobody uses all.
constexpr int kLeftByOthers = 0xa5;
constexpr size_t kLeftBytes = size_t{256} << 10;

size_t Whole(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

Status NoMemory() { return Status(Code::kMemory, "the fake GPU has no memory left"); }

}  // namespace

int32_t& CurrentCard() {
  thread_local int32_t card = 0;
  return card;
}

FakeMemory& FakeMemory::Get() {
  static auto* const memory = new FakeMemory;  // kernels may outlive main
  return *memory;
}

Expected<device::SharedBlock> FakeMemory::Map(int descriptor, size_t bytes, bool imported,
                                              int32_t card) {
  void* const shown = mmap(nullptr, bytes, PROT_NONE, MAP_SHARED, descriptor, 0);
  void* const reachable = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  if (shown == MAP_FAILED || reachable == MAP_FAILED) return NoMemory();
  if (!imported) std::memset(reachable, kLeftByOthers, std::min(bytes, kLeftBytes));
  const std::lock_guard<std::mutex> lock(mutex_);
  allocations_[reinterpret_cast<uintptr_t>(shown)] = {
      device::PointerKind::kDevice, bytes, reachable, descriptor, imported, card};
  return device::SharedBlock{shown, bytes, descriptor};
}

Expected<device::SharedBlock> FakeMemory::AllocateDevice(size_t bytes, int32_t card) {
  const int descriptor = memfd_create("fakegpu", MFD_CLOEXEC);
  if (descriptor < 0) return Status::System("memfd_create", errno);
  const size_t rounded = Whole(bytes, kGranule);
  if (ftruncate(descriptor, static_cast<off_t>(rounded)) != 0) {
    close(descriptor);
    return NoMemory();
  }
  Expected<device::SharedBlock> block = Map(descriptor, rounded, false, card);
  if (block.ok()) block->descriptor = fcntl(descriptor, F_DUPFD_CLOEXEC, 0);
  return block;
}

Expected<void*> FakeMemory::Import(int descriptor, size_t bytes, int32_t card) {
  if (bytes == 0 || bytes % kGranule != 0) return Status(Code::kArg, "no whole granules");
  const int own = dup(descriptor);
  if (own < 0) return Status::System("dup", errno);
  const Expected<device::SharedBlock> block = Map(own, bytes, true, card);
  if (!block.ok()) return block.status();
  const std::lock_guard<std::mutex> lock(mutex_);
  ++imports_;
  return block->address;
}

Status FakeMemory::FreeDevice(void* address) {
  if (address == nullptr) return Status::Ok();
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = allocations_.find(reinterpret_cast<uintptr_t>(address));
  if (found == allocations_.end() || found->second.kind != device::PointerKind::kDevice) {
    return Status(Code::kArg, "no device allocation begins there");
  }
  munmap(address, found->second.bytes);
  munmap(found->second.reachable, found->second.bytes);
  close(found->second.descriptor);
  allocations_.erase(found);
  return Status::Ok();
}

Status FakeMemory::Unmap(void* address) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = allocations_.find(reinterpret_cast<uintptr_t>(address));
    if (found == allocations_.end() || !found->second.imported)
      return Status(Code::kArg, "nothing was imported there");
  }
  return FreeDevice(address);
}

Expected<device::DmaBuf> FakeMemory::OpenDmaBuf(const void* address, size_t bytes) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  device::DmaBuf pages;
  const Allocation* found = Find(address, &pages.offset);
  if (found == nullptr || found->kind != device::PointerKind::kDevice ||
      bytes > found->bytes - pages.offset) {
    return Status(Code::kArg, "no device memory");
  }
  pages.descriptor = dup(found->descriptor);
  if (pages.descriptor < 0) return Status::System("dup", errno);
  return pages;
}

Expected<void*> FakeMemory::AllocatePinned(size_t bytes) {
  const size_t rounded = Whole(bytes, kPage);
  void* const memory =
      mmap(nullptr, rounded, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return NoMemory();
  const std::lock_guard<std::mutex> lock(mutex_);
  allocations_[reinterpret_cast<uintptr_t>(memory)] = {
      device::PointerKind::kPinned, rounded, memory, -1, false, CurrentCard()};
  return memory;
}

Status FakeMemory::FreePinned(void* address) {
  if (address == nullptr) return Status::Ok();
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = allocations_.find(reinterpret_cast<uintptr_t>(address));
  if (found == allocations_.end() || found->second.kind != device::PointerKind::kPinned) {
    return Status(Code::kArg, "no pinned allocation begins there");
  }
  munmap(address, found->second.bytes);
  allocations_.erase(found);
  return Status::Ok();
}

// Under mutex_.
const FakeMemory::Allocation* FakeMemory::Find(const void* address, size_t* offset) const {
  const auto wanted = reinterpret_cast<uintptr_t>(address);
  auto next = allocations_.upper_bound(wanted);
  if (next == allocations_.begin()) return nullptr;
  --next;
  *offset = wanted - next->first;
  return *offset < next->second.bytes ? &next->second : nullptr;
}

device::PointerFacts FakeMemory::Identify(const void* address) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  size_t offset = 0;
  const Allocation* found = Find(address, &offset);
  if (found == nullptr) return {};
  return {found->kind, found->card};
}

bool FakeMemory::Holds(const void* address, size_t bytes) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  size_t offset = 0;
  const Allocation* found = Find(address, &offset);
  return found != nullptr && bytes <= found->bytes - offset;
}

void* FakeMemory::Reach(const void* address) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  size_t offset = 0;
  const Allocation* found = Find(address, &offset);
  return found == nullptr ? nullptr : static_cast<std::byte*>(found->reachable) + offset;
}

void* FakeMemory::Reach(const void* address, size_t bytes, bool writes) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  size_t offset = 0;
  const Allocation* found = Find(address, &offset);
  if (found == nullptr || bytes > found->bytes - offset) return nullptr;
  if (writes && found->imported) return nullptr;  // rule F1
  return static_cast<std::byte*>(found->reachable) + offset;
}

bool FakeMemory::IsPinned(const void* address, size_t bytes) const {
  return Identify(address).kind == device::PointerKind::kPinned && Holds(address, bytes);
}

size_t FakeMemory::imports() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return imports_;
}

size_t FakeMemory::allocations() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return allocations_.size();
}

}  // namespace ftar::fakegpu
