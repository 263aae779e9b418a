// Memory of this process that its host-mates may map and read where it lies (rule F1): sealed
// memfds with one writer, and memory of a GPU that a descriptor stands for. The registry knows
// which address belongs to which of them, so that a link can say where a payload is instead of
// copying it; and it maps peers' memory of the second kind, once there is a GPU here to do it.
//
// Any thread. A block lives until it is freed here and nobody holds it any more; its pages live as
// long as a peer has them mapped.
#ifndef FTAR_TRANSPORT_EXPORTED_MEMORY_H_
#define FTAR_TRANSPORT_EXPORTED_MEMORY_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>

#include "base/status.h"
#include "transport/fd.h"
#include "transport/sealed_memory.h"

namespace ftar::transport {

struct ExportedBlock {
  uint64_t id = 0;         // never used twice in a process's registry
  bool on_device = false;  // the host cannot follow it
  UniqueFd fd;             // what peers map; none: nobody may
  std::byte* data = nullptr;
  size_t bytes = 0;
  std::shared_ptr<const void> memory;  // there as long as somebody holds this
};

class ExportedMemory {
 public:
  ExportedMemory() = default;
  ExportedMemory(const ExportedMemory&) = delete;
  ExportedMemory& operator=(const ExportedMemory&) = delete;

  // Whole pages, zeroed. A block keeps a descriptor open, so their number is bounded.
  Expected<std::byte*> Allocate(size_t bytes, Pages pages = Pages::kOnTouch);
  // A GPU's memory, which is there as long as somebody holds `memory`.
  void Add(std::byte* data, size_t bytes, UniqueFd fd, std::shared_ptr<const void> memory);
  // How a peer's is mapped: at an address of ours, as long as the pointer is held.
  using Importer = std::function<Expected<std::shared_ptr<std::byte>>(int fd, size_t bytes)>;
  void SetImporter(Importer importer);
  bool imports() const { return imports_.load(std::memory_order_acquire); }
  Expected<std::shared_ptr<std::byte>> Import(int fd, size_t bytes) const;

  // A GPU's memory for a card that reads and writes it itself: what its driver registers, and where
  // in it `data` is. Any memory of the GPU, a user's tensor too; not on the way of data, since it
  // takes milliseconds. A transport that can do this answers Link::LendsDevice for what it has
  // registered.
  struct DmaBuf {
    UniqueFd fd;
    size_t offset = 0;
  };
  using DmaBufOpener = std::function<Expected<DmaBuf>(const std::byte* data, size_t bytes)>;
  void SetDmaBufOpener(DmaBufOpener opener);
  Expected<DmaBuf> OpenDmaBuf(const std::byte* data, size_t bytes) const;

  // False if no block begins there.
  bool Free(const void* memory);
  // The block that holds all of the range; null if none does.
  std::shared_ptr<const ExportedBlock> Find(const void* data, size_t bytes) const;
  // Grows with every Free.
  uint64_t frees() const { return frees_.load(std::memory_order_relaxed); }

 private:
  static constexpr size_t kBlocksMax = 256;

  mutable std::mutex mutex_;
  std::map<const std::byte*, std::shared_ptr<const ExportedBlock>> blocks_;
  uint64_t next_id_ = 1;
  std::atomic<uint64_t> frees_{0};
  Importer importer_;
  DmaBufOpener dma_buf_opener_;
  std::atomic<bool> imports_{false};
};

}  // namespace ftar::transport

#endif  // FTAR_TRANSPORT_EXPORTED_MEMORY_H_
