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
  int blocks_wished = 0;  // Of which it may have fewer chunks.
};

// One launch: plans of one kernel, none of which touches what another one writes.
struct Batch {
  Batch() = default;
  // Implicit: a plan is a batch of one.
  Batch(const Plan& plan) { Add(plan); }

  // False, and nothing has changed, where it is of another kernel, where there is no room, and
  // where it would wait for the others for longer than a launch of its own costs (tuning.h). The
  // first one is always taken.
  bool Add(const Plan& plan);
  void Clear();

  Jobs jobs;
  Id id;
  int blocks = 0;  // As many as all chunks together need, and no more than the largest plan wishes.
  int threads = 0;
  uint64_t chunks = 0;  // Of all jobs.
  uint64_t bytes = 0;   // Of all results.
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
