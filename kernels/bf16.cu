// The kernels of bf16.
#include "kernels/device_kernel.h"

namespace ftar::kernels {

void AddBF16(DeviceEntries* list) {
  DeviceLister lister(list);
  lister.AddType<BF16>();
  lister.AddMeasuring<BF16>();
}

}  // namespace ftar::kernels
