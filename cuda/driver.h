// The driver's own interface, found at run time: libftar-cuda.so needs no libcuda.so to be loaded.
//
// The driver keeps no "last error" of a thread, so nothing here shows up in what a user's thread
// asks its CUDA runtime for. Constant once it is loaded; any thread may call.
#ifndef FTAR_CUDA_DRIVER_H_
#define FTAR_CUDA_DRIVER_H_

#include <cuda.h>
#include <cudaTypedefs.h>

#include <type_traits>

#include "base/status.h"

namespace ftar::device {

// With the version of CUDA whose form of the call its header declares. The driver gives out the
// form that is asked for, and a later one of the same name may have other parameters
// (cuCtxGetDevice).
#define FTAR_DRIVER_CALLS(X)               \
  X(cuCtxGetCurrent, 4000)                 \
  X(cuCtxGetDevice, 2000)                  \
  X(cuCtxGetStreamPriorityRange, 5050)     \
  X(cuCtxPopCurrent, 4000)                 \
  X(cuCtxPushCurrent, 4000)                \
  X(cuDeviceGet, 2000)                     \
  X(cuDeviceGetAttribute, 2000)            \
  X(cuDeviceGetCount, 2000)                \
  X(cuDeviceGetName, 2000)                 \
  X(cuDevicePrimaryCtxGetState, 7000)      \
  X(cuDevicePrimaryCtxRelease, 11000)      \
  X(cuDevicePrimaryCtxRetain, 7000)        \
  X(cuDeviceTotalMem, 3020)                \
  X(cuGetErrorName, 6000)                  \
  X(cuGetErrorString, 6000)                \
  X(cuInit, 2000)                          \
  X(cuMemAddressFree, 10020)               \
  X(cuMemAddressReserve, 10020)            \
  X(cuMemCreate, 10020)                    \
  X(cuMemExportToShareableHandle, 10020)   \
  X(cuMemGetAddressRange, 3020)            \
  X(cuMemGetAllocationGranularity, 10020)  \
  X(cuMemGetHandleForAddressRange, 11070)  \
  X(cuMemHostAlloc, 2020)                  \
  X(cuMemImportFromShareableHandle, 10020) \
  X(cuMemMap, 10020)                       \
  X(cuMemRelease, 10020)                   \
  X(cuMemSetAccess, 10020)                 \
  X(cuMemUnmap, 10020)                     \
  X(cuPointerGetAttributes, 7000)          \
  X(cuStreamBatchMemOp, 11070)             \
  X(cuStreamCreateWithPriority, 5050)      \
  X(cuStreamDestroy, 4000)                 \
  X(cuStreamGetCtx, 9020)                  \
  X(cuStreamIsCapturing, 10000)            \
  X(cuStreamQuery, 2000)                   \
  X(cuStreamWriteValue64, 11070)           \
  X(cuThreadExchangeStreamCaptureMode, 10010)

// Some names are macros for a later version of the call; member and call are replaced alike.
struct Driver {
#define FTAR_DRIVER_MEMBER(name, version)                                                       \
  static_assert(std::is_same_v<decltype(&::name), PFN_##name##_v##version>, "another version"); \
  decltype(&::name) name = nullptr;
  FTAR_DRIVER_CALLS(FTAR_DRIVER_MEMBER)
#undef FTAR_DRIVER_MEMBER
  // Null where the driver is older than what it asks for (CUDA 12.4).
  PFN_cuStreamGetGreenCtx_v12040 cuStreamGetGreenCtx = nullptr;

  // Once a process; Code::kDevice and the reason where there is no driver, or one that is too old.
  static Expected<const Driver*> Load();

  // Code::kMemory where there is none left, else kDevice, with the driver's words.
  Status ToStatus(CUresult result, const char* what) const;
};

// The driver's calls of this thread break no capture of a graph as long as the object lives,
// whoever captures.
class RelaxedCapture {
 public:
  explicit RelaxedCapture(const Driver& driver) : driver_(driver) { Exchange(); }
  ~RelaxedCapture() { Exchange(); }
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;

 private:
  void Exchange() { driver_.cuThreadExchangeStreamCaptureMode(&mode_); }

  const Driver& driver_;
  CUstreamCaptureMode mode_ = CU_STREAM_CAPTURE_MODE_RELAXED;
};

// A context is current in this thread as long as the object lives; then the user's is again.
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
  RelaxedCapture relaxed_;
};

}  // namespace ftar::device

#endif  // FTAR_CUDA_DRIVER_H_
