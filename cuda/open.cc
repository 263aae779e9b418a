// What libftar-cuda.so exports (src/device/load.h).
#include <cstdio>
#include <exception>

#include "cuda_gpu.h"
#include "device/load.h"

extern "C" __attribute__((visibility("default"))) ftar::device::Gpu* ftarOpenGpu(uint32_t version,
                                                                                 int32_t device,
                                                                                 char* why,
                                                                                 size_t why_bytes) {
  using namespace ftar::device;
  if (version != kGpuInterface) {
    std::snprintf(why, why_bytes, "libftar-cuda.so knows interface %u, libftar.so asks for %u",
                  kGpuInterface, version);
    return nullptr;
  }
  try {
    auto gpu = CudaGpu::Open(device);
    if (gpu.ok()) return std::move(*gpu).release();
    std::snprintf(why, why_bytes, "%s", gpu.status().text().c_str());
  } catch (const std::exception& e) {
    std::snprintf(why, why_bytes, "%s", e.what());
  }
  return nullptr;
}

extern "C" __attribute__((visibility("default"))) bool ftarIdentifyPointer(
    const void* address, ftar::device::PointerFacts* facts, char* why, size_t why_bytes) {
  using namespace ftar::device;
  const auto driver = Driver::Load();
  if (!driver.ok()) {
    std::snprintf(why, why_bytes, "%s", driver.status().text().c_str());
    return false;
  }
  *facts = IdentifyPointer(**driver, address);
  return true;
}

extern "C" __attribute__((visibility("default"))) int32_t ftarDeviceOfStream(
    ftar::device::StreamHandle stream) {
  const auto driver = ftar::device::Driver::Load();
  return driver.ok() ? ftar::device::DeviceOfStream(**driver, stream) : -1;
}

static_assert(std::is_same_v<decltype(&ftarOpenGpu), ftar::device::OpenGpuFunction>);
static_assert(
    std::is_same_v<decltype(&ftarIdentifyPointer), ftar::device::IdentifyPointerFunction>);
static_assert(std::is_same_v<decltype(&ftarDeviceOfStream), ftar::device::DeviceOfStreamFunction>);
