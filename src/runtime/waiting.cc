#include "runtime/waiting.h"

#include <algorithm>

namespace ftar::runtime {
namespace {

constexpr TimeNs kSpinNs =
    150 * kMicrosecond;                        // most hand-overs between spinning ranks are shorter
constexpr TimeNs kYieldNs = 1 * kMillisecond;  // then others of this host get their turn
constexpr int kCrowdedPolls = 2;
// Of a rank, with what it copies and with those that find nothing to do.
constexpr TimeNs kTurnNs = 100 * kMicrosecond;
constexpr TimeNs kRoundMinNs = 300 * kMicrosecond, kRoundMaxNs = 4 * kMillisecond;
constexpr TimeNs kLookMinNs = 1 * kMillisecond;
constexpr int kRoundsALook = 5;
constexpr TimeNs kFastNs = 50 * kMicrosecond;
constexpr TimeNs kFastPerByteNs = 1;
constexpr uint64_t kFastBytesMax = 8 << 20;  // of what is longer something moves all the time
constexpr uint64_t kLineBytesMax = 256 << 10;
// Each time it looks for 30 us, from cold caches; that is to be little of a core. A step of a
// trainer is shorter than kCallsNs.
constexpr TimeNs kGuardNs = 20 * kMillisecond;
constexpr TimeNs kCallsNs = 10 * kSecond;
constexpr TimeNs kAtOnceNs = 50 * kMicrosecond;
constexpr TimeNs kLateNs = 20 * kMillisecond;

}  // namespace

Pace PaceOf(int ranks_on_host, int cores) {
  if (ranks_on_host <= cores) return {.look_ns = kLookMinNs};
  const int turns = (ranks_on_host + cores - 1) / std::max(cores, 1);
  const TimeNs round = std::clamp(turns * kTurnNs, kRoundMinNs, kRoundMaxNs);
  return {true, turns, round, std::max(kLookMinNs, round * kRoundsALook)};
}

WaitStep NextWaitStep(const WaitInputs& in) {
  if (!in.user_thread || in.changing) return WaitStep::kSleep;
  if (!in.pace.crowded) {
    if (in.idle_ns < kSpinNs) return WaitStep::kSpin;
    return in.idle_ns < kYieldNs ? WaitStep::kYield : WaitStep::kSleep;
  }
  if (in.idle_polls < kCrowdedPolls) return WaitStep::kSpin;
  return in.idle_ns < in.pace.round_ns ? WaitStep::kYield : WaitStep::kSleep;
}

TimeNs FastPatience(const Pace& pace, uint64_t bytes, bool all_here) {
  const TimeNs least = pace.crowded ? pace.round_ns : kFastNs;
  const uint64_t most = all_here ? kFastBytesMax : pace.crowded ? kLineBytesMax : 0;
  return least + pace.turns * static_cast<TimeNs>(std::min(bytes, most)) * kFastPerByteNs;
}

TimeNs GuardUntil(TimeNs now, TimeNs last_call) {
  return now - last_call < kCallsNs ? now + kGuardNs : kNever;
}

bool GuardIsLate(TimeNs now, TimeNs until) { return now - until >= kLateNs; }

bool WaitsAtOnce(TimeNs moved, TimeNs now) { return now - moved < kAtOnceNs; }

bool GuardStepsBack(const Pace& pace, TimeNs since_call_ns, bool owes) {
  return !owes && since_call_ns < pace.look_ns;
}

TimeNs SleepFor(TimeNs now, TimeNs until) {
  return until == kNever ? kNever : std::max<TimeNs>(0, until - now);
}

}  // namespace ftar::runtime
