// Steps: marks that all members set alike, so that joins and leaves fall between them (rule J4).
#include <algorithm>

#include "base/undo.h"
#include "runtime/job_impl.h"

namespace ftar::runtime {
namespace {

// Who asked for a number that does not follow is told which one does.
Status StepRefused(int64_t asked, const engine::StepBegun& answer) {
  std::string text = asked >= 0 ? "step " + std::to_string(asked) : "the next step";
  text += " cannot begin here";
  if (answer.status == Code::kArg && asked >= 0)
    text += ": the next one is step " + std::to_string(answer.step) + ", which -1 begins";
  return Status(answer.status, "step", std::move(text));
}

}  // namespace

void Job::Impl::OnStep(const engine::StepBegun& step) {
  step_asked_.answer = step;
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
  if (!step_asked_.since_ns) step_asked_.since_ns = begun;
  step_asked_.answer.reset();
  const auto undecided = [&]() FTAR_REQUIRES(mutex_) {
    return Undecided("the step", *step_asked_.since_ns, timeout_ns_, begun);
  };
  // Calls on streams are the last step's, and have no numbers before their streams get to them.
  const Predicate arrived = [this]() FTAR_REQUIRES(mutex_) { return StreamsArrived(); };
  FTAR_RETURN_IF_ERROR(UntilDecided(arrived, kNever, undecided));
  FTAR_RETURN_IF_ERROR(CheckUsable());
  driver_->Feed(Now(), engine::BeginStep{request.step, request.strict});
  Settle(Now());
  WakeIfNeeded();
  const Predicate done = [this]() FTAR_REQUIRES(mutex_) {
    return step_asked_.answer.has_value() || IsOver();
  };
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
  if (step_asked_.pending)
    return Status(Code::kState, "step", "another thread is beginning a step");
  if (leave_asked_ns_) return Status(Code::kLeft, "this member is leaving");
  if (!driver_->engine().view()) return Status(Code::kState, "job", "the job is not ready yet");
  step_asked_.pending = true;
  const Undo over(
      [this]() FTAR_REQUIRES(mutex_) { step_asked_.pending = false; });  // the lock outlives it
  const Status waited = AwaitStep(request);
  if (forked()) return ForkedError();
  if (waited.code() == Code::kQuorum || waited.code() == Code::kCoordinator) return waited;
  step_asked_.since_ns.reset();
  FTAR_RETURN_IF_ERROR(waited);
  if (!step_asked_.answer) return CheckUsable();
  const engine::StepBegun answer = *step_asked_.answer;
  if (answer.status != Code::kOk) return StepRefused(request.step, answer);
  steps_.Begin(answer, request.weight);
  *result = steps_.begin();
  return Status::Ok();
}

// Waits for the step's operations and sums up who was in them all.
Status Job::Impl::StepEnd(int64_t step, StepResult* result) {
  if (forked()) return ForkedError();
  if (Job::InCallback()) return Status(Code::kState, "a callback must not wait");
  const JobLock lock(mutex_);
  if (!steps_.begun()) return Status(Code::kState, "step", "no step has begun");
  if (step >= 0 && step != steps_.begin().step) {
    return Status(Code::kArg, "step",
                  "step " + std::to_string(step) + " is not the one that runs, " +
                      std::to_string(steps_.begin().step));
  }
  const std::deque<OpPtr> ops = steps_.ops();
  const uint64_t number = steps_.number();
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
  if (steps_.number() != number) return Status(Code::kState, "step", "the next step has begun");
  for (const OpPtr& op : ops) {
    if (!op->done.load(std::memory_order_acquire)) return CheckUsable();
  }
  *result = steps_.SumUpEnded();
  return result->failed != nullptr ? result->failed->status : Status::Ok();
}

}  // namespace ftar::runtime
