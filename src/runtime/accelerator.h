// A job's GPU, as the driver of its engine uses it: plans handed to an executor, memory of the two
// kinds that a GPU reads, and what may be given back when.
//
// Operations on device memory keep everything on the device: what they save and add up lies in
// blocks of Home::kDevice. Blocks of Home::kPinned are for what travels: host and GPU read both.
// A block that was given back is used again only when all plans submitted before have let go of it.
//
// Threads: Open in any; all else under the job's lock. Nothing here waits for the GPU but Drain.
// Ownership: the Gpu and the executor are owned; blocks are the taker's until Give.
#ifndef FTAR_RUNTIME_ACCELERATOR_H_
#define FTAR_RUNTIME_ACCELERATOR_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/status.h"
#include "device/executor.h"
#include "device/gpu.h"
#include "kernels/tuning.h"
#include "reduce/space.h"
#include "runtime/memory.h"

namespace ftar::runtime {

// Blocks of a GPU's memory: small ones are cut from larger pieces, since the driver gives it out by
// megabytes, and all are kept until the end, since giving any back may wait for the GPU.
class GpuBlocks {
 public:
  GpuBlocks(device::Gpu* gpu, Home home) : gpu_(gpu), home_(home) {}
  std::byte* Allocate(size_t bytes);  // null: none left
  BlockSource source();
  void FreeAll();

 private:
  std::byte* Piece(size_t bytes);

  device::Gpu* const gpu_;
  const Home home_;
  std::vector<void*> pieces_;
  size_t taken_bytes_ = 0;
  std::byte* rest_ = nullptr;
  size_t rest_bytes_ = 0;
};

class Accelerator {
 public:
  struct Options {
    std::string library;  // device/load.h
    int32_t device = -1;
    device::ExecutorOptions executor;
    kernels::Shape shape;  // of kernels that are launched
  };
  // Takes seconds: a context, kernels.
  static Expected<std::unique_ptr<Accelerator>> Open(const Options& options);
  ~Accelerator();
  Accelerator(const Accelerator&) = delete;
  Accelerator& operator=(const Accelerator&) = delete;

  device::Gpu& gpu() { return *gpu_; }
  std::shared_ptr<device::Gpu> shared_gpu() { return gpu_; }

  // Each returns the number of its last plan, which done() will reach. Addresses are the GPU's or
  // pinned.
  Expected<uint64_t> Copy(void* to, const void* from, size_t bytes);
  Expected<uint64_t> Zero(void* to, size_t bytes);
  Expected<uint64_t> Reduce(const reduce::SpaceReduction& reduction, TimeNs now);

  uint64_t submitted() const { return executor_->submitted(); }
  uint64_t done() const { return done_; }
  bool idle() const { return done_ == executor_->submitted(); }
  // True if done() has grown.
  bool Poll(TimeNs now);
  Status status() const { return executor_->status(); }
  void Abort() { executor_->Abort(); }
  void Hold(bool held) { executor_->Hold(held); }
  bool Stays() { return executor_->Stays(); }
  // Until all that was submitted is done, or `limit_ns` are over, or nothing moves any more. False:
  // something may still be running.
  bool Drain(TimeNs limit_ns);
  // So long somebody may wait for the driver under the job's lock: others do not take this member
  // for a silent one yet.
  TimeNs patience_ns() const { return patience_ns_; }

  // A null block: no memory.
  StagingBlock Take(Home home, size_t bytes);
  void Give(Home home, StagingBlock block, TimeNs now);
  size_t bytes() const;
  int64_t block_ns() { return executor_->block_ns(); }

 private:
  Accelerator(std::shared_ptr<device::Gpu> gpu, std::unique_ptr<device::Executor> executor,
              void* zeros, const kernels::Shape& shape, TimeNs patience_ns);
  StagingPool& PoolOf(Home home) { return home == Home::kPinned ? pinned_ : device_; }
  Expected<uint64_t> Submit(const Expected<kernels::Plan>& plan);
  kernels::Shape ShapeFor(size_t bytes) const;

  struct Returned {
    uint64_t number = 0;
    Home home = Home::kPinned;
    StagingBlock block;
  };

  const std::shared_ptr<device::Gpu> gpu_;
  std::unique_ptr<device::Executor> executor_;
  void* const zeros_;  // pinned
  const kernels::Shape shape_;
  const TimeNs patience_ns_;
  GpuBlocks pinned_blocks_, device_blocks_;
  StagingPool pinned_, device_;
  std::deque<Returned> returned_;
  uint64_t done_ = 0;
};

}  // namespace ftar::runtime

#endif  // FTAR_RUNTIME_ACCELERATOR_H_
