// Where each .cu file tells its kernels: one function a file. Constant after start.
#ifndef FTAR_KERNELS_DEVICE_ENTRIES_H_
#define FTAR_KERNELS_DEVICE_ENTRIES_H_

#include "kernels/variants.h"

namespace ftar::kernels {

using DeviceFunction = void (*)(Jobs);
using DeviceEntries = Entries<DeviceFunction>;

void AddF32(DeviceEntries* list);
void AddF64(DeviceEntries* list);
void AddF16(DeviceEntries* list);
void AddBF16(DeviceEntries* list);
void AddF8E4M3(DeviceEntries* list);
void AddF8E5M2(DeviceEntries* list);
void AddI8(DeviceEntries* list);
void AddU8(DeviceEntries* list);
void AddI32(DeviceEntries* list);
void AddU32(DeviceEntries* list);
void AddI64(DeviceEntries* list);
void AddU64(DeviceEntries* list);
void AddCopy(DeviceEntries* list);

}  // namespace ftar::kernels

#endif  // FTAR_KERNELS_DEVICE_ENTRIES_H_
