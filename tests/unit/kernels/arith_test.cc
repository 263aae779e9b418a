// Goal: the kernels' thread arithmetic converts every small float as the dumb reference does, every
// bit of it, and combines two lanes as the host kernels do.
#include "kernels/arith.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "tests/unit/reduce/support.h"

namespace ftar::kernels {
namespace {

template <typename F>
class SmallFloats : public testing::Test {};
using SmallFormats = testing::Types<F16, BF16, F8E4M3, F8E5M2>;
TYPED_TEST_SUITE(SmallFloats, SmallFormats);

TYPED_TEST(SmallFloats, EveryValueWidensExactly) {
  using F = TypeParam;
  for (uint32_t bits = 0; bits < 1u << (8 * sizeof(typename F::Storage)); ++bits) {
    const float expected = reduce::reference::DecodeSmall(F::kDtype, bits);
    const float got = F::Code::Widen(static_cast<typename F::Storage>(bits));
    ASSERT_TRUE(std::isnan(expected) ? std::isnan(got) : BitsOf(got) == BitsOf(expected))
        << std::hex << bits;
  }
}

TYPED_TEST(SmallFloats, EveryValueAndBothItsNeighboursNarrow) {
  using F = TypeParam;
  const std::vector<float> values = reduce::reference::SmallMagnitudes(F::kDtype);
  const auto check = [](float x) {
    for (float value : {x, -x}) {
      const float canonical = Canonical(value);
      ASSERT_EQ(F::Code::Narrow(canonical), reduce::reference::EncodeSmall(F::kDtype, canonical))
          << std::hex << BitsOf(canonical);
    }
  };
  for (size_t i = 0; i + 1 < values.size(); ++i) {
    // Halfway between two values, and one place of f32 to each side of there and of the value.
    const auto middle = static_cast<float>((static_cast<double>(values[i]) + values[i + 1]) / 2);
    for (float x : {values[i], middle}) {
      check(x);
      check(std::nextafter(x, 1e38f));
      if (x > 0) check(std::nextafter(x, 0.0f));
    }
  }
  for (float x : {values.back(), INFINITY, NAN, 1e38f, std::nextafter(values.back(), 1e38f)}) {
    check(x);
  }
}

TYPED_TEST(SmallFloats, RandomFloatsNarrow) {
  using F = TypeParam;
  std::mt19937 random(11);
  for (int i = 0; i < 200000; ++i) {
    const float x = Canonical(FloatOf(random()));
    ASSERT_EQ(F::Code::Narrow(x), reduce::reference::EncodeSmall(F::kDtype, x))
        << std::hex << BitsOf(x);
  }
}

template <typename T>
void ExpectClamped(double x, T expected) {
  EXPECT_EQ(ClampedTo<T>(x), expected) << x;
}

TEST(ArithTest, ScaledIntegersTruncateAndClamp) {
  ExpectClamped<int8_t>(1.9, 1);
  ExpectClamped<int8_t>(-1.9, -1);
  ExpectClamped<int8_t>(127.9, 127);
  ExpectClamped<int8_t>(-1e9, -128);
  ExpectClamped<uint8_t>(-0.5, 0);
  ExpectClamped<uint8_t>(300, 255);
  ExpectClamped<int64_t>(1e19, INT64_MAX);
  ExpectClamped<int64_t>(-1e19, INT64_MIN);
  ExpectClamped<uint64_t>(18446744073709549568.0, 18446744073709549568u);
  ExpectClamped<uint64_t>(2e19, UINT64_MAX);
  ExpectClamped<int32_t>(NAN, 0);
}

TEST(ArithTest, MinimumAndMaximumKnowZerosAndNan) {
  EXPECT_EQ(BitsOf(MinOp::Apply(0.0f, -0.0f)), 0x80000000u);
  EXPECT_EQ(BitsOf(MinOp::Apply(-0.0f, 0.0f)), 0x80000000u);
  EXPECT_EQ(BitsOf(MaxOp::Apply(-0.0f, 0.0f)), 0u);
  EXPECT_EQ(BitsOf(MaxOp::Apply(0.0f, -0.0f)), 0u);
  for (float x : {1.0f, -INFINITY, INFINITY, 0.0f}) {
    EXPECT_TRUE(std::isnan(MinOp::Apply(x, NAN)));
    EXPECT_TRUE(std::isnan(MinOp::Apply(NAN, x)));
    EXPECT_TRUE(std::isnan(MaxOp::Apply(x, NAN)));
    EXPECT_TRUE(std::isnan(MaxOp::Apply(NAN, x)));
  }
}

TEST(ArithTest, IntegersWrap) {
  EXPECT_EQ(Add(INT32_MAX, 1), INT32_MIN);
  EXPECT_EQ(Multiply(int64_t{1} << 62, int64_t{4}), 0);
  EXPECT_EQ(I8::Code::Narrow(Add(100, 100)), static_cast<uint8_t>(200));
}

}  // namespace
}  // namespace ftar::kernels
