// The fast path: a small operation that is called while nothing else of its group is under way, and
// whose inputs all come through the lane (group_lane.cc, rule F4), without what an operation
// otherwise needs: chunks and roles, things to do, a turn of the engine.
//
// It is the lane's protocol, step by step: the line is published at the call; with the lines of all
// the result is made; no flag up, it is delivered. Nothing else happens to the machine meanwhile.
// Whoever has something else to tell it stops the fast path first, upon which the operation is what
// it would have been from the start, its line published.
#include <algorithm>
#include <utility>

#include "base/mutant.h"
#include "collective/group_machine.h"
#include "collective/op_works.h"

namespace ftar::collective {
namespace {

// What the plan, the signature and the place in the lane depend on.
bool Alike(const OpSpec& a, const OpSpec& b) {
  return a.kind == b.kind && a.dtype == b.dtype && a.redop == b.redop && a.count == b.count &&
         a.element_bytes == b.element_bytes && a.accumulator_bytes == b.accumulator_bytes &&
         a.plan == b.plan && a.root == b.root && a.layout == b.layout && a.scale == b.scale &&
         a.strict == b.strict && a.on_device == b.on_device;
}

}  // namespace

// Members and lanes are the same for all calls in a view in which everybody has begun and nobody
// is about to leave.
bool GroupMachine::PlaceFast(Seq seq, uint64_t step) {
  if (fast_.view == current_ && fast_era_ == era_) return true;
  fast_.view = nullptr;
  told_weights_.clear();
  fast_room_ = LaneRoom::kNone;
  if (!current_ || ViewFor(seq, step) != current_) return false;
  fast_.members.clear();
  fast_.lane.segments.clear();
  for (const wire::ViewEntry& entry : current_->entries) {
    const MemberId id = entry.card.id;
    if (entry.card.shard != config_.shard) continue;
    if (entry.leaves() || !entry.Contains(config_.key, seq, step)) return false;
    const int segment = config_.lane->SegmentOf(id);
    if (segment < 0 || (id != config_.self && !peers_.Ready(id))) return false;
    fast_.members.push_back(id);
    fast_.lane.segments.push_back(segment);
  }
  if (fast_.members.size() < 2) return false;
  fast_.me = fast_.PositionOf(config_.self);
  fast_.view = current_;
  fast_era_ = era_;
  return true;
}

// How it would go, by its plan: one-shot in one pass, direct shared.
LaneRoom GroupMachine::RoomFor(const OpSpec& spec, plan::PlanKind* plan) {
  const bool fits = spec.kind == plan::Kind::kBarrier || spec.kind == plan::Kind::kAllReduce;
  if (!fits || spec.on_device) return LaneRoom::kNone;
  const size_t members = fast_.members.size();
  *plan = ChoosePlan(spec, fast_.view, members);
  const LaneRoom room = config_.lane->RoomFor(config_.key, spec.count * spec.element_bytes);
  if (room == LaneRoom::kNone || IsShared(spec, *plan, fast_.view, members))
    return room == LaneRoom::kNone ? room : LaneRoom::kShared;
  return *plan == plan::PlanKind::kOneShot && room == LaneRoom::kShort ? room : LaneRoom::kNone;
}

bool GroupMachine::WouldShare(const OpSpec& spec, uint64_t step) {
  if (config_.lane == nullptr || !idle() || !PlaceFast(next_seq_, step)) return false;
  plan::PlanKind plan{};
  const LaneRoom room = RoomFor(spec, &plan);
  return room == LaneRoom::kShared || (room == LaneRoom::kShort && MayAllSum(spec));
}

// One call after the other is like the last one.
bool GroupMachine::DescribeFast(const OpSpec& spec, uint64_t step) {
  if (fast_room_ != LaneRoom::kNone && step == fast_.step && Alike(spec, fast_.spec)) return true;
  fast_room_ = RoomFor(spec, &fast_.plan);
  if (fast_room_ == LaneRoom::kNone) return false;
  fast_.spec = spec;
  fast_.signature = SignatureOf(spec, step);
  fast_.digest = wire::SignatureDigest(fast_.signature);
  may_all_sum_ = MayAllSum(spec);
  // Of who shares a core each waits for the other twice, and once in one pass.
  if (fast_room_ == LaneRoom::kShort && SurroundingsIn(fast_.view).crowded) may_all_sum_ = false;
  if (fast_room_ == LaneRoom::kShared || may_all_sum_) CutShares();
  return true;
}

// Where both ways are open the input lies in its slot if it cannot stay.
LaneRoom GroupMachine::FastRoomOf(const FastCall& call) const {
  const bool both = fast_room_ == LaneRoom::kShort && may_all_sum_;
  return both && call.stays ? LaneRoom::kShared : fast_room_;
}

// What was found out for the last call holds for one like it, if this machine has been told nothing
// in between: then only the number is another, and whether its slot is let go.
[[gnu::hot]] bool GroupMachine::IsRepeat(Seq seq, const FastCall& call, uint64_t step) const {
  if (step != fast_.step || seq >= held_boundary_ || call.spec->weight != fast_.spec.weight ||
      fast_room_ == LaneRoom::kNone || !(call.like_last || Alike(*call.spec, fast_.spec)))
    return false;
  if (fast_room_ == LaneRoom::kShared && !call.shows) return false;
  if (fast_.lane.room != FastRoomOf(call)) return false;
  const Seq last = lane_slots_[seq % kLaneSlots].seq;
  return std::ranges::all_of(
      fast_peers_, [last](const Peer* peer) { return peer == nullptr || peer->ack > last; });
}

bool GroupMachine::BeginFast(Seq seq, const FastCall& call, uint64_t step) {
  const OpSpec& spec = *call.spec;
  if (!config_.lane || !config_.fault_tolerant || standing_in_ || !idle()) return false;
  // A boundary is reserved, somebody is told of calls, a verdict waits, somebody sends by frames.
  const bool reserved = ack_cap_ != kNoSeq && !FTAR_MUTANT(kLaneNotHeld);
  if (reserved || !leavers_.empty() || !verdicts_.empty() || !early_.empty()) return false;
  if (!(spec.weight > 0) || !MayActivate(seq, step) || !PlaceFast(seq, step)) return false;
  const bool described = DescribeFast(spec, step);
  fast_.step = step;
  fast_.spec = spec;
  if (!described || !SlotIsFree(seq)) return false;
  if (fast_room_ == LaneRoom::kShared && !call.shows) return false;
  fast_.attempts = 1;
  fast_.weights.assign(fast_.members.size(), kUnknownWeight);
  fast_.weights[static_cast<size_t>(fast_.me)] = spec.weight;
  fast_peers_.clear();
  for (const MemberId id : fast_.members)  // they are ready, see PlaceFast
    fast_peers_.push_back(id != config_.self ? peers_.Find(id) : nullptr);
  return true;
}

[[gnu::hot]] bool GroupMachine::StartFast(const FastCall& call, uint64_t step, uint64_t news,
                                          LaneLine* line) {
  const Seq seq = next_seq_;
  repeats_ = news == fast_news_ && IsRepeat(seq, call, step);
  if (!repeats_) {
    fast_news_ = 0;
    if (!BeginFast(seq, call, step)) return false;
    fast_news_ = news;
  }
  fast_.spec.in_place = call.spec->in_place;
  fast_.spec.timeout_ns = call.spec->timeout_ns;
  fast_.spec.tag = call.spec->tag;
  fast_.seq = seq;
  fast_.start_ns = call.now;
  fast_.lane.Reset();
  fast_.lane.room = FastRoomOf(call);
  fast_.lane.shared = fast_.lane.room == LaneRoom::kShared;
  fast_.lane.rooms.resize(fast_.members.size(), LaneRoom::kShort);
  fast_.lane.rooms[static_cast<size_t>(fast_.me)] = fast_.lane.room;
  fast_.lane.whole = !fast_.lane.shared || (call.stays && may_all_sum_);
  fast_.complete = false;
  if (fast_.lane.shared) BeginShares();
  ++next_seq_;
  in_fast_ = true;
  *line = LineOf(fast_);
  return true;
}

// A line that says what the member's last one said, but for its number and what is complete there.
[[gnu::hot]] bool GroupMachine::TakeFamiliar(size_t position) {
  LaneLine line;
  if (!config_.lane->Look(fast_.lane.segments[position], config_.key, fast_.seq, &line) ||
      line.attempt != fast_.view->epoch || line.view > current_->epoch ||
      line.digest != fast_.digest || line.weight != fast_.weights[position] ||
      line.shared != (fast_.lane.rooms[position] == LaneRoom::kShared))
    return false;
  Seq& ack = fast_peers_[position]->ack;
  ack = std::max(ack, line.complete_end);
  fast_.lane.shared = fast_.lane.shared || line.shared;
  fast_.lane.whole = fast_.lane.whole && line.whole;
  return true;
}

// Its own line is out.
[[gnu::hot]] bool GroupMachine::SeesAllFast() {
  size_t& seen = fast_.lane.seen;
  for (const auto me = static_cast<size_t>(fast_.me); seen < fast_.members.size(); ++seen) {
    if (seen == me || (repeats_ && TakeFamiliar(seen))) continue;
    if (!TakeLine(fast_, seen)) return false;
    repeats_ = false;  // its weight may be another
  }
  return true;
}

void GroupMachine::FillFastWork() {
  fast_work_.sources.clear();
  plan::Chunk whole;
  whole.count = fast_.spec.count;
  FillLaneWork(fast_, whole, &fast_work_);
}

[[gnu::hot]] FastLook GroupMachine::LookFast(TimeNs now) {
  if (!SeesAllFast()) {
    if (!mismatch_) return FastLook::kWait;
    StopFast(now);
    return FastLook::kStopped;
  }
  if (fast_.lane.shared && fast_.lane.room == LaneRoom::kShort) {
    StopFast(now);  // the other's is, which comes seldom
    return FastLook::kStopped;
  }
  if (fast_.lane.shared) return LookFastShared(now);
  if (!repeats_) {
    FillFastWork();
    return FastLook::kRead;
  }
  fast_work_.seq = fast_.seq;
  for (SourceRef& source : fast_work_.sources) {
    const int segment = LaneSegment(source.buffer.id);
    source.buffer.id = LaneInput(segment, fast_.seq, LaneRoom::kShort);
  }
  return FastLook::kRead;
}

// One after the other ends with the same members and weights.
[[gnu::hot]] const Outcome& GroupMachine::FastOutcome(TimeNs now) {
  if (!repeats_ && (fast_.weights != told_weights_ || fast_.plan != fast_outcome_.plan)) {
    const uint64_t last = fast_outcome_.alike;
    fast_outcome_ = OutcomeOf(fast_, now);
    fast_outcome_.alike = last + 1;
    told_weights_ = fast_.weights;
  }
  fast_outcome_.seq = fast_.seq;
  fast_outcome_.tag = fast_.spec.tag;
  fast_outcome_.start_ns = fast_.start_ns;
  fast_outcome_.complete_ns = fast_outcome_.delivered_ns = now;
  return fast_outcome_;
}

// In one pass F4 (d), as in LaneWorkDone; what is shared is stable.
[[gnu::hot]] const Outcome* GroupMachine::EndFast(TimeNs start, TimeNs now) {
  fast_.start_ns = start;
  if (!fast_.lane.shared && FlagIsUp(fast_)) {
    StopFast(now);
    return nullptr;
  }
  in_fast_ = false;
  TakeSlot(fast_);
  fast_.complete = true;
  fast_.complete_ns = now;
  called_step_ = std::max(called_step_, fast_.step);
  called_end_ = complete_end_ = told_end_ = ++delivered_end_;
  progress_ += 2;
  if (!failed_.empty()) {
    std::erase_if(failed_,
                  [this](const auto& entry) { return entry.first + 2 * window_ < delivered_end_; });
  }
  return &FastOutcome(now);
}

void GroupMachine::StopFast(TimeNs now) {
  if (!std::exchange(in_fast_, false)) return;
  queue_.push_back({fast_.spec, fast_.step, fast_.seq, fast_.start_ns});
  if (FTAR_MUTANT(kFastLineForgotten)) return;
  fast_line_ = fast_.seq;
  ActivateQueued(now);
  fast_line_ = kNoSeq;
}

}  // namespace ftar::collective
