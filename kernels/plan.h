// From what is asked to what is launched: checks a call, chooses the kernel, cuts the elements.
//
// Pure functions without CUDA, so that the tests plan and run on the host what a device would run.
// The arithmetic is that of src/reduce/reduce.h. Addresses are looked at, never followed.
#ifndef FTAR_KERNELS_PLAN_H_
#define FTAR_KERNELS_PLAN_H_

#include <span>
#include <vector>

#include "base/status.h"
#include "kernels/job.h"
#include "kernels/tuning.h"
#include "kernels/variants.h"
#include "reduce/space.h"

namespace ftar::kernels {

// ReduceToFinal, or ReduceToPartial, from 1 to 16 sources to 1 to 16 destinations.
struct Reduction {
  reduce::Dtype dtype = reduce::Dtype::kF32;
  reduce::Redop redop = reduce::Redop::kSum;
  std::span<const reduce::Source> sources = {};
  // Each is exactly the data of a source of its own format, or overlaps none.
  std::span<void* const> destinations = {};
  size_t count = 0;
  double divisor = 1.0;
  double scale = 1.0;
  bool to_partial = false;
  // Sums of f32 in f64, rounded once; what src/reduce does not offer.
  bool wide = false;
};

// Words in memory that device and host both see; null where one is not wanted.
struct Control {
  uint32_t* checksum = nullptr;  // Added to: see Job::checksum.
  const uint32_t* abort_word = nullptr;
  uint32_t epoch = 0;
  uint32_t* stopped = nullptr;
};

struct Plan {
  Job job;
  Id id;
  int blocks = 0;  // 0: there is nothing to do.
  int threads = 0;
};

// Fails with Code::kArg for a call that reduce.h forbids, for counts out of range and for a grid
// that is none.
Expected<Plan> PlanReduction(const Reduction& reduction, const Control& control = {},
                             const Shape& wish = {});

// Any number of sources, one destination: more than 16 are reduced in turns, which changes no bit.
// `partial`: memory for `count` results in the accumulator's type, read only if there are turns.
Expected<std::vector<Plan>> PlanTurns(const reduce::SpaceReduction& reduction, void* partial,
                                      const Shape& wish = {});

// Bytes from one place to up to 16; to none where only the checksum is wanted.
Expected<Plan> PlanCopy(const void* from, std::span<void* const> to, size_t bytes,
                        const Control& control = {}, const Shape& wish = {});

}  // namespace ftar::kernels

#endif  // FTAR_KERNELS_PLAN_H_
