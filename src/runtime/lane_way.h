// How what goes into the lane, inputs with their line, and inputs and sums in an area, is best
// copied there: by way of the caches, or past them (base/copy.h).
//
// Which is better depends on where the cores are, as hand_over.h says. There both ends' work is
// timed; such a short operation is timed as a whole, since who writes goes on before the others can
// see it, and who reads may wait for that. A trial takes as long as it takes until every slot of
// the lane has been written so: what lies in another core's cache is dearer to write.
#ifndef FTAR_RUNTIME_LANE_WAY_H_
#define FTAR_RUNTIME_LANE_WAY_H_

#include "base/copy.h"
#include "base/ids.h"
#include "runtime/ways.h"
#include "wire/lane.h"

namespace ftar::runtime {

class LaneWay : public Ways {
 public:
  LaneWay()
      : Ways({.ways = 2, .trial = wire::kLaneSlots + kSamples, .samples = kSamples, .every = 2048},
             {.above = kHandOverMinBytes - 1,
              .first = wire::kLaneInputMax / 2,
              .most = wire::kLaneLongMax}) {}
  // Whether the input of operation `seq` goes past the caches.
  bool Streams(Seq seq, uint64_t bytes) const { return Of(seq, bytes) == 1; }

 private:
  static constexpr Seq kSamples = 4;
};

}  // namespace ftar::runtime

#endif  // FTAR_RUNTIME_LANE_WAY_H_
