// The clock of this room's programs.
#ifndef FTAR_RUNTIME_CLOCK_H_
#define FTAR_RUNTIME_CLOCK_H_

#include "base/ids.h"

namespace ftar::runtime {

TimeNs Now();  // CLOCK_MONOTONIC: a wall clock that steps does not matter

}  // namespace ftar::runtime

#endif  // FTAR_RUNTIME_CLOCK_H_
