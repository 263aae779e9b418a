// A GPU for the executors' own tests: its device is this process. Kernels run on a thread, in
// order, over memory that the tests may read; the resident kernel is host_resident.h's.
//
// A test may hold the device back, let a launch fail, or break the context.
#ifndef FTAR_TESTS_UNIT_DEVICE_HOST_GPU_H_
#define FTAR_TESTS_UNIT_DEVICE_HOST_GPU_H_

#include <atomic>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "device/gpu.h"

namespace ftar::device {

class HostGpu final : public Gpu {
 public:
  HostGpu();
  ~HostGpu() override;  // what is resident was told to leave

  // Nothing that is launched begins while it is held.
  void Hold(bool held);
  // Calls of Launch do not return while they are blocked, as when somebody keeps the driver.
  void BlockLaunches(bool block);
  // Of each launch, in their order: how many jobs it had, and what it stores.
  struct Call {
    uint32_t jobs = 0;
    int blocks = 0;
    uint64_t seq = 0;
  };
  std::vector<Call> calls();
  void FailLaunches(bool fail) { fail_launches_ = fail; }
  void Break() { broken_ = true; }
  // From now on the resident kernel refuses all work, as one that cannot reach its memory.
  void Refuse() { refuses_ = true; }
  // The resident kernel comes with so many blocks fewer.
  void MissBlocks(int blocks) { missing_ = blocks; }
  int resident_launches() const { return resident_launches_; }
  size_t pinned() const { return pinned_.size(); }  // pieces that nobody gave back

  const Facts& facts() const override { return facts_; }
  PointerFacts Identify(const void*) const override { return {}; }
  bool Holds(const void*, size_t) const override { return true; }
  Expected<SharedBlock> AllocateShared(size_t) override { return Missing(); }
  Status FreeShared(void*) override { return Missing(); }
  Expected<void*> Import(int, size_t) override { return Missing(); }
  Status Unmap(void*) override { return Missing(); }
  Expected<void*> AllocatePinned(size_t bytes) override;
  Status FreePinned(void* address) override;
  Status EnqueueGate(StreamHandle, Gate*, void*) override { return Missing(); }
  Expected<bool> Captures(StreamHandle) override { return false; }
  Status LoadKernels() override { return Status::Ok(); }
  Status Launch(const kernels::Batch& batch, uint64_t* done, uint64_t seq) override;
  Status LaunchResident(void* control, int blocks) override;
  Status Health() override;

 private:
  struct Launched {
    kernels::Batch batch;
    uint64_t* done = nullptr;
    uint64_t seq = 0;
  };
  static Status Missing() { return Status(Code::kUnsupported, "not in these tests"); }
  void RunStream();

  Facts facts_;
  std::atomic<bool> fail_launches_{false};
  std::atomic<bool> broken_{false};
  std::atomic<bool> refuses_{false};
  std::atomic<int> missing_{0};
  std::atomic<int> resident_launches_{0};

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Launched> queue_;
  std::set<void*> pinned_;
  std::vector<Call> calls_;
  bool held_ = false;
  bool blocks_ = false;
  bool ends_ = false;
  std::thread stream_;
  std::vector<std::thread> resident_;
};

// For an executor that a test's own Gpu outlives.
inline std::shared_ptr<Gpu> Unowned(Gpu* gpu) { return {std::shared_ptr<Gpu>(), gpu}; }

}  // namespace ftar::device

#endif  // FTAR_TESTS_UNIT_DEVICE_HOST_GPU_H_
