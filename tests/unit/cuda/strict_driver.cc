#include "tests/unit/cuda/strict_driver.h"

#include <cuda_runtime_api.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace strict_driver {
namespace {

constexpr size_t kGranule = size_t{2} << 20;
constexpr auto kBroken = CUDA_ERROR_ILLEGAL_ADDRESS;

struct Allocation {
  size_t bytes = 0;
  bool exportable = false;
  int users = 0;  // handles and mappings
};
struct Reservation {
  size_t bytes = 0;
  CUmemGenericAllocationHandle mapped = 0;  // 0: nothing
  bool accessible = false;
};

std::mutex mutex;
std::map<CUmemGenericAllocationHandle, Allocation> allocations;
std::map<CUdeviceptr, Reservation> reservations;
std::map<ino_t, CUmemGenericAllocationHandle> shown;  // by descriptors
std::vector<std::pair<int, ino_t>> descriptors;
CUmemGenericAllocationHandle last_handle = 0;
CUdeviceptr next_address = CUdeviceptr{1} << 46;
bool capture_is_broken = false;

thread_local std::vector<CUcontext> t_contexts;
thread_local CUstreamCaptureMode t_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

const CUcontext kPrimary = reinterpret_cast<CUcontext>(0x1000);
const CUcontext kUsers = reinterpret_cast<CUcontext>(0x1008);

using Locked = std::lock_guard<std::mutex>;

CUresult NeedContext() {
  if (t_contexts.empty()) return CUDA_ERROR_INVALID_CONTEXT;
  return TheMachine().is_broken ? kBroken : CUDA_SUCCESS;
}

// What is "potentially unsafe" while somebody captures.
CUresult NeedRelaxed() {
  if (!TheMachine().captures || t_mode == CU_STREAM_CAPTURE_MODE_RELAXED) return CUDA_SUCCESS;
  capture_is_broken = true;
  return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}
CUresult NeedQuiet() {
  const CUresult relaxed = NeedRelaxed();
  return relaxed == CUDA_SUCCESS ? NeedContext() : relaxed;
}

void Drop(CUmemGenericAllocationHandle handle) {
  if (--allocations[handle].users == 0) allocations.erase(handle);
}

// ---- devices and contexts

CUresult Init(unsigned flags) { return flags == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE; }
CUresult DeviceGetCount(int* count) { return *count = 1, CUDA_SUCCESS; }
CUresult DeviceGet(CUdevice* device, int ordinal) {
  return *device = ordinal, ordinal == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}
CUresult DeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice) {
  const bool of_descriptors =
      attribute == CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED;
  return *value = of_descriptors ? TheMachine().has_descriptors : 1, CUDA_SUCCESS;
}
CUresult DeviceGetName(char* name, int bytes, CUdevice) {
  return std::strncpy(name, "strict", static_cast<size_t>(bytes)), CUDA_SUCCESS;
}
CUresult DeviceTotalMem(size_t* bytes, CUdevice) { return *bytes = 1 << 30, CUDA_SUCCESS; }
CUresult PrimaryState(CUdevice, unsigned* flags, int* active) {
  return *flags = 0, *active = 1, CUDA_SUCCESS;
}
CUresult PrimaryRetain(CUcontext* context, CUdevice) {
  if (TheMachine().is_broken) return kBroken;
  return *context = kPrimary, CUDA_SUCCESS;
}
CUresult PrimaryRelease(CUdevice) { return CUDA_SUCCESS; }
CUresult CtxGetCurrent(CUcontext* context) {
  return *context = t_contexts.empty() ? nullptr : t_contexts.back(), CUDA_SUCCESS;
}
CUresult CtxGetDevice(CUdevice* device) { return *device = 0, NeedContext(); }
CUresult CtxGetStreamPriorityRange(int* lowest, int* highest) {
  return *lowest = 0, *highest = -5, NeedContext();
}
CUresult CtxPush(CUcontext context) { return t_contexts.push_back(context), CUDA_SUCCESS; }
CUresult CtxPop(CUcontext* context) {
  if (t_contexts.empty()) return CUDA_ERROR_INVALID_CONTEXT;
  *context = t_contexts.back();
  return t_contexts.pop_back(), CUDA_SUCCESS;
}
CUresult ExchangeMode(CUstreamCaptureMode* mode) { return std::swap(*mode, t_mode), CUDA_SUCCESS; }
CUresult GetErrorName(CUresult, const char** name) { return *name = "CUDA_ERROR", CUDA_SUCCESS; }
CUresult GetErrorString(CUresult, const char** text) { return *text = "no", CUDA_SUCCESS; }

// ---- memory

CUresult MemGranularity(size_t* bytes, const CUmemAllocationProp*,
                        CUmemAllocationGranularity_flags) {
  return *bytes = kGranule, CUDA_SUCCESS;
}
CUresult MemCreate(CUmemGenericAllocationHandle* handle, size_t bytes,
                   const CUmemAllocationProp* properties, unsigned long long flags) {
  const Locked lock(mutex);
  const bool exportable = properties->requestedHandleTypes != CU_MEM_HANDLE_TYPE_NONE;
  if (exportable && !TheMachine().has_descriptors) return CUDA_ERROR_NOT_SUPPORTED;
  if (exportable && TheMachine().refuses_shared) return CUDA_ERROR_NOT_PERMITTED;
  if (bytes == 0 || bytes % kGranule != 0 || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  const CUresult allowed = NeedQuiet();
  if (allowed != CUDA_SUCCESS) return allowed;
  allocations[++last_handle] = {bytes, exportable, 1};
  return *handle = last_handle, CUDA_SUCCESS;
}
CUresult MemRelease(CUmemGenericAllocationHandle handle) {
  const Locked lock(mutex);
  if (!allocations.contains(handle)) return CUDA_ERROR_INVALID_VALUE;
  return Drop(handle), CUDA_SUCCESS;
}
CUresult MemExport(void* to, CUmemGenericAllocationHandle handle, CUmemAllocationHandleType type,
                   unsigned long long flags) {
  const Locked lock(mutex);
  const auto found = allocations.find(handle);
  if (found == allocations.end() || !found->second.exportable || flags != 0 ||
      type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
    return CUDA_ERROR_INVALID_VALUE;
  if (TheMachine().refuses_to_export) return CUDA_ERROR_NOT_PERMITTED;
  const int descriptor = memfd_create("strict", 0);
  struct stat info = {};
  fstat(descriptor, &info);
  shown[info.st_ino] = handle;
  descriptors.emplace_back(descriptor, info.st_ino);
  return *static_cast<int*>(to) = descriptor, CUDA_SUCCESS;
}
CUresult MemImport(CUmemGenericAllocationHandle* handle, void* from,
                   CUmemAllocationHandleType type) {
  const Locked lock(mutex);
  struct stat info = {};
  const auto descriptor = static_cast<int>(reinterpret_cast<intptr_t>(from));
  const bool is_one = type == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR &&
                      fstat(descriptor, &info) == 0 && shown.contains(info.st_ino);
  if (!is_one || !allocations.contains(shown[info.st_ino])) return CUDA_ERROR_INVALID_VALUE;
  ++allocations[shown[info.st_ino]].users;
  return *handle = shown[info.st_ino], CUDA_SUCCESS;
}
CUresult MemReserve(CUdeviceptr* address, size_t bytes, size_t, CUdeviceptr, unsigned long long) {
  const Locked lock(mutex);
  if (bytes == 0 || bytes % kGranule != 0) return CUDA_ERROR_INVALID_VALUE;
  reservations[next_address] = {bytes, 0, false};
  return *address = std::exchange(next_address, next_address + bytes), CUDA_SUCCESS;
}
CUresult MemAddressFree(CUdeviceptr address, size_t bytes) {
  const Locked lock(mutex);
  const auto found = reservations.find(address);
  if (found == reservations.end() || found->second.bytes != bytes || found->second.mapped != 0)
    return CUDA_ERROR_INVALID_VALUE;
  return reservations.erase(found), CUDA_SUCCESS;
}
CUresult MemMap(CUdeviceptr address, size_t bytes, size_t offset,
                CUmemGenericAllocationHandle handle, unsigned long long flags) {
  const Locked lock(mutex);
  const auto found = reservations.find(address);
  if (found == reservations.end() || found->second.mapped != 0 || offset != 0 || flags != 0 ||
      bytes != found->second.bytes || !allocations.contains(handle) ||
      bytes > allocations[handle].bytes)
    return CUDA_ERROR_INVALID_VALUE;
  ++allocations[handle].users;
  return found->second.mapped = handle, CUDA_SUCCESS;
}
CUresult MemSetAccess(CUdeviceptr address, size_t bytes, const CUmemAccessDesc* access,
                      size_t count) {
  const Locked lock(mutex);
  const auto found = reservations.find(address);
  if (found == reservations.end() || found->second.mapped == 0 || bytes != found->second.bytes ||
      count != 1 || access->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
    return CUDA_ERROR_INVALID_VALUE;
  if (access->flags == CU_MEM_ACCESS_FLAGS_PROT_READ && !TheMachine().maps_read_only)
    return CUDA_ERROR_NOT_SUPPORTED;
  return found->second.accessible = true, NeedContext();
}
CUresult MemUnmap(CUdeviceptr address, size_t bytes) {
  const Locked lock(mutex);
  const auto found = reservations.find(address);
  if (found == reservations.end() || found->second.mapped == 0 || bytes != found->second.bytes)
    return CUDA_ERROR_INVALID_VALUE;
  Drop(std::exchange(found->second.mapped, 0));
  return NeedContext();
}
// What is pinned is kept for whoever comes next, on any GPU.
CUresult MemHostAlloc(void** address, size_t bytes, unsigned flags) {
  const CUresult allowed = NeedQuiet();
  if (allowed != CUDA_SUCCESS) return allowed;
  if ((flags & CU_MEMHOSTALLOC_PORTABLE) == 0) return CUDA_ERROR_INVALID_VALUE;
  // No page begins there, as the documentation does not say that one does.
  return *address = static_cast<char*>(std::malloc(bytes + 64)) + 64, CUDA_SUCCESS;
}
CUresult MemAddressRange(CUdeviceptr* base, size_t* bytes, CUdeviceptr at) {
  const Locked lock(mutex);
  auto next = reservations.upper_bound(at);
  if (next == reservations.begin()) return CUDA_ERROR_NOT_FOUND;
  --next;
  const bool inside = at - next->first < next->second.bytes && next->second.accessible;
  return *base = next->first, *bytes = next->second.bytes,
         inside ? NeedContext() : CUDA_ERROR_NOT_FOUND;
}
CUresult MemHandleForRange(void*, CUdeviceptr, size_t, CUmemRangeHandleType, unsigned long long) {
  return CUDA_ERROR_NOT_SUPPORTED;
}
// Zeros for what it does not know.
CUresult PointerAttributes(unsigned count, CUpointer_attribute* asked, void** answers,
                           CUdeviceptr at) {
  const CUresult allowed = NeedContext();
  if (allowed != CUDA_SUCCESS) return allowed;
  CUdeviceptr base = 0;
  size_t bytes = 0;
  const bool known = MemAddressRange(&base, &bytes, at) == CUDA_SUCCESS;
  for (unsigned i = 0; i < count; ++i) {
    const bool of_address =
        asked[i] == CU_POINTER_ATTRIBUTE_DEVICE_POINTER || asked[i] == CU_POINTER_ATTRIBUTE_CONTEXT;
    std::memset(answers[i], 0, of_address ? sizeof(CUdeviceptr) : sizeof(int));
    if (known && asked[i] == CU_POINTER_ATTRIBUTE_CONTEXT)
      *static_cast<CUcontext*>(answers[i]) = TheMachine().owner;
    if (known && asked[i] == CU_POINTER_ATTRIBUTE_MEMORY_TYPE)
      *static_cast<unsigned*>(answers[i]) = CU_MEMORYTYPE_DEVICE;
  }
  return CUDA_SUCCESS;
}

// ---- streams

// Another one would wait for what its user puts onto the default stream.
CUresult StreamCreate(CUstream* stream, unsigned flags, int) {
  if (flags != CU_STREAM_NON_BLOCKING) return CUDA_ERROR_INVALID_VALUE;
  return *stream = reinterpret_cast<CUstream>(0x2000), NeedContext();
}
CUresult StreamDestroy(CUstream) { return NeedContext(); }
CUresult StreamQuery(CUstream) { return NeedQuiet(); }
// Of the default stream it may be unsafe, as far as the documentation goes.
CUresult StreamGetCtx(CUstream stream, CUcontext* context) {
  const CUresult allowed = NeedRelaxed();
  if (allowed != CUDA_SUCCESS) return allowed;
  if (stream > CU_STREAM_PER_THREAD) return *context = TheMachine().streams_owner, CUDA_SUCCESS;
  if (t_contexts.empty()) return CUDA_ERROR_INVALID_CONTEXT;
  return *context = t_contexts.back(), CUDA_SUCCESS;
}
CUresult StreamGetGreen(CUstream stream, CUgreenCtx* green) {
  CUcontext owner = nullptr;
  const CUresult known = StreamGetCtx(stream, &owner);
  if (known != CUDA_SUCCESS) return known;
  const bool is_green = owner == kUsers && TheMachine().is_green;
  return *green = is_green ? reinterpret_cast<CUgreenCtx>(0x1010) : nullptr, CUDA_SUCCESS;
}
CUresult StreamIsCapturing(CUstream, CUstreamCaptureStatus* status) {
  return *status = CU_STREAM_CAPTURE_STATUS_NONE, NeedContext();
}
CUresult StreamBatch(CUstream, unsigned count, CUstreamBatchMemOpParams* ops, unsigned flags) {
  const bool known = std::all_of(ops, ops + count, [](const CUstreamBatchMemOpParams& op) {
    const bool waits = op.operation == CU_STREAM_MEM_OP_WAIT_VALUE_32;
    const unsigned how = waits ? op.waitValue.flags : op.writeValue.flags;
    if (waits) return how <= CU_STREAM_WAIT_VALUE_NOR && op.waitValue.address % 4 == 0;
    return op.operation == CU_STREAM_MEM_OP_WRITE_VALUE_32 &&
           how == CU_STREAM_WRITE_VALUE_DEFAULT && op.writeValue.address % 4 == 0;
  });
  return known && count < 256 && flags == 0 ? NeedContext() : CUDA_ERROR_INVALID_VALUE;
}
CUresult StreamWrite64(CUstream, CUdeviceptr at, cuuint64_t, unsigned) {
  return at % 8 == 0 ? NeedContext() : CUDA_ERROR_INVALID_VALUE;
}

#define CALL(name, call) \
  { #name, reinterpret_cast < void*>(static_cast <decltype(&::name)>(call)) }
const std::map<std::string, void*> kCalls = {
    CALL(cuCtxGetCurrent, CtxGetCurrent),
    CALL(cuCtxGetDevice, CtxGetDevice),
    CALL(cuCtxGetStreamPriorityRange, CtxGetStreamPriorityRange),
    CALL(cuCtxPopCurrent, CtxPop),
    CALL(cuCtxPushCurrent, CtxPush),
    CALL(cuDeviceGet, DeviceGet),
    CALL(cuDeviceGetAttribute, DeviceGetAttribute),
    CALL(cuDeviceGetCount, DeviceGetCount),
    CALL(cuDeviceGetName, DeviceGetName),
    CALL(cuDevicePrimaryCtxGetState, PrimaryState),
    CALL(cuDevicePrimaryCtxRelease, PrimaryRelease),
    CALL(cuDevicePrimaryCtxRetain, PrimaryRetain),
    CALL(cuDeviceTotalMem, DeviceTotalMem),
    CALL(cuGetErrorName, GetErrorName),
    CALL(cuGetErrorString, GetErrorString),
    CALL(cuInit, Init),
    CALL(cuMemAddressFree, MemAddressFree),
    CALL(cuMemAddressReserve, MemReserve),
    CALL(cuMemCreate, MemCreate),
    CALL(cuMemExportToShareableHandle, MemExport),
    CALL(cuMemGetAddressRange, MemAddressRange),
    CALL(cuMemGetAllocationGranularity, MemGranularity),
    CALL(cuMemGetHandleForAddressRange, MemHandleForRange),
    CALL(cuMemHostAlloc, MemHostAlloc),
    CALL(cuMemImportFromShareableHandle, MemImport),
    CALL(cuMemMap, MemMap),
    CALL(cuMemRelease, MemRelease),
    CALL(cuMemSetAccess, MemSetAccess),
    CALL(cuMemUnmap, MemUnmap),
    CALL(cuPointerGetAttributes, PointerAttributes),
    CALL(cuStreamBatchMemOp, StreamBatch),
    CALL(cuStreamCreateWithPriority, StreamCreate),
    CALL(cuStreamDestroy, StreamDestroy),
    CALL(cuStreamGetCtx, StreamGetCtx),
    CALL(cuStreamGetGreenCtx, StreamGetGreen),
    CALL(cuStreamIsCapturing, StreamIsCapturing),
    CALL(cuStreamQuery, StreamQuery),
    CALL(cuStreamWriteValue64, StreamWrite64),
    CALL(cuThreadExchangeStreamCaptureMode, ExchangeMode),
};
#undef CALL

}  // namespace

Machine::Machine() : streams_owner(kPrimary) {}
CUcontext PrimaryContext() { return kPrimary; }
CUcontext UsersContext() { return kUsers; }

Machine& TheMachine() {
  static Machine machine;
  return machine;
}

size_t Allocations() {
  const Locked lock(mutex);
  return allocations.size();
}
size_t Reservations() {
  const Locked lock(mutex);
  return reservations.size();
}
size_t OpenDescriptors() {
  const Locked lock(mutex);
  return static_cast<size_t>(
      std::count_if(descriptors.begin(), descriptors.end(), [](const auto& given) {
        struct stat info = {};
        return fstat(given.first, &info) == 0 && info.st_ino == given.second;
      }));
}
size_t CurrentContexts() { return t_contexts.size(); }
CUstreamCaptureMode ModeOfThread() { return t_mode; }
bool CaptureIsBroken() { return std::exchange(capture_is_broken, false); }

}  // namespace strict_driver

// ---- of the runtime, what looks for the driver

extern "C" cudaError_t CUDARTAPI
cudaGetDriverEntryPointByVersion(const char* symbol, void** function, unsigned, unsigned long long,
                                 cudaDriverEntryPointQueryResult* found) {
  const auto call = strict_driver::kCalls.find(symbol);
  const bool known = call != strict_driver::kCalls.end();
  *function = known ? call->second : nullptr;
  *found = known ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
  return cudaSuccess;
}
extern "C" const char* CUDARTAPI cudaGetErrorString(cudaError_t) { return "an error"; }
