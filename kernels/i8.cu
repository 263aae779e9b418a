// The kernels of i8.
#include "kernels/device_kernel.h"

namespace ftar::kernels {

void AddI8(DeviceEntries* list) {
  DeviceLister lister(list);
  lister.AddType<I8>();
  lister.AddAverage<AvgI8>();
}

}  // namespace ftar::kernels
