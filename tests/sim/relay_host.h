// One simulated relay process.
#ifndef FTAR_TESTS_SIM_RELAY_HOST_H_
#define FTAR_TESTS_SIM_RELAY_HOST_H_

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "invariants/behind.h"
#include "membership/relay_lines.h"
#include "wire/codec.h"
#include "world.h"

namespace ftar::sim {

struct World::RelayHost {
  std::unique_ptr<membership::RelayLines> lines;  // none: it is down
  std::optional<std::pair<int, int>> above;       // of two levels: the place of its own upper one
  bool top = false;                               // it is an upper one
  uint64_t life = 0;
  std::set<membership::LineId> wanted;
  std::map<membership::LineId, uint64_t> up;  // connections of lines
  TimeNs wake = kNever;
  TimeNs still_until = 0;  // until then what comes for it waits
  Rest rest;
  Behind behind;
};

}  // namespace ftar::sim

#endif  // FTAR_TESTS_SIM_RELAY_HOST_H_
