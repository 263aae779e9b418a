// Runs a launch on this processor, thread after thread: the block job's own code, for any grid.
//
// For tests, which so see every address that a device would write. Slow. Any thread may call.
#ifndef FTAR_KERNELS_HOST_GRID_H_
#define FTAR_KERNELS_HOST_GRID_H_

#include "kernels/plan.h"

namespace ftar::kernels {

// Blocks run one after the other, and so do their threads. `before_chunk`, if given, is called
// before each chunk, so that a test can move the abort word in between. Fails with
// Code::kUnsupported where no kernel has the batch's id.
Status RunOnHost(const Batch& batch, void (*before_chunk)(uint64_t chunk) = nullptr);

// The ids of all kernels there are.
std::vector<Id> AllIds();

}  // namespace ftar::kernels

#endif  // FTAR_KERNELS_HOST_GRID_H_
