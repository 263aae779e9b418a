// The ideal: what an all-reduce of floats costs when nobody can fail and nothing is agreed.
//
// Purpose: a floor for every row, by a program that obeys the same contract (a member writes only
// its own memory) and carries no protocol. Small vectors travel in lines that hold their own
// sequence number, and each rank adds them all. Others are cut into one slice a rank: each rank
// waits until all have come, sums its slice of all inputs into its own output, block by block so
// that it is in a cache when the others fetch it, and fetches the slices of the others. With push
// each rank stores its sums into everybody's output instead, which the contract forbids.
// It does not wait at the end until its output has been read: as long as outputs are written only
// after the ranks have met again, that costs nobody anything.
// Threads: each rank uses its own Ideal from one thread.  Ownership: borrows the arena.
#ifndef FTAR_PERF_IDEAL_H_
#define FTAR_PERF_IDEAL_H_

#include <cstdint>
#include <vector>

#include "perf/arena.h"

namespace ftar::perf {

class Ideal {
 public:
  static constexpr uint64_t kInlineBytes = 112;  // up to here in lines; beyond, a slice is faster

  // What a part of the arena must have beside `buffer_bytes` of buffers.
  static uint64_t PartBytes(uint64_t buffer_bytes);

  // What a rank reads and writes for an operation of `bytes`.
  static uint64_t MovedBytes(uint64_t bytes, int ranks, bool push);

  Ideal(Arena* arena, int rank, bool push);

  // Where this rank's buffers begin.
  char* buffers() const { return bases_[rank_]; }
  // All ranks call it in the same order with buffers at the same place after buffers().
  void AllReduce(const float* send, float* recv, uint64_t count);

 private:
  struct Line;
  struct Mail;
  struct Slice {
    uint64_t begin, end;  // elements
  };
  void Exchange(const float* send, float* recv, uint64_t count);
  void Pull(uint64_t send, uint64_t recv, uint64_t count);
  void Push(uint64_t send, uint64_t recv, uint64_t count);
  void SumSlice(Slice slice, uint64_t send, uint64_t recv);
  uint64_t Fetch(int owner, uint64_t from, uint64_t blocks, uint64_t recv, uint64_t count);
  Slice SliceOf(int rank, uint64_t count) const;
  Slice BlockOf(Slice slice, uint64_t block) const;
  uint64_t BlocksOf(Slice slice) const;
  // This rank's progress in the operation, which the others see; waits for that of all.
  void Announce(uint64_t progress);
  void AwaitAll(uint64_t progress);
  uint64_t ProgressOf(int rank) const;
  float* Floats(int rank, uint64_t offset) const;

  Arena* arena_;
  const int rank_, ranks_;
  const bool push_;
  uint64_t block_elements_;
  bool streams_ = false;  // the operation is larger than the caches
  uint64_t cache_bytes_;
  uint64_t op_ = 0;
  std::vector<char*> bases_;
  std::vector<Mail*> mail_;
  std::vector<const float*> inputs_;
  std::vector<uint64_t> fetched_, wanted_;  // blocks of each rank
};

}  // namespace ftar::perf

#endif  // FTAR_PERF_IDEAL_H_
