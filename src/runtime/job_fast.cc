// Small operations in one pass through shared memory, made by the thread that calls them: the fast
// path (engine.h). The thread waits with the lock, for less time than anything else could need it.
//
// While it lasts nobody looks at links and the coordinator, and the progress thread leaves them to
// who drives. So whoever has not looked for some time does so before it begins, and after what took
// long. After a pause there is nothing to look at: the progress thread stands guard, that is it
// sleeps with all doorbells armed, and would be up if anything had come. It is left asleep, since
// waking it takes longer than the operation.
#include <algorithm>
#include <cmath>
#include <utility>

#include "base/undo.h"
#include "runtime/job_impl.h"
#include "runtime/no_cancel.h"

namespace ftar::runtime {
namespace {

constexpr int kLooksAClock = 64;
// Who comes at the same time is seen sooner without a break between two looks.
constexpr int kEagerLooks = 16;
constexpr TimeNs kUnknownNs = -1;

}  // namespace

// What has come meanwhile is heard before the next call is taken. By system calls, in which a
// thread must not be cancelled that holds the lock.
void Job::Impl::LookUp(TimeNs now) {
  const TimeNs unseen = now - wheel_.user_drove_ns();
  if (!wheel_.free() || unseen <= pace_.look_ns / 2) return;
  const NoCancel whole;
  try {
    Pump(now);
  } catch (...) {  // what had come is lost, and not this call's alone
    driver_->Break();
  }
  wheel_.UserDrove(driver_->sending() ? 0 : now);
}

// A guard that is rung for by the lane has other operations to see to.
[[gnu::hot]] bool Job::Impl::UnderGuard(TimeNs now) const {
  return wheel_.DriverSleeps() && !driver_->heeds_lane() &&
         !GuardIsLate(now, wheel_.sleeps_until());
}

// The operation has a place where it can be found before it is published, since there may be no
// memory for that; but it stands there only if it does not end at once.
[[gnu::hot]] bool Job::Impl::StartFast(TimeNs now, const OpPtr& op, Likeness likeness) {
  // Whoever else has the wheel would have to be told.
  const bool looked = wheel_.free() && now - wheel_.user_drove_ns() <= pace_.look_ns / 2;
  if (!looked && !UnderGuard(now)) return false;
  // There may be no memory for the call back when its input in place is written over.
  const bool calls_back = op->request.on_done && op->request.spec.in_place;
  if (likeness != Likeness::kSame && (waiters_ > 0 || calls_back)) return false;
  GroupState& state = likeness != Likeness::kNone ? *fast_.group : groups_[op->group];
  state.ops.emplace_back();
  Undo undo([&state] { state.ops.pop_back(); });
  steps_.MakePlace();
  if (!driver_->StartFast(now, op.get(), likeness)) {
    steps_.DropPlace();
    return false;
  }
  undo.Keep();
  fast_.op = fast_.last = op.get();
  fast_.group = &state;
  Undo pending([this, &op]() FTAR_REQUIRES(mutex_) { ListFast(op); });
  const bool is_short = !driver_->shares_fast();
  if (!is_short) ListFast(op);
  driver_->StrikeBefore(op->seq);
  driver_->PublishFast(*op);
  // Until the own line is on its way there is time for a clock and for what comes later.
  fast_.called_ns = op->start_ns = Now();
  if (is_short) driver_->ForeseeFast(fast_.called_ns, *op);
  if (is_short && !pace_.crowded) driver_->AwaitFast(*op);
  // What is short and finds the others there ends when it began, as far as a clock's price goes.
  bool over = LookFast(op, is_short ? fast_.called_ns : kUnknownNs);
  driver_->Announce();
  if (!over && wheel_.DriverSleeps()) over = LeaveToGuard(op);
  if (over) pending.Keep();
  return true;
}

// The caller may not wait: the guard is rung for when there is something to do, and looks by itself
// before long. Who has waited at once the last time will do so again, and needs no ringing, which
// wakes a thread that takes the core from it. True: it is over.
bool Job::Impl::LeaveToGuard(const OpPtr& op) {
  const bool too_long = wheel_.sleeps_until() > GuardUntil(fast_.called_ns, fast_.called_ns);
  if (std::exchange(fast_.waits_at_once, false) && !too_long) return false;
  driver_->HeedLane(true);
  const bool over = LookFast(op, kUnknownNs);
  if (op->done.load(std::memory_order_relaxed)) {
    driver_->HeedLane(false);
  } else if (driver_->fast_has_more() || too_long) {
    const NoCancel whole;
    wheel_.Wake();
  }
  return over;
}

// From now on it is found.
[[gnu::hot]] void Job::Impl::ListFast(const OpPtr& op) {
  fast_.group->ops.back() = op;
  steps_.TakePlace(op);
}

// The same for an operation that is called once more, as it was but for its buffers, where nothing
// else is under way that would have to be looked at.
[[gnu::hot]] bool Job::Impl::StartAgain(const Group& group, const OpPtr& op,
                                        const OpBuffers& buffers) {
  const JobLock lock(mutex_);
  const bool like_last = fast_.last == op.get();
  const TimeNs now = like_last && wheel_.free() ? fast_.called_ns : Now();
  collective::OpSpec& spec = op->request.spec;
  const bool in_place = buffers.recv != nullptr && buffers.send == buffers.recv;
  // Nobody has had the lock since the last one ended in its call: what was looked at then holds.
  const bool same = like_last && std::exchange(fast_.ended_at, 0) + 1 == mutex_.times() &&
                    in_place == spec.in_place && !group.closed && op.use_count() == 1;
  if (!same && !MayStartAgain(group, op, like_last)) return false;
  op->request.send = buffers.send;
  op->request.recv = buffers.recv;
  spec.in_place = in_place;
  spec.tag = buffers.tag;
  op->start_ns = now;
  op->handle = next_handle_++;
  op->done.store(false, std::memory_order_relaxed);
  Undo undo([&op] { op->done.store(true, std::memory_order_relaxed); });
  fast_.smooth = false;
  const Likeness likeness = same        ? Likeness::kSame
                            : like_last ? Likeness::kAlike
                                        : Likeness::kNone;
  if (StartFast(now, op, likeness)) {
    if (fast_.smooth) fast_.ended_at = mutex_.times();
  } else if (!LaunchAgain(group, op)) {
    return false;
  }
  ++counts_.ops_again;
  undo.Keep();
  return true;
}

// Not by the fast path: as Start does it, with an operation that is as if it were new.
bool Job::Impl::LaunchAgain(const Group& group, const OpPtr& op) {
  const NoCancel whole;
  const TimeNs now = Now();  // the last call may be long past
  fast_.last = nullptr;
  LookUp(now);
  if (!MayStartAgain(group, op, /*like_last=*/false)) return false;
  GroupState& state = groups_[op->group];
  if (!state.held.empty() || !Prepare(now, state, op->group, op.get()).ok()) return false;
  op->seq = kNoSeq;
  op->aside.reset();
  op->of_two = op->copied = op->sums_aside = false;
  LaunchAll(now, {&op, 1});
  WakeIfNeeded();
  LeaveCallbacks();
  return true;
}

[[gnu::hot]] bool Job::Impl::MayStartAgain(const Group& group, const OpPtr& op, bool like_last) {
  // The last one was alone, and nothing has been started since.
  const bool others = !like_last && !NothingUnderWay();
  // Whoever else knows the operation lets go of it under this lock.
  if (others || destroyed_ || leave_asked_ns_ || !ended_.ok() || group.closed ||
      !callbacks_.empty() || op.use_count() != 1)
    return false;
  collective::OpSpec& spec = op->request.spec;
  const double weight = std::isnan(op->request.weight) ? steps_.weight() : op->request.weight;
  if (!TakesWeight(spec, weight)) return false;
  spec.weight = weight;
  op->step = steps_.number();
  return true;
}

// True: it is on the fast path no more.
[[gnu::hot]] bool Job::Impl::LookFast(const OpPtr& op, TimeNs now) {
  const EngineDriver::FastState state = driver_->LookFast(*op);
  if (state == EngineDriver::FastState::kMoved) fast_.moved_ns = Now();
  if (state != EngineDriver::FastState::kOver) return false;
  if (now == kUnknownNs) now = Now();
  fast_.looked_at = &op;
  driver_->EndFast(now, *op);
  fast_.looked_at = nullptr;
  fast_.op = nullptr;
  if (driver_->has_more()) {
    const NoCancel whole;
    if (!op->done.load(std::memory_order_relaxed)) ListFast(op);
    Settle(now);
    WakeIfNeeded();
  } else if (std::exchange(delivered_, false) && waiters_ > 1) {
    changed_.NotifyAll();
  } else {
    fast_.smooth = true;
  }
  return true;
}

// Nothing else of its group is under way.
[[gnu::hot]] void Job::Impl::NoteFast(const collective::Outcome& outcome) {
  (*fast_.looked_at)->outcome.Become(outcome);
  fast_.group->history.Add(outcome);
}

[[gnu::hot]] void Job::Impl::OnDeliveredFast(TimeNs now) {
  ++counts_.ops_delivered;
  if ((*fast_.looked_at)->aside != nullptr) {  // it took its time to land
    (*fast_.looked_at)->outcome.delivered_ns = now;
    fast_.group->history.NewestIsThere(now);
  }
  steps_.TakePlace(*fast_.looked_at);
  EndOp(*fast_.looked_at);
  fast_.group->ops.pop_back();
}

// Without patience it looks once.
[[gnu::hot]] void Job::Impl::WaitFast(const OpPtr& op, bool patient) {
  // For this operation this thread looks; where there are others it is on the fast path no more.
  if (wheel_.DriverSleeps() && driver_->in_fast()) {
    driver_->HeedLane(false);
    fast_.waits_at_once = patient && WaitsAtOnce(std::max(op->start_ns, fast_.moved_ns), Now());
  }
  for (int looks = 1; fast_.op == op.get() && driver_->in_fast(); ++looks) {
    if (LookFast(op, kUnknownNs)) break;
    if (!patient || mutex_.wanted()) break;
    if (pace_.crowded) {
      // Not with the lock: the progress thread would be woken at the end of every operation.
      mutex_.LetOthersRun();
    } else if (looks > kEagerLooks) {
      Pause();
    }
    if (!pace_.crowded && looks % kLooksAClock != 0) continue;
    const bool all_here = fast_.moved_ns > op->start_ns;
    const TimeNs since = all_here ? fast_.moved_ns : op->start_ns;
    if (Now() - since > FastPatience(pace_, op->send_bytes, all_here)) break;
  }
  if (fast_.op == op.get()) fast_.op = nullptr;
  if (fast_.moved_ns <= op->start_ns) return;
  // After what took long: else the progress thread has the wheel when the next call comes, and
  // that goes by frames, maybe here alone. What is heard now is older than that call.
  fast_.called_ns = Now();
  LookUp(fast_.called_ns);
}

[[gnu::hot]] bool Job::Impl::WaitAgain(const OpPtr& op) {
  const JobLock lock(mutex_);
  if (fast_.op == op.get()) WaitFast(op, /*patient=*/true);
  return op->done.load(std::memory_order_relaxed);
}

}  // namespace ftar::runtime
