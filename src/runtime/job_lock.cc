#include "runtime/job_lock.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>

namespace ftar::runtime {

// Who notifies after the number was read makes it another one, and then the kernel does not wait.
void JobCondition::WaitUntil(JobMutex& mutex, TimeNs until) {
  const uint32_t seen = notices_.load();
  ++waiting_;
  mutex.Unlock();
  const TimeNs end = std::max<TimeNs>(until, 0);
  const timespec at{end / kSecond, end % kSecond};  // of CLOCK_MONOTONIC
  // Not by a call in which a thread that is cancelled ends.
  ::syscall(SYS_futex, &notices_, FUTEX_WAIT_BITSET_PRIVATE, seen, until == kNever ? nullptr : &at,
            nullptr, FUTEX_BITSET_MATCH_ANY);
  mutex.Lock();
  --waiting_;
}

void JobCondition::Notify(int most) {
  ++notices_;
  if (waiting_.load() > 0)
    ::syscall(SYS_futex, &notices_, FUTEX_WAKE_PRIVATE, most, nullptr, nullptr, 0);
}

}  // namespace ftar::runtime
