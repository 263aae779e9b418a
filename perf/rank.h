// One rank from start to end: memory, join, engine, leave.
#ifndef FTAR_PERF_RANK_H_
#define FTAR_PERF_RANK_H_

#include "perf/options.h"

namespace ftar::perf {

// Runs this process as a rank and answers its exit code.
int RunRank(const Options& options);

}  // namespace ftar::perf

#endif  // FTAR_PERF_RANK_H_
