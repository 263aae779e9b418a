#include "perf/numbers.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "perf/types.h"

namespace ftar::perf {
namespace {

struct Narrow {
  int exponent_bits;
  int fraction_bits;
  bool has_infinity;  // e4m3 has none: its top exponent holds numbers, and all ones is the one NaN
};

Narrow NarrowOf(ftarDtype_t dtype) {
  switch (dtype) {
    case FTAR_F16: return {5, 10, true};
    case FTAR_BF16: return {8, 7, true};
    case FTAR_F8E5M2: return {5, 2, true};
    default: return {4, 3, false};
  }
}

uint32_t EncodeNarrow(const Narrow& format, double value) {
  const int bias = (1 << (format.exponent_bits - 1)) - 1;
  const uint32_t sign =
      std::signbit(value) ? 1U << (format.exponent_bits + format.fraction_bits) : 0;
  const uint32_t top = (1U << format.exponent_bits) - 1;
  const uint32_t all_ones = (top << format.fraction_bits) | ((1U << format.fraction_bits) - 1);
  const uint32_t infinity = top << format.fraction_bits;
  const double size = std::fabs(value);
  if (std::isnan(value))
    return sign | (format.has_infinity ? infinity | 1U << (format.fraction_bits - 1) : all_ones);
  if (size == 0) return sign;
  // The distance between neighbours is fixed by the exponent, and below the normal range constant.
  const int exponent = std::max(std::isinf(size) ? 1024 : std::ilogb(size), 1 - bias);
  const double steps = std::nearbyint(std::ldexp(size, format.fraction_bits - exponent));
  const double limit = format.has_infinity ? infinity : all_ones;
  // Steps that carry into the next exponent do so in this sum as well.
  const double code = std::ldexp(exponent + bias - 1, format.fraction_bits) + steps;
  if (!(code < limit)) return sign | static_cast<uint32_t>(limit);
  return sign | static_cast<uint32_t>(code);
}

double DecodeNarrow(const Narrow& format, uint32_t code) {
  const int bias = (1 << (format.exponent_bits - 1)) - 1;
  const uint32_t top = (1U << format.exponent_bits) - 1;
  const uint32_t exponent = code >> format.fraction_bits & top;
  const uint32_t fraction = code & ((1U << format.fraction_bits) - 1);
  const bool negative = (code >> (format.exponent_bits + format.fraction_bits) & 1) != 0;
  double value = 0;
  if (exponent == top && (format.has_infinity || fraction == (1U << format.fraction_bits) - 1)) {
    value = format.has_infinity && fraction == 0 ? std::numeric_limits<double>::infinity()
                                                 : std::numeric_limits<double>::quiet_NaN();
  } else if (exponent == 0) {
    value = std::ldexp(fraction, 1 - bias - format.fraction_bits);
  } else {
    value = std::ldexp(fraction + (1U << format.fraction_bits),
                       static_cast<int>(exponent) - bias - format.fraction_bits);
  }
  return negative ? -value : value;
}

}  // namespace

void EncodeFloat(ftarDtype_t dtype, double value, void* element) {
  if (dtype == FTAR_F64) {
    std::memcpy(element, &value, sizeof value);
  } else if (dtype == FTAR_F32) {
    const auto single = static_cast<float>(value);
    std::memcpy(element, &single, sizeof single);
  } else {
    const uint32_t code = EncodeNarrow(NarrowOf(dtype), value);
    std::memcpy(element, &code, TypeOf(dtype).bytes);  // the low bytes of a little-endian word
  }
}

double DecodeFloat(ftarDtype_t dtype, const void* element) {
  if (dtype == FTAR_F64) {
    double value = 0;
    std::memcpy(&value, element, sizeof value);
    return value;
  }
  if (dtype == FTAR_F32) {
    float value = 0;
    std::memcpy(&value, element, sizeof value);
    return value;
  }
  uint32_t code = 0;
  std::memcpy(&code, element, TypeOf(dtype).bytes);
  return DecodeNarrow(NarrowOf(dtype), code);
}

void EncodeInteger(ftarDtype_t dtype, uint64_t bits, void* element) {
  std::memcpy(element, &bits, TypeOf(dtype).bytes);
}

uint64_t DecodeInteger(ftarDtype_t dtype, const void* element) {
  const TypeInfo& type = TypeOf(dtype);
  uint64_t bits = 0;
  std::memcpy(&bits, element, type.bytes);
  if (type.number_class == NumberClass::kSigned && type.bytes < 8) {
    const int unused = 64 - 8 * static_cast<int>(type.bytes);
    bits = static_cast<uint64_t>(static_cast<int64_t>(bits << unused) >> unused);
  }
  return bits;
}

}  // namespace ftar::perf
