// The fast path: a small operation that is called while nothing else of its group is under way, and
// whose inputs all come through the lane (group_lane.cc, rule F4), without what an operation
// otherwise needs: chunks and roles, things to do, a turn of the engine. fast_op.h has its state.
//
// It is the lane's protocol, step by step: the line is published at the call; with the lines of all
// the result is made; no flag up, it is delivered. Nothing else happens to the machine meanwhile.
// Whoever has something else to tell it stops the fast path first, upon which the operation is what
// it would have been from the start, its line published.
#include <algorithm>

#include "base/mutant.h"
#include "collective/group_machine.h"

namespace ftar::collective {

// Members and lanes are the same for all calls in a view in which everybody has begun and nobody
// is about to leave.
bool GroupMachine::PlaceFast(Seq seq, uint64_t step) {
  if (fast_.IsPlacedIn(current_, era_)) return true;
  fast_.Displace();
  if (!current_ || ViewFor(seq, step) != current_) return false;
  for (const wire::ViewEntry& entry : current_->entries) {
    const MemberId id = entry.card.id;
    if (entry.card.shard != config_.shard) continue;
    if (entry.leaves() || !entry.Contains(config_.key, seq, step)) return false;
    const int segment = config_.lane->SegmentOf(id);
    if (segment < 0 || (id != config_.self && !peers_.Ready(id))) return false;
    fast_.AddMember(id, segment);
  }
  return fast_.Place(current_, era_);
}

// How it would go, by its plan: one-shot in one pass, direct shared.
FastWay GroupMachine::WayOf(const OpSpec& spec) {
  FastWay way;
  const bool fits = spec.kind == plan::Kind::kBarrier || spec.kind == plan::Kind::kAllReduce;
  if (!fits || spec.on_device) return way;
  const size_t members = fast_.op().members.size();
  way.plan = ChoosePlan(spec, current_, members);
  way.all_sum = MayAllSum(spec, members);
  const LaneRoom room = config_.lane->RoomFor(config_.key, spec.count * spec.element_bytes);
  if (room == LaneRoom::kNone) return way;
  if (IsShared(spec, way.plan, current_, members)) {
    way.room = LaneRoom::kShared;
  } else if (way.plan == plan::PlanKind::kOneShot && room == LaneRoom::kShort) {
    way.room = LaneRoom::kShort;
  }
  return way;
}

bool GroupMachine::WouldShare(const OpSpec& spec, uint64_t step) {
  if (config_.lane == nullptr || !idle() || !PlaceFast(next_seq_, step)) return false;
  const FastWay way = WayOf(spec);
  return way.room == LaneRoom::kShared || (way.room == LaneRoom::kShort && way.all_sum);
}

bool GroupMachine::DescribeFast(const OpSpec& spec, uint64_t step) {
  if (fast_.IsDescribed(spec, step)) return true;
  FastWay way = WayOf(spec);
  if (way.room == LaneRoom::kNone) return false;
  // Of who shares a core each waits for the other twice, and once in one pass.
  if (way.room == LaneRoom::kShort && SurroundingsIn(current_).crowded) way.all_sum = false;
  fast_.Describe(spec, step, way, SignatureOf(spec, step));
  if (fast_.MayShare()) fast_.CutShares(PieceBytesOf(fast_.op()));
  return true;
}

// For one that does not repeat the last one.
bool GroupMachine::BeginFast(Seq seq, const FastCall& call, uint64_t step, uint64_t news) {
  const OpSpec& spec = *call.spec;
  fast_.Forget();
  if (!config_.lane || !config_.fault_tolerant || standing_in_ || !idle()) return false;
  // A boundary is reserved, somebody is told of calls, a verdict waits, somebody sends by frames.
  const bool reserved = hold_.holds_acks() && !FTAR_MUTANT(kLaneNotHeld);
  if (reserved || departing_.tells() || !verdicts_.empty() || !early_.empty()) return false;
  if (!(spec.weight > 0) || !MayActivate(seq, step) || !PlaceFast(seq, step)) return false;
  if (!DescribeFast(spec, step) || !SlotIsFree(seq)) return false;
  if (fast_.way().room == LaneRoom::kShared && !call.shows) return false;
  fast_.Prepare(spec, news, &peers_);  // all are ready, see PlaceFast
  return true;
}

// What was found out for the last call holds for one like it, if this machine has been told nothing
// in between.
[[gnu::hot]] bool GroupMachine::StartFast(const FastCall& call, uint64_t step, uint64_t news,
                                          LaneLine* line) {
  const Seq seq = next_seq_;
  const bool repeats = hold_.MayStart(seq) &&
                       fast_.Repeats(call, step, news, lane_slots_[seq % kLaneSlots].seq);
  if (!repeats && !BeginFast(seq, call, step, news)) return false;
  fast_.Start(seq, call, repeats);
  ++next_seq_;
  *line = LineOf(fast_.op());
  return true;
}

[[gnu::hot]] bool GroupMachine::RecurFast(const FastCall& call, uint64_t news, LaneLine* line) {
  const Seq seq = next_seq_;
  if (!hold_.MayStart(seq) || !fast_.Recur(seq, call, news, lane_slots_[seq % kLaneSlots].seq))
    return false;
  line->seq = next_seq_++;
  line->complete_end = PublishedEnd();
  return true;
}

// Its own line is out.
[[gnu::hot]] bool GroupMachine::SeesAllFast() {
  Op& op = fast_.op();
  size_t& seen = op.lane.seen;
  for (const auto me = static_cast<size_t>(op.me); seen < op.members.size(); ++seen) {
    if (seen == me || fast_.TakeFamiliar(seen, current_->epoch)) continue;
    if (!TakeLine(op, seen)) return false;
    fast_.Differ();  // its weight may be another
  }
  return true;
}

[[gnu::hot]] FastLook GroupMachine::LookFast(TimeNs now) {
  if (!SeesAllFast()) {
    if (!mismatch_) return FastLook::kWait;
    StopFast(now);
    return FastLook::kStopped;
  }
  const OpLane& lane = fast_.op().lane;
  if (lane.shared && lane.room == LaneRoom::kShort) {
    StopFast(now);  // the other's is, which comes seldom
    return FastLook::kStopped;
  }
  if (lane.shared) return LookFastShared(now);
  return fast_.FillWork() ? FastLook::kForeseen : FastLook::kRead;
}

// In one pass F4 (d), as in LaneWorkDone; what is shared is stable.
[[gnu::hot]] const Outcome* GroupMachine::EndFast(TimeNs start, TimeNs now) {
  Op& op = fast_.op();
  op.start_ns = start;
  if (!op.lane.shared && FlagIsUp(op)) {
    StopFast(now);
    return nullptr;
  }
  fast_.Stop();
  TakeSlot(op);
  op.complete = true;
  op.complete_ns = now;
  called_step_ = std::max(called_step_, op.step);
  called_end_ = complete_end_ = told_end_ = ++delivered_end_;
  progress_ += 2;
  if (!failed_.empty()) {
    std::erase_if(failed_,
                  [this](const auto& entry) { return entry.first + 2 * window_ < delivered_end_; });
  }
  if (!fast_.EndsAlike()) fast_.SetOutcome(OutcomeOf(op, now));
  return &fast_.End(now);
}

void GroupMachine::StopFast(TimeNs now) {
  if (!fast_.Stop()) return;
  const Op& op = fast_.op();
  queue_.push_back({op.spec, op.step, op.seq, op.start_ns});
  if (FTAR_MUTANT(kFastLineForgotten)) return;
  fast_.HandOver(true);
  ActivateQueued(now);
  fast_.HandOver(false);
}

}  // namespace ftar::collective
