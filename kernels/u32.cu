// The kernels of u32.
#include "kernels/device_kernel.h"

namespace ftar::kernels {

void AddU32(DeviceEntries* list) {
  DeviceLister lister(list);
  lister.AddType<U32>();
  lister.AddAverage<AvgU32>();
}

}  // namespace ftar::kernels
