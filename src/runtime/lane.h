// The lane as the engine asks for it (collective/lane.h), over this host's memory. Under the job's
// lock, as its engine is.
#ifndef FTAR_RUNTIME_LANE_H_
#define FTAR_RUNTIME_LANE_H_

#include <algorithm>
#include <memory>
#include <span>
#include <utility>

#include "collective/lane.h"
#include "transport/lane_memory.h"

namespace ftar::runtime {

class HostLane final : public collective::Lane {
 public:
  // Operations with a larger input than `bytes_max` go by frames.
  HostLane(std::shared_ptr<transport::LaneMemory> memory, uint64_t bytes_max)
      : memory_(std::move(memory)), bytes_max_(std::min(bytes_max, wire::kLaneSharedMax)) {}

  int SegmentOf(MemberId member) const override { return memory_->SegmentOf(member); }
  collective::LaneRoom RoomFor(GroupKey group, uint64_t bytes) override {
    if (bytes > bytes_max_ || !memory_->MakeRoom(group)) return collective::LaneRoom::kNone;
    const bool is_short = bytes <= wire::kLaneInputMax;
    return is_short ? collective::LaneRoom::kShort : collective::LaneRoom::kShared;
  }
  // Where in the area a shared input would lie.
  static uint64_t OffsetOf(Seq seq, uint64_t bytes) {
    return wire::LaneAreaOffset(seq, bytes);
  }
  bool Look(int segment, GroupKey group, Seq seq, wire::LaneLine* line) const override {
    return memory_->Look(segment, group, seq, line);
  }
  uint64_t Made(int segment, GroupKey group, Seq seq) const override {
    return memory_->Made(segment, group, seq);
  }
  bool Done(int segment, GroupKey group, Seq seq) const override {
    return memory_->Done(segment, group, seq);
  }
  void RaiseFrozen(Epoch epoch) override { memory_->RaiseFrozen(epoch); }
  bool FlagUp(std::span<const int> segments, Epoch era) const override {
    return memory_->FlagUp(segments, era);
  }
  void Drop(MemberId member) override { memory_->Drop(member); }

  transport::LaneMemory& memory() { return *memory_; }
  const std::shared_ptr<transport::LaneMemory>& shared() const { return memory_; }

 private:
  const std::shared_ptr<transport::LaneMemory> memory_;
  const uint64_t bytes_max_;
};

}  // namespace ftar::runtime

#endif  // FTAR_RUNTIME_LANE_H_
