// Completion, acknowledgement, stability and delivery (rules V1, V4, J6).
#include <algorithm>
#include <cassert>
#include <cmath>
#include <utility>

#include "base/mutant.h"
#include "collective/group_machine.h"

namespace ftar::collective {
namespace {

// A broadcast's members but its root, those who have no segment of an all-gather, and all of a
// reduce-scatter whose segments' owners are gone: they send no weight, so each counts once,
// whatever it says of itself.
class Listeners {
 public:
  explicit Listeners(const Op& op) : op_(op) {
    const OpSpec& spec = op.spec;
    if (!plan::HasSegments(spec.kind) || spec.layout_members == op.members) return;
    owners_ = spec.layout_members;
    std::ranges::sort(owners_);
    const bool some = std::ranges::any_of(op.members, [this](MemberId id) { return Owns(id); });
    all_ = spec.kind == plan::Kind::kReduceScatter && !some;
  }
  bool Has(MemberId member) const {
    if (op_.spec.kind == plan::Kind::kBroadcast) return member != op_.spec.root;
    return all_ || (op_.spec.kind == plan::Kind::kAllGather && !owners_.empty() && !Owns(member));
  }

 private:
  bool Owns(MemberId id) const { return std::ranges::binary_search(owners_, id); }

  const Op& op_;
  std::vector<MemberId> owners_;  // sorted, where they are not the members
  bool all_ = false;
};

// Each segment of an all-gather is made by its owner, who knows no other weight than its own: that
// all are 0 shows when all are here (V5).
bool GathersNothing(const Op& op) {
  if (op.failed() || op.spec.kind != plan::Kind::kAllGather) return false;
  const auto may_count = [](double weight) { return std::isnan(weight) || weight > 0; };
  if (std::ranges::any_of(op.weights, may_count)) return false;
  const Listeners listeners(op);
  return std::ranges::none_of(op.members, [&](MemberId id) { return listeners.Has(id); });
}

}  // namespace

// Complete: every chunk this member needs is final here, all of one attempt.
void GroupMachine::CheckComplete(TimeNs now, Op& op) {
  if (op.complete || op.unfit || frozen_ || op.finals < op.needed) return;
  // V5: a root needs no data from anybody, but it must know that all have called the same.
  if (std::find(op.unheard.begin(), op.unheard.end(), true) != op.unheard.end()) return;
  assert(op.finals == op.needed);
  // Segments' owners that need nothing for themselves are complete only with their duties done:
  // others lack their sums.
  op.complete = true;
  op.complete_ns = now;
  ++progress_;
  if (FTAR_MUTANT(kUndoReleasedEarly) && op.undo != 0) Push(Todo::Kind::kFree).id = op.undo;
  AdvanceComplete();
}

void GroupMachine::AdvanceComplete() {
  assert(!frozen_);
  if (deciding_) return;
  while (complete_end_ < called_end_) {
    const Op* op = Find(complete_end_);
    if (op && !op->complete) break;
    ++complete_end_;
  }
  AdvanceTold();
}

// Where there is a hub all tell it, and what it says of itself it says of all.
bool GroupMachine::MayTell(const Op& op) const {
  return op.complete && (op.hub != config_.self || IsStable(op) || FTAR_MUTANT(kHubSpeaksEarly));
}

void GroupMachine::AdvanceTold() {
  while (told_end_ < complete_end_) {
    const Op* op = Find(told_end_);
    if (op && !MayTell(*op)) return;
    if (op) OweAcks(*op);
    ++told_end_;
  }
}

void GroupMachine::OweAcks(const Op& op) {
  if (op.lane.state == OpLane::State::kStable)
    return;  // everybody has this member's line, and needs no ack to deliver
  if (GoesShared(op) && op.lane.seen == op.members.size()) return;  // a word in the lane is its ack
  Seq& due = FollowsHub(op) ? peers_.Of(op.hub).ack_due : acks_due_;
  due = op.seq + 1;
}

// J6: an ack goes out at once, unless a frame made meanwhile has carried it.
void GroupMachine::SendAcks() {
  if (frozen_ || !current_ || !config_.fault_tolerant || FTAR_MUTANT(kAckOnlyRides)) return;
  TellDone();
  const Seq published = PublishedEnd();
  if (published <= acks_told_ && !FTAR_MUTANT(kAckRepeated)) return;
  acks_told_ = published;
  for (const wire::ViewEntry& entry : current_->entries) {
    const MemberId to = entry.card.id;
    if (to == config_.self || entry.card.shard != config_.shard) continue;
    Peer* const peer = peers_.Find(to);
    if (!peer || !peer->ready) continue;
    const Seq due = std::min(std::max(acks_due_, peer->ack_due), published);
    if (peer->ack_sent >= due && !FTAR_MUTANT(kAckRepeated)) continue;
    peer->ack_sent = published;
    wire::FrameHeader header;
    header.kind = wire::FrameKind::kAck;
    header.group = config_.key;
    header.era = era_;
    header.complete_end = published;
    SendFrame& frame = Push(Todo::Kind::kSend).what.emplace<SendFrame>();
    frame.to = to;
    frame.header = header;
  }
}

// V1: this member knows that every member of the attempt, whatever its weight, is complete.
bool GroupMachine::IsStable(const Op& op) const {
  const bool stable = op.lane.state == OpLane::State::kStable;
  if (op.committed || stable || FTAR_MUTANT(kDeliverWhenComplete)) return true;
  if (op.failed()) return AllKnowItFailed(op);
  if (op.lane.state == OpLane::State::kScanned) return false;
  return FollowsHub(op) ? peers_.HasAcked(op.hub, op.seq) : AllHaveAcked(op);
}

// V5: of what has failed: it takes part and has not granted credit, that is, has not installed the
// verdict. A change that some have not heard of may be followed by another one, in which they know
// of no failure, and of nobody who could tell them.
bool GroupMachine::LacksVerdict(const Op& op, const wire::ViewEntry& entry) const {
  const MemberId id = entry.card.id;
  return entry.card.shard == config_.shard && id != config_.self && !peers_.Ready(id) &&
         entry.Contains(config_.key, op.seq, op.step);
}

bool GroupMachine::AllKnowItFailed(const Op& op) const {
  return FTAR_MUTANT(kFailsOnInstall) ||
         std::ranges::none_of(current_->entries,
                              [&](const auto& entry) { return LacksVerdict(op, entry); });
}

bool GroupMachine::AllHaveAcked(const Op& op) const {
  const bool anew = op.salvage && !FTAR_MUTANT(kSalvageAwaitsTheDead);
  std::vector<MemberId> of_today;
  if (anew) of_today = MembersOf(*current_, op.seq, op.step);
  const std::vector<MemberId>& members = anew ? of_today : op.members;
  for (size_t i = 0; i < members.size(); ++i) {
    if (members[i] == config_.self) continue;
    if (FTAR_MUTANT(kWeightlessNotAwaited) && !anew && op.weights[i] == 0) continue;
    const Peer* const peer = peers_.Find(members[i]);
    if (!peer || peer->ack + FTAR_MUTANT(kAckOffByOne) <= op.seq) return false;
  }
  return true;
}

// Without fault tolerance nobody waits for the others; but what they need from here must at least
// be on its way.
bool GroupMachine::AllSent(const Op& op) const {
  if (op.committed) return true;  // it failed
  for (size_t i = 0; i < op.raws_sent.size(); ++i) {
    if (static_cast<int>(i) != op.me && !op.raws_sent[i]) return false;
  }
  return true;
}

void GroupMachine::DeliverReady(TimeNs now) {
  for (;;) {
    while (!ops_.empty()) {
      Op& op = ops_.front();
      if (!op.complete) break;
      if (config_.fault_tolerant ? !IsStable(op) : !AllSent(op)) break;
      Deliver(now, op);
    }
    const Seq called_before = called_end_;
    ActivateQueued(now);  // the window has moved
    if (called_end_ == called_before) return;
  }
}

void GroupMachine::Deliver(TimeNs now, Op& op) {
  assert(op.seq == delivered_end_);
  if (GathersNothing(op)) {
    op.absent = true;
    Undo(op);
  }
  if (op.absent && !op.failed()) RestoreShadow(op);
  complete_end_ = std::max(complete_end_, op.seq + 1);
  AdvanceTold();
  if (op.hub.valid() && !op.committed) {
    // The hub's word is everybody's.
    for (const MemberId id : op.members) {
      if (id != config_.self) peers_.Of(id).ack = std::max(peers_.Of(id).ack, op.seq + 1);
    }
  }
  if (GoesShared(op)) TellWords(op, /*done=*/true);  // others may still wait for that
  Outcome outcome = OutcomeOf(op, now);
  Push(config_.fault_tolerant ? Todo::Kind::kCancelSends : Todo::Kind::kFinishSends).id = op.seq;
  for (ChunkState& chunk : op.chunks) ReleasePieces(chunk);
  // Who cannot deliver for want of memory still has what it needs to give the input back.
  Push(Todo::Kind::kDeliver).what = std::move(outcome);
  if (!FTAR_MUTANT(kStagingKept)) {
    for (uint64_t id : op.staging) Push(Todo::Kind::kFree).id = id;
  }
  spent_ = std::move(op);
  ops_.pop_front();
  ++delivered_end_;
  // Others may still have to learn of a failure that was delivered here; nobody is further behind
  // than two windows.
  std::erase_if(failed_, [this](const auto& entry) {
    return entry.first + 2 * window_ < delivered_end_;
  });
  told_end_ = std::max(told_end_, delivered_end_);
  ++progress_;
}

Outcome GroupMachine::OutcomeOf(const Op& op, TimeNs now) const {
  Outcome outcome;
  outcome.status = op.failed() ? op.fail_code : op.absent ? Code::kAbsent : Code::kOk;
  outcome.text = op.fail_text;
  outcome.culprit = op.fail_culprit;
  outcome.epoch = op.failed() ? failed_.at(op.seq).attempt : op.view->epoch;
  outcome.seq = op.seq;
  outcome.tag = op.spec.tag;
  outcome.attempts = op.attempts;
  outcome.plan = op.plan;
  outcome.bytes_resent = op.bytes_resent;
  outcome.start_ns = op.start_ns;
  outcome.complete_ns = op.complete_ns;
  outcome.delivered_ns = now;
  if (op.attempts == 1) {  // later ones begin for all at once
    if (const auto last = op.arrivals.Last(static_cast<size_t>(op.me), op.start_ns)) {
      outcome.arrival_skew_ns = last->skew_ns;
      outcome.slowest = op.members[last->position];
    }
  }
  if (op.failed()) return outcome;  // nobody took part in what failed
  const Listeners listeners(op);
  outcome.members.reserve(op.members.size());
  // Members stand in the view's order (F6).
  auto entry = op.view->entries.begin();
  const auto end = op.view->entries.end();
  for (size_t i = 0; i < op.members.size(); ++i) {
    const auto at = std::find_if(
        entry, end, [&](const wire::ViewEntry& one) { return one.card.id == op.members[i]; });
    const bool found = at != end;
    if (found) entry = at;
    const bool told = !listeners.Has(op.members[i]) && !std::isnan(op.weights[i]);
    const double weight = told ? op.weights[i] : 1;
    outcome.members.push_back({op.members[i], static_cast<int32_t>(i),
                               found ? at->card.replica : -1, found ? at->card.shard : -1, weight});
    if (weight > 0) {
      ++outcome.participants;
      outcome.weight_sum += weight;
    }
  }
  if (op.absent && op.fail_text.empty()) {
    outcome.text = op.spec.kind == plan::Kind::kBroadcast
                       ? "the root has left or died, or has weight 0"
                       : "no participant has a weight above 0";
  }
  return outcome;
}

void GroupMachine::TakeTodo(TimeNs now, std::vector<GroupTodo>* out) {
  LosePatience(now);
  for (Seq before = kNoSeq; before != delivered_end_;) {
    before = delivered_end_;
    LookAtLane(now);
    DeliverReady(now);
  }
  SendAcks();
  HandOver(out);
}

std::vector<GroupMachine::WantTo> GroupMachine::TakeWants() { return std::exchange(wants_, {}); }

std::optional<Seq> GroupMachine::TakeMismatch() { return std::exchange(mismatch_, std::nullopt); }

}  // namespace ftar::collective
