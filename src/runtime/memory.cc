#include "runtime/memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstdlib>
#include <new>

namespace ftar::runtime {
namespace {

// A descriptor here and one mapping at every host-mate are too much for less.
constexpr size_t kExportedBytesMin = 64 * 1024;

}  // namespace

BlockSource HostSource() {
  return {[](size_t bytes) {
            const size_t alignment = bytes >= 65536 ? 4096 : kStagingAlignment;
            return static_cast<std::byte*>(aligned_alloc(alignment, bytes));
          },
          [](std::byte* block) { free(block); }};
}

StagingPool::~StagingPool() {
  for (const std::vector<Cached>& list : free_) {
    for (const Cached& cached : list) source_.free(cached.block.data);
  }
}

size_t StagingPool::ClassOf(size_t bytes) {
  const size_t units = (std::max<size_t>(bytes, 1) + 255) / 256;
  return static_cast<size_t>(std::bit_width(units - 1));
}

StagingBlock StagingPool::Take(size_t bytes) {
  const size_t size_class = ClassOf(bytes);
  if (size_class >= kClasses) return {};
  StagingBlock out;
  std::vector<Cached>& list = free_[size_class];
  if (!list.empty()) {
    out = list.back().block;
    list.pop_back();
    cached_bytes_ -= out.capacity;
  } else {
    if (allowed_ == 0) return {};
    if (allowed_ > 0) --allowed_;
    const size_t capacity = CapacityOf(size_class);
    out.data = source_.allocate(capacity);
    if (out.data == nullptr) return {};
    out.capacity = capacity;
  }
  used_bytes_ += out.capacity;
  return out;
}

void StagingPool::Give(StagingBlock block, TimeNs now) {
  if (block.data == nullptr) return;
  used_bytes_ -= block.capacity;
  if (cached_bytes_ + block.capacity > cached_bytes_max_) {
    source_.free(block.data);
    return;
  }
  try {
    free_[ClassOf(block.capacity)].push_back({block, now});
    cached_bytes_ += block.capacity;
  } catch (const std::bad_alloc&) {  // none even to remember it by
    source_.free(block.data);
  }
}

void StagingPool::Trim(TimeNs now, TimeNs idle_ns) {
  if (cached_bytes_ == 0) return;
  for (std::vector<Cached>& list : free_) {
    // Blocks are taken from the back, so the longest unused are in front.
    const auto keep = std::find_if(list.begin(), list.end(), [&](const Cached& cached) {
      return now - cached.since < idle_ns;
    });
    for (auto it = list.begin(); it != keep; ++it) {
      cached_bytes_ -= it->block.capacity;
      source_.free(it->block.data);
    }
    list.erase(list.begin(), keep);
  }
}

UserMemory::~UserMemory() {
  for (const auto& [memory, bytes] : blocks_) munmap(memory, bytes);
}

Expected<void*> UserMemory::Allocate(size_t bytes) {
  const size_t page = 4096;
  if (bytes > SIZE_MAX - page) return Status(Code::kArg, "bytes", "bytes overflows");
  const size_t rounded = std::max(page, (bytes + page - 1) / page * page);
  if (rounded >= kExportedBytesMin) {
    if (const auto exported = exports_->Allocate(rounded); exported.ok()) return *exported;
  }
  // A container may forbid memfds or be out of descriptors.
  void* const memory =
      mmap(nullptr, rounded, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    return Status(Code::kMemory, "bytes", "no memory for " + std::to_string(bytes) + " bytes");
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  blocks_[memory] = rounded;
  return memory;
}

Status UserMemory::Free(void* memory) {
  if (memory == nullptr || exports_->Free(memory)) return Status::Ok();
  size_t bytes = 0;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = blocks_.find(memory);
    if (found == blocks_.end()) {
      return Status(Code::kArg, "memory", "this memory is not from ftarMemAlloc of this job");
    }
    bytes = found->second;
    blocks_.erase(found);
  }
  munmap(memory, bytes);
  return Status::Ok();
}

}  // namespace ftar::runtime
