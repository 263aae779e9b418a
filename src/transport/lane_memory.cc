#include "transport/lane_memory.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <utility>

#include "base/copy.h"
#include "base/signals_os.h"

namespace ftar::transport {

namespace {
// Where FullFence, being a locked instruction, orders all that is stored before it, a tag's own
// store needs no more. And where the processor reads in the order of the program, what was read
// behind a fence needs no second one.
#if defined(__x86_64__)
constexpr std::memory_order kTagOrder = std::memory_order_release;
constexpr bool kReadsKeepOrder = true;
#else
constexpr std::memory_order kTagOrder = std::memory_order_seq_cst;
constexpr bool kReadsKeepOrder = false;
#endif
}  // namespace

Expected<std::shared_ptr<LaneMemory>> LaneMemory::Create(MemberId self) {
  auto sealed = CreateSealedMemory("ftar-lane", kBytes, Pages::kOnTouch);
  if (!sealed.ok()) return sealed.status();
  const SignalWithheld limit(SIGXFSZ);
  if (Uninterrupted([&] { return ::fallocate(sealed->fd.get(), 0, 0, kAreasOffset); }) != 0)
    return Status(Code::kMemory, Status::System("memory for the lane", errno).text());
  std::shared_ptr<LaneMemory> lane(new LaneMemory(self));
  lane->own_ = new (sealed->memory->data()) Header;
  lane->own_fd_ = std::move(sealed->fd);
  lane->segments_[0].memory = std::move(sealed->memory);
  lane->segments_[0].header = lane->own_;
  return lane;
}

Status LaneMemory::Map(MemberId peer, const UniqueFd& fd) {
  if (SegmentOf(peer) >= 0) return {};  // a link that was made anew: it has one segment for all
  auto memory = MapSealedMemory(fd, kBytes, kBytes);
  if (!memory.ok()) return memory.status();
  const auto* const header = reinterpret_cast<const Header*>((*memory)->data());
  if (header->magic != kMagic) return {Code::kPeer, "the peer's lane has an unknown layout"};
  const auto free = std::find_if(segments_.begin(), segments_.end(),
                                 [](const Segment& segment) { return segment.memory == nullptr; });
  if (free == segments_.end()) {
    segments_.push_back({peer, std::move(*memory), header});
  } else {
    *free = {peer, std::move(*memory), header};
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

int LaneMemory::FindPlace(const Segment& mapped, GroupKey group) {
  if (mapped.header == nullptr) return -1;
  for (size_t place = 0; place < kGroupsMax; ++place) {
    if (mapped.header->groups[place].load(std::memory_order_acquire) != (kTaken | group)) continue;
    mapped.group = kTaken | group;
    mapped.place = static_cast<int>(place);
    return mapped.place;
  }
  return -1;
}

bool LaneMemory::MakeRoom(GroupKey group) {
  if (PlaceOf(0, group) >= 0) return true;
  for (auto& place : own_->groups) {
    if (place.load(std::memory_order_relaxed) != 0) continue;
    place.store(kTaken | group, std::memory_order_release);
    return true;
  }
  return false;
}

// Whoever is short of memory finds out here, and not when a page is touched.
bool LaneMemory::MakeArea(GroupKey group) {
  const int place = PlaceOf(0, group);
  if (place < 0) return false;
  bool& area = areas_[static_cast<size_t>(place)];
  if (area) return true;
  const SignalWithheld limit(SIGXFSZ);
  // Not by fallocate(), where a thread that is cancelled ends.
  area = Uninterrupted([&] {
           return ::syscall(SYS_fallocate, own_fd_.get(), 0, static_cast<off_t>(AreaOffset(place)),
                            static_cast<off_t>(wire::kLaneAreaBytes));
         }) == 0;
  return area;
}

bool LaneMemory::HasArea(GroupKey group) const {
  const int place = PlaceOf(0, group);
  return place >= 0 && areas_[static_cast<size_t>(place)];
}

[[gnu::hot]] void LaneMemory::Fill(Line& out, const wire::LaneLine& line) {
  out.attempt.store(line.attempt, std::memory_order_release);
  out.view.store(line.view, std::memory_order_release);
  out.digest.store(line.digest, std::memory_order_release);
  out.weight.store(line.weight, std::memory_order_release);
  const uint64_t bits = (line.whole ? kWhole : 0) | (line.shared ? kShared : 0);
  out.complete_end.store(line.complete_end | bits, std::memory_order_release);
}

[[gnu::hot]] void LaneMemory::Read(const Line& in, Seq seq, wire::LaneLine* line) {
  line->seq = seq;
  line->attempt = in.attempt.load(std::memory_order_acquire);
  line->view = in.view.load(std::memory_order_acquire);
  line->digest = in.digest.load(std::memory_order_acquire);
  line->weight = in.weight.load(std::memory_order_acquire);
  const uint64_t end = in.complete_end.load(std::memory_order_acquire);
  line->complete_end = end & ~(kWhole | kShared);
  line->shared = (end & kShared) != 0;
  line->whole = (end & kWhole) != 0;
}

[[gnu::hot]] void LaneMemory::Publish(GroupKey group, const wire::LaneLine& line,
                                      std::span<const std::byte> input, CopyMode mode) {
  const int place = PlaceOf(0, group);
  if (place < 0 || input.size() > wire::kLaneInputMax) return;
  Line& out = own_->lines[place][line.seq % wire::kLaneSlots];
  if (input.size() > kInlineMax) {
    Copy(reinterpret_cast<std::byte*>(own_) + InputOffset(place, line.seq), input.data(),
         input.size(), mode);
  } else {
    CopyShort(out.input, input.data(), input.size());
  }
  fenced_ = false;
  Fill(out, line);
  out.tag.store(line.seq + 1, kTagOrder);
}

void LaneMemory::PublishShared(GroupKey group, const wire::LaneLine& line, const Places& places) {
  static_assert(sizeof places <= kInlineMax);
  Publish(group, line, std::as_bytes(std::span(&places, 1)), CopyMode::kCached);
}

void LaneMemory::Tell(GroupKey group, Seq seq, uint64_t made, bool done) {
  const int place = PlaceOf(0, group);
  if (place < 0) return;
  fenced_ = false;
  Words& words = own_->words[place][seq % wire::kLaneSlots];
  words.made.store((seq + 1) << kMadeBits | made, std::memory_order_release);
  if (done) words.done.store(seq + 1, std::memory_order_release);
}

[[gnu::hot]] void LaneMemory::FullFence() const {
  if (!std::exchange(fenced_, true)) fence_.fetch_add(1, std::memory_order_seq_cst);
}

[[gnu::hot]] bool LaneMemory::Await(std::span<const int> segments, GroupKey group, Seq seq,
                                    int looks) const {
  return std::ranges::all_of(segments, [&](int segment) {
    const Line* const line = LineOf(segment, group, seq);
    if (line == nullptr) return false;
    while (line->tag.load(std::memory_order_acquire) != seq + 1) {
      if (looks-- == 0) return false;
    }
    return true;
  });
}

[[gnu::hot]] bool LaneMemory::Look(int segment, GroupKey group, Seq seq,
                                   wire::LaneLine* line) const {
  const Line* const in = LineOf(segment, group, seq);
  if (in == nullptr || in->tag.load(std::memory_order_seq_cst) != seq + 1) return false;
  Read(*in, seq, line);
  return in->tag.load(std::memory_order_relaxed) == seq + 1;
}

bool LaneMemory::PlacesOf(int segment, GroupKey group, Seq seq, Places* places) const {
  const Line* const in = LineOf(segment, group, seq);
  if (in == nullptr || in->tag.load(std::memory_order_acquire) != seq + 1) return false;
  std::memcpy(places, in->input, sizeof *places);
  return true;
}

uint64_t LaneMemory::Made(int segment, GroupKey group, Seq seq) const {
  const Words* const words = WordsOf(segment, group, seq);
  if (words == nullptr) return 0;
  const uint64_t word = words->made.load(std::memory_order_acquire);
  return (word ^ (seq + 1) << kMadeBits) <= kMadeMask ? word & kMadeMask : 0;
}

bool LaneMemory::Done(int segment, GroupKey group, Seq seq) const {
  const Words* const words = WordsOf(segment, group, seq);
  return words != nullptr && words->done.load(std::memory_order_acquire) == seq + 1;
}

[[gnu::hot]] const std::byte* LaneMemory::Input(int segment, GroupKey group, Seq seq,
                                                uint64_t offset, uint64_t bytes) const {
  if (bytes > wire::kLaneInputMax || offset > wire::kLaneInputMax - bytes) return nullptr;
  const int place = PlaceOf(segment, group);
  if (place < 0) return nullptr;
  const Header* const header = At(segment);
  // A first piece that is not the whole is longer.
  if (offset + bytes <= kInlineMax)
    return header->lines[place][seq % wire::kLaneSlots].input + offset;
  return reinterpret_cast<const std::byte*>(header) + InputOffset(place, seq) + offset;
}

const std::byte* LaneMemory::Area(int segment, GroupKey group, uint64_t offset,
                                  uint64_t bytes) const {
  if (bytes > wire::kLaneAreaBytes || offset > wire::kLaneAreaBytes - bytes) return nullptr;
  const int place = PlaceOf(segment, group);
  if (place < 0) return nullptr;
  return reinterpret_cast<const std::byte*>(At(segment)) + AreaOffset(place) + offset;
}

std::byte* LaneMemory::OwnArea(GroupKey group, uint64_t offset, uint64_t bytes) {
  const int place = PlaceOf(0, group);
  if (place < 0 || !areas_[static_cast<size_t>(place)]) return nullptr;
  return const_cast<std::byte*>(Area(0, group, offset, bytes));
}

void LaneMemory::RaiseFrozen(Epoch epoch) {
  fenced_ = false;
  const uint64_t raised = std::max(own_->frozen.load(std::memory_order_relaxed), epoch);
  own_->frozen.store(raised, std::memory_order_seq_cst);
  FullFence();
}

void LaneMemory::SetAsleep(bool asleep) {
  fenced_ = false;
  own_->asleep.store(asleep ? 1 : 0, std::memory_order_seq_cst);
}

[[gnu::hot]] bool LaneMemory::FlagUp(std::span<const int> segments, Epoch era) const {
  std::atomic_signal_fence(std::memory_order_seq_cst);  // the inputs were read before
  if (!kReadsKeepOrder) fenced_ = false;
  FullFence();
  return std::any_of(segments.begin(), segments.end(), [&](int segment) {
    const Header* const header = At(segment);
    return header == nullptr || header->frozen.load(std::memory_order_seq_cst) > era;
  });
}

}  // namespace ftar::transport
