// What a launch is told: plain numbers and addresses, passed to the kernel by value.
//
// Made by plan.h alone, which checks everything; the kernels trust it. Owns nothing. The same
// struct is read by the device and by the host grid of the tests.
#ifndef FTAR_KERNELS_JOB_H_
#define FTAR_KERNELS_JOB_H_

#include <cstdint>

#include "kernels/arith.h"

namespace ftar::kernels {

inline constexpr int kMaxSources = 16;
inline constexpr int kMaxDestinations = 16;

struct Job {
  const void* source[kMaxSources] = {};
  void* destination[kMaxDestinations] = {};
  double weight[kMaxSources] = {};
  uint32_t sources = 0;
  uint32_t destinations = 0;     // None: the checksum alone.
  uint32_t partial_sources = 0;  // Bit s: source s holds partial results.
  bool partial_result = false;
  bool weighted = false;
  Finish finish;

  // How the elements are cut. Where all addresses allow it, `head` elements come before the first
  // pack of 16 bytes and `tail` ones after the last; else every element is taken alone, byte by
  // byte where an address is not even a multiple of its element.
  uint64_t count = 0;  // Elements.
  bool vector = false;
  bool by_bytes = false;
  uint32_t head = 0;
  uint32_t tail = 0;
  uint32_t epoch = 0;  // see abort_word; here, where there is room
  uint64_t units = 0;  // Packs, or elements where there are no packs.
  uint64_t chunk = 0;  // Units that a block works on between two looks at the abort word.
  uint64_t chunks = 0;

  // Null: nobody asks. The sum of the result's 32-bit little-endian words, counted from its first
  // byte and the last one padded with zeros, is added to it modulo 2^32; a part of it where blocks
  // have stopped.
  uint32_t* checksum = nullptr;
  // Null: never aborted. A value other than `epoch` stops each block before its next chunk; one
  // that has stopped so writes 1 to `stopped`.
  const uint32_t* abort_word = nullptr;
  uint32_t* stopped = nullptr;
};

// As many as 4 KiB hold: kernels of every architecture and toolkit have parameters of that size.
inline constexpr uint32_t kMaxJobs = 8;

// A kernel's parameter. Blocks go through the jobs one after the other, none waits for another in
// between, and chunks are dealt out as if they were all of one job; so none may touch what another
// one writes.
struct Jobs {
  Job job[kMaxJobs];
  uint32_t count = 0;
};
static_assert(sizeof(Jobs) <= 4096);

}  // namespace ftar::kernels

#endif  // FTAR_KERNELS_JOB_H_
