// How what goes into the lane, inputs with their line, and inputs and sums in an area, is best
// copied there: by way of the caches, or past them (base/copy.h).
//
// Which is better depends on where the cores are, as hand_over.h says. There both ends' work is
// timed; such a short operation is timed as a whole, since who writes goes on before the others can
// see it, and who reads may wait for that. A trial takes as long as it takes until every slot of
// the lane has been written so: what lies in another core's cache is dearer to write. Plain
// arithmetic; one thread at a time.
#ifndef FTAR_RUNTIME_LANE_WAY_H_
#define FTAR_RUNTIME_LANE_WAY_H_

#include <bit>

#include "base/copy.h"
#include "base/ids.h"
#include "runtime/ways.h"
#include "wire/lane.h"

namespace ftar::runtime {

class LaneWay {
 public:
  // Whether the input of operation `seq` goes past the caches.
  bool Streams(Seq seq, uint64_t bytes) const {
    return bytes >= kHandOverMinBytes && ways_[SizeOf(bytes)].Of(seq) == 1;
  }
  void Begin(uint64_t bytes) {
    if (bytes >= kHandOverMinBytes) ways_[SizeOf(bytes)].Begin();
  }
  // Whether it is to be timed, from the copy to the result.
  bool Samples(Seq seq, uint64_t bytes) const {
    return bytes >= kHandOverMinBytes && ways_[SizeOf(bytes)].Samples(seq);
  }
  // Of an operation that Samples.
  void Note(Seq seq, uint64_t bytes, TimeNs spent) {
    ways_[SizeOf(bytes)].Note(seq, static_cast<double>(spent) / static_cast<double>(bytes));
  }

 private:
  static constexpr Seq kTryEvery = 2048, kSamples = 4, kTrial = wire::kLaneSlots + kSamples;

  // What an operation costs besides shows more in a byte of a short one.
  static size_t SizeOf(uint64_t bytes) {
    return static_cast<size_t>(std::bit_width((bytes - 1) / (wire::kLaneInputMax / 2)));
  }
  static constexpr size_t kSizes =
      1 + static_cast<size_t>(std::bit_width(2 * wire::kLaneLongMax / wire::kLaneInputMax - 1));

  Ways<2, kTryEvery, kTrial, kSamples> ways_[kSizes];
};

}  // namespace ftar::runtime

#endif  // FTAR_RUNTIME_LANE_WAY_H_
