// Which kernels the resident one carries: what a training job asks for all the time. Every other
// plan is launched.
//
// One list for the host, which gives a part its number in it, and for the device, which switches
// over it. Unrolled so that all of them together stay within the launch shape's registers; the bits
// do not depend on it.
#ifndef FTAR_KERNELS_RESIDENT_KERNELS_H_
#define FTAR_KERNELS_RESIDENT_KERNELS_H_

#include "kernels/resident.h"
#include "kernels/variants.h"

namespace ftar::kernels {

// X(number, variant, type, packs at a time). Sums, hence AVG and WAVG too.
#define FTAR_RESIDENT_KERNELS(X) \
  X(0, Variant::kCopy, Bytes, 4) \
  X(1, Variant::kTwo, F32, 4)    \
  X(2, Variant::kMany, F32, 2)   \
  X(3, Variant::kTwo, BF16, 4)   \
  X(4, Variant::kMany, BF16, 2)  \
  X(5, Variant::kTwo, F16, 4)    \
  X(6, Variant::kMany, F16, 2)

template <Variant variant, typename F>
using SumTile = std::conditional_t<
    variant == Variant::kCopy, CopyTile,
    std::conditional_t<variant == Variant::kTwo, TwoTile<F, SumOp>, ManyTile<F, SumOp>>>;

// The number of the kernel for plans of this id; -1: there is none.
inline int ResidentKernelOf(const Id& id) {
  if (id.op != reduce::Combine::kSum) return -1;
#define FTAR_RESIDENT_ID(number, known, type, unroll) \
  if (id.dtype == type::kDtype && id.variant == (known)) return number;
  FTAR_RESIDENT_KERNELS(FTAR_RESIDENT_ID)
#undef FTAR_RESIDENT_ID
  return -1;
}

// One thread's part of a chunk; a number that is none does nothing.
FTAR_HD void RunResidentChunk(const ResidentPart& part, uint64_t chunk, uint32_t thread,
                              uint32_t threads, uint32_t* sum) {
  switch (part.kernel) {
#define FTAR_RESIDENT_CASE(number, variant, type, unroll) \
  case number:                                            \
    return RunChunk<SumTile<variant, type>, unroll>(part.job, chunk, thread, threads, sum);
    FTAR_RESIDENT_KERNELS(FTAR_RESIDENT_CASE)
#undef FTAR_RESIDENT_CASE
    default: return;
  }
}

}  // namespace ftar::kernels

#endif  // FTAR_KERNELS_RESIDENT_KERNELS_H_
