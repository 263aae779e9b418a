// The lane: small operations between members of one host in one pass (rule F4).
//
// Each member owns one segment of memory that the others map read-only: its frozen flag, and a slot
// for each of its last operations with a line (what the call is) and its input. Whoever sees the
// lines of all members has all inputs; it looks at all flags after it has read them, and delivers
// if none is up. This header is what the machine asks of the memory; transport/lane_memory.h is
// the real one, and the simulator has one whose stores are seen late.
#ifndef FTAR_COLLECTIVE_LANE_H_
#define FTAR_COLLECTIVE_LANE_H_

#include <cstdint>
#include <span>

#include "base/ids.h"
#include "wire/lane.h"

namespace ftar::collective {

using wire::kLaneSlots;
using wire::LaneLine;

// Where an operation's input lies in the lane: with its line, or, being long, in the group's area,
// where it is written piece by piece.
enum class LaneRoom : uint8_t { kNone, kShort, kLong };

// Names an input in the lane for BufferRef: whose segment, which operation, which kind of place.
constexpr uint64_t kLaneIsLong = uint64_t{1} << 47;
constexpr uint64_t LaneInput(int segment, Seq seq, LaneRoom room) {
  return static_cast<uint64_t>(segment) << 48 | (room == LaneRoom::kLong ? kLaneIsLong : 0) |
         (seq & (kLaneIsLong - 1));
}
constexpr int LaneSegment(uint64_t id) { return static_cast<int>(id >> 48); }
constexpr LaneRoom RoomOf(uint64_t id) {
  return (id & kLaneIsLong) != 0 ? LaneRoom::kLong : LaneRoom::kShort;
}
constexpr Seq LaneSeq(uint64_t id) { return id & (kLaneIsLong - 1); }

class Lane {
 public:
  virtual ~Lane() = default;
  // Number of a member's segment here; negative if it cannot be read (or, the own one, written).
  virtual int SegmentOf(MemberId member) const = 0;
  // Whether the own segment takes operations of this group with so large an input, and where.
  virtual LaneRoom RoomFor(GroupKey group, uint64_t bytes) = 0;
  // Where in the area a long input lies: BufferRef's offsets count from the area's beginning.
  virtual uint64_t OffsetOf(Seq seq, uint64_t bytes) const = 0;
  // The line of the operation, if it is in its slot. What its writer wrote before is seen as well.
  virtual bool Look(int segment, GroupKey group, Seq seq, LaneLine* line) const = 0;
  // The line of an operation with a long input, from its first piece on, and how many bytes of the
  // input are there. 0: it has not begun. What is made of them counts if Look finds the line in the
  // end.
  virtual uint64_t LookBegun(int segment, GroupKey group, Seq seq, LaneLine* line) const = 0;
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
