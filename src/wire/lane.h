// What a member says of a small operation in the memory that it shows to the others of its host
// (rule F4), beside its input: the counterpart of a frame's header.
#ifndef FTAR_WIRE_LANE_H_
#define FTAR_WIRE_LANE_H_

#include <algorithm>
#include <bit>

#include "base/ids.h"

namespace ftar::wire {

// Operations of a group whose lines stand in a segment at a time; a line's slot is its seq modulo
// this.
inline constexpr Seq kLaneSlots = 16;
inline constexpr uint64_t kLaneInputMax = 16 * 1024;
// A longer input is shared: the others read it where it lies, or, where they cannot, in an area of
// its group, up to this size. Operations take turns in so much of it that what was written the last
// time is in no core's own cache any more: to write over what another core has read takes longer.
inline constexpr uint64_t kLaneSharedMax = 256 << 20;
inline constexpr uint64_t kLaneLongMax = 512 * 1024;
inline constexpr uint64_t kLaneAreaBytes = 8 * kLaneLongMax;

// Where in the area. A function of the operation alone, as all must find it. What has no room there
// is beyond its end: a peer's line may name the area whatever the length, and no more is believed.
constexpr uint64_t LaneAreaOffset(Seq seq, uint64_t bytes) {
  if (bytes > kLaneAreaBytes) return kLaneAreaBytes;
  const uint64_t place = std::bit_ceil(bytes);
  return seq % std::min<uint64_t>(kLaneSlots, kLaneAreaBytes / place) * place;
}

struct LaneLine {
  Seq seq = 0;
  Epoch attempt = 0;     // the epoch of the attempt
  Epoch view = 0;        // the newest view that the writer has installed (rule J3)
  uint64_t digest = 0;   // of the call (rule V5)
  double weight = 1;     // rule V7; with 0 there is no input
  Seq complete_end = 0;  // as in a frame's header
  bool shared = false;  // the input is where the line says, and not behind it
  // All of it is there, and stays what it is until the operation is stable.
  bool whole = false;
};

}  // namespace ftar::wire

#endif  // FTAR_WIRE_LANE_H_
