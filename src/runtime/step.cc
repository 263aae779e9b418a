// Steps: marks that all members set alike, so that joins and leaves fall between them (rule J4).
#include <algorithm>
#include <cmath>
#include <limits>

#include "base/undo.h"
#include "runtime/job_impl.h"

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

void Job::Impl::OnStep(const engine::StepBegun& step) {
  step_answer_ = step;
  delivered_ = true;
  if (step.status != Code::kOk) return;
  // Its calls name ranks by this view, also if it is a past one.
  for (auto& [key, state] : groups_) {
    if (const ViewPtr view = driver_->engine().step_view(key))
      state.layouts.Remember(step.epoch, *view);
  }
}

// Others may be late for as long as they like (design 5): that ends no wait. Where nobody can
// decide who they are, one for a step ends as those for operations do.
Status Job::Impl::AwaitStep(const StepRequest& request) {
  const TimeNs begun = Now();
  if (!step_asked_ns_) step_asked_ns_ = begun;
  step_answer_.reset();
  const auto undecided = [&]() FTAR_REQUIRES(mutex_) {
    return Undecided("the step", *step_asked_ns_, timeout_ns_, begun);
  };
  // Calls on streams are the last step's, and have no numbers before their streams get to them.
  const Predicate arrived = [this]() FTAR_REQUIRES(mutex_) { return StreamsArrived(); };
  FTAR_RETURN_IF_ERROR(UntilDecided(arrived, kNever, undecided));
  FTAR_RETURN_IF_ERROR(CheckUsable());
  driver_->Feed(Now(), engine::BeginStep{request.step, request.strict});
  Settle(Now());
  WakeIfNeeded();
  const Predicate done = [this]()
                             FTAR_REQUIRES(mutex_) { return step_answer_.has_value() || IsOver(); };
  Undo asked([this]() FTAR_REQUIRES(mutex_) { WithdrawStep(); });  // also without memory to say why
  Status decided = UntilDecided(done, kNever, undecided);
  if (decided.ok()) asked.Keep();
  return decided;
}

// What is called before the user asks again belongs to the last step.
void Job::Impl::WithdrawStep() {
  try {
    driver_->Feed(Now(), engine::WithdrawStep{});
  } catch (...) {
    driver_->Break();
  }
}

Status Job::Impl::StepBegin(const StepRequest& request, StepResult* result) {
  if (forked()) return ForkedError();
  if (Job::InCallback()) return Status(Code::kState, "a callback must not wait");
  const JobLock lock(mutex_);
  FTAR_RETURN_IF_ERROR(CheckUsable());
  if (step_pending_) return Status(Code::kState, "step", "another thread is beginning a step");
  if (leave_asked_ns_) return Status(Code::kLeft, "this member is leaving");
  if (!driver_->engine().view()) return Status(Code::kState, "job", "the job is not ready yet");
  step_pending_ = true;
  const Undo over([this]()
                      FTAR_REQUIRES(mutex_) { step_pending_ = false; });  // the lock outlives it
  const Status waited = AwaitStep(request);
  if (forked()) return ForkedError();
  if (waited.code() == Code::kQuorum || waited.code() == Code::kCoordinator) return waited;
  step_asked_ns_.reset();
  FTAR_RETURN_IF_ERROR(waited);
  if (!step_answer_) return CheckUsable();
  const engine::StepBegun answer = *step_answer_;
  if (answer.status != Code::kOk) {
    const std::string which =
        request.step >= 0 ? "step " + std::to_string(request.step) : "the next step";
    return Status(answer.status, "step", which + " cannot begin here");
  }
  ++step_number_;
  step_ops_.clear();
  step_weight_ = std::isnan(request.weight) ? 1 : request.weight;
  current_step_ = {answer.step, answer.epoch,  answer.participants, answer.joined,
                   answer.left, answer.source, answer.rank,         answer.weight_sum};
  step_sum_ = current_step_;
  step_sum_.weight_sum = kNothingSummed;
  *result = current_step_;
  return Status::Ok();
}

// What ended well is not kept until the step's end: its memory is used again.
void Job::Impl::SumUpStep() {
  while (!step_ops_.empty()) {
    const Op& op = *step_ops_.front();
    if (!op.done.load(std::memory_order_relaxed) || !op.status.ok()) return;
    AddTo(&step_sum_, op);
    step_ops_.pop_front();
  }
}

// Waits for the step's operations and sums up who was in them all.
Status Job::Impl::StepEnd(int64_t step, StepResult* result) {
  if (forked()) return ForkedError();
  if (Job::InCallback()) return Status(Code::kState, "a callback must not wait");
  const JobLock lock(mutex_);
  if (step_number_ == 0) return Status(Code::kState, "step", "no step has begun");
  if (step >= 0 && step != current_step_.step) {
    return Status(Code::kArg, "step",
                  "step " + std::to_string(step) + " is not the one that runs, " +
                      std::to_string(current_step_.step));
  }
  const std::deque<OpPtr> ops = step_ops_;
  const uint64_t number = step_number_;
  const Predicate done = [&]() FTAR_REQUIRES(mutex_) {
    return IsOver() || std::all_of(ops.begin(), ops.end(), [](const OpPtr& op) {
             return op->done.load(std::memory_order_relaxed);
           });
  };
  const auto undecided = [&, begun = Now()]() FTAR_REQUIRES(mutex_) {
    for (const OpPtr& op : ops) {
      if (!op->done.load(std::memory_order_relaxed)) FTAR_RETURN_IF_ERROR(WaitVerdict(*op, begun));
    }
    return Status::Ok();
  };
  FTAR_RETURN_IF_ERROR(UntilDecided(done, kNever, undecided));
  if (forked()) return ForkedError();
  if (step_number_ != number) return Status(Code::kState, "step", "the next step has begun");
  for (const OpPtr& op : ops) {
    if (!op->done.load(std::memory_order_acquire)) return CheckUsable();
  }
  std::erase_if(step_ops_, [this](const OpPtr& op) FTAR_REQUIRES(mutex_) {
    if (!op->done.load(std::memory_order_relaxed)) return false;  // of another thread, meanwhile
    if (op->status.ok()) AddTo(&step_sum_, *op);
    // Also for whoever asks again.
    if (!op->status.ok() && step_sum_.failed == nullptr) step_sum_.failed = op;
    return true;
  });
  *result = step_sum_;
  // Of others' weights nothing is known but by operations.
  if (result->weight_sum == kNothingSummed) result->weight_sum = result->participants;
  return result->failed != nullptr ? result->failed->status : Status::Ok();
}

}  // namespace ftar::runtime
