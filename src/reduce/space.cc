#include "reduce/space.h"

#include <cstdlib>
#include <string>

#include "base/copy.h"

namespace ftar::reduce {
namespace {

constexpr size_t kAlignment = 256;

}  // namespace

Status CheckReduction(const SpaceReduction& r) {
  if (!Supports(r.dtype, r.redop)) return Status(Code::kArg, "no such type and operator");
  if (r.sources.empty()) return Status(Code::kArg, "a reduction has a source");
  const bool divides = r.redop == Redop::kAvg || r.redop == Redop::kWavg;
  const double least = r.dtype >= Dtype::kI8 ? 1.0 : 0.0;
  if (divides && !r.to_partial && !(r.divisor > 0.0 && r.divisor >= least)) {
    return Status(Code::kArg, "a divisor is above 0, and at least 1 of integers");
  }
  const Dtype accumulator = AccumulatorOf(r.dtype, r.redop);
  for (const Source& source : r.sources) {
    if (source.format != r.dtype && source.format != accumulator) {
      return Status(Code::kArg, "a source is of the type itself or of its accumulator");
    }
  }
  return Status::Ok();
}

Expected<void*> HostSpace::Allocate(size_t bytes) {
  // A size that is no multiple of the alignment is not allowed, and none at all may be null.
  const size_t whole = bytes / kAlignment * kAlignment + kAlignment;
  void* address = whole > bytes ? std::aligned_alloc(kAlignment, whole) : nullptr;
  if (address == nullptr) {
    return Status(Code::kMemory, "no memory for " + std::to_string(bytes) + " bytes");
  }
  return address;
}

Status HostSpace::Free(void* address) {
  std::free(address);
  return Status::Ok();
}

Status HostSpace::CopyIn(void* to, const void* host, size_t bytes) { return Copy(to, host, bytes); }

Status HostSpace::CopyOut(void* host, const void* from, size_t bytes) {
  return Copy(host, from, bytes);
}

Status HostSpace::Copy(void* to, const void* from, size_t bytes) {
  ::ftar::Copy(to, from, bytes);
  return Status::Ok();
}

Status HostSpace::Reduce(const SpaceReduction& r) {
  FTAR_RETURN_IF_ERROR(CheckReduction(r));
  if (r.to_partial) {
    ReduceToPartial(r.dtype, r.redop, r.sources, r.dst, r.count);
  } else {
    ReduceToFinal(r.dtype, r.redop, r.sources, r.divisor, r.scale, r.dst, r.count);
  }
  return Status::Ok();
}

}  // namespace ftar::reduce
