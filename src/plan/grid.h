// The chunk grid: how an operation's elements are cut into chunks. Its first attempt settles that,
// and every later one keeps it (rule F5), so that a retry with fewer members finds the same pieces.
// Pure.
#ifndef FTAR_PLAN_GRID_H_
#define FTAR_PLAN_GRID_H_

#include <cstddef>
#include <cstdint>

#include "plan/ground.h"
#include "plan/role.h"

namespace ftar::plan {

// Of a chunk's elements and of its partial sums, which may be eight times as wide: transports need
// room for whole ones.
inline constexpr uint64_t kChunkBytesMax = 512 * 1024;
inline constexpr uint64_t kAskedBytesMax = 8 << 20;  // the same where a chunk's size was asked for
inline constexpr uint64_t kPartialWideningMax = 8;
inline constexpr uint64_t kChunkBytesMin = 64 * 1024;  // a frame costs 1 to 2 us at either end
// Where words in a lane take a frame's place.
inline constexpr uint64_t kSharedBytesMin = 4 * 1024;
// Where every owner has a wire of its own: what a message costs, on slow ones.
inline constexpr uint64_t kWiredBytesMin = 1024, kWiredBytesEnough = 4 * 1024;

// The most bytes that a chunk, or its partial sum, may have. chunk_bytes 0: chosen for each
// operation.
uint64_t PieceBytesMax(uint64_t chunk_bytes);

// The bytes of a chunk of an operation whose segments (or whole) have `bytes`, at most `most` of
// them and, where there are so many, at least `least`. Each owner has one piece, or as many as the
// others: more cost frames and gain nothing, where who waits for a piece has others to work on.
uint64_t PieceBytes(Kind kind, PlanKind plan, uint64_t bytes, const Ground& ground,
                    uint64_t least = kChunkBytesMin, uint64_t most = kChunkBytesMax);

// Blocks are what a member makes, or copies, at a time where words in a lane say how far it is. One
// has half of what an owner has, in whole pages, so that the others copy the first while it makes
// the second; at least and at most so many bytes. Of a long operation in small ones a part of the
// time goes into turning from sums to copies and back.
inline constexpr uint64_t kBlockBytesMin = 128 * 1024, kBlockBytesMax = kChunkBytesMax;
uint64_t BlockBytes(uint64_t bytes, size_t owners, uint64_t least, uint64_t most);

struct Chunk {
  uint32_t index = 0;
  int32_t segment = 0;  // 0 for operations without segments
  uint64_t first = 0;   // element, counted from the start of the segment
  uint64_t count = 0;   // elements
};

// `segments` pieces of `count` elements each (1 for allreduce, broadcast, barrier), cut alike.
// There is always at least one chunk a segment, so that an operation on 0 elements is still agreed
// upon.
class Grid {
 public:
  Grid() = default;
  // chunk_bytes: as PieceBytes has them, or as they were asked for. `accumulator_bytes` are those
  // of a partial sum's element.
  Grid(uint64_t count, uint32_t element_bytes, uint32_t accumulator_bytes, int32_t segments,
       uint64_t chunk_bytes);

  uint32_t chunks() const { return per_segment_ * static_cast<uint32_t>(segments_); }
  uint32_t chunks_per_segment() const { return per_segment_; }
  int32_t segments() const { return segments_; }
  uint64_t count() const { return count_; }
  Chunk At(uint32_t index) const;

 private:
  uint64_t count_ = 0;
  uint64_t chunk_count_ = 1;  // elements a chunk
  uint32_t per_segment_ = 1;
  int32_t segments_ = 1;
};

}  // namespace ftar::plan

#endif  // FTAR_PLAN_GRID_H_
