#include "kernels/launch.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <string>

#include "kernels/device_entries.h"
#include "kernels/resident_launch.h"

namespace ftar::kernels {
namespace {

DeviceEntries MakeList() {
  DeviceEntries list;
  for (auto add : {AddF32, AddF64, AddF16, AddBF16, AddF8E4M3, AddF8E5M2, AddI8, AddU8, AddI32,
                   AddU32, AddI64, AddU64, AddCopy}) {
    add(&list);
  }
  return list;
}

const DeviceEntries& List() {
  static const DeviceEntries kList = MakeList();
  return kList;
}

Expected<const void*> Find(const Id& id) {
  const auto entry =
      std::find_if(List().begin(), List().end(), [&id](const auto& e) { return e.id == id; });
  if (entry == List().end()) return Status(Code::kUnsupported, "no such kernel");
  return reinterpret_cast<const void*>(entry->function);
}

Status FromCuda(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return Status::Ok();
  return Status(Code::kDevice, std::string(what) + ": " + cudaGetErrorString(error));
}

Status LaunchShape(const void* kernel, int blocks, int threads, void** arguments, void* stream,
                   FenceDomain domain) {
  cudaLaunchAttribute attribute = {};
  attribute.id = cudaLaunchAttributeMemSyncDomain;
  attribute.val.memSyncDomain = domain == FenceDomain::kRemote ? cudaLaunchMemSyncDomainRemote
                                                               : cudaLaunchMemSyncDomainDefault;
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(static_cast<unsigned>(blocks));
  config.blockDim = dim3(static_cast<unsigned>(threads));
  config.stream = static_cast<cudaStream_t>(stream);
  config.attrs = &attribute;
  config.numAttrs = 1;
  return FromCuda(cudaLaunchKernelExC(&config, kernel, arguments), "cudaLaunchKernelExC");
}

}  // namespace

Status Launch(const Batch& batch, void* stream, FenceDomain domain) {
  if (batch.blocks == 0) return Status::Ok();
  const Expected<const void*> kernel = Find(batch.id);
  if (!kernel.ok()) return kernel.status();
  // Copied by the launch.
  void* arguments[] = {const_cast<Jobs*>(&batch.jobs)};
  return LaunchShape(kernel.value(), batch.blocks, batch.threads, arguments, stream, domain);
}

Status LaunchResident(void* control, int blocks, void* stream) {
  void* arguments[] = {&control};
  return LaunchShape(ResidentFunction(), blocks, kMaxThreads, arguments, stream,
                     FenceDomain::kRemote);
}

Expected<Resources> ResourcesOf(const Id& id) {
  const Expected<const void*> kernel = Find(id);
  if (!kernel.ok()) return kernel.status();
  cudaFuncAttributes attributes = {};
  FTAR_RETURN_IF_ERROR(
      FromCuda(cudaFuncGetAttributes(&attributes, kernel.value()), "cudaFuncGetAttributes"));
  return Resources{.registers = attributes.numRegs, .local_bytes = attributes.localSizeBytes};
}

Status LoadAll() {
  for (const auto& entry : List()) {
    // Asking for a kernel's attributes loads it.
    const Expected<Resources> resources = ResourcesOf(entry.id);
    if (!resources.ok()) return resources.status();
  }
  cudaFuncAttributes attributes = {};
  return FromCuda(cudaFuncGetAttributes(&attributes, ResidentFunction()), "cudaFuncGetAttributes");
}

}  // namespace ftar::kernels
