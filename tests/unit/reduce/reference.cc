#include "tests/unit/reduce/reference.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <limits>
#include <type_traits>

namespace ftar::reduce::reference {
namespace {

struct Layout {
  int exponent_bits;
  int mantissa_bits;
  bool has_infinity;
  bool saturates;
  Bits nan;
};

Layout LayoutOf(Dtype dtype) {
  switch (dtype) {
    case Dtype::kF16:
      return {5, 10, true, false, 0x7e00};
    case Dtype::kBF16:
      return {8, 7, true, false, 0x7fc0};
    case Dtype::kF8E4M3:
      return {4, 3, false, true, 0x7f};
    default:
      return {5, 2, true, true, 0x7e};
  }
}

// The first magnitude that is not finite.
Bits EndOfFinite(const Layout& layout) {
  if (!layout.has_infinity) return layout.nan;
  return ((Bits{1} << layout.exponent_bits) - 1) << layout.mantissa_bits;
}

bool IsSmall(Dtype dtype) {
  return dtype == Dtype::kF16 || dtype == Dtype::kBF16 || dtype == Dtype::kF8E4M3 ||
         dtype == Dtype::kF8E5M2;
}

float MagnitudeOf(const Layout& layout, Bits magnitude) {
  const Bits end = EndOfFinite(layout);
  if (magnitude > end || (magnitude == end && !layout.has_infinity)) return std::nanf("");
  if (magnitude == end) return std::numeric_limits<float>::infinity();
  const int exponent = static_cast<int>(magnitude >> layout.mantissa_bits);
  const int mantissa = static_cast<int>(magnitude & ((Bits{1} << layout.mantissa_bits) - 1));
  const int bias = (1 << (layout.exponent_bits - 1)) - 1;
  const int hidden = exponent == 0 ? 0 : 1 << layout.mantissa_bits;
  return static_cast<float>(
      std::ldexp(mantissa + hidden, std::max(exponent, 1) - bias - layout.mantissa_bits));
}

// The magnitudes of each type are made once.
const std::vector<float>& Magnitudes(Dtype dtype) {
  static const std::vector<float> kF16 = SmallMagnitudes(Dtype::kF16);
  static const std::vector<float> kBF16 = SmallMagnitudes(Dtype::kBF16);
  static const std::vector<float> kE4M3 = SmallMagnitudes(Dtype::kF8E4M3);
  static const std::vector<float> kE5M2 = SmallMagnitudes(Dtype::kF8E5M2);
  if (dtype == Dtype::kF16) return kF16;
  if (dtype == Dtype::kBF16) return kBF16;
  return dtype == Dtype::kF8E4M3 ? kE4M3 : kE5M2;
}

template <typename T>
Bits ToBits(T x) {
  if constexpr (std::is_same_v<T, float>) {
    return std::isnan(x) ? 0x7fc00000 : std::bit_cast<uint32_t>(x);
  } else if constexpr (std::is_same_v<T, double>) {
    return std::isnan(x) ? 0x7ff8000000000000 : std::bit_cast<uint64_t>(x);
  } else {
    return static_cast<std::make_unsigned_t<T>>(x);
  }
}

template <typename T>
T Minimum(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<T>::quiet_NaN();
    if (a == b) return std::signbit(a) ? a : b;
  }
  return a < b ? a : b;
}

template <typename T>
T Maximum(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<T>::quiet_NaN();
    if (a == b) return std::signbit(a) ? b : a;
  }
  return a > b ? a : b;
}

// Integers: 128 bits are enough for any two 64-bit operands; the cast keeps the low ones.
template <typename T>
T Add(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) return a + b;
  return static_cast<T>(static_cast<__int128>(a) + static_cast<__int128>(b));
}

template <typename T>
T Multiply(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    return a * b;
  } else {
    return static_cast<T>(static_cast<unsigned __int128>(a) * static_cast<unsigned __int128>(b));
  }
}

template <typename T>
T Combine(Redop redop, T a, T b) {
  switch (redop) {
    case Redop::kProd:
      return Multiply(a, b);
    case Redop::kMin:
      return Minimum(a, b);
    case Redop::kMax:
      return Maximum(a, b);
    default:
      return Add(a, b);
  }
}

// Element `bits` of `dtype` as a value of the accumulator T.
template <typename T>
T Decode(Dtype dtype, Bits bits) {
  switch (dtype) {
    case Dtype::kF32:
      return static_cast<T>(std::bit_cast<float>(static_cast<uint32_t>(bits)));
    case Dtype::kF64:
      return static_cast<T>(std::bit_cast<double>(bits));
    case Dtype::kI8:
      return static_cast<T>(static_cast<int8_t>(bits));
    case Dtype::kU8:
      return static_cast<T>(static_cast<uint8_t>(bits));
    case Dtype::kI32:
      return static_cast<T>(static_cast<int32_t>(bits));
    case Dtype::kU32:
      return static_cast<T>(static_cast<uint32_t>(bits));
    case Dtype::kI64:
    case Dtype::kU64:
      return static_cast<T>(bits);
    default:
      return static_cast<T>(DecodeSmall(dtype, bits));
  }
}

template <typename T>
T Accumulated(Dtype dtype, Redop redop, const std::vector<Input>& inputs, size_t i) {
  T acc{};
  for (size_t s = 0; s < inputs.size(); ++s) {
    T x = Decode<T>(dtype, inputs[s].elements[i]);
    if constexpr (std::is_floating_point_v<T>) {
      if (redop == Redop::kWavg) x = x * static_cast<T>(inputs[s].weight);
    }
    acc = s == 0 ? x : Combine(redop, acc, x);
  }
  return acc;
}

template <typename T>
Bits FinishFloat(Dtype dtype, Redop redop, T acc, double divisor, double scale) {
  if (redop == Redop::kAvg || redop == Redop::kWavg) acc = acc / static_cast<T>(divisor);
  acc = acc * static_cast<T>(scale);
  if (IsSmall(dtype)) return EncodeSmall(dtype, static_cast<float>(acc));
  return ToBits(acc);
}

// Own is the element's type, T the accumulator's.
template <typename Own, typename T>
Bits FinishInt(Redop redop, T acc, double divisor, double scale) {
  if (redop == Redop::kAvg) acc = acc / static_cast<T>(divisor);
  const Own own = static_cast<Own>(acc);
  if (scale == 1.0) return ToBits(own);
  const long double scaled = static_cast<double>(own) * scale;
  if (scaled >= std::numeric_limits<Own>::max()) return ToBits(std::numeric_limits<Own>::max());
  if (scaled <= std::numeric_limits<Own>::lowest())
    return ToBits(std::numeric_limits<Own>::lowest());
  return ToBits(static_cast<Own>(scaled));
}

template <typename Own>
Bits ReduceInt(Dtype dtype, Redop redop, const std::vector<Input>& inputs, size_t i, double divisor,
               double scale) {
  using Wide = std::conditional_t<std::is_signed_v<Own>, int64_t, uint64_t>;
  if (redop == Redop::kAvg) {
    return FinishInt<Own>(redop, Accumulated<Wide>(dtype, redop, inputs, i), divisor, scale);
  }
  return FinishInt<Own>(redop, Accumulated<Own>(dtype, redop, inputs, i), divisor, scale);
}

template <typename Own>
Bits AccumulateInt(Dtype dtype, Redop redop, const std::vector<Input>& inputs, size_t i) {
  using Wide = std::conditional_t<std::is_signed_v<Own>, int64_t, uint64_t>;
  if (redop == Redop::kAvg) return ToBits(Accumulated<Wide>(dtype, redop, inputs, i));
  return ToBits(Accumulated<Own>(dtype, redop, inputs, i));
}

}  // namespace

float DecodeSmall(Dtype dtype, Bits bits) {
  const Layout layout = LayoutOf(dtype);
  const int sign_at = layout.exponent_bits + layout.mantissa_bits;
  const float magnitude = MagnitudeOf(layout, bits & ((Bits{1} << sign_at) - 1));
  return ((bits >> sign_at) & 1) != 0 ? -magnitude : magnitude;
}

std::vector<float> SmallMagnitudes(Dtype dtype) {
  const Layout layout = LayoutOf(dtype);
  std::vector<float> values;
  for (Bits bits = 0; bits < EndOfFinite(layout); ++bits) {
    values.push_back(MagnitudeOf(layout, bits));
  }
  return values;
}

Bits EncodeSmall(Dtype dtype, float x) {
  const Layout layout = LayoutOf(dtype);
  if (std::isnan(x)) return layout.nan;
  const Bits sign = std::signbit(x) ? Bits{1} << (layout.exponent_bits + layout.mantissa_bits) : 0;
  const double magnitude = std::fabs(static_cast<double>(x));
  const std::vector<float>& values = Magnitudes(dtype);
  const Bits largest = values.size() - 1;
  const Bits infinity = EndOfFinite(layout);
  if (std::isinf(magnitude)) return sign | (layout.has_infinity ? infinity : largest);
  const auto above = std::upper_bound(values.begin(), values.end(), magnitude);
  const Bits low = static_cast<Bits>(above - values.begin()) - 1;
  // Above the largest value the next one would be as far from it as the one before.
  const double next = low < largest ? *above : 2.0 * values[largest] - values[largest - 1];
  const double to_low = magnitude - values[low];
  const double to_next = next - magnitude;
  const bool up = to_next < to_low || (to_next == to_low && low % 2 == 1);
  const Bits rounded = up ? low + 1 : low;
  if (rounded <= largest) return sign | rounded;
  return sign | (layout.saturates ? largest : infinity);
}

Bits Reduce(Dtype dtype, Redop redop, const std::vector<Input>& inputs, size_t i, double divisor,
            double scale) {
  switch (dtype) {
    case Dtype::kF64:
      return FinishFloat(dtype, redop, Accumulated<double>(dtype, redop, inputs, i), divisor,
                         scale);
    case Dtype::kI8:
      return ReduceInt<int8_t>(dtype, redop, inputs, i, divisor, scale);
    case Dtype::kU8:
      return ReduceInt<uint8_t>(dtype, redop, inputs, i, divisor, scale);
    case Dtype::kI32:
      return ReduceInt<int32_t>(dtype, redop, inputs, i, divisor, scale);
    case Dtype::kU32:
      return ReduceInt<uint32_t>(dtype, redop, inputs, i, divisor, scale);
    case Dtype::kI64:
      return ReduceInt<int64_t>(dtype, redop, inputs, i, divisor, scale);
    case Dtype::kU64:
      return ReduceInt<uint64_t>(dtype, redop, inputs, i, divisor, scale);
    default:
      return FinishFloat(dtype, redop, Accumulated<float>(dtype, redop, inputs, i), divisor, scale);
  }
}

Bits Accumulate(Dtype dtype, Redop redop, const std::vector<Input>& inputs, size_t i) {
  switch (dtype) {
    case Dtype::kF64:
      return ToBits(Accumulated<double>(dtype, redop, inputs, i));
    case Dtype::kI8:
      return AccumulateInt<int8_t>(dtype, redop, inputs, i);
    case Dtype::kU8:
      return AccumulateInt<uint8_t>(dtype, redop, inputs, i);
    case Dtype::kI32:
      return AccumulateInt<int32_t>(dtype, redop, inputs, i);
    case Dtype::kU32:
      return AccumulateInt<uint32_t>(dtype, redop, inputs, i);
    case Dtype::kI64:
      return AccumulateInt<int64_t>(dtype, redop, inputs, i);
    case Dtype::kU64:
      return AccumulateInt<uint64_t>(dtype, redop, inputs, i);
    default:
      return ToBits(Accumulated<float>(dtype, redop, inputs, i));
  }
}

}  // namespace ftar::reduce::reference
