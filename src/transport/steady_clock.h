// The clock of devices for what they time themselves; whoever polls them says what time it is.
#ifndef FTAR_TRANSPORT_STEADY_CLOCK_H_
#define FTAR_TRANSPORT_STEADY_CLOCK_H_

#include <chrono>

#include "base/ids.h"

namespace ftar::transport {

inline TimeNs SteadyNow() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
}

}  // namespace ftar::transport

#endif  // FTAR_TRANSPORT_STEADY_CLOCK_H_
