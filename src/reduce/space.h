// Memory spaces: what a reduction or a copy needs to know of where its bytes lie.
//
// A Space allocates, moves and reduces memory of one kind; whoever uses it never follows one of its
// addresses. HostSpace is ordinary memory and the host kernels. FakeDevice (fake_device.h) stands
// for a device in tests; the CUDA ones are in kernels/device.h. Any thread may call; a call
// has ended when it returns. A Space outlives its allocations, which belong to the caller until
// Free.
#ifndef FTAR_REDUCE_SPACE_H_
#define FTAR_REDUCE_SPACE_H_

#include <cstddef>
#include <span>

#include "base/status.h"
#include "reduce/reduce.h"

namespace ftar::reduce {

enum class MemoryKind {
  kHost,
  kPinned,  // The host's, mapped for a device.
  kDevice,  // Not readable by the host.
};

// The arguments of ReduceToFinal, or of ReduceToPartial, where every address is of one space.
struct SpaceReduction {
  Dtype dtype = Dtype::kF32;
  Redop redop = Redop::kSum;
  std::span<const Source> sources = {};
  double divisor = 1.0;
  double scale = 1.0;
  bool to_partial = false;
  void* dst = nullptr;
  size_t count = 0;
};

class Space {
 public:
  virtual ~Space() = default;
  virtual MemoryKind kind() const = 0;

  // At least `bytes` at a multiple of 256. Fails with Code::kMemory.
  virtual Expected<void*> Allocate(size_t bytes) = 0;
  // Of an address that Allocate gave, or null.
  virtual Status Free(void* address) = 0;

  // Between this space and ordinary memory, and within the space. Source and destination are equal
  // or do not overlap.
  virtual Status CopyIn(void* to, const void* host, size_t bytes) = 0;
  virtual Status CopyOut(void* host, const void* from, size_t bytes) = 0;
  virtual Status Copy(void* to, const void* from, size_t bytes) = 0;
  // Fails with Code::kArg where reduce.h forbids the call; bits are the same in every space.
  virtual Status Reduce(const SpaceReduction& reduction) = 0;
};

class HostSpace : public Space {
 public:
  MemoryKind kind() const override { return MemoryKind::kHost; }
  Expected<void*> Allocate(size_t bytes) override;
  Status Free(void* address) override;
  Status CopyIn(void* to, const void* host, size_t bytes) override;
  Status CopyOut(void* host, const void* from, size_t bytes) override;
  Status Copy(void* to, const void* from, size_t bytes) override;
  Status Reduce(const SpaceReduction& reduction) override;
};

// What reduce.h asks of a call, as a Status.
Status CheckReduction(const SpaceReduction& reduction);

}  // namespace ftar::reduce

#endif  // FTAR_REDUCE_SPACE_H_
