#include "kernels/plan.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "reduce/reduce.h"

namespace ftar::kernels {
namespace {

using reduce::Combine;
using reduce::Dtype;
using reduce::Redop;

constexpr uint64_t kPackBytes = 16;
// A block counts its chunks, with a grid beyond them, in 32 bits.
constexpr uint64_t kChunksMax = INT32_MAX;

Status Refused(const char* what) { return Status(Code::kArg, what); }

bool IsFloat(Dtype dtype) { return dtype < Dtype::kI8; }
bool Averages(Redop redop) { return redop == Redop::kAvg || redop == Redop::kWavg; }

Combine CombineOf(Dtype dtype, Redop redop) {
  switch (redop) {
    case Redop::kProd: return Combine::kProd;
    case Redop::kMin: return Combine::kMin;
    case Redop::kMax: return Combine::kMax;
    case Redop::kAvg:
      return reduce::AccumulatorOf(dtype, redop) == dtype || IsFloat(dtype) ? Combine::kSum
                                                                            : Combine::kAccumulate;
    default: return Combine::kSum;
  }
}

Status Check(const Reduction& r) {
  if (!reduce::Supports(r.dtype, r.redop)) return Refused("no such type and operator");
  if (r.sources.empty() || r.sources.size() > kMaxSources) return Refused("1 to 16 sources");
  if (r.destinations.empty() || r.destinations.size() > kMaxDestinations) {
    return Refused("1 to 16 destinations");
  }
  if (Averages(r.redop) && !(r.divisor > 0.0)) return Refused("a divisor is above 0");
  if (Averages(r.redop) && !IsFloat(r.dtype) && r.divisor < 1.0) {
    return Refused("a divisor of integers is at least 1");
  }
  const Dtype accumulator = reduce::AccumulatorOf(r.dtype, r.redop);
  for (const reduce::Source& source : r.sources) {
    if (source.format != r.dtype && source.format != accumulator) {
      return Refused("a source is of the type itself or of its accumulator");
    }
    if (r.wide && source.format != Dtype::kF32) return Refused("f64 accumulation is for f32 alone");
  }
  if (r.wide &&
      (r.dtype != Dtype::kF32 || CombineOf(r.dtype, r.redop) != Combine::kSum || r.to_partial)) {
    return Refused("f64 accumulation is for sums of f32");
  }
  return Status::Ok();
}

// True if multiplying by 1 / divisor gives the bits of dividing: a power of two far from the ends
// of f32's range.
bool HasExactReciprocal(double divisor) {
  int exponent = 0;
  return std::frexp(divisor, &exponent) == 0.5 && exponent > -100 && exponent < 100;
}

Finish FinishOf(const Reduction& r) {
  Finish finish;
  if (r.to_partial) return finish;
  double divisor = Averages(r.redop) ? r.divisor : 1.0;
  const bool in_f32 = IsFloat(r.dtype) && r.dtype != Dtype::kF64 && !r.wide;
  if (in_f32) divisor = static_cast<float>(divisor);
  if (IsFloat(r.dtype) && r.scale == 1.0 && HasExactReciprocal(divisor)) {
    finish.scale = 1.0 / divisor;
  } else {
    finish.divisor = divisor;
    finish.scale = r.scale;
  }
  finish.divisor_f32 = static_cast<float>(finish.divisor);
  finish.scale_f32 = static_cast<float>(finish.scale);
  finish.divides = finish.divisor != 1.0;
  finish.scales = finish.scale != 1.0;
  return finish;
}

// All addresses of a job with the bytes of their elements, and how they may be cut.
class Layout {
 public:
  void Add(const void* address, size_t element_bytes) {
    places_[count_++] = {reinterpret_cast<uintptr_t>(address), element_bytes};
  }

  bool ByBytes() const {
    return std::any_of(places_, places_ + count_,
                       [](const Place& p) { return p.address % p.bytes != 0; });
  }

  // The elements before the first at which every address is a multiple of 16, or `limit` where no
  // such element comes before it.
  uint64_t Head(uint64_t limit) const {
    for (uint64_t head = 0; head < limit; ++head) {
      const bool aligned = std::all_of(places_, places_ + count_, [head](const Place& p) {
        return (p.address + head * p.bytes) % kPackBytes == 0;
      });
      if (aligned) return head;
    }
    return limit;
  }

 private:
  struct Place {
    uintptr_t address = 0;
    size_t bytes = 1;
  };
  Place places_[kMaxSources + kMaxDestinations];
  size_t count_ = 0;
};

uint64_t CeilDivide(uint64_t a, uint64_t b) { return (a + b - 1) / b; }

Status CheckShape(const Shape& shape) {
  if (shape.blocks < 1) return Refused("a grid has at least one block");
  if (shape.threads < 32 || shape.threads > kMaxThreads || shape.threads % 32 != 0) {
    return Refused("a block has 32 to 512 threads, a multiple of 32");
  }
  return Status::Ok();
}

// Cuts `count` elements, of which `element_bytes` make a pack, for the grid that is wished.
Status Cut(const Layout& layout, uint64_t count, size_t element_bytes, const Shape& wish,
           Plan* plan) {
  const Shape shape = Tuned(wish, count * element_bytes);
  FTAR_RETURN_IF_ERROR(CheckShape(shape));
  Job& job = plan->job;
  const uint64_t per_pack = kPackBytes / element_bytes;
  const uint64_t head = layout.Head(per_pack);
  job.count = count;
  job.by_bytes = layout.ByBytes();
  job.vector = head < per_pack && count >= head + per_pack;
  job.units = count;
  if (job.vector) {
    job.units = (count - head) / per_pack;
    job.head = static_cast<uint32_t>(head);
    job.tail = static_cast<uint32_t>((count - head) % per_pack);
  }
  // Whole tiles to a chunk, and chunks that differ little in number from block to block.
  const auto tile = static_cast<uint64_t>(shape.threads) * static_cast<uint64_t>(plan->id.unroll);
  const auto blocks = static_cast<uint64_t>(shape.blocks);
  const uint64_t unit_bytes = job.vector ? kPackBytes : element_bytes;
  const uint64_t most = std::max(shape.chunk_bytes / unit_bytes / tile, uint64_t{1}) * tile;
  const uint64_t rounds = std::max(CeilDivide(job.units, blocks * most), uint64_t{1});
  const uint64_t even = CeilDivide(job.units, blocks * rounds);
  job.chunk = std::clamp(CeilDivide(even, tile) * tile, tile, most);
  job.chunks = CeilDivide(job.units, job.chunk);
  if (job.chunks > kChunksMax) return Refused("too many chunks");
  plan->blocks = static_cast<int>(std::min(job.chunks, blocks));
  plan->blocks_wished = shape.blocks;
  plan->threads = shape.threads;
  return Status::Ok();
}

void SetControl(const Control& control, Job* job) {
  job->checksum = control.checksum;
  job->abort_word = control.abort_word;
  job->epoch = control.epoch;
  job->stopped = control.stopped;
}

Variant VariantOf(const Reduction& r, const Job& job, Combine op) {
  if (r.wide) return Variant::kWide;
  if (op == Combine::kAccumulate || job.partial_sources != 0 || job.partial_result) {
    return Variant::kMixed;
  }
  const bool plain = !job.finish.divides && !job.finish.scales && !job.weighted;
  return job.sources == 2 && plain ? Variant::kTwo : Variant::kMany;
}

}  // namespace

bool Batch::Add(const Plan& plan) {
  if (jobs.count == 0) id = plan.id;
  if (plan.blocks == 0) return true;
  const uint64_t more = plan.job.count * reduce::ElementBytes(plan.id.dtype);
  if (jobs.count > 0) {
    const auto wished = static_cast<uint64_t>(std::max(plan.blocks, plan.blocks_wished));
    const bool soon = bytes + more <= wished * kBatchBytesOfBlock;
    if (!(plan.id == id) || jobs.count == kMaxJobs || !soon) return false;
  }
  jobs.job[jobs.count++] = plan.job;
  bytes += more;
  chunks += plan.job.chunks;
  threads = std::max(threads, plan.threads);
  const auto needed = static_cast<int>(std::min<uint64_t>(chunks, INT32_MAX));
  blocks = std::max({blocks, plan.blocks, std::min(needed, plan.blocks_wished)});
  return true;
}

void Batch::Clear() {
  jobs.count = 0;
  blocks = threads = 0;
  chunks = bytes = 0;
}

Expected<Plan> PlanReduction(const Reduction& r, const Control& control, const Shape& wish) {
  FTAR_RETURN_IF_ERROR(Check(r));
  Plan plan;
  Job& job = plan.job;
  Layout layout;
  const Dtype accumulator = reduce::AccumulatorOf(r.dtype, r.redop);
  job.sources = static_cast<uint32_t>(r.sources.size());
  for (size_t s = 0; s < r.sources.size(); ++s) {
    const reduce::Source& source = r.sources[s];
    job.source[s] = source.data;
    job.weight[s] = source.weight;
    if (source.format != r.dtype) job.partial_sources |= 1u << s;
    layout.Add(source.data, reduce::ElementBytes(source.format));
  }
  job.partial_result = r.to_partial && accumulator != r.dtype;
  job.destinations = static_cast<uint32_t>(r.destinations.size());
  for (size_t d = 0; d < r.destinations.size(); ++d) {
    job.destination[d] = r.destinations[d];
    layout.Add(r.destinations[d], reduce::ElementBytes(job.partial_result ? accumulator : r.dtype));
  }
  job.weighted = r.redop == Redop::kWavg;
  job.finish = FinishOf(r);
  SetControl(control, &job);
  const Combine op = CombineOf(r.dtype, r.redop);
  const Variant variant = VariantOf(r, job, op);
  const size_t bytes = reduce::ElementBytes(r.dtype);
  const int unroll = wish.unroll > 0 ? wish.unroll : UnrollOf(variant, bytes);
  plan.id = {.dtype = r.dtype, .op = op, .variant = variant, .unroll = unroll};
  FTAR_RETURN_IF_ERROR(Cut(layout, r.count, bytes, wish, &plan));
  return plan;
}

Expected<std::vector<Plan>> PlanTurns(const reduce::SpaceReduction& reduction, void* partial,
                                      const Shape& wish) {
  FTAR_RETURN_IF_ERROR(reduce::CheckReduction(reduction));
  // What the first ones give together is the first source beside the next ones, in their order.
  const Dtype accumulator = reduce::AccumulatorOf(reduction.dtype, reduction.redop);
  std::span<const reduce::Source> left = reduction.sources;
  std::vector<reduce::Source> some;
  std::vector<Plan> plans;
  while (!left.empty()) {
    const size_t taken = std::min(left.size(), kMaxSources - some.size());
    some.insert(some.end(), left.begin(), left.begin() + static_cast<ptrdiff_t>(taken));
    left = left.subspan(taken);
    const bool last = left.empty();
    void* const destination = last ? reduction.dst : partial;
    const Expected<Plan> plan = PlanReduction({.dtype = reduction.dtype,
                                               .redop = reduction.redop,
                                               .sources = some,
                                               .destinations = {&destination, 1},
                                               .count = reduction.count,
                                               .divisor = reduction.divisor,
                                               .scale = reduction.scale,
                                               .to_partial = reduction.to_partial || !last},
                                              {}, wish);
    if (!plan.ok()) return plan.status();
    plans.push_back(*plan);
    some = {{.data = partial, .format = accumulator, .weight = 1.0}};
  }
  return plans;
}

Expected<Plan> PlanCopy(const void* from, std::span<void* const> to, size_t bytes,
                        const Control& control, const Shape& wish) {
  if (to.size() > kMaxDestinations) return Refused("at most 16 destinations");
  if (to.empty() && control.checksum == nullptr) return Refused("a copy to nowhere, for nothing");
  Plan plan;
  Layout layout;
  plan.job.sources = 1;
  plan.job.source[0] = from;
  layout.Add(from, 1);
  plan.job.destinations = static_cast<uint32_t>(to.size());
  for (size_t d = 0; d < to.size(); ++d) {
    plan.job.destination[d] = to[d];
    layout.Add(to[d], 1);
  }
  SetControl(control, &plan.job);
  plan.id.unroll = wish.unroll > 0 ? wish.unroll : UnrollOf(Variant::kCopy, 1);
  FTAR_RETURN_IF_ERROR(Cut(layout, bytes, 1, wish, &plan));
  return plan;
}

}  // namespace ftar::kernels
