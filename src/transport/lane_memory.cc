#include "transport/lane_memory.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

namespace ftar::transport {

namespace {
constexpr uint64_t kTaken = uint64_t{1} << 32;
}

Expected<std::shared_ptr<LaneMemory>> LaneMemory::Create(MemberId self) {
  auto sealed = CreateSealedMemory("ftar-lane", kBytes, Pages::kNow);
  if (!sealed.ok()) return sealed.status();
  std::shared_ptr<LaneMemory> lane(new LaneMemory(self));
  lane->own_ = new (sealed->memory->data()) Header;
  lane->own_fd_ = std::move(sealed->fd);
  lane->segments_[0].memory = std::move(sealed->memory);
  return lane;
}

Status LaneMemory::Map(MemberId peer, const UniqueFd& fd) {
  if (SegmentOf(peer) >= 0) return {};  // a link that was made anew: it has one segment for all
  auto memory = MapSealedMemory(fd, kBytes, kBytes);
  if (!memory.ok()) return memory.status();
  if (reinterpret_cast<const Header*>((*memory)->data())->magic != kMagic)
    return {Code::kPeer, "the peer's lane has an unknown layout"};
  const auto free = std::find_if(segments_.begin(), segments_.end(),
                                 [](const Segment& segment) { return segment.memory == nullptr; });
  if (free == segments_.end()) {
    segments_.push_back({peer, std::move(*memory)});
  } else {
    *free = {peer, std::move(*memory)};
  }
  return {};
}

void LaneMemory::Drop(MemberId peer) {
  if (const int segment = SegmentOf(peer); segment > 0)
    segments_[static_cast<size_t>(segment)] = {};
}

int LaneMemory::SegmentOf(MemberId member) const {
  for (size_t i = 0; i < segments_.size(); ++i) {
    if (segments_[i].owner == member) return static_cast<int>(i);
  }
  return -1;
}

int LaneMemory::PlaceOf(const Header& header, GroupKey group) {
  for (size_t i = 0; i < kGroupsMax; ++i) {
    if (header.groups[i].load(std::memory_order_acquire) == (kTaken | group))
      return static_cast<int>(i);
  }
  return -1;
}

bool LaneMemory::MakeRoom(GroupKey group) {
  if (PlaceOf(*own_, group) >= 0) return true;
  for (auto& place : own_->groups) {
    if (place.load(std::memory_order_relaxed) != 0) continue;
    place.store(kTaken | group, std::memory_order_release);
    return true;
  }
  return false;
}

void LaneMemory::Publish(GroupKey group, const wire::LaneLine& line,
                         std::span<const std::byte> input) {
  const int place = PlaceOf(*own_, group);
  if (place < 0 || input.size() > wire::kLaneInputMax) return;
  Line& out = own_->lines[place][line.seq % wire::kLaneSlots];
  if (!input.empty()) {
    std::byte* const to = input.size() <= kInlineMax
                              ? out.input
                              : reinterpret_cast<std::byte*>(own_) + InputOffset(place, line.seq);
    std::memcpy(to, input.data(), input.size());
  }
  out.attempt.store(line.attempt, std::memory_order_relaxed);
  out.view.store(line.view, std::memory_order_relaxed);
  out.digest.store(line.digest, std::memory_order_relaxed);
  out.weight.store(line.weight, std::memory_order_relaxed);
  out.complete_end.store(line.complete_end, std::memory_order_relaxed);
  out.tag.store(line.seq + 1, std::memory_order_seq_cst);
}

bool LaneMemory::Look(int segment, GroupKey group, Seq seq, wire::LaneLine* line) const {
  if (segments_[static_cast<size_t>(segment)].memory == nullptr) return false;
  const Header& header = *At(segment);
  const int place = PlaceOf(header, group);
  if (place < 0) return false;
  const Line& in = header.lines[place][seq % wire::kLaneSlots];
  if (in.tag.load(std::memory_order_seq_cst) != seq + 1) return false;
  line->seq = seq;
  line->attempt = in.attempt.load(std::memory_order_relaxed);
  line->view = in.view.load(std::memory_order_relaxed);
  line->digest = in.digest.load(std::memory_order_relaxed);
  line->weight = in.weight.load(std::memory_order_relaxed);
  line->complete_end = in.complete_end.load(std::memory_order_relaxed);
  return true;
}

const std::byte* LaneMemory::Input(int segment, GroupKey group, Seq seq, uint64_t offset,
                                   uint64_t bytes) const {
  if (segment < 0 || static_cast<size_t>(segment) >= segments_.size() ||
      segments_[static_cast<size_t>(segment)].memory == nullptr || bytes > wire::kLaneInputMax ||
      offset > wire::kLaneInputMax - bytes)
    return nullptr;
  const Header& header = *At(segment);
  const int place = PlaceOf(header, group);
  if (place < 0) return nullptr;
  // A first piece that is not the whole is longer.
  if (offset + bytes <= kInlineMax)
    return header.lines[place][seq % wire::kLaneSlots].input + offset;
  return reinterpret_cast<const std::byte*>(&header) + InputOffset(place, seq) + offset;
}

void LaneMemory::RaiseFrozen(Epoch epoch) {
  const uint64_t raised = std::max(own_->frozen.load(std::memory_order_relaxed), epoch);
  own_->frozen.store(raised, std::memory_order_seq_cst);
}

bool LaneMemory::FlagUp(std::span<const int> segments, Epoch era) const {
  fence_.fetch_add(1, std::memory_order_seq_cst);  // the inputs were read before
  return std::any_of(segments.begin(), segments.end(), [&](int segment) {
    return segments_[static_cast<size_t>(segment)].memory == nullptr ||
           At(segment)->frozen.load(std::memory_order_seq_cst) > era;
  });
}

}  // namespace ftar::transport
