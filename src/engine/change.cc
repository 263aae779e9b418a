// A failure change as a member lives it: promise, freeze, report, (as leader) decide, install.
// Rules V2 to V6, V10, Q1 to Q3.
#include <algorithm>
#include <cassert>
#include <utility>

#include "base/mutant.h"
#include "engine/impl.h"
#include "membership/agreement.h"

namespace ftar::engine {

wire::Report Engine::Impl::MakeReport() const {
  wire::Report report;
  report.promised = promised_;
  report.promised_members = promised_members_;
  report.formed = formed_;
  if (view_) {
    report.installed = view_->epoch;
    report.installed_view = *view_;
  } else if (confirmed_) {  // a newcomer's own word of a plan that it may never have seen announced
                            // (J1)
    report.installed = confirmed_->epoch;
    report.installed_view = *confirmed_;
  }
  return report;
}

std::vector<MemberId> Engine::Impl::ColumnOf(const std::vector<wire::ViewEntry>& entries) const {
  std::vector<MemberId> column;
  for (const wire::ViewEntry& entry : entries) {
    if (entry.card.shard == config_.self.shard) column.push_back(entry.card.id);
  }
  return column;
}

// V10: the first survivor in list order; another one by turns when the coordinator asks again.
// Newcomers lead only a first view.
MemberId Engine::Impl::LeaderOf(const wire::Prepare& prepare) const {
  std::vector<MemberId> candidates;
  for (MemberId id : ColumnOf(prepare.members)) {
    if (std::find(prepare.survivors.begin(), prepare.survivors.end(), id) !=
        prepare.survivors.end())
      candidates.push_back(id);
  }
  if (candidates.empty()) candidates = ColumnOf(prepare.members);
  return candidates[prepare.leader_turn % candidates.size()];
}

void Engine::Impl::On(const wire::Prepare& message) {
  quorum_lost_ = false;
  const bool included = wire::FindEntry(message.members, config_.self.id) != nullptr;
  if (!included || (message.epoch <= promised_ && !FTAR_MUTANT(kOldPrepareObeyed))) {
    if (included && message.epoch < promised_)
      SendCoordinator(wire::Refuse{message.epoch, MakeReport()});  // Q2
    return;
  }
  if (!InPlace(message.members)) return;
  // Q3: survivors must be among those promised last; whoever was left out of that Prepare is out
  // for good. It concerns survivors, not joiners: a newcomer's promise of a change that came to
  // nothing says nothing about who is in today.
  const bool nested =
      std::all_of(message.survivors.begin(), message.survivors.end(), [this](MemberId id) {
        return !view_ || promised_members_.empty() ||
               std::find(promised_members_.begin(), promised_members_.end(), id) !=
                   promised_members_.end();
      });
  // Q4: a planned view comes without a promise, so another coordinator's Prepare may have been
  // counted over less than what is installed here.
  const bool old_base = view_ && !view_->electorates.empty() && message.base < view_->epoch;
  if (!nested || old_base) {
    SendCoordinator(wire::Refuse{message.epoch, MakeReport()});
    return;
  }
  Promise(message);
}

// F4 (c): before the lanes are scanned, which MakeStatus does.
void Engine::Impl::RaiseFlag() {
  if (config_.group.lane && frozen_) config_.group.lane->RaiseFrozen(promised_);
}

void Engine::Impl::RevokeAllBut(const std::vector<wire::ViewEntry>& members) {
  std::set<MemberId> gone;
  for (const auto& source : {view_, base_}) {
    if (!source) continue;
    for (const wire::ViewEntry& entry : source->entries) {
      if (!wire::FindEntry(members, entry.card.id)) gone.insert(entry.card.id);
    }
  }
  for (const MemberId id : gone) {
    if (!FTAR_MUTANT(kRevokeForgotten)) ready_.revoke.push_back(id);
    links_.erase(id);
    wanted_.erase(id);
    evidence_.erase(id);
    ended_.erase(id);
    lane_gone_.push_back(id);
    if (config_.group.lane && FTAR_MUTANT(kLaneLeaverDropped)) config_.group.lane->Drop(id);
    std::erase_if(held_, [id](const Held& held) { return held.from == id; });
  }
}

// Q2, Q3: what this member tells of in its reports, and is held to.
void Engine::Impl::NotePromise(Epoch epoch, const std::vector<wire::ViewEntry>& members) {
  promised_ = epoch;
  promised_members_.clear();
  for (const wire::ViewEntry& entry : members) promised_members_.push_back(entry.card.id);
}

void Engine::Impl::Promise(const wire::Prepare& message) {
  NotePromise(message.epoch, message.members);
  HearLead();
  prepare_ = message;
  for (const wire::Loss& loss : message.lost) {
    if (!FTAR_MUTANT(kEarlierLossUntold)) losses_[loss.member] = loss;
  }
  if (!FTAR_MUTANT(kStatusOutlivesPrepare)) statuses_.clear();
  if (!FTAR_MUTANT(kVerdictsOutlivePrepare)) verdicts_.reset();
  install_.reset();
  decided_ = false;
  proposed_.reset();
  reserved_step_ = 0;
  held_announces_.clear();
  frozen_ = true;
  ask_verdicts_at_ = now_ + config_.heartbeat_ns;
  // Links to the leavers go before the Status does, so that nothing of theirs can land afterwards
  // (design 5, F2).
  RevokeAllBut(message.members);
  ForgetStrangers();
  if (!FTAR_MUTANT(kLaneFlagLate)) RaiseFlag();
  const MemberId leader = LeaderOf(message);
  wire::ColumnStatus status = MakeStatus();
  if (leader == config_.self.id) {
    statuses_[leader] = std::move(status);
  } else {
    SendPeer(leader, std::move(status));
  }
  std::vector<Held> early;
  for (auto& [epoch, held] : early_changes_) {
    if (epoch == promised_) early = std::move(held);
  }
  early_changes_.erase(early_changes_.begin(), early_changes_.upper_bound(promised_));
  for (Held& held : early) DispatchPeer(held.from, held.message);
  LeadIfAll();
}

// Freezes (V2) and tells. Called again for the same Prepare it says the same.
wire::ColumnStatus Engine::Impl::MakeStatus() {
  wire::ColumnStatus status;
  status.epoch = promised_;
  status.report = MakeReport();
  status.step = step_;
  status.steps_marked = steps_marked_;
  status.marks.assign(marks_.begin(), marks_.end());
  std::set<Epoch> told;
  const wire::ViewEntry* self = view_ ? view_->Find(config_.self.id) : nullptr;
  const bool ended = self && self->last.kind == wire::Bound::Kind::kStep && PassedBound(self->last);
  for (auto& [key, group] : groups_) {
    wire::GroupStatus& told_of = status.groups.emplace_back(group->Freeze(now_));
    if (ended && !FTAR_MUTANT(kEndedCallsLast)) {
      // J1: the others have gone on without this member, and may be lost: what it has heard of
      // their calls counts, not its own last one.
      told_of.called_end = std::max(told_of.called_end, group->floor());
      told_of.queued_end = std::max(told_of.queued_end, group->floor());
    }
    // A leaver stands in for operations of steps that it has not begun itself.
    status.step = std::max(status.step, group->called_step());
    for (const collective::ViewPtr& view : group->AttemptViews()) {
      if (told.insert(view->epoch).second) status.views.push_back(*view);
    }
  }
  for (const wire::StepMark& mark : marks_) {
    const collective::ViewPtr view = NamedView(mark.layout);
    if (FTAR_MUTANT(kNamedViewUntold)) break;
    if (view && told.insert(view->epoch).second) status.views.push_back(*view);
  }
  return status;
}

// Of each the last of a kind: whoever is frozen says the same at every beat, and where the
// coordinator is away that may go on for hours.
void Engine::Impl::HoldForChange(Epoch epoch, MemberId from, const wire::Message& message) {
  std::vector<Held>& held = early_changes_[epoch];
  std::erase_if(held, [&](const Held& one) {
    return one.from == from && one.message.index() == message.index();
  });
  held.push_back({from, message});
}

void Engine::Impl::OnPeer(MemberId from, const wire::ColumnStatus& message) {
  if (message.epoch > promised_) {
    HoldForChange(message.epoch, from, message);
    return;
  }
  if (message.epoch != promised_ || !prepare_) return;
  statuses_.insert({from, message});
  LeadIfAll();
}

bool Engine::Impl::IsOvertaken(const std::vector<MemberId>& column) const {
  collective::Lane* const lane = config_.group.lane;
  return lane != nullptr && std::any_of(column.begin(), column.end(), [&](MemberId id) {
           const int segment = lane->SegmentOf(id);
           return segment >= 0 && lane->FlagUp({&segment, 1}, promised_);
         });
}

void Engine::Impl::LeadIfAll() {
  if (!prepare_ || decided_ || LeaderOf(*prepare_) != config_.self.id) return;
  const std::vector<MemberId> column = ColumnOf(prepare_->members);
  for (MemberId id : column) {
    if (FTAR_MUTANT(kDecideWithoutLast) && id == column.back()) continue;
    if (!statuses_.contains(id)) return;
  }
  std::erase_if(statuses_, [&column](const auto& entry) {
    return std::find(column.begin(), column.end(), entry.first) == column.end();
  });
  decided_ = true;
  membership::Decision decision = membership::Decide(*prepare_, config_.self.shard, statuses_);
  // Who was stopped may find the lanes written over by those who have gone on without it; nobody
  // listens to its verdicts any more.
  if (IsOvertaken(column)) decision.violations.clear();
  for (const std::string& violation : decision.violations) {
    wire::Loss what;
    what.cause = Code::kInternal;
    what.text = violation;
    ready_.notices.push_back({Notice::Kind::kQuorum, promised_, std::move(what), {}});
  }
  for (MemberId id : column) {
    if (id != config_.self.id) SendPeer(id, decision.verdicts);
  }
  SendCoordinator(wire::Decided{promised_, config_.self.shard, decision.bounds});
  verdicts_ = std::move(decision.verdicts);
  TryInstall();
}

void Engine::Impl::OnPeer(MemberId from, const wire::ColumnVerdicts& message) {
  if (message.epoch > promised_) {
    HoldForChange(message.epoch, from, message);
    return;
  }
  if (message.epoch != promised_ || !prepare_ || verdicts_) return;
  if (from != LeaderOf(*prepare_)) return;
  verdicts_ = message;
  TryInstall();
}

void Engine::Impl::OnPeer(MemberId from, const wire::AskVerdicts& message) {
  if (message.epoch == promised_ && verdicts_) SendPeer(from, *verdicts_);
}

void Engine::Impl::On(const wire::Install& message) {
  // V10: obeyed only if its epoch id is exactly the one last promised; idempotent.
  if ((message.view.epoch != promised_ && !FTAR_MUTANT(kInstallOfAnyEpoch)) || !prepare_) return;
  install_ = message;
  TryInstall();
}

void Engine::Impl::TryInstall() {
  if (!install_ || !verdicts_) return;
  const wire::Install install = *std::exchange(install_, std::nullopt);
  const wire::ColumnVerdicts verdicts = *verdicts_;  // kept: others may ask again
  InstallEra(install, verdicts);
}

// F2: what was granted in the era before counts no more.
void Engine::Impl::BeginEra(Epoch era) {
  era_ = era;
  credit_sent_.clear();
  credits_.clear();
}

// J5: said and heard once a view.
void Engine::Impl::ForgetWordsOfLeaving() {
  leave_ready_.clear();
  leavers_called_.clear();
  leave_ready_sent_ = 0;
  release_sent_ = false;
}

void Engine::Impl::InstallEra(const wire::Install& install, const wire::ColumnVerdicts& verdicts) {
  assert(frozen_ && install.view.epoch == promised_);
  if (!InPlace(install.view.entries)) return;
  const collective::ViewPtr before = view_;
  KeepView(base_);
  KeepView(before);
  view_ = std::make_shared<const wire::View>(install.view);
  base_ = nullptr;
  BeginEra(view_->era);
  const bool knew_beginning = OwnBeginning() != nullptr;
  RenewMarks(verdicts);
  const bool void_beginning = knew_beginning && !OwnBeginning() && !FTAR_MUTANT(kOldFirstKept);
  frozen_ = false;
  prepare_.reset();
  confirmed_.reset();
  ask_verdicts_at_ = kNever;
  ForgetWordsOfLeaving();
  asked_.clear();
  BecomeMember();
  std::vector<collective::ViewPtr> attempt_views;
  for (const wire::View& view : verdicts.views)
    attempt_views.push_back(std::make_shared<const wire::View>(view));
  LearnNamedViews(verdicts, attempt_views);
  AwaitEnds();
  for (const wire::GroupVerdicts& group : verdicts.groups) Group(group.group);
  for (auto& [key, group] : groups_) {
    const wire::GroupVerdicts* mine = nullptr;
    for (const wire::GroupVerdicts& candidate : verdicts.groups) {
      if (candidate.group == key) mine = &candidate;
    }
    if (void_beginning) group->ForgetFirst();
    group->InstallEra(now_, view_, mine, attempt_views);
    if (!FTAR_MUTANT(kOldMarkForgotten))
      EnterAtMark(key, *group);  // the bound may be an earlier one
  }
  for (const MemberId id : std::exchange(lane_gone_, {})) {
    if (config_.group.lane) config_.group.lane->Drop(id);
  }
  ForgetStrangers();
  EnterAsRoot(verdicts);
  SendCoordinator(wire::Installed{view_->epoch});
  for (const wire::Loss& loss : install.lost) losses_[loss.member] = loss;
  AfterView(before);
}

// What is different from the view before, which may be several changes back: where two follow each
// other fast a member misses the first one's Install, and that one's losses are not the next one's.
void Engine::Impl::TellNews(const wire::View& before) {
  for (const wire::ViewEntry& entry : before.entries) {
    if (view_->Find(entry.card.id)) continue;
    const bool leaves = leaving_.contains(entry.card.id);
    const auto known = losses_.find(entry.card.id);
    // Of a leaver users have heard that it leaves.
    if (known == losses_.end() && (leaves || FTAR_MUTANT(kEarlierLossUntold))) continue;
    wire::Loss loss = wire::LossOf(entry.card);
    loss.stage = "earlier change";
    loss.text = "it was lost in a change whose reasons have not come here";
    Notify(Notice::Kind::kLost, known != losses_.end() ? known->second : std::move(loss));
    if (!leaves) ++lost_since_step_;
  }
  for (const wire::ViewEntry& entry : view_->entries) {
    const wire::ViewEntry* old = before.Find(entry.card.id);
    if (!old) Notify(Notice::Kind::kJoined, wire::LossOf(entry.card));
    const bool leaves = entry.leaves();
    if (old && leaves && (!leaving_.contains(entry.card.id) || FTAR_MUTANT(kLeaveToldTwice))) {
      Notify(Notice::Kind::kLeft, wire::LossOf(entry.card));
      ++lost_since_step_;
    }
  }
}

// A job of one decides as a coordinator would.
void Engine::Impl::LoseAlone(Code cause, const char* stage, std::string why,
                             const std::string& said) {
  if (!said.empty()) why += ": " + said;
  why = membership::Describe(config_.self) + ": " + why;
  On(wire::Evicted{view_->epoch, wire::LossOf(config_.self, cause, stage, std::move(why)), false});
}

// What every new view brings, whichever way it came.
void Engine::Impl::AfterView(const collective::ViewPtr& before) {
  ready_.view_changed = true;
  if (before) TellNews(*before);
  losses_.clear();
  std::erase_if(leaving_, [this](MemberId id) { return !view_->Find(id); });
  std::erase_if(user_says_, [this](const auto& one) { return !view_->Find(one.first); });
  for (const wire::ViewEntry& entry : view_->entries) {
    if (entry.leaves()) leaving_.insert(entry.card.id);
  }
  Notify(Notice::Kind::kView);
  for (auto& [key, group] : groups_)
    group->NotifyCallsTo(Leavers());  // by all: the root may not have begun yet (J5)
  GrantCredits();
  TellEndKnown();
  PassMarksOn(before);
  ReplayHeld();
}

// F2, F5: data of this era may come; these raw pieces need not.
void Engine::Impl::GrantCredits() {
  for (MemberId id : ColumnOf(view_->entries)) {
    if (id == config_.self.id || !credit_sent_.insert(id).second) continue;
    wire::Credit credit;
    credit.era = era_;
    for (auto& [key, group] : groups_) {
      std::vector<wire::KeptOp> kept = group->KeptFrom(id);
      credit.kept.insert(credit.kept.end(), kept.begin(), kept.end());
    }
    SendPeer(id, std::move(credit));
  }
}

}  // namespace ftar::engine
