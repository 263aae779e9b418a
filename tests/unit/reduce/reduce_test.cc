// Goal: every type and operator gives the bits of the dumb reference, on every instruction set, at
// any address and count, in one pass or by way of partial results.
#include "reduce/reduce.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/unit/reduce/support.h"

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace ftar::reduce {
namespace {

constexpr size_t kMaxCount = 257;

// One type and operator with a random input of kMaxCount elements and its reference result.
struct Case {
  Case(Dtype dtype_in, Redop redop_in, size_t inputs_in, double scale_in, std::mt19937_64* random)
      : dtype(dtype_in),
        redop(redop_in),
        scale(scale_in),
        inputs(RandomInputs(dtype, inputs_in, kMaxCount, random)),
        divisor(DivisorOf(redop, inputs)) {
    for (size_t i = 0; i < kMaxCount; ++i) {
      expected.push_back(reference::Reduce(dtype, redop, inputs, i, divisor, scale));
      expected_partial.push_back(reference::Accumulate(dtype, redop, inputs, i));
    }
  }
  std::string Name() const {
    return NameOf(dtype) + " " + NameOf(redop) + " of " + std::to_string(inputs.size());
  }
  Dtype dtype;
  Redop redop;
  double scale;
  std::vector<reference::Input> inputs;
  double divisor;
  std::vector<reference::Bits> expected;
  std::vector<reference::Bits> expected_partial;
};

template <typename Body>
void ForEachCase(const std::vector<size_t>& input_counts, double scale, const Body& body) {
  std::mt19937_64 random(7);
  for (Dtype dtype : AllDtypes()) {
    for (Redop redop : AllRedops()) {
      if (!Supports(dtype, redop)) continue;
      for (size_t inputs : input_counts) {
        const Case c(dtype, redop, inputs, scale, &random);
        SCOPED_TRACE(c.Name());
        body(c);
        if (testing::Test::HasFailure()) return;
      }
    }
  }
}

// The elements of `got` are those expected, and nothing else was written.
void ExpectElements(const Elements& got, const std::vector<reference::Bits>& expected,
                    size_t count) {
  ASSERT_TRUE(got.GuardsIntact()) << "count " << count;
  for (size_t i = 0; i < count; ++i) {
    ASSERT_EQ(got.Get(i), expected[i]) << std::hex << "element " << i << " of " << count;
  }
}

TEST(ReduceTest, EqualsTheReferenceAtEveryCountAndOddAddresses) {
  ForEachCase({1, 2, 3, 8, 21}, 1.0, [](const Case& c) {
    ForEachIsa([&c] {
      // Every count with two inputs; with others enough of them, as the sanitizers are slow.
      const size_t step = c.inputs.size() == 2 ? 1 : 23;
      for (size_t count = 0; count <= kMaxCount; count += count < 10 ? 1 : step) {
        const Placed placed(c.dtype, c.inputs, count, count % 61);
        Elements dst(c.dtype, count, count % 37);
        ReduceToFinal(c.dtype, c.redop, placed.sources, c.divisor, c.scale, dst.data(), count);
        ASSERT_NO_FATAL_FAILURE(ExpectElements(dst, c.expected, count));
      }
    });
  });
}

TEST(ReduceTest, ScalesInTheAccumulatorsType) {
  for (double scale : {0.3, 2.0, 1024.0}) {
    ForEachCase({2, 3}, scale, [](const Case& c) {
      ForEachIsa([&c] {
        const Placed placed(c.dtype, c.inputs, kMaxCount, 0);
        Elements dst(c.dtype, kMaxCount, 0);
        ReduceToFinal(c.dtype, c.redop, placed.sources, c.divisor, c.scale, dst.data(), kMaxCount);
        ASSERT_NO_FATAL_FAILURE(ExpectElements(dst, c.expected, kMaxCount));
      });
    });
  }
}

TEST(ReduceTest, WorksInPlaceOnAnySource) {
  ForEachCase({1, 2, 3}, 1.0, [](const Case& c) {
    ForEachIsa([&c] {
      for (size_t s = 0; s < c.inputs.size(); ++s) {
        for (size_t count : {size_t{1}, size_t{63}, size_t{200}, kMaxCount}) {
          Placed placed(c.dtype, c.inputs, count, 3);
          ReduceToFinal(c.dtype, c.redop, placed.sources, c.divisor, c.scale,
                        placed.buffers[s].data(), count);
          ASSERT_NO_FATAL_FAILURE(ExpectElements(placed.buffers[s], c.expected, count));
        }
      }
    });
  });
}

TEST(ReduceTest, PartialResultsAreTheAccumulators) {
  ForEachCase({1, 2, 5}, 1.0, [](const Case& c) {
    const Dtype accumulator = AccumulatorOf(c.dtype, c.redop);
    ForEachIsa([&] {
      for (size_t count = 0; count <= kMaxCount; count += count < 20 ? 1 : 17) {
        const Placed placed(c.dtype, c.inputs, count, count % 13);
        Elements partial(accumulator, count, count % 11);
        ReduceToPartial(c.dtype, c.redop, placed.sources, partial.data(), count);
        ASSERT_NO_FATAL_FAILURE(ExpectElements(partial, c.expected_partial, count));
        Elements dst(c.dtype, count, count % 5);
        FinishPartial(c.dtype, c.redop, partial.data(), c.divisor, c.scale, dst.data(), count);
        ASSERT_NO_FATAL_FAILURE(ExpectElements(dst, c.expected, count));
      }
    });
  });
}

// A ring's way: each member adds its input to the partial result that it received, the last one
// finishes.
TEST(ReduceTest, AChainOfPartialResultsGivesTheBitsOfOnePass) {
  ForEachCase({4}, 1.0, [](const Case& c) {
    const Dtype accumulator = AccumulatorOf(c.dtype, c.redop);
    ForEachIsa([&] {
      for (size_t count : {size_t{1}, size_t{31}, size_t{130}, kMaxCount}) {
        const Placed placed(c.dtype, c.inputs, count, 1);
        Elements partial(accumulator, count, 2);
        ReduceToPartial(c.dtype, c.redop, {placed.sources.data(), 1}, partial.data(), count);
        const Source so_far{.data = partial.data(), .format = accumulator, .weight = 1.0};
        const std::vector<Source> middle = {so_far, placed.sources[1], placed.sources[2]};
        ReduceToPartial(c.dtype, c.redop, middle, partial.data(), count);
        const std::vector<Source> last = {so_far, placed.sources[3]};
        Elements dst(c.dtype, count, 3);
        ReduceToFinal(c.dtype, c.redop, last, c.divisor, c.scale, dst.data(), count);
        ASSERT_NO_FATAL_FAILURE(ExpectElements(dst, c.expected, count));
      }
    });
  });
}

TEST(ReduceTest, IgnoresTheCallersFloatingPointMode) {
#if defined(__x86_64__)
  static constexpr unsigned kUpwardsNoSubnormalsTrapping = 0x8040 | 0x4000;
  ForEachCase({3}, 1.0, [](const Case& c) {
    ForEachIsa([&c] {
      const Placed placed(c.dtype, c.inputs, kMaxCount, 0);
      Elements dst(c.dtype, kMaxCount, 0);
      const unsigned before = _mm_getcsr();
      _mm_setcsr(kUpwardsNoSubnormalsTrapping);
      ReduceToFinal(c.dtype, c.redop, placed.sources, c.divisor, c.scale, dst.data(), kMaxCount);
      const unsigned after = _mm_getcsr();
      _mm_setcsr(before);
      ASSERT_EQ(after, kUpwardsNoSubnormalsTrapping);
      ASSERT_NO_FATAL_FAILURE(ExpectElements(dst, c.expected, kMaxCount));
    });
  });
#else
  GTEST_SKIP() << "the mode is set on x86-64 only";
#endif
}

TEST(ReduceTest, FewAreSummedToTheSameBits) {
  size_t sums = 0;
  for (const size_t inputs : {size_t{1}, size_t{2}, size_t{5}}) {
    ForEachCase({inputs}, 1.0, [&sums](const Case& c) {
      for (const size_t count : {size_t{1}, size_t{2}, size_t{4}}) {
        const FewSum sum = FewSumOf(c.dtype, c.redop, c.scale, count);
        if (sum == nullptr) continue;
        ++sums;
        const Placed placed(c.dtype, c.inputs, count, 1);
        Elements dst(c.dtype, count, 3);
        sum(placed.sources, dst.data(), count);
        ASSERT_NO_FATAL_FAILURE(ExpectElements(dst, c.expected, count));
      }
    });
  }
  EXPECT_EQ(sums, 3u * 6 * 3);
  EXPECT_EQ(FewSumOf(Dtype::kF32, Redop::kSum, 0.5, 1), nullptr);
  EXPECT_EQ(FewSumOf(Dtype::kF32, Redop::kMax, 1, 1), nullptr);
  EXPECT_EQ(FewSumOf(Dtype::kF32, Redop::kSum, 1, 9), nullptr);
#if defined(__x86_64__)
  const unsigned before = _mm_getcsr();
  _mm_setcsr(before | 0x8000);  // subnormals become 0
  EXPECT_EQ(FewSumOf(Dtype::kF32, Redop::kSum, 1, 1), nullptr);
  _mm_setcsr(before);
#endif
}

TEST(ReduceTest, WritesNothingWithoutSourcesElementsOrSupport) {
  Elements dst(Dtype::kI32, 1, 0);
  dst.Set(0, 42);
  Elements in(Dtype::kI32, 1, 0);
  in.Set(0, 1);
  const Source source{.data = in.data(), .format = Dtype::kI32, .weight = 1.0};
  ReduceToFinal(Dtype::kI32, Redop::kSum, {}, 1, 1, dst.data(), 1);
  ReduceToFinal(Dtype::kI32, Redop::kSum, {&source, 1}, 1, 1, nullptr, 0);
  ReduceToFinal(Dtype::kI32, Redop::kWavg, {&source, 1}, 1, 1, dst.data(), 1);
  ReduceToFinal(Dtype::kI32, Redop::kAvg, {&source, 1}, 0, 1, dst.data(), 1);
  ReduceToPartial(Dtype::kI32, Redop::kWavg, {&source, 1}, dst.data(), 1);
  EXPECT_EQ(dst.Get(0), 42u);
}

TEST(ReduceTest, TellsSizesAccumulatorsAndSupport) {
  EXPECT_EQ(ElementBytes(Dtype::kF64), 8u);
  EXPECT_EQ(ElementBytes(Dtype::kF8E5M2), 1u);
  EXPECT_EQ(ElementBytes(static_cast<Dtype>(12)), 0u);
  EXPECT_EQ(ElementBytes(static_cast<Dtype>(-1)), 0u);
  EXPECT_EQ(AccumulatorOf(Dtype::kBF16, Redop::kMax), Dtype::kF32);
  EXPECT_EQ(AccumulatorOf(Dtype::kF64, Redop::kAvg), Dtype::kF64);
  EXPECT_EQ(AccumulatorOf(Dtype::kI8, Redop::kSum), Dtype::kI8);
  EXPECT_EQ(AccumulatorOf(Dtype::kI8, Redop::kAvg), Dtype::kI64);
  EXPECT_EQ(AccumulatorOf(Dtype::kU32, Redop::kAvg), Dtype::kU64);
  EXPECT_TRUE(Supports(Dtype::kF8E4M3, Redop::kWavg));
  EXPECT_FALSE(Supports(Dtype::kU64, Redop::kWavg));
  EXPECT_FALSE(Supports(static_cast<Dtype>(12), Redop::kSum));
  EXPECT_FALSE(Supports(Dtype::kF32, static_cast<Redop>(6)));
}

TEST(ReduceTest, TellsWhichScalesAndWeightsItsTypesHold) {
  for (double scale : {1.0, -0.5, 1e-30, -1e38}) EXPECT_TRUE(TakesScale(Dtype::kBF16, scale));
  for (double scale : {1e39, -1e300, 1e-39, -1e-50}) {
    EXPECT_FALSE(TakesScale(Dtype::kF32, scale)) << scale;
    EXPECT_TRUE(TakesScale(Dtype::kF64, scale)) << scale;
    EXPECT_TRUE(TakesScale(Dtype::kI32, scale)) << scale;
  }
  for (double weight : {0.0, 1.0, 1e-37, 1e33}) {
    EXPECT_TRUE(TakesWeight(Dtype::kF16, Redop::kWavg, weight)) << weight;
  }
  for (double weight : {1e-50, 1e-39, 1e34, 1e300}) {
    EXPECT_FALSE(TakesWeight(Dtype::kF32, Redop::kWavg, weight)) << weight;
    EXPECT_TRUE(TakesWeight(Dtype::kF64, Redop::kWavg, weight)) << weight;
    EXPECT_TRUE(TakesWeight(Dtype::kF32, Redop::kSum, weight)) << "only counted";
  }
  EXPECT_FALSE(TakesWeight(Dtype::kF64, Redop::kWavg, 1e305));
}

// The ends of what TakesWeight lets through, with as many inputs as a reduction may have here.
TEST(ReduceTest, AveragesOfTheLeastAndTheLargestWeightsAreRight) {
  const float three = 3;
  ForEachIsa([&] {
    for (double weight : {0x1p-126, 0x1p111}) {
      ASSERT_TRUE(TakesWeight(Dtype::kF32, Redop::kWavg, weight));
      const std::vector<Source> sources(
          64, {.data = &three, .format = Dtype::kF32, .weight = weight});
      float got = 0;
      ReduceToFinal(Dtype::kF32, Redop::kWavg, sources, 64 * weight, 1.0, &got, 1);
      EXPECT_EQ(got, 3.0f) << weight;
    }
  });
}

// --- Single elements whose answer a reader can check.

reference::Bits One(Dtype dtype, Redop redop, const std::vector<reference::Bits>& elements,
                    double divisor = 1.0, double scale = 1.0) {
  std::vector<reference::Input> inputs;
  for (reference::Bits bits : elements) inputs.push_back({.elements = {bits}, .weight = 1.0});
  const Placed placed(dtype, inputs, 1, 0);
  Elements dst(dtype, 1, 0);
  ReduceToFinal(dtype, redop, placed.sources, divisor, scale, dst.data(), 1);
  return dst.Get(0);
}

TEST(ReduceValueTest, NanPropagatesAsOnePattern) {
  const struct {
    Dtype dtype;
    reference::Bits negative_payload, one, canonical;
  } cases[] = {{Dtype::kF32, 0xff800001, 0x3f800000, 0x7fc00000},
               {Dtype::kF64, 0xfff0000000000001, 0x3ff0000000000000, 0x7ff8000000000000},
               {Dtype::kF16, 0xfc01, 0x3c00, 0x7e00},
               {Dtype::kBF16, 0xff81, 0x3f80, 0x7fc0},
               {Dtype::kF8E4M3, 0xff, 0x38, 0x7f},
               {Dtype::kF8E5M2, 0xfd, 0x3c, 0x7e}};
  ForEachIsa([&] {
    for (const auto& c : cases) {
      for (Redop redop : AllRedops()) {
        SCOPED_TRACE(NameOf(c.dtype) + " " + NameOf(redop));
        EXPECT_EQ(One(c.dtype, redop, {c.negative_payload, c.one}, 2), c.canonical);
        EXPECT_EQ(One(c.dtype, redop, {c.one, c.negative_payload}, 2), c.canonical);
        EXPECT_EQ(One(c.dtype, redop, {c.negative_payload}), c.canonical);
      }
    }
    EXPECT_EQ(One(Dtype::kF32, Redop::kSum, {0x7f800000, 0xff800000}), 0x7fc00000u) << "inf - inf";
  });
}

TEST(ReduceValueTest, MinusZeroIsLessThanPlusZero) {
  ForEachIsa([] {
    for (const auto& [dtype, minus] : {std::pair{Dtype::kF32, reference::Bits{0x80000000}},
                                       std::pair{Dtype::kF64, reference::Bits{1} << 63},
                                       std::pair{Dtype::kBF16, reference::Bits{0x8000}}}) {
      EXPECT_EQ(One(dtype, Redop::kMin, {0, minus}), minus);
      EXPECT_EQ(One(dtype, Redop::kMin, {minus, 0}), minus);
      EXPECT_EQ(One(dtype, Redop::kMax, {0, minus}), 0u);
      EXPECT_EQ(One(dtype, Redop::kMax, {minus, 0}), 0u);
      EXPECT_EQ(One(dtype, Redop::kSum, {minus, minus}), minus);
      EXPECT_EQ(One(dtype, Redop::kSum, {minus}), minus) << "one input is its own sum";
    }
  });
}

TEST(ReduceValueTest, EightBitFloatsSaturateAndE5m2KeepsInfinity) {
  ForEachIsa([] {
    EXPECT_EQ(One(Dtype::kF8E4M3, Redop::kSum, {0x7e, 0x7e}), 0x7eu) << "448 + 448";
    EXPECT_EQ(One(Dtype::kF8E4M3, Redop::kSum, {0xfe, 0xfe}), 0xfeu);
    EXPECT_EQ(One(Dtype::kF8E4M3, Redop::kSum, {0x7e, 0x7e, 0xfe}), 0x7eu)
        << "only the result saturates";
    EXPECT_EQ(One(Dtype::kF8E5M2, Redop::kSum, {0x7b, 0x7b}), 0x7bu) << "57344 + 57344";
    EXPECT_EQ(One(Dtype::kF8E5M2, Redop::kSum, {0x7c, 0x3c}), 0x7cu) << "inf + 1";
    EXPECT_EQ(One(Dtype::kF8E5M2, Redop::kMin, {0xfc, 0x3c}), 0xfcu);
    EXPECT_EQ(One(Dtype::kF16, Redop::kSum, {0x7bff, 0x7bff}), 0x7c00u) << "65504 + 65504";
  });
}

TEST(ReduceValueTest, HalfTypesRoundOnce) {
  ForEachIsa([] {
    // 256 + 1 + 1: bf16 has no 257, so rounding at each step would give 256.
    EXPECT_EQ(One(Dtype::kBF16, Redop::kSum, {0x4380, 0x3f80, 0x3f80}), 0x4381u);
    // 2048 + 1 + 1 in f16.
    EXPECT_EQ(One(Dtype::kF16, Redop::kSum, {0x6800, 0x3c00, 0x3c00}), 0x6801u);
    // An average near the top of f16 does not overflow on the way.
    EXPECT_EQ(One(Dtype::kF16, Redop::kAvg, {0x7bff, 0x7bff}, 2), 0x7bffu);
  });
}

TEST(ReduceValueTest, IntegersWrapAndAveragesTruncateTowardZero) {
  ForEachIsa([] {
    EXPECT_EQ(One(Dtype::kI8, Redop::kSum, {0x7f, 1}), 0x80u);
    EXPECT_EQ(One(Dtype::kI32, Redop::kProd, {0x7fffffff, 2}), 0xfffffffeu);
    EXPECT_EQ(One(Dtype::kI8, Redop::kAvg, {0x7f, 0x7f}, 2), 0x7fu)
        << "the sum is taken in 64 bits";
    EXPECT_EQ(One(Dtype::kI8, Redop::kAvg, {0xff, 0xfe}, 2), 0xffu) << "-3 / 2 is -1";
    EXPECT_EQ(One(Dtype::kI32, Redop::kAvg, {0xffffffff, 0xfffffffe, 0xfffffffe}, 3), 0xffffffffu);
    EXPECT_EQ(One(Dtype::kU8, Redop::kAvg, {0xff, 0xfe}, 2), 0xfeu);
    EXPECT_EQ(One(Dtype::kU64, Redop::kAvg, {0xfffffffffffffff0, 1}, 2), 0x7ffffffffffffff8u);
    EXPECT_EQ(One(Dtype::kI64, Redop::kAvg, {0x8000000000000000}, 1), 0x8000000000000000u);
  });
}

TEST(ReduceValueTest, ScaledIntegersTruncateAndClamp) {
  EXPECT_EQ(One(Dtype::kI8, Redop::kSum, {100, 20}, 1, 2.0), 127u);
  EXPECT_EQ(One(Dtype::kI8, Redop::kSum, {0xff, 0xfe}, 1, 0.5), 0xffu);
  EXPECT_EQ(One(Dtype::kU8, Redop::kSum, {3, 4}, 1, -1.0), 0u);
  EXPECT_EQ(One(Dtype::kI64, Redop::kSum, {0x7fffffffffffffff}, 1, 2.0), 0x7fffffffffffffffu);
  EXPECT_EQ(One(Dtype::kU64, Redop::kSum, {0xffffffffffffffff}, 1, 2.0), 0xffffffffffffffffu);
  EXPECT_EQ(One(Dtype::kU32, Redop::kAvg, {10, 11}, 2, 0.5), 5u);
}

// Averages of 8 and 32 bits divide as doubles; this is where that could go wrong.
TEST(ReduceValueTest, IntegerAveragesAreExactAtTheEdgesOfAQuotient) {
  std::mt19937_64 random(11);
  ForEachIsa([&] {
    for (int i = 0; i < 20000; ++i) {
      const int64_t divisor = 2 + static_cast<int64_t>(random() % 65534);
      const int64_t quotient = static_cast<int32_t>(random());
      const int64_t sum = quotient * divisor + static_cast<int64_t>(random() % 3) - 1;
      int32_t got = 0;
      FinishPartial(Dtype::kI32, Redop::kAvg, &sum, static_cast<double>(divisor), 1.0, &got, 1);
      ASSERT_EQ(got, static_cast<int32_t>(sum / divisor)) << sum << " / " << divisor;
    }
  });
}

TEST(ReduceValueTest, WeightedAverageMultipliesAndAddsApart) {
  // w x = (1 + 2^-12)^2 loses its last bit when rounded; a fused multiply-add would keep it.
  const float w = 1.0f + 0x1p-12f;
  const float inputs[2] = {-(1.0f + 0x1p-11f), w};
  const Source sources[] = {{.data = &inputs[0], .format = Dtype::kF32, .weight = 1.0},
                            {.data = &inputs[1], .format = Dtype::kF32, .weight = w}};
  ForEachIsa([&] {
    float got = 1;
    ReduceToFinal(Dtype::kF32, Redop::kWavg, sources, 1.0 + w, 1.0, &got, 1);
    EXPECT_EQ(got, 0.0f);
  });
}

}  // namespace
}  // namespace ftar::reduce
