// The clock of this room's programs.
#ifndef FTAR_RUNTIME_CLOCK_H_
#define FTAR_RUNTIME_CLOCK_H_

#include "coordinator/clock.h"

namespace ftar::runtime {

using coordinator::Now;

}  // namespace ftar::runtime

#endif  // FTAR_RUNTIME_CLOCK_H_
