// The kernel around the block job, third of the layers' device half: chunks to blocks, a look at
// the abort word between them, the checksum together. Included by the kernels' .cu files only.
//
// All branches around a barrier depend on values that are the same for the whole block.
#ifndef FTAR_KERNELS_DEVICE_KERNEL_H_
#define FTAR_KERNELS_DEVICE_KERNEL_H_

#include "kernels/device_entries.h"
#include "kernels/variants.h"

namespace ftar::kernels {

// The host writes the word while the kernel runs: each look goes to memory, and carries no order
// with it, as nothing is read because of it.
__device__ __forceinline__ uint32_t LoadRelaxed(const uint32_t* word) {
  uint32_t value;
  asm volatile("ld.relaxed.sys.global.u32 %0, [%1];" : "=r"(value) : "l"(word) : "memory");
  return value;
}

// The same answer for all threads of the block: one looks, the barrier tells the others.
__device__ __forceinline__ bool IsStopped(const Job& job) {
  if (job.abort_word == nullptr) return false;
  const bool first = threadIdx.x == 0;
  const bool stop = first && LoadRelaxed(job.abort_word) != job.epoch;
  if (stop && job.stopped != nullptr) {
    asm volatile("st.relaxed.sys.global.u32 [%0], %1;" ::"l"(job.stopped), "r"(1u) : "memory");
  }
  return __syncthreads_or(stop ? 1 : 0) != 0;
}

// Sums of words are the same in any order. Every thread of every warp comes here.
__device__ __forceinline__ void AddToChecksum(uint32_t* checksum, uint32_t sum) {
  for (int lane = 16; lane > 0; lane /= 2) sum += __shfl_down_sync(0xffffffffu, sum, lane);
  if (threadIdx.x % 32 == 0) atomicAdd(checksum, sum);
}

// A block's shared memory, without a constructor to run in it.
template <typename T>
struct Uninitialized {
  alignas(T) unsigned char bytes[sizeof(T)];
  __device__ T* get() { return reinterpret_cast<T*>(bytes); }
};

// The job at hand lies in memory that the block's threads share, since registers are for the data.
__device__ __forceinline__ void TakeJob(const Job& from, Job* to) {
  using Word = uint64_t;
  static_assert(sizeof(Job) % sizeof(Word) == 0);
  __syncthreads();  // Nobody reads the last one any more.
  for (uint32_t i = threadIdx.x; i < sizeof(Job) / sizeof(Word); i += blockDim.x) {
    reinterpret_cast<Word*>(to)[i] = reinterpret_cast<const Word*>(&from)[i];
  }
  __syncthreads();
}

template <typename Work>
__global__ void __launch_bounds__(kMaxThreads, Work::kBlocksPerMultiprocessor)
    FtarKernel(const __grid_constant__ Jobs jobs) {
  __shared__ Uninitialized<Job> shared;
  const Job& job = *shared.get();
  uint32_t chunk = blockIdx.x;
  FTAR_NO_UNROLL for (uint32_t j = 0; j < jobs.count; ++j) {
    TakeJob(jobs.job[j], shared.get());
    uint32_t sum = 0;
    FTAR_NO_UNROLL for (; chunk < job.chunks; chunk += gridDim.x) {
      if (IsStopped(job)) return;
      RunChunk<typename Work::Tile, Work::kUnroll>(job, chunk, threadIdx.x, blockDim.x, &sum);
    }
    if (job.checksum != nullptr) AddToChecksum(job.checksum, sum);
    chunk -= static_cast<uint32_t>(job.chunks);
  }
}

struct DeviceMaker {
  template <typename Work>
  static DeviceFunction Of() {
    return FtarKernel<Work>;
  }
};
using DeviceLister = Lister<DeviceMaker, DeviceFunction>;

}  // namespace ftar::kernels

#endif  // FTAR_KERNELS_DEVICE_KERNEL_H_
