// Set-up calls of a Gpu made by a thread of their own, so that whoever needs one is not lost with
// it.
//
// A user's cudaFree may hold the driver's lock until its streams are done, and they may wait for
// us: whoever waited for that lock under the job's would keep the job from ever letting them go. So
// what allocates or imports is waited for at most for a while, and what gives back is not waited
// for at all. What comes too late is given back by the thread itself.
#ifndef FTAR_DEVICE_ASIDE_H_
#define FTAR_DEVICE_ASIDE_H_

#include <memory>

#include "base/ids.h"
#include "device/gpu.h"

namespace ftar::device {

// Everything else goes straight to `gpu`. After a call that took longer than `patience_ns`, further
// ones fail at once until the driver has answered. Any thread.
std::shared_ptr<Gpu> CallAside(std::unique_ptr<Gpu> gpu, TimeNs patience_ns);

}  // namespace ftar::device

#endif  // FTAR_DEVICE_ASIDE_H_
