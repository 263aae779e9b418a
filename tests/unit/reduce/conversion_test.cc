// Goal: conversions between f32 and the small floats are right for every value, both ways.
// Method: every bit pattern is widened; every value, every midpoint between two neighbours and the
// f32 numbers next to both, which are all places where rounding changes, are narrowed.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "tests/unit/reduce/support.h"

namespace ftar::reduce {
namespace {

constexpr Dtype kSmall[] = {Dtype::kF16, Dtype::kBF16, Dtype::kF8E4M3, Dtype::kF8E5M2};

TEST(ConversionTest, EveryPatternWidens) {
  for (Dtype dtype : kSmall) {
    SCOPED_TRACE(NameOf(dtype));
    const size_t count = size_t{1} << (8 * ElementBytes(dtype));
    Elements in(dtype, count, 0);
    for (size_t i = 0; i < count; ++i) in.Set(i, i);
    const Source source{.data = in.data(), .format = dtype, .weight = 1.0};
    ForEachIsa([&] {
      Elements out(Dtype::kF32, count, 0);
      ReduceToPartial(dtype, Redop::kSum, {&source, 1}, out.data(), count);
      for (size_t i = 0; i < count; ++i) {
        const float expected = reference::DecodeSmall(dtype, i);
        const uint32_t bits = std::isnan(expected) ? 0x7fc00000 : std::bit_cast<uint32_t>(expected);
        ASSERT_EQ(out.Get(i), bits) << std::hex << "pattern " << i;
      }
    });
  }
}

// The f32 numbers around which narrowing to `dtype` changes its mind, and some far away.
std::vector<float> Edges(Dtype dtype) {
  const std::vector<float> values = reference::SmallMagnitudes(dtype);
  const float infinity = std::numeric_limits<float>::infinity();
  std::vector<float> edges = {infinity, std::nanf(""), std::numeric_limits<float>::max(),
                              std::numeric_limits<float>::denorm_min()};
  const auto add = [&](float x) {
    for (float y : {x, std::nextafter(x, 0.0f), std::nextafter(x, infinity)}) edges.push_back(y);
  };
  for (size_t i = 0; i < values.size(); ++i) {
    const double last_step = static_cast<double>(values[i]) - values[i > 0 ? i - 1 : 0];
    const double next = i + 1 < values.size() ? values[i + 1] : values[i] + last_step;
    add(values[i]);
    add(static_cast<float>((values[i] + next) / 2));
  }
  const size_t positive = edges.size();
  for (size_t i = 0; i < positive; ++i) edges.push_back(-edges[i]);
  return edges;
}

TEST(ConversionTest, EveryRoundingEdgeNarrows) {
  std::mt19937_64 random(3);
  for (Dtype dtype : kSmall) {
    SCOPED_TRACE(NameOf(dtype));
    std::vector<float> values = Edges(dtype);
    for (int i = 0; i < 200000; ++i) {
      values.push_back(std::bit_cast<float>(static_cast<uint32_t>(random())));
    }
    std::vector<reference::Bits> expected;
    for (float x : values) expected.push_back(reference::EncodeSmall(dtype, x));
    ForEachIsa([&] {
      Elements out(dtype, values.size(), 0);
      FinishPartial(dtype, Redop::kSum, values.data(), 1.0, 1.0, out.data(), values.size());
      for (size_t i = 0; i < values.size(); ++i) {
        ASSERT_EQ(out.Get(i), expected[i]) << std::hexfloat << values[i];
      }
    });
  }
}

}  // namespace
}  // namespace ftar::reduce
