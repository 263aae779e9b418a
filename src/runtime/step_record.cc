#include "runtime/step_record.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace ftar::runtime {
namespace {

constexpr double kNothingSummed = std::numeric_limits<double>::infinity();

// Weights are what inputs count for in a sum; who only listens to a broadcast has no input.
void AddTo(StepResult* sum, const Op& op) {
  const plan::Kind kind = op.request.spec.kind;
  const bool sums = kind == plan::Kind::kAllReduce || kind == plan::Kind::kReduceScatter;
  sum->participants = std::min(sum->participants, op.outcome.participants);
  if (sums) sum->weight_sum = std::min(sum->weight_sum, op.outcome.weight_sum);
  sum->epoch = std::max(sum->epoch, op.outcome.epoch);
}

}  // namespace

void StepRecord::Begin(const engine::StepBegun& step, double weight) {
  ++number_;
  ops_.clear();
  weight_ = std::isnan(weight) ? 1 : weight;
  begin_ = {step.step, step.epoch,  step.participants, step.joined,
            step.left, step.source, step.rank,         step.weight_sum};
  sum_ = begin_;
  sum_.weight_sum = kNothingSummed;
}

void StepRecord::SumUpFirst() {
  while (!ops_.empty()) {
    const Op& op = *ops_.front();
    if (!op.done.load(std::memory_order_relaxed) || !op.status.ok()) return;
    AddTo(&sum_, op);
    ops_.pop_front();
  }
}

StepResult StepRecord::SumUpEnded() {
  std::erase_if(ops_, [this](const OpPtr& op) {
    if (!op->done.load(std::memory_order_relaxed)) return false;  // of another thread, meanwhile
    if (op->status.ok()) AddTo(&sum_, *op);
    if (!op->status.ok() && sum_.failed == nullptr) sum_.failed = op;
    return true;
  });
  StepResult out = sum_;
  // Of others' weights nothing is known but by operations.
  if (out.weight_sum == kNothingSummed) out.weight_sum = out.participants;
  return out;
}

}  // namespace ftar::runtime
