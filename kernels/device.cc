#include "kernels/device.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <vector>

namespace ftar::kernels {
namespace {

using reduce::Dtype;
using reduce::MemoryKind;
using reduce::Source;
using reduce::SpaceReduction;

Status FromCuda(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return Status::Ok();
  const Code code = error == cudaErrorMemoryAllocation ? Code::kMemory : Code::kDevice;
  return Status(code, std::string(what) + ": " + cudaGetErrorString(error));
}

cudaStream_t StreamOf(void* handle) { return static_cast<cudaStream_t>(handle); }
cudaEvent_t EventOf(void* handle) { return static_cast<cudaEvent_t>(handle); }

}  // namespace

Expected<DeviceFacts> CurrentDevice() {
  int count = 0;
  FTAR_RETURN_IF_ERROR(FromCuda(cudaGetDeviceCount(&count), "cudaGetDeviceCount"));
  if (count == 0) return Status(Code::kDevice, "this machine has no CUDA device");
  int device = 0;
  FTAR_RETURN_IF_ERROR(FromCuda(cudaGetDevice(&device), "cudaGetDevice"));
  cudaDeviceProp properties = {};
  FTAR_RETURN_IF_ERROR(
      FromCuda(cudaGetDeviceProperties(&properties, device), "cudaGetDeviceProperties"));
  size_t free_bytes = 0, total_bytes = 0;
  FTAR_RETURN_IF_ERROR(FromCuda(cudaMemGetInfo(&free_bytes, &total_bytes), "cudaMemGetInfo"));
  int driver = 0;
  FTAR_RETURN_IF_ERROR(FromCuda(cudaDriverGetVersion(&driver), "cudaDriverGetVersion"));
  return DeviceFacts{.name = properties.name,
                     .major = properties.major,
                     .minor = properties.minor,
                     .multiprocessors = properties.multiProcessorCount,
                     .cache_bytes = static_cast<uint64_t>(properties.l2CacheSize),
                     .free_bytes = free_bytes,
                     .driver = driver};
}

// --- Stream

Stream::~Stream() {
  if (start_ != nullptr) cudaEventDestroy(EventOf(start_));
  if (stop_ != nullptr) cudaEventDestroy(EventOf(stop_));
  if (stream_ != nullptr) cudaStreamDestroy(StreamOf(stream_));
}

Status Stream::Open() {
  cudaStream_t stream = nullptr;
  FTAR_RETURN_IF_ERROR(
      FromCuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate"));
  stream_ = stream;
  for (void** mark : {&start_, &stop_}) {
    cudaEvent_t event = nullptr;
    FTAR_RETURN_IF_ERROR(FromCuda(cudaEventCreate(&event), "cudaEventCreate"));
    *mark = event;
  }
  return Status::Ok();
}

Status Stream::Copy(void* to, const void* from, size_t bytes) {
  return FromCuda(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, StreamOf(stream_)),
                  "cudaMemcpyAsync");
}

Status Stream::Set(void* to, int value, size_t bytes) {
  return FromCuda(cudaMemsetAsync(to, value, bytes, StreamOf(stream_)), "cudaMemsetAsync");
}

Status Stream::Wait() {
  return FromCuda(cudaStreamSynchronize(StreamOf(stream_)), "cudaStreamSynchronize");
}

Status Stream::Start() {
  return FromCuda(cudaEventRecord(EventOf(start_), StreamOf(stream_)), "cudaEventRecord");
}

Status Stream::Stop() {
  return FromCuda(cudaEventRecord(EventOf(stop_), StreamOf(stream_)), "cudaEventRecord");
}

Expected<double> Stream::ElapsedMs() {
  FTAR_RETURN_IF_ERROR(FromCuda(cudaEventSynchronize(EventOf(stop_)), "cudaEventSynchronize"));
  float ms = 0;
  FTAR_RETURN_IF_ERROR(
      FromCuda(cudaEventElapsedTime(&ms, EventOf(start_), EventOf(stop_)), "cudaEventElapsedTime"));
  return static_cast<double>(ms);
}

// --- DeviceSpace

Expected<void*> DeviceSpace::Allocate(size_t bytes) {
  void* address = nullptr;
  const size_t some = std::max(bytes, size_t{1});
  if (kind_ == MemoryKind::kPinned) {
    // Pages are aligned to more than 256 bytes.
    FTAR_RETURN_IF_ERROR(
        FromCuda(cudaHostAlloc(&address, some, cudaHostAllocPortable | cudaHostAllocMapped),
                 "cudaHostAlloc"));
  } else {
    FTAR_RETURN_IF_ERROR(FromCuda(cudaMalloc(&address, some), "cudaMalloc"));
  }
  return address;
}

Status DeviceSpace::Free(void* address) {
  if (kind_ == MemoryKind::kPinned) return FromCuda(cudaFreeHost(address), "cudaFreeHost");
  return FromCuda(cudaFree(address), "cudaFree");
}

Status DeviceSpace::CopyIn(void* to, const void* host, size_t bytes) {
  return Copy(to, host, bytes);
}

Status DeviceSpace::CopyOut(void* host, const void* from, size_t bytes) {
  return Copy(host, from, bytes);
}

Status DeviceSpace::Copy(void* to, const void* from, size_t bytes) {
  FTAR_RETURN_IF_ERROR(FromCuda(cudaMemcpy(to, from, bytes, cudaMemcpyDefault), "cudaMemcpy"));
  // A copy within the device may still run when cudaMemcpy returns.
  return FromCuda(cudaStreamSynchronize(nullptr), "cudaStreamSynchronize");
}

Status DeviceSpace::Reduce(const SpaceReduction& reduction) {
  const Dtype accumulator = reduce::AccumulatorOf(reduction.dtype, reduction.redop);
  void* partial = nullptr;
  if (reduction.sources.size() > kMaxSources) {
    const Expected<void*> made = Allocate(reduction.count * reduce::ElementBytes(accumulator));
    if (!made.ok()) return made.status();
    partial = *made;
  }
  const Expected<std::vector<Plan>> plans = PlanTurns(reduction, partial);
  Status status = plans.status();
  for (size_t i = 0; status.ok() && i < plans.value().size(); ++i) {
    status = Launch(plans.value()[i], nullptr);
  }
  if (status.ok()) status = FromCuda(cudaStreamSynchronize(nullptr), "cudaStreamSynchronize");
  const Status freed = partial == nullptr ? Status::Ok() : Free(partial);
  return status.ok() ? freed : status;
}

}  // namespace ftar::kernels
