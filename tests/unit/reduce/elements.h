// Names of types and operators, and random elements, for every test of reductions.
//
// Without GoogleTest, which the program for machines with a GPU does without. Pure functions.
#ifndef FTAR_TESTS_UNIT_REDUCE_ELEMENTS_H_
#define FTAR_TESTS_UNIT_REDUCE_ELEMENTS_H_

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "reduce/reduce.h"
#include "tests/unit/reduce/reference.h"

namespace ftar::reduce {

inline std::vector<Dtype> AllDtypes() {
  std::vector<Dtype> all;
  for (int32_t i = 0; i < kDtypeCount; ++i) all.push_back(static_cast<Dtype>(i));
  return all;
}

inline std::vector<Redop> AllRedops() {
  std::vector<Redop> all;
  for (int32_t i = 0; i < kRedopCount; ++i) all.push_back(static_cast<Redop>(i));
  return all;
}

inline std::string NameOf(Dtype dtype) {
  static constexpr const char* kNames[] = {"f32", "f64", "f16", "bf16", "f8e4m3", "f8e5m2",
                                           "i8",  "u8",  "i32", "u32",  "i64",    "u64"};
  return kNames[static_cast<size_t>(dtype)];
}

inline std::string NameOf(Redop redop) {
  static constexpr const char* kNames[] = {"sum", "prod", "min", "max", "avg", "wavg"};
  return kNames[static_cast<size_t>(redop)];
}

// Elements of every kind: random bits, and for floats NaNs of both signs and kinds, infinities,
// zeros, subnormals, the largest and the smallest numbers, and numbers near 1 whose sums round.
inline reference::Bits RandomElement(Dtype dtype, std::mt19937_64* random) {
  const size_t bits = 8 * ElementBytes(dtype);
  const reference::Bits mask = bits == 64 ? ~reference::Bits{0} : (reference::Bits{1} << bits) - 1;
  const reference::Bits any = (*random)();
  const reference::Bits sign = (any >> 60 & 1) << (bits - 1);
  switch (any % 8) {
    case 0: return sign | ((*random)() % 4);  // Zeros and the smallest subnormals; small integers.
    case 1: return (sign | (mask >> 1)) - (*random)() % 4;  // The largest numbers, or NaNs.
    case 2: {                                               // Infinity's neighbours.
      static constexpr int kMantissaBits[] = {23, 52, 10, 7, 3, 2, 7, 8, 31, 32, 63, 64};
      const int mantissa = kMantissaBits[static_cast<size_t>(dtype)];
      const reference::Bits infinity = (mask >> 1) & ~((reference::Bits{1} << (mantissa % 64)) - 1);
      return (sign | (infinity + (*random)() % 3 - 1)) & mask;
    }
    case 3:
    case 4: {  // Near 1, or small integers.
      static constexpr reference::Bits kOne[] = {
          0x3f800000, 0x3ff0000000000000, 0x3c00, 0x3f80, 0x38, 0x3c, 0, 0, 0, 0, 0, 0};
      return (sign | (kOne[static_cast<size_t>(dtype)] + ((*random)() & (mask >> 5)))) & mask;
    }
    default: return (*random)() & mask;
  }
}

}  // namespace ftar::reduce

#endif  // FTAR_TESTS_UNIT_REDUCE_ELEMENTS_H_
