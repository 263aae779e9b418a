#include "reduce/fake_device.h"

#include <sys/mman.h>

#include <cstring>
#include <string>

namespace ftar::reduce {
namespace {

constexpr size_t kFakeAlignment = 256;
// Between two allocations, so that one byte too far is nobody's.
constexpr size_t kGap = 256;

}  // namespace

FakeDevice::FakeDevice(size_t capacity) : capacity_(capacity) {
  void* start =
      mmap(nullptr, capacity, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (start != MAP_FAILED) start_ = reinterpret_cast<uintptr_t>(start);
}

FakeDevice::~FakeDevice() {
  if (start_ != 0) munmap(reinterpret_cast<void*>(start_), capacity_);
}

Expected<void*> FakeDevice::Allocate(size_t bytes) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const size_t left = start_ == 0 ? 0 : capacity_ - used_;
  if (left < kGap + kFakeAlignment || bytes > left - kGap - kFakeAlignment) {
    return Status(Code::kMemory, "the fake device has no " + std::to_string(bytes) + " bytes left");
  }
  const uintptr_t address = start_ + used_;
  used_ += (bytes + kGap + kFakeAlignment - 1) / kFakeAlignment * kFakeAlignment;
  memory_.emplace(address, std::vector<unsigned char>(bytes, kPoison));
  return reinterpret_cast<void*>(address);
}

Status FakeDevice::Free(void* address) {
  if (address == nullptr) return Status::Ok();
  const std::lock_guard<std::mutex> lock(mutex_);
  if (memory_.erase(reinterpret_cast<uintptr_t>(address)) == 0) {
    return Status(Code::kArg, "Free of what was not allocated, or is free already");
  }
  return Status::Ok();
}

Expected<unsigned char*> FakeDevice::Find(const void* address, size_t bytes) {
  const auto at = reinterpret_cast<uintptr_t>(address);
  auto after = memory_.upper_bound(at);
  if (after == memory_.begin()) return Status(Code::kArg, "not an address of the fake device");
  const auto& [first, memory] = *--after;
  const size_t offset = at - first;
  if (offset > memory.size() || bytes > memory.size() - offset) {
    return Status(Code::kArg, "outside of what was allocated on the fake device");
  }
  return const_cast<unsigned char*>(memory.data()) + offset;
}

Status FakeDevice::CopyIn(void* to, const void* host, size_t bytes) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const Expected<unsigned char*> place = Find(to, bytes);
  if (!place.ok()) return place.status();
  std::memcpy(place.value(), host, bytes);
  return Status::Ok();
}

Status FakeDevice::CopyOut(void* host, const void* from, size_t bytes) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const Expected<unsigned char*> place = Find(from, bytes);
  if (!place.ok()) return place.status();
  std::memcpy(host, place.value(), bytes);
  return Status::Ok();
}

Status FakeDevice::Copy(void* to, const void* from, size_t bytes) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const Expected<unsigned char*> source = Find(from, bytes);
  const Expected<unsigned char*> destination = Find(to, bytes);
  if (!source.ok()) return source.status();
  if (!destination.ok()) return destination.status();
  std::memmove(destination.value(), source.value(), bytes);
  return Status::Ok();
}

Status FakeDevice::Reduce(const SpaceReduction& reduction) {
  FTAR_RETURN_IF_ERROR(CheckReduction(reduction));
  const std::lock_guard<std::mutex> lock(mutex_);
  SpaceReduction real = reduction;
  std::vector<Source> sources(reduction.sources.begin(), reduction.sources.end());
  for (Source& source : sources) {
    const Expected<unsigned char*> place =
        Find(source.data, reduction.count * ElementBytes(source.format));
    if (!place.ok()) return place.status();
    source.data = place.value();
  }
  const Dtype stored =
      reduction.to_partial ? AccumulatorOf(reduction.dtype, reduction.redop) : reduction.dtype;
  const Expected<unsigned char*> dst = Find(reduction.dst, reduction.count * ElementBytes(stored));
  if (!dst.ok()) return dst.status();
  real.sources = sources;
  real.dst = dst.value();
  return HostSpace().Reduce(real);
}

size_t FakeDevice::allocations() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return memory_.size();
}

}  // namespace ftar::reduce
