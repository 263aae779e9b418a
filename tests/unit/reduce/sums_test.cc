// Goal: sums of 16 and 32-bit floats have the bits of the portable kernels on every instruction
// set, also where a kernel finds something unusual in the midst of a long buffer.
// Method: kernels for AVX-512 sum long runs first and look afterwards, so buffers here are several
// runs long and mostly plain. What the portable kernels give is held against the dumb reference by
// reduce_test.cc.
#include <gtest/gtest.h>

#include <bit>

#include "tests/unit/reduce/support.h"
#include "tests/unit/sample.h"

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace ftar::reduce {
namespace {

constexpr Dtype kTypes[] = {Dtype::kF32, Dtype::kF16, Dtype::kBF16};
// More than two runs of any kernel (16 KiB at most), and not a multiple of a block.
constexpr size_t kLong = 17001;

using Values = std::vector<reference::Bits>;

Elements Filled(Dtype dtype, const Values& values) {
  Elements elements(dtype, values.size(), 2 * ElementBytes(dtype));
  for (size_t i = 0; i < values.size(); ++i) elements.Set(i, values[i]);
  return elements;
}

// The sum of the inputs, written over input `at`, or elsewhere if there is no such.
Elements SumOf(Dtype dtype, Redop redop, const std::vector<Values>& inputs, size_t at) {
  const size_t count = inputs[0].size();
  std::vector<Elements> buffers;
  for (const Values& values : inputs) buffers.push_back(Filled(dtype, values));
  buffers.emplace_back(dtype, count, 0);
  std::vector<Source> sources;
  for (size_t s = 0; s < inputs.size(); ++s) {
    sources.push_back({.data = buffers[s].data(), .format = dtype, .weight = 1.0});
  }
  const double divisor = redop == Redop::kAvg ? static_cast<double>(inputs.size()) : 1.0;
  ReduceToFinal(dtype, redop, sources, divisor, 1.0, buffers[at].data(), count);
  return std::move(buffers[at]);
}

// Every instruction set gives what the portable kernels give, into each input and elsewhere.
void ExpectPortableBits(Dtype dtype, Redop redop, const std::vector<Values>& inputs) {
  ASSERT_TRUE(SetIsa("scalar").ok());
  const Elements expected = SumOf(dtype, redop, inputs, inputs.size());
  ForEachIsa([&] {
    for (size_t at = 0; at <= inputs.size(); ++at) {
      const Elements got = SumOf(dtype, redop, inputs, at);
      ASSERT_TRUE(got.GuardsIntact());
      for (size_t i = 0; i < inputs[0].size(); ++i) {
        ASSERT_EQ(got.Get(i), expected.Get(i))
            << NameOf(dtype) << std::hex << " element " << i << ", into buffer " << at;
      }
    }
  });
}

// Ordinary numbers: no NaN, no infinity and nothing subnormal, nor can a sum be.
Values Plain(Dtype dtype, size_t count, std::mt19937_64* random) {
  Values values;
  for (size_t i = 0; i < count; ++i) {
    const float x = static_cast<float>(static_cast<int64_t>((*random)() % 4001) - 2000) / 64;
    values.push_back(dtype == Dtype::kF32 ? std::bit_cast<uint32_t>(x)
                                          : reference::EncodeSmall(dtype, x));
  }
  return values;
}

// Zeros, the ends of the subnormal and of the normal numbers, one and its neighbours, numbers at
// which rounding to even shows, infinity and NaNs; of both signs.
Values Interesting(Dtype dtype) {
  const int mantissa = dtype == Dtype::kF16 ? 10 : 7;
  const reference::Bits one = dtype == Dtype::kF16 ? 0x3c00 : 0x3f80;
  const reference::Bits infinity = dtype == Dtype::kF16 ? 0x7c00 : 0x7f80;
  const reference::Bits normal = reference::Bits{1} << mantissa;
  Values values = {0,
                   1,
                   2,
                   normal - 1,
                   normal,
                   normal + 1,
                   2 * normal,
                   one,
                   one - 1,
                   one + 1,
                   one + normal,
                   one + 3 * normal + 1,
                   8 * normal + 5,
                   infinity - 1,
                   infinity,
                   infinity + 1,
                   0x7fff};
  const size_t positive = values.size();
  for (size_t i = 0; i < positive; ++i) values.push_back(values[i] | 0x8000);
  return values;
}

TEST(SumsTest, EveryPatternPlusInterestingOnes) {
  Values all;
  for (reference::Bits i = 0; i < 65536; i += kSampleStep) all.push_back(i);
  for (Dtype dtype : {Dtype::kF16, Dtype::kBF16}) {
    for (reference::Bits value : Interesting(dtype)) {
      ASSERT_NO_FATAL_FAILURE(
          ExpectPortableBits(dtype, Redop::kSum, {all, Values(all.size(), value)}))
          << std::hex << value;
    }
  }
}

TEST(SumsTest, RandomPatternsOfAnyNumberOfSources) {
  std::mt19937_64 random(11);
  for (Dtype dtype : kTypes) {
    for (size_t sources : {1, 2, 3, 8, 9}) {
      std::vector<Values> inputs(sources);
      for (Values& values : inputs) {
        for (size_t i = 0; i < kLong; ++i)
          values.push_back(random() >> (64 - 8 * ElementBytes(dtype)));
      }
      for (Redop redop : {Redop::kSum, Redop::kAvg}) {
        ASSERT_NO_FATAL_FAILURE(ExpectPortableBits(dtype, redop, inputs));
      }
    }
  }
}

// A pair of elements that is unusual, or whose sum is.
struct Unusual {
  float a;
  float b;
};

TEST(SumsTest, OneUnusualElementAmongPlainOnes) {
  constexpr float kTiny = 0x1p-126f;
  const float infinity = std::numeric_limits<float>::infinity();
  const Unusual unusual[] = {{std::nanf(""), 1},     {infinity, -infinity},
                             {0x1.02p-126f, -kTiny}, {-0x1.7ep-125f, 0x1.02p-125f},
                             {0x1p-130f, 0},         {0x1p-133f, -1}};
  std::mt19937_64 random(12);
  for (Dtype dtype : kTypes) {
    const Values plain_a = Plain(dtype, kLong, &random);
    const Values plain_b = Plain(dtype, kLong, &random);
    for (const Unusual& pair : unusual) {
      // The ends of blocks and runs, and the rest behind the last block.
      for (size_t at :
           {size_t{0}, size_t{63}, size_t{2047}, size_t{2048}, size_t{8191}, kLong - 1}) {
        Values a = plain_a;
        Values b = plain_b;
        const bool wide = dtype == Dtype::kF32;
        a[at] = wide ? std::bit_cast<uint32_t>(pair.a) : reference::EncodeSmall(dtype, pair.a);
        b[at] = wide ? std::bit_cast<uint32_t>(pair.b) : reference::EncodeSmall(dtype, pair.b);
        ASSERT_NO_FATAL_FAILURE(ExpectPortableBits(dtype, Redop::kSum, {a, b}));
        ASSERT_NO_FATAL_FAILURE(ExpectPortableBits(dtype, Redop::kAvg, {b, a}));
      }
    }
  }
}

// An average halves: the sum is normal, the result is not.
TEST(SumsTest, AveragesThatAreSubnormal) {
  std::mt19937_64 random(13);
  for (Dtype dtype : kTypes) {
    std::vector<Values> inputs = {Plain(dtype, kLong, &random), Plain(dtype, kLong, &random)};
    const reference::Bits least = dtype == Dtype::kF32   ? 0x00800000
                                  : dtype == Dtype::kF16 ? 0x400
                                                         : 0x80;
    inputs[0][5000] = least + 1;
    inputs[1][5000] = 0;
    ASSERT_NO_FATAL_FAILURE(ExpectPortableBits(dtype, Redop::kAvg, inputs));
  }
}

#if defined(__x86_64__)
TEST(SumsTest, WhatTheProcessorNotedBeforeStaysNoted) {
  std::mt19937_64 random(14);
  const std::vector<Values> inputs = {Plain(Dtype::kBF16, kLong, &random),
                                      Plain(Dtype::kBF16, kLong, &random)};
  const unsigned before = _mm_getcsr();
  ForEachIsa([&] {
    for (unsigned flag : {0x01u, 0x02u, 0x10u}) {
      _mm_setcsr((before & ~0x3fu) | flag);
      SumOf(Dtype::kBF16, Redop::kSum, inputs, 0);
      const unsigned after = _mm_getcsr();
      _mm_setcsr(before);
      EXPECT_EQ(after & flag, flag);
      EXPECT_EQ(after & ~0x3fu, before & ~0x3fu);
    }
  });
}
#endif

}  // namespace
}  // namespace ftar::reduce
