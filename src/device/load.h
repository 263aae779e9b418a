// Finds the library that knows the driver, at run time: libftar.so itself links none of CUDA.
#ifndef FTAR_DEVICE_LOAD_H_
#define FTAR_DEVICE_LOAD_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "base/status.h"
#include "device/gpu.h"

namespace ftar::device {

// What such a library exports. Both sides are built from one tree; the number guards against a
// libftar-cuda.so of another version. Null and a reason where there is no GPU that works.
inline constexpr uint32_t kGpuInterface = 5;
inline constexpr const char* kOpenGpuSymbol = "ftarOpenGpu";
using OpenGpuFunction = Gpu* (*)(uint32_t version, int32_t device, char* why, size_t why_bytes);
// What it answers without opening a GPU. False, and a reason, where no driver serves.
inline constexpr const char* kIdentifyPointerSymbol = "ftarIdentifyPointer";
using IdentifyPointerFunction = bool (*)(const void* address, PointerFacts* facts, char* why,
                                         size_t why_bytes);
inline constexpr const char* kDeviceOfStreamSymbol = "ftarDeviceOfStream";
using DeviceOfStreamFunction = int32_t (*)(StreamHandle stream);

// `library`: a path, or a name for the dynamic linker; "" is libftar-cuda.so beside libftar.so, and
// then by name. `device`: an ordinal; -1: the current one of this process. Fails with
// Code::kDevice. The library stays loaded for good: its kernels may still run.
Expected<std::unique_ptr<Gpu>> OpenGpu(const std::string& library, int32_t device);

// Before a GPU is open, so that the right one is: nothing is opened, and no context is made.
//
// What an address is. Fails with Code::kDevice where nobody can say.
Expected<PointerFacts> IdentifyPointer(const std::string& library, const void* address);
// The GPU's ordinal; -1: the default stream's, or unknown.
int32_t DeviceOfStream(const std::string& library, StreamHandle stream);

// Whether this process uses CUDA at all. Without it no address is a GPU's, and nothing is loaded.
bool DriverIsLoaded();

}  // namespace ftar::device

#endif  // FTAR_DEVICE_LOAD_H_
