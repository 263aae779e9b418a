// Fencing: nobody outside an operation's participants delivers it as OK, and nobody delivers twice.
#ifndef FTAR_TESTS_SIM_INVARIANTS_FENCING_H_
#define FTAR_TESTS_SIM_INVARIANTS_FENCING_H_

#include <string>
#include <unordered_map>

#include "collective/types.h"

namespace ftar::sim {

class Fencing {
 public:
  std::string Delivered(MemberId member, const collective::Outcome& outcome);

 private:
  std::unordered_map<MemberId, Seq> next_;  // delivery is in order, so one number says all
};

}  // namespace ftar::sim

#endif  // FTAR_TESTS_SIM_INVARIANTS_FENCING_H_
