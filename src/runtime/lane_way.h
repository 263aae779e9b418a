// How inputs that go with their line are best copied into the lane: by way of the caches, or past
// them (base/copy.h).
//
// Which is better depends on where the cores are, as hand_over.h says. There both ends' work is
// timed; such a short operation is timed as a whole, since who writes goes on before the others can
// see it, and who reads may wait for that. In trials all members copy alike, those of one number,
// for as long as it takes until every slot of the lane has been written so: what lies in another
// core's cache is dearer to write. Plain arithmetic; one thread at a time.
#ifndef FTAR_RUNTIME_LANE_WAY_H_
#define FTAR_RUNTIME_LANE_WAY_H_

#include <algorithm>

#include "base/copy.h"
#include "base/ids.h"
#include "wire/lane.h"

namespace ftar::runtime {

class LaneWay {
 public:
  // Whether the input of operation `seq` goes past the caches.
  bool Streams(Seq seq, uint64_t bytes) const {
    if (bytes < kHandOverMinBytes) return false;
    const Ways& ways = ways_[SizeOf(bytes)];
    const Seq at = InTrial(seq, ways);
    return at < 2 * kTrial ? at >= kTrial : ways.cost[1] < ways.cost[0];
  }
  // Whether it is to be timed, from the copy to the result.
  bool Samples(Seq seq, uint64_t bytes) const {
    if (bytes < kHandOverMinBytes) return false;
    const Seq at = InTrial(seq, ways_[SizeOf(bytes)]);
    return at < 2 * kTrial && at % kTrial >= kTrial - kSamples;
  }
  // Of an operation that Samples.
  void Note(Seq seq, uint64_t bytes, TimeNs spent) {
    Ways& ways = ways_[SizeOf(bytes)];
    const double now = static_cast<double>(spent) / static_cast<double>(bytes);
    double& cost = ways.cost[InTrial(seq, ways) < kTrial ? 0 : 1];
    // Others may come late, which says nothing of memory: the shortest counts, for a while.
    cost = cost == 0 ? now : std::min(now, kDearerMost * cost);
    ++ways.noted;
  }

 private:
  static constexpr Seq kTryEvery = 2048, kSamples = 4, kTrial = wire::kLaneSlots + kSamples;
  static constexpr double kDearerMost = 1.5;

  struct Ways {
    double cost[2] = {};  // nanoseconds a byte; first by way of the caches; 0: not known
    Seq noted = 0;
  };
  // What an operation costs besides shows more in a byte of a short one.
  static size_t SizeOf(uint64_t bytes) { return bytes > wire::kLaneInputMax / 2 ? 1 : 0; }
  // How far into a trial; beyond it there is none. At first one follows the other.
  static Seq InTrial(Seq seq, const Ways& ways) {
    return seq % (ways.noted >= 2 * kSamples ? kTryEvery : 2 * kTrial);
  }

  Ways ways_[2];
};

}  // namespace ftar::runtime

#endif  // FTAR_RUNTIME_LANE_WAY_H_
