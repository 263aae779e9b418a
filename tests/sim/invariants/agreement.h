// Agreement (contract 2): all who deliver an operation see the same status, epoch, members, weights
// and, where all get the whole result, the same bits; where it fails, the same reason.
#ifndef FTAR_TESTS_SIM_INVARIANTS_AGREEMENT_H_
#define FTAR_TESTS_SIM_INVARIANTS_AGREEMENT_H_

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "collective/types.h"
#include "memory.h"

namespace ftar::sim {

class Agreement {
 public:
  // An operation is known by its number and, with step marks, by its step, which is its tag:
  // newcomers that find all others dead may not know which numbers are taken. A stand-in does not
  // know the step, its tag is 0; its operation is another's if anybody has a part in both.
  // `result`: null if this member gets none, or a part of its own.
  std::string Delivered(int shard, const collective::Outcome& outcome, const Buffer* result);

 private:
  struct Known {
    collective::Outcome outcome;
    uint64_t bits = 0;  // a hash of the result; 0: not seen yet
  };
  std::unordered_map<uint64_t, std::vector<Known>> known_;  // by shard and number
};

// "op 7 epoch 3 [0 1 2o ] status 0"; an o marks weight 0.
std::string NameOf(const collective::Outcome& outcome);

}  // namespace ftar::sim

#endif  // FTAR_TESTS_SIM_INVARIANTS_AGREEMENT_H_
