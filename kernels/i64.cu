// The kernels of i64.
#include "kernels/device_kernel.h"

namespace ftar::kernels {

void AddI64(DeviceEntries* list) {
  DeviceLister lister(list);
  lister.AddType<I64>();
}

}  // namespace ftar::kernels
