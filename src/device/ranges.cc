#include "device/ranges.h"

#include <algorithm>

#include "reduce/reduce.h"

namespace ftar::device {
namespace {

bool Overlap(const Range& a, const Range& b) { return a.begin < b.end && b.begin < a.end; }

// Bytes of an element of partial results.
size_t PartialBytes(const kernels::Id& id) {
  const bool averages = id.op == reduce::Combine::kAccumulate;
  return reduce::ElementBytes(
      reduce::AccumulatorOf(id.dtype, averages ? reduce::Redop::kAvg : reduce::Redop::kSum));
}

}  // namespace

Touched::Touched(const kernels::Plan& plan) {
  if (plan.blocks == 0) return;
  const kernels::Job& job = plan.job;
  const size_t own = reduce::ElementBytes(plan.id.dtype);
  const size_t partial = PartialBytes(plan.id);
  for (uint32_t d = 0; d < job.destinations; ++d) {
    Add(job.destination[d], job.count * (job.partial_result ? partial : own));
  }
  if (job.checksum != nullptr) Add(job.checksum, sizeof(*job.checksum));
  written_ = count_;
  for (uint32_t s = 0; s < job.sources; ++s) {
    Add(job.source[s], job.count * ((job.partial_sources >> s & 1) != 0 ? partial : own));
  }
}

void Touched::Add(const void* address, size_t bytes) {
  const auto begin = reinterpret_cast<uintptr_t>(address);
  const Range range{.begin = begin, .end = begin + bytes};
  if (count_ == 0) all_ = range;
  all_ = {.begin = std::min(all_.begin, range.begin), .end = std::max(all_.end, range.end)};
  ranges_[count_++] = range;
}

bool Touched::WritesInto(const Touched& other) const {
  for (size_t w = 0; w < written_; ++w) {
    for (size_t o = 0; o < other.count_; ++o) {
      if (Overlap(ranges_[w], other.ranges_[o])) return true;
    }
  }
  return false;
}

bool Touched::Conflicts(const Touched& other) const {
  return Overlap(all_, other.all_) && (WritesInto(other) || other.WritesInto(*this));
}

}  // namespace ftar::device
