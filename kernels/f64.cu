// The kernels of f64.
#include "kernels/device_kernel.h"

namespace ftar::kernels {

void AddF64(DeviceEntries* list) {
  DeviceLister lister(list);
  lister.AddType<F64>();
}

}  // namespace ftar::kernels
