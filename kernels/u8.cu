// The kernels of u8.
#include "kernels/device_kernel.h"

namespace ftar::kernels {

void AddU8(DeviceEntries* list) {
  DeviceLister lister(list);
  lister.AddType<U8>();
  lister.AddAverage<AvgU8>();
}

}  // namespace ftar::kernels
