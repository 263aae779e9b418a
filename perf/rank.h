// One rank from start to end: memory, join, engine, leave.
//
// Threads: a rank is one thread, the main one or one of several. What they share is the board, the
// arena and the GPU, which none gives anything back to before all are done.
#ifndef FTAR_PERF_RANK_H_
#define FTAR_PERF_RANK_H_

#include "perf/options.h"

namespace ftar::perf {

// Runs this process as a rank and answers its exit code.
int RunRank(const Options& options);
// As several, each a thread with a job of its own; the exit code of the worst.
int RunThreads(const Options& options);

}  // namespace ftar::perf

#endif  // FTAR_PERF_RANK_H_
