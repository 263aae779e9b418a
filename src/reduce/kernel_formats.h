// Vectors and number formats of the reduction kernels: how a vector of elements becomes
// accumulators and back.
//
// Included by each kernels_<isa>.cc only (by way of kernel_loops.h), after it has defined
// FTAR_KERNEL_VECTOR_BYTES and, for hardware f16 conversion, FTAR_KERNEL_F16C. Everything has
// internal linkage and no library function is used, see types.h. Pure functions.
//
// The code is written with the compiler's vector types, so one text serves every width; conversions
// are exact or rounded by integer arithmetic, so that no instruction set's own habits show
// (AVX512_BF16 for one flushes subnormals; where kernels_avx512bf16.cc uses it, it makes up for
// that).
#ifndef FTAR_REDUCE_KERNEL_FORMATS_H_
#define FTAR_REDUCE_KERNEL_FORMATS_H_

#include <type_traits>
#include <utility>

#include "reduce/kernels.h"

#ifdef FTAR_KERNEL_F16C
#include <immintrin.h>
#endif

#define FTAR_INLINE_MEMBER [[gnu::always_inline]] inline
#define FTAR_INLINE FTAR_INLINE_MEMBER static

namespace ftar::reduce {
namespace {

// `lanes` elements of T.
template <typename T, size_t lanes>
struct VectorOf {
  typedef T Type __attribute__((vector_size(sizeof(T) * lanes)));
};
template <typename T, size_t lanes>
using Vector = typename VectorOf<T, lanes>::Type;

constexpr size_t kVectorBytes = FTAR_KERNEL_VECTOR_BYTES;
template <typename T>
constexpr size_t kLanes = kVectorBytes / sizeof(T);
template <typename T>
using Native = Vector<T, kLanes<T>>;

using F32s = Native<float>;
using I32s = Native<int32_t>;
using U32s = Native<uint32_t>;
constexpr size_t kF32Lanes = kLanes<float>;

template <typename V>
FTAR_INLINE V LoadAs(const uint8_t* from) {
  V v;
  __builtin_memcpy(&v, from, sizeof(v));
  return v;
}

template <typename V>
FTAR_INLINE void StoreAs(uint8_t* to, V v) {
  __builtin_memcpy(to, &v, sizeof(v));
}

FTAR_INLINE F32s AsF32(I32s bits) { return reinterpret_cast<F32s>(bits); }
FTAR_INLINE I32s AsI32(F32s value) { return reinterpret_cast<I32s>(value); }
FTAR_INLINE I32s Splat(int32_t x) { return I32s{} + x; }

// All NaNs become one, so that results do not depend on which payload an instruction passes on.
FTAR_INLINE F32s Canonical(F32s v) { return v == v ? v : AsF32(Splat(0x7fc00000)); }
FTAR_INLINE Native<double> Canonical(Native<double> v) {
  return v == v ? v : reinterpret_cast<Native<double>>(Native<int64_t>{} + 0x7ff8000000000000);
}

// A binary float of one sign bit, `exponent_bits` and `mantissa_bits`, exact in f32.
template <int exponent_bits, int mantissa_bits>
struct SmallFloat {
  static constexpr int kBias = (1 << (exponent_bits - 1)) - 1;
  static constexpr int kShift = 23 - mantissa_bits;
  static constexpr int32_t kRebias = (127 - kBias) << 23;
  static constexpr int32_t kMagnitude = (1 << (exponent_bits + mantissa_bits)) - 1;
  static constexpr int32_t kInfinity = ((1 << exponent_bits) - 1) << mantissa_bits;

  // The f32 of a magnitude. The caller mends the highest exponent where it is not that of finite
  // values.
  FTAR_INLINE I32s WidenFinite(I32s bits) {
    const I32s magnitude = bits << kShift;
    const I32s normal = magnitude + kRebias;
    // A subnormal m is 1.m of the lowest exponent less the 1; no subnormal f32 takes part.
    const I32s lowest = Splat(kRebias + (1 << 23));
    const I32s subnormal = AsI32(AsF32(magnitude + lowest) - AsF32(lowest));
    return magnitude < (1 << 23) ? subnormal : normal;
  }

  // Rounds the magnitude of an f32 to nearest even; what lies beyond the format comes out above
  // kInfinity, monotone.
  FTAR_INLINE I32s NarrowMagnitude(I32s magnitude_f32) {
    // Adding a number whose last place is the smallest subnormal rounds there, and leaves the
    // result in its low bits.
    constexpr int32_t kSubnormalMagic = (127 - kBias + kShift + 1) << 23;
    const I32s magic = Splat(kSubnormalMagic);
    const I32s subnormal = AsI32(AsF32(magnitude_f32) + AsF32(magic)) - magic;
    const I32s odd = (magnitude_f32 >> kShift) & 1;
    const I32s normal = (magnitude_f32 - kRebias + ((1 << (kShift - 1)) - 1) + odd) >> kShift;
    return magnitude_f32 < kRebias + (1 << 23) ? subnormal : normal;
  }
};

// --- Formats. Each has the lane type of its accumulator, the bytes of an element, and LoadBlock
// and StoreBlock, which turn kUnroll vectors of accumulators from and to elements. Stored NaNs are
// canonical already.
//
// A plain format has one vector of elements to one of accumulators, in order. A packed one has
// `kPlanes` elements in each 32-bit word and takes the words apart by shifts, as lanes are never
// moved between widths that way: word j of a vector gives lane j of each of kPlanes accumulators
// ("planes"). PartialFormat brings partial results into the same order.

constexpr size_t kUnroll = 4;

// The accumulators of one block, in the order that the format says.
template <typename Lane>
struct Block {
  static constexpr size_t kVectorLanes = kLanes<Lane>;
  static constexpr size_t kElements = kUnroll * kVectorLanes;
  Native<Lane> v[kUnroll];
};

// Element is the format itself: it gives Load and Store of one vector.
template <typename Element, typename LaneType, size_t bytes>
struct PlainFormat {
  using Lane = LaneType;
  static constexpr size_t kBytes = bytes;
  static constexpr size_t kPlanes = 1;
  FTAR_INLINE Block<Lane> LoadBlock(const uint8_t* from) {
    Block<Lane> block;
    for (size_t k = 0; k < kUnroll; ++k)
      block.v[k] = Element::Load(from + k * kLanes<Lane> * bytes);
    return block;
  }
  FTAR_INLINE void StoreBlock(uint8_t* to, const Block<Lane>& block) {
    for (size_t k = 0; k < kUnroll; ++k) Element::Store(to + k * kLanes<Lane> * bytes, block.v[k]);
  }
};

// Element is the format itself: Widen<plane>(words) gives f32 values, Narrow<plane>(values) words
// with only this plane's bits set.
template <typename Element, size_t bytes>
struct PackedFormat {
  using Lane = float;
  static constexpr size_t kBytes = bytes;
  static constexpr size_t kPlanes = 4 / bytes;
  FTAR_INLINE Block<float> LoadBlock(const uint8_t* from) {
    Block<float> block;
    for (size_t k = 0; k < kUnroll; k += kPlanes) {
      const I32s words = LoadAs<I32s>(from + k * kF32Lanes * bytes);
      block.v[k] = Element::template Widen<0>(words);
      block.v[k + 1] = Element::template Widen<1>(words);
      if constexpr (kPlanes == 4) {
        block.v[k + 2] = Element::template Widen<2>(words);
        block.v[k + 3] = Element::template Widen<3>(words);
      }
    }
    return block;
  }
  FTAR_INLINE void StoreBlock(uint8_t* to, const Block<float>& block) {
    for (size_t k = 0; k < kUnroll; k += kPlanes) {
      I32s words =
          Element::template Narrow<0>(block.v[k]) | Element::template Narrow<1>(block.v[k + 1]);
      if constexpr (kPlanes == 4) {
        words |= Element::template Narrow<2>(block.v[k + 2]) |
                 Element::template Narrow<3>(block.v[k + 3]);
      }
      StoreAs(to + k * kF32Lanes * bytes, words);
    }
  }
};

template <typename T, Dtype dtype>
struct OwnFormat : PlainFormat<OwnFormat<T, dtype>, T, sizeof(T)> {
  static constexpr Dtype kDtype = dtype;
  static constexpr Dtype kAccumulator = dtype;
  FTAR_INLINE Native<T> Load(const uint8_t* from) { return LoadAs<Native<T>>(from); }
  FTAR_INLINE void Store(uint8_t* to, Native<T> v) { StoreAs(to, v); }
};

using F32Format = OwnFormat<float, Dtype::kF32>;
using F64Format = OwnFormat<double, Dtype::kF64>;

struct BF16Format : PackedFormat<BF16Format, 2> {
  static constexpr Dtype kDtype = Dtype::kBF16;
  static constexpr Dtype kAccumulator = Dtype::kF32;
  static constexpr int32_t kUpper = -0x10000;
  template <size_t plane>
  FTAR_INLINE F32s Widen(I32s words) {
    return AsF32(plane == 0 ? words << 16 : words & kUpper);
  }
  template <size_t plane>
  FTAR_INLINE I32s Narrow(F32s v) {
    const U32s bits = reinterpret_cast<U32s>(v);
    const U32s rounded = bits + 0x7fff + ((bits >> 16) & 1);
    return plane == 0 ? reinterpret_cast<I32s>(rounded >> 16)
                      : reinterpret_cast<I32s>(rounded) & kUpper;
  }
};

// The formats that need SmallFloat. Element gives WidenBits and NarrowBits of elements alone in
// their lanes.
template <typename Element, size_t bytes>
struct SmallFormat : PackedFormat<Element, bytes> {
  static constexpr Dtype kAccumulator = Dtype::kF32;
  static constexpr int kBits = 8 * bytes;
  static constexpr int32_t kSignBit = 1 << (kBits - 1);
  template <size_t plane>
  FTAR_INLINE F32s Widen(I32s words) {
    const I32s bits = words >> static_cast<int>(kBits * plane);
    using Layout = typename Element::Layout;
    const I32s sign = (bits << (32 - kBits)) & Splat(INT32_MIN);
    return AsF32(Element::WidenMagnitude(bits & Layout::kMagnitude) | sign);
  }
  template <size_t plane>
  FTAR_INLINE I32s Narrow(F32s v) {
    const I32s bits = AsI32(v);
    const I32s narrow =
        Element::NarrowMagnitude(bits & INT32_MAX) | ((bits >> (32 - kBits)) & kSignBit);
    return narrow << static_cast<int>(kBits * plane);
  }
};

constexpr int32_t kF32Infinity = 0x7f800000;

#if defined(FTAR_KERNEL_F16C)
struct F16Format : PlainFormat<F16Format, float, 2> {
  static constexpr Dtype kDtype = Dtype::kF16;
  static constexpr Dtype kAccumulator = Dtype::kF32;
#if FTAR_KERNEL_VECTOR_BYTES == 64
  // The forms with a mask, here a full one, as g++ 12 warns of the others' undefined operand.
  FTAR_INLINE F32s Load(const uint8_t* from) {
    return _mm512_maskz_cvtph_ps(0xffff, LoadAs<__m256i>(from));
  }
  FTAR_INLINE void Store(uint8_t* to, F32s v) {
    StoreAs(to, _mm512_maskz_cvtps_ph(0xffff, v, _MM_FROUND_TO_NEAREST_INT));
  }
#else
  FTAR_INLINE F32s Load(const uint8_t* from) { return _mm256_cvtph_ps(LoadAs<__m128i>(from)); }
  FTAR_INLINE void Store(uint8_t* to, F32s v) {
    StoreAs(to, _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
  }
#endif
};
#else
struct F16Format : SmallFormat<F16Format, 2> {
  using Layout = SmallFloat<5, 10>;
  static constexpr Dtype kDtype = Dtype::kF16;
  FTAR_INLINE I32s WidenMagnitude(I32s bits) {
    // Infinity and NaN: the highest exponent of f16 is moved to that of f32.
    return Layout::WidenFinite(bits) + ((bits >= Layout::kInfinity) & Layout::kRebias);
  }
  FTAR_INLINE I32s NarrowMagnitude(I32s magnitude) {
    const I32s narrow = Layout::NarrowMagnitude(magnitude);
    const I32s limited = narrow < Layout::kInfinity ? narrow : Splat(Layout::kInfinity);
    return magnitude > kF32Infinity ? Splat(0x7e00) : limited;
  }
};
#endif

struct F8E4M3Format : SmallFormat<F8E4M3Format, 1> {
  using Layout = SmallFloat<4, 3>;
  static constexpr Dtype kDtype = Dtype::kF8E4M3;
  static constexpr int32_t kNan = 0x7f;
  static constexpr int32_t kLargest = 0x7e;
  FTAR_INLINE I32s WidenMagnitude(I32s bits) {
    return bits == kNan ? Splat(0x7fc00000) : Layout::WidenFinite(bits);
  }
  FTAR_INLINE I32s NarrowMagnitude(I32s magnitude) {
    const I32s narrow = Layout::NarrowMagnitude(magnitude);
    const I32s limited = narrow < kLargest ? narrow : Splat(kLargest);
    return magnitude > kF32Infinity ? Splat(kNan) : limited;
  }
};

struct F8E5M2Format : SmallFormat<F8E5M2Format, 1> {
  using Layout = SmallFloat<5, 2>;
  static constexpr Dtype kDtype = Dtype::kF8E5M2;
  static constexpr int32_t kNan = 0x7e;
  static constexpr int32_t kLargest = 0x7b;
  FTAR_INLINE I32s WidenMagnitude(I32s bits) {
    return Layout::WidenFinite(bits) + ((bits >= Layout::kInfinity) & Layout::kRebias);
  }
  FTAR_INLINE I32s NarrowMagnitude(I32s magnitude) {
    const I32s narrow = Layout::NarrowMagnitude(magnitude);
    const I32s limited = narrow < kLargest ? narrow : Splat(kLargest);
    const I32s special = magnitude > kF32Infinity ? Splat(kNan) : Splat(Layout::kInfinity);
    return magnitude < kF32Infinity ? limited : special;
  }
};

// Integers that accumulate in 64 bits, `Wide` being int64_t or uint64_t, for AVG.
template <typename T, typename Wide, Dtype dtype, Dtype accumulator>
struct WideIntFormat : PlainFormat<WideIntFormat<T, Wide, dtype, accumulator>, Wide, sizeof(T)> {
  using Narrow = Vector<T, kLanes<Wide>>;
  static constexpr Dtype kDtype = dtype;
  static constexpr Dtype kAccumulator = accumulator;
  FTAR_INLINE Native<Wide> Load(const uint8_t* from) {
    return __builtin_convertvector(LoadAs<Narrow>(from), Native<Wide>);
  }
  FTAR_INLINE void Store(uint8_t* to, Native<Wide> v) {
    StoreAs(to, __builtin_convertvector(v, Narrow));
  }

  // Truncates toward zero. `divisor` is at least 2, which keeps every conversion in range.
  FTAR_INLINE Wide Divide(Wide sum, Wide divisor) {
    if constexpr (sizeof(T) == sizeof(Wide)) {
      return sum / divisor;
    } else {
      // Sums of less than 2^18 elements are below 2^50: the quotient of doubles never rounds up to
      // an integer, and takes a fraction of the time of a 64-bit division.
      const double quotient =
          static_cast<double>(static_cast<int64_t>(sum)) / static_cast<double>(divisor);
      return static_cast<Wide>(static_cast<int64_t>(quotient));
    }
  }
};

// --- Partial results.

// Lanes of the pair (a, b), taken as one vector of twice the length.
template <size_t... lane>
struct Lanes {
  FTAR_INLINE F32s Of(F32s a, F32s b) { return __builtin_shufflevector(a, b, lane...); }
};

template <typename Sequence>
struct Shuffles;
template <size_t... i>
struct Shuffles<std::index_sequence<i...>> {
  static constexpr size_t kHalf = kF32Lanes / 2;
  using Even = Lanes<(2 * i)...>;
  using Odd = Lanes<(2 * i + 1)...>;
  using ZipLow = Lanes<(i / 2 + (i % 2) * kF32Lanes)...>;
  using ZipHigh = Lanes<(i / 2 + kHalf + (i % 2) * kF32Lanes)...>;
};
using Shuffle = Shuffles<std::make_index_sequence<kF32Lanes>>;

FTAR_INLINE void Unzip(F32s* a, F32s* b) {
  const F32s even = Shuffle::Even::Of(*a, *b);
  *b = Shuffle::Odd::Of(*a, *b);
  *a = even;
}

FTAR_INLINE void Zip(F32s* a, F32s* b) {
  const F32s low = Shuffle::ZipLow::Of(*a, *b);
  *b = Shuffle::ZipHigh::Of(*a, *b);
  *a = low;
}

// The partial results of a format: its accumulators as they are, in the order of the elements.
template <typename Format>
struct PartialFormat {
  using Lane = typename Format::Lane;
  using Own = OwnFormat<Lane, Format::kAccumulator>;
  static constexpr size_t kBytes = sizeof(Lane);
  FTAR_INLINE Block<Lane> LoadBlock(const uint8_t* from) {
    Block<Lane> block = Own::LoadBlock(from);
    if constexpr (Format::kPlanes >= 2) {
      Unzip(&block.v[0], &block.v[1]);
      Unzip(&block.v[2], &block.v[3]);
    }
    if constexpr (Format::kPlanes == 4) {
      // Even elements of both pairs are in v[0] and v[2], odd ones in v[1] and v[3]; planes are
      // elements modulo 4.
      Unzip(&block.v[0], &block.v[2]);
      Unzip(&block.v[1], &block.v[3]);
    }
    return block;
  }
  FTAR_INLINE void StoreBlock(uint8_t* to, Block<Lane> block) {
    if constexpr (Format::kPlanes == 4) {
      Zip(&block.v[0], &block.v[2]);
      Zip(&block.v[1], &block.v[3]);
    }
    if constexpr (Format::kPlanes >= 2) {
      Zip(&block.v[0], &block.v[1]);
      Zip(&block.v[2], &block.v[3]);
    }
    Own::StoreBlock(to, block);
  }
};

}  // namespace
}  // namespace ftar::reduce

#endif  // FTAR_REDUCE_KERNEL_FORMATS_H_
