// The resident kernel (resident.h) on this processor: threads of the host play its blocks, over the
// very mailboxes that a device would see.
//
// For tests: a fake driver's LaunchResident runs it on a thread of its own.
#ifndef FTAR_KERNELS_HOST_RESIDENT_H_
#define FTAR_KERNELS_HOST_RESIDENT_H_

#include <functional>

#include "kernels/job.h"

namespace ftar::kernels {

// Makes a job's addresses (sources, destinations, checksum) ones that the host may follow; false
// refuses the job, as a device would fault. Called by several threads.
using Translate = std::function<bool(Job*)>;

// Plays the blocks, each on a thread, and returns when all have left: when `control` (Gpu's
// LaunchResident) tells them to stop, or when the host's side has been silent for too long.
void RunResidentOnHost(void* control, int blocks, const Translate& translate);

}  // namespace ftar::kernels

#endif  // FTAR_KERNELS_HOST_RESIDENT_H_
