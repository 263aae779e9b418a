// How bytes are best handed to another core: by way of the caches, or past them through the memory.
//
// Where two cores share a cache the first is twice as fast; where they share none, the second is
// four times as fast, and a virtual machine's cores may go from one to the other while it runs. So
// both are measured, what writing costs and what reading costs that others have written so, and the
// way that does not seem better is tried again now and then. Plain arithmetic; one thread at a
// time.
#ifndef FTAR_RUNTIME_HAND_OVER_H_
#define FTAR_RUNTIME_HAND_OVER_H_

#include <algorithm>
#include <cstdint>

#include "base/ids.h"

namespace ftar::runtime {

class HandOver {
 public:
  // Whether operation `seq` streams what it hands over. All try the other way at the same ones.
  bool Streams(Seq seq) const {
    const bool better = Known(true) && (!Known(false) || kDearer * Cost(true) < Cost(false));
    const Seq every = seq < kTryEvery ? kTryEarly : kTryEvery;
    return seq % every < kTries ? !better : better;
  }
  void NoteWritten(bool streamed, uint64_t bytes, TimeNs spent) {
    Note(&written_[streamed ? 1 : 0], bytes, spent);
  }
  void NoteRead(bool streamed, uint64_t bytes, TimeNs spent) {
    Note(&read_[streamed ? 1 : 0], bytes, spent);
  }

 private:
  static constexpr Seq kTryEvery = 100, kTries = 2;
  // At first more often: pages that are touched for the first time make either way look dear.
  static constexpr Seq kTryEarly = 16;
  // What was streamed before is cold when it is tried without.
  static constexpr double kDearer = 2.5;
  static constexpr double kNewest = 0.5;  // its weight in the mean
  static constexpr double kOddMost = 8;
  static constexpr double kLeast = 1e-6;  // none is "not known"

  static void Note(double* mean, uint64_t bytes, TimeNs spent) {
    if (bytes == 0) return;
    const double now = std::max(static_cast<double>(spent) / static_cast<double>(bytes), kLeast);
    // A thread that did not run says nothing of memory.
    *mean = *mean == 0 ? now : *mean + kNewest * (std::min(now, kOddMost * *mean) - *mean);
  }
  bool Known(bool streamed) const {
    const int way = streamed ? 1 : 0;
    return written_[way] > 0 && read_[way] > 0;
  }
  double Cost(bool streamed) const {
    const int way = streamed ? 1 : 0;
    return written_[way] + read_[way];
  }

  double written_[2] = {}, read_[2] = {};  // nanoseconds a byte
};

}  // namespace ftar::runtime

#endif  // FTAR_RUNTIME_HAND_OVER_H_
