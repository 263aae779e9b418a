// The launcher: starts a coordinator and N ranks, watches them, and prints what they found.
//
// Purpose: one command runs a whole job on this host.  The launcher is outside of the job, so no
// strike takes it along; it knows who died when, wakes stopped victims after their eviction, starts
// newcomers, and calls a standstill a hang.
// Threads: single-threaded.  Ownership: owns its children and ends them all before it returns.
#ifndef FTAR_PERF_LAUNCHER_H_
#define FTAR_PERF_LAUNCHER_H_

#include <string>
#include <vector>

#include "perf/options.h"

namespace ftar::perf {

// Runs the job of `options`; `arguments` is this process's own command line, which the ranks get
// too.
int RunLauncher(const Options& options, const std::vector<std::string>& arguments);

}  // namespace ftar::perf

#endif  // FTAR_PERF_LAUNCHER_H_
