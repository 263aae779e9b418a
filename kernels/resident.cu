// The resident kernel on the device.
#include "kernels/device_kernel.h"
#include "kernels/resident_kernels.h"
#include "kernels/resident_launch.h"

namespace ftar::kernels {
namespace {

// One thread's operations. Words of the mailboxes go to memory each time, at the system's scope:
// the other side is the host.
struct DeviceOps {
  ResidentShared* shared;

  __device__ uint32_t Block() const { return blockIdx.x; }
  __device__ uint32_t Thread() const { return threadIdx.x; }
  __device__ uint32_t Threads() const { return blockDim.x; }
  __device__ ResidentShared* Shared() const { return shared; }

  __device__ uint64_t LoadAcquire(const uint64_t* word) const {
    uint64_t value;
    asm volatile("ld.acquire.sys.global.u64 %0, [%1];" : "=l"(value) : "l"(word) : "memory");
    return value;
  }
  __device__ uint64_t LoadRelaxed(const uint64_t* word) const {
    uint64_t value;
    asm volatile("ld.relaxed.sys.global.u64 %0, [%1];" : "=l"(value) : "l"(word) : "memory");
    return value;
  }
  __device__ uint32_t LoadRelaxed(const uint32_t* word) const { return kernels::LoadRelaxed(word); }
  __device__ Pack LoadPack(const Pack* from) const {
    Pack pack;
    asm volatile("ld.relaxed.sys.global.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(pack.word[0]), "=r"(pack.word[1]), "=r"(pack.word[2]), "=r"(pack.word[3])
                 : "l"(from)
                 : "memory");
    return pack;
  }
  __device__ void StoreRelaxed(uint64_t* word, uint64_t value) const {
    asm volatile("st.relaxed.sys.global.u64 [%0], %1;" ::"l"(word), "l"(value) : "memory");
  }
  __device__ void StoreRelaxed(uint32_t* word, uint32_t value) const {
    asm volatile("st.relaxed.sys.global.u32 [%0], %1;" ::"l"(word), "r"(value) : "memory");
  }
  // What the block's other threads have written is before it, too: they have met this thread.
  __device__ void StoreRelease(uint64_t* word, uint64_t value) const {
    asm volatile("st.release.sys.global.u64 [%0], %1;" ::"l"(word), "l"(value) : "memory");
  }
  __device__ void StoreRelease(uint32_t* word, uint32_t value) const {
    asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(word), "r"(value) : "memory");
  }

  // A part's sources may have been written through another mapping of the same memory: by whoever
  // exported it, and this kernel was there before. One such fence on the way from the writes by the
  // host to the reads of this block orders the two (PTX: proxies).
  __device__ bool Any(Meeting meeting, bool mine) const {
    if (meeting == Meeting::kOrder && threadIdx.x == 0)
      asm volatile("fence.proxy.alias;" ::: "memory");
    return __syncthreads_or(mine ? 1 : 0) != 0;
  }
  __device__ uint64_t NowNs() const {
    uint64_t now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    return now;
  }
  __device__ void Pause() const { __nanosleep(64); }

  __device__ void RunChunk(const ResidentPart& work, uint64_t chunk, uint32_t* sum) const {
    RunResidentChunk(work, chunk, threadIdx.x, blockDim.x, sum);
  }
  __device__ void AddToChecksum(uint32_t* checksum, uint32_t sum) const {
    kernels::AddToChecksum(checksum, sum);
  }
};

__global__ void __launch_bounds__(kMaxThreads, 2) FtarResidentKernel(ResidentControl* control) {
  __shared__ Uninitialized<ResidentShared> shared;
  DeviceOps ops{shared.get()};
  RunResidentBlock(ops, control);
}

}  // namespace

const void* ResidentFunction() { return reinterpret_cast<const void*>(FtarResidentKernel); }

}  // namespace ftar::kernels
