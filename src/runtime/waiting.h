// How a thread that drives the engine waits: spin, give way, or sleep. A pure decision, made anew
// after each poll that found nothing, so that it can be tested as a table.
//
// The reason for each rule: with a core for every rank of the host, spinning is the fastest way to
// hear of a byte. With more ranks than cores, whoever spins takes the core from the rank it waits
// for, so few polls, then sched_yield until all ranks have had their turn, then sleep: who sleeps
// sooner has to be woken by everybody for every operation, which makes the rounds longer still.
// During a view change those who must act (the coordinator, a leader) need the cores: nobody spins.
#ifndef FTAR_RUNTIME_WAITING_H_
#define FTAR_RUNTIME_WAITING_H_

#include "base/ids.h"

namespace ftar::runtime {

// How often a wait looks whether anybody can decide; one of a healthy operation never gets there.
inline constexpr TimeNs kLookNs = 200'000'000;

enum class WaitStep { kSpin, kYield, kSleep };

// What depends on how many ranks share a core.
struct Pace {
  bool crowded = false;  // there are more ranks than cores
  int turns = 1;         // ranks to a core
  // How long it may take until each rank of the host has had its turn.
  TimeNs round_ns = 0;
  // How long the progress thread leaves the wheel alone after a user's thread had it: with many
  // ranks to a core, whoever looks at all links at every turn takes the turn from the others.
  TimeNs look_ns = 0;
};
Pace PaceOf(int ranks_on_host, int cores);

struct WaitInputs {
  Pace pace;
  bool changing = false;    // frozen by a Prepare
  bool user_thread = true;  // false: the progress thread, which never spins
  TimeNs idle_ns = 0;       // since the last poll that found something
  int idle_polls = 0;       // polls since then
};

WaitStep NextWaitStep(const WaitInputs& in);

// How long a call on the fast path waits after anything of it has moved, before it goes on like any
// other, with links and coordinator looked at. Who copies may take longer with every byte, and so
// may each who has the core before; but only where all lines are there (`all_here`): somebody whose
// line is missing may have gone by frames, which nobody looks at on the fast path. So that is
// waited for less long, where cores are shared, and no longer for bytes where they are not.
TimeNs FastPatience(const Pace& pace, uint64_t bytes, bool all_here);

// Until when the progress thread may stand guard (job_fast.cc), whatever else it waits for: what a
// caller leaves behind on the fast path nobody looks at before. kNever where nobody has called for
// long; who then does has the guard woken.
TimeNs GuardUntil(TimeNs now, TimeNs last_call);

// A guard that should have been up at `until`, and still sleeps, lacks a core: nobody is to count
// on it. Ranks that share a core take turns, so it may be somewhat late.
bool GuardIsLate(TimeNs now, TimeNs until);

// Whether a caller whose operation was begun, or moved, at `moved` was back for it in no time: one
// that calls and waits, and does not compute in between.
bool WaitsAtOnce(TimeNs moved, TimeNs now);

// Whether a guard to whom nothing has come leaves the wheel alone: while a thread calls one
// operation after the other, it looks up by itself, and is not to be disturbed. `owes`: something
// is left behind for which nobody else would look meanwhile.
bool GuardStepsBack(const Pace& pace, TimeNs since_call_ns, bool owes);

// How long who is to be up at `until` may sleep; never below 0. kNever stays kNever.
TimeNs SleepFor(TimeNs now, TimeNs until);

}  // namespace ftar::runtime

#endif  // FTAR_RUNTIME_WAITING_H_
