// Small operations in one pass through shared memory, made by the thread that calls them: the fast
// path (engine.h). The thread waits with the lock, for less time than anything else could need it.
//
// While it lasts nobody looks at links and the coordinator, and the progress thread leaves them to
// who drives. So whoever has not looked for some time does so before it begins.
#include <sched.h>

#include "runtime/job_impl.h"

namespace ftar::runtime {
namespace {

// Half of what the progress thread leaves the wheel alone for after a user's thread had it.
constexpr TimeNs kUnseenNs = 500 * kMicrosecond;
// Then the progress thread has it.
constexpr TimeNs kIdleNs = 1 * kMillisecond;
// Others that are later than this are not called to be waited for like that.
constexpr TimeNs kPatienceNs = 50 * kMicrosecond;
constexpr TimeNs kCrowdedPatienceNs = 200 * kMicrosecond;
// And besides, for every byte of it.
constexpr TimeNs kPatiencePerByteNs = 1;
constexpr int kLooksAClock = 64;
// Who comes at the same time is seen sooner without a break between two looks.
constexpr int kEagerLooks = 16;
constexpr TimeNs kUnknownNs = -1;
// Up to here frames cost more than a copy of what they would lend.
constexpr uint64_t kCopiedBytesMax = 256 * 1024;

}  // namespace

// What has come meanwhile is heard before the next call is taken.
void Job::Impl::LookUp(TimeNs now) {
  const TimeNs unseen = now - last_user_drive_ns_;
  if (wheel_ != Wheel::kNobody || unseen <= kUnseenNs || unseen > kIdleNs) return;
  Pump(now);
  last_user_drive_ns_ = driver_->sending() ? 0 : now;
}

bool Job::Impl::StartFast(TimeNs now, const OpPtr& op) {
  // Whoever sleeps or drives would have to be told.
  if (wheel_ != Wheel::kNobody || sleepers_ > 0 || waiters_ > 0 ||
      now - last_user_drive_ns_ > kUnseenNs)
    return false;
  // What others read where it lies is not copied for them, if it is much.
  if (op->send_bytes > kCopiedBytesMax &&
      exports_->Find(op->request.send, op->send_bytes) != nullptr)
    return false;
  GroupState& state = groups_[op->group];
  state.ops.push_back(op);  // first: it must be found, and there may be no memory
  if (!driver_->StartFast(now, op.get())) {
    state.ops.pop_back();
    return false;
  }
  if (step_number_ > 0) step_ops_.push_back(op);
  fast_ = op;  // its last one may be another thread's, and stopped
  driver_->StrikeBefore(op->seq);
  driver_->PublishFast(*op);
  // What is short and finds the others there ends when it began, as far as a clock's price goes.
  LookFast(op, op->send_bytes <= wire::kLaneInputMax ? now : kUnknownNs);
  return true;
}

// True: it is on the fast path no more.
bool Job::Impl::LookFast(const OpPtr& op, TimeNs now) {
  if (!driver_->LookFast(*op)) return false;
  if (now == kUnknownNs) now = Now();
  driver_->EndFast(now, *op);
  Settle(now);
  fast_.reset();
  return true;
}

// Without patience it looks once.
void Job::Impl::WaitFast(Lock& lock, const OpPtr& op, bool patient) {
  const bool crowded = ranks_on_host_ > cores_.count;
  const TimeNs patience = !patient ? 0
                                   : (crowded ? kCrowdedPatienceNs : kPatienceNs) +
                                         static_cast<TimeNs>(op->send_bytes) * kPatiencePerByteNs;
  for (int looks = 1; fast_ == op && driver_->in_fast(); ++looks) {
    if (LookFast(op, kUnknownNs)) break;
    if (patience == 0 || lock_wanted_.load(std::memory_order_relaxed) > 0) break;
    if (crowded) {
      // Not with the lock: the progress thread would be woken at the end of every operation.
      lock.unlock();
      sched_yield();
      lock.lock();
    } else if (looks > kEagerLooks) {
      Pause();
    }
    if ((crowded || looks % kLooksAClock == 0) && Now() - op->start_ns > patience) break;
  }
  if (fast_ == op) fast_.reset();
  if (!callbacks_.empty()) RunCallbacks(lock);
}

}  // namespace ftar::runtime
