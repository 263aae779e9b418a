// The part of CUDA's runtime that a test's user needs, over the fake GPU: memory, streams, graphs.
// The names and the numbers are CUDA's, so that a program written for it (ftar-perf, the example)
// runs over this one unchanged.
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <memory>
#include <thread>

#include "fake_memory.h"
#include "fake_stream.h"
#include "tests/fakegpu/fake_runtime.h"

#define EXPORT extern "C" __attribute__((visibility("default")))

using ftar::fakegpu::AwaitIdleGpu;
using ftar::fakegpu::CurrentCard;
using ftar::fakegpu::CurrentMood;
using ftar::fakegpu::DriverLock;
using ftar::fakegpu::FakeMemory;
using ftar::fakegpu::Fill;
using ftar::fakegpu::Graph;
using ftar::fakegpu::kCards;
using ftar::fakegpu::LetLaunchesBlock;
using ftar::fakegpu::Mood;
using ftar::fakegpu::Stream;

namespace {

constexpr int kSuccess = 0, kInvalidValue = 1, kOutOfMemory = 2, kIllegalAddress = 700;

struct Event {
  std::atomic<uint64_t> recorded{0}, reached{0};
};

// Host memory of any kind, or the GPU's.
void* Anywhere(const void* address) {
  void* const reachable = FakeMemory::Get().Reach(address);
  return reachable == nullptr ? const_cast<void*>(address) : reachable;
}

using Locked = std::lock_guard<std::mutex>;

bool IsPageable(const void* address) {
  return FakeMemory::Get().Identify(address).kind == ftar::device::PointerKind::kHost;
}

int Done(bool good) { return good ? kSuccess : kIllegalAddress; }

}  // namespace

EXPORT int cudaGetDeviceCount(int* count) { return *count = 1, kSuccess; }
EXPORT int cudaSetDevice(int device) {
  if (device < 0 || device >= kCards) return kInvalidValue;
  return CurrentCard() = device, kSuccess;
}

EXPORT int cudaMalloc(void** out, size_t bytes) {
  const Locked lock(DriverLock());
  const auto block = FakeMemory::Get().AllocateDevice(bytes, CurrentCard());
  if (!block.ok()) return kOutOfMemory;
  close(block->descriptor);
  return *out = block->address, kSuccess;
}
EXPORT int cudaFree(void* address) {
  const Locked lock(DriverLock());
  AwaitIdleGpu();
  return FakeMemory::Get().FreeDevice(address).ok() ? kSuccess : kInvalidValue;
}
EXPORT int cudaMallocHost(void** out, size_t bytes) {
  const Locked lock(DriverLock());
  const auto block = FakeMemory::Get().AllocatePinned(bytes);
  if (!block.ok()) return kOutOfMemory;
  return *out = *block, kSuccess;
}
EXPORT int cudaFreeHost(void* address) {
  const Locked lock(DriverLock());
  AwaitIdleGpu();
  return FakeMemory::Get().FreePinned(address).ok() ? kSuccess : kInvalidValue;
}

// From or to memory that is not pinned the real one may keep the driver until the copy has had its
// turn.
EXPORT int cudaMemcpyAsync(void* to, const void* from, size_t bytes, int /*kind*/, void* stream) {
  const auto put = [=] {
    return Stream::Of(stream)->Put([=] { std::memcpy(Anywhere(to), Anywhere(from), bytes); });
  };
  if (!IsPageable(to) && !IsPageable(from)) return Done(put());
  const Locked lock(DriverLock());
  return Done(put() && Stream::Of(stream)->Wait());
}
EXPORT int cudaMemcpy(void* to, const void* from, size_t bytes, int kind) {
  const int put = cudaMemcpyAsync(to, from, bytes, kind, nullptr);
  return put == kSuccess ? Done(Stream::Of(nullptr)->Wait()) : put;
}
EXPORT int cudaMemsetAsync(void* to, int value, size_t bytes, void* stream) {
  return Done(Stream::Of(stream)->Put([=] { std::memset(Anywhere(to), value, bytes); }));
}
EXPORT int cudaLaunchHostFunc(void* stream, void (*function)(void*), void* user) {
  return Done(Stream::Of(stream)->Put([=] { function(user); }));
}

EXPORT int cudaStreamCreateWithFlags(void** out, unsigned /*flags*/) {
  return *out = new Stream, kSuccess;
}
EXPORT int cudaStreamDestroy(void* stream) {
  delete static_cast<Stream*>(stream);
  return kSuccess;
}
// An event is how often it was recorded and how often the streams have come to that.
EXPORT int cudaEventCreateWithFlags(void** out, unsigned /*flags*/) {
  return *out = new Event, kSuccess;
}
EXPORT int cudaEventRecord(void* event, void* stream) {
  auto* const record = static_cast<Event*>(event);
  const uint64_t number = record->recorded.fetch_add(1) + 1;
  return Done(Stream::Of(stream)->Put([record, number] { record->reached.store(number); }));
}
EXPORT int cudaEventSynchronize(void* event) {
  auto* const record = static_cast<Event*>(event);
  while (record->reached.load() < record->recorded.load()) {
    if (CurrentMood() == Mood::kBroken) return kIllegalAddress;
    std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
  return kSuccess;
}
EXPORT int cudaEventDestroy(void* event) { return delete static_cast<Event*>(event), kSuccess; }
EXPORT int cudaDeviceSynchronize() {
  AwaitIdleGpu();
  return Done(CurrentMood() == Mood::kWell);
}
EXPORT int cudaStreamSynchronize(void* stream) { return Done(Stream::Of(stream)->Wait()); }

EXPORT int cudaStreamBeginCapture(void* stream, int /*mode*/) {
  return Stream::Of(stream)->BeginCapture(), kSuccess;
}
EXPORT int cudaStreamEndCapture(void* stream, void** graph) {
  return *graph = new Graph(Stream::Of(stream)->EndCapture()), kSuccess;
}
EXPORT int cudaGraphInstantiate(void** out, void* graph, unsigned long long /*flags*/) {
  return *out = new Graph(*static_cast<Graph*>(graph)), kSuccess;
}
EXPORT int cudaGraphInstantiateWithFlags(void** out, void* graph, unsigned long long flags) {
  return cudaGraphInstantiate(out, graph, flags);
}
EXPORT int cudaGraphLaunch(void* graph, void* stream) {
  return Done(Stream::Of(stream)->PutGraph(*static_cast<Graph*>(graph)));
}
EXPORT int cudaGraphDestroy(void* graph) { return delete static_cast<Graph*>(graph), kSuccess; }
EXPORT int cudaGraphExecDestroy(void* graph) { return cudaGraphDestroy(graph); }

EXPORT const char* cudaGetErrorString(int error) {
  return error == kSuccess ? "no error" : "an error of the fake GPU";
}

// As the first launch of a kernel that is loaded lazily.
EXPORT void fakeGpuLoadModule() {
  const Locked lock(DriverLock());
  AwaitIdleGpu();
}

// What no real one has: moods, and what is still allocated.
EXPORT void fakeGpuBreak() { SetMood(Mood::kBroken); }
EXPORT void fakeGpuHang() { SetMood(Mood::kHung); }
EXPORT void fakeGpuHeal() { SetMood(Mood::kWell); }
EXPORT void fakeGpuHealIfHung() {
  if (CurrentMood() == Mood::kHung) SetMood(Mood::kWell);
}
EXPORT void fakeGpuLetLaunchesBlock(int block) { LetLaunchesBlock(block != 0); }
EXPORT void fakeGpuFailToOpen(int times) { ftar::fakegpu::FailToOpen(times); }
EXPORT void fakeGpuFailToImport(int times) { ftar::fakegpu::FailToImport(times); }
EXPORT void fakeGpuFill(int full) { Fill(full != 0); }
EXPORT size_t fakeGpuImports() { return FakeMemory::Get().imports(); }
EXPORT size_t fakeGpuAllocations() { return FakeMemory::Get().allocations(); }
