// Calls: numbering, the window (rule J3), and the leaver's stand-in (rule J5).
#include <algorithm>
#include <cassert>
#include <utility>

#include "base/mutant.h"
#include "collective/group_machine.h"
#include "wire/layout_digest.h"

namespace ftar::collective {
namespace {

// For its chunk, which goes by frames.
bool WaitsForPiece(const ChunkState& chunk, size_t position) {
  if (chunk.is_final) return false;
  const plan::Role& role = chunk.role;
  const int member = static_cast<int>(position);
  const bool raw = role.reduces && position < chunk.raws.size() && !chunk.raws[position].present &&
                   std::binary_search(role.raw_from.begin(), role.raw_from.end(), member);
  const bool partial = role.partial_from == member && !chunk.partial.present;
  const bool final = !role.makes_final && role.final_from == member && !chunk.working;
  return raw || partial || final;
}

}  // namespace

const char* StageName(Stage stage) {
  switch (stage) {
    case Stage::kQueued: return "before";
    case Stage::kSending: return "sending";
    case Stage::kReducing: return "reducing";
    case Stage::kGathering: return "gathering";
    case Stage::kStability: return "stability";
    case Stage::kDelivered: return "between";
  }
  return "unknown";
}

GroupMachine::GroupMachine(GroupConfig config)
    : config_(std::move(config)), window_(config_.window) {
  assert(window_ > 0);
}
GroupMachine::~GroupMachine() = default;

Op* GroupMachine::Find(Seq seq) {
  if (seq < delivered_end_ || seq >= called_end_) return nullptr;
  return &ops_[seq - delivered_end_];
}
const Op* GroupMachine::Find(Seq seq) const {
  return const_cast<GroupMachine*>(this)->Find(seq);
}

const wire::ViewEntry* GroupMachine::SelfIn(const wire::View& view) const {
  return view.Find(config_.self);
}

wire::Signature GroupMachine::SignatureOf(const OpSpec& spec, uint64_t step) const {
  wire::Signature signature;
  signature.kind = static_cast<uint8_t>(spec.kind);
  signature.dtype = spec.dtype;
  signature.redop = spec.redop;
  signature.flags = spec.strict ? wire::kSignatureStrict : 0;
  signature.plan = static_cast<uint8_t>(spec.plan);
  signature.element_bytes = static_cast<uint8_t>(spec.element_bytes);
  signature.accumulator_bytes = static_cast<uint8_t>(spec.accumulator_bytes);
  signature.count = spec.count;
  signature.step = step;
  signature.root =
      spec.layout_members.empty() ? spec.root : wire::LayoutDigest(spec.layout_members);
  signature.layout = spec.layout;
  signature.scale = spec.scale;
  signature.window = static_cast<uint32_t>(window_);
  return signature;
}

void GroupMachine::Open(Seq window) {
  if (std::exchange(opened_, true) || window == 0) return;
  window_ = window;
}

Seq GroupMachine::Call(TimeNs now, const OpSpec& spec, uint64_t step) {
  QueuedCall queued{spec, step, kNoSeq, now};
  if (first_known_) queued.seq = next_seq_++;
  queue_.push_back(queued);
  ActivateQueued(now);
  return queued.seq;
}

void GroupMachine::LearnFirst(TimeNs now, Seq first) {
  if (first_known_) return;
  assert(ops_.empty());
  first_known_ = true;
  first_seq_ = next_seq_ = called_end_ = delivered_end_ = complete_end_ = told_end_ = first;
  for (QueuedCall& queued : queue_) queued.seq = next_seq_++;
  verdicts_.erase(verdicts_.begin(), verdicts_.lower_bound(first));
  ActivateQueued(now);
}

void GroupMachine::SkipTo(TimeNs now, Seq seq) {
  if (!standing_in_ || !first_known_ || frozen_ || !idle() || seq <= delivered_end_) return;
  next_seq_ = called_end_ = delivered_end_ = complete_end_ = told_end_ = seq;
  ActivateQueued(now);
}

void GroupMachine::LearnFirstAt(TimeNs now, Seq start) {
  if (current_) LearnFirst(now, start);
}

// Rule J3: k may be started iff k <= s + W, s the last op known stable; delivered_end_ is s + 1, a
// run without gaps.
bool GroupMachine::MayActivate(Seq seq, uint64_t step) const {
  if (!current_ || frozen_ || !first_known_ || seq != called_end_) return false;
  if (seq >= delivered_end_ + window_ && !FTAR_MUTANT(kNoWindow)) return false;
  if (!hold_.MayStart(seq) && !FTAR_MUTANT(kHeldBoundaryStarted)) return false;
  const bool unheard = departing_.AwaitsEndFor(*current_, config_.key, seq, step);
  if (unheard && !FTAR_MUTANT(kEndUnheard)) return false;
  return IsMember(config_.self, seq, step);
}

void GroupMachine::HearEnd(TimeNs now, MemberId leaver, Seq called) {
  departing_.HearEnd(leaver, called);
  ActivateQueued(now);
}

bool GroupMachine::IsMember(MemberId id, Seq seq, uint64_t step) const {
  const ViewPtr view = ViewFor(seq, step);
  const wire::ViewEntry* entry = view ? view->Find(id) : nullptr;
  return entry && entry->Contains(config_.key, seq, step);
}

void GroupMachine::ActivateQueued(TimeNs now) {
  for (;;) {
    if (!queue_.empty() && MayActivate(queue_.front().seq, queue_.front().step)) {
      const QueuedCall queued = std::move(queue_.front());
      queue_.pop_front();
      Activate(now, queued, /*stand_in=*/false);
      continue;
    }
    if (!standing_in_ || !queue_.empty() || !StandInForNext(now)) return;
  }
}

// J5: after leave() the engine calls for the user whatever the column calls, up to the boundary.
bool GroupMachine::StandInForNext(TimeNs now) {
  QueuedCall queued{{}, 0, called_end_, now};
  const auto notice = notices_.find(called_end_);
  if (notice != notices_.end()) {
    const wire::Signature& call = notice->second.signature;
    queued.step = call.step;
    OpSpec& spec = queued.spec;
    spec.kind = static_cast<plan::Kind>(call.kind);
    spec.dtype = call.dtype;
    spec.redop = call.redop;
    spec.element_bytes = call.element_bytes;
    spec.accumulator_bytes = call.accumulator_bytes;
    spec.count = call.count;
    spec.plan = static_cast<plan::PlanKind>(call.plan);
    spec.root = call.root;
    spec.layout = call.layout;
    spec.layout_members = notice->second.layout_members;
    spec.scale = call.scale;
    spec.strict = call.flags & wire::kSignatureStrict;
    spec.weight = FTAR_MUTANT(kLeaverCounts) ? 1 : 0;
    if (!MayActivate(queued.seq, queued.step)) return false;
    notices_.erase(notice);
  } else if (NobodyElseCalls(called_end_)) {
    queued.spec.kind = plan::Kind::kBarrier;
    queued.spec.weight = 0;
    if (!MayActivate(queued.seq, queued.step)) return false;
  } else {
    // What has failed without it nobody will call again: the verdict is all there is to it (V6).
    const auto verdict = verdicts_.find(called_end_);
    if (verdict == verdicts_.end() || verdict->second.kind != wire::VerdictKind::kFail || frozen_ ||
        !first_known_ || queued.seq >= delivered_end_ + window_)
      return false;
  }
  next_seq_ = std::max(next_seq_, queued.seq + 1);
  Activate(now, queued, /*stand_in=*/true);
  return true;
}

// J5: all who stay begin later, and those who leave call nothing more: operations in between that
// nobody means. The leavers walk through them in step, to be there when the others begin. What one
// of them called before it left is meant, and its notice may still be on its way: so each has to
// have said how far it had come.
bool GroupMachine::NobodyElseCalls(Seq seq) const {
  const ViewPtr view = ViewFor(seq, 0);
  const wire::ViewEntry* self = view ? SelfIn(*view) : nullptr;
  if (!self || self->last.kind != wire::Bound::Kind::kSeq || early_.contains(seq)) return false;
  return std::none_of(view->entries.begin(), view->entries.end(), [&](const auto& entry) {
    if (entry.card.id == config_.self || entry.card.shard != config_.shard ||
        !entry.Contains(config_.key, seq, 0))
      return false;
    if (!entry.leaves()) return true;
    return departing_.MayHaveCalled(entry.card.id, seq) && !FTAR_MUTANT(kLeaversMeanNothing);
  });
}

// All empty but for their memory.
void GroupMachine::UseMemoryAgain(Op* op) {
  const auto take = [](auto& from, auto* to) {
    *to = std::move(from);
    to->clear();
  };
  take(spent_.members, &op->members);
  take(spent_.origin.members, &op->origin.members);
  take(spent_.weights, &op->weights);
  take(spent_.raws_sent, &op->raws_sent);
  take(spent_.staging, &op->staging);
  take(spent_.lane.segments, &op->lane.segments);
  op->arrivals = std::move(spent_.arrivals);
}

void GroupMachine::Activate(TimeNs now, const QueuedCall& queued, bool stand_in) {
  assert(queued.seq == called_end_);
  Op& op = ops_.emplace_back();
  UseMemoryAgain(&op);
  op.seq = queued.seq;
  op.step = queued.step;
  op.spec = queued.spec;
  op.stand_in = stand_in;
  op.signature = SignatureOf(queued.spec, queued.step);
  op.digest = wire::SignatureDigest(op.signature);
  op.start_ns = queued.called_ns;
  called_step_ = std::max(called_step_, queued.step);
  ++called_end_;
  ++progress_;
  if (departing_.tells() && !FTAR_MUTANT(kLeaverNotTold)) departing_.Note(NoticeOf(op));
  if (stand_in) {
    const uint64_t segments = std::max<uint64_t>(op.spec.layout_members.size(), 1);
    op.stand_in_buffer = Allocate(
        op, std::max<uint64_t>(op.spec.count * op.spec.element_bytes * segments, 1));
  }
  if (const auto verdict = verdicts_.find(op.seq); verdict != verdicts_.end()) {
    // V6: the verdict of this era was given before this member called the op. The attempt it names
    // is entered now.
    const wire::Verdict kept = verdict->second;
    verdicts_.erase(verdict);
    ApplyVerdict(now, op, kept);
  } else {
    const ViewPtr view = ViewFor(op.seq, op.step);
    BeginAttempt(now, op, view,
                 {MembersOf(*view, op.seq, op.step, std::move(op.origin.members)), 0});
  }
  ReplayEarly(now, queued.seq);
  if (Op* target = Find(queued.seq)) CheckComplete(now, *target);
}

void GroupMachine::OnCallNotice(TimeNs now, const wire::CallNotice& notice) {
  if (notice.seq < called_end_) return;
  // Whoever has not opened the group calls for a user who never has.
  if (!opened_ && notice.signature.window > 0) window_ = notice.signature.window;
  notices_[notice.seq] = notice;
  ActivateQueued(now);
}

void GroupMachine::NotifyCallsTo(std::vector<MemberId> leavers) {
  // Also to those who were told in an era before: what they had not called yet they have forgotten.
  departing_.Tell(std::move(leavers));
  if (!departing_.tells()) return;
  for (const Op& op : ops_) departing_.Note(NoticeOf(op));
}

wire::CallNotice GroupMachine::NoticeOf(const Op& op) const {
  return {era_, config_.key, op.seq, op.signature, op.spec.layout_members};
}

Seq GroupMachine::ReserveBoundary() const {
  // What others may have started is bounded by the acks this member has published (J3): nobody
  // knows op s stable without them. One window of slack, so that holding acks back stalls nobody
  // while the coordinator makes up its mind.
  // A newcomer counts its window from its first operation, which may lie ahead of all acks.
  Seq from = complete_end_;
  for (const wire::ViewEntry& entry : current_->entries) {
    if (entry.card.shard == config_.shard) from = std::max(from, entry.first.SeqIn(config_.key));
  }
  // Failed operations wait for nobody's call: who has nothing before them may be behind them
  // already. And newcomers know nothing of them: they begin behind.
  const auto has_failed = [this](Seq seq) {
    const auto kept = verdicts_.find(seq);
    return failed_.contains(seq) ||
           (kept != verdicts_.end() && kept->second.kind == wire::VerdictKind::kFail);
  };
  while (has_failed(from)) ++from;
  Seq boundary = from + (FTAR_MUTANT(kBoundaryTooNear) ? 1 : 2 * window_);
  boundary = std::max(boundary, FailedEnd());
  // Of what lies a window before it nobody hears that it is stable (HoldAcksFor). If that has
  // failed, nobody has to.
  while (boundary >= window_ && has_failed(boundary - window_)) ++boundary;
  return boundary;
}

Seq GroupMachine::FailedEnd() const {
  Seq end = failed_.empty() ? 0 : failed_.rbegin()->first + 1;
  for (const auto& [seq, verdict] : verdicts_) {
    if (verdict.kind == wire::VerdictKind::kFail) end = std::max(end, seq + 1);
  }
  return end;
}

void GroupMachine::HoldAcksFor(Seq boundary) {
  hold_.For(boundary, window_);
  assert(hold_.AckedEnd(complete_end_) == complete_end_);
}

void GroupMachine::LiftHold(TimeNs now) {
  hold_.Lift();
  DeliverReady(now);
}

Stage GroupMachine::StageOf(Seq seq) const {
  if (seq < delivered_end_) return Stage::kDelivered;
  const Op* op = Find(seq);
  if (!op) return Stage::kQueued;
  if (op->complete) return Stage::kStability;
  bool reducing = false;
  for (const ChunkState& chunk : op->chunks) {
    if (chunk.is_final) return Stage::kGathering;
    reducing = reducing || chunk.raws_missing < chunk.role.raw_from.size() || chunk.working;
  }
  return reducing ? Stage::kReducing : Stage::kSending;
}

bool GroupMachine::WaitsFor(const Op& op, size_t position) const {
  const MemberId member = op.members[position];
  if (op.complete) {
    return !peers_.HasAcked(member, op.seq) && (!FollowsHub(op) || member == op.hub);
  }
  if (GoesShared(op) && op.lane.seen == op.members.size()) return LacksShare(op, position);
  if (op.lane.published && !op.lane.by_frames) return LacksLine(op, position);
  if (position < op.unheard.size() && op.unheard[position]) return true;
  return std::ranges::any_of(
      op.chunks, [position](const auto& chunk) { return WaitsForPiece(chunk, position); });
}

wire::GroupProgress GroupMachine::Progress() const {
  wire::GroupProgress progress{config_.key, called_end_, delivered_end_, progress_, {}};
  if (ops_.empty()) return progress;
  const Op& op = ops_.front();
  if (op.failed()) {
    for (const wire::ViewEntry& entry : current_->entries) {
      if (LacksVerdict(op, entry)) progress.waits_for.push_back(entry.card.id);
    }
    return progress;
  }
  for (size_t i = 0; i < op.members.size(); ++i) {
    if (static_cast<int>(i) != op.me && WaitsFor(op, i))
      progress.waits_for.push_back(op.members[i]);
  }
  std::ranges::sort(progress.waits_for);
  return progress;
}

std::optional<TimeNs> GroupMachine::NextOpDeadline() const {
  if (ops_.empty()) return {};
  const Op& op = ops_.front();
  if (op.spec.timeout_ns <= 0 || op.overdue_reported) return {};
  return After(op.start_ns, op.spec.timeout_ns);
}

GroupMachine::Overdue GroupMachine::TakeOverdue(TimeNs now) {
  const std::optional<TimeNs> deadline = NextOpDeadline();
  if (!deadline || now < *deadline) return {};
  // The oldest alone: what comes behind it is late with it, and has its turn when it is the oldest.
  Op& op = ops_.front();
  op.overdue_reported = true;
  // A failure waits for nobody's contribution.
  if (op.failed() && !FTAR_MUTANT(kFailureIsOverdue)) return {};
  return {op.seq, op.spec.timeout_ns, Progress().waits_for};
}

void GroupMachine::ReportOverdueAgain() {
  for (Op& op : ops_) op.overdue_reported = false;
}

}  // namespace ftar::collective
