// The seam between the dispatcher (reduce.cc) and the kernels compiled once per instruction set.
//
// A KernelTable is constant and lives as long as the program; kernels are pure and may run on any
// thread. They trust their arguments: reduce.cc has checked them. Like types.h, this header stays
// free of library functions.
#ifndef FTAR_REDUCE_KERNELS_H_
#define FTAR_REDUCE_KERNELS_H_

#include "reduce/types.h"

namespace ftar::reduce {

// How sources are combined. kAccumulate is the sum that can be divided: sum(w x) of floats, sum in
// 64 bits of integers.
enum class Combine : int32_t { kSum, kProd, kMin, kMax, kAccumulate };
inline constexpr int32_t kCombineCount = 5;

// What is stored: the accumulated value, it times Finish::scale, or it divided by Finish::divisor
// times Finish::scale. Multiplying by 1 is exact, so kMultiply serves unscaled results too.
// Integers know no kMultiply.
enum class Output : int32_t { kPartial, kMultiply, kDivide };
inline constexpr int32_t kOutputCount = 3;

// What a result is divided and multiplied by, as Output says.
struct Finish {
  double divisor = 1.0;
  double scale = 1.0;
};

// Reduces `count` elements, which must be a multiple of the table's block.
using Kernel = void (*)(const Source* sources, size_t source_count, const Finish& finish, void* dst,
                        size_t count);

struct KernelTable {
  // The bytes of one block of accumulators, at most kMaxBlockBytes.
  size_t block_bytes = 0;
  // By type, Combine and Output; null where the combination does not exist.
  Kernel kernel[kDtypeCount][kCombineCount][kOutputCount] = {};
};

inline constexpr size_t kMaxBlockBytes = 256;

// Portable code for the build's baseline; exists everywhere.
const KernelTable& ScalarKernels();
#if defined(__x86_64__)
const KernelTable& Avx2Kernels();    // Needs AVX2 and F16C.
const KernelTable& Avx512Kernels();  // Needs AVX-512 F, BW, DQ, VL and F16C.
const KernelTable& Avx512Bf16Kernels();  // Needs what Avx512Kernels does, and AVX512_BF16.
#endif

// The table that SetIsa chose for a sum of that length.
const KernelTable& CurrentKernels(bool is_short);

}  // namespace ftar::reduce

#endif  // FTAR_REDUCE_KERNELS_H_
