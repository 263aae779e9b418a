// Goal: what cannot be launched is refused, packs are used wherever addresses allow, and chunks are
// bounded and even.
#include "kernels/plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace ftar::kernels {
namespace {

using reduce::Dtype;
using reduce::Redop;
using reduce::Source;

void* At(uint64_t address) { return reinterpret_cast<void*>(address); }

// A reduction of two sources; the addresses are never followed.
struct Call {
  explicit Call(Dtype dtype, uint64_t a = 0x10000, uint64_t b = 0x20000, uint64_t to = 0x30000)
      : sources{{.data = At(a), .format = dtype, .weight = 1.0},
                {.data = At(b), .format = dtype, .weight = 1.0}},
        destinations{At(to)},
        reduction{.dtype = dtype, .count = 1000} {}
  Expected<Plan> Make(const Shape& wish = {}) {
    reduction.sources = sources;
    reduction.destinations = destinations;
    return PlanReduction(reduction, {}, wish);
  }
  std::vector<Source> sources;
  std::vector<void*> destinations;
  Reduction reduction;
};

Code CodeOf(const Expected<Plan>& plan) { return plan.status().code(); }

TEST(PlanTest, RefusesWhatNoKernelDoes) {
  Call call(Dtype::kI32);
  call.reduction.redop = Redop::kWavg;
  EXPECT_EQ(CodeOf(call.Make()), Code::kArg);
  call = Call(Dtype::kF32);
  call.sources.resize(17, call.sources[0]);
  EXPECT_EQ(CodeOf(call.Make()), Code::kArg);
  call.sources.clear();
  EXPECT_EQ(CodeOf(call.Make()), Code::kArg);
  call = Call(Dtype::kF32);
  call.destinations.resize(17);
  EXPECT_EQ(CodeOf(call.Make()), Code::kArg);
  call = Call(Dtype::kF32);
  call.sources[1].format = Dtype::kF64;
  EXPECT_EQ(CodeOf(call.Make()), Code::kArg);
  call = Call(Dtype::kF32);
  call.reduction.redop = Redop::kAvg;
  call.reduction.divisor = 0;
  EXPECT_EQ(CodeOf(call.Make()), Code::kArg);
  call = Call(Dtype::kF64);
  call.reduction.wide = true;
  EXPECT_EQ(CodeOf(call.Make()), Code::kArg);
  EXPECT_EQ(CodeOf(PlanCopy(At(0x1000), {}, 10)), Code::kArg);
}

TEST(PlanTest, RefusesGridsThatAreNone) {
  for (int threads : {1, 33, 544, 1024, -32}) {
    EXPECT_EQ(CodeOf(Call(Dtype::kF32).Make({.threads = threads})), Code::kArg) << threads;
  }
  EXPECT_EQ(CodeOf(Call(Dtype::kF32).Make({.blocks = -1})), Code::kArg);
}

TEST(PlanTest, PacksWhereverAllAddressesAgree) {
  const Plan aligned = *Call(Dtype::kBF16).Make();
  EXPECT_TRUE(aligned.job.vector);
  EXPECT_EQ(aligned.job.head, 0u);
  EXPECT_EQ(aligned.job.units, 125u);
  const Plan shifted = *Call(Dtype::kBF16, 0x10006, 0x20016, 0x30026).Make();
  EXPECT_TRUE(shifted.job.vector);
  EXPECT_EQ(shifted.job.head, 5u);
  EXPECT_EQ(shifted.job.units, 124u);
  EXPECT_EQ(shifted.job.tail, 3u);
  const Plan apart = *Call(Dtype::kBF16, 0x10006, 0x20008, 0x30006).Make();
  EXPECT_FALSE(apart.job.vector);
  EXPECT_FALSE(apart.job.by_bytes);
  EXPECT_EQ(apart.job.units, 1000u);
  const Plan odd = *Call(Dtype::kBF16, 0x10001, 0x20001, 0x30001).Make();
  EXPECT_FALSE(odd.job.vector);
  EXPECT_TRUE(odd.job.by_bytes);
}

TEST(PlanTest, APartialResultNeedsItsOwnAlignmentToo) {
  Call call(Dtype::kBF16, 0x10004, 0x20004, 0x30008);
  call.reduction.to_partial = true;
  const Plan plan = *call.Make();
  EXPECT_TRUE(plan.job.vector);
  EXPECT_EQ(plan.job.head, 6u);  // 12 bytes of bf16, 24 of f32.
  EXPECT_EQ(plan.id.variant, Variant::kMixed);
  call.destinations[0] = At(0x30004);
  EXPECT_FALSE(call.Make()->job.vector);
}

TEST(PlanTest, ChoosesTheLeanKernelWhereNothingIsToBeFinished) {
  EXPECT_EQ(Call(Dtype::kF32).Make()->id.variant, Variant::kTwo);
  Call average(Dtype::kF32);
  average.reduction.redop = Redop::kAvg;
  average.reduction.divisor = 2;
  const Plan half = *average.Make();
  EXPECT_EQ(half.id.variant, Variant::kMany);
  EXPECT_FALSE(half.job.finish.divides);
  EXPECT_EQ(half.job.finish.scale, 0.5);
  average.reduction.divisor = 3;
  EXPECT_TRUE(average.Make()->job.finish.divides);
}

TEST(PlanTest, ChunksAreBoundedAndEven) {
  for (size_t count : {1u, 1000u, 1u << 20, (1u << 24) + 5}) {
    for (int blocks : {1, 2, 132}) {
      Call call(Dtype::kF32);
      call.reduction.count = count;
      const Plan plan = *call.Make({.blocks = blocks});
      const Job& job = plan.job;
      EXPECT_LE(job.chunk * 16, kTuning[2].chunk_bytes);
      EXPECT_GE(job.chunk * job.chunks, job.units);
      EXPECT_LT(job.chunk * (job.chunks - 1), job.units);
      EXPECT_LE(plan.blocks, blocks);
      EXPECT_LE(static_cast<uint64_t>(plan.blocks), job.chunks);
      // No block has two chunks more than another; the chunks fill whole rounds but for the last.
      const uint64_t rounds = (job.chunks + plan.blocks - 1) / plan.blocks;
      const auto tile = static_cast<uint64_t>(plan.threads * plan.id.unroll);
      EXPECT_LE((rounds - 1) * static_cast<uint64_t>(plan.blocks) * (job.chunk - tile), job.units);
    }
  }
}

TEST(PlanTest, NothingToDoIsNoBlock) {
  Call call(Dtype::kF32);
  call.reduction.count = 0;
  EXPECT_EQ(call.Make()->blocks, 0);
}

}  // namespace
}  // namespace ftar::kernels
