#include "coordinator/clock.h"

#include <time.h>

#include <algorithm>

namespace ftar::coordinator {

TimeNs Now() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<TimeNs>(now.tv_sec) * kSecond + now.tv_nsec;
}

int PollTimeout(TimeNs deadline, TimeNs now) {
  if (deadline == kNever) return -1;
  const TimeNs left = std::max<TimeNs>(0, deadline - now);
  return static_cast<int>(std::min<TimeNs>((left + kMillisecond - 1) / kMillisecond, 60'000));
}

}  // namespace ftar::coordinator
