// Element types, operators and sources of a host reduction.
//
// Plain values, owned by whoever holds them; nothing here has state. The header is also compiled
// into the per-ISA kernel files with their own instruction set flags, so it must not pull in
// functions of the standard library that are inline: the linker could keep the copy built for
// AVX-512 and hand it to a machine without it.
#ifndef FTAR_REDUCE_TYPES_H_
#define FTAR_REDUCE_TYPES_H_

#include <cstddef>
#include <cstdint>

namespace ftar::reduce {

// Values equal FTAR_F32 ... of the C ABI; api/ checks that with static_assert.
enum class Dtype : int32_t {
  kF32,
  kF64,
  kF16,
  kBF16,
  kF8E4M3,
  kF8E5M2,
  kI8,
  kU8,
  kI32,
  kU32,
  kI64,
  kU64
};
inline constexpr int32_t kDtypeCount = 12;

// Values equal FTAR_SUM ... of the C ABI.
enum class Redop : int32_t { kSum, kProd, kMin, kMax, kAvg, kWavg };
inline constexpr int32_t kRedopCount = 6;

// One input of a reduction: `count` elements at `data`, any alignment, not owned.
struct Source {
  const void* data = nullptr;
  // The operation's type, or AccumulatorOf(type, operator) where the source is a partial result.
  Dtype format = Dtype::kF32;
  // Read by WAVG only. A partial result is weighted already and carries 1.
  double weight = 1.0;
};

}  // namespace ftar::reduce

#endif  // FTAR_REDUCE_TYPES_H_
