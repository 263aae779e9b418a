#include "runtime/waiting.h"

#include <algorithm>

namespace ftar::runtime {
namespace {

constexpr TimeNs kSpinNs =
    150 * kMicrosecond;                        // most hand-overs between spinning ranks are shorter
constexpr TimeNs kYieldNs = 1 * kMillisecond;  // then others of this host get their turn
constexpr int kCrowdedPolls = 2;
constexpr TimeNs kCrowdedYieldNs = 300 * kMicrosecond;  // a round of eight ranks on two cores

}  // namespace

WaitStep NextWaitStep(const WaitInputs& in) {
  if (!in.user_thread || in.changing) return WaitStep::kSleep;
  if (in.ranks_on_host <= in.cores) {
    if (in.idle_ns < kSpinNs) return WaitStep::kSpin;
    return in.idle_ns < kYieldNs ? WaitStep::kYield : WaitStep::kSleep;
  }
  if (in.idle_polls < kCrowdedPolls) return WaitStep::kSpin;
  return in.idle_ns < kCrowdedYieldNs ? WaitStep::kYield : WaitStep::kSleep;
}

TimeNs SleepFor(TimeNs now, TimeNs deadline, TimeNs engine, TimeNs devices, TimeNs connection) {
  const TimeNs first = std::min(std::min(deadline, engine), std::min(devices, connection));
  if (first == kNever) return kNever;
  return std::max<TimeNs>(0, first - now);
}

}  // namespace ftar::runtime
