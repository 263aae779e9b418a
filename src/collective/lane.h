// The lane: operations between members of one host without messages.
//
// Each member owns one segment of memory that the others map read-only: its frozen flag, and a slot
// for each of its last operations with a line (what the call is) and its input. Whoever sees the
// lines of all members has all inputs. Small ones take one pass (rule F4): each member makes the
// whole result, looks at all flags after it has read the inputs, and delivers if none is up. Longer
// ones are shared: each sums the chunks that it owns and copies the others' sums, and words beside
// the line say how far its own are made, and that all is complete here. This header is what the
// machine asks of the memory; transport/lane_memory.h is the real one, and the simulator has one
// whose stores are seen late.
#ifndef FTAR_COLLECTIVE_LANE_H_
#define FTAR_COLLECTIVE_LANE_H_

#include <cstdint>
#include <span>

#include "base/ids.h"
#include "wire/lane.h"

namespace ftar::collective {

using wire::kLaneSlots;
using wire::LaneLine;

// How an operation goes through the lane: in one pass, its input with its line, or shared, its
// input where it lies, or in the group's area.
enum class LaneRoom : uint8_t { kNone, kShort, kShared };

// Names an input in the lane for BufferRef: whose segment, which operation, which kind of place; or
// the sums that a member has made of a shared one.
constexpr uint64_t kLaneIsShared = uint64_t{1} << 47, kLaneIsSum = uint64_t{1} << 46;
constexpr uint64_t LaneInput(int segment, Seq seq, LaneRoom room) {
  return static_cast<uint64_t>(segment) << 48 | (room == LaneRoom::kShared ? kLaneIsShared : 0) |
         (seq & (kLaneIsSum - 1));
}
constexpr uint64_t LaneSum(int segment, Seq seq) {
  return LaneInput(segment, seq, LaneRoom::kShared) | kLaneIsSum;
}
constexpr int LaneSegment(uint64_t id) { return static_cast<int>(id >> 48); }
constexpr LaneRoom RoomOf(uint64_t id) {
  return (id & kLaneIsShared) != 0 ? LaneRoom::kShared : LaneRoom::kShort;
}
constexpr bool IsLaneSum(uint64_t id) { return (id & kLaneIsSum) != 0; }
constexpr Seq LaneSeq(uint64_t id) { return id & (kLaneIsSum - 1); }

class Lane {
 public:
  virtual ~Lane() = default;
  // Number of a member's segment here; negative if it cannot be read (or, the own one, written).
  virtual int SegmentOf(MemberId member) const = 0;
  // Whether the own segment takes operations of this group with so large an input, and where.
  virtual LaneRoom RoomFor(GroupKey group, uint64_t bytes) = 0;
  // The line of the operation, if it is in its slot. What its writer wrote before is seen as well.
  virtual bool Look(int segment, GroupKey group, Seq seq, LaneLine* line) const = 0;
  // Of a shared operation: how many bytes of the chunks that this member owns, in their order, are
  // made, and whether the whole result is there, and nothing is read any more that others may take
  // back. What its writer wrote before is seen as well.
  virtual uint64_t Made(int segment, GroupKey group, Seq seq) const = 0;
  virtual bool Done(int segment, GroupKey group, Seq seq) const = 0;
  // The own flag, up to `epoch` from now on. What was stored here before is seen by whoever does
  // not see the flag down any more, and what is read here afterwards is what stands there now.
  virtual void RaiseFrozen(Epoch epoch) = 0;
  // Whether one of them has raised its flag beyond `era`. Asked after the inputs were read: no such
  // read passes it, and what was published here before is seen by all.
  virtual bool FlagUp(std::span<const int> segments, Epoch era) const = 0;
  // This member has left, and all that its segment is needed for is done.
  virtual void Drop(MemberId member) = 0;
};

}  // namespace ftar::collective

#endif  // FTAR_COLLECTIVE_LANE_H_
