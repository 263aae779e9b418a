// Copies, and the checksum alone.
#include "kernels/device_kernel.h"

namespace ftar::kernels {

void AddCopy(DeviceEntries* list) {
  DeviceLister lister(list);
  lister.AddCopies();
}

}  // namespace ftar::kernels
