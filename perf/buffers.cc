#include "perf/buffers.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>

#include "perf/arena.h"
#include "perf/case.h"
#include "perf/types.h"

namespace ftar::perf {
namespace {

constexpr uint64_t kWindowBytes = 32 << 20;
constexpr uint64_t kWindowMax = 8;

}  // namespace

// Room for `bytes` at any offset of up to one element; the odd line at the end keeps neighbouring
// buffers from falling on the same cache sets.
uint64_t Buffers::StrideOf(uint64_t bytes) { return (bytes + 8 + kPage - 1) / kPage * kPage + 128; }

Buffers::~Buffers() {
  Release();
  if (mirror_ != nullptr) cuda_->FreePinned(mirror_);
}

bool Buffers::AllocatePlain(uint64_t bytes) {
  Release();
  void* memory = mmap(nullptr, std::max(bytes, kPage), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return false;
  memory_ = static_cast<char*>(memory);
  size_ = std::max(bytes, kPage);
  kind_ = MemoryKind::kPlain;
  std::memset(memory_, 0, size_);
  return true;
}

ftarResult_t Buffers::AllocateFor(ftarJob_t job, MemoryKind kind, uint64_t bytes) {
  const ftarMemDesc description = FTAR_MEM_DESC_INIT;
  if (kind == MemoryKind::kDevice || kind == MemoryKind::kDevicePlain) {
    Release();
    job_ = job;
    kind_ = kind;
    return AllocateOnDevice(std::max(bytes, kPage));
  }
  if (kind == MemoryKind::kLibrary) {
    Release();
    void* memory = nullptr;
    const ftarResult_t result = ftarMemAlloc(job, std::max(bytes, kPage), &description, &memory);
    if (result != FTAR_OK) return result;
    memory_ = static_cast<char*>(memory);
    size_ = std::max(bytes, kPage);
    std::memset(memory_, 0, size_);
  } else if (size_ < bytes && !AllocatePlain(bytes)) {
    return FTAR_ERR_MEMORY;
  }
  job_ = job;
  kind_ = kind;
  if (kind != MemoryKind::kRegistered) return FTAR_OK;
  return ftarMemRegister(job, memory_, size_, &description, &registration_);
}

ftarResult_t Buffers::AllocateOnDevice(uint64_t bytes) {
  void* memory = nullptr;
  if (kind_ == MemoryKind::kDevice) {
    ftarMemDesc description = FTAR_MEM_DESC_INIT;
    description.kind = FTAR_MEM_CUDA;
    const ftarResult_t result = ftarMemAlloc(job_, bytes, &description, &memory);
    if (result != FTAR_OK) return result;
  } else if (!cuda_->Allocate(bytes, &memory)) {
    return FTAR_ERR_DEVICE;
  }
  memory_ = static_cast<char*>(memory);
  size_ = bytes;
  return cuda_->Zero(memory, bytes) ? FTAR_OK : FTAR_ERR_DEVICE;
}

bool Buffers::MakeMirror(uint64_t bytes) {
  if (!OnDevice() || mirror_bytes_ >= bytes) return true;
  if (mirror_ != nullptr) cuda_->FreePinned(mirror_);
  mirror_ = nullptr;
  mirror_bytes_ = 0;
  if (!cuda_->AllocatePinned(bytes, &mirror_)) return false;
  mirror_bytes_ = bytes;
  return true;
}

bool Buffers::Write(char* to, uint64_t bytes, const std::function<void(char*)>& write) {
  if (!OnDevice()) return write(to), true;
  if (!MakeMirror(bytes)) return false;
  write(static_cast<char*>(mirror_));
  return cuda_->Copy(to, mirror_, bytes);
}

const char* Buffers::Read(const char* from, uint64_t bytes) {
  if (!OnDevice() || bytes == 0) return from;
  const bool copied = MakeMirror(bytes) && cuda_->Copy(mirror_, from, bytes);
  return copied ? static_cast<const char*>(mirror_) : nullptr;
}

void Buffers::Release() {
  if (memory_ == nullptr) return;
  if (registration_ != nullptr) ftarMemDeregister(registration_);
  if (kind_ == MemoryKind::kLibrary || kind_ == MemoryKind::kDevice) {
    ftarMemFree(job_, memory_);
  } else if (kind_ == MemoryKind::kDevicePlain) {
    cuda_->Free(memory_);
  } else {
    munmap(memory_, size_);
  }
  memory_ = nullptr;
  registration_ = nullptr;
  size_ = 0;
}

void Buffers::JobGone() {
  registration_ = nullptr;
  if (kind_ != MemoryKind::kLibrary && kind_ != MemoryKind::kDevice) return;
  memory_ = nullptr;
  size_ = 0;
}

std::vector<BufferPair> Buffers::Carve(const std::vector<uint64_t>& bytes, uint64_t offset,
                                       bool in_place) const {
  std::vector<BufferPair> pairs;
  char* next = memory_ + offset;
  for (uint64_t size : bytes) {
    pairs.push_back({next, in_place ? next : next + StrideOf(size)});
    next += 2 * StrideOf(size);
  }
  return pairs;
}

uint64_t Buffers::BytesFor(int window, uint64_t bytes) { return 2 * StrideOf(bytes) * window; }

int WindowFor(const Options& options, const Row& row, uint64_t bytes) {
  // Fresh inputs are written before an iteration begins, so each of its operations has its own.
  if (options.blocking || options.fresh || !row.buckets.empty()) return row.aggregate;
  if (options.window > 0) return std::max(options.window, row.aggregate);
  const uint64_t fitting =
      std::clamp<uint64_t>(kWindowBytes / std::max<uint64_t>(bytes, 1), 2, kWindowMax);
  return std::max(static_cast<int>(fitting), row.aggregate);
}

uint64_t LargestBuffer(const Schedule& schedule, int members) {
  uint64_t most = 0;
  for (const Row& row : schedule.rows()) {
    for (uint64_t bucket : row.buckets) most = std::max(most, bucket);
    if (!row.buckets.empty()) continue;
    const Shape shape = CaseOf(row.kind).shape(row, std::max(members, 1));
    const uint64_t width = TypeOf(row.dtype).bytes;
    most = std::max(most, std::max(shape.send_elements, shape.recv_elements) * width);
  }
  return most;
}

uint64_t BufferBytes(const Options& options, const Schedule& schedule, int members) {
  uint64_t most = 0;
  for (const Row& row : schedule.rows()) {
    const uint64_t width = TypeOf(row.dtype).bytes;
    if (!row.buckets.empty()) {
      uint64_t all = 0;
      for (uint64_t bucket : row.buckets) all += Buffers::BytesFor(1, bucket);
      most = std::max(most, all);
      continue;
    }
    const Shape shape = CaseOf(row.kind).shape(row, std::max(members, 1));
    const uint64_t bytes = std::max(shape.send_elements, shape.recv_elements) * width;
    most = std::max(most, Buffers::BytesFor(WindowFor(options, row, bytes), bytes));
  }
  return most;
}

}  // namespace ftar::perf
