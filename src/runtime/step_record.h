// The step that this member is in: its operations, until they have ended well, and who was in all
// that have. Under the job's lock.
#ifndef FTAR_RUNTIME_STEP_RECORD_H_
#define FTAR_RUNTIME_STEP_RECORD_H_

#include <cstdint>
#include <deque>
#include <span>

#include "engine/engine.h"
#include "runtime/job.h"
#include "runtime/op.h"

namespace ftar::runtime {

class StepRecord {
 public:
  void Begin(const engine::StepBegun& step, double weight);  // NaN: 1
  bool begun() const { return number_ > 0; }
  uint64_t number() const { return number_; }  // how many have begun; marks operations
  double weight() const { return weight_; }
  const StepResult& begin() const { return begin_; }

  // Nothing is kept before the first step. Without memory it stays as it was.
  void Add(std::span<const OpPtr> ops) {
    if (begun()) ops_.insert(ops_.end(), ops.begin(), ops.end());
  }
  // The same in two moves, of which the second needs no memory.
  [[gnu::hot]] void MakePlace() {
    if (begun()) ops_.emplace_back();
  }
  [[gnu::hot]] void TakePlace(const OpPtr& op) {
    if (begun()) ops_.back() = op;
  }
  void DropPlace() {
    if (begun()) ops_.pop_back();
  }

  const std::deque<OpPtr>& ops() const { return ops_; }
  // What ended well is not kept until the step's end: its memory is used again.
  [[gnu::hot]] void SumUp() {
    if (!ops_.empty()) SumUpFirst();
  }
  // All that have ended are summed up, or have failed, also for whoever asks again.
  StepResult SumUpEnded();

 private:
  void SumUpFirst();

  uint64_t number_ = 0;
  double weight_ = 1;
  StepResult begin_;
  StepResult sum_;         // of those that have ended well and are not in
  std::deque<OpPtr> ops_;  // these
};

}  // namespace ftar::runtime

#endif  // FTAR_RUNTIME_STEP_RECORD_H_
