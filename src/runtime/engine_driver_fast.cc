// Operations on the fast path (engine.h): no event, nothing to do but what is here.
#include <cstring>
#include <utility>

#include "reduce/reduce.h"
#include "runtime/engine_driver.h"

namespace ftar::runtime {

bool EngineDriver::StartFast(TimeNs now, Op* op) {
  // What the engine has to say comes first, and who is to be silent publishes nothing.
  if (lane_ == nullptr || stepped_ || broken_ || failed_ || dropping_ || !deferred_.empty())
    return false;
  std::optional<wire::LaneLine> line;
  Guard([&] { line = engine_->StartFast(now, op->group, op->request.spec); });
  if (!line) return false;
  fast_line_ = *line;
  op->seq = line->seq;
  return true;
}

void EngineDriver::PublishFast(const Op& op) {
  hook_group_ = op.group;
  const auto* const input = static_cast<const std::byte*>(op.request.send);
  PublishLine(op.group, fast_line_, {input, op.send_bytes});
}

bool EngineDriver::LookFast(const Op& op) {
  bool found = false;
  Guard([&] { found = MakeFastResult(op); });
  return found;
}

bool EngineDriver::MakeFastResult(const Op& op) {
  collective::Work& work = fast_work_;
  work.sources.clear();
  const collective::FastLook found = engine_->LookFast(op.start_ns, &work);
  if (found == collective::FastLook::kWait) return false;
  stepped_ = found == collective::FastLook::kStopped;
  if (stepped_ || work.count == 0) return true;
  Strike(FaultStage::kReducing, op.seq, -1);
  if (!GatherSources(op.group, work)) {
    Fail(op.start_ns, Code::kInternal, OutsideText(op.group, work));
    return true;
  }
  reduce::ReduceToFinal(static_cast<reduce::Dtype>(work.dtype),
                        static_cast<reduce::Redop>(work.redop), sources_, work.divisor, work.scale,
                        FastResult(op), work.count);
  ++counters_.works;
  return true;
}

// Where the result waits until it is known that nobody freezes.
std::byte* EngineDriver::FastResult(const Op& op) {
  return op.request.spec.in_place ? fast_result_.data() : static_cast<std::byte*>(op.request.recv);
}

void EngineDriver::EndFast(TimeNs now, const Op& op) {
  if (!engine_->in_fast()) return;
  Strike(FaultStage::kStability, op.seq, -1);
  Guard([&] {
    std::optional<collective::Outcome> outcome = engine_->EndFast(now);
    stepped_ = !outcome;
    if (!outcome) return;
    if (op.request.spec.in_place) std::memcpy(op.request.recv, FastResult(op), op.recv_bytes);
    ++counters_.fast;
    DeliverNow(now, op.group, std::move(*outcome));
  });
}

}  // namespace ftar::runtime
