// Planned changes: joins and leaves at a boundary, nobody stalls (rules J3 to J5).
#include <algorithm>
#include <cassert>
#include <utility>

#include "base/mutant.h"
#include "engine/impl.h"
#include "membership/bounds.h"

namespace ftar::engine {

MemberId Engine::Impl::RootOf(const wire::View& view) const {
  const wire::ViewEntry* root = membership::ColumnRoot(view, config_.self.shard);
  return root ? root->card.id : MemberId{};
}

// J4: a member begins step t only when it knows that the root has begun t - 1, and the announcement
// goes before the root's next mark.
wire::Bound Engine::Impl::ReserveStep(const wire::View& next) {
  wire::Bound earliest;
  earliest.kind = wire::Bound::Kind::kStep;
  // A root that has just entered may be behind those who heard its predecessor's marks.
  earliest.step = std::max(std::max(step_, root_step_) + 3, era_step_ + 2);
  if (FTAR_MUTANT(kStepTooNear)) earliest.step = step_ + 1;
  if (step_ == 0) {
    const wire::Bound& first = view_->Find(config_.self.id)->first;
    earliest.step = std::max(earliest.step, first.step + 3);
  }
  // Nobody enters before those who are to come: who is new in a step has its last ranks.
  const bool enters = std::ranges::any_of(
      next.entries, [this](const auto& entry) { return !view_->Find(entry.card.id); });
  for (const wire::ViewEntry& entry : view_->entries) {
    if (enters && entry.first.kind == wire::Bound::Kind::kStep)
      earliest.step = std::max(earliest.step, entry.first.step);
  }
  reserved_step_ = earliest.step;
  return earliest;
}

// J3: behind what others can have begun by the acks that they have heard from here; later ones wait
// for the announcement.
wire::Bound Engine::Impl::ReserveSeqs() {
  wire::Bound earliest;
  earliest.kind = wire::Bound::Kind::kSeq;
  earliest.default_seq = config_.group.window;
  for (auto& [key, group] : groups_) {
    const Seq boundary = group->ReserveBoundary();
    earliest.seqs.push_back({key, boundary});
    group->HoldAcksFor(boundary);
  }
  return earliest;
}

// The earliest boundary that nobody can have passed when it is announced.
void Engine::Impl::On(const wire::Propose& message) {
  if (frozen_ || !view_ || message.view.base != view_->epoch || !IsRoot()) return;
  if (!MayPropose() && !FTAR_MUTANT(kPlanOnPlan)) {
    early_proposal_ = message;
    return;
  }
  proposed_ = message.view;
  wire::Reserved reserved;
  reserved.epoch = message.view.epoch;
  reserved.shard = config_.self.shard;
  reserved.idle = std::all_of(groups_.begin(), groups_.end(),
                              [](const auto& entry) { return entry.second->idle(); });
  reserved.earliest = steps_marked_ ? ReserveStep(message.view) : ReserveSeqs();
  SendCoordinator(std::move(reserved));
}

// One planned view at a time (J3): who is to go by the one before knows of it, too.
bool Engine::Impl::MayPropose() const {
  return ends_unheard_.empty() && (!view_->planned || PassedBound(view_->boundary));
}

void Engine::Impl::DropProposal() {
  early_proposal_.reset();
  if (!proposed_) return;
  proposed_.reset();
  reserved_step_ = 0;
  for (auto& [key, group] : groups_) group->LiftHold(now_);
  TryBeginStep();
}

void Engine::Impl::On(const wire::VoidPlan& message) {
  const bool early = early_proposal_ && early_proposal_->view.epoch == message.epoch;
  if (early || (proposed_ && proposed_->epoch == message.epoch)) DropProposal();
  if (confirmed_ && confirmed_->epoch == message.epoch) confirmed_.reset();
}

// The newcomer holds the view but not the right to act on it: it starts only once it knows that the
// announcement was made.
void Engine::Impl::On(const wire::Confirm& message) {
  if (frozen_ || view_ || message.view.epoch <= promised_) return;
  NotePromise(message.view.epoch, message.view.entries);
  confirmed_ = message.view;
  SendCoordinator(wire::Confirmed{message.view.epoch});
  if (FTAR_MUTANT(kStartsOnConfirm)) InstallPlanned(message.view);
}

// Coordinator to root: put it on the links. Links are first in, first out, so everybody has it
// before the root's next ack or step mark, without which nobody starts anything at or beyond the
// boundary (J3).
void Engine::Impl::OnAnnounceOrder(const wire::Announce& message) {
  if (frozen_ || !view_ || message.view.base != view_->epoch || !proposed_ ||
      proposed_->epoch != message.view.epoch || !InPlace(message.view.entries))
    return;
  // A root that has not entered yet could not say where the next step begins: such a change goes by
  // Prepare, which finds out.
  const wire::ViewEntry* next = message.view.Find(RootOf(message.view));
  const bool entered =
      next->first.kind == wire::Bound::Kind::kStep
          ? std::any_of(marks_.begin(), marks_.end(),
                        [next](const auto& mark) { return mark.step >= next->first.step; })
          : PassedBound(next->first);
  // Nor could one in whose groups others may have begun what lies behind the boundary: those that
  // it has first heard of since it reserved one. Nothing was held back there.
  const bool keeps = std::ranges::all_of(groups_, [&](const auto& entry) {
    return entry.second->KeepsBoundary(message.view.boundary);
  });
  if (!entered || !keeps) return;
  proposed_.reset();
  reserved_step_ = 0;
  SendColumn(FTAR_MUTANT(kNewcomerNotTold) ? *view_ : message.view, message);
  SendCoordinator(wire::Announced{message.view.epoch, config_.self.shard});
  InstallPlanned(message.view);
}

void Engine::Impl::OnPeer(MemberId, const wire::Announce& message) {
  // After promising a Prepare no announcement of an older epoch is obeyed (J1).
  const bool late = frozen_ || message.view.epoch < promised_;
  if (late && !FTAR_MUTANT(kLateAnnouncement)) return;
  const bool next = view_ && message.view.base == view_->epoch;
  const bool entering = !view_ && confirmed_ && confirmed_->epoch == message.view.epoch;
  if (next || entering) return InstallPlanned(message.view);
  // From another root, by another link: the one before it is on its way.
  const wire::View* before = view_ ? view_.get() : confirmed_ ? &*confirmed_ : nullptr;
  if (before && message.view.epoch > before->epoch) held_announces_.push_back(message);
}

// Members that do not have this one in its column are damaged or somebody else's. Whoever acted on
// them would look for its own place among those of whom it is none.
bool Engine::Impl::InPlace(const std::vector<wire::ViewEntry>& entries) {
  const wire::ViewEntry* const self = wire::FindEntry(entries, config_.self.id);
  if (self != nullptr && self->card.shard == config_.self.shard) return true;
  On(AbortSelf{Code::kInternal,  // the end of a member, where kCoordinator ends a wait
               "the coordinator's view does not have this member in its place"});
  return false;
}

void Engine::Impl::InstallPlanned(const wire::View& view) {
  assert(!frozen_);
  if (!InPlace(view.entries)) return;
  const collective::ViewPtr before = view_;
  KeepView(base_);
  base_ = view_;
  view_ = std::make_shared<const wire::View>(view);
  NotePromise(std::max(promised_, view.epoch), view.entries);
  confirmed_.reset();
  ForgetWordsOfLeaving();
  if (era_ != view_->era) BeginEra(view_->era);  // a newcomer enters the one that is running
  BecomeMember();
  AwaitEnds();
  for (auto& [key, group] : groups_) group->SetPlannedView(now_, view_, base_);
  ForgetStrangers();
  SendCoordinator(wire::Installed{view_->epoch});
  AfterView(before);
  for (const wire::Announce& held : std::exchange(held_announces_, {})) OnPeer({}, held);
}

// ---- leaving (J5)

void Engine::Impl::On(const RequestLeave&) {
  if (!std::exchange(leave_requested_, true) && phase_ == Phase::kMember) BeginLeaving();
}

void Engine::Impl::BecomeMember() {
  if (phase_ != Phase::kJoining) return;
  Become(Phase::kMember, {});
  // Who came back when it was taken for a member already has not been asked which links it has.
  if (!welcomed_ && !FTAR_MUTANT(kLinkBackUntold)) SendCoordinator(WantedLinks());
  if (leave_requested_) BeginLeaving();  // it was told to leave while it was still joining
}

void Engine::Impl::BeginLeaving() {
  Become(Phase::kLeaving, {});
  for (auto& [key, group] : groups_) {
    if (!FTAR_MUTANT(kNoStandIn)) group->StandIn();
  }
  if (!config_.solo) SendCoordinator(wire::LeaveRequest{});
}

// Looked for once a view: this is asked at every event.
const std::vector<MemberId>& Engine::Impl::Leavers() {
  if (leavers_of_ == view_) return leavers_;
  leavers_of_ = view_;
  leavers_.clear();
  for (const wire::ViewEntry& entry : view_->entries) {
    if (entry.card.shard == config_.self.shard && entry.leaves()) leavers_.push_back(entry.card.id);
  }
  return leavers_;
}

// J5: a leaver that has not heard of its end would go on where the others have gone on without it,
// and if they are lost nobody could tell it. So what lies behind its end waits for its word. Those
// whose ends came by an earlier view have given it then: the root takes up no plan before.
void Engine::Impl::AwaitEnds() {
  ends_unheard_.clear();
  for (const MemberId leaver : Leavers()) {
    const bool known = view_->planned && !(view_->Find(leaver)->last == view_->boundary);
    if (leaver != config_.self.id && !known) ends_unheard_.insert(leaver);
  }
  const std::vector<MemberId> unheard(ends_unheard_.begin(), ends_unheard_.end());
  for (auto& [key, group] : groups_) group->AwaitEnds(unheard);
}

void Engine::Impl::TellEndKnown() {
  const wire::ViewEntry* self = view_->Find(config_.self.id);
  if (!self || !self->leaves()) return;
  wire::LeaveReady known{view_->epoch, {}};
  for (const auto& [key, group] : groups_) {
    if (group->knows_first()) known.called.push_back({key, group->next_seq()});
  }
  SendColumn(*view_, known);
}

// Everything before the bound is delivered here, so it is stable: all members have it.
bool Engine::Impl::PassedBound(const wire::Bound& bound) const {
  if (bound.kind == wire::Bound::Kind::kStep) {
    const wire::StepMark* mark = MarkFrom(bound.step);
    return mark && std::ranges::all_of(mark->starts, [this](const wire::SeqBound& start) {
             const auto found = groups_.find(start.group);
             return found == groups_.end() || found->second->delivered_end() >= start.seq;
           });
  }
  return std::all_of(groups_.begin(), groups_.end(), [&bound](const auto& entry) {
    // A group that nobody uses has nothing to wait for.
    return entry.second->delivered_end() >= bound.SeqIn(entry.first) ||
           (entry.second->called_end() == 0 && entry.second->idle());
  });
}

// This leaver calls nothing beyond what is delivered here.
bool Engine::Impl::HasCalledAll(MemberId leaver, GroupKey key, Seq delivered_end) const {
  const auto known = leavers_called_.find(leaver);
  if (known == leavers_called_.end() || FTAR_MUTANT(kLeaversCallsAwaited)) return false;
  return std::ranges::any_of(known->second, [&](const wire::SeqBound& called) {
    return called.group == key && called.seq <= delivered_end;
  });
}

// Whoever else had called what lies before the others' first operation is lost, and nobody calls it
// any more: a leaver, which calls nothing of its own, does not wait for that.
void Engine::Impl::SkipWhatNobodyCalls() {
  for (auto& [key, group] : groups_) {
    Seq first = kNoSeq;
    for (const wire::ViewEntry& entry : view_->entries) {
      if (entry.card.shard != config_.self.shard || entry.card.id == config_.self.id) continue;
      if (HasCalledAll(entry.card.id, key, group->delivered_end())) continue;
      first = std::min(first, FirstSeqOf(entry, key));
    }
    if (first != kNoSeq) group->SkipTo(now_, first);
  }
}

void Engine::Impl::TendLeaving() {
  if (config_.solo) {
    const bool idle = std::all_of(groups_.begin(), groups_.end(),
                                  [](const auto& entry) { return entry.second->idle(); });
    if (leave_requested_ && idle) Become(Phase::kLeft, {});
    return;
  }
  TellLeaveReady();
  const TimeNs go_by = go_by_;
  if (!FTAR_MUTANT(kOldTermStands)) go_by_ = kNever;  // unless it still may go
  if (frozen_ || Leavers().empty()) return;
  const wire::ViewEntry* self = view_->Find(config_.self.id);
  if (!self || !self->leaves()) return SeeLeaversOff();
  // Released: all who stay know everything before the bound stable. If they begin behind it, as
  // newcomers do where all others leave, that says nothing of those who leave and may need each
  // other; but whoever has passed its bound knows the same of them, and has told them all it has to
  // (J5).
  SkipWhatNobodyCalls();
  if (released_ && (PassedBound(self->last) || FTAR_MUTANT(kGoesWithoutBound))) GoHeard(go_by);
}

// Those who stay report to the root when they are past the bound; when all are, the root releases
// the leavers, and only then they go. One word for all who leave: it is given at the latest of
// their bounds. Not before they have given theirs (AwaitEnds): if a link to one is lost it has to
// be missed for that, and who has gone is not missed any more.
void Engine::Impl::SeeLeaversOff() {
  const bool passed =
      ends_unheard_.empty() && std::ranges::all_of(Leavers(), [this](MemberId leaver) {
        return PassedBound(view_->Find(leaver)->last);
      });
  if (!passed) return;
  const MemberId keeper = RootOf(*view_);  // who looks after the leavers
  const bool is_keeper = keeper == config_.self.id;
  if (std::exchange(leave_ready_sent_, view_->epoch) != view_->epoch) {
    if (is_keeper) {
      leave_ready_.insert(keeper);
    } else {
      SendPeer(keeper, wire::LeaveReady{view_->epoch, {}});
    }
  }
  if (!is_keeper || release_sent_) return;
  const bool all_passed = std::ranges::all_of(view_->entries, [this](const wire::ViewEntry& entry) {
    return entry.card.shard != config_.self.shard || entry.leaves() ||
           leave_ready_.contains(entry.card.id);
  });
  if (!all_passed) return;
  release_sent_ = true;
  for (const MemberId leaver : Leavers()) SendPeer(leaver, wire::Release{view_->epoch});
}

// Where nobody stays nobody goes on to a bound, and no root is left to look after the others: the
// coordinator lets all go when each has delivered what it called. It may still stand in for what
// others have called, who are not ready then.
void Engine::Impl::TellLeaveReady() {
  if (phase_ != Phase::kLeaving || !coordinator_up_ || leave_ready_told_) return;
  // What is queued beyond its own end does not run any more.
  const wire::ViewEntry* self = view_->Find(config_.self.id);
  const bool ended =
      self && self->last.kind == wire::Bound::Kind::kSeq && !frozen_ && PassedBound(self->last);
  const bool idle = std::all_of(groups_.begin(), groups_.end(), [ended](const auto& entry) {
    return entry.second->idle() || (ended && entry.second->in_flight() == 0);
  });
  if (!idle) return;
  leave_ready_told_ = true;
  SendCoordinator(wire::LeaveReady{view_->epoch, {}});
}

void Engine::Impl::On(const wire::Release&) {
  if (phase_ == Phase::kLeaving) Go();
}

// A coordinator that does not hear of it takes it for lost, and what is left of its replica with
// it. For one that stays away others find by the view that this member had its end.
void Engine::Impl::GoHeard(TimeNs go_by) {
  go_by_ = std::min(go_by, now_ + config_.timeout_ns);
  if (HasCoordinator() || now_ >= go_by_ || FTAR_MUTANT(kGoesUnheard)) Go();
}

void Engine::Impl::Go() {
  SendCoordinator(wire::Goodbye{Code::kLeft, "left as planned"});
  Become(Phase::kLeft, {});
}

// By who stays, that it is past all ends; by who leaves, that it knows of its own. Said once a
// view, and perhaps by somebody who has installed the view before this member has.
void Engine::Impl::OnPeer(MemberId from, const wire::LeaveReady& message) {
  if (!view_ || message.epoch > view_->epoch) return held_.push_back({from, message});
  if (message.epoch != view_->epoch) return;
  leave_ready_.insert(from);
  const wire::ViewEntry* const entry = view_->Find(from);
  if (entry == nullptr || !entry->leaves()) return;
  leavers_called_[from] = message.called;
  ends_unheard_.erase(from);
  for (auto& [key, group] : groups_) group->HearEnd(now_, from, CalledBy(from, key));
}

// A group that it does not name has seen no call of its own.
Seq Engine::Impl::CalledBy(MemberId leaver, GroupKey key) const {
  const std::vector<wire::SeqBound>& called = leavers_called_.at(leaver);
  const auto found = std::ranges::find(called, key, &wire::SeqBound::group);
  return found != called.end() ? found->seq : 0;
}

void Engine::Impl::OnPeer(MemberId from, const wire::Release& message) {
  if (!view_ || message.epoch > view_->epoch) return held_.push_back({from, message});
  if (message.epoch == view_->epoch) released_ = true;
}

}  // namespace ftar::engine
