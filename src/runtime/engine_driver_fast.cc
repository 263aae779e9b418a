// Operations on the fast path (engine.h): no event, nothing to do but what is here.
#include <algorithm>
#include <utility>

#include "base/copy.h"
#include "plan/grid.h"
#include "reduce/reduce.h"
#include "runtime/clock.h"
#include "runtime/engine_driver.h"

namespace ftar::runtime {
namespace {

// Of a line's tag that is not written meanwhile: half a microsecond, some.
constexpr int kTagLooks = 200;

}  // namespace

[[gnu::hot]] bool EngineDriver::MayStartFast(const Op& op) {
  // What the engine has to say comes first, and who is to be silent publishes nothing.
  return lane_ != nullptr && !stepped_ && !broken_ && !failed_ && !dropping_ &&
         deferred_.empty() && HoldsFastResult(op);
}

// As StartFast leaves things. It is the last call itself that may have failed or gone silent.
[[gnu::hot]] bool EngineDriver::RecurFast(TimeNs now, Op* op) {
  if (failed_ || dropping_) return false;
  const collective::FastCall call{.now = now, .spec = &op->request.spec, .like_last = true};
  if (!engine_->RecurFast(op->group, call, &fast_line_)) return false;
  fast_has_more_ = false;
  foreseen_ = {};
  op->of_two = false;
  op->seq = fast_line_.seq;
  return true;
}

[[gnu::hot]] bool EngineDriver::StartFast(TimeNs now, Op* op, Likeness likeness) {
  if (likeness == Likeness::kSame && RecurFast(now, op)) return true;
  if (!MayStartFast(*op)) return false;
  bool taken = false;
  Guard([&] {
    const bool shows = op->send_bytes >= plan::kSharedBytesMin && Shows(now, op);
    const bool stays = shows && IsToStay(*op);
    const bool like_last = likeness != Likeness::kNone;
    const collective::FastCall call{now, &op->request.spec, like_last, shows, stays};
    taken = engine_->StartFast(op->group, call, &fast_line_);
  });
  if (!taken) return false;
  fast_has_more_ = false;
  foreseen_ = {};
  if (shares_fast()) op->lends = shows_sums_;
  op->of_two = shares_fast() && peers_.size() == 1;
  op->seq = fast_line_.seq;
  return true;
}

// Where the result waits until it is known that nobody freezes. What is longer is shared.
[[gnu::hot]] bool EngineDriver::HoldsFastResult(const Op& op) {
  if (!op.request.spec.in_place || op.recv_bytes > wire::kLaneInputMax) return true;
  if (fast_result_.data == nullptr) fast_result_ = pool_.Take(wire::kLaneInputMax);
  return fast_result_.data != nullptr;
}

std::byte* EngineDriver::FastResult(const Op& op) {
  return op.request.spec.in_place ? fast_result_.data : static_cast<std::byte*>(op.request.recv);
}

[[gnu::hot]] void EngineDriver::PublishFast(const Op& op) {
  hook_group_ = op.group;
  if (shares_fast()) return PublishShares(op);
  const auto* const input = static_cast<const std::byte*>(op.request.send);
  fast_begin_ns_ = lane_way_.Samples(op.seq, op.send_bytes) ? Now() : 0;
  PublishInput(op.group, fast_line_, {input, op.send_bytes});
}

[[gnu::hot]] void EngineDriver::ForeseeFast(TimeNs now, const Op& op) {
  Guard([&] {
    foreseen_.gathered = engine_->ForeseeFast(now) && GatherFast(op);
    if (!foreseen_.gathered || sources_.empty()) return;
    const collective::Work& work = engine_->fast_work();
    foreseen_.sum =
        reduce::FewSumOf(static_cast<reduce::Dtype>(work.dtype),
                         static_cast<reduce::Redop>(work.redop), work.scale, work.count);
  });
}

[[gnu::hot]] void EngineDriver::PublishInput(GroupKey group, const wire::LaneLine& line,
                                             std::span<const std::byte> input) {
  const bool streams = lane_way_.Streams(line.seq, input.size());
  lane_way_.Begin(input.size());
  lane_->memory().Publish(group, line, input, streams ? CopyMode::kHandOver : CopyMode::kCached);
  NoteLine(line, input.size());
}

[[gnu::hot]] bool EngineDriver::AwaitFast(const Op& op) const {
  lane_->memory().FullFence();
  return lane_->memory().Await(engine_->fast_lanes(), op.group, op.seq, kTagLooks);
}

[[gnu::hot]] EngineDriver::FastState EngineDriver::LookFast(const Op& op) {
  FastState found = FastState::kWaits;
  Guard([&] { found = MakeFastResult(op); });
  return found;
}

[[gnu::hot]] EngineDriver::FastState EngineDriver::MakeFastResult(const Op& op) {
  collective::FastLook found = engine_->LookFast(op.start_ns);
  if (found == collective::FastLook::kShare || found == collective::FastLook::kTell)
    return DoShares(op, found);
  const bool as_foreseen = found == collective::FastLook::kForeseen;
  if (!as_foreseen) foreseen_ = {};
  if (found == collective::FastLook::kWait) return FastState::kWaits;
  stepped_ = found == collective::FastLook::kStopped;
  if (!as_foreseen && found != collective::FastLook::kRead) return FastState::kOver;
  const uint64_t count = engine_->fast_work().count;
  if (count == 0) return FastState::kOver;
  Strike(FaultStage::kReducing, op.seq, -1);
  if (foreseen_.gathered || GatherFast(op)) {
    MakeFast(op, count);
  } else {
    Fail(op.start_ns, Code::kInternal, OutsideText(op.group, engine_->fast_work()));
  }
  ++counters_.works;
  return FastState::kOver;
}

[[gnu::hot]] bool EngineDriver::GatherFast(const Op& op) {
  const collective::Work& work = engine_->fast_work();
  sources_.clear();
  for (const collective::SourceRef& source : work.sources) {
    // The own input is the user's, which is in the caches still.
    const bool own = collective::LaneSegment(source.buffer.id) == 0;
    const auto* const data =
        own ? static_cast<const std::byte*>(op.request.send) : InLane(op.group, source.buffer);
    if (data == nullptr) return false;
    sources_.push_back({data, static_cast<reduce::Dtype>(work.dtype), source.weight});
  }
  return true;
}

[[gnu::hot]] void EngineDriver::MakeFast(const Op& op, uint64_t count) {
  const collective::Work& work = engine_->fast_work();
  counters_.bytes_moved += (sources_.size() + 1) * count * op.request.spec.element_bytes;
  if (foreseen_.sum != nullptr) {
    foreseen_.sum(sources_, FastResult(op), count);
  } else {
    reduce::ReduceToFinal(static_cast<reduce::Dtype>(work.dtype),
                          static_cast<reduce::Redop>(work.redop), sources_, work.divisor,
                          work.scale, FastResult(op), count);
  }
  if (fast_begin_ns_ > 0) lane_way_.Note(op.seq, op.send_bytes, Now() - fast_begin_ns_);
}

[[gnu::hot]] void EngineDriver::EndFast(TimeNs now, const Op& op) {
  if (!engine_->in_fast()) return;
  Strike(FaultStage::kStability, op.seq, -1);
  Guard([&] {
    const collective::Outcome* const ended = engine_->EndFast(op.start_ns, now);
    stepped_ = ended == nullptr;
    if (stepped_) return;
    host_->NoteFast(*ended);  // before anything is written: there may be no memory
    TimeNs over = now;
    if (shares_fast()) {
      if (!kept_sums_.empty()) over = LandKept(op);
      DropSavedFast(now, op);
      NoteShared(over, op);
    } else if (op.request.spec.in_place && op.recv_bytes > 0) {
      CopyShort(op.request.recv, FastResult(op), op.recv_bytes);
      counters_.bytes_moved += 2 * op.recv_bytes;
    }
    ++counters_.fast;
    host_->OnDeliveredFast(over);
    Strike(FaultStage::kBetween, op.seq, -1);
  });
}

}  // namespace ftar::runtime
