// Churn: a job whose members are killed, stopped, joined by others and told to leave, at random
// moments from outside, a thousand times over.
//
// Purpose: what no planned fault hits.  Every operation is checked on every member; the first
// process is never struck and shows whether descriptors and memory stay flat. Threads:
// single-threaded.  Ownership: owns its fleet.
#ifndef FTAR_PERF_CHURN_H_
#define FTAR_PERF_CHURN_H_

#include <cstdint>
#include <string>
#include <vector>

#include "perf/options.h"

namespace ftar::perf {

enum class ChurnAction { kKill, kStop, kLeave, kJoin };

// What to do next with `members` alive, to stay between `low` and `high`; `random` is any number.
ChurnAction ChooseAction(int members, int low, int high, uint64_t random);

// What a process holds; all 0 when it cannot be seen. Its links' windows over shared memory fill up
// with their age, so they are counted (as mappings), not weighed.
struct Footprint {
  uint64_t descriptors = 0;
  uint64_t mappings = 0;
  uint64_t private_kib = 0;  // resident, less what is shared memory
};
Footprint FootprintOf(int64_t pid);

// Runs `options.churn` actions on `options.ranks` members (up to four more at times); exit code.
int RunChurn(const Options& options, const std::vector<std::string>& arguments);

}  // namespace ftar::perf

#endif  // FTAR_PERF_CHURN_H_
