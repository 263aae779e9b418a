#include "invariants/fencing.h"

#include <algorithm>

#include "invariants/agreement.h"

namespace ftar::sim {

std::string Fencing::Delivered(MemberId member, const collective::Outcome& outcome) {
  Seq& next = next_[member];
  if (outcome.seq < next) return "fencing: delivered twice or out of order: " + NameOf(outcome);
  next = outcome.seq + 1;
  if (outcome.status != Code::kOk) return "";
  const bool inside = std::any_of(outcome.members.begin(), outcome.members.end(),
                                  [member](const auto& m) { return m.id == member; });
  return inside ? ""
                : "fencing: " + ToString(member) +
                      " delivered without being a member: " + NameOf(outcome);
}

}  // namespace ftar::sim
