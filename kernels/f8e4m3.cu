// The kernels of f8e4m3.
#include "kernels/device_kernel.h"

namespace ftar::kernels {

void AddF8E4M3(DeviceEntries* list) {
  DeviceLister lister(list);
  lister.AddType<F8E4M3>();
}

}  // namespace ftar::kernels
