// A Gpu by CUDA: one device of this process, in its primary context.
//
// Every call makes that context current for its own time, so that a user's thread finds its device
// unchanged. Kernels run on two private streams of the highest priority that wait for nobody: one
// for plans, one for the resident kernel, which never ends by itself.
#ifndef FTAR_CUDA_CUDA_GPU_H_
#define FTAR_CUDA_CUDA_GPU_H_

#include <atomic>
#include <map>
#include <mutex>

#include "device/gpu.h"
#include "driver.h"

namespace ftar::device {

// Without a GPU that is open (device/load.h). Neither makes a context.
PointerFacts IdentifyPointer(const Driver& driver, const void* address);
int32_t DeviceOfStream(const Driver& driver, StreamHandle stream);

class CudaGpu final : public Gpu {
 public:
  // `device`: an ordinal; -1: the one of the calling thread's context, or else the first.
  static Expected<std::unique_ptr<Gpu>> Open(int32_t device);
  ~CudaGpu() override;

  const Facts& facts() const override { return facts_; }
  PointerFacts Identify(const void* address) const override;
  bool Holds(const void* address, size_t bytes) const override;
  Expected<SharedBlock> AllocateShared(size_t bytes) override;
  Status FreeShared(void* address) override;
  Expected<void*> Import(int descriptor, size_t bytes) override;
  Status Unmap(void* address) override;
  Expected<DmaBuf> OpenDmaBuf(const void* address, size_t bytes) override;
  Expected<void*> AllocatePinned(size_t bytes) override;
  Status FreePinned(void* address) override;
  Status EnqueueGate(StreamHandle stream, Gate* gate, void* outcome) override;
  Expected<bool> Captures(StreamHandle stream) override;
  Status LoadKernels() override;
  Status Launch(const kernels::Batch& batch, uint64_t* done, uint64_t seq) override;
  Status LaunchResident(void* control, int blocks) override;
  Status Health() override;

 private:
  CudaGpu(const Driver* driver, CUdevice device) : driver_(*driver), device_(device) {}
  Status Start();
  Status MakeStream(CUstream* stream);
  bool IsForeign(CUcontext context) const;
  Status CheckStream(CUstream stream) const;
  int Attribute(CUdevice_attribute attribute) const;
  CUmemAllocationProp SharedMemory() const;
  Expected<CUmemGenericAllocationHandle> Create(size_t bytes) const;
  size_t Granularity() const;
  // Maps the memory of a handle at an address of its own.
  Expected<CUdeviceptr> Map(CUmemGenericAllocationHandle handle, size_t bytes,
                            CUmemAccess_flags access);
  Status Unmap(CUdeviceptr address, size_t bytes);
  // A descriptor of the memory; -1: the driver gives none.
  int Export(CUmemGenericAllocationHandle handle) const;
  void Keep(CUdeviceptr address, size_t bytes);
  Expected<size_t> Forget(void* address);

  const Driver& driver_;
  const CUdevice device_;
  Facts facts_;
  bool maps_memory_ = false;
  CUcontext context_ = nullptr;
  CUstream plans_ = nullptr;
  std::atomic<CUstream> resident_{nullptr};  // made when it is first launched; Health asks for it

  std::mutex mutex_;
  std::map<void*, size_t> mappings_;  // their bytes; guarded by mutex_
};

}  // namespace ftar::device

#endif  // FTAR_CUDA_CUDA_GPU_H_
