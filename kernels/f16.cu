// The kernels of f16.
#include "kernels/device_kernel.h"

namespace ftar::kernels {

void AddF16(DeviceEntries* list) {
  DeviceLister lister(list);
  lister.AddType<F16>();
}

}  // namespace ftar::kernels
