#include "driver.h"

#include <cuda_runtime_api.h>

#include <string>

namespace ftar::device {
namespace {

Expected<Driver> LoadCalls() {
  Driver driver;
  cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
  cudaError_t error = cudaSuccess;
  const auto load = [&](const char* name, unsigned version, auto* call) {
    error = cudaGetDriverEntryPointByVersion(name, reinterpret_cast<void**>(call), version,
                                             cudaEnableDefault, &found);
    return error == cudaSuccess && found == cudaDriverEntryPointSuccess;
  };
#define FTAR_DRIVER_LOAD(name, version)                                                        \
  if (!load(#name, version, &driver.name)) {                                                   \
    const std::string why = error != cudaSuccess ? cudaGetErrorString(error) : "no such call"; \
    return Status(Code::kDevice, "no CUDA driver that serves here: " + why + " (" #name ")");  \
  }
  FTAR_DRIVER_CALLS(FTAR_DRIVER_LOAD)
#undef FTAR_DRIVER_LOAD
  if (!load("cuStreamGetGreenCtx", 12040, &driver.cuStreamGetGreenCtx))
    driver.cuStreamGetGreenCtx = nullptr;
  FTAR_RETURN_IF_ERROR(driver.ToStatus(driver.cuInit(0), "cuInit"));
  return driver;
}

}  // namespace

Expected<const Driver*> Driver::Load() {
  static const Expected<Driver> kDriver = LoadCalls();
  if (!kDriver.ok()) return kDriver.status();
  return &kDriver.value();
}

Status Driver::ToStatus(CUresult result, const char* what) const {
  if (result == CUDA_SUCCESS) return Status::Ok();
  const char* name = nullptr;
  const char* text = nullptr;
  cuGetErrorName(result, &name);
  cuGetErrorString(result, &text);
  const Code code = result == CUDA_ERROR_OUT_OF_MEMORY ? Code::kMemory : Code::kDevice;
  return Status(code, std::string(what) + ": " + (text != nullptr ? text : "unknown error") + " (" +
                          (name != nullptr ? name : std::to_string(result)) + ")");
}

CurrentContext::CurrentContext(const Driver& driver, CUcontext context)
    : driver_(driver),
      status_(driver.ToStatus(driver.cuCtxPushCurrent(context), "cuCtxPushCurrent")),
      relaxed_(driver) {}

CurrentContext::~CurrentContext() {
  CUcontext ours = nullptr;
  if (status_.ok()) driver_.cuCtxPopCurrent(&ours);
}

}  // namespace ftar::device
