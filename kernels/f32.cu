// The kernels of f32.
#include "kernels/device_kernel.h"

namespace ftar::kernels {

void AddF32(DeviceEntries* list) {
  DeviceLister lister(list);
  lister.AddType<F32>();
  lister.AddWide();
  lister.AddMeasuring<F32>();
}

}  // namespace ftar::kernels
