#include "cuda_gpu.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "kernels/launch.h"

namespace ftar::device {
namespace {

CUdeviceptr ToDevice(const void* address) { return reinterpret_cast<CUdeviceptr>(address); }
void* ToHost(CUdeviceptr address) { return reinterpret_cast<void*>(address); }

CUstreamBatchMemOpParams StreamWrites(uint32_t* word, uint32_t value) {
  CUstreamBatchMemOpParams out = {};
  out.writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
  out.writeValue.address = ToDevice(word);
  out.writeValue.value = value;
  out.writeValue.flags = CU_STREAM_WRITE_VALUE_DEFAULT;
  return out;
}

CUstreamBatchMemOpParams StreamAwaits(uint32_t* word, uint32_t value) {
  CUstreamBatchMemOpParams out = {};
  out.waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
  out.waitValue.address = ToDevice(word);
  out.waitValue.value = value;
  out.waitValue.flags = CU_STREAM_WAIT_VALUE_EQ;
  return out;
}

// As the driver reads it when the context is made.
size_t Queues() {
  constexpr long kUsual = 8, kMost = 32;
  const char* value = std::getenv("CUDA_DEVICE_MAX_CONNECTIONS");
  const long wished = value == nullptr ? kUsual : std::strtol(value, nullptr, 10);
  return static_cast<size_t>(wished < 1 ? kUsual : std::min(wished, kMost));
}

// With it every launch waits until the kernel has ended.
bool LaunchesBlock() {
  const char* value = std::getenv("CUDA_LAUNCH_BLOCKING");
  return value != nullptr && *value != '\0' && std::strcmp(value, "0") != 0;
}

constexpr size_t kPinnedPage = 4096;

// Pinned memory that was given back. The driver would wait for all kernels of the device before it
// took it, the resident ones of other users among them; so it is kept for the next who asks.
class PinnedPool {
 public:
  void* Take(size_t bytes) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto place = free_.lower_bound(bytes);
    // Not a large piece for a small wish.
    if (place == free_.end() || place->first > 2 * bytes) return nullptr;
    void* const address = place->second;
    bytes_[address] = place->first;
    free_.erase(place);
    return address;
  }
  void Own(void* address, size_t bytes) {
    const std::lock_guard<std::mutex> lock(mutex_);
    bytes_[address] = bytes;
  }
  bool GiveBack(void* address) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto place = bytes_.find(address);
    if (place == bytes_.end()) return false;
    free_.emplace(place->second, address);
    bytes_.erase(place);
    return true;
  }

 private:
  std::mutex mutex_;
  std::map<void*, size_t> bytes_;  // in use
  std::multimap<size_t, void*> free_;
};

// Never destroyed: the process ends with it.
PinnedPool& Pool() {
  static PinnedPool* const pool = new PinnedPool;
  return *pool;
}

// The pool's memory is the context's that it was allocated in: whoever opens a GPU after the last
// one was closed must find it there. Once a device and process, and never given back.
void KeepContext(const Driver& driver, CUdevice device) {
  static auto* const kept_mutex = new std::mutex;
  static auto* const kept = new std::set<CUdevice>;
  const std::lock_guard<std::mutex> lock(*kept_mutex);
  CUcontext context = nullptr;
  if (!kept->insert(device).second) return;
  driver.cuDevicePrimaryCtxRetain(&context, device);
}

// By the calling thread's context: kUnknown if it has none, or one that is broken.
// `owner`: the context that the memory is of; null where it is of none, as what is mapped.
PointerFacts Ask(const Driver& driver, const void* address, CUcontext* owner) {
  CUmemorytype type = static_cast<CUmemorytype>(0);
  int ordinal = -1;
  unsigned managed = 0;
  CUdeviceptr seen = 0;
  CUpointer_attribute asked[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                 CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
                                 CU_POINTER_ATTRIBUTE_IS_MANAGED,
                                 CU_POINTER_ATTRIBUTE_DEVICE_POINTER, CU_POINTER_ATTRIBUTE_CONTEXT};
  void* answers[] = {&type, &ordinal, &managed, &seen, owner};
  // Answers zeros for an address that the driver does not know.
  const CUresult result = driver.cuPointerGetAttributes(5, asked, answers, ToDevice(address));
  if (result != CUDA_SUCCESS) return {.kind = PointerKind::kUnknown};
  if (managed != 0) return {.kind = PointerKind::kManaged, .device = ordinal};
  if (type == CU_MEMORYTYPE_DEVICE) return {.kind = PointerKind::kDevice, .device = ordinal};
  if (type == CU_MEMORYTYPE_HOST && seen == ToDevice(address)) {
    return {.kind = PointerKind::kPinned, .device = ordinal};
  }
  return {};
}

}  // namespace

// ---- without a GPU that is open

// Any context knows the memory of all: one that the process has already is borrowed where the
// thread has none. Where there is none at all nothing is a GPU's.
PointerFacts IdentifyPointer(const Driver& driver, const void* address) {
  CUcontext users = nullptr;
  PointerFacts facts = Ask(driver, address, &users);
  int count = 0;
  if (facts.kind != PointerKind::kUnknown) return facts;
  if (driver.cuDeviceGetCount(&count) != CUDA_SUCCESS) return facts;
  bool any = driver.cuCtxGetCurrent(&users) == CUDA_SUCCESS && users != nullptr;
  for (CUdevice device = 0; device < count && facts.kind == PointerKind::kUnknown; ++device) {
    unsigned flags = 0;
    int active = 0;
    CUcontext context = nullptr;
    if (driver.cuDevicePrimaryCtxGetState(device, &flags, &active) != CUDA_SUCCESS || active == 0)
      continue;
    any = true;  // also if it is broken, and cannot be had
    if (driver.cuDevicePrimaryCtxRetain(&context, device) != CUDA_SUCCESS) continue;
    {
      const CurrentContext current(driver, context);
      if (current.status().ok()) facts = Ask(driver, address, &context);
    }
    driver.cuDevicePrimaryCtxRelease(device);
  }
  return any ? facts : PointerFacts();
}

// The default stream is every GPU's, and its context the calling thread's.
int32_t DeviceOfStream(const Driver& driver, StreamHandle stream) {
  CUcontext context = nullptr;
  CUdevice device = -1;
  const RelaxedCapture relaxed(driver);
  if (driver.cuStreamGetCtx(static_cast<CUstream>(stream), &context) != CUDA_SUCCESS) return -1;
  const CurrentContext current(driver, context);
  if (!current.status().ok() || driver.cuCtxGetDevice(&device) != CUDA_SUCCESS) return -1;
  return device;
}

// ---- life

Expected<std::unique_ptr<Gpu>> CudaGpu::Open(int32_t device) {
  const Expected<const Driver*> loaded = Driver::Load();
  if (!loaded.ok()) return loaded.status();
  const Driver& driver = **loaded;
  int count = 0;
  FTAR_RETURN_IF_ERROR(driver.ToStatus(driver.cuDeviceGetCount(&count), "cuDeviceGetCount"));
  CUdevice handle = 0;
  CUcontext users = nullptr;
  if (device < 0 && driver.cuCtxGetCurrent(&users) == CUDA_SUCCESS && users != nullptr) {
    FTAR_RETURN_IF_ERROR(driver.ToStatus(driver.cuCtxGetDevice(&handle), "cuCtxGetDevice"));
  } else {
    const int ordinal = device < 0 ? 0 : device;
    if (ordinal >= count) {
      return Status(Code::kDevice, "device " + std::to_string(ordinal) + " of " +
                                       std::to_string(count) + " that CUDA sees here");
    }
    FTAR_RETURN_IF_ERROR(driver.ToStatus(driver.cuDeviceGet(&handle, ordinal), "cuDeviceGet"));
  }
  std::unique_ptr<CudaGpu> gpu(new CudaGpu(&driver, handle));
  FTAR_RETURN_IF_ERROR(gpu->Start());
  return std::unique_ptr<Gpu>(std::move(gpu));
}

Status CudaGpu::Start() {
  FTAR_RETURN_IF_ERROR(driver_.ToStatus(driver_.cuDevicePrimaryCtxRetain(&context_, device_),
                                        "cuDevicePrimaryCtxRetain"));
  const CurrentContext current(driver_, context_);
  FTAR_RETURN_IF_ERROR(current.status());
  std::array<char, 256> name = {};
  size_t memory = 0;
  driver_.cuDeviceGetName(name.data(), static_cast<int>(name.size()), device_);
  driver_.cuDeviceTotalMem(&memory, device_);
  facts_.name = name.data();
  facts_.device = device_;
  facts_.memory_bytes = memory;
  facts_.multiprocessors = Attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
  maps_memory_ = Attribute(CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED) != 0;
  facts_.shares_memory =
      maps_memory_ &&
      Attribute(CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED) != 0;
  if (Attribute(CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS) == 0 ||
      Attribute(CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING) == 0) {
    return Status(Code::kDevice,
                  facts_.name + " has no stream memory operations or no unified addresses");
  }
  facts_.queues = Queues();
  if (facts_.queues == 1) {
    facts_.warning =
        "CUDA_DEVICE_MAX_CONNECTIONS=1 gives all streams one queue of the GPU's: a kernel that is "
        "launched may stand behind a stream that waits for its operation. Unset it, or use "
        "gpu_executor=resident with what that knows";
  }
  return MakeStream(&plans_);
}

// Each takes a queue of the GPU's, so none is made that is not used.
Status CudaGpu::MakeStream(CUstream* stream) {
  int lowest = 0, highest = 0;
  FTAR_RETURN_IF_ERROR(driver_.ToStatus(driver_.cuCtxGetStreamPriorityRange(&lowest, &highest),
                                        "cuCtxGetStreamPriorityRange"));
  return driver_.ToStatus(
      driver_.cuStreamCreateWithPriority(stream, CU_STREAM_NON_BLOCKING, highest),
      "cuStreamCreateWithPriority");
}

// A stream that still has work is destroyed when it has ended; nothing here waits for it.
CudaGpu::~CudaGpu() {
  if (context_ == nullptr) return;
  {
    const CurrentContext current(driver_, context_);
    for (CUstream stream : {plans_, resident_.load()}) {
      if (stream != nullptr) driver_.cuStreamDestroy(stream);
    }
  }
  driver_.cuDevicePrimaryCtxRelease(device_);
}

int CudaGpu::Attribute(CUdevice_attribute attribute) const {
  int value = 0;
  return driver_.cuDeviceGetAttribute(&value, attribute, device_) == CUDA_SUCCESS ? value : 0;
}

// A stream with work answers that it is not ready; everything else that is no success sticks.
Status CudaGpu::Health() {
  const CurrentContext current(driver_, context_);
  FTAR_RETURN_IF_ERROR(current.status());
  for (CUstream stream : {plans_, resident_.load()}) {
    if (stream == nullptr) continue;  // the driver would take it for the user's default stream
    const CUresult result = driver_.cuStreamQuery(stream);
    if (result == CUDA_ERROR_NOT_READY) continue;
    FTAR_RETURN_IF_ERROR(driver_.ToStatus(result, "the CUDA context is broken"));
  }
  return Status::Ok();
}

// ---- pointers

PointerFacts CudaGpu::Identify(const void* address) const {
  CUcontext owner = nullptr;
  PointerFacts facts = Ask(driver_, address, &owner);
  if (facts.kind == PointerKind::kUnknown) {
    // A thread that has never called CUDA has no context, and the address may be a GPU's for all
    // that: taken for the host's, it would be followed.
    const CurrentContext current(driver_, context_);
    if (current.status().ok()) facts = Ask(driver_, address, &owner);
  }
  const bool here = facts.kind == PointerKind::kDevice && facts.device == device_;
  if (here && IsForeign(owner)) facts.kind = PointerKind::kForeign;
  return facts;
}

// Green contexts are parts of the primary one, and their memory is its.
bool CudaGpu::IsForeign(CUcontext context) const {
  if (context == nullptr || context == context_) return false;
  if (driver_.cuStreamGetGreenCtx == nullptr) return true;
  const CurrentContext current(driver_, context);
  CUgreenCtx green = nullptr;
  return current.status().ok() &&
         driver_.cuStreamGetGreenCtx(CU_STREAM_LEGACY, &green) == CUDA_SUCCESS && green == nullptr;
}

// One allocation after the other: expandable segments are several, side by side.
bool CudaGpu::Holds(const void* address, size_t bytes) const {
  // Drivers need not know the range of the host's memory.
  if (bytes > 0 && Identify(address).kind == PointerKind::kPinned)
    return Identify(static_cast<const char*>(address) + bytes - 1).kind == PointerKind::kPinned;
  const CurrentContext current(driver_, context_);
  if (!current.status().ok()) return false;
  CUdeviceptr at = ToDevice(address);
  const CUdeviceptr end = at + bytes;
  while (at < end) {
    CUdeviceptr base = 0;
    size_t size = 0;
    if (driver_.cuMemGetAddressRange(&base, &size, at) != CUDA_SUCCESS) return false;
    if (base + size <= at) return false;
    at = base + size;
  }
  return true;
}

// ---- memory

CUmemAllocationProp CudaGpu::SharedMemory() const {
  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  if (facts_.shares_memory) {
    properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  }
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = device_;
  if (Attribute(CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED) != 0) {
    properties.allocFlags.gpuDirectRDMACapable = 1;
  }
  return properties;
}

size_t CudaGpu::Granularity() const {
  const CUmemAllocationProp properties = SharedMemory();
  size_t granularity = 0;
  const CUresult result = driver_.cuMemGetAllocationGranularity(
      &granularity, &properties, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED);
  return result == CUDA_SUCCESS && granularity > 0 ? granularity : size_t{2} << 20;
}

Expected<CUdeviceptr> CudaGpu::Map(CUmemGenericAllocationHandle handle, size_t bytes,
                                   CUmemAccess_flags access) {
  CUdeviceptr address = 0;
  FTAR_RETURN_IF_ERROR(driver_.ToStatus(driver_.cuMemAddressReserve(&address, bytes, 0, 0, 0),
                                        "cuMemAddressReserve"));
  Status status = driver_.ToStatus(driver_.cuMemMap(address, bytes, 0, handle, 0), "cuMemMap");
  if (!status.ok()) {
    driver_.cuMemAddressFree(address, bytes);
    return status;
  }
  CUmemAccessDesc description = {};
  description.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  description.location.id = device_;
  description.flags = access;
  status =
      driver_.ToStatus(driver_.cuMemSetAccess(address, bytes, &description, 1), "cuMemSetAccess");
  if (!status.ok()) {
    static_cast<void>(Unmap(address, bytes));
    return status;
  }
  return address;
}

Status CudaGpu::Unmap(CUdeviceptr address, size_t bytes) {
  const Status unmapped = driver_.ToStatus(driver_.cuMemUnmap(address, bytes), "cuMemUnmap");
  const Status freed =
      driver_.ToStatus(driver_.cuMemAddressFree(address, bytes), "cuMemAddressFree");
  return unmapped.ok() ? freed : unmapped;
}

void CudaGpu::Keep(CUdeviceptr address, size_t bytes) {
  const std::lock_guard<std::mutex> lock(mutex_);
  mappings_[ToHost(address)] = bytes;
}

Expected<size_t> CudaGpu::Forget(void* address) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto place = mappings_.find(address);
  if (place == mappings_.end()) return Status(Code::kArg, "no memory that was mapped here");
  const size_t bytes = place->second;
  mappings_.erase(place);
  return bytes;
}

// A sandbox may let no descriptor out of the driver, or refuse memory that could have one.
Expected<CUmemGenericAllocationHandle> CudaGpu::Create(size_t bytes) const {
  CUmemAllocationProp properties = SharedMemory();
  CUmemGenericAllocationHandle handle = 0;
  CUresult result = driver_.cuMemCreate(&handle, bytes, &properties, 0);
  if (result != CUDA_SUCCESS && result != CUDA_ERROR_OUT_OF_MEMORY) {
    properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_NONE;
    result = driver_.cuMemCreate(&handle, bytes, &properties, 0);
  }
  FTAR_RETURN_IF_ERROR(driver_.ToStatus(result, "cuMemCreate"));
  return handle;
}

// The mapping holds the memory, and so does the descriptor; the handle is needed in between alone.
// Where there is no descriptor others get copies of what is in it.
Expected<SharedBlock> CudaGpu::AllocateShared(size_t bytes) {
  if (!maps_memory_) return Status(Code::kUnsupported, "this GPU maps no memory");
  if (bytes == 0) return Status(Code::kArg, "no bytes to share");
  const CurrentContext current(driver_, context_);
  FTAR_RETURN_IF_ERROR(current.status());
  const size_t granularity = Granularity();
  const size_t whole = (bytes + granularity - 1) / granularity * granularity;
  const Expected<CUmemGenericAllocationHandle> handle = Create(whole);
  if (!handle.ok()) return handle.status();
  const Expected<CUdeviceptr> address = Map(*handle, whole, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  const int descriptor = address.ok() && facts_.shares_memory ? Export(*handle) : -1;
  driver_.cuMemRelease(*handle);
  if (!address.ok()) return address.status();
  Keep(*address, whole);
  return SharedBlock{.address = ToHost(*address), .bytes = whole, .descriptor = descriptor};
}

int CudaGpu::Export(CUmemGenericAllocationHandle handle) const {
  int descriptor = -1;
  const CUresult result = driver_.cuMemExportToShareableHandle(
      &descriptor, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
  if (result != CUDA_SUCCESS) return -1;
  fcntl(descriptor, F_SETFD, FD_CLOEXEC);
  return descriptor;
}

Status CudaGpu::FreeShared(void* address) {
  const Expected<size_t> bytes = Forget(address);
  if (!bytes.ok()) return bytes.status();
  const CurrentContext current(driver_, context_);
  FTAR_RETURN_IF_ERROR(current.status());
  return Unmap(ToDevice(address), *bytes);
}

Expected<void*> CudaGpu::Import(int descriptor, size_t bytes) {
  if (!facts_.shares_memory) return Status(Code::kUnsupported, "this GPU shares no memory");
  const CurrentContext current(driver_, context_);
  FTAR_RETURN_IF_ERROR(current.status());
  const size_t granularity = Granularity();
  if (bytes == 0 || bytes % granularity != 0) {
    return Status(Code::kArg, "shared memory has whole pieces of " + std::to_string(granularity));
  }
  CUmemGenericAllocationHandle handle = 0;
  void* const file = reinterpret_cast<void*>(static_cast<uintptr_t>(descriptor));
  FTAR_RETURN_IF_ERROR(
      driver_.ToStatus(driver_.cuMemImportFromShareableHandle(
                           &handle, file, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
                       "cuMemImportFromShareableHandle"));
  // Not every driver maps for reading alone.
  Expected<CUdeviceptr> address = Map(handle, bytes, CU_MEM_ACCESS_FLAGS_PROT_READ);
  if (!address.ok()) address = Map(handle, bytes, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  driver_.cuMemRelease(handle);
  if (!address.ok()) return address.status();
  Keep(*address, bytes);
  return ToHost(*address);
}

Status CudaGpu::Unmap(void* address) { return FreeShared(address); }

// Whole pages of the host's size, as the driver asks for.
Expected<DmaBuf> CudaGpu::OpenDmaBuf(const void* address, size_t bytes) {
  if (Attribute(CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED) == 0) {
    return Status(Code::kUnsupported, facts_.name + " has no dma-buf here");
  }
  const CurrentContext current(driver_, context_);
  FTAR_RETURN_IF_ERROR(current.status());
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const CUdeviceptr first = ToDevice(address) / page * page;
  const CUdeviceptr end = (ToDevice(address) + bytes + page - 1) / page * page;
  DmaBuf pages;
  pages.offset = static_cast<size_t>(ToDevice(address) - first);
  FTAR_RETURN_IF_ERROR(driver_.ToStatus(
      driver_.cuMemGetHandleForAddressRange(&pages.descriptor, first, end - first,
                                            CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0),
      "cuMemGetHandleForAddressRange"));
  fcntl(pages.descriptor, F_SETFD, FD_CLOEXEC);
  return pages;
}

Expected<void*> CudaGpu::AllocatePinned(size_t bytes) {
  const size_t whole = (bytes + kPinnedPage - 1) / kPinnedPage * kPinnedPage;
  void* address = Pool().Take(whole);
  if (address == nullptr) {
    const CurrentContext current(driver_, context_);
    FTAR_RETURN_IF_ERROR(current.status());
    // Whole pages, which the driver does not promise: with one more, some begin within. Where the
    // memory began is not kept, as it is never given back.
    constexpr unsigned kFlags = CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP;
    size_t room = whole + kPinnedPage;
    FTAR_RETURN_IF_ERROR(
        driver_.ToStatus(driver_.cuMemHostAlloc(&address, room, kFlags), "cuMemHostAlloc"));
    address = std::align(kPinnedPage, whole, address, room);
    Pool().Own(address, whole);
    KeepContext(driver_, device_);
  }
  std::memset(address, 0, whole);
  return address;
}

Status CudaGpu::FreePinned(void* address) {
  if (Pool().GiveBack(address)) return Status::Ok();
  return Status(Code::kArg, "no pinned memory of ours");
}

// ---- streams

// Writes are flushed to the whole system before the word that follows them (the default), and what
// comes behind the wait sees what the host saw before it opened the gate. A remote writer, a
// network card, is the business of who told the host of its data.
//
// In batches: one call, and in a graph one node, for what belongs together. The outcome is copied
// by a kernel: the driver's copy between two places in the host's memory may wait, in this thread,
// until the gate is open.
Status CudaGpu::EnqueueGate(StreamHandle stream, Gate* gate, void* outcome) {
  const CurrentContext current(driver_, context_);
  FTAR_RETURN_IF_ERROR(current.status());
  auto* const users = static_cast<CUstream>(stream);
  const auto put = [&](std::array<CUstreamBatchMemOpParams, 2> both) {
    return driver_.ToStatus(driver_.cuStreamBatchMemOp(users, both.size(), both.data(), 0),
                            "cuStreamBatchMemOp");
  };
  FTAR_RETURN_IF_ERROR(put({StreamWrites(&gate->ready, 1), StreamAwaits(&gate->done, 1)}));
  if (outcome != nullptr) {
    void* const to[] = {outcome};
    const auto copy = kernels::PlanCopy(&gate->outcome, to, sizeof(gate->outcome));
    if (!copy.ok()) return copy.status();
    FTAR_RETURN_IF_ERROR(kernels::Launch(*copy, users));
  }
  return put({StreamWrites(&gate->done, 0), StreamWrites(&gate->passed, 1)});
}

// A default stream is every GPU's: of its context, which is the calling thread's, only that matters
// whether it is this GPU's second one.
Status CudaGpu::CheckStream(CUstream stream) const {
  CUcontext owner = nullptr;
  const RelaxedCapture relaxed(driver_);
  if (driver_.cuStreamGetCtx(stream, &owner) != CUDA_SUCCESS || !IsForeign(owner))
    return Status::Ok();
  if (stream == nullptr || stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD) {
    const CurrentContext current(driver_, owner);
    CUdevice device = -1;
    if (driver_.cuCtxGetDevice(&device) != CUDA_SUCCESS || device != device_) return Status::Ok();
  }
  return Status(Code::kArg, "stream",
                "the stream is not of the primary context of this job's GPU, which is " +
                    std::to_string(device_) +
                    ", but of another GPU's, or of one that a program has made itself "
                    "(cuCtxCreate)");
}

Expected<bool> CudaGpu::Captures(StreamHandle stream) {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  FTAR_RETURN_IF_ERROR(CheckStream(static_cast<CUstream>(stream)));
  const CurrentContext current(driver_, context_);
  FTAR_RETURN_IF_ERROR(current.status());
  const CUresult result = driver_.cuStreamIsCapturing(static_cast<CUstream>(stream), &status);
  if (result == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT) {
    return Status(Code::kState, "stream",
                  "another stream is being captured, and the default stream waits for it: nothing "
                  "can be put onto it meanwhile");
  }
  FTAR_RETURN_IF_ERROR(driver_.ToStatus(result, "cuStreamIsCapturing"));
  if (status == CU_STREAM_CAPTURE_STATUS_INVALIDATED)
    return Status(Code::kState, "stream", "the stream's capture has failed, and has to be ended");
  return status == CU_STREAM_CAPTURE_STATUS_ACTIVE;
}

// ---- kernels

Status CudaGpu::LoadKernels() {
  const CurrentContext current(driver_, context_);
  FTAR_RETURN_IF_ERROR(current.status());
  return kernels::LoadAll();
}

Status CudaGpu::Launch(const kernels::Batch& batch, uint64_t* done, uint64_t seq) {
  const CurrentContext current(driver_, context_);
  FTAR_RETURN_IF_ERROR(current.status());
  FTAR_RETURN_IF_ERROR(kernels::Launch(batch, plans_, kernels::FenceDomain::kRemote));
  return driver_.ToStatus(
      driver_.cuStreamWriteValue64(plans_, ToDevice(done), seq, CU_STREAM_WRITE_VALUE_DEFAULT),
      "cuStreamWriteValue64");
}

Status CudaGpu::LaunchResident(void* control, int blocks) {
  if (LaunchesBlock()) {
    return Status(Code::kConfig, "CUDA_LAUNCH_BLOCKING",
                  "CUDA_LAUNCH_BLOCKING makes every launch wait for its kernel, and the resident "
                  "one does not end; unset it, or use the bounded executor");
  }
  const CurrentContext current(driver_, context_);
  FTAR_RETURN_IF_ERROR(current.status());
  if (resident_ == nullptr) {
    CUstream made = nullptr;
    FTAR_RETURN_IF_ERROR(MakeStream(&made));
    resident_ = made;
  }
  return kernels::LaunchResident(control, blocks, resident_);
}

}  // namespace ftar::device
