// One element of any of the library's types, encoded and decoded the way IEEE 754 and the OCP 8-bit
// formats say, with rounding to nearest, ties to even.
//
// Purpose: a second, slow and simple statement of the types, independent of the library's own.
// Threads: pure functions.
#ifndef FTAR_PERF_NUMBERS_H_
#define FTAR_PERF_NUMBERS_H_

#include <cstddef>
#include <cstdint>

#include "ftar/ftar.h"

namespace ftar::perf {

// Encodes a float type's value; integers go through EncodeInteger.
void EncodeFloat(ftarDtype_t dtype, double value, void* element);
double DecodeFloat(ftarDtype_t dtype, const void* element);

// Integers travel as their 64 bits in two's complement; encoding keeps the low ones.
void EncodeInteger(ftarDtype_t dtype, uint64_t bits, void* element);
uint64_t DecodeInteger(ftarDtype_t dtype, const void* element);

}  // namespace ftar::perf

#endif  // FTAR_PERF_NUMBERS_H_
