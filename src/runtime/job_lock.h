// The job's lock. A thread that spins for an operation has it nearly all the time: who wants it
// asks, and the spinner lets go (wanted()). Its conditions, and what has it for a scope or has it
// not. As types of their own, so that clang can say who forgot it (base/thread_annotations.h).
#ifndef FTAR_RUNTIME_JOB_LOCK_H_
#define FTAR_RUNTIME_JOB_LOCK_H_

#include <sched.h>

#include <atomic>
#include <climits>
#include <cstdint>

#include "base/ids.h"
#include "base/thread_annotations.h"
#include "runtime/inline_mutex.h"

namespace ftar::runtime {

class FTAR_CAPABILITY("mutex") JobMutex {
 public:
  // Quietly: the spinner goes on until it has a reason of its own to let go.
  void Lock() FTAR_ACQUIRE() {
    mutex_.lock();
    ++times_;
  }
  void AskAndLock() FTAR_ACQUIRE() {
    if (!mutex_.try_lock()) {
      wanted_.fetch_add(1, std::memory_order_relaxed);
      mutex_.lock();
      wanted_.fetch_sub(1, std::memory_order_relaxed);
    }
    ++times_;
  }
  void Unlock() FTAR_RELEASE() { mutex_.unlock(); }
  // How often it has been locked, in any way. Who finds the number that its own last lock has left
  // has been alone since: nothing has changed that this guards.
  uint64_t times() const FTAR_REQUIRES(this) { return times_; }
  bool wanted() const { return wanted_.load(std::memory_order_relaxed) > 0; }
  void LetOthersRun() FTAR_REQUIRES(this) {
    Unlock();
    sched_yield();
    Lock();
  }

 private:
  InlineMutex mutex_;
  std::atomic<int> wanted_{0};
  uint64_t times_ = 0;
};

// For a scope. It asks.
class FTAR_SCOPED_CAPABILITY JobLock {
 public:
  explicit JobLock(JobMutex& mutex) FTAR_ACQUIRE(mutex) : mutex_(mutex) { mutex_.AskAndLock(); }
  ~JobLock() FTAR_RELEASE() { mutex_.Unlock(); }
  JobLock(const JobLock&) = delete;
  JobLock& operator=(const JobLock&) = delete;

 private:
  JobMutex& mutex_;
};

// A scope without it, which has it again at the end, however that comes.
class FTAR_SCOPED_CAPABILITY JobUnlock {
 public:
  enum class Back { kQuietly, kAsking };
  explicit JobUnlock(JobMutex& mutex, Back back = Back::kQuietly) FTAR_RELEASE(mutex)
      : mutex_(mutex), back_(back) {
    mutex_.Unlock();
  }
  ~JobUnlock() FTAR_RELEASE() {  // which is clang's word for the end of any scope
    back_ == Back::kAsking ? mutex_.AskAndLock() : mutex_.Lock();
  }
  JobUnlock(const JobUnlock&) = delete;
  JobUnlock& operator=(const JobUnlock&) = delete;

 private:
  JobMutex& mutex_;
  const Back back_;
};

// Nothing of it is locked, ever: a child that is forked while others wait finds it in order, which
// std::condition_variable_any, having a mutex of its own, is not.
class JobCondition {
 public:
  // Also for less long: whoever waits looks again.
  void WaitUntil(JobMutex& mutex, TimeNs until) FTAR_REQUIRES(mutex);
  void NotifyOne() { Notify(1); }
  void NotifyAll() { Notify(INT_MAX); }

 private:
  void Notify(int most);

  std::atomic<uint32_t> notices_{0}, waiting_{0};
};

}  // namespace ftar::runtime

#endif  // FTAR_RUNTIME_JOB_LOCK_H_
