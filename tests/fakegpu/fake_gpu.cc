// FakeGpu: device::Gpu without a GPU, exported as a library that libftar loads in place of
// libftar-cuda.so (knob gpu). Kernels run on the host, thread after thread, with the arithmetic of
// the real ones; one that touches what is not the GPU's breaks the GPU, as an illegal address does.
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <string>
#include <thread>

#include "device/load.h"
#include "fake_memory.h"
#include "fake_stream.h"
#include "kernels/host_grid.h"
#include "kernels/host_resident.h"
#include "kernels/resident.h"
#include "reduce/reduce.h"

namespace ftar::fakegpu {
namespace {

Status Broken() { return Status(Code::kDevice, "the fake GPU is broken: an illegal address"); }

// The job's addresses as the host can follow them; false if one of them is nothing of the GPU's, as
// far as elements of so many bytes go, or of an import that would be written.
bool Reach(kernels::Job* job, size_t element_bytes, size_t partial_bytes) {
  const FakeMemory& memory = FakeMemory::Get();
  bool good = job->abort_word == nullptr || memory.IsPinned(job->abort_word, sizeof(uint32_t));
  for (uint32_t i = 0; i < job->sources; ++i) {
    const bool partial = (job->partial_sources >> i & 1) != 0;
    job->source[i] =
        memory.Reach(job->source[i], job->count * (partial ? partial_bytes : element_bytes), false);
    good = good && job->source[i] != nullptr;
  }
  const size_t bytes = job->count * (job->partial_result ? partial_bytes : element_bytes);
  for (uint32_t i = 0; i < job->destinations; ++i) {
    job->destination[i] = memory.Reach(job->destination[i], bytes, true);
    good = good && job->destination[i] != nullptr;
  }
  return good;
}

bool ReachAll(kernels::Batch* batch) {
  const bool sums = batch->id.op == reduce::Combine::kAccumulate;
  const auto redop = sums ? reduce::Redop::kAvg : reduce::Redop::kSum;
  const size_t partial = reduce::ElementBytes(reduce::AccumulatorOf(batch->id.dtype, redop));
  bool good = true;
  for (uint32_t j = 0; j < batch->jobs.count; ++j)
    good = Reach(&batch->jobs.job[j], reduce::ElementBytes(batch->id.dtype), partial) && good;
  return good;
}

// The driver's answers may tell of an earlier failure instead.
device::PointerFacts IdentifyAny(const void* address) {
  if (CurrentMood() == Mood::kBroken) return {device::PointerKind::kUnknown, -1};
  return FakeMemory::Get().Identify(address);
}

using Locked = std::lock_guard<std::mutex>;

class FakeGpu : public device::Gpu {
 public:
  explicit FakeGpu(int32_t card) {
    facts_.name = "fake GPU";
    facts_.device = card;
    facts_.multiprocessors = 1;
    facts_.memory_bytes = uint64_t{1} << 30;
    facts_.shares_memory = true;
  }

  const device::Facts& facts() const override { return facts_; }
  device::PointerFacts Identify(const void* address) const override { return IdentifyAny(address); }
  bool Holds(const void* address, size_t bytes) const override {
    return CurrentMood() != Mood::kBroken && FakeMemory::Get().Holds(address, bytes);
  }
  Expected<device::SharedBlock> AllocateShared(size_t bytes) override {
    const Locked lock(DriverLock());
    return FakeMemory::Get().AllocateDevice(bytes, facts_.device);
  }
  Status FreeShared(void* address) override {
    const Locked lock(DriverLock());
    return FakeMemory::Get().FreeDevice(address);
  }
  Expected<void*> Import(int descriptor, size_t bytes) override {
    const Locked lock(DriverLock());
    if (FailsToImport()) return Status(Code::kDevice, "that card is out of reach");
    return FakeMemory::Get().Import(descriptor, bytes, facts_.device);
  }
  Status Unmap(void* address) override {
    const Locked lock(DriverLock());
    return FakeMemory::Get().Unmap(address);
  }
  Expected<device::DmaBuf> OpenDmaBuf(const void* address, size_t bytes) override {
    const Locked lock(DriverLock());
    return FakeMemory::Get().OpenDmaBuf(address, bytes);
  }
  Expected<void*> AllocatePinned(size_t bytes) override {
    const Locked lock(DriverLock());
    return FakeMemory::Get().AllocatePinned(bytes);
  }
  Status FreePinned(void* address) override {
    const Locked lock(DriverLock());
    return FakeMemory::Get().FreePinned(address);
  }

  Status EnqueueGate(device::StreamHandle stream, device::Gate* gate, void* outcome) override {
    Stream* const users = Stream::Of(stream);
    {
      const Locked lock(DriverLock());
      if (!FakeMemory::Get().IsPinned(gate, sizeof *gate) || !PutGate(users, gate, outcome)) {
        return Broken();
      }
    }
    // The real one copies the outcome by a kernel.
    const bool waits = outcome != nullptr && LaunchesBlock() && !users->capturing();
    return !waits || users->Wait() ? Status::Ok() : Broken();
  }
  Expected<bool> Captures(device::StreamHandle stream) override {
    if (CurrentMood() == Mood::kBroken) return Broken();
    if (stream != nullptr && Stream::Of(stream)->card() != facts_.device)
      return Status(Code::kArg, "stream", "the stream is another GPU's");
    return Stream::Of(stream)->capturing();
  }

  Status LoadKernels() override { return Health(); }
  Status Launch(const kernels::Batch& batch, uint64_t* done, uint64_t seq) override {
    kernels::Batch copy = batch;
    const Locked lock(DriverLock());
    if (!FakeMemory::Get().IsPinned(done, sizeof *done)) return Broken();
    const bool put = kernels_.Put([copy, done, seq]() mutable {
      const bool good = ReachAll(&copy);
      if (copy.blocks > 0 && (!good || !kernels::RunOnHost(copy).ok())) {
        return SetMood(Mood::kBroken);
      }
      std::atomic_ref<uint64_t>(*done).store(seq, std::memory_order_release);
    });
    return put ? Status::Ok() : Broken();
  }
  Status LaunchResident(void* control, int blocks) override {
    const Locked lock(DriverLock());
    if (CurrentMood() == Mood::kBroken ||
        !FakeMemory::Get().IsPinned(control, sizeof(kernels::ResidentControl)))
      return Broken();
    CountKernels(1);
    std::thread([control, blocks] {
      while (IsFull()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      kernels::RunResidentOnHost(control, blocks, [](kernels::Job* job) {
        while (CurrentMood() == Mood::kHung) {
          std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
        const bool good = CurrentMood() == Mood::kWell && Reach(job, 1, 1);
        if (!good) SetMood(Mood::kBroken);
        return good;
      });
      CountKernels(-1);
    }).detach();
    return Status::Ok();
  }
  Status Health() override {
    const Locked lock(DriverLock());
    return CurrentMood() == Mood::kBroken ? Broken() : Status::Ok();
  }

 private:
  device::Facts facts_;
  Stream kernels_;
};

}  // namespace
}  // namespace ftar::fakegpu

extern "C" __attribute__((visibility("default"))) ftar::device::Gpu* ftarOpenGpu(uint32_t version,
                                                                                 int32_t device,
                                                                                 char* why,
                                                                                 size_t why_bytes) {
  if (version != ftar::device::kGpuInterface) {
    std::snprintf(why, why_bytes, "the fake GPU is of another version");
    return nullptr;
  }
  if (device >= ftar::fakegpu::kCards) {
    std::snprintf(why, why_bytes, "there are %d fake GPUs", ftar::fakegpu::kCards);
    return nullptr;
  }
  if (ftar::fakegpu::FailsToOpen()) {
    std::snprintf(why, why_bytes, "the fake GPU has no memory left for a context");
    return nullptr;
  }
  return new ftar::fakegpu::FakeGpu(device >= 0 ? device : ftar::fakegpu::CurrentCard());
}

extern "C" __attribute__((visibility("default"))) bool ftarIdentifyPointer(
    const void* address, ftar::device::PointerFacts* facts, char* /*why*/, size_t /*why_bytes*/) {
  *facts = ftar::fakegpu::IdentifyAny(address);
  return true;
}

extern "C" __attribute__((visibility("default"))) int32_t ftarDeviceOfStream(
    ftar::device::StreamHandle stream) {
  using ftar::fakegpu::Stream;
  return stream == nullptr ? ftar::fakegpu::CurrentCard() : Stream::Of(stream)->card();
}
