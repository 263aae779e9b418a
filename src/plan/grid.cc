#include "plan/grid.h"

#include <algorithm>
#include <cassert>

namespace ftar::plan {

namespace {

uint64_t BytesMax(uint64_t chunk_bytes) {
  return std::clamp(chunk_bytes, kChunkBytesMax, kAskedBytesMax);
}

}  // namespace

uint64_t PieceBytesMax(uint64_t chunk_bytes) {
  if (chunk_bytes == 0) return kChunkBytesMax;
  return std::min(BytesMax(chunk_bytes), kPartialWideningMax * chunk_bytes);
}

Grid::Grid(uint64_t count, uint32_t element_bytes, uint32_t accumulator_bytes, int32_t segments,
           uint64_t chunk_bytes)
    : count_(count), segments_(segments) {
  assert(element_bytes > 0 && segments > 0);
  const uint64_t bytes = count * element_bytes;
  const uint64_t most = BytesMax(chunk_bytes);
  if (chunk_bytes == 0) {
    chunk_bytes = std::clamp(bytes / kChunksWanted, kChunkBytesMin, kChunkBytesMax);
  }
  const uint64_t widening = std::max<uint64_t>(accumulator_bytes / element_bytes, 1);
  chunk_bytes = std::clamp<uint64_t>(chunk_bytes, 64, most / widening);
  // Whole cache lines, so that two members never write the two halves of one line of an output.
  chunk_bytes = (chunk_bytes + 63) / 64 * 64;
  chunk_count_ = std::max<uint64_t>(chunk_bytes / element_bytes, 1);
  per_segment_ =
      static_cast<uint32_t>(std::max<uint64_t>((count + chunk_count_ - 1) / chunk_count_, 1));
}

Chunk Grid::At(uint32_t index) const {
  assert(index < chunks());
  Chunk chunk;
  chunk.index = index;
  chunk.segment = static_cast<int32_t>(index / per_segment_);
  chunk.first = static_cast<uint64_t>(index % per_segment_) * chunk_count_;
  chunk.count = std::min(chunk_count_, count_ - std::min(count_, chunk.first));
  return chunk;
}

}  // namespace ftar::plan
