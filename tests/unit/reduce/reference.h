// A second, deliberately dumb implementation of the host reduction: one element at a time, numbers
// decoded from their definition with powers of two and encoded by searching for the nearest one.
//
// Pure functions. Shares nothing with src/reduce but the enumerations.
#ifndef FTAR_TESTS_UNIT_REDUCE_REFERENCE_H_
#define FTAR_TESTS_UNIT_REDUCE_REFERENCE_H_

#include <cstdint>
#include <vector>

#include "reduce/types.h"

namespace ftar::reduce::reference {

// An element's bits in the low bytes, whatever its type.
using Bits = uint64_t;

struct Input {
  std::vector<Bits> elements;
  double weight = 1.0;
};

// The f32 value of an f16, bf16 or 8-bit float.
float DecodeSmall(Dtype dtype, Bits bits);

// The f16, bf16 or 8-bit float nearest to `x`, ties to even; NaN, overflow as src/reduce/reduce.h
// says.
Bits EncodeSmall(Dtype dtype, float x);

// All finite values of a small type that are not negative, in ascending order, their bits being
// their index.
std::vector<float> SmallMagnitudes(Dtype dtype);

// The final element number `i`.
Bits Reduce(Dtype dtype, Redop redop, const std::vector<Input>& inputs, size_t i, double divisor,
            double scale);

// The accumulated element number `i`, in the accumulator's type.
Bits Accumulate(Dtype dtype, Redop redop, const std::vector<Input>& inputs, size_t i);

}  // namespace ftar::reduce::reference

#endif  // FTAR_TESTS_UNIT_REDUCE_REFERENCE_H_
