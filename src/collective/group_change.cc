// View changes: freeze and report (V2), verdicts applied (V3 to V6), salvage served (V4).
#include <algorithm>
#include <cassert>
#include <utility>

#include "base/mutant.h"
#include "collective/group_machine.h"

namespace ftar::collective {
namespace {

// By which a group that only others have called in finds where it begins. They come one at a time,
// when the column has passed the one before.
constexpr size_t kPlannedViewsKept = 64;

bool HoldsBytes(const Op& op, const ChunkState& chunk) {
  return chunk.is_final && (op.spec.kind != plan::Kind::kReduceScatter || chunk.role.makes_final);
}

}  // namespace

void GroupMachine::SetPlannedView(TimeNs now, ViewPtr view, ViewPtr base) {
  if (current_ && current_->epoch == view->epoch) return;
  if (current_) old_views_[current_->epoch] = current_;
  current_ = std::move(view);
  base_ = std::move(base);
  if (base_) old_views_[base_->epoch] = base_;
  era_ = current_->era;
  acks_told_ = 0;
  ForgetViews(kPlannedViewsKept);
  EnterAtBound(now);
  LiftHold(now);
  ReplayHeldFrames(now);
  ActivateQueued(now);
}

// A newcomer of this view: the bound is its first operation.
void GroupMachine::EnterAtBound(TimeNs now) {
  const wire::ViewEntry* self = SelfIn(*current_);
  if (first_known_ || !self) return;
  if (self->first.kind == wire::Bound::Kind::kAlways) return LearnFirst(now, 0);
  if (self->first.kind == wire::Bound::Kind::kSeq) LearnFirst(now, self->first.SeqIn(config_.key));
}

// J1: the bound of a newcomer that has called nothing may be moved, by those who have not heard of
// the plan that gave it.
void GroupMachine::ForgetMovedFirst(const wire::View& view) {
  const wire::ViewEntry* before = current_ ? SelfIn(*current_) : nullptr;
  const wire::ViewEntry* self = SelfIn(view);
  const bool moved = before && self && before->first != self->first;
  if (moved) ForgetFirst();
}

void GroupMachine::ForgetFirst() {
  if (!first_known_ || next_seq_ != first_seq_) return;
  first_known_ = false;
  first_seq_ = next_seq_ = called_end_ = delivered_end_ = complete_end_ = told_end_ = 0;
}

// V2: from now until InstallEra no chunk becomes final and no completion leaves. Works under way
// are forgotten: what they wrote lies in staging or is covered by the undo log. A frame that one of
// them reads is given back when it is done.
wire::GroupStatus GroupMachine::Freeze(TimeNs now) {
  (void)now;
  wire::GroupStatus status{config_.key, called_end_, first_seq_, delivered_end_, next_seq_, {}, {}};
  if (!first_known_) {
    status.called_end = status.first_seq = status.delivered_end = floor_;
    status.queued_end = kNoSeq;
  }
  if (!config_.fault_tolerant) {
    // Some have delivered what others are still about to complete, so there is nothing to decide:
    // what runs goes on (CarryOn). Only new calls wait, since the view says who takes part in them.
    hold_.StartNoneFrom(called_end_);
    return status;
  }
  const bool again = frozen_;
  frozen_ = !FTAR_MUTANT(kSkipFreeze);
  for (const auto& [id, ref] : works_) {
    if (FTAR_MUTANT(kSlotReusedEarly)) ReleaseInbound(ref.inbound);
    if (ref.inbound != 0) abandoned_[id] = ref.inbound;
  }
  if (!FTAR_MUTANT(kWorkOutlivesFreeze)) works_.clear();
  for (Op& op : ops_) {
    for (ChunkState& chunk : op.chunks) chunk.working = false;
    op.lane.working = 0;
    if (frozen_ && !again) ScanLane(now, op);
    wire::OpStatus entry;
    entry.seq = op.seq;
    entry.attempt = op.view ? op.view->epoch : 0;
    entry.complete = op.complete && !op.failed();
    entry.chunks = static_cast<uint32_t>(op.chunks.size());
    entry.final_chunks.assign((op.chunks.size() + 63) / 64, 0);
    for (size_t c = 0; c < op.chunks.size(); ++c) {
      if (HoldsBytes(op, op.chunks[c])) entry.final_chunks[c / 64] |= uint64_t{1} << (c % 64);
    }
    entry.signature = op.signature;
    entry.weight = op.spec.weight;
    entry.origin = op.origin;
    status.ops.push_back(std::move(entry));
  }
  for (const auto& [seq, verdict] : failed_) {
    if (!FTAR_MUTANT(kFailureUntold)) status.failed.push_back(verdict);
  }
  // V6: somebody who is lost by now may have delivered a failure of what is not called here yet.
  for (const auto& [seq, verdict] : verdicts_) {
    if (verdict.kind == wire::VerdictKind::kFail && !FTAR_MUTANT(kKeptFailureUntold))
      status.failed.push_back(verdict);
  }
  return status;
}

std::vector<ViewPtr> GroupMachine::AttemptViews() const {
  std::vector<ViewPtr> views;
  for (const Op& op : ops_) {
    if (op.view && std::find(views.begin(), views.end(), op.view) == views.end())
      views.push_back(op.view);
  }
  return views;
}

void GroupMachine::InstallEra(TimeNs now, ViewPtr view, const wire::GroupVerdicts* verdicts,
                              std::span<const ViewPtr> attempt_views) {
  assert(view && view->era == view->epoch);
  for (const ViewPtr& known : attempt_views) old_views_.insert({known->epoch, known});
  if (!FTAR_MUTANT(kOldFirstKept)) ForgetMovedFirst(*view);
  if (current_) old_views_[current_->epoch] = current_;
  current_ = decided_in_ = std::move(view);
  base_ = nullptr;
  era_ = current_->era;
  hold_.Lift();
  notices_.clear();
  if (config_.fault_tolerant) ForgetEra();
  if (verdicts) floor_ = std::max(floor_, verdicts->called_end);
  EnterAtBound(now);
  if (config_.fault_tolerant) {
    ApplyVerdicts(now, verdicts);
  } else {
    CarryOn(now);
  }
  ReplayHeldFrames(now);
  DeliverReady(now);
  ForgetViews(0);
}

// But for the newest `kept`, those in which nothing runs that may have to be begun anew.
void GroupMachine::ForgetViews(size_t kept) {
  size_t older = old_views_.size();
  std::erase_if(old_views_, [&](const auto& entry) {
    const Epoch epoch = entry.first;  // in ascending order
    return older-- > kept &&
           std::none_of(ops_.begin(), ops_.end(),
                        [epoch](const Op& op) { return op.view && op.view->epoch == epoch; }) &&
           std::none_of(verdicts_.begin(), verdicts_.end(),
                        [epoch](const auto& verdict) { return verdict.second.attempt == epoch; });
  });
}

// What was said and granted in the era before counts no more (F2).
void GroupMachine::ForgetEra() {
  frozen_ = false;
  for (Peer& peer : peers_) {
    peer.ack_sent = peer.ack_due = 0;
    peer.kept.clear();
    if (!FTAR_MUTANT(kAckOutlivesEra)) peer.ack = 0;
    if (!FTAR_MUTANT(kCreditOutlivesEra)) peer.ready = false;
  }
  peers_.ForgetAllBut(*current_);
  acks_told_ = 0;
  if (!FTAR_MUTANT(kVerdictOutlivesEra)) verdicts_.clear();
  complete_end_ = told_end_ = acks_due_ = delivered_end_;
  for (auto& [seq, frames] : early_) {
    for (const InboundFrame& frame : frames) Drop(frame);
  }
  early_.clear();
}

void GroupMachine::ApplyVerdicts(TimeNs now, const wire::GroupVerdicts* verdicts) {
  // V1: what was complete in an attempt that is over, by a verdict not applied yet, is not.
  deciding_ = !FTAR_MUTANT(kCompleteOutlivesVerdict);
  for (Op& op : ops_) {
    const wire::Verdict* mine = nullptr;
    for (const wire::Verdict& verdict : verdicts
                                            ? std::span<const wire::Verdict>(verdicts->verdicts)
                                            : std::span<const wire::Verdict>()) {
      if (verdict.seq == op.seq) mine = &verdict;
    }
    wire::Verdict retry;
    retry.seq = op.seq;
    retry.origin = op.origin;
    ApplyVerdict(now, op, mine ? *mine : retry);
  }
  if (verdicts) {
    for (const wire::Verdict& verdict : verdicts->verdicts) {
      if (verdict.seq >= called_end_ && !FTAR_MUTANT(kVerdictNotKept))
        verdicts_[verdict.seq] = verdict;  // V6
    }
  }
  deciding_ = false;
  AdvanceComplete();
}

// Without fault tolerance what runs goes on with the members it began with; without one of them it
// never ends, so it fails here and now.
void GroupMachine::CarryOn(TimeNs now) {
  peers_.ForgetAllBut(*current_);
  for (Op& op : ops_) {
    const auto lost = std::find_if(op.members.begin(), op.members.end(),
                                   [this](MemberId id) { return !current_->Find(id); });
    if (lost == op.members.end() || op.complete) continue;
    Abandon(op);
    for (ChunkState& chunk : op.chunks) chunk.working = false;
    wire::Verdict verdict;
    verdict.seq = op.seq;
    verdict.kind = wire::VerdictKind::kFail;
    verdict.attempt = era_;
    verdict.code = Code::kPeer;
    verdict.culprit = *lost;
    const wire::ViewEntry* const entry = op.view ? op.view->Find(*lost) : nullptr;
    const std::string replica = entry != nullptr ? std::to_string(entry->card.replica) : "?";
    verdict.text = "operation " + std::to_string(op.seq) + ": replica " + replica + " (" +
                   ToString(*lost) +
                   ") is gone, and without fault tolerance nobody goes on without it";
    ApplyFail(now, op, verdict);
  }
}

void GroupMachine::ApplyVerdict(TimeNs now, Op& op, const wire::Verdict& verdict) {
  op.lane.Reset();  // of the attempt that was frozen
  for (ChunkState& chunk : op.chunks) chunk.working = false;
  switch (verdict.kind) {
    case wire::VerdictKind::kCommit:
      // V3: everybody is complete in this attempt; V4: only this verdict lets a member deliver on
      // Install.
      assert(op.complete && op.view && op.view->epoch == verdict.attempt);
      op.committed = true;
      return;
    case wire::VerdictKind::kSalvage: return ApplySalvage(now, op, verdict);
    case wire::VerdictKind::kFail: return ApplyFail(now, op, verdict);
    case wire::VerdictKind::kRetry: break;
  }
  if (!FTAR_MUTANT(kRetryWithoutUndo)) Undo(op);
  op.complete = op.committed = op.salvage = false;
  const ViewPtr view = ViewFor(op.seq, op.step);
  BeginAttempt(now, op, view,
               verdict.origin.members.empty()
                   ? wire::Origin{MembersOf(*view, op.seq, op.step), 0}
                   : verdict.origin);
  CheckComplete(now, op);
}

// F3: the input comes back byte for byte before anything reads it again. Frames that still refer to
// it are dropped first.
void GroupMachine::Undo(Op& op) {
  Push(Todo::Kind::kCancelSends).id = op.seq;
  for (ChunkState& chunk : op.chunks) {
    if (!chunk.overwritten) continue;
    const BufferRef output = OutputOf(op, chunk.geometry);
    PushCopy(op, {BufferRef::Kind::kStaging, op.undo, output.offset, output.bytes}, output);
    chunk.overwritten = false;
  }
}

// Retries read the shadow and leave the results of earlier attempts where they landed; an operation
// that ends without a result gives its input back.
void GroupMachine::RestoreShadow(Op& op) {
  if (op.shadow == 0) return;
  const uint64_t bytes = InputBytes(op);
  PushCopy(op, {BufferRef::Kind::kStaging, op.shadow, 0, bytes},
           {BufferRef::Kind::kSend, op.seq, 0, bytes});
}

// This member is out: nothing of its operations goes on, but their inputs are the caller's again
// (contract 3). What was decided before is still carried out; only nobody is told.
void GroupMachine::GiveInputsBack(std::vector<GroupTodo>* out) {
  for (Op& op : ops_) {
    Undo(op);
    RestoreShadow(op);
  }
  std::erase_if(todo_, [](const GroupTodo& one) { return one.todo.kind == Todo::Kind::kSend; });
  HandOver(out);
}

void GroupMachine::ApplyFail(TimeNs now, Op& op, const wire::Verdict& verdict) {
  if (!FTAR_MUTANT(kFailKeepsOutput)) Undo(op);
  if (!FTAR_MUTANT(kFailKeepsShadow)) RestoreShadow(op);
  if (!op.view) {
    op.view = current_;
    op.members = MembersOf(*current_, op.seq, op.step);
    op.weights.assign(op.members.size(), op.spec.weight);
  }
  failed_[op.seq] = verdict;
  op.fail_code = verdict.code;
  op.fail_text = verdict.text;
  op.fail_culprit = verdict.culprit;
  op.complete = true;  // V5: a verdict too; delivered in its turn
  op.committed = !config_.fault_tolerant;
  op.hub = {};  // others than its members wait
  op.complete_ns = now;
}

// V4: a way to become complete, not a leave to deliver. The attempt and its participants stay; what
// is missing here is fetched from a holder; then a stability round among the members of this era.
void GroupMachine::ApplySalvage(TimeNs now, Op& op, const wire::Verdict& verdict) {
  const ViewPtr attempt = KnownView(verdict.attempt);
  const bool same = op.view && op.view->epoch == verdict.attempt;
  if (!attempt)
    return ApplyFail(now, op,
                     {op.seq,
                      wire::VerdictKind::kFail,
                      0,
                      Code::kInternal,
                      "verdict names an unknown view",
                      {},
                      {},
                      {}});
  if (!same) {
    Undo(op);
    for (const KeptRaw& raw : DetachRaws(op)) ReleaseInbound(raw.piece.inbound);
    op.view = attempt;
    op.members = MembersOf(FTAR_MUTANT(kSalvageInNewView) ? *current_ : *attempt, op.seq, op.step);
    if (op.origin.members.empty()) op.origin = verdict.origin;
    if (op.origin.members.empty()) op.origin.members = op.members;
    op.complete = op.absent = false;
    PlaceInAttempt(op);
    // V5: called here when the leader had asked already, and with a root that is not in the
    // attempt.
    if (op.unfit) mismatch_ = op.seq;
  }
  Push(Todo::Kind::kCancelSends).id = op.seq;
  op.salvage = true;
  op.hub = {};  // others than its members take part
  op.committed = FTAR_MUTANT(kSalvageCommits);
  op.unheard.clear();
  ++op.attempts;
  // A verdict that has waited for its call (V6) may meet a view planned since, of other ranks.
  const wire::View& ranked =
      decided_in_ && !FTAR_MUTANT(kHoldersOfToday) ? *decided_in_ : *current_;
  std::map<MemberId, std::vector<uint32_t>> missing;
  for (uint32_t c = 0; c < op.chunks.size(); ++c) {
    ChunkState& chunk = op.chunks[c];
    ReleasePieces(chunk);
    if (chunk.is_final || !chunk.role.lands || c >= verdict.holders.size()) continue;
    const int32_t rank = verdict.holders[c];
    if (rank < 0 || rank >= static_cast<int32_t>(ranked.entries.size())) continue;
    missing[ranked.entries[rank].card.id].push_back(c);
  }
  for (auto& [holder, chunks] : missing) {
    wants_.push_back({holder, {era_, config_.key, op.seq, verdict.attempt, std::move(chunks)}});
  }
  CheckComplete(now, op);
}

void GroupMachine::OnWant(TimeNs now, MemberId from, const wire::Want& want) {
  (void)now;
  Op* op = Find(want.seq);
  if (frozen_ || want.era != era_ || !op || !op->salvage || op->view->epoch != want.attempt) return;
  if (!peers_.Ready(from)) return;  // the asker grants credit before it asks
  for (uint32_t chunk : want.chunks) {
    if (chunk < op->chunks.size() && op->chunks[chunk].is_final) SendFinal(*op, chunk, from);
  }
}

void GroupMachine::ReplayHeldFrames(TimeNs now) {
  std::vector<InboundFrame> frames = std::exchange(future_, {});
  for (InboundFrame& frame : frames) OnFrame(now, std::move(frame));
}

}  // namespace ftar::collective
