#include "plan/grid.h"

#include <algorithm>
#include <cassert>

namespace ftar::plan {

namespace {

constexpr int kTwoAtOnce = 2;  // one on its way, and one that is worked on
constexpr int kCrowdedPieces = 4;

uint64_t BytesMax(uint64_t chunk_bytes) {
  return std::clamp(chunk_bytes, kChunkBytesMax, kAskedBytesMax);
}

// On wires an owner of all receives and sends alone what the others could: less than this is not
// worth a message.
uint64_t WiredBytesLeast(const Ground& ground) {
  if (ground.byte_ps == 0) return kWiredBytesEnough;
  return std::clamp(1000 * kMessageNs / ground.byte_ps, kWiredBytesMin, kWiredBytesEnough);
}

// How many pieces there should be, large enough or not.
uint64_t PiecesWanted(Kind kind, PlanKind plan, const Ground& ground) {
  // Everybody's segments, or inputs, are pieces enough.
  if (HasSegments(kind) || plan == PlanKind::kOneShot) return 1;
  if (kind == Kind::kBroadcast || ground.members < 2) return kTwoAtOnce;
  // Who shares a core with others pays for everybody's frames, whoever owns the piece.
  if (ground.crowded) return ground.wired ? kTwoAtOnce : std::min(ground.members, kCrowdedPieces);
  return static_cast<uint64_t>(ground.members);
}

}  // namespace

uint64_t PieceBytes(Kind kind, PlanKind plan, uint64_t bytes, const Ground& ground, uint64_t least,
                    uint64_t most) {
  const uint64_t wanted = PiecesWanted(kind, plan, ground);
  if (ground.shared) least = std::min(least, kSharedBytesMin);
  if (ground.wired && !ground.crowded && ground.members > 2)
    least = std::min(least, WiredBytesLeast(ground));
  uint64_t pieces = std::clamp<uint64_t>(bytes / least, 1, wanted);
  // As many for one owner as for the other.
  const uint64_t rounds = (bytes + pieces * most - 1) / (pieces * most);
  pieces *= std::max<uint64_t>(rounds, 1);
  return std::clamp((bytes + pieces - 1) / pieces, least, most);
}

uint64_t PieceBytesMax(uint64_t chunk_bytes) {
  if (chunk_bytes == 0) return kChunkBytesMax;
  return std::min(BytesMax(chunk_bytes), kPartialWideningMax * chunk_bytes);
}

uint64_t BlockBytes(uint64_t bytes, size_t owners, uint64_t least, uint64_t most) {
  constexpr uint64_t kPage = 4096;
  return std::clamp(bytes / (2 * owners) / kPage * kPage, least, most);
}

Grid::Grid(uint64_t count, uint32_t element_bytes, uint32_t accumulator_bytes, int32_t segments,
           uint64_t chunk_bytes)
    : count_(count), segments_(segments) {
  assert(element_bytes > 0 && segments > 0);
  const uint64_t most = BytesMax(chunk_bytes);
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
