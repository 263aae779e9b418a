// What a group keeps to while a planned change is on its way, by the rules J3 and J5.
#ifndef FTAR_COLLECTIVE_PLANNED_CHANGE_H_
#define FTAR_COLLECTIVE_PLANNED_CHANGE_H_

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "base/mutant.h"
#include "wire/messages.h"
#include "wire/view.h"

namespace ftar::collective {

// J3: while a boundary is reserved nothing from it on is started here before the announcement, and
// nothing is said that lets others start it: an ack of what lies a window before.
class HoldBack {
 public:
  void For(Seq boundary, Seq window) {
    boundary_ = boundary;
    ack_cap_ = boundary >= window ? boundary - window : 0;
    if (FTAR_MUTANT(kAcksNotHeld)) ack_cap_ = kNoSeq;
  }
  void StartNoneFrom(Seq boundary) { boundary_ = boundary; }  // acks go on
  void Lift() { ack_cap_ = boundary_ = kNoSeq; }
  bool has_boundary() const { return boundary_ != kNoSeq; }
  bool holds_acks() const { return ack_cap_ != kNoSeq; }
  bool MayStart(Seq seq) const { return seq < boundary_; }
  bool MayAck(Seq seq) const { return seq < ack_cap_; }
  Seq AckedEnd(Seq end) const { return std::min(end, ack_cap_); }  // as much of it as may be

 private:
  Seq boundary_ = kNoSeq, ack_cap_ = kNoSeq;
};

// J5: of those who leave in a view, who is told of calls, and what is known of their ends.
class Leavers {
 public:
  void Tell(std::vector<MemberId> leavers) {  // of every call from now on
    told_ = std::move(leavers);
    notices_.clear();
  }
  bool tells() const { return !told_.empty(); }
  void Note(wire::CallNotice notice) { notices_.push_back(std::move(notice)); }
  std::vector<wire::CallNotice> TakeNotices() { return std::exchange(notices_, {}); }

  void AwaitEnds(std::vector<MemberId> leavers) {
    unheard_ = std::move(leavers);
    called_.clear();
  }
  // It knows of its end, and has called what lies before `called`.
  void HearEnd(MemberId leaver, Seq called) {
    std::erase(unheard_, leaver);
    called_[leaver] = called;
  }
  // Whether the operation is one without a leaver that is not known to know of its end.
  bool AwaitsEndFor(const wire::View& view, GroupKey group, Seq seq, uint64_t step) const {
    return std::ranges::any_of(unheard_, [&](MemberId leaver) {
      const wire::ViewEntry* const entry = view.Find(leaver);
      return entry && entry->last.Reached(group, seq, step);
    });
  }
  // Until it has said that it had not come so far.
  bool MayHaveCalled(MemberId leaver, Seq seq) const {
    const auto called = called_.find(leaver);
    return called == called_.end() || called->second > seq;
  }

 private:
  std::vector<MemberId> told_, unheard_;
  std::map<MemberId, Seq> called_;  // by each that has said so
  std::vector<wire::CallNotice> notices_;
};

}  // namespace ftar::collective

#endif  // FTAR_COLLECTIVE_PLANNED_CHANGE_H_
