#include "perf/numbers.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "perf/types.h"

namespace ftar::perf {
namespace {

uint32_t Code(ftarDtype_t dtype, double value) {
  uint32_t code = 0;
  EncodeFloat(dtype, value, &code);
  return code;
}

TEST(Numbers, KnownCodesOfNarrowFloats) {
  EXPECT_EQ(Code(FTAR_F16, 1), 0x3c00u);
  EXPECT_EQ(Code(FTAR_F16, -2), 0xc000u);
  EXPECT_EQ(Code(FTAR_F16, 65504), 0x7bffu);
  EXPECT_EQ(Code(FTAR_F16, 65520), 0x7c00u);    // rounds to infinity
  EXPECT_EQ(Code(FTAR_F16, 0x1p-24), 0x0001u);  // smallest subnormal
  EXPECT_EQ(Code(FTAR_F16, 0x1p-25), 0x0000u);  // a tie goes to even
  EXPECT_EQ(Code(FTAR_BF16, 1), 0x3f80u);
  EXPECT_EQ(Code(FTAR_BF16, 257), 0x4380u);  // a tie goes to even: 256
  EXPECT_EQ(Code(FTAR_BF16, 259), 0x4382u);  // and here upwards: 260
  EXPECT_EQ(Code(FTAR_F8E4M3, 448), 0x7eu);  // its largest
  EXPECT_EQ(Code(FTAR_F8E4M3, 1), 0x38u);
  EXPECT_EQ(Code(FTAR_F8E4M3, 0x1p-9), 0x01u);
  EXPECT_EQ(Code(FTAR_F8E5M2, 1), 0x3cu);
  EXPECT_EQ(Code(FTAR_F8E5M2, 57344), 0x7bu);
  EXPECT_EQ(Code(FTAR_F8E5M2, INFINITY), 0x7cu);
}

TEST(Numbers, EveryNarrowCodeSurvivesARoundTrip) {
  for (ftarDtype_t dtype : {FTAR_F16, FTAR_BF16, FTAR_F8E4M3, FTAR_F8E5M2}) {
    const uint32_t codes = 1u << (8 * TypeOf(dtype).bytes);
    for (uint32_t code = 0; code < codes; ++code) {
      const double value = DecodeFloat(dtype, &code);
      if (std::isnan(value)) continue;
      ASSERT_EQ(Code(dtype, value), code) << TypeOf(dtype).name << " " << value;
    }
  }
}

TEST(Numbers, TheCompilersHalfAgrees) {
#if defined(__FLT16_MAX__)
  for (double value = -70000; value < 70000; value += 3.37) {
    const auto half = static_cast<_Float16>(value);
    uint16_t code = 0;
    std::memcpy(&code, &half, sizeof code);
    ASSERT_EQ(Code(FTAR_F16, value), code) << value;
  }
#else
  GTEST_SKIP() << "this compiler has no half precision";
#endif
}

TEST(Numbers, IntegersKeepTheirSign) {
  uint64_t element = 0;
  EncodeInteger(FTAR_I8, static_cast<uint64_t>(-5), &element);
  EXPECT_EQ(element, 0xfbu);
  EXPECT_EQ(static_cast<int64_t>(DecodeInteger(FTAR_I8, &element)), -5);
  EXPECT_EQ(DecodeInteger(FTAR_U8, &element), 0xfbu);
}

}  // namespace
}  // namespace ftar::perf
