// The clock of the programs around the pure machines, and what poll takes of it.
#ifndef FTAR_COORDINATOR_CLOCK_H_
#define FTAR_COORDINATOR_CLOCK_H_

#include "base/ids.h"

namespace ftar::coordinator {

TimeNs Now();  // CLOCK_MONOTONIC: a wall clock that steps does not matter
int PollTimeout(TimeNs deadline, TimeNs now);  // in milliseconds; -1: none

}  // namespace ftar::coordinator

#endif  // FTAR_COORDINATOR_CLOCK_H_
