// Barrier: no elements at all; only its time and its verdict matter.
#include "perf/case.h"

namespace ftar::perf {
namespace {

Shape ShapeOf(const Row& /*row*/, int /*members*/) { return {}; }

double BusFactor(int /*members*/) { return 0; }

void Fill(const OpContext& /*context*/, const Shape& /*shape*/, void* /*send*/) {}

uint64_t Wrong(const OpContext& /*context*/, const Shape& /*shape*/,
               std::span<const OpMember> /*members*/, const void* /*recv*/) {
  return 0;
}

}  // namespace

const Case kBarrierCase = {FTAR_BARRIER, true, ShapeOf, BusFactor, Fill, Wrong};

}  // namespace ftar::perf
