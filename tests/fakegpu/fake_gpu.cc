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

namespace ftar::fakegpu {
namespace {

Status Broken() { return Status(Code::kDevice, "the fake GPU is broken: an illegal address"); }

// The job's addresses as the host can follow them; false if one of them is nothing of the GPU's.
bool Reach(kernels::Job* job) {
  const FakeMemory& memory = FakeMemory::Get();
  bool good = true;
  for (uint32_t i = 0; i < job->sources; ++i) {
    job->source[i] = memory.Reach(job->source[i]);
    good = good && job->source[i] != nullptr;
  }
  for (uint32_t i = 0; i < job->destinations; ++i) {
    job->destination[i] = memory.Reach(job->destination[i]);
    good = good && job->destination[i] != nullptr;
  }
  return good;
}

using Locked = std::lock_guard<std::mutex>;

class FakeGpu : public device::Gpu {
 public:
  FakeGpu() {
    facts_.name = "fake GPU";
    facts_.multiprocessors = 1;
    facts_.memory_bytes = uint64_t{1} << 30;
    facts_.shares_memory = true;
  }

  const device::Facts& facts() const override { return facts_; }
  device::PointerFacts Identify(const void* address) const override {
    return FakeMemory::Get().Identify(address);
  }
  bool Holds(const void* address, size_t bytes) const override {
    return FakeMemory::Get().Holds(address, bytes);
  }
  Expected<device::SharedBlock> AllocateShared(size_t bytes) override {
    const Locked lock(DriverLock());
    return FakeMemory::Get().AllocateDevice(bytes);
  }
  Status FreeShared(void* address) override {
    const Locked lock(DriverLock());
    return FakeMemory::Get().FreeDevice(address);
  }
  Expected<void*> Import(int descriptor, size_t bytes) override {
    const Locked lock(DriverLock());
    return FakeMemory::Get().Import(descriptor, bytes);
  }
  Status Unmap(void* address) override {
    const Locked lock(DriverLock());
    return FakeMemory::Get().FreeDevice(address);
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
    const Locked lock(DriverLock());
    return PutGate(static_cast<Stream*>(stream), gate, outcome) ? Status::Ok() : Broken();
  }
  Expected<bool> Captures(device::StreamHandle stream) override {
    if (CurrentMood() == Mood::kBroken) return Broken();
    return static_cast<Stream*>(stream)->capturing();
  }

  Status LoadKernels() override { return Health(); }
  Status Launch(const kernels::Batch& batch, uint64_t* done, uint64_t seq) override {
    kernels::Batch copy = batch;
    const Locked lock(DriverLock());
    const bool put = kernels_.Put([copy, done, seq]() mutable {
      bool good = true;
      for (uint32_t j = 0; j < copy.jobs.count; ++j) good = Reach(&copy.jobs.job[j]) && good;
      if (copy.blocks > 0 && (!good || !kernels::RunOnHost(copy).ok())) {
        return SetMood(Mood::kBroken);
      }
      std::atomic_ref<uint64_t>(*done).store(seq, std::memory_order_release);
    });
    return put ? Status::Ok() : Broken();
  }
  Status LaunchResident(void* control, int blocks) override {
    const Locked lock(DriverLock());
    if (CurrentMood() == Mood::kBroken) return Broken();
    CountKernels(1);
    std::thread([control, blocks] {
      kernels::RunResidentOnHost(control, blocks, [](kernels::Job* job) {
        while (CurrentMood() == Mood::kHung) {
          std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
        const bool good = CurrentMood() == Mood::kWell && Reach(job);
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
  if (device > 0) {
    std::snprintf(why, why_bytes, "there is one fake GPU, number 0");
    return nullptr;
  }
  return new ftar::fakegpu::FakeGpu;
}
