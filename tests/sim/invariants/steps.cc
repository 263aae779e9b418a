#include "invariants/steps.h"

namespace ftar::sim {

std::string Steps::Delivered(int shard, const engine::StepBegun& step) {
  const Boundary heard{step.joined, step.source >= 0, step.epoch, step.participants};
  const Boundary& known = known_.try_emplace({shard, step.step}, heard).first->second;
  if (known == heard) return "";
  const auto name = [](const Boundary& boundary) {
    return std::to_string(boundary.joined) + " joined and " + (boundary.sourced ? "a" : "no") +
           " source, of " + std::to_string(boundary.participants) + " by epoch " +
           std::to_string(boundary.epoch);
  };
  return "steps: of step " + std::to_string(step.step) + " one has heard of " + name(known) +
         ", another of " + name(heard);
}

}  // namespace ftar::sim
