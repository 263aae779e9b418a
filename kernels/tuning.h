// Tuning numbers as data, the top of the layers: how many blocks of how many threads take a job of
// so many bytes, and how much a block does between two looks at the abort word.
//
// Constant. The numbers are docs/gpu.md's predictions until a card has been measured.
#ifndef FTAR_KERNELS_TUNING_H_
#define FTAR_KERNELS_TUNING_H_

#include <cstddef>
#include <cstdint>

namespace ftar::kernels {

// A grid as somebody wishes it; 0 leaves a number to the table.
struct Shape {
  int blocks = 0;
  int threads = 0;
  int unroll = 0;
  uint64_t chunk_bytes = 0;
};

struct TuningRow {
  uint64_t up_to_bytes;  // Of the result.
  int blocks;
  int threads;
  uint64_t chunk_bytes;
};

// A block alone on its multiprocessor gives about 47 GB/s of reduced f32 (64 KiB in flight, 0.7 us
// away), so two serve a network of 50 GB/s, and a chunk of 2 MiB of two sources ends within 50 us
// of an abort; each further source adds 25. Small jobs end sooner with one block than a second one
// takes to start.
inline constexpr TuningRow kTuning[] = {
    {uint64_t{16} << 10, 1, 384, uint64_t{2} << 20},
    {uint64_t{128} << 10, 1, 512, uint64_t{2} << 20},
    {UINT64_MAX, 2, 512, uint64_t{2} << 20},
};

// Plans that go out as one launch end together. A launch of its own costs about 4 us, and a block
// gives about 47 GB/s: where a batch has more than that for each of its blocks, launches keep up by
// themselves, and whoever waits for the first plan need not wait for the last.
inline constexpr uint64_t kBatchBytesOfBlock = uint64_t{512} << 10;

// The wish, completed by the table's row for so many bytes.
constexpr Shape Tuned(Shape wish, uint64_t result_bytes) {
  for (const TuningRow& row : kTuning) {
    if (result_bytes > row.up_to_bytes) continue;
    if (wish.blocks == 0) wish.blocks = row.blocks;
    if (wish.threads == 0) wish.threads = row.threads;
    if (wish.chunk_bytes == 0) wish.chunk_bytes = row.chunk_bytes;
    break;
  }
  return wish;
}

}  // namespace ftar::kernels

#endif  // FTAR_KERNELS_TUNING_H_
