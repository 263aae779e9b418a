// The lane's memory (rule F4, collective/lane.h): one segment of this process that its host-mates
// map read-only, and theirs, mapped here.
//
// Every word has one writer, the segment's owner (rule F1). A line and its input are written before
// the line's tag, so whoever sees the tag sees them; up to 80 bytes of input lie in the line
// itself, a pair of cache lines in all. Of a shared operation the line says where its input lies
// and where its sums will, and words beside it how far these are, and that its writer is done with
// what the others have shared. Who freezes raises its flag, passes a full fence and reads tags; who
// delivers has stored its own tag, has read all tags and inputs, passes a full fence and reads
// flags. So one of the two sees the other's (protocol.md 10). The store of a tag is no fence: to
// wait until the line is this core's costs as much as the rest of an operation, and the others'
// lines can be read meanwhile. No standalone fences: ThreadSanitizer does not know them. A peer's
// words are bounded before they are used; its inputs are data like any other.
//
// One thread at a time (the job's lock). Mappings outlive their writers; Drop ends one.
#ifndef FTAR_TRANSPORT_LANE_MEMORY_H_
#define FTAR_TRANSPORT_LANE_MEMORY_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/copy.h"
#include "base/ids.h"
#include "base/status.h"
#include "transport/fd.h"
#include "transport/sealed_memory.h"
#include "transport/transport.h"
#include "wire/lane.h"

namespace ftar::transport {

class LaneMemory {
 public:
  static Expected<std::shared_ptr<LaneMemory>> Create(MemberId self);

  // To be passed to host-mates.
  int fd() const { return own_fd_.get(); }
  // A mate's segment. What is no such segment is refused.
  Status Map(MemberId peer, const UniqueFd& fd);
  void Drop(MemberId peer);
  void CloseInForkedChild() { own_fd_.Reset(); }

  // The own one's is 0; -1: it is not mapped.
  int SegmentOf(MemberId member) const;
  MemberId OwnerOf(int segment) const { return segments_[static_cast<size_t>(segment)].owner; }
  // A place for the group in the own segment. False if there is none left.
  bool MakeRoom(GroupKey group);
  // And an area for what is shared there. MakeRoom comes first.
  bool MakeArea(GroupKey group);
  bool HasArea(GroupKey group) const;
  // MakeRoom comes first. Whoever goes on to look whether somebody sleeps passes a full fence. An
  // input too long for the line is copied in this way.
  void Publish(GroupKey group, const wire::LaneLine& line, std::span<const std::byte> input,
               CopyMode mode);
  // What was stored here before is seen by all before anything is read here afterwards. It costs
  // nothing where that holds already.
  void FullFence() const;
  // Where bytes lie that are shared: in a block of memory that their owner has shown to the others
  // (Link::Show), or, `block` being 0, in its area of the group.
  struct Places {
    Link::Place input, sums;
    uint64_t traits = 0;  // what their writer says of them, in bits of its own
  };
  void PublishShared(GroupKey group, const wire::LaneLine& line, const Places& places);
  void Tell(GroupKey group, Seq seq, uint64_t made, bool done);
  // Looks at the tag of each segment's line of the operation, and at nothing else, up to `looks`
  // times. False: some line is missing.
  bool Await(std::span<const int> segments, GroupKey group, Seq seq, int looks) const;
  bool Look(int segment, GroupKey group, Seq seq, wire::LaneLine* line) const;
  // False: the line is not there, or another operation's.
  bool PlacesOf(int segment, GroupKey group, Seq seq, Places* places) const;
  uint64_t Made(int segment, GroupKey group, Seq seq) const;
  bool Done(int segment, GroupKey group, Seq seq) const;
  // Null if the segment has no place for the group, or so large an input none in it.
  const std::byte* Input(int segment, GroupKey group, Seq seq, uint64_t offset,
                         uint64_t bytes) const;
  // In the group's area. The own one is there after MakeArea.
  const std::byte* Area(int segment, GroupKey group, uint64_t offset, uint64_t bytes) const;
  std::byte* OwnArea(GroupKey group, uint64_t offset, uint64_t bytes);
  void RaiseFrozen(Epoch epoch);
  bool FlagUp(std::span<const int> segments, Epoch era) const;
  // Whether the owner sleeps and wants to be woken for what is published. Set before it looks at
  // the lines for the last time; the others ask after a full fence behind what they have published.
  void SetAsleep(bool asleep);
  // Calls `wake` with the owner of each of the others' segments that is asleep.
  template <typename Wake>
  void ForSleepers(const Wake& wake) const {
    for (size_t i = 1; i < segments_.size(); ++i) {
      const Header* const header = segments_[i].header;
      if (header != nullptr && header->asleep.load(std::memory_order_seq_cst) != 0)
        wake(segments_[i].owner);
    }
  }

 private:
  static constexpr uint64_t kTaken = uint64_t{1} << 32;
  static constexpr uint64_t kMagic = 0x38656e61'6c746661;
  static constexpr uint64_t kWhole = uint64_t{1} << 63, kShared = uint64_t{1} << 62;
  static constexpr size_t kGroupsMax = 4;
  static constexpr size_t kInlineMax = 80;

  // Two of a processor's lines, since it fetches them in pairs: who reads an operation's is not to
  // take along the one that the next is about to be written to.
  struct alignas(128) Line {
    std::atomic<uint64_t> tag{0};  // seq + 1; written last
    std::atomic<uint64_t> attempt{0}, view{0}, digest{0};
    std::atomic<double> weight{0};
    std::atomic<uint64_t> complete_end{0};  // and these two bits
    std::byte input[kInlineMax] = {};
  };
  static_assert(sizeof(Line) == 128);
  // Each with seq + 1: as much of it as its upper bits hold, or as it is.
  struct alignas(64) Words {
    std::atomic<uint64_t> made{0}, done{0};
  };
  static constexpr int kMadeBits = 29;  // so that a word of long ago is no other's
  static constexpr uint64_t kMadeMask = (uint64_t{1} << kMadeBits) - 1;
  static_assert(wire::kLaneSharedMax <= kMadeMask);
  struct Header {
    uint64_t magic = kMagic;
    // Everybody looks at these for every operation, and they seldom change: one line of the cache.
    alignas(64) std::atomic<uint64_t> frozen{0};
    std::atomic<uint64_t> asleep{0};
    std::atomic<uint64_t> groups[kGroupsMax] = {};  // key with bit 32 set; 0: free
    Line lines[kGroupsMax][wire::kLaneSlots];
    Words words[kGroupsMax][wire::kLaneSlots];
  };
  static constexpr size_t kInputsOffset = (sizeof(Header) + 4095) / 4096 * 4096;
  static constexpr size_t kAreasOffset =
      kInputsOffset + kGroupsMax * wire::kLaneSlots * wire::kLaneInputMax;
  static constexpr size_t kBytes = kAreasOffset + kGroupsMax * wire::kLaneAreaBytes;

  struct alignas(64) Segment {  // a power of two: it is looked up for every line
    MemberId owner;
    std::shared_ptr<const MappedMemory> memory;  // null: free
    const Header* header = nullptr;              // in `memory`
    // The group that was asked for last, as its word says it, and its place, which is never given
    // back: it is not looked up again. 0: none was.
    mutable uint64_t group = 0;
    mutable int place = -1;
  };

  explicit LaneMemory(MemberId self) { segments_.push_back({self, nullptr}); }
  // Null if nothing is mapped there.
  const Header* At(int segment) const {
    const auto at = static_cast<size_t>(segment);
    return at < segments_.size() ? segments_[at].header : nullptr;
  }
  // -1: it has none there, or nothing is mapped.
  int PlaceOf(int segment, GroupKey group) const {
    const auto at = static_cast<size_t>(segment);
    if (at >= segments_.size()) return -1;
    const Segment& mapped = segments_[at];
    return mapped.group == (kTaken | group) ? mapped.place : FindPlace(mapped, group);
  }
  static int FindPlace(const Segment& mapped, GroupKey group);
  // Null where there is no place for the group.
  const Line* LineOf(int segment, GroupKey group, Seq seq) const {
    const int place = PlaceOf(segment, group);
    return place >= 0 ? &At(segment)->lines[place][seq % wire::kLaneSlots] : nullptr;
  }
  const Words* WordsOf(int segment, GroupKey group, Seq seq) const {
    const int place = PlaceOf(segment, group);
    return place >= 0 ? &At(segment)->words[place][seq % wire::kLaneSlots] : nullptr;
  }
  static void Fill(Line& out, const wire::LaneLine& line);
  static void Read(const Line& in, Seq seq, wire::LaneLine* line);
  static size_t InputOffset(int place, Seq seq) {
    return kInputsOffset +
           (static_cast<size_t>(place) * wire::kLaneSlots + seq % wire::kLaneSlots) *
               wire::kLaneInputMax;
  }
  static size_t AreaOffset(int place) {
    return kAreasOffset + static_cast<size_t>(place) * wire::kLaneAreaBytes;
  }

  UniqueFd own_fd_;
  Header* own_ = nullptr;
  std::array<bool, kGroupsMax> areas_ = {};  // its pages are there
  std::vector<Segment> segments_;
  // Nobody else knows it: what is asked of it is that no load passes it.
  mutable std::atomic<uint32_t> fence_{0};
  mutable bool fenced_ = false;  // nothing has been stored here since
};

}  // namespace ftar::transport

#endif  // FTAR_TRANSPORT_LANE_MEMORY_H_
