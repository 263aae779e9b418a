// The driver's own interface, found at run time: libftar-cuda.so needs no libcuda.so to be loaded.
//
// The driver keeps no "last error" of a thread, so nothing here shows up in what a user's thread
// asks its CUDA runtime for. Constant once it is loaded; any thread may call.
#ifndef FTAR_CUDA_DRIVER_H_
#define FTAR_CUDA_DRIVER_H_

#include <cuda.h>

#include "base/status.h"

namespace ftar::device {

#define FTAR_DRIVER_CALLS(X)        \
  X(cuCtxGetCurrent)                \
  X(cuCtxGetDevice)                 \
  X(cuCtxPopCurrent)                \
  X(cuCtxPushCurrent)               \
  X(cuCtxGetStreamPriorityRange)    \
  X(cuDeviceGet)                    \
  X(cuDeviceGetAttribute)           \
  X(cuDeviceGetCount)               \
  X(cuDeviceGetName)                \
  X(cuDevicePrimaryCtxRelease)      \
  X(cuDevicePrimaryCtxRetain)       \
  X(cuDeviceTotalMem)               \
  X(cuGetErrorName)                 \
  X(cuGetErrorString)               \
  X(cuInit)                         \
  X(cuMemAddressFree)               \
  X(cuMemAddressReserve)            \
  X(cuMemCreate)                    \
  X(cuMemExportToShareableHandle)   \
  X(cuMemFreeHost)                  \
  X(cuMemGetAddressRange)           \
  X(cuMemGetAllocationGranularity)  \
  X(cuMemHostAlloc)                 \
  X(cuMemImportFromShareableHandle) \
  X(cuMemMap)                       \
  X(cuMemRelease)                   \
  X(cuMemSetAccess)                 \
  X(cuMemUnmap)                     \
  X(cuMemcpyAsync)                  \
  X(cuPointerGetAttributes)         \
  X(cuStreamCreateWithPriority)     \
  X(cuStreamDestroy)                \
  X(cuStreamIsCapturing)            \
  X(cuStreamQuery)                  \
  X(cuStreamWaitValue32)            \
  X(cuStreamWriteValue32)           \
  X(cuStreamWriteValue64)           \
  X(cuThreadExchangeStreamCaptureMode)

// Some names are macros for a later version of the call; member and call are replaced alike.
struct Driver {
#define FTAR_DRIVER_MEMBER(name) decltype(&::name) name = nullptr;
  FTAR_DRIVER_CALLS(FTAR_DRIVER_MEMBER)
#undef FTAR_DRIVER_MEMBER

  // Once a process; Code::kDevice and the reason where there is no driver, or one that is too old.
  static Expected<const Driver*> Load();

  // Code::kMemory where there is none left, else kDevice, with the driver's words.
  Status ToStatus(CUresult result, const char* what) const;
};

// A context is current in this thread as long as the object lives; then the user's is again. The
// driver's calls of this thread break no capture of a graph meanwhile, whoever captures.
class CurrentContext {
 public:
  CurrentContext(const Driver& driver, CUcontext context);
  ~CurrentContext();
  CurrentContext(const CurrentContext&) = delete;
  CurrentContext& operator=(const CurrentContext&) = delete;
  const Status& status() const { return status_; }

 private:
  const Driver& driver_;
  Status status_;
  CUstreamCaptureMode mode_ = CU_STREAM_CAPTURE_MODE_RELAXED;
};

}  // namespace ftar::device

#endif  // FTAR_CUDA_DRIVER_H_
