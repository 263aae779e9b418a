#include "reduce/reduce.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "base/copy.h"
#include "reduce/kernels.h"

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace ftar::reduce {
namespace {

bool IsDtype(Dtype dtype) {
  return static_cast<uint32_t>(dtype) < static_cast<uint32_t>(kDtypeCount);
}
bool IsRedop(Redop redop) {
  return static_cast<uint32_t>(redop) < static_cast<uint32_t>(kRedopCount);
}
bool IsFloat(Dtype dtype) { return static_cast<int32_t>(dtype) < static_cast<int32_t>(Dtype::kI8); }
bool IsSigned(Dtype dtype) {
  return dtype == Dtype::kI8 || dtype == Dtype::kI32 || dtype == Dtype::kI64;
}
bool Divides(Redop redop) { return redop == Redop::kAvg || redop == Redop::kWavg; }

// Rounding to nearest, subnormals kept and exceptions masked for the life of the object, whatever
// the caller's thread (or a -ffast-math library in its process) has set; then as before.
class FloatEnvironment {
 public:
#if defined(__x86_64__)
  FloatEnvironment() : saved_(_mm_getcsr()) {
    if (!IsUsual(saved_)) _mm_setcsr(kDefault);
  }
  ~FloatEnvironment() {
    if (!IsUsual(saved_)) _mm_setcsr(saved_);
  }
  static bool IsUsual() { return IsUsual(_mm_getcsr()); }

 private:
  static constexpr unsigned kDefault = 0x1f80;
  static constexpr unsigned kFlags = 0x3f;  // What has happened so far; does not change results.
  static bool IsUsual(unsigned bits) { return (bits & ~kFlags) == kDefault; }
  const unsigned saved_;
#else
  FloatEnvironment() = default;
  ~FloatEnvironment() {}
  static bool IsUsual() { return true; }
#endif
  FloatEnvironment(const FloatEnvironment&) = delete;
  FloatEnvironment& operator=(const FloatEnvironment&) = delete;
};

Combine CombineOf(Dtype dtype, Redop redop) {
  switch (redop) {
    case Redop::kProd: return Combine::kProd;
    case Redop::kMin: return Combine::kMin;
    case Redop::kMax: return Combine::kMax;
    case Redop::kAvg: return IsFloat(dtype) ? Combine::kSum : Combine::kAccumulate;
    case Redop::kWavg: return Combine::kAccumulate;
    case Redop::kSum: break;
  }
  return Combine::kSum;
}

// Up to here AVX2 takes at most as long as AVX-512 (newer Intel): as much of a type that is added
// as it is stored, and of one that is converted before.
constexpr size_t kShortBytes = 128 << 10, kShortConvertedBytes = 32 << 10;

// The bits are the same whichever. Of a few elements a wide block would be nearly all padding.
const KernelTable& KernelsFor(size_t accumulated_bytes, bool converts) {
  const KernelTable& narrow = ScalarKernels();
  if (accumulated_bytes <= narrow.block_bytes) return narrow;
  return CurrentKernels(accumulated_bytes <= (converts ? kShortConvertedBytes : kShortBytes));
}

// One reduction of `count` elements as the kernels see it. Its members do what one kernel call
// cannot.
class Run {
 public:
  Run(Dtype dtype, Redop redop, Output output, const Finish& finish, size_t count)
      : accumulator_(AccumulatorOf(dtype, redop)),
        stored_bytes_(ElementBytes(output == Output::kPartial ? accumulator_ : dtype)),
        finish_(finish),
        count_(count) {
    const size_t width = ElementBytes(accumulator_);
    const KernelTable& table = KernelsFor(count * width, width != ElementBytes(dtype));
    const auto& kernels =
        table.kernel[static_cast<int>(dtype)][static_cast<int>(CombineOf(dtype, redop))];
    kernel_ = kernels[static_cast<int>(output)];
    partial_kernel_ = kernels[static_cast<int>(Output::kPartial)];
    block_elements_ = table.block_bytes / width;
  }

  void Do(std::span<const Source> sources, void* dst) const {
    const size_t whole = count_ - count_ % block_elements_;
    if (whole > 0) kernel_(sources.data(), sources.size(), finish_, dst, whole);
    if (whole < count_) DoRest(sources, dst, whole, count_ - whole);
  }

 private:
  // Elements [from, from + n), fewer than a block, by way of padded copies. There is room for some
  // sources at a time; what they give together is the first source beside the next ones, which
  // keeps the order of addition and so the bits.
  void DoRest(std::span<const Source> sources, void* dst, size_t from, size_t n) const {
    alignas(64) unsigned char padded[kSourcesAtATime][kMaxBlockBytes];
    alignas(64) unsigned char result[kMaxBlockBytes];
    Source rest[kSourcesAtATime];
    size_t filled = 0;
    for (const Source& source : sources) {
      if (filled == kSourcesAtATime) {
        partial_kernel_(rest, filled, Finish{}, result, block_elements_);
        std::memcpy(padded[0], result, sizeof(result));
        rest[0] = {.data = padded[0], .format = accumulator_, .weight = 1.0};
        filled = 1;
      }
      const size_t bytes = ElementBytes(source.format);
      const auto* data = static_cast<const unsigned char*>(source.data);
      std::memset(padded[filled], 0, block_elements_ * bytes);
      CopyShort(padded[filled], data + from * bytes, n * bytes);
      rest[filled] = {.data = padded[filled], .format = source.format, .weight = source.weight};
      ++filled;
    }
    kernel_(rest, filled, finish_, result, block_elements_);
    CopyShort(static_cast<unsigned char*>(dst) + from * stored_bytes_, result, n * stored_bytes_);
  }

  static constexpr size_t kSourcesAtATime = 8;
  Dtype accumulator_;
  size_t stored_bytes_;
  Finish finish_;
  size_t count_;
  Kernel kernel_ = nullptr;
  Kernel partial_kernel_ = nullptr;
  size_t block_elements_ = 0;
};

// Of a few elements, as of a loss or a norm, the sum without a kernel's preparations. The order of
// addition and the bits are the kernels'.
constexpr size_t kFewBytes = 32;

template <typename T>
T LoadOne(const Source& source, size_t i) {
  T value;
  std::memcpy(&value, static_cast<const unsigned char*>(source.data) + i * sizeof(T), sizeof(T));
  return value;
}

template <typename T>
void SumFewAs(std::span<const Source> sources, void* dst, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    T sum = LoadOne<T>(sources[0], i);
    for (const Source& source : sources.subspan(1)) sum += LoadOne<T>(source, i);
    if constexpr (std::is_floating_point_v<T>) {
      if (sum != sum) sum = std::numeric_limits<T>::quiet_NaN();
    }
    std::memcpy(static_cast<unsigned char*>(dst) + i * sizeof(T), &sum, sizeof(T));
  }
}

// True if multiplying by 1 / divisor gives the bits of dividing: a power of two far from the ends
// of f32's range.
bool HasExactReciprocal(double divisor) {
  int exponent = 0;
  return std::frexp(divisor, &exponent) == 0.5 && exponent > -100 && exponent < 100;
}

// What a float result needs; division takes several times as long as multiplication.
Output FloatFinish(Dtype dtype, Redop redop, double divisor, double scale, Finish* finish) {
  if (!Divides(redop)) divisor = 1.0;
  if (dtype != Dtype::kF64) divisor = static_cast<float>(divisor);
  if (divisor == 1.0) {
    finish->scale = scale;
    return Output::kMultiply;
  }
  if (scale == 1.0 && HasExactReciprocal(divisor)) {
    finish->scale = 1.0 / divisor;
    return Output::kMultiply;
  }
  finish->divisor = divisor;
  finish->scale = scale;
  return Output::kDivide;
}

template <typename T>
T ClampedTo(double x) {
  // The upper bound of a 64-bit type is not a double; its successor is.
  constexpr T kHalf = std::numeric_limits<T>::max() / 2 + 1;
  constexpr double kUpper = 2.0 * static_cast<double>(kHalf);
  if (!(x < kUpper)) return std::isnan(x) ? T{0} : std::numeric_limits<T>::max();
  constexpr double kLowest = static_cast<double>(std::numeric_limits<T>::lowest());
  return x > kLowest ? static_cast<T>(x) : std::numeric_limits<T>::lowest();
}

template <typename T>
void ScaleAs(double scale, void* dst, size_t count) {
  auto* bytes = static_cast<unsigned char*>(dst);
  for (size_t i = 0; i < count; ++i) {
    T value;
    std::memcpy(&value, bytes + i * sizeof(T), sizeof(T));
    value = ClampedTo<T>(static_cast<double>(value) * scale);
    std::memcpy(bytes + i * sizeof(T), &value, sizeof(T));
  }
}

void ScaleIntegers(Dtype dtype, double scale, void* dst, size_t count) {
  switch (dtype) {
    case Dtype::kI8: return ScaleAs<int8_t>(scale, dst, count);
    case Dtype::kU8: return ScaleAs<uint8_t>(scale, dst, count);
    case Dtype::kI32: return ScaleAs<int32_t>(scale, dst, count);
    case Dtype::kU32: return ScaleAs<uint32_t>(scale, dst, count);
    case Dtype::kI64: return ScaleAs<int64_t>(scale, dst, count);
    case Dtype::kU64: return ScaleAs<uint64_t>(scale, dst, count);
    default: return;
  }
}

constexpr double kWeightsMax = 65536.0;  // Members of a group.

// Of a positive number: T holds it, rounded to all of its digits.
template <typename T>
bool IsNormal(double x) {
  return x >= std::numeric_limits<T>::min() && x <= std::numeric_limits<T>::max();
}

}  // namespace

size_t ElementBytes(Dtype dtype) {
  static constexpr size_t kBytes[kDtypeCount] = {4, 8, 2, 2, 1, 1, 1, 1, 4, 4, 8, 8};
  return IsDtype(dtype) ? kBytes[static_cast<int>(dtype)] : 0;
}

Dtype AccumulatorOf(Dtype dtype, Redop redop) {
  if (IsFloat(dtype)) return dtype == Dtype::kF64 ? Dtype::kF64 : Dtype::kF32;
  if (redop != Redop::kAvg) return dtype;
  return IsSigned(dtype) ? Dtype::kI64 : Dtype::kU64;
}

bool Supports(Dtype dtype, Redop redop) {
  return IsDtype(dtype) && IsRedop(redop) && (redop != Redop::kWavg || IsFloat(dtype));
}

bool TakesScale(Dtype dtype, double scale) {
  if (!IsFloat(dtype) || dtype == Dtype::kF64) return true;
  return IsNormal<float>(std::abs(scale));
}

bool TakesWeight(Dtype dtype, Redop redop, double weight) {
  if (redop != Redop::kWavg || weight == 0.0) return true;
  const double most = weight * kWeightsMax;
  if (dtype == Dtype::kF64) return IsNormal<double>(weight) && IsNormal<double>(most);
  return IsNormal<float>(weight) && IsNormal<float>(most);
}

FewSum FewSumOf(Dtype dtype, Redop redop, double scale, size_t count) {
  if (redop != Redop::kSum || scale != 1.0 || count * ElementBytes(dtype) > kFewBytes ||
      !FloatEnvironment::IsUsual())
    return nullptr;
  switch (dtype) {
    case Dtype::kF32: return SumFewAs<float>;
    case Dtype::kF64: return SumFewAs<double>;
    case Dtype::kI32:
    case Dtype::kU32: return SumFewAs<uint32_t>;
    case Dtype::kI64:
    case Dtype::kU64: return SumFewAs<uint64_t>;
    default: return nullptr;
  }
}

[[gnu::hot]] void ReduceToFinal(Dtype dtype, Redop redop, std::span<const Source> sources,
                                double divisor, double scale, void* dst, size_t count) {
  if (sources.empty() || count == 0 || !Supports(dtype, redop)) return;
  const bool divides = Divides(redop);
  if (divides && !(divisor > 0.0)) return;
  if (const FewSum sum = FewSumOf(dtype, redop, scale, count)) return sum(sources, dst, count);
  const FloatEnvironment environment;
  if (IsFloat(dtype)) {
    Finish finish;
    const Output output = FloatFinish(dtype, redop, divisor, scale, &finish);
    return Run(dtype, redop, output, finish, count).Do(sources, dst);
  }
  if (divides && divisor < 1.0) return;
  const Finish finish{.divisor = divisor, .scale = 1.0};
  const Output output = divides ? Output::kDivide : Output::kPartial;
  Run(dtype, redop, output, finish, count).Do(sources, dst);
  if (scale != 1.0) ScaleIntegers(dtype, scale, dst, count);
}

void ReduceToPartial(Dtype dtype, Redop redop, std::span<const Source> sources, void* dst,
                     size_t count) {
  if (sources.empty() || count == 0 || !Supports(dtype, redop)) return;
  const FloatEnvironment environment;
  Run(dtype, redop, Output::kPartial, Finish{}, count).Do(sources, dst);
}

void FinishPartial(Dtype dtype, Redop redop, const void* partial, double divisor, double scale,
                   void* dst, size_t count) {
  const Source source{.data = partial, .format = AccumulatorOf(dtype, redop), .weight = 1.0};
  ReduceToFinal(dtype, redop, {&source, 1}, divisor, scale, dst, count);
}

}  // namespace ftar::reduce
