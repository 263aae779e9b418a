// Who drives the engine: at most one thread pumps at a time. A user's thread inside a wait takes
// the wheel from the progress thread, which then only looks every millisecond whether somebody
// still drives, so that a small blocking operation pays no hand-over and no failure notice waits
// longer than that. After a pause the progress thread stands guard: it has the wheel and sleeps
// with all doorbells armed (job_fast.cc). Under the job's lock, but for what says otherwise.
#ifndef FTAR_RUNTIME_WHEEL_H_
#define FTAR_RUNTIME_WHEEL_H_

#include <atomic>
#include <cstdint>
#include <utility>

#include "base/status.h"
#include "runtime/clock.h"
#include "runtime/events.h"
#include "transport/fd.h"

namespace ftar::runtime {

class Wheel {
 public:
  enum class Who { kNobody, kUser, kProgress };

  Status Open();
  void CloseInForkedChild();

  Who who() const { return who_; }
  bool free() const { return who_ == Who::kNobody; }

  void TakeForUser() {
    if (who_ == Who::kProgress) Raise(progress_wake_fd());
    ++drives_;
    who_ = Who::kUser;
  }
  // `owes`: a peer may wait for what is still to be sent, and this thread may not come back soon.
  // True: the progress thread is to be told.
  bool LeaveByUser(bool owes) {
    if (who_ == Who::kUser) UserDrove(owes ? 0 : Now());
    who_ = Who::kNobody;
    return progress_waits_ || owes;
  }
  void TakeForProgress() { who_ = Who::kProgress; }
  void LeaveByProgress() {
    if (who_ == Who::kProgress) who_ = Who::kNobody;
  }
  // To users' threads that call one operation after the other: they look themselves.
  void StepBack(TimeNs now) {
    who_ = Who::kNobody;
    UserDrove(now);
  }

  // When a user's thread has last looked at everything. 0: it left something to do.
  TimeNs user_drove_ns() const { return user_drove_ns_; }
  void UserDrove(TimeNs now) { user_drove_ns_ = now; }

  // The progress thread finds that a user's has the wheel. True: it is told when that leaves it.
  // That is where the user sleeps, or has had it since it looked last: at each look it takes the
  // core, and the lock, from who drives. To tell it at the end of what is short would take longer.
  bool AwaitUser() {
    return progress_waits_ = user_sleeps_ || std::exchange(seen_drive_, drives_) == drives_;
  }
  void AwaitsUserNoMore() { progress_waits_ = false; }

  // Who has it sleeps, until then or until it is woken.
  void FallAsleep(TimeNs until) {
    sleeps_until_ = until;
    user_sleeps_ = who_ == Who::kUser;
    guards_.store(who_ == Who::kProgress, std::memory_order_release);
  }
  void UserIsUp() { user_sleeps_ = false; }
  // The progress thread takes that back without the lock, as soon as it is up: then it looks at
  // everything, whoever has the lock meanwhile.
  std::atomic<bool>& guards() { return guards_; }
  TimeNs sleeps_until() const { return sleeps_until_; }
  // Who has the wheel, if it sleeps. A progress thread that is up and waits for the lock does not.
  bool DriverSleeps() const {
    if (who_ == Who::kUser) return user_sleeps_;
    return who_ == Who::kProgress && guards_.load(std::memory_order_acquire);
  }

  void Wake() const;  // the sleeping driver, whoever it is
  void WakeAll() const;
  int user_wake_fd() const { return user_wake_.get(); }
  int progress_wake_fd() const { return progress_wake_.get(); }

 private:
  Who who_ = Who::kNobody;
  bool user_sleeps_ = false, progress_waits_ = false;
  // How often users' threads have had the wheel: now, and when the progress thread looked last.
  uint64_t drives_ = 0, seen_drive_ = 0;
  TimeNs user_drove_ns_ = 0;
  TimeNs sleeps_until_ = kNever;
  std::atomic<bool> guards_{false};
  transport::UniqueFd user_wake_, progress_wake_;
};

}  // namespace ftar::runtime

#endif  // FTAR_RUNTIME_WHEEL_H_
