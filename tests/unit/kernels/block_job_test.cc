// Goal: the block job, run on the host as the device would run it, gives the bits of the host
// kernels for every type, operator, count, placement and grid, writes each element and nothing
// else, sums what it wrote, and stops at the next chunk.
#include "kernels/block_job.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/host_grid.h"
#include "tests/unit/kernels/cases.h"
#include "tests/unit/reduce/elements.h"

namespace ftar::kernels {
namespace {

using reduce::Dtype;
using reduce::Redop;

constexpr uint64_t kSeed = 20261122;

void RunCase(const CaseOptions& options, uint64_t seed) {
  const Case c(options, seed);
  Placed placed(c.before());
  const Expected<Plan> plan = c.PlanAt(placed.base());
  ASSERT_TRUE(plan.ok()) << NameOf(options) << ": " << plan.status().ToString();
  const Status ran = RunOnHost(*plan);
  ASSERT_TRUE(ran.ok()) << NameOf(options) << ": " << ran.ToString();
  ASSERT_EQ(c.Compare(placed.image()), "") << "seed " << seed;
}

template <typename Body>
void ForEachOperator(const Body& body) {
  for (Dtype dtype : reduce::AllDtypes()) {
    for (Redop redop : reduce::AllRedops()) {
      if (!reduce::Supports(dtype, redop)) continue;
      body(dtype, redop);
      if (testing::Test::HasFatalFailure()) return;
    }
  }
}

TEST(BlockJobTest, EveryTypeOperatorTailAndPlacement) {
  uint64_t seed = kSeed;
  ForEachOperator([&seed](Dtype dtype, Redop redop) {
    CaseOptions o{.dtype = dtype, .redop = redop};
    o.shape = {.blocks = 2, .threads = 32, .unroll = 0, .chunk_bytes = 1};
    for (int sources : {1, 2, 3}) {
      o.sources = sources;
      for (int placement = 0; placement < 4; ++placement) {
        o.placement = static_cast<Placement>(placement);
        for (size_t count = 0; count < 34; ++count) {
          o.count = count;
          ASSERT_NO_FATAL_FAILURE(RunCase(o, ++seed));
        }
        o.count = 3001 + seed % 32;
        ASSERT_NO_FATAL_FAILURE(RunCase(o, ++seed));
      }
    }
  });
}

TEST(BlockJobTest, PartialSourcesAndResults) {
  uint64_t seed = kSeed;
  ForEachOperator([&seed](Dtype dtype, Redop redop) {
    CaseOptions o{.dtype = dtype, .redop = redop, .count = 777};
    for (int sources : {1, 2, 5}) {
      for (int mode = 1; mode < 4; ++mode) {
        for (Placement placement : {Placement::kAligned, Placement::kSameOffset}) {
          o.sources = sources;
          o.placement = placement;
          o.partial_mix = (mode & 1) != 0;
          o.to_partial = (mode & 2) != 0;
          ASSERT_NO_FATAL_FAILURE(RunCase(o, ++seed));
        }
      }
    }
  });
}

TEST(BlockJobTest, RandomCases) {
  std::mt19937_64 random(kSeed);
  for (int i = 0; i < 2500; ++i) {
    ASSERT_NO_FATAL_FAILURE(RunCase(RandomOptions(&random, 3000), random()));
  }
}

TEST(BlockJobTest, SixteenToSixteen) {
  CaseOptions o{.dtype = Dtype::kBF16, .sources = 16, .destinations = 16, .count = 5000};
  ASSERT_NO_FATAL_FAILURE(RunCase(o, kSeed));
  o.dtype = Dtype::kF8E4M3;
  ASSERT_NO_FATAL_FAILURE(RunCase(o, kSeed));
}

// Each kernel that there is, the ones for measuring too, named by its id.
TEST(BlockJobTest, EveryKernelIsReached) {
  for (const Id& id : AllIds()) {
    CaseOptions o = OptionsFor(id);
    o.count = 4321;
    const Case c(o, kSeed);
    Placed placed(c.before());
    const Expected<Plan> plan = c.PlanAt(placed.base());
    ASSERT_TRUE(plan.ok());
    ASSERT_EQ(plan->id, id) << NameOf(o);
    ASSERT_TRUE(RunOnHost(*plan).ok());
    ASSERT_EQ(c.Compare(placed.image()), "");
  }
}

TEST(BlockJobTest, CopiesAndChecksumsBytes) {
  uint64_t seed = kSeed;
  for (int destinations : {1, 2}) {
    for (size_t count : {0, 1, 3, 15, 16, 17, 31, 100, 5000, 5001}) {
      for (int placement = 0; placement < 4; ++placement) {
        CaseOptions o{.destinations = destinations, .count = count};
        o.copy = true;
        o.placement = static_cast<Placement>(placement);
        ASSERT_NO_FATAL_FAILURE(RunCase(o, ++seed));
      }
    }
  }
}

TEST(BlockJobTest, ChecksumAloneDependsOnBytesAlone) {
  std::vector<unsigned char> bytes(10000);
  std::mt19937 random(3);
  for (auto& byte : bytes) byte = static_cast<unsigned char>(random());
  for (size_t from : {0, 1, 2, 3, 7, 16, 33}) {
    for (size_t count : {0, 1, 2, 5, 100, 9000}) {
      for (int blocks : {1, 3, 40}) {
        uint32_t sum = 5;
        const Expected<Plan> plan =
            PlanCopy(bytes.data() + from, {}, count, {.checksum = &sum},
                     {.blocks = blocks, .threads = 64, .unroll = 0, .chunk_bytes = 512});
        ASSERT_TRUE(plan.ok());
        ASSERT_TRUE(RunOnHost(*plan).ok());
        ASSERT_EQ(sum, 5 + WordSum(bytes.data() + from, count)) << from << " " << count;
      }
    }
  }
}

// Sums of half types are within one rounding of the exact sum: f32 holds it well enough.
TEST(BlockJobTest, HalfTypesRoundOnce) {
  std::mt19937 random(9);
  std::normal_distribution<float> normal;
  for (Dtype dtype : {Dtype::kF16, Dtype::kBF16}) {
    const double step = dtype == Dtype::kF16 ? 0x1p-11 : 0x1p-8;
    constexpr size_t kCount = 512;
    std::vector<std::vector<uint16_t>> in(16, std::vector<uint16_t>(kCount));
    std::vector<reduce::Source> sources;
    for (auto& source : in) {
      for (uint16_t& x : source) {
        x = dtype == Dtype::kF16 ? F16Code::Narrow(normal(random))
                                 : BF16Code::Narrow(normal(random));
      }
      sources.push_back({.data = source.data(), .format = dtype, .weight = 1.0});
    }
    std::vector<uint16_t> out(kCount);
    void* destination = out.data();
    const Expected<Plan> plan = PlanReduction(
        {.dtype = dtype, .sources = sources, .destinations = {&destination, 1}, .count = kCount});
    ASSERT_TRUE(plan.ok());
    ASSERT_TRUE(RunOnHost(*plan).ok());
    for (size_t i = 0; i < kCount; ++i) {
      double exact = 0, magnitude = 0;
      for (const auto& source : in) {
        const double x = reduce::reference::DecodeSmall(dtype, source[i]);
        exact += x;
        magnitude += std::fabs(x);
      }
      const double got = reduce::reference::DecodeSmall(dtype, out[i]);
      ASSERT_LE(std::fabs(got - exact), std::fabs(exact) * step + magnitude * 0x1p-20) << i;
    }
  }
}

uint32_t abort_word = 0;

TEST(BlockJobTest, StopsBeforeTheNextChunk) {
  std::vector<float> in(100000, 1.0f), out(in.size(), -1.0f);
  const reduce::Source source{.data = in.data(), .format = Dtype::kF32, .weight = 1.0};
  void* destination = out.data();
  uint32_t stopped = 0;
  const Control control{.abort_word = &abort_word, .epoch = 7, .stopped = &stopped};
  const Expected<Plan> plan =
      PlanReduction({.dtype = Dtype::kF32,
                     .sources = {&source, 1},
                     .destinations = {&destination, 1},
                     .count = in.size()},
                    control, {.blocks = 3, .threads = 32, .unroll = 0, .chunk_bytes = 4096});
  ASSERT_TRUE(plan.ok());
  abort_word = 7;
  ASSERT_TRUE(RunOnHost(*plan).ok());
  EXPECT_EQ(stopped, 0u);
  EXPECT_EQ(std::count(out.begin(), out.end(), 1.0f), static_cast<ptrdiff_t>(in.size()));

  std::fill(out.begin(), out.end(), -1.0f);
  ASSERT_TRUE(RunOnHost(*plan, [](uint64_t chunk) {
                if (chunk == 6) abort_word = 8;
              }).ok());
  EXPECT_EQ(stopped, 1u);
  // Block 0 had done chunks 0 and 3; the others came too late. The tail goes with chunk 0.
  const auto done = static_cast<uint64_t>(std::count(out.begin(), out.end(), 1.0f));
  EXPECT_EQ(done, 2 * plan->job.chunk * 4 + plan->job.head + plan->job.tail);
}

}  // namespace
}  // namespace ftar::kernels
