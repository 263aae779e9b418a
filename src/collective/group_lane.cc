// One pass through shared memory (rule F4): see lane.h, and docs/protocol.md 10 for why it is safe.
//
// Whether a member uses the lane for an operation is its own business: whoever has published waits
// for the lines of all others, and who has not sends its input by frames, upon which those who hear
// it do the same. Without the line of every member nobody delivers from the lane, so in an attempt
// it is one way or the other; and whoever has published goes on looking at the lane.
#include <algorithm>
#include <limits>
#include <utility>

#include "base/mutant.h"
#include "collective/group_machine.h"
#include "collective/op_works.h"

namespace ftar::collective {

namespace {
// Then whoever waits in the lane sends frames as well: somebody may have called something that does
// not go through the lane (V5). Who only comes late finds the lines of the others.
constexpr TimeNs kPatienceNs = 5 * kMillisecond;
// Where only an owner would hear the frames of who does not see the lane or did not look, the
// others do not hear that they are to send theirs.
constexpr TimeNs kDirectPatienceNs = 500 * kMicrosecond;

bool LaneIsOpen(const Op& op) {
  const OpLane& lane = op.lane;
  return lane.published && lane.state == OpLane::State::kOpen && lane.working == 0;
}
}  // namespace

// F4 (b): the slot's last operation must be stable. In another era nobody looks at it any more,
// since all members have installed this one (MayPublish).
bool GroupMachine::SlotIsFree(Seq seq) const {
  const LaneSlot& last = lane_slots_[seq % kLaneSlots];
  if (last.era != era_ || FTAR_MUTANT(kLaneSlotReused)) return true;
  return std::all_of(current_->entries.begin(), current_->entries.end(), [&](const auto& entry) {
    return entry.card.id == config_.self || entry.card.shard != config_.shard ||
           !entry.Contains(config_.key, last.seq, last.step) ||
           peers_.HasAcked(entry.card.id, last.seq);
  });
}

// Only who can see the lanes of all others may let them deliver from its own: it must find all
// inputs when it freezes. J3: a root that holds acks back for a boundary holds its lines back as
// well, since they prove as much.
bool GroupMachine::MayPublish(const Op& op) {
  if (!config_.lane || !config_.fault_tolerant || frozen_ || op.stand_in || op.attempts != 1 ||
      op.spec.on_device)
    return false;
  if (fast_.HandsOver(op.seq)) return true;  // it is out
  if (op.plan != plan::PlanKind::kOneShot || op.members.size() < 2) return false;
  if (!hold_.MayAck(op.seq) && !FTAR_MUTANT(kLaneNotHeld)) return false;
  // What is long goes this way when it goes alone (group_fast.cc): of several the frames carry
  // more.
  if (config_.lane->RoomFor(config_.key, InputBytes(op)) != LaneRoom::kShort || !SlotIsFree(op.seq))
    return false;
  return std::all_of(op.members.begin(), op.members.end(), [this](MemberId id) {
    return (id == config_.self || peers_.Ready(id)) && config_.lane->SegmentOf(id) >= 0;
  });
}

void GroupMachine::Publish(TimeNs now, Op& op) {
  op.lane.published = true;
  const bool shares = fast_.HandsOver(op.seq) && fast_.op().lane.room == LaneRoom::kShared;
  op.lane.room = shares ? LaneRoom::kShared : LaneRoom::kShort;
  op.lane.shared = shares;
  op.lane.whole = !shares || fast_.op().lane.whole;
  op.lane.patience_end =
      now + (op.plan == plan::PlanKind::kOneShot ? kPatienceNs : kDirectPatienceNs);
  op.lane.segments.clear();
  for (const MemberId id : op.members) op.lane.segments.push_back(config_.lane->SegmentOf(id));
  TakeSlot(op);
  if (fast_.HandsOver(op.seq)) {
    if (shares) KeepShares(now, op);
    return;
  }
  BufferRef input;
  if (op.spec.weight != 0) input = {BufferRef::Kind::kSend, op.seq, 0, InputBytes(op)};
  Push(Todo::Kind::kPublish).what = Publication{LineOf(op), input};
}

LaneLine GroupMachine::LineOf(const Op& op) const {
  return {op.seq,         op.view->epoch, current_->epoch, op.digest,
          op.spec.weight, PublishedEnd(), op.lane.shared,  op.lane.whole};
}

void GroupMachine::TakeSlot(const Op& op) {
  lane_slots_[op.seq % kLaneSlots] = {era_, op.seq, op.step};
  ++progress_;
}

// The line of the member at `position`, if it counts.
[[gnu::hot]] bool GroupMachine::TakeLine(Op& op, size_t position) {
  LaneLine line;
  if (!config_.lane->Look(op.lane.segments[position], config_.key, op.seq, &line)) return false;
  if (line.attempt != op.view->epoch && !FTAR_MUTANT(kLaneStaleLine)) return false;
  // J3: it knows of a boundary that this member has yet to hear of, before it goes on. Whoever is
  // frozen begins nothing, and may have to know what others have delivered.
  if (line.view > current_->epoch && !frozen_ && !FTAR_MUTANT(kLaneAheadOfView)) return false;
  if (line.digest != op.digest) {  // V5
    if (!std::exchange(op.lane.mismatched, true)) mismatch_ = op.seq;
    return false;
  }
  op.lane.shared = op.lane.shared || line.shared;
  op.lane.whole = op.lane.whole && line.whole;
  op.lane.rooms.resize(op.members.size(), LaneRoom::kShort);
  op.lane.rooms[position] = line.shared ? LaneRoom::kShared : LaneRoom::kShort;
  if (static_cast<int>(position) == op.me) return true;
  if (!(line.weight >= 0) || line.weight > std::numeric_limits<double>::max()) return false;
  op.weights[position] = line.weight;
  Seq& ack = peers_.Of(op.members[position]).ack;
  ack = std::max(ack, line.complete_end);
  return true;
}

bool GroupMachine::SeesAll(Op& op) {
  while (op.lane.seen < op.members.size() && TakeLine(op, op.lane.seen)) ++op.lane.seen;
  return op.lane.seen == op.members.size();
}

bool GroupMachine::LaneHasNews() {
  if (ops_.empty() || frozen_) return false;
  Op& op = ops_.front();
  if (GoesShared(op)) return ShareHasNews(op);
  if (!LaneIsOpen(op)) return false;
  return SeesAll(op) || mismatch_.has_value();
}

// The oldest operation alone: what comes behind it is delivered behind it.
void GroupMachine::LookAtLane(TimeNs now) {
  if (ops_.empty() || frozen_) return;
  Op& op = ops_.front();
  OpLane& lane = op.lane;
  if (GoesShared(op)) return LookAtShares(now, op);
  if (!LaneIsOpen(op) || !SeesAll(op)) return;
  if (GoesShared(op)) return LookAtShares(now, op);
  ++progress_;
  if (op.complete) {  // by frames; others may have delivered from the lane, and owe no ack
    lane.state = FlagIsUp(op) ? OpLane::State::kBlocked : OpLane::State::kStable;
    return;
  }
  Abandon(op);
  // F4 (d): the inputs are read first and the flags looked at afterwards. What must not be touched
  // before that stays as it is until then.
  const uint64_t bytes = op.spec.count * op.spec.element_bytes;
  if ((op.spec.in_place || op.spec.weight == 0) && bytes > 0) lane.staging = Allocate(op, bytes);
  for (uint32_t c = 0; c < op.chunks.size(); ++c) {
    if (op.chunks[c].is_final) continue;  // by frames, and the same bits
    BufferRef dst = OutputOf(op, op.chunks[c].geometry);
    if (lane.staging != 0) dst = {BufferRef::Kind::kStaging, lane.staging, dst.offset, dst.bytes};
    std::optional<Work> work = LaneWork(op, c, dst);
    if (!work) continue;
    op.chunks[c].working = true;
    ++lane.working;
    StartWork(op, *std::move(work), {op.seq, c, WorkRef::Purpose::kFromLane, {}, 0});
  }
  if (lane.working == 0) LaneWorkDone(now, op);
}

// What is being made of pieces that came by frames: others may have delivered, and sent no more.
void GroupMachine::Abandon(const Op& op) {
  std::erase_if(works_, [&](const auto& work) {
    if (work.second.seq != op.seq) return false;
    if (work.second.inbound != 0) abandoned_[work.first] = work.second.inbound;
    return true;
  });
}

// What makes a chunk of the result of the inputs in the lanes; none if there is nothing to be made.
std::optional<Work> GroupMachine::LaneWork(Op& op, uint32_t index, const BufferRef& dst) {
  ChunkState& chunk = op.chunks[index];
  Work work;
  if (!FillLaneWork(op, chunk.geometry, &work)) {
    op.absent = chunk.empty = true;
    return std::nullopt;
  }
  if (work.count == 0) return std::nullopt;
  work.dst = dst;
  return work;
}

[[gnu::hot]] bool GroupMachine::FlagIsUp(const Op& op) const {
  return config_.lane->FlagUp(op.lane.segments, era_) && !FTAR_MUTANT(kLaneFlagsIgnored);
}

// F4 (d): all inputs have been read, so if no flag is up now, whoever freezes finds them all.
void GroupMachine::LaneWorkDone(TimeNs now, Op& op) {
  OpLane& lane = op.lane;
  if (FlagIsUp(op)) {
    lane.state = OpLane::State::kBlocked;
    if (!lane.by_frames) return;
    for (uint32_t c = 0; c < op.chunks.size(); ++c) TryReduce(now, op, c);
    return;
  }
  lane.state = OpLane::State::kStable;
  for (uint32_t c = 0; c < op.chunks.size(); ++c) {
    if (op.chunks[c].is_final) continue;
    const BufferRef output = OutputOf(op, op.chunks[c].geometry);
    if (lane.staging != 0 && !op.absent && output.bytes > 0) {
      // What it lands on is kept until it is delivered: without memory that may never be.
      PushCopy(op, {BufferRef::Kind::kStaging, lane.staging, output.offset, output.bytes}, output,
               Work::Kind::kExchange);
    }
    MarkFinal(op, c);
  }
  CheckComplete(now, op);
}

// F4 (c): with the own flag up, whatever others may have delivered is here. It is worked on before
// anything of another era can be published. Unless this member is out already, having stood still:
// then others may have written over what they have delivered. So it does not deliver, whatever acks
// it has heard, but by the verdict of a change in which its status has counted.
void GroupMachine::ScanLane(TimeNs now, Op& op) {
  OpLane& lane = op.lane;
  if (!lane.published || lane.room != LaneRoom::kShort || op.complete || op.failed() ||
      FTAR_MUTANT(kLaneNotScanned))
    return;
  if (!SeesAll(op) || (lane.shared && !FTAR_MUTANT(kLaneSharedScanned))) return;
  for (uint32_t c = 0; c < op.chunks.size(); ++c) {
    ChunkState& chunk = op.chunks[c];
    if (chunk.is_final) continue;
    const BufferRef output = OutputOf(op, chunk.geometry);
    SaveUndo(op, chunk, output);
    if (std::optional<Work> work = LaneWork(op, c, output))
      Push(Todo::Kind::kWork).what = *std::move(work);
    ReleasePieces(chunk);
    chunk.is_final = true;
    if (chunk.role.lands) ++op.finals;
  }
  op.complete = true;
  op.complete_ns = now;
  if (!FTAR_MUTANT(kLaneScanDelivers)) lane.state = OpLane::State::kScanned;
}

// What the lane does not bring the frames may, and both bring the same bits.
void GroupMachine::GoByFrames(TimeNs now, Op& op) {
  if (!op.lane.published || std::exchange(op.lane.by_frames, true)) return;
  ShadowInput(op);
  SendOwnInputs(op);
  for (uint32_t c = 0; c < op.chunks.size() && GoesShared(op); ++c) {
    if (!op.chunks[c].is_final) continue;
    for (int to : op.chunks[c].role.final_to) SendFinal(op, c, op.members[to]);
  }
  StartLocalWork(now, op);
}

bool GroupMachine::IsByLane(Op& op) {
  return op.lane.working > 0 || (GoesShared(op) && SeesAll(op));
}

bool GroupMachine::LacksLine(const Op& op, size_t position) const {
  LaneLine line;
  return position >= op.lane.seen &&
         !config_.lane->Look(op.lane.segments[position], config_.key, op.seq, &line);
}

void GroupMachine::LosePatience(TimeNs now) {
  if (frozen_) return;
  for (Op& op : ops_) {
    if (now < op.lane.patience_end) continue;
    op.lane.patience_end = kNever;
    const bool goes_on = SeesAll(op) && GoesShared(op);
    if (!op.complete && !goes_on && !op.failed()) GoByFrames(now, op);
  }
}

std::optional<TimeNs> GroupMachine::NextLaneDeadline() const {
  std::optional<TimeNs> next;
  for (const Op& op : ops_) {
    if (op.lane.patience_end != kNever)
      next = std::min(next.value_or(kNever), op.lane.patience_end);
  }
  return next;
}

}  // namespace ftar::collective
