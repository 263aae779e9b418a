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

TimeNs LaneHost::Publish(int number, GroupKey group, const LaneLine& line, Slot fresh,
                         TimeNs delay) {
  Segment& own = segment(number);
  own.seen_by = std::max(own.seen_by, now()) + delay;
  Slot& slot = own.slots[{group, line.seq % kLaneSlots}];
  fresh.lines = std::move(slot.lines);
  slot = std::move(fresh);
  slot.lines.push_back({line, own.seen_by});
  while (slot.lines.size() > 1 && slot.lines[1].seen_at <= now()) slot.lines.pop_front();
  return own.seen_by;
}

TimeNs LaneHost::Tell(int number, GroupKey group, const collective::LaneWords& words,
                      TimeNs delay) {
  Segment& own = segment(number);
  own.seen_by = std::max(own.seen_by, now()) + delay;
  auto& told = own.words[{group, words.seq % kLaneSlots}];
  told.push_back({words, own.seen_by});
  while (told.size() > 1 && told[1].seen_at <= now()) told.pop_front();
  return own.seen_by;
}

void LaneHost::Show(int number) {
  Segment& own = segment(number);
  for (auto& [key, slot] : own.slots) {
    for (Version& version : slot.lines) version.seen_at = std::min(version.seen_at, now());
  }
  for (auto& [key, told] : own.words) {
    for (Words& words : told) words.seen_at = std::min(words.seen_at, now());
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

collective::LaneWords MemberLane::WordsOf(int number, GroupKey group, Seq seq) const {
  const LaneHost::Segment& segment = host_->segment(number);
  const auto told = segment.words.find({group, seq % kLaneSlots});
  if (Dropped(segment.owner) || told == segment.words.end()) return {};
  const auto is_seen = [&](const auto& one) {
    return number == own_ || one.seen_at <= host_->now();
  };
  const auto newest = std::find_if(told->second.rbegin(), told->second.rend(), is_seen);
  const bool there = newest != told->second.rend() && newest->words.seq == seq;
  return there ? newest->words : collective::LaneWords{};
}

TimeNs MemberLane::PublishShared(GroupKey group, const LaneLine& line, const Buffer& input,
                                 bool keeps, TimeNs delay) {
  LaneHost::Slot slot;
  slot.in_area = IsForArea(input.size());
  slot.kept = keeps;
  LaneHost::Segment::Aside& aside = host_->segment(own_).asides[group];
  if (keeps && aside.view != line.view) aside = {line.view, std::make_shared<Buffer>()};
  if (keeps) aside.sums->resize(std::max(aside.sums->size(), input.size()));
  const TimeNs seen_at = host_->Publish(own_, group, line, std::move(slot), delay);
  PutInArea(group, line.seq, 0, input);
  return seen_at;
}

void MemberLane::PutAside(GroupKey group, Seq seq, uint64_t first, const Buffer& sums) {
  LaneHost::Segment& own = host_->segment(own_);
  const LaneHost::Slot& slot = own.slots[{group, seq % kLaneSlots}];
  if (slot.kept) {
    Buffer& kept = *own.asides[group].sums;
    kept.resize(std::max<size_t>(kept.size(), first + sums.size()));
    std::copy(sums.begin(), sums.end(), kept.begin() + static_cast<std::ptrdiff_t>(first));
  }
  PutInArea(group, seq, first, sums);
}

void MemberLane::PutInArea(GroupKey group, Seq seq, uint64_t first, const Buffer& elements) {
  LaneHost::Segment& own = host_->segment(own_);
  if (!own.slots[{group, seq % kLaneSlots}].in_area) return;
  Buffer& area = own.areas[group];
  area.resize(kAreaElements);
  const uint64_t at = PlaceOf(seq) / kElementBytes + first;
  std::copy(elements.begin(), elements.end(), area.begin() + static_cast<std::ptrdiff_t>(at));
}

std::shared_ptr<const Buffer> MemberLane::KeptSums(GroupKey group, uint64_t id) const {
  LaneHost::Segment& segment = host_->segment(collective::LaneSegment(id));
  const auto slot = segment.slots.find({group, collective::LaneSeq(id) % kLaneSlots});
  if (Dropped(segment.owner) || slot == segment.slots.end() || !slot->second.kept) return nullptr;
  return segment.asides[group].sums;
}

void MemberLane::RaiseFrozen(Epoch epoch) {
  LaneHost::Segment& own = host_->segment(own_);
  own.frozen = std::max(own.frozen, epoch);
  host_->Show(own_);
}

const Buffer* MemberLane::Input(GroupKey group, uint64_t id, uint64_t* first) const {
  LaneHost::Segment& segment = host_->segment(collective::LaneSegment(id));
  if (Dropped(segment.owner)) return nullptr;
  const Seq seq = collective::LaneSeq(id);
  const auto slot = segment.slots.find({group, seq % kLaneSlots});
  if (collective::RoomOf(id) == collective::LaneRoom::kShort)
    return slot == segment.slots.end() ? nullptr : &slot->second.input;
  const bool other = segment.owner != self_ && slot != segment.slots.end();
  if (other && slot->second.kept && collective::IsLaneSum(id))
    return segment.asides[group].sums.get();
  if (!other || !slot->second.in_area)
    return segment.memories.at(group)->Shared(seq, collective::IsLaneSum(id));
  *first += PlaceOf(seq) / kElementBytes;
  return &segment.areas[group];
}

}  // namespace ftar::sim
