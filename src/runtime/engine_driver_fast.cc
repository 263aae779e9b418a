// Operations on the fast path (engine.h): no event, nothing to do but what is here.
#include <algorithm>
#include <cstring>
#include <utility>

#include "reduce/reduce.h"
#include "runtime/clock.h"
#include "runtime/engine_driver.h"

namespace ftar::runtime {
namespace {

// Of a long input.
constexpr uint64_t kPieceBytes = 32 * 1024;
// Of a line's tag that is not written meanwhile: half a microsecond, some.
constexpr int kTagLooks = 200;

}  // namespace

bool EngineDriver::StartFast(TimeNs now, Op* op, bool like_last) {
  // What the engine has to say comes first, and who is to be silent publishes nothing.
  if (lane_ == nullptr || stepped_ || broken_ || failed_ || dropping_ || !deferred_.empty() ||
      !HoldsFastResult(*op))
    return false;
  bool taken = false;
  Guard([&] {
    taken = engine_->StartFast(op->group, {now, &op->request.spec, like_last}, &fast_line_);
  });
  if (!taken) return false;
  fast_made_ = 0;
  fast_fenced_ = false;
  op->seq = fast_line_.seq;
  return true;
}

// Where the result waits until it is known that nobody freezes.
bool EngineDriver::HoldsFastResult(const Op& op) {
  if (!op.request.spec.in_place || op.recv_bytes <= fast_result_.capacity) return true;
  if (op.recv_bytes > wire::kLaneLongMax) return false;
  pool_.Give(std::exchange(fast_result_, {}), op.start_ns);
  fast_result_ = pool_.Take(std::max(op.recv_bytes, wire::kLaneInputMax));
  return fast_result_.data != nullptr;
}

std::byte* EngineDriver::FastResult(const Op& op) {
  return op.request.spec.in_place ? fast_result_.data : static_cast<std::byte*>(op.request.recv);
}

void EngineDriver::PublishFast(const Op& op) {
  hook_group_ = op.group;
  if (op.send_bytes > wire::kLaneInputMax) return PublishLong(op);
  const auto* const input = static_cast<const std::byte*>(op.request.send);
  lane_->memory().Publish(op.group, fast_line_, {input, op.send_bytes});
  NoteLine(fast_line_, op.send_bytes);
}

bool EngineDriver::AwaitFast(const Op& op) const {
  return lane_->memory().Await(engine_->fast_lanes(), op.group, op.seq, kTagLooks);
}

// Who sleeps is woken. After a full fence: the look at the flags was one.
void EngineDriver::AnnounceFast() {
  if (!fast_fenced_) lane_->memory().FullFence();
  Nudge();
}

// In pieces that stay in this core's cache, and between two of them what the others have brought
// so far is worked on, so that nobody waits for the whole.
void EngineDriver::PublishLong(const Op& op) {
  transport::LaneMemory& memory = lane_->memory();
  const auto* const input = static_cast<const std::byte*>(op.request.send);
  const uint64_t at = lane_->OffsetOf(op.seq, op.send_bytes);
  const bool streamed = hand_over_.Streams(op.seq);
  memory.Begin(op.group, fast_line_, streamed);
  TimeNs spent = 0;
  for (uint64_t done = 0; done < op.send_bytes; done += kPieceBytes) {
    const uint64_t bytes = std::min(kPieceBytes, op.send_bytes - done);
    const TimeNs begin = Now();
    memory.Append(op.group, op.seq, at + done, {input + done, bytes}, done + bytes);
    spent += Now() - begin;
    Strike(FaultStage::kSending, op.seq, -1);
    Guard([&] { MakeBegun(op); });
  }
  hand_over_.NoteWritten(streamed, op.send_bytes, spent);
  lane_->memory().Publish(op.group, fast_line_, {});
  NoteLine(fast_line_, op.send_bytes);
}

bool EngineDriver::LookFast(const Op& op) {
  bool found = false;
  Guard([&] { found = MakeFastResult(op); });
  return found;
}

bool EngineDriver::MakeFastResult(const Op& op) {
  const collective::FastLook found = engine_->LookFast(op.start_ns);
  if (found == collective::FastLook::kWait) {
    MakeBegun(op);
    return false;
  }
  stepped_ = found == collective::FastLook::kStopped;
  const uint64_t count = engine_->fast_work().count;
  if (stepped_ || count == 0) return true;
  Strike(FaultStage::kReducing, op.seq, -1);
  MakeFast(op, count);
  ++counters_.works;
  return true;
}

// Of what is long: as much as is there by now.
void EngineDriver::MakeBegun(const Op& op) {
  if (op.send_bytes <= wire::kLaneInputMax) return;
  const uint64_t there = engine_->BegunFast();
  if (there > fast_made_) MakeFast(op, there);
}

// From the elements on that begin at `offset`.
bool EngineDriver::GatherFast(const Op& op, uint64_t offset) {
  const collective::Work& work = engine_->fast_work();
  sources_.clear();
  for (const collective::SourceRef& source : work.sources) {
    // The own input is the user's, which is in the caches still.
    const bool own = collective::LaneSegment(source.buffer.id) == 0;
    const auto* const data =
        own ? static_cast<const std::byte*>(op.request.send) : InLane(op.group, source.buffer);
    if (data == nullptr) return false;
    sources_.push_back({data + offset, static_cast<reduce::Dtype>(work.dtype), source.weight});
  }
  return true;
}

// The result's elements up to `end`.
void EngineDriver::MakeFast(const Op& op, uint64_t end) {
  const collective::Work& work = engine_->fast_work();
  const uint64_t width = op.request.spec.element_bytes;
  const uint64_t begin = std::exchange(fast_made_, end);
  if (!GatherFast(op, begin * width))
    return Fail(op.start_ns, Code::kInternal, OutsideText(op.group, work));
  counters_.bytes_moved += (sources_.size() + 1) * (end - begin) * width;
  const bool is_long = op.send_bytes > wire::kLaneInputMax;
  const TimeNs before = is_long ? Now() : 0;
  reduce::ReduceToFinal(static_cast<reduce::Dtype>(work.dtype),
                        static_cast<reduce::Redop>(work.redop), sources_, work.divisor, work.scale,
                        FastResult(op) + begin * width, end - begin);
  if (is_long) NoteRead(op, (end - begin) * width, Now() - before);
}

// Of two members: of more one way may have been taken by some.
void EngineDriver::NoteRead(const Op& op, uint64_t bytes, TimeNs spent) {
  const auto& sources = engine_->fast_work().sources;
  if (sources.size() != 2) return;
  const int first = collective::LaneSegment(sources[0].buffer.id);
  const int other = first != 0 ? first : collective::LaneSegment(sources[1].buffer.id);
  hand_over_.NoteRead(lane_->memory().Streamed(other, op.group, op.seq), bytes, spent);
}

void EngineDriver::EndFast(TimeNs now, const Op& op) {
  if (!engine_->in_fast()) return;
  Strike(FaultStage::kStability, op.seq, -1);
  Guard([&] {
    const collective::Outcome* const ended = engine_->EndFast(op.start_ns, now);
    fast_fenced_ = true;
    stepped_ = ended == nullptr;
    if (stepped_) return;
    host_->NoteFast(*ended);  // before anything is written: there may be no memory
    if (op.request.spec.in_place && op.recv_bytes > 0) {
      std::memcpy(op.request.recv, FastResult(op), op.recv_bytes);
      counters_.bytes_moved += 2 * op.recv_bytes;
    }
    ++counters_.fast;
    host_->OnDeliveredFast();
    Strike(FaultStage::kBetween, op.seq, -1);
  });
}

}  // namespace ftar::runtime
