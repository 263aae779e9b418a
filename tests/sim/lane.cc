#include "lane.h"

#include <algorithm>
#include <utility>

namespace ftar::sim {

using collective::kLaneSlots;
using collective::LaneLine;

int LaneHost::Add(MemberId owner) {
  segments_.emplace_back();
  segments_.back().owner = owner;
  return static_cast<int>(segments_.size()) - 1;
}

int LaneHost::NumberOf(MemberId owner) const {
  for (size_t i = 0; i < segments_.size(); ++i) {
    if (segments_[i].owner == owner) return static_cast<int>(i);
  }
  return -1;
}

TimeNs LaneHost::Publish(int number, GroupKey group, const LaneLine& line, Buffer input,
                         TimeNs delay) {
  Segment& own = segment(number);
  own.seen_by = std::max(own.seen_by, now()) + delay;
  Slot& slot = own.slots[{group, line.seq % kLaneSlots}];
  if (MemberLane::RoomOf(input.size() * kElementBytes) == collective::LaneRoom::kLong) {
    const uint64_t bytes = input.size() * kElementBytes;
    own.begun[{group, line.seq % kLaneSlots}] = {line, bytes};
    Buffer& area = own.areas[group];
    area.resize(MemberLane::kAreaElements);
    const uint64_t first = MemberLane::PlaceOf(line.seq) / kElementBytes;
    std::copy(input.begin(), input.end(), area.begin() + static_cast<std::ptrdiff_t>(first));
  } else {
    slot.input = std::move(input);
  }
  slot.lines.push_back({line, own.seen_by});
  while (slot.lines.size() > 1 && slot.lines[1].seen_at <= now()) slot.lines.pop_front();
  return own.seen_by;
}

void LaneHost::Show(int number) {
  Segment& own = segment(number);
  for (auto& [key, slot] : own.slots) {
    for (Version& version : slot.lines) version.seen_at = std::min(version.seen_at, now());
  }
  own.seen_by = now();
}

bool MemberLane::Dropped(MemberId member) const {
  return std::find(dropped_.begin(), dropped_.end(), member) != dropped_.end();
}

int MemberLane::SegmentOf(MemberId member) const {
  if (member != self_ && (Dropped(member) || !sees_(member))) return -1;
  return host_->NumberOf(member);
}

bool MemberLane::Look(int number, GroupKey group, Seq seq, LaneLine* line) const {
  const LaneHost::Segment& segment = host_->segment(number);
  if (Dropped(segment.owner)) return false;
  const auto slot = segment.slots.find({group, seq % kLaneSlots});
  if (slot == segment.slots.end()) return false;
  const auto& lines = slot->second.lines;
  const auto newest = std::find_if(lines.rbegin(), lines.rend(), [&](const auto& version) {
    return number == own_ || version.seen_at <= host_->now();
  });
  if (newest == lines.rend() || newest->line.seq != seq) return false;
  *line = newest->line;
  return true;
}

uint64_t MemberLane::LookBegun(int number, GroupKey group, Seq seq, LaneLine* line) const {
  const LaneHost::Segment& segment = host_->segment(number);
  const auto begun = segment.begun.find({group, seq % kLaneSlots});
  if (Dropped(segment.owner) || begun == segment.begun.end() || begun->second.line.seq != seq)
    return 0;
  *line = begun->second.line;
  return begun->second.bytes;
}

void MemberLane::RaiseFrozen(Epoch epoch) {
  LaneHost::Segment& own = host_->segment(own_);
  own.frozen = std::max(own.frozen, epoch);
  host_->Show(own_);
}

const Buffer* MemberLane::Input(GroupKey group, uint64_t id) const {
  const LaneHost::Segment& segment = host_->segment(collective::LaneSegment(id));
  if (Dropped(segment.owner)) return nullptr;
  const Seq seq = collective::LaneSeq(id);
  if (collective::RoomOf(id) == collective::LaneRoom::kLong) {
    const auto area = segment.areas.find(group);
    return area == segment.areas.end() ? nullptr : &area->second;
  }
  const auto slot = segment.slots.find({group, seq % kLaneSlots});
  return slot == segment.slots.end() ? nullptr : &slot->second.input;
}

}  // namespace ftar::sim
