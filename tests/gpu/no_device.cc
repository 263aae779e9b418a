// The device's memory, and what else ftar-gpu-fault asks of CUDA's runtime, over the GPU that is
// none: so that what the program does itself has run before there is a GPU.
#include <cuda_runtime_api.h>

#include "kernels/device.h"

namespace ftar::kernels {
namespace {

Status FromCuda(cudaError_t error) {
  return error == cudaSuccess ? Status::Ok() : Status(Code::kDevice, cudaGetErrorString(error));
}

}  // namespace

Expected<void*> DeviceSpace::Allocate(size_t bytes) {
  void* address = nullptr;
  FTAR_RETURN_IF_ERROR(FromCuda(cudaMalloc(&address, bytes)));
  return address;
}
Status DeviceSpace::Free(void* address) { return FromCuda(cudaFree(address)); }
Status DeviceSpace::CopyIn(void* to, const void* host, size_t bytes) {
  return Copy(to, host, bytes);
}
Status DeviceSpace::CopyOut(void* host, const void* from, size_t bytes) {
  return Copy(host, from, bytes);
}
Status DeviceSpace::Copy(void* to, const void* from, size_t bytes) {
  return FromCuda(cudaMemcpy(to, from, bytes, cudaMemcpyDefault));
}
Status DeviceSpace::Reduce(const reduce::SpaceReduction&) {
  return Status(Code::kUnsupported, "not in this program");
}

}  // namespace ftar::kernels

extern "C" cudaError_t CUDARTAPI cudaFreeAsync(void* address, cudaStream_t stream) {
  const cudaError_t reached = cudaStreamSynchronize(stream);
  return reached == cudaSuccess ? cudaFree(address) : reached;
}
extern "C" cudaError_t CUDARTAPI cudaMemGetInfo(size_t* free_bytes, size_t* all) {
  return *free_bytes = *all = size_t{1} << 30, cudaSuccess;
}
