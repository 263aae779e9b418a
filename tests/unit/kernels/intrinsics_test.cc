// Goal: CUDA's own conversions, as its headers carry them out on the host, are what arith.h's
// device half takes for granted: equal to our integer arithmetic for every value, and for what
// rounds to it, but for the NaNs and infinities that arith.h treats itself.
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "kernels/arith.h"

namespace ftar::kernels {
namespace {

float WidenByCuda(F16Code, uint32_t bits) {
  __half_raw raw;
  raw.x = static_cast<uint16_t>(bits);
  return __half2float(__half(raw));
}
float WidenByCuda(F8E4M3Code, uint32_t bits) {
  return __half2float(__half(__nv_cvt_fp8_to_halfraw(static_cast<uint8_t>(bits), __NV_E4M3)));
}
float WidenByCuda(F8E5M2Code, uint32_t bits) {
  return __half2float(__half(__nv_cvt_fp8_to_halfraw(static_cast<uint8_t>(bits), __NV_E5M2)));
}

uint32_t NarrowByCuda(F16Code, float x) { return static_cast<__half_raw>(__float2half_rn(x)).x; }
uint32_t NarrowByCuda(F8E4M3Code, float x) {
  return __nv_cvt_float_to_fp8(x, __NV_SATFINITE, __NV_E4M3);
}
uint32_t NarrowByCuda(F8E5M2Code, float x) {
  return __nv_cvt_float_to_fp8(x, __NV_SATFINITE, __NV_E5M2);
}

// What the device half leaves to the instruction.
bool IsLeftToCuda(F16Code, float x) { return !std::isnan(x); }
bool IsLeftToCuda(F8E4M3Code, float) { return true; }
bool IsLeftToCuda(F8E5M2Code, float x) { return std::isfinite(x); }

template <typename Code>
class Intrinsics : public testing::Test {
 protected:
  static constexpr uint32_t kPatterns = 1u << (8 * sizeof(typename Code::Storage));
  static void CheckNarrow(float x) {
    x = Canonical(x);
    if (!IsLeftToCuda(Code{}, x)) return;
    ASSERT_EQ(NarrowByCuda(Code{}, x), Code::Narrow(x)) << std::hex << BitsOf(x);
  }
};
using Codes = testing::Types<F16Code, F8E4M3Code, F8E5M2Code>;
TYPED_TEST_SUITE(Intrinsics, Codes);

TYPED_TEST(Intrinsics, EveryValueWidensAlike) {
  for (uint32_t bits = 0; bits < this->kPatterns; ++bits) {
    const float ours = TypeParam::Widen(static_cast<typename TypeParam::Storage>(bits));
    const float theirs = WidenByCuda(TypeParam{}, bits);
    ASSERT_TRUE(std::isnan(ours) ? std::isnan(theirs) : BitsOf(ours) == BitsOf(theirs))
        << std::hex << bits;
  }
}

TYPED_TEST(Intrinsics, EveryValueAndWhatLiesBetweenNarrowsAlike) {
  for (uint32_t bits = 0; bits + 1 < this->kPatterns; ++bits) {
    const uint32_t at = BitsOf(TypeParam::Widen(static_cast<typename TypeParam::Storage>(bits)));
    const uint32_t next =
        BitsOf(TypeParam::Widen(static_cast<typename TypeParam::Storage>(bits + 1)));
    const uint32_t middle = at + (next - at) / 2;
    for (uint32_t x : {at, at - 1, at + 1, middle, middle - 1, middle + 1}) {
      ASSERT_NO_FATAL_FAILURE(this->CheckNarrow(FloatOf(x)));
    }
  }
}

TYPED_TEST(Intrinsics, RandomBitsNarrowAlike) {
  std::mt19937 random(29);
  for (int i = 0; i < 1000000; ++i) {
    ASSERT_NO_FATAL_FAILURE(this->CheckNarrow(FloatOf(static_cast<uint32_t>(random()))));
  }
}

}  // namespace
}  // namespace ftar::kernels
