// What libftar asks of one GPU and its driver: nothing else of CUDA is known outside of the
// library that implements this (design 9).
//
// Two implementations: CUDA's, in libftar-cuda.so, which is loaded where a driver is; and FakeGpu
// for tests, whose kernels run on the host, over memory that nobody can follow by accident. No
// exception leaves; errors are a Status with the driver's own words, Code::kDevice where the GPU or
// its context has failed.
//
// Threads: any. What is marked *set-up* may take locks of the driver and wait for the GPU, and is
// never called while an operation's progress depends on the caller. Nothing here is needed to
// release a stream or a kernel: that takes a store to a gate or a mailbox (DESIGN: no CUDA call may
// be needed after a fault). Ownership: the caller owns what it allocates and imports, until Free,
// and destroys it before the Gpu.
#ifndef FTAR_DEVICE_GPU_H_
#define FTAR_DEVICE_GPU_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "base/status.h"
#include "kernels/plan.h"

namespace ftar::device {

enum class PointerKind : uint8_t {
  kHost,     // nothing that the driver knows
  kPinned,   // the host's, and mapped for the GPU at the same address
  kDevice,   // the host may not follow it
  kManaged,  // migrates between the two
  kForeign,  // of a context that a program has made itself: no kernel of ours reaches it
  kUnknown,  // the driver does not say: the context is broken
};

struct PointerFacts {
  PointerKind kind = PointerKind::kHost;
  int32_t device = -1;
};

// The words by which a user's stream and the library wait for each other, in pinned memory. Every
// use goes through the same cycle, so that a gate can be part of a CUDA graph, whose values are
// constant:
//   stream: ready = 1, waits until done is 1, copies `outcome` if asked to, done = 0, passed = 1
//   library: sees ready, ready = 0, works, fills outcome, done = 1 (release), sees passed,
//            passed = 0
// Each word changes by turns, never by both sides at once.
struct alignas(64) Gate {
  uint32_t ready = 0;
  uint32_t done = 0;
  uint32_t passed = 0;
  uint32_t unused = 0;
  // What ftar.h calls ftarDeviceOutcome.
  struct Outcome {
    int32_t status = 0;
    int32_t participants = 0;
    double weight_sum = 0;
    uint64_t seq = 0;
    uint64_t epoch = 0;
  } outcome;
};
static_assert(sizeof(Gate) == 64);

// Device memory that other processes on this host may map.
struct SharedBlock {
  void* address = nullptr;
  size_t bytes = 0;  // what was really taken
  // The caller's to close, at any time: the memory does not need it. -1: nobody else may map it.
  int descriptor = -1;
};

// Pages of device memory as a network card's driver takes them (dma-buf).
struct DmaBuf {
  int descriptor = -1;  // the caller's to close; a registration outlives that
  size_t offset = 0;    // of the address within it
};

// A cudaStream_t.
using StreamHandle = void*;

struct Facts {
  std::string name;
  int32_t device = 0;
  int multiprocessors = 0;
  uint64_t memory_bytes = 0;
  bool shares_memory = false;  // AllocateShared gives descriptors, Import takes them
  size_t queues = 8;           // which streams share; a stream that waits keeps its queue's others
  std::string warning;         // what a person should know of this process's settings
};

class Gpu {
 public:
  virtual ~Gpu() = default;
  virtual const Facts& facts() const = 0;

  // What an address is; cheap enough for every call of an operation.
  virtual PointerFacts Identify(const void* address) const = 0;
  // False if the allocation around `address` ends before `bytes`.
  virtual bool Holds(const void* address, size_t bytes) const = 0;

  // ---- memory (set-up)
  virtual Expected<SharedBlock> AllocateShared(size_t bytes) = 0;
  virtual Status FreeShared(void* address) = 0;
  // Another process's SharedBlock, at an address of ours, until Unmap. It stays readable when its
  // exporter dies or frees it. Kernels only read there (rule F1).
  virtual Expected<void*> Import(int descriptor, size_t bytes) = 0;
  virtual Status Unmap(void* address) = 0;
  // The pages around `bytes` at `address`, any device memory, for a card that reads and writes
  // them itself. kUnsupported where GPU or kernel do not do it.
  virtual Expected<DmaBuf> OpenDmaBuf(const void* /*address*/, size_t /*bytes*/) {
    return Status(Code::kUnsupported, "this GPU gives its memory to no other device");
  }
  // Zeroed; at a multiple of 4096; for gates, mailboxes and staging.
  virtual Expected<void*> AllocatePinned(size_t bytes) = 0;
  virtual Status FreePinned(void* address) = 0;

  // ---- the user's streams, in the thread that starts the operation
  // Puts the stream's side of the gate's cycle onto the stream. `outcome`: pinned or device memory
  // of sizeof(Gate::Outcome), or null. Works while the stream is captured.
  virtual Status EnqueueGate(StreamHandle stream, Gate* gate, void* outcome) = 0;
  // Whether what is put onto the stream now becomes part of a graph. kArg: the stream is another
  // GPU's, or of a context that a program has made itself.
  virtual Expected<bool> Captures(StreamHandle stream) = 0;

  // ---- kernels, for executors
  // Every kernel is loaded, so that no launch waits for what runs (set-up).
  virtual Status LoadKernels() = 0;
  // Starts the batch on a private stream, behind what was started on it before, and then has `seq`
  // stored to `*done` (pinned). May wait for the driver: called from an executor's own thread. A
  // batch without blocks stores alone.
  virtual Status Launch(const kernels::Batch& batch, uint64_t* done, uint64_t seq) = 0;
  // Starts the resident kernel (kernels/resident.h), whose mailboxes are `control`, in pinned
  // memory. It runs until it is told to stop.
  virtual Status LaunchResident(void* control, int blocks) = 0;
  // kDevice once the context is broken (a sticky error): nothing started here will ever end.
  virtual Status Health() = 0;
};

}  // namespace ftar::device

#endif  // FTAR_DEVICE_GPU_H_
