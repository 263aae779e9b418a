// The kernels of i32.
#include "kernels/device_kernel.h"

namespace ftar::kernels {

void AddI32(DeviceEntries* list) {
  DeviceLister lister(list);
  lister.AddType<I32>();
  lister.AddAverage<AvgI32>();
}

}  // namespace ftar::kernels
