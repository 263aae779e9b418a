// The kernels of f8e5m2.
#include "kernels/device_kernel.h"

namespace ftar::kernels {

void AddF8E5M2(DeviceEntries* list) {
  DeviceLister lister(list);
  lister.AddType<F8E5M2>();
}

}  // namespace ftar::kernels
