#include "perf/cuda.h"

#include <dlfcn.h>

#include <mutex>

#include "fmt/format.h"
#include "perf/library.h"

namespace ftar::perf {
namespace {

constexpr int kAnyWay = 4;                   // cudaMemcpyDefault
constexpr unsigned kNoSync = 1;              // cudaStreamNonBlocking
constexpr int kThreadLocal = 1;              // cudaStreamCaptureModeThreadLocal
constexpr unsigned kNoTimeAndSleep = 1 | 2;  // cudaEventBlockingSync, cudaEventDisableTiming

}  // namespace

// Names and parameters are CUDA's; results are cudaError_t.
#define FTAR_PERF_CUDA_CALLS(X)                                              \
  X(int, cudaGetDeviceCount, (int*))                                         \
  X(int, cudaMalloc, (void**, size_t))                                       \
  X(int, cudaFree, (void*))                                                  \
  X(int, cudaMallocHost, (void**, size_t))                                   \
  X(int, cudaFreeHost, (void*))                                              \
  X(int, cudaMemcpyAsync, (void*, const void*, size_t, int, void*))          \
  X(int, cudaMemsetAsync, (void*, int, size_t, void*))                       \
  X(int, cudaStreamCreateWithFlags, (void**, unsigned))                      \
  X(int, cudaStreamDestroy, (void*))                                         \
  X(int, cudaStreamSynchronize, (void*))                                     \
  X(int, cudaEventCreateWithFlags, (void**, unsigned))                       \
  X(int, cudaEventRecord, (void*, void*))                                    \
  X(int, cudaEventSynchronize, (void*))                                      \
  X(int, cudaEventDestroy, (void*))                                          \
  X(int, cudaStreamBeginCapture, (void*, int))                               \
  X(int, cudaStreamEndCapture, (void*, void**))                              \
  X(int, cudaGraphInstantiateWithFlags, (void**, void*, unsigned long long)) \
  X(int, cudaGraphLaunch, (void*, void*))                                    \
  X(int, cudaGraphDestroy, (void*))                                          \
  X(int, cudaGraphExecDestroy, (void*))                                      \
  X(const char*, cudaGetErrorString, (int))

struct Cuda::Calls {
#define FTAR_PERF_CUDA_MEMBER(result, name, parameters) result(*name) parameters = nullptr;
  FTAR_PERF_CUDA_CALLS(FTAR_PERF_CUDA_MEMBER)
#undef FTAR_PERF_CUDA_MEMBER
};

const Cuda::Calls* Cuda::Load(const std::string& library, std::string* why) {
  static std::mutex mutex;  // ranks may be threads
  static Calls calls;
  static bool loaded = false;  // one library a process
  const std::lock_guard<std::mutex> lock(mutex);
  if (loaded) return &calls;
  void* const handle =
      OpenLibrary(library, "libcudart.so", {"13", "12", "11.0"}, "--cuda-runtime", why);
  if (handle == nullptr) return nullptr;
#define FTAR_PERF_CUDA_FIND(result, name, parameters)                        \
  calls.name = reinterpret_cast<result(*) parameters>(dlsym(handle, #name)); \
  if (calls.name == nullptr) return *why = "libcudart.so has no " #name, nullptr;
  FTAR_PERF_CUDA_CALLS(FTAR_PERF_CUDA_FIND)
#undef FTAR_PERF_CUDA_FIND
  int devices = 0;
  const int result = calls.cudaGetDeviceCount(&devices);
  loaded = result == 0 && devices > 0;
  if (loaded) return &calls;
  *why = fmt::format("CUDA sees no GPU here: {}",
                     result == 0 ? "there is none" : calls.cudaGetErrorString(result));
  return nullptr;
}

std::string Cuda::Missing(const std::string& library) {
  std::string why;
  return Load(library, &why) == nullptr ? "--memory device: " + why : "";
}

std::unique_ptr<Cuda> Cuda::Open(const std::string& library, int streams, std::string* why) {
  const Calls* calls = Load(library, why);
  if (calls == nullptr) return nullptr;
  std::unique_ptr<Cuda> cuda(new Cuda(calls));
  cuda->streams_.resize(static_cast<size_t>(streams), nullptr);
  bool good = cuda->MakeStream(&cuda->copies_);
  for (void*& stream : cuda->streams_) good = good && cuda->MakeStream(&stream);
  if (good) return cuda;
  *why = cuda->error_;
  return nullptr;
}

// The GPU may be broken, and a stream of it held for good: nothing here waits.
Cuda::~Cuda() {
  DropGraph();
  streams_.push_back(copies_);
  for (void* stream : streams_) {
    if (stream != nullptr) calls_->cudaStreamDestroy(stream);
  }
}

bool Cuda::Good(int result, const char* what) {
  if (result == 0) return true;
  error_ = fmt::format("{}: {}", what, calls_->cudaGetErrorString(result));
  return false;
}

bool Cuda::MakeStream(void** out) {
  return Good(calls_->cudaStreamCreateWithFlags(out, kNoSync), "cudaStreamCreateWithFlags");
}

bool Cuda::Allocate(uint64_t bytes, void** out) {
  return Good(calls_->cudaMalloc(out, bytes), "cudaMalloc");
}

bool Cuda::AllocatePinned(uint64_t bytes, void** out) {
  return Good(calls_->cudaMallocHost(out, bytes), "cudaMallocHost");
}

void Cuda::Free(void* memory) { calls_->cudaFree(memory); }

void Cuda::FreePinned(void* memory) { calls_->cudaFreeHost(memory); }

bool Cuda::Fill(void* memory, int byte, uint64_t bytes) {
  return Good(calls_->cudaMemsetAsync(memory, byte, bytes, copies_), "cudaMemsetAsync") &&
         Good(calls_->cudaStreamSynchronize(copies_), "cudaMemsetAsync");
}

bool Cuda::Copy(void* to, const void* from, uint64_t bytes) {
  if (bytes == 0) return true;
  return Good(calls_->cudaMemcpyAsync(to, from, bytes, kAnyWay, copies_), "cudaMemcpyAsync") &&
         Good(calls_->cudaStreamSynchronize(copies_), "cudaMemcpyAsync");
}

bool Cuda::Synchronize() {
  for (void* stream : streams_) {
    if (!Good(calls_->cudaStreamSynchronize(stream), "cudaStreamSynchronize")) return false;
  }
  return true;
}

bool Cuda::MakeEvent(void** out) {
  return Good(calls_->cudaEventCreateWithFlags(out, kNoTimeAndSleep), "cudaEventCreateWithFlags");
}

void Cuda::DropEvent(void* event) { calls_->cudaEventDestroy(event); }

bool Cuda::Record(void* event, uint64_t place) {
  return Good(calls_->cudaEventRecord(event, stream(place)), "cudaEventRecord");
}

bool Cuda::AwaitEvent(void* event) {
  return Good(calls_->cudaEventSynchronize(event), "cudaEventSynchronize");
}

bool Cuda::BeginCapture() {
  return Good(calls_->cudaStreamBeginCapture(streams_[0], kThreadLocal), "cudaStreamBeginCapture");
}

bool Cuda::EndCapture() {
  DropGraph();
  void* recorded = nullptr;
  if (!Good(calls_->cudaStreamEndCapture(streams_[0], &recorded), "cudaStreamEndCapture"))
    return false;
  const bool made =
      Good(calls_->cudaGraphInstantiateWithFlags(&graph_, recorded, 0), "cudaGraphInstantiate");
  calls_->cudaGraphDestroy(recorded);
  return made;
}

bool Cuda::Launch() {
  return Good(calls_->cudaGraphLaunch(graph_, streams_[0]), "cudaGraphLaunch");
}

void Cuda::DropGraph() {
  if (graph_ != nullptr) calls_->cudaGraphExecDestroy(graph_);
  graph_ = nullptr;
}

}  // namespace ftar::perf
