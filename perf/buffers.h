// The buffers of the operations in flight: one pair for each, carved out of one piece of memory.
//
// Purpose: two operations in flight may not share an output, so a window of W needs W pairs; one
// piece, touched before the job is joined, keeps page faults out of the measurement.
// Threads: single-threaded.  Ownership: owns its memory; the job must outlive library memory.
#ifndef FTAR_PERF_BUFFERS_H_
#define FTAR_PERF_BUFFERS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "perf/cuda.h"
#include "perf/options.h"
#include "perf/schedule.h"

namespace ftar::perf {

struct BufferPair {
  char* send = nullptr;
  char* recv = nullptr;  // equal to send when in place
};

class Buffers {
 public:
  Buffers() = default;
  ~Buffers();
  Buffers(const Buffers&) = delete;
  Buffers& operator=(const Buffers&) = delete;

  // For memory of a GPU, which must outlive this.
  void UseCuda(Cuda* cuda) { cuda_ = cuda; }
  // Plain memory; needs no job.
  bool AllocatePlain(uint64_t bytes);
  // Memory of the library or of a GPU, or plain memory made known to the library.
  ftarResult_t AllocateFor(ftarJob_t job, MemoryKind kind, uint64_t bytes);
  // Gives the memory back.  Not while operations are in flight, so after a failure only when the
  // job is gone.
  void Release();
  // The job is destroyed, and its memory with it.
  void JobGone();

  // Makes room for what Write and Read take at a time, before operations are in flight.
  bool MakeMirror(uint64_t bytes);
  // Lets `write` write `bytes` at `to`, wherever that is: what is a GPU's is written to a mirror
  // and copied. False: the GPU does not take it.
  bool Write(char* to, uint64_t bytes, const std::function<void(char*)>& write);
  // What is at `from`, for the host to read until the next call here; null: the GPU does not give.
  const char* Read(const char* from, uint64_t bytes);

  // The pairs of operations of these sizes, each buffer `offset` off its alignment.
  std::vector<BufferPair> Carve(const std::vector<uint64_t>& bytes, uint64_t offset,
                                bool in_place) const;
  // Room for one buffer and a little more.
  static uint64_t StrideOf(uint64_t bytes);
  static uint64_t BytesFor(int window, uint64_t bytes);
  uint64_t size() const { return size_; }
  Cuda* cuda() const { return cuda_; }

 private:
  bool OnDevice() const {
    return kind_ == MemoryKind::kDevice || kind_ == MemoryKind::kDevicePlain;
  }
  ftarResult_t AllocateOnDevice(uint64_t bytes);

  Cuda* cuda_ = nullptr;
  void* mirror_ = nullptr;  // pinned
  uint64_t mirror_bytes_ = 0;
  char* memory_ = nullptr;
  uint64_t size_ = 0;
  ftarJob_t job_ = nullptr;
  ftarMem_t registration_ = nullptr;
  MemoryKind kind_ = MemoryKind::kPlain;
};

// Operations in flight for a row: as asked, else so many that their buffers stay small.
int WindowFor(const Options& options, const Row& row, uint64_t bytes);

// The most that any row of the schedule needs, with `members` members.
uint64_t BufferBytes(const Options& options, const Schedule& schedule, int members);

// The largest single buffer of any operation.
uint64_t LargestBuffer(const Schedule& schedule, int members);

}  // namespace ftar::perf

#endif  // FTAR_PERF_BUFFERS_H_
