// The runtime's memory: staging for partial sums and undo logs, and the buffers that users ask for.
//
// StagingPool keeps freed blocks in size classes, because a fresh large block costs a page fault
// every 4 KiB, which is more than the reduction itself. It is not synchronised (the job's lock
// covers it) and owns every block until Give. UserMemory is for any thread.
#ifndef FTAR_RUNTIME_MEMORY_H_
#define FTAR_RUNTIME_MEMORY_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "base/status.h"
#include "transport/exported_memory.h"

namespace ftar::runtime {

inline constexpr size_t kStagingAlignment = 64;

// Where a block lies: in the host's memory, in memory that host and GPU both read, or in the GPU's.
enum class Home : uint8_t { kHost, kPinned, kDevice };

// Where a pool's blocks come from.
struct BlockSource {
  std::function<std::byte*(size_t bytes)> allocate;  // null: none left
  std::function<void(std::byte*)> free;
};
BlockSource HostSource();

struct StagingBlock {
  std::byte* data = nullptr;
  size_t capacity = 0;
};

class StagingPool {
 public:
  // At most `cached_bytes_max` lie unused; more goes back to the system at once.
  explicit StagingPool(size_t cached_bytes_max, BlockSource source = HostSource())
      : cached_bytes_max_(cached_bytes_max), source_(std::move(source)) {}
  ~StagingPool();
  StagingPool(const StagingPool&) = delete;
  StagingPool& operator=(const StagingPool&) = delete;

  // A block of at least `bytes`, its content arbitrary. data is null if the system has no memory.
  StagingBlock Take(size_t bytes);
  void Give(StagingBlock block, TimeNs now);
  // Frees what has lain unused since before `now - idle_ns`.
  void Trim(TimeNs now, TimeNs idle_ns);

  size_t cached_bytes() const { return cached_bytes_; }
  size_t used_bytes() const { return used_bytes_; }

  // Test hook: the next `allowed` system allocations succeed, later ones fail; negative: no limit.
  void FailAfter(int64_t allowed) { allowed_ = allowed; }

 private:
  static constexpr size_t kClasses = 40;  // powers of two from 256 bytes
  struct Cached {
    StagingBlock block;
    TimeNs since = 0;
  };
  static size_t ClassOf(size_t bytes);
  static size_t CapacityOf(size_t size_class) { return size_t{256} << size_class; }

  const size_t cached_bytes_max_;
  const BlockSource source_;
  size_t cached_bytes_ = 0, used_bytes_ = 0;
  int64_t allowed_ = -1;
  std::array<std::vector<Cached>, kClasses> free_;
};

// ftarMemAlloc: page-aligned. Blocks that are worth it are exported, so that host-mates may read
// them where they lie; where that is not possible, plain memory serves as well.
class UserMemory {
 public:
  explicit UserMemory(std::shared_ptr<transport::ExportedMemory> exports)
      : exports_(std::move(exports)) {}
  ~UserMemory();
  UserMemory(const UserMemory&) = delete;
  UserMemory& operator=(const UserMemory&) = delete;

  Expected<void*> Allocate(size_t bytes);
  Status Free(void* memory);  // kArg if it is not one of ours; null is legal

 private:
  const std::shared_ptr<transport::ExportedMemory> exports_;
  std::mutex mutex_;
  std::map<void*, size_t> blocks_;  // those that are not exported
};

}  // namespace ftar::runtime

#endif  // FTAR_RUNTIME_MEMORY_H_
