// Flow: frames in, works out, chunks final.
#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstring>
#include <utility>

#include "base/mutant.h"
#include "collective/group_machine.h"
#include "collective/op_works.h"

namespace ftar::collective {
namespace {

bool FrameFits(const Op& op, const ChunkState& chunk, const wire::FrameHeader& header) {
  if (header.offset != chunk.geometry.first) return false;
  const bool empty = header.flags & (wire::kFrameAbsent | wire::kFrameWeightless);
  const uint64_t width =
      header.kind == wire::FrameKind::kPartial ? op.spec.accumulator_bytes : op.spec.element_bytes;
  return header.payload_bytes == (empty ? 0 : chunk.geometry.count * width);
}

}  // namespace

Todo& GroupMachine::Push(Todo::Kind kind) {
  return todo_.emplace_back(config_.key, kind).todo;
}

void GroupMachine::HandOver(std::vector<GroupTodo>* out) {
  if (out->empty()) {
    out->swap(todo_);
  } else {
    out->insert(out->end(), std::make_move_iterator(todo_.begin()),
                std::make_move_iterator(todo_.end()));
  }
  todo_.clear();
}

void GroupMachine::ReleaseInbound(uint64_t inbound) {
  if (inbound != 0) Push(Todo::Kind::kReleaseInbound).id = inbound;
}

void GroupMachine::Drop(const InboundFrame& frame) { ReleaseInbound(frame.inbound); }

void GroupMachine::Hold(const InboundFrame& frame, Piece* piece) {
  piece->present = true;
  piece->inbound = frame.inbound;
  piece->lent = frame.lent;
  piece->bytes = frame.header.payload_bytes;
}

void GroupMachine::ReplayEarly(TimeNs now, Seq seq) {
  const auto early = early_.find(seq);
  if (early == early_.end()) return;
  const std::vector<InboundFrame> frames = std::move(early->second);
  early_.erase(early);
  for (const InboundFrame& frame : frames) {
    if (Op* op = Find(seq)) {
      AcceptData(now, *op, frame);
    } else {
      Drop(frame);
    }
  }
}

void GroupMachine::OnFrame(TimeNs now, InboundFrame frame) {
  const wire::FrameHeader& header = frame.header;
  if (frame.arrived_ns == kNever) frame.arrived_ns = now;
  if (header.era > era_ || !current_) {  // F2: data of a later era is held
    future_.push_back(std::move(frame));
    return;
  }
  // F2: of an earlier one dropped. Without fault tolerance a change ends nothing.
  if (header.era < era_ && config_.fault_tolerant && !FTAR_MUTANT(kOldEraRead)) return Drop(frame);
  // V2: an ack that arrives after the freeze may still be used, since it says that its sender was
  // complete before.
  Seq& ack = peers_.Of(frame.from).ack;
  if (header.complete_end > ack) {
    ack = header.complete_end;
    ++progress_;
    DeliverReady(now);
  }
  if (header.kind == wire::FrameKind::kAck || frozen_) return Drop(frame);
  if (header.seq < delivered_end_ && first_known_) return Drop(frame);
  if (Op* op = Find(header.seq)) return AcceptData(now, *op, frame);
  early_[header.seq].push_back(std::move(frame));
}

// Weights behind the header: one for a raw piece, and for one that is only copied that of its
// owner; the attempt's list otherwise. Nothing if all are 1.
bool GroupMachine::TakeWeights(Op& op, const InboundFrame& frame) {
  const size_t count = frame.ext.size() / sizeof(double);
  if (frame.ext.size() % sizeof(double) != 0) return false;
  std::vector<double> weights(count);
  if (count > 0) std::memcpy(weights.data(), frame.ext.data(), frame.ext.size());
  if (std::any_of(weights.begin(), weights.end(), [](double w) { return w < 0 || std::isinf(w); }))
    return false;
  if (frame.header.kind == wire::FrameKind::kRaw) {
    const int from = op.PositionOf(frame.from);
    if (count > 1) return false;
    op.weights[from] = count == 1 ? weights[0] : 1;
    return !std::isnan(op.weights[from]);
  }
  if (plan::Copies(op.spec.kind)) {
    const int owner = op.chunks[frame.header.chunk].owner;
    if (count > 1) return false;
    if (owner < 0) return true;  // zeros, in a salvage
    op.weights[owner] = count == 1 ? weights[0] : 1;
    return !std::isnan(op.weights[owner]);
  }
  if (count == 0) {
    std::fill(op.weights.begin(), op.weights.end(), 1.0);
    return true;
  }
  if (count != op.weights.size()) return false;
  for (size_t i = 0; i < count; ++i) {
    if (!std::isnan(weights[i])) op.weights[i] = weights[i];
  }
  return true;
}

void GroupMachine::AcceptData(TimeNs now, Op& op, const InboundFrame& frame) {
  const wire::FrameHeader& header = frame.header;
  const int position = op.PositionOf(frame.from);
  const bool salvage_serve = op.salvage && header.kind == wire::FrameKind::kFinal;
  const bool other = config_.fault_tolerant && header.attempt != op.view->epoch;
  if (op.failed() || other || (position < 0 && !salvage_serve)) return Drop(frame);
  if (header.signature != op.digest) {  // V5, also if this member has all that it needs
    if (!FTAR_MUTANT(kMismatchIgnored)) mismatch_ = op.seq;
    return Drop(frame);
  }
  // While all is made of what lies in the lanes nothing else may write: that would end behind it.
  const bool by_lane = IsByLane(op) && !FTAR_MUTANT(kFramesBesideLane);
  if (op.complete || by_lane) return Drop(frame);
  GoByFrames(now, op);  // its sender does not use the lane, or has lost patience
  if (header.chunk >= op.chunks.size() || !FrameFits(op, op.chunks[header.chunk], header) ||
      !TakeWeights(op, frame)) {
    return Drop(frame);
  }
  ++progress_;
  ChunkState& chunk = op.chunks[header.chunk];
  const bool gathers = op.spec.kind == plan::Kind::kAllGather && op.plan != plan::PlanKind::kRing;
  const bool own = gathers ? header.kind == wire::FrameKind::kFinal
                           : header.kind == wire::FrameKind::kRaw;
  if (own && position >= 0)
    op.arrivals.Note(static_cast<size_t>(position), frame.arrived_ns);
  switch (header.kind) {
    case wire::FrameKind::kRaw: return AcceptRaw(now, op, chunk, position, frame);
    case wire::FrameKind::kPartial:
      if (chunk.role.partial_from != position || chunk.partial.present) return Drop(frame);
      return AcceptPartial(now, op, chunk, frame);
    case wire::FrameKind::kFinal: return AcceptFinal(now, op, chunk, position, frame);
    case wire::FrameKind::kControl:
    case wire::FrameKind::kAck: break;
  }
  Drop(frame);
}

void GroupMachine::AcceptRaw(TimeNs now, Op& op, ChunkState& chunk, int position,
                             const InboundFrame& frame) {
  if (position < static_cast<int>(op.unheard.size())) {  // of a broadcast: shows the call only
    op.unheard[position] = false;
    Drop(frame);
    return CheckComplete(now, op);
  }
  const auto& from = chunk.role.raw_from;
  if (!chunk.role.reduces || op.salvage ||
      !std::binary_search(from.begin(), from.end(), position) || chunk.raws[position].present ||
      chunk.working || chunk.is_final) {
    return Drop(frame);
  }
  Hold(frame, &chunk.raws[position]);
  chunk.raws[position].empty = frame.header.flags & wire::kFrameWeightless;
  --chunk.raws_missing;
  TryReduce(now, op, frame.header.chunk);
}

void GroupMachine::AcceptPartial(TimeNs now, Op& op, ChunkState& chunk, const InboundFrame& frame) {
  if (op.salvage || chunk.working || chunk.is_final || chunk.partial_made) return Drop(frame);
  Hold(frame, &chunk.partial);
  chunk.partial.empty = frame.header.flags & wire::kFrameWeightless;
  TryReduce(now, op, frame.header.chunk);
}

void GroupMachine::AcceptFinal(TimeNs now, Op& op, ChunkState& chunk, int position,
                               const InboundFrame& frame) {
  const bool expected = op.salvage || chunk.role.final_from == position;
  if (!expected || chunk.is_final || chunk.working || !chunk.role.lands) return Drop(frame);
  const uint32_t index = frame.header.chunk;
  WorkRef ref{op.seq, index, WorkRef::Purpose::kLand, frame.from, frame.inbound};
  chunk.working = true;
  const BufferRef output = OutputOf(op, chunk.geometry);
  if (frame.header.flags &
      wire::kFrameAbsent) {  // V5: the sum of weights is 0; the output stays untouched
    op.absent = chunk.empty = true;
    return FinishWork(now, op, ref);
  }
  if (op.spec.kind == plan::Kind::kReduceScatter) {  // weights alone (TellSegmentless)
    chunk.empty = true;
    return FinishWork(now, op, ref);
  }
  Work work;
  work.dst = output;
  if (frame.header.flags & wire::kFrameWeightless) {
    work.kind = Work::Kind::kZero;
    chunk.empty = true;
  } else {
    work.kind = Work::Kind::kCopy;
    work.sources = {
        {{BufferRef::Kind::kInbound, frame.inbound, 0, frame.header.payload_bytes}, false, 1}};
  }
  SaveUndo(op, chunk, output);
  StartWork(op, std::move(work), ref);
}

// A result chunk that is awaited lands as it comes, where the output need not be saved first: its
// owner has everybody's input, so all have called the same, and whoever takes the attempt back
// writes the chunk anew (Undo says so by kCancelSends).
std::optional<BufferRef> GroupMachine::LandingOf(MemberId from,
                                                 const wire::FrameHeader& header) const {
  if (header.kind != wire::FrameKind::kFinal || frozen_ || header.era != era_) return {};
  const Op* const op = Find(header.seq);
  if (!op || !op->view || op->complete || op->salvage || op->failed()) return {};
  if (header.attempt != op->view->epoch || header.signature != op->digest) return {};
  if (header.chunk >= op->chunks.size() || op->stand_in || NeedsUndo(*op)) return {};
  const ChunkState& chunk = op->chunks[header.chunk];
  const int owner = chunk.role.final_from;
  const bool awaited = chunk.role.lands && !chunk.is_final && !chunk.working && owner >= 0 &&
                       op->members[owner] == from;
  if (!awaited || !FrameFits(*op, chunk, header) || header.payload_bytes == 0) return {};
  return OutputOf(*op, chunk.geometry);
}

// F3: a failed operation gives its input back, and leaves an output of its own untouched. Sums land
// only when all are known to have called the same; pieces of a broadcast or an all-gather may land
// before somebody disagrees, or its root is gone. And whoever has weight 0 may hold sums of others
// who are gone before they are stable, with nobody left who counts.
bool GroupMachine::NeedsUndo(const Op& op) const {
  if (op.stand_in || op.shadow != 0 || !config_.fault_tolerant || FTAR_MUTANT(kNoUndoLog))
    return false;
  return op.spec.in_place || op.spec.weight == 0 || op.spec.kind == plan::Kind::kBroadcast ||
         op.spec.kind == plan::Kind::kAllGather;
}

// Before the first result byte lands there, what it lands on is in the undo log.
void GroupMachine::SaveUndo(Op& op, ChunkState& chunk, const BufferRef& output) {
  if (!NeedsUndo(op) || chunk.overwritten || output.bytes == 0) return;
  const uint64_t segments =
      op.spec.kind == plan::Kind::kAllGather ? op.spec.layout_members.size() : 1;
  if (op.undo == 0) op.undo = Allocate(op, op.spec.count * op.spec.element_bytes * segments);
  PushCopy(op, output, {BufferRef::Kind::kStaging, op.undo, output.offset, output.bytes});
  chunk.overwritten = true;
}

void GroupMachine::StartWork(Op& op, Work work, WorkRef ref) {
  work.id = next_work_++;
  work.seq = op.seq;
  works_.emplace_back(work.id, ref);
  Push(Todo::Kind::kWork).what = std::move(work);
}

// Ordered before everything that follows; nobody waits for it.
void GroupMachine::PushCopy(const Op& op, const BufferRef& from, const BufferRef& to,
                            Work::Kind kind) {
  Work work;
  work.kind = kind;
  work.seq = op.seq;
  work.sources = {{from, false, 1}};
  work.dst = to;
  Push(Todo::Kind::kWork).what = std::move(work);
}

void GroupMachine::GatherOwn(TimeNs now, Op& op, uint32_t index) {
  ChunkState& chunk = op.chunks[index];
  chunk.working = true;
  Work work;
  work.dst = OutputOf(op, chunk.geometry);
  const WorkRef ref{op.seq, index, WorkRef::Purpose::kMakeFinal, {}, 0};
  if (op.spec.weight == 0 && op.spec.kind == plan::Kind::kBroadcast) {
    op.absent = chunk.empty = true;
    return FinishWork(now, op, ref);
  }
  if (op.spec.weight == 0) {
    work.kind = Work::Kind::kZero;
    chunk.empty = true;
  } else {
    work.kind = Work::Kind::kCopy;
    work.sources = {{InputOf(op, chunk.geometry), false, 1}};
    if (op.spec.kind == plan::Kind::kBroadcast && op.spec.in_place) return FinishWork(now, op, ref);
  }
  SaveUndo(op, chunk, work.dst);
  StartWork(op, std::move(work), ref);
}

void GroupMachine::TryReduce(TimeNs now, Op& op, uint32_t index) {
  ChunkState& chunk = op.chunks[index];
  if (frozen_ || op.salvage || op.lane.working > 0 || chunk.working || chunk.is_final ||
      chunk.partial_made || !chunk.role.reduces)
    return;
  if (chunk.raws_missing > 0 || (chunk.role.partial_from >= 0 && !chunk.partial.present)) return;
  ReduceChunk(now, op, index);
}

void GroupMachine::ReduceChunk(TimeNs now, Op& op, uint32_t index) {
  ChunkState& chunk = op.chunks[index];
  const bool weighted = op.spec.redop == kWavg;
  Work work;
  work.dtype = op.spec.dtype;
  work.redop = op.spec.redop;
  work.count = chunk.geometry.count;
  work.sources.reserve(op.members.size() + 1);
  if (chunk.partial.present && !chunk.partial.empty) {
    const uint64_t bytes = chunk.geometry.count * op.spec.accumulator_bytes;
    work.sources.push_back({{BufferRef::Kind::kInbound, chunk.partial.inbound, 0, bytes}, true, 1});
  }
  // Contract 10: additions run in member order; a weight of 0 means that the input is not read
  // (V7).
  const int members = static_cast<int>(op.members.size());
  for (int turn = 0; turn < members; ++turn) {
    const int i = FTAR_MUTANT(kOwnInputFirst) ? (op.me + turn) % members : turn;
    const bool mine = i == op.me;
    if (!mine &&
        (i >= static_cast<int>(chunk.raws.size()) || !chunk.raws[i].present || chunk.raws[i].empty))
      continue;
    if (op.weights[i] == 0 && !FTAR_MUTANT(kWeightlessInputRead)) continue;
    const BufferRef buffer =
        mine ? InputOf(op, chunk.geometry)
             : BufferRef{BufferRef::Kind::kInbound, chunk.raws[i].inbound, 0, chunk.raws[i].bytes};
    work.sources.push_back({buffer, false, weighted ? op.weights[i] : 1});
  }
  WorkRef ref{op.seq, index, WorkRef::Purpose::kMakeFinal, {}, 0};
  chunk.working = true;
  if (!chunk.role.makes_final) {
    ref.purpose = WorkRef::Purpose::kMakePartial;
    chunk.partial_empty = work.sources.empty();
    if (chunk.partial_empty) return FinishWork(now, op, ref);
    work.kind = Work::Kind::kReducePartial;
    const uint64_t bytes = chunk.geometry.count * op.spec.accumulator_bytes;
    chunk.staging = Allocate(op, std::max<uint64_t>(bytes, 1));
    work.dst = {BufferRef::Kind::kStaging, chunk.staging, 0, bytes};
    StartWork(op, std::move(work), ref);
    return;
  }
  if (!Divide(op, &work)) {  // V5: FTAR_ERR_ABSENT for all, output untouched
    op.absent = chunk.empty = true;
    return FinishWork(now, op, ref);
  }
  work.kind = Work::Kind::kReduceFinal;
  work.scale = op.spec.scale;
  work.dst = OutputOf(op, chunk.geometry);
  SaveUndo(op, chunk, work.dst);
  StartWork(op, std::move(work), ref);
}

void GroupMachine::ReleasePieces(ChunkState& chunk) {
  for (size_t i = 0; i < chunk.raws.size(); ++i) {
    const Piece& piece = chunk.raws[i];
    if (piece.present) ReleaseInbound(piece.inbound);
    chunk.raws[i] = {};
  }
  if (chunk.partial.present) ReleaseInbound(chunk.partial.inbound);
  chunk.partial = {};
}

void GroupMachine::OnWorkDone(TimeNs now, uint64_t work_id) {
  const auto found = std::find_if(works_.begin(), works_.end(),
                                  [work_id](const auto& work) { return work.first == work_id; });
  if (found == works_.end()) {  // of an attempt that a view change ended (V2)
    if (const auto left = abandoned_.extract(work_id); !left.empty()) {
      Push(Todo::Kind::kReleaseInbound).id = left.mapped();
    }
    return;
  }
  const WorkRef ref = found->second;
  works_.erase(found);
  if (Op* op = Find(ref.seq)) FinishWork(now, *op, ref);
  DeliverReady(now);
}

// What it read was being taken back, so its result is nothing. Its chunk goes on counting as worked
// on, and nothing is tried with it, until a change says who is in.
void GroupMachine::OnWorkSpoiled(TimeNs now, uint64_t work_id) {
  const auto found = std::find_if(works_.begin(), works_.end(),
                                  [work_id](const auto& work) { return work.first == work_id; });
  if (found == works_.end() || FTAR_MUTANT(kSpoiledWorkCounts)) return OnWorkDone(now, work_id);
  ReleaseInbound(found->second.inbound);
  works_.erase(found);
}

void GroupMachine::FinishWork(TimeNs now, Op& op, const WorkRef& ref) {
  ChunkState& chunk = op.chunks[ref.chunk];
  assert(chunk.working && !frozen_);
  chunk.working = false;
  ++progress_;
  if (ref.inbound != 0) Push(Todo::Kind::kReleaseInbound).id = ref.inbound;
  if (ref.purpose == WorkRef::Purpose::kFromLane) {
    if (--op.lane.working == 0) LaneWorkDone(now, op);
    return;
  }
  if (ref.purpose == WorkRef::Purpose::kShared) return SharedWorkDone(now, op, ref.chunk);
  if (ref.purpose == WorkRef::Purpose::kMakePartial) {
    chunk.partial_made = true;
    ReleasePieces(chunk);
    SendPartial(op, ref.chunk, chunk.partial_empty);
    return;
  }
  MarkFinal(op, ref.chunk);
  CheckComplete(now, op);
}

void GroupMachine::MarkFinal(Op& op, uint32_t index) {
  ChunkState& chunk = op.chunks[index];
  assert(!chunk.is_final && !frozen_);
  chunk.is_final = true;
  if (chunk.role.lands) ++op.finals;
  ReleasePieces(chunk);
  if (GoesShared(op) && chunk.role.makes_final) TellWords(op, /*done=*/false);
  if (op.salvage) return;      // holders serve on request (Want)
  // All others find in the lane what this member has found, or made.
  if (op.lane.state == OpLane::State::kStable || (GoesShared(op) && !op.lane.by_frames)) return;
  for (int to : chunk.role.final_to) SendFinal(op, index, op.members[to]);
}

}  // namespace ftar::collective
