// Thread arithmetic, the lowest of the kernels' four layers: how elements become lanes of an
// accumulator and back, and how two lanes become one.
//
// Pure functions of their arguments, compiled by nvcc for the device and by g++ for the host tests;
// nothing is owned. The definitions are those of src/reduce/reduce.h, bit for bit: round to nearest
// even, products and sums rounded separately, one positive quiet NaN, -0 less than +0, 8-bit floats
// saturate but keep infinities, integers wrap. Device intrinsics stand only where an instruction
// does exactly that; elsewhere one text of integer arithmetic serves both.
#ifndef FTAR_KERNELS_ARITH_H_
#define FTAR_KERNELS_ARITH_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "reduce/types.h"

#if defined(__CUDACC__)
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#define FTAR_HD __host__ __device__ __forceinline__
#else
#define FTAR_HD inline
#endif

// Whether the conversions of 8-bit floats are instructions.
#if defined(__CUDA_ARCH__)
#if __CUDA_ARCH__ >= 890
#define FTAR_DEVICE_F8
#endif
#endif

namespace ftar::kernels {

using reduce::Dtype;

// --- Bits.

FTAR_HD float FloatOf(uint32_t bits) {
#if defined(__CUDA_ARCH__)
  return __uint_as_float(bits);
#else
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
#endif
}

FTAR_HD double DoubleOf(uint64_t bits) {
#if defined(__CUDA_ARCH__)
  return __longlong_as_double(static_cast<int64_t>(bits));
#else
  double value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
#endif
}

FTAR_HD uint32_t BitsOf(float value) {
#if defined(__CUDA_ARCH__)
  return __float_as_uint(value);
#else
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
#endif
}

FTAR_HD uint64_t BitsOf(double value) {
#if defined(__CUDA_ARCH__)
  return static_cast<uint64_t>(__double_as_longlong(value));
#else
  uint64_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
#endif
}

FTAR_HD float FromBits(uint32_t bits, float) { return FloatOf(bits); }
FTAR_HD double FromBits(uint64_t bits, double) { return DoubleOf(bits); }

FTAR_HD float Canonical(float v) { return v == v ? v : FloatOf(0x7fc00000u); }
FTAR_HD double Canonical(double v) { return v == v ? v : DoubleOf(0x7ff8000000000000u); }

// --- Lanes. The device's rounding intrinsics are never contracted into a fused multiply-add.

FTAR_HD float Add(float a, float b) {
#if defined(__CUDA_ARCH__)
  return __fadd_rn(a, b);
#else
  return a + b;
#endif
}
FTAR_HD double Add(double a, double b) {
#if defined(__CUDA_ARCH__)
  return __dadd_rn(a, b);
#else
  return a + b;
#endif
}
FTAR_HD float Multiply(float a, float b) {
#if defined(__CUDA_ARCH__)
  return __fmul_rn(a, b);
#else
  return a * b;
#endif
}
FTAR_HD double Multiply(double a, double b) {
#if defined(__CUDA_ARCH__)
  return __dmul_rn(a, b);
#else
  return a * b;
#endif
}
FTAR_HD float Divide(float a, float b) {
#if defined(__CUDA_ARCH__)
  return __fdiv_rn(a, b);
#else
  return a / b;
#endif
}
FTAR_HD double Divide(double a, double b) {
#if defined(__CUDA_ARCH__)
  return __ddiv_rn(a, b);
#else
  return a / b;
#endif
}

// Integers wrap, so they are added and multiplied as unsigned ones.
template <typename T>
FTAR_HD std::enable_if_t<std::is_integral_v<T>, T> Add(T a, T b) {
  using U = std::make_unsigned_t<T>;
  return static_cast<T>(static_cast<U>(a) + static_cast<U>(b));
}
template <typename T>
FTAR_HD std::enable_if_t<std::is_integral_v<T>, T> Multiply(T a, T b) {
  using U = std::make_unsigned_t<T>;
  return static_cast<T>(static_cast<U>(a) * static_cast<U>(b));
}
// Truncates toward zero.
template <typename T>
FTAR_HD std::enable_if_t<std::is_integral_v<T>, T> Divide(T a, T b) {
  return a / b;
}

// Sums alone are weighted and divided.
struct SumOp {
  static constexpr bool kAverages = true;
  template <typename Lane>
  static FTAR_HD Lane Apply(Lane a, Lane b) {
    return Add(a, b);
  }
};

struct ProdOp {
  static constexpr bool kAverages = false;
  template <typename Lane>
  static FTAR_HD Lane Apply(Lane a, Lane b) {
    return Multiply(a, b);
  }
};

struct MinOp {
  static constexpr bool kAverages = false;
  template <typename Lane>
  static FTAR_HD Lane Apply(Lane a, Lane b) {
    if constexpr (std::is_floating_point_v<Lane>) {
      // Neither is less: both are equal, and OR makes -0 of two different zeros; or one is NaN,
      // which OR keeps one. In this form it needs fewest registers.
      return FromBits((b < a ? 0 : BitsOf(a)) | (a < b ? 0 : BitsOf(b)), a);
    } else {
      return a < b ? a : b;
    }
  }
};

struct MaxOp {
  static constexpr bool kAverages = false;
  template <typename Lane>
  static FTAR_HD Lane Apply(Lane a, Lane b) {
    if constexpr (std::is_floating_point_v<Lane>) {
      // As in MinOp, but AND makes +0 of two different zeros, while a NaN needs OR to stay one.
      const auto x = b > a ? 0 : BitsOf(a), y = a > b ? 0 : BitsOf(b);
      return FromBits(a == b ? x & y : x | y, a);
    } else {
      return a > b ? a : b;
    }
  }
};

// --- Codes: how one element is stored. Widen is exact; Narrow rounds, of a canonical value.

constexpr uint32_t kF32Infinity = 0x7f800000;

// A binary float of one sign bit, `exponent_bits` and `mantissa_bits`, exact in f32.
template <int exponent_bits, int mantissa_bits>
struct SmallFloat {
  static constexpr int kBias = (1 << (exponent_bits - 1)) - 1;
  static constexpr int kShift = 23 - mantissa_bits;
  static constexpr uint32_t kRebias = static_cast<uint32_t>(127 - kBias) << 23;
  static constexpr uint32_t kMagnitude = (1u << (exponent_bits + mantissa_bits)) - 1;
  static constexpr uint32_t kInfinity = ((1u << exponent_bits) - 1) << mantissa_bits;

  // The f32 bits of a magnitude. The caller mends the highest exponent where it is not that of
  // finite values.
  static FTAR_HD uint32_t WidenFinite(uint32_t bits) {
    const uint32_t magnitude = bits << kShift;
    // A subnormal m is 1.m of the lowest exponent less the 1; no subnormal f32 takes part.
    constexpr uint32_t kLowest = kRebias + (1u << 23);
    const uint32_t subnormal = BitsOf(Add(FloatOf(magnitude + kLowest), -FloatOf(kLowest)));
    return magnitude < (1u << 23) ? subnormal : magnitude + kRebias;
  }

  // Rounds the magnitude of an f32 to nearest even; what lies beyond the format comes out above
  // kInfinity, monotone.
  static FTAR_HD uint32_t NarrowMagnitude(uint32_t magnitude) {
    // Adding a number whose last place is the smallest subnormal rounds there, and leaves the
    // result in its low bits.
    constexpr uint32_t kMagic = static_cast<uint32_t>(127 - kBias + kShift + 1) << 23;
    const uint32_t subnormal = BitsOf(Add(FloatOf(magnitude), FloatOf(kMagic))) - kMagic;
    const uint32_t odd = (magnitude >> kShift) & 1;
    const uint32_t normal = (magnitude - kRebias + ((1u << (kShift - 1)) - 1) + odd) >> kShift;
    return magnitude < kRebias + (1u << 23) ? subnormal : normal;
  }
};

// An element that is its own lane; integers narrower than 32 bits widen to a lane of 32.
template <typename T, typename LaneType>
struct PlainCode {
  using Storage = std::make_unsigned_t<
      std::conditional_t<std::is_same_v<T, float>, int32_t,
                         std::conditional_t<std::is_same_v<T, double>, int64_t, T>>>;
  using Lane = LaneType;
  static FTAR_HD Lane Widen(Storage bits) {
    if constexpr (std::is_floating_point_v<T>) {
      return static_cast<Lane>(FromBits(bits, T{}));
    } else {
      return static_cast<Lane>(static_cast<T>(bits));
    }
  }
  static FTAR_HD Storage Narrow(Lane value) {
    if constexpr (std::is_same_v<T, float> && std::is_same_v<Lane, double>) {
#if defined(__CUDA_ARCH__)
      return BitsOf(Canonical(__double2float_rn(value)));
#else
      return BitsOf(Canonical(static_cast<float>(value)));
#endif
    } else if constexpr (std::is_floating_point_v<T>) {
      return BitsOf(value);
    } else {
      return static_cast<Storage>(value);
    }
  }
};

struct BF16Code {
  using Storage = uint16_t;
  using Lane = float;
  static FTAR_HD float Widen(Storage bits) { return FloatOf(static_cast<uint32_t>(bits) << 16); }
  static FTAR_HD Storage Narrow(float value) {
    const uint32_t bits = BitsOf(value);
    return static_cast<Storage>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
  }
};

// The codes that need SmallFloat. Derived gives WidenMagnitude and NarrowMagnitude.
template <typename Derived, typename StorageType>
struct SmallCode {
  using Storage = StorageType;
  using Lane = float;
  static constexpr int kBits = 8 * sizeof(Storage);
  static FTAR_HD float Widen(Storage stored) {
    const uint32_t bits = stored;
    const uint32_t sign = (bits >> (kBits - 1)) << 31;
    return FloatOf(Derived::WidenMagnitude(bits & Derived::Layout::kMagnitude) | sign);
  }
  static FTAR_HD Storage Narrow(float value) {
    const uint32_t bits = BitsOf(value);
    const uint32_t narrow = Derived::NarrowMagnitude(bits & 0x7fffffffu);
    return static_cast<Storage>(narrow | ((bits >> 31) << (kBits - 1)));
  }
};

struct F16Code : SmallCode<F16Code, uint16_t> {
  using Layout = SmallFloat<5, 10>;
  static FTAR_HD uint32_t WidenMagnitude(uint32_t bits) {
    // Infinity and NaN: the highest exponent of f16 is moved to that of f32.
    return Layout::WidenFinite(bits) + (bits >= Layout::kInfinity ? Layout::kRebias : 0u);
  }
  static FTAR_HD uint32_t NarrowMagnitude(uint32_t magnitude) {
    const uint32_t narrow = Layout::NarrowMagnitude(magnitude);
    const uint32_t limited = narrow < Layout::kInfinity ? narrow : Layout::kInfinity;
    return magnitude > kF32Infinity ? 0x7e00u : limited;
  }
#if defined(__CUDA_ARCH__)
  static FTAR_HD float Widen(Storage bits) { return __half2float(__ushort_as_half(bits)); }
  static FTAR_HD Storage Narrow(float value) {
    // The instruction rounds as we do; its NaN is 7fff.
    return value == value ? __half_as_ushort(__float2half_rn(value)) : Storage{0x7e00};
  }
#endif
};

struct F8E4M3Code : SmallCode<F8E4M3Code, uint8_t> {
  using Layout = SmallFloat<4, 3>;
  static constexpr uint32_t kNan = 0x7f;
  static constexpr uint32_t kLargest = 0x7e;
  static FTAR_HD uint32_t WidenMagnitude(uint32_t bits) {
    return bits == kNan ? 0x7fc00000u : Layout::WidenFinite(bits);
  }
  static FTAR_HD uint32_t NarrowMagnitude(uint32_t magnitude) {
    const uint32_t narrow = Layout::NarrowMagnitude(magnitude);
    const uint32_t limited = narrow < kLargest ? narrow : kLargest;
    return magnitude > kF32Infinity ? kNan : limited;
  }
#if defined(FTAR_DEVICE_F8)
  static FTAR_HD float Widen(Storage bits) {
    return __half2float(__half(__nv_cvt_fp8_to_halfraw(bits, __NV_E4M3)));
  }
  static FTAR_HD Storage Narrow(float value) {
    return __nv_cvt_float_to_fp8(value, __NV_SATFINITE, __NV_E4M3);
  }
#endif
};

struct F8E5M2Code : SmallCode<F8E5M2Code, uint8_t> {
  using Layout = SmallFloat<5, 2>;
  static constexpr uint32_t kNan = 0x7e;
  static constexpr uint32_t kLargest = 0x7b;
  static FTAR_HD uint32_t WidenMagnitude(uint32_t bits) {
    return Layout::WidenFinite(bits) + (bits >= Layout::kInfinity ? Layout::kRebias : 0u);
  }
  static FTAR_HD uint32_t NarrowMagnitude(uint32_t magnitude) {
    const uint32_t narrow = Layout::NarrowMagnitude(magnitude);
    const uint32_t limited = narrow < kLargest ? narrow : kLargest;
    const uint32_t special = magnitude > kF32Infinity ? kNan : Layout::kInfinity;
    return magnitude < kF32Infinity ? limited : special;
  }
#if defined(FTAR_DEVICE_F8)
  static FTAR_HD float Widen(Storage bits) {
    return __half2float(__half(__nv_cvt_fp8_to_halfraw(bits, __NV_E5M2)));
  }
  static FTAR_HD Storage Narrow(float value) {
    // The instruction's only NaN is 7f, and it makes infinity the largest number.
    const uint32_t bits = BitsOf(value);
    const uint32_t magnitude = bits & 0x7fffffffu;
    const uint32_t special = magnitude > kF32Infinity ? kNan : Layout::kInfinity | bits >> 31 << 7;
    return static_cast<Storage>(magnitude < kF32Infinity
                                    ? __nv_cvt_float_to_fp8(value, __NV_SATFINITE, __NV_E5M2)
                                    : special);
  }
#endif
};

// --- Formats: a code, the number of its type, and what its partial results are stored as.

template <typename CodeType, typename PartialCodeType, Dtype dtype, bool is_signed = true>
struct Format {
  using Code = CodeType;
  using Storage = typename Code::Storage;
  using Lane = typename Code::Lane;
  using PartialCode = PartialCodeType;
  static constexpr Dtype kDtype = dtype;
  static constexpr bool kFloat = std::is_floating_point_v<Lane>;
  static constexpr bool kSigned = is_signed;  // Of integers.
  static constexpr bool kOwnAccumulator = std::is_same_v<CodeType, PartialCodeType>;
  static constexpr int kPerPack = 16 / sizeof(Storage);
};

template <typename T, typename Lane, Dtype dtype>
using PlainFormat = Format<PlainCode<T, Lane>, PlainCode<T, Lane>, dtype, std::is_signed_v<T>>;
template <typename Code, Dtype dtype>
using SmallFormat = Format<Code, PlainCode<float, float>, dtype>;
// Integers that accumulate in 64 bits, for AVG.
template <typename T, typename Wide, Dtype dtype>
using WideIntFormat = Format<PlainCode<T, Wide>, PlainCode<Wide, Wide>, dtype, std::is_signed_v<T>>;

using F32 = PlainFormat<float, float, Dtype::kF32>;
using F64 = PlainFormat<double, double, Dtype::kF64>;
using F16 = SmallFormat<F16Code, Dtype::kF16>;
using BF16 = SmallFormat<BF16Code, Dtype::kBF16>;
using F8E4M3 = SmallFormat<F8E4M3Code, Dtype::kF8E4M3>;
using F8E5M2 = SmallFormat<F8E5M2Code, Dtype::kF8E5M2>;
using I8 = PlainFormat<int8_t, int32_t, Dtype::kI8>;
using U8 = PlainFormat<uint8_t, uint32_t, Dtype::kU8>;
using I32 = PlainFormat<int32_t, int32_t, Dtype::kI32>;
using U32 = PlainFormat<uint32_t, uint32_t, Dtype::kU32>;
using I64 = PlainFormat<int64_t, int64_t, Dtype::kI64>;
using U64 = PlainFormat<uint64_t, uint64_t, Dtype::kU64>;

using AvgI8 = WideIntFormat<int8_t, int64_t, Dtype::kI8>;
using AvgU8 = WideIntFormat<uint8_t, uint64_t, Dtype::kU8>;
using AvgI32 = WideIntFormat<int32_t, int64_t, Dtype::kI32>;
using AvgU32 = WideIntFormat<uint32_t, uint64_t, Dtype::kU32>;
// f32 summed in f64 and rounded once, which the host kernels do not offer.
using WideF32 = Format<PlainCode<float, double>, PlainCode<double, double>, Dtype::kF32>;

// --- The end of an accumulation.

// Truncates toward zero and clamps to the range of T, the integer a storage holds.
template <typename T>
FTAR_HD T ClampedTo(double x) {
  // The upper bound of a 64-bit type is not a double; its successor is.
  using U = std::make_unsigned_t<T>;
  constexpr T kMax = static_cast<T>(static_cast<U>(~U{0}) >> (std::is_signed_v<T> ? 1 : 0));
  constexpr T kLowest = std::is_signed_v<T> ? static_cast<T>(-kMax - 1) : T{0};
  constexpr double kUpper = 2.0 * static_cast<double>(kMax / 2 + 1);
  if (!(x < kUpper)) return x != x ? T{0} : kMax;
  return x > static_cast<double>(kLowest) ? static_cast<T>(x) : kLowest;
}

// What a sum is divided by and a result multiplied by.
struct Finish {
  double divisor = 1.0;
  double scale = 1.0;
  // The same once more, rounded: a device converts few doubles at a time.
  float divisor_f32 = 1.0f;
  float scale_f32 = 1.0f;
  bool divides = false;
  bool scales = false;
};

// One of the two, in the type that is calculated with.
template <typename Lane>
FTAR_HD Lane FactorOf(double exact, float rounded) {
  if constexpr (std::is_same_v<Lane, float>) {
    return rounded;
  } else {
    return static_cast<Lane>(exact);
  }
}

// Stored bits of an accumulated lane, divided and scaled.
template <typename F, typename Op>
FTAR_HD typename F::Storage FinishLane(const Finish& finish, typename F::Lane lane) {
  using Lane = typename F::Lane;
  if constexpr (Op::kAverages) {
    if (finish.divides) lane = Divide(lane, FactorOf<Lane>(finish.divisor, finish.divisor_f32));
  }
  if constexpr (F::kFloat) {
    if (finish.scales) lane = Multiply(lane, FactorOf<Lane>(finish.scale, finish.scale_f32));
    return F::Code::Narrow(Canonical(lane));
  } else {
    typename F::Storage bits = F::Code::Narrow(lane);
    if (finish.scales) {
      using Own = std::conditional_t<F::kSigned, std::make_signed_t<typename F::Storage>,
                                     typename F::Storage>;
      const double scaled = Multiply(static_cast<double>(static_cast<Own>(bits)), finish.scale);
      bits = static_cast<typename F::Storage>(ClampedTo<Own>(scaled));
    }
    return bits;
  }
}

// The same where nothing is to be done but to round.
template <typename Code>
FTAR_HD typename Code::Storage StoredLane(typename Code::Lane lane) {
  if constexpr (std::is_floating_point_v<typename Code::Lane>) {
    return Code::Narrow(Canonical(lane));
  } else {
    return Code::Narrow(lane);
  }
}

}  // namespace ftar::kernels

#endif  // FTAR_KERNELS_ARITH_H_
