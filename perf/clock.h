// The one clock of ftar-perf: CLOCK_MONOTONIC, which all processes of a host share.
#ifndef FTAR_PERF_CLOCK_H_
#define FTAR_PERF_CLOCK_H_

#include <time.h>

#include <cstdint>

namespace ftar::perf {

constexpr int64_t kSecondNs = 1'000'000'000;

inline int64_t ClockNs(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return int64_t{now.tv_sec} * kSecondNs + now.tv_nsec;
}

inline int64_t NowNs() { return ClockNs(CLOCK_MONOTONIC); }

inline void SleepNs(int64_t ns) {
  timespec pause{};
  pause.tv_sec = ns / kSecondNs;
  pause.tv_nsec = ns % kSecondNs;
  nanosleep(&pause, nullptr);
}

}  // namespace ftar::perf

#endif  // FTAR_PERF_CLOCK_H_
