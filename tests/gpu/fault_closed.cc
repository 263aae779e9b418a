// What the driver does while a user's stream waits at a closed gate: does a launch of ours get
// through beside what the user, or the library itself, asks of the driver in that moment? If not,
// the gate never opens, and only `timeout` ends it.
//
// What the library asks must not keep a launch waiting. What a user asks is measured and printed:
// docs/gpu.md says what to avoid.
#include <cuda_runtime_api.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "fault.h"

namespace ftar::device {
namespace {

constexpr TimeNs kPatienceNs = 3 * kSecond;
constexpr size_t kBytes = size_t{1} << 20;

struct Act {
  const char* name;
  bool ours;
  std::function<Status()> act;
};

template <typename End>
bool AwaitFor(TimeNs patience, const End& end) {
  const TimeNs deadline = Now() + patience;
  while (!end()) {
    if (Now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
  return true;
}

// A stream that waits until it is let go.
class ClosedGate {
 public:
  ClosedGate(Gpu* gpu, cudaStream_t stream, Gate* gate) : gate_(gate) {
    *gate_ = {};
    ExpectOk(gpu->EnqueueGate(stream, gate_, nullptr), "gate");
    Expect(AwaitFor(kPatienceNs, [this] { return Word(gate_->ready).load() == 1; }),
           "a stream does not come to its gate");
  }
  ~ClosedGate() { Open(); }
  void Open() {
    if (!std::exchange(closed_, false)) return;
    Word(gate_->done).store(1, std::memory_order_release);
  }

 private:
  static std::atomic_ref<uint32_t> Word(uint32_t& word) { return std::atomic_ref<uint32_t>(word); }
  Gate* gate_;
  bool closed_ = true;
};

// The resident kernel, which stays until it is let go.
std::unique_ptr<Executor> HeldKernel(Gpu* gpu) {
  auto executor = OpenExecutor(Unowned(gpu), {.kind = ExecutorKind::kResident, .blocks = 1});
  ExpectOk(executor.status(), "the resident kernel");
  if (!executor.ok()) return nullptr;
  (*executor)->Hold(true);
  const bool stays = AwaitFor(kPatienceNs, [&] {
    (*executor)->Poll(Now());
    return (*executor)->Stays();
  });
  Expect(stays, "the resident kernel does not stay");
  return stays ? std::move(*executor) : nullptr;
}

// What is there before any gate is closed or kernel held: taking it, or giving it back, may wait
// for both.
struct Scene {
  Gpu* gpu;
  cudaStream_t stream;
  Gate* gate;
  uint64_t* done;
  kernels::Plan plan;
};

// The act in one thread, and a launch of ours in another, while the gate is closed. `held`: and a
// resident kernel stays, or null.
void Try(const Scene& scene, uint64_t number, const Act& act, Executor* held) {
  ClosedGate closed(scene.gpu, scene.stream, scene.gate);
  std::atomic<TimeNs> acted{0}, launched{0};
  const TimeNs begun = Now();
  Status said;
  std::thread beside([&] {
    said = act.act();
    acted = Now();
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  const TimeNs launch_begun = Now();
  Status status;
  std::thread ours([&] { status = scene.gpu->Launch(scene.plan, scene.done, number); });
  const auto word = std::atomic_ref<uint64_t>(*scene.done);
  const bool through =
      AwaitFor(kPatienceNs, [&] { return word.load(std::memory_order_acquire) == number; });
  if (through) launched = Now();
  AwaitFor(through ? kPatienceNs / 10 : 0, [&] { return acted.load() != 0; });
  const TimeNs opened = Now();
  closed.Open();
  if (held != nullptr) held->Hold(false);
  beside.join();
  ours.join();
  ExpectOk(status, "launch");
  ExpectCuda(cudaStreamSynchronize(scene.stream), "synchronize");
  // Negative: not before the gate was opened.
  const auto ms = [opened](const std::atomic<TimeNs>& end, TimeNs begin) {
    const TimeNs at = end.load();
    return at == 0 || at > opened ? -1.0 : static_cast<double>(at - begin) / 1e6;
  };
  const std::string what = act.name + std::string(held == nullptr ? "" : ", kernel resident");
  std::printf("  beside %-50s  it %9.3f ms, our launch %9.3f ms (-1: waited for the gate)\n",
              what.c_str(), ms(acted, begun), ms(launched, launch_begun));
  if (act.ours) {
    ExpectOk(said, what);
    Expect(through, "a launch waits for the gate, beside " + what);
    Expect(ms(acted, begun) >= 0, what + " waits for the gate");
  }
}

// All of them, and what is ours again while the resident kernel stays, as it does when streams
// wait.
void TryAll(const Scene& scene, std::span<const Act> acts) {
  uint64_t number = 0;
  for (const Act& act : acts) Try(scene, ++number, act, nullptr);
  for (const Act& act : acts) {
    if (!act.ours) continue;
    const auto held = HeldKernel(scene.gpu);
    if (held == nullptr) return;
    Try(scene, ++number, act, held.get());
  }
}

}  // namespace

void TestBesideClosedGate(Gpu* gpu) {
  const Expected<void*> pinned = gpu->AllocatePinned(4096);
  const Expected<SharedBlock> block = gpu->AllocateShared(kBytes);
  ExpectOk(pinned.status(), "pinned memory");
  ExpectOk(block.status(), "shared memory");
  ExpectOk(gpu->LoadKernels(), "kernels");
  if (!pinned.ok() || !block.ok()) return;
  auto* const gates = static_cast<Gate*>(*pinned);
  auto* const done = reinterpret_cast<uint64_t*>(static_cast<char*>(*pinned) + 2048);
  cudaStream_t stream = nullptr;
  void *device = nullptr, *to_free = nullptr, *outcome = nullptr;
  ExpectCuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "stream");
  ExpectCuda(cudaMalloc(&device, kBytes), "memory");
  ExpectCuda(cudaMalloc(&to_free, kBytes), "memory");
  ExpectCuda(cudaMallocHost(&outcome, sizeof(Gate::Outcome)), "memory");
  std::vector<unsigned char> pageable(kBytes);
  const Memory from(kBytes), to(kBytes);
  const Act acts[] = {
      {"nothing", true, [] { return Status::Ok(); }},
      {"AllocatePinned", true,
       [gpu, bytes = kBytes]() mutable {
         bytes *= 4;  // what was given back is not asked of the driver
         const Expected<void*> more = gpu->AllocatePinned(bytes);
         return more.ok() ? gpu->FreePinned(*more) : more.status();
       }},
      {"AllocateShared", true,
       [&] {
         const Expected<SharedBlock> more = gpu->AllocateShared(kBytes);
         if (!more.ok()) return more.status();
         if (more->descriptor >= 0) close(more->descriptor);
         return gpu->FreeShared(more->address);
       }},
      {"Import and Unmap", true,
       [&] {
         const Expected<void*> mapped = gpu->Import(block->descriptor, block->bytes);
         return mapped.ok() ? gpu->Unmap(*mapped) : mapped.status();
       }},
      {"a second gate, its outcome pinned", true,
       [&] {
         // Its stream finds it open.
         std::atomic_ref<uint32_t>(gates[1].done).store(1, std::memory_order_release);
         return gpu->EnqueueGate(stream, &gates[1], outcome);
       }},
      {"cudaMalloc", false,
       [&] {
         void* more = nullptr;
         if (cudaMalloc(&more, kBytes) == cudaSuccess) cudaFreeAsync(more, stream);
         return Status::Ok();
       }},
      {"cudaFree", false, [&] { return cudaFree(to_free), Status::Ok(); }},
      {"a copy to pageable memory", false,
       [&] {
         cudaMemcpyAsync(pageable.data(), device, kBytes, cudaMemcpyDeviceToHost, stream);
         return cudaStreamSynchronize(stream), Status::Ok();
       }},
      {"3,000 memsets on the stream", false,
       [&] {
         for (int i = 0; i < 3000; ++i) cudaMemsetAsync(device, i, 64, stream);
         return Status::Ok();
       }},
      {"cudaDeviceSynchronize", false, [] { return cudaDeviceSynchronize(), Status::Ok(); }},
  };
  TryAll({gpu, stream, &gates[0], done, Copy(from.data(), to.data(), kBytes)}, acts);
  cudaStreamDestroy(stream);
  ExpectCuda(cudaFree(device), "free");
  ExpectCuda(cudaFreeHost(outcome), "free");
  ExpectOk(gpu->FreeShared(block->address), "free");
  if (block->descriptor >= 0) close(block->descriptor);
  ExpectOk(gpu->FreePinned(*pinned), "free");
}

}  // namespace ftar::device
