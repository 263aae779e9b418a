// The lanes of a simulated host (rule F4): memory whose stores are seen late. A line is seen some
// time after it was written, those of one writer in their order; an input may be seen before its
// line, as where its store did not wait. A shared one is read where it lies, or in the area, and so
// are its sums, whatever has become of them; the words are seen late. Raising the flag and looking
// at the others' are full fences. What a dead member has written stays, and its last stores are
// seen still.
#ifndef FTAR_TESTS_SIM_LANE_H_
#define FTAR_TESTS_SIM_LANE_H_

#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "collective/lane.h"
#include "memory.h"

namespace ftar::sim {

// All segments of the host.
class LaneHost {
 public:
  struct Version {
    collective::LaneLine line;
    TimeNs seen_at = 0;
  };
  struct Slot {
    std::deque<Version> lines;  // the newest last
    Buffer input;
    bool in_area = false;  // shared: not where the user has it
    bool kept = false;     // its sums wait aside
  };
  struct Words {
    collective::LaneWords words;
    TimeNs seen_at = 0;
  };
  struct Segment {
    MemberId owner;
    Epoch frozen = 0;
    TimeNs seen_by = 0;  // everything written so far
    std::map<std::pair<GroupKey, Seq>, Slot> slots;
    std::map<std::pair<GroupKey, Seq>, std::deque<Words>> words;
    std::map<GroupKey, Buffer> areas;
    // Of sums in place. In every view another one, since who is out may read the last one still.
    struct Aside {
      Epoch view = 0;
      std::shared_ptr<Buffer> sums;
    };
    std::map<GroupKey, Aside> asides;
    std::map<GroupKey, Memory*> memories;  // of its owner
  };

  explicit LaneHost(const TimeNs* now) : now_(now) {}
  int Add(MemberId owner);
  int NumberOf(MemberId owner) const;
  Segment& segment(int number) { return segments_[static_cast<size_t>(number)]; }
  TimeNs now() const { return *now_; }
  // Returns when the others see it.
  TimeNs Publish(int number, GroupKey group, const collective::LaneLine& line, Slot slot,
                 TimeNs delay);
  TimeNs Tell(int number, GroupKey group, const collective::LaneWords& words, TimeNs delay);
  // All that it has written is seen from now on.
  void Show(int number);

 private:
  const TimeNs* const now_;
  std::deque<Segment> segments_;
};

// One member's eyes.
class MemberLane final : public collective::Lane {
 public:
  // `sees`: whether this member has mapped that one's segment.
  MemberLane(LaneHost* host, MemberId self, std::function<bool(MemberId)> sees)
      : host_(host), self_(self), own_(host->Add(self)), sees_(std::move(sees)) {}
  int SegmentOf(MemberId member) const override;
  collective::LaneRoom RoomFor(GroupKey, uint64_t) override {
    return collective::LaneRoom::kShort;
  }
  // Inputs of 3, 7, 11 and so on elements are shared in the area.
  static bool IsForArea(uint64_t elements) { return elements % 4 == 3; }
  // Two places take turns, of which one begins within the other, so that some overlap.
  static constexpr uint64_t kAreaElements = 64;
  static uint64_t PlaceOf(Seq seq) { return seq % 2 * 20 * kElementBytes; }
  bool Look(int segment, GroupKey group, Seq seq, collective::LaneLine* line) const override;
  uint64_t Made(int segment, GroupKey group, Seq seq) const override {
    return WordsOf(segment, group, seq).made;
  }
  bool Done(int segment, GroupKey group, Seq seq) const override {
    return WordsOf(segment, group, seq).done;
  }
  void RaiseFrozen(Epoch epoch) override;
  bool FlagUp(std::span<const int> segments, Epoch era) const override {
    host_->Show(own_);
    return std::any_of(segments.begin(), segments.end(),
                       [&](int segment) { return host_->segment(segment).frozen > era; });
  }
  void Drop(MemberId member) override { dropped_.push_back(member); }

  TimeNs Publish(GroupKey group, const collective::LaneLine& line, Buffer input, TimeNs delay) {
    return host_->Publish(own_, group, line, {{}, std::move(input)}, delay);
  }
  // Its input of an operation that is shared; and its sums are kept aside, or not.
  TimeNs PublishShared(GroupKey group, const collective::LaneLine& line, const Buffer& input,
                       bool keeps, TimeNs delay);
  TimeNs Tell(GroupKey group, const collective::LaneWords& words, TimeNs delay) {
    return host_->Tell(own_, group, words, delay);
  }
  // Sums that the others do not read where the user has them.
  void PutAside(GroupKey group, Seq seq, uint64_t first, const Buffer& sums);
  // Those of another one that are kept aside; null: they are not.
  std::shared_ptr<const Buffer> KeptSums(GroupKey group, uint64_t id) const;
  void Show() { host_->Show(own_); }
  // What a kLane reference means to this member, from its element `first` on: what stands there
  // now. Null if this member cannot see it.
  const Buffer* Input(GroupKey group, uint64_t id, uint64_t* first) const;
  void Attach(GroupKey group, Memory* memory) {
    host_->segment(own_).memories[group] = memory;
    memory->Attach(group, this);
  }

 private:
  // What others do not read where the user has it.
  void PutInArea(GroupKey group, Seq seq, uint64_t first, const Buffer& elements);
  collective::LaneWords WordsOf(int segment, GroupKey group, Seq seq) const;
  bool Dropped(MemberId member) const;

  LaneHost* const host_;
  const MemberId self_;
  const int own_;
  const std::function<bool(MemberId)> sees_;
  std::vector<MemberId> dropped_;
};

}  // namespace ftar::sim

#endif  // FTAR_TESTS_SIM_LANE_H_
