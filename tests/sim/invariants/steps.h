// Steps (design 7): all who deliver an operation of a step have heard the same of its boundary.
#ifndef FTAR_TESTS_SIM_INVARIANTS_STEPS_H_
#define FTAR_TESTS_SIM_INVARIANTS_STEPS_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "engine/engine.h"

namespace ftar::sim {

// Users send newcomers their state if `joined` and `source` say that there are any and somebody who
// has it: who hears otherwise makes other calls from there on. Who the source is may have changed.
class Steps {
 public:
  std::string Delivered(int shard, const engine::StepBegun& step);

 private:
  struct Boundary {
    int32_t joined = 0;
    bool sourced = false;
    Epoch epoch = 0;
    int32_t participants = 0;
    bool operator==(const Boundary&) const = default;
  };
  std::map<std::pair<int, int64_t>, Boundary> known_;
};

}  // namespace ftar::sim

#endif  // FTAR_TESTS_SIM_INVARIANTS_STEPS_H_
