// What a view says about where its members run, as far as plans depend on it (design 8). A pure
// function of the view, so that all members choose alike.
#ifndef FTAR_COLLECTIVE_SURROUNDINGS_H_
#define FTAR_COLLECTIVE_SURROUNDINGS_H_

#include <cstdint>

#include "base/ids.h"
#include "wire/view.h"

namespace ftar::collective {

struct Surroundings {
  // Somewhere more members than cores: a message costs its receiver a change of who runs, and
  // rounds that run side by side elsewhere run one after the other.
  bool crowded = false;
  bool lane = false;   // the whole column has lanes, on one host
  bool wired = false;  // somebody of the column shares no memory with the others
  wire::WireCosts wire;  // in the middle of what the column's members have measured
  MemberId hub;  // of the column: who tells all that all are complete, where not everybody does
};

Surroundings SurroundingsOf(const wire::View& view, int32_t shard);

}  // namespace ftar::collective

#endif  // FTAR_COLLECTIVE_SURROUNDINGS_H_
