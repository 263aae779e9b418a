// Shared operations (lane.h): longer all-reduces between members of one host, without a frame.
//
// It is the plan direct with words in the place of its frames. An input is where its line says;
// with the lines of all, each member sums the chunks that it owns, says how many bytes of them are
// made, and copies the others' as far as these are. What is read lies in memory of others that is
// theirs again once they are out, or everybody is done: so a chunk counts here, is final, only if
// no flag is up after it was read (rule F4). With all chunks it says that it is done, which is its
// ack (rule V1): it reads nothing any more that others may take back, and who has heard that of all
// delivers.
//
// All lines seen, everybody can go on to the end by words alone, as long as nobody freezes; and who
// freezes has final what is final. So this changes neither statuses nor verdicts, and a retry, or a
// salvage, goes by frames. Who lacks a line for too long sends frames as well (group_lane.cc).
//
// In the fast path (group_fast.cc) the same is done by the thread that called, in blocks of a chunk
// (shares.h, plan::BlockBytes): their sources and their result stay in a core's own cache, and the
// others copy them from there. In place the host may put copies off to the end, where owners keep
// their sums until then (runtime/asides.h).
#include <algorithm>
#include <cassert>
#include <utility>

#include "base/mutant.h"
#include "collective/group_machine.h"
#include "collective/op_works.h"

namespace ftar::collective {
namespace {

// Of all members together, where they outnumber cores: what takes longer is mostly waiting for
// somebody who does not run, and frames lie ready for whoever does.
constexpr uint64_t kCrowdedInputsMax = 128 << 20;
// Beyond it memory is what takes time, and to read all inputs takes more of it.
constexpr uint64_t kAllSumBytesMax = 2 << 20;

// Bytes of the own chunks, in their order, up to the first one that is not final.
uint64_t MadeBytes(const Op& op) {
  uint64_t bytes = 0;
  for (const ChunkState& chunk : op.chunks) {
    if (!chunk.role.makes_final) continue;
    if (!chunk.is_final) break;
    bytes += chunk.geometry.count * op.spec.element_bytes;
  }
  return bytes;
}

}  // namespace

// A function of the view and the call, as plans, pieces and hubs depend on it.
bool GroupMachine::IsShared(const OpSpec& spec, plan::PlanKind plan, const ViewPtr& view,
                            size_t members) {
  if (plan != plan::PlanKind::kDirect || spec.kind != plan::Kind::kAllReduce || members < 2)
    return false;
  const Surroundings& around = SurroundingsIn(view);
  const uint64_t most = around.crowded ? kCrowdedInputsMax / members : wire::kLaneSharedMax;
  return around.lane && spec.count * spec.element_bytes <= most;
}

// ---- like any other operation

// Whether the owner has made it.
bool GroupMachine::IsMade(const Op& op, uint32_t index) const {
  const int owner = op.chunks[index].role.final_from;
  if (owner < 0) return false;
  uint64_t end = 0;
  for (uint32_t c = 0; c <= index; ++c) {
    if (op.chunks[c].role.final_from == owner) end += op.chunks[c].geometry.count;
  }
  const uint64_t made = config_.lane->Made(op.lane.segments[owner], config_.key, op.seq);
  return made >= end * op.spec.element_bytes || FTAR_MUTANT(kSharedUnmade);
}

// Chunks of this member's are awaited.
bool GroupMachine::LacksShare(const Op& op, size_t position) const {
  if (AllSum(op)) return false;
  for (uint32_t c = 0; c < op.chunks.size(); ++c) {
    const bool its = op.chunks[c].role.final_from == static_cast<int>(position);
    if (its && !op.chunks[c].is_final && !op.chunks[c].working && !IsMade(op, c)) return true;
  }
  return false;
}

// Of the oldest operation, which is shared and not frozen: whether something can be done.
bool GroupMachine::ShareHasNews(Op& op) {
  if (op.lane.state == OpLane::State::kBlocked || !SeesAll(op)) return mismatch_.has_value();
  if (op.complete) {
    for (size_t i = 0; i < op.members.size(); ++i) {
      if (SaysDone(op, i)) return true;
    }
    return false;
  }
  for (uint32_t c = 0; c < op.chunks.size(); ++c) {
    const ChunkState& chunk = op.chunks[c];
    if (chunk.is_final || chunk.working) continue;
    if (chunk.role.makes_final || AllSum(op) || IsMade(op, c)) return true;
  }
  return false;
}

// And that is new.
bool GroupMachine::SaysDone(const Op& op, size_t position) const {
  return static_cast<int>(position) != op.me && !peers_.HasAcked(op.members[position], op.seq) &&
         config_.lane->Done(op.lane.segments[position], config_.key, op.seq);
}

bool GroupMachine::HearDone(const Op& op) {
  bool heard = false;
  for (size_t i = 0; i < op.members.size(); ++i) {
    if (!SaysDone(op, i)) continue;
    peers_.Of(op.members[i]).ack = op.seq + 1;
    heard = true;
  }
  return heard;
}

void GroupMachine::LookAtShares(TimeNs now, Op& op) {
  if (op.lane.state == OpLane::State::kBlocked || !SeesAll(op)) return;
  if (op.complete) {
    if (HearDone(op)) ++progress_;
    return;
  }
  for (uint32_t c = 0; c < op.chunks.size(); ++c) {
    ChunkState& chunk = op.chunks[c];
    if (chunk.is_final || chunk.working) continue;
    plan::Chunk rest = chunk.geometry;
    rest.first += chunk.begun;
    rest.count -= chunk.begun;
    Work work;
    work.dst = OutputOf(op, rest);
    work.shown = !AllSum(op);
    if (chunk.role.makes_final || AllSum(op)) {
      if (!FillLaneWork(op, rest, &work)) {  // nobody has a weight
        op.absent = chunk.empty = true;
        MarkFinal(op, c);
        continue;
      }
    } else if (IsMade(op, c)) {
      FillSumCopy(op, chunk.role.final_from, rest, &work);
    } else {
      continue;
    }
    chunk.working = true;
    SaveUndo(op, chunk, work.dst);
    StartWork(op, std::move(work), {op.seq, c, WorkRef::Purpose::kShared, {}, 0});
  }
  CheckComplete(now, op);
}

void GroupMachine::SharedWorkDone(TimeNs now, Op& op, uint32_t index) {
  if (op.lane.state == OpLane::State::kBlocked) return;
  if (FlagIsUp(op)) {  // what it has read may be anybody's: a verdict is on its way
    op.lane.state = OpLane::State::kBlocked;
    return;
  }
  MarkFinal(op, index);
  CheckComplete(now, op);
}

// What was said once stays said.
void GroupMachine::TellWords(Op& op, bool done) {
  const uint64_t made = std::max(op.lane.made, MadeBytes(op));
  done = done || op.lane.told;
  if (made == op.lane.made && done == op.lane.told) return;
  op.lane.made = made;
  op.lane.told = done;
  Push(Todo::Kind::kTell).what = LaneWords{op.seq, made, done};
}

// With the acks. J3 need not hold it back: what is shared has begun where nothing else was under
// way and no boundary was reserved, and those that are reserved later lie beyond.
void GroupMachine::TellDone() {
  for (Op& op : ops_) {
    if (!GoesShared(op) || op.lane.told || op.seq >= complete_end_) continue;
    assert(hold_.MayAck(op.seq));
    TellWords(op, /*done=*/true);
  }
}

// ---- on the fast path

// Of a call that goes through the lane.
bool GroupMachine::MayAllSum(const OpSpec& spec, size_t members) const {
  const uint64_t bytes = spec.count * spec.element_bytes;
  return spec.kind == plan::Kind::kAllReduce && members <= config_.all_sum_members_max &&
         bytes >= config_.all_sum_bytes_min && bytes <= kAllSumBytesMax;
}

// All lines are there.
FastLook GroupMachine::LookFastShared(TimeNs now) {
  Op& op = fast_.op();
  if (op.complete) {
    if (HearDone(op), AllHaveAcked(op)) return FastLook::kEnd;
    return FastLook::kWait;
  }
  if (fast_.NextShare()) return FastLook::kShare;
  if (!fast_.shares().all_here()) return FastLook::kWait;
  if (FlagIsUp(op)) {
    StopFast(now);
    return FastLook::kStopped;
  }
  op.complete = true;
  op.complete_ns = now;
  return FastLook::kTell;
}

// The operation goes on like any other: what it has by then is final, if no flag is up, and of a
// chunk that is half made the rest is made.
void GroupMachine::KeepShares(TimeNs now, Op& op) {
  const Op& fast = fast_.op();
  const Shares& shares = fast_.shares();
  op.lane.seen = fast.lane.seen;
  op.lane.whole = fast.lane.whole;
  op.lane.rooms = fast.lane.rooms;
  op.weights = fast.weights;
  if (op.spec.in_place && shares.some_here()) {
    Todo& todo = Push(Todo::Kind::kAdopt);
    todo.id = op.undo = next_staging_++;
    todo.bytes = InputBytes(op);
    todo.seq = op.seq;
    op.staging.push_back(op.undo);
  }
  const bool up = !fast.complete && FlagIsUp(op);
  if (up) op.lane.state = OpLane::State::kBlocked;
  op.lane.told = fast.complete;
  op.lane.made = shares.own() * op.spec.element_bytes;
  for (const Shares::Share& share : shares.by_owner()) {
    for (size_t i = 0; i < share.at; ++i) {
      const uint32_t index = share.chunks[i].index;
      op.chunks[index].overwritten = op.spec.in_place && !FTAR_MUTANT(kSharedUndoLost);
      if (!up) MarkFinal(op, index);
    }
    if (share.elements > 0) op.chunks[share.chunks[share.at].index].begun = share.elements;
  }
  CheckComplete(now, op);
}

}  // namespace ftar::collective
