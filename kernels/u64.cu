// The kernels of u64.
#include "kernels/device_kernel.h"

namespace ftar::kernels {

void AddU64(DeviceEntries* list) {
  DeviceLister lister(list);
  lister.AddType<U64>();
}

}  // namespace ftar::kernels
