// Shared memory with one writer (rule F1): a memfd that its owner maps for writing once and then
// seals, so that nobody else can map it for writing, shrink it under a reader (no SIGBUS) or grow
// it. Works whatever the size of /dev/shm. Mappings are freed by their owner object; plain values
// otherwise, any thread.
#ifndef FTAR_TRANSPORT_SEALED_MEMORY_H_
#define FTAR_TRANSPORT_SEALED_MEMORY_H_

#include <cstddef>
#include <memory>

#include "base/status.h"
#include "transport/fd.h"

namespace ftar::transport {

class MappedMemory {
 public:
  MappedMemory(std::byte* data, size_t bytes) : data_(data), bytes_(bytes) {}
  ~MappedMemory();
  MappedMemory(const MappedMemory&) = delete;
  MappedMemory& operator=(const MappedMemory&) = delete;
  std::byte* data() const { return data_; }
  size_t bytes() const { return bytes_; }

 private:
  std::byte* data_;
  size_t bytes_;
};

struct SealedMemory {
  UniqueFd fd;  // to pass on
  std::shared_ptr<MappedMemory> memory;
};

// Zeroed. kNow: running out of memory is an error here. kOnTouch: as with any large allocation, the
// system finds the pages when somebody touches them, the reader included.
enum class Pages { kNow, kOnTouch };
Expected<SealedMemory> CreateSealedMemory(const char* name, size_t bytes, Pages pages);

// Maps a peer's memory read-only, at least `bytes_min` and at most `bytes_max` bytes of it. Refused
// (Code::kPeer) unless it is sealed as above.
Expected<std::shared_ptr<MappedMemory>> MapSealedMemory(const UniqueFd& fd, size_t bytes_min,
                                                        size_t bytes_max);

// Tests: both ends of one process then share the owner's mapping, since ThreadSanitizer cannot see
// races between two mappings of one file. Off by default.
void ShareMappingsForTest(bool on);

}  // namespace ftar::transport

#endif  // FTAR_TRANSPORT_SEALED_MEMORY_H_
