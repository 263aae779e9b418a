// Starts `ftar-coordinator` as a process of its own, which no member's death takes along: forked,
// in a session of its own, adopted by init. Blocking, short; any thread, without the job's lock.
#ifndef FTAR_RUNTIME_COORDINATOR_PROCESS_H_
#define FTAR_RUNTIME_COORDINATOR_PROCESS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"

namespace ftar::runtime {

struct CoordinatorCommand {
  std::string host;
  uint16_t port = 0;
  std::string job, token;  // the token travels in the environment, which other users cannot read
};

// Looks beside this library (same folder, ../bin), then in PATH. The program ends by itself when
// the job is over; one that finds its address taken ends at once, so that starting twice is
// harmless. An error says that it could not be started.
Status StartCoordinatorProcess(const CoordinatorCommand& command,
                               const std::vector<std::string>& environment);

}  // namespace ftar::runtime

#endif  // FTAR_RUNTIME_COORDINATOR_PROCESS_H_
