// The launch shell: a batch of plans onto a stream of the current device. The face without CUDA's
// types, so that files compiled by g++ alone may include it.
//
// Any thread may call, as CUDA allows. Nothing is owned but the list of kernels, which is made
// once.
#ifndef FTAR_KERNELS_LAUNCH_H_
#define FTAR_KERNELS_LAUNCH_H_

#include <vector>

#include "kernels/plan.h"

namespace ftar::kernels {

// Whose writes a fence of the kernel waits for: with kRemote only those of others that said so, not
// those of the user's kernels beside it.
enum class FenceDomain { kDefault, kRemote };

// Enqueues the batch on `stream`, a cudaStream_t. The memory of the jobs must live until the kernel
// has ended. A batch with nothing to do enqueues nothing.
Status Launch(const Batch& batch, void* stream, FenceDomain domain = FenceDomain::kDefault);

// Starts the resident kernel (resident.h) on `stream`; `control` is a ResidentControl.
Status LaunchResident(void* control, int blocks, void* stream);

// Loads every kernel onto the current device: with lazy loading the first launch of one waits for
// whatever runs, which deadlocks a kernel that waits for this thread.
Status LoadAll();

// What the driver says of a kernel on the current device.
struct Resources {
  int registers = 0;
  uint64_t local_bytes = 0;
};
Expected<Resources> ResourcesOf(const Id& id);

}  // namespace ftar::kernels

#endif  // FTAR_KERNELS_LAUNCH_H_
