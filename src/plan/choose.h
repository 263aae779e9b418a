// Which plan runs (design 8). Pure.
//
// On wires by what it takes, in the alpha-beta-gamma model (Thakur, Rabenseifner and Gropp 2005,
// section 3) with a price for each message besides: a round (alpha), a message's sender or
// receiver, a byte on the wire (beta), a byte to reduce (gamma). Between n members, for S bytes, at
// the busiest of them:
//
//   oneshot  alpha + (n - 1) (message + S (beta + gamma))
//   direct   2 alpha + (n - 1) (2 message + S / n (2 beta + gamma))
//
// alpha and beta are those of the view's members (wire::WireCosts). Inside a host, where nothing of
// this is the same for two sizes, and where nobody has told, bounds that were found by measuring.
#ifndef FTAR_PLAN_CHOOSE_H_
#define FTAR_PLAN_CHOOSE_H_

#include <cstdint>
#include <optional>

#include "plan/ground.h"
#include "plan/role.h"

namespace ftar::plan {

struct Wish {
  PlanKind forced = PlanKind::kAuto;
  bool deterministic = false;                      // only plans that add in member order
  std::optional<uint64_t> oneshot_max_bytes = {};  // up to where one-shot is taken; none: as above
};

PlanKind Choose(Kind kind, uint64_t bytes, const Ground& ground, const Wish& wish);

}  // namespace ftar::plan

#endif  // FTAR_PLAN_CHOOSE_H_
