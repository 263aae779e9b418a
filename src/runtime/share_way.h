// How two who share an operation make it (collective/group_share.cc): each sums all of it; or
// halves, of which each copies the other's, written by way of the caches or past them
// (hand_over.h).
//
// To sum all reads more and writes nothing that the other reads. Up to some size that is always
// best; beyond it more than the caches hold is read where the cores share them, and where they
// share none what the other has read is dear to write over. Two members who find differently about
// that go by halves.
#ifndef FTAR_RUNTIME_SHARE_WAY_H_
#define FTAR_RUNTIME_SHARE_WAY_H_

#include <cstdint>

#include "base/ids.h"
#include "runtime/ways.h"

namespace ftar::runtime {

class ShareWay {
 public:
  static bool AllSumsAlways(uint64_t bytes) { return bytes <= kAllSumAlways; }
  // Nothing of what is longer.
  static bool Knows(uint64_t bytes) { return bytes <= kHalvesMax; }
  bool AllSum(Seq seq, uint64_t bytes) const {
    return AllSumsAlways(bytes) || For(bytes).Of(seq, bytes) == kAllSum;
  }
  // Whether halves go past the caches.
  bool Streams(Seq seq, uint64_t bytes) const { return For(bytes).Of(seq, bytes) == kStreamed; }
  // Of each operation when it is over: how it was made, which is not for one to say alone, and how
  // long it took from when the lines of all were there.
  void Note(Seq seq, uint64_t bytes, bool all_sum, TimeNs spent) {
    Ways& ways = For(bytes);
    if (all_sum == AllSum(seq, bytes)) ways.Note(seq, bytes, spent);
    ways.Begin(bytes);
  }

 private:
  enum Way : size_t { kCached, kStreamed, kAllSum };
  static constexpr uint64_t kAllSumAlways = 512 * 1024, kAllSumMax = 4 * kAllSumAlways;
  static constexpr uint64_t kHalvesMax = 4 * kAllSumMax;
  static constexpr Trials kThreeWays = {.ways = 3, .trial = 4, .samples = 2, .every = 1024};
  static constexpr Trials kHalves = {.ways = 2, .trial = 4, .samples = 2, .every = 1024};
  static constexpr TriedSizes kMiddleSizes = {
      .above = kAllSumAlways, .first = 2 * kAllSumAlways, .most = kAllSumMax};
  static constexpr TriedSizes kLongSizes = {
      .above = kAllSumMax, .first = 2 * kAllSumMax, .most = kHalvesMax};

  const Ways& For(uint64_t bytes) const { return bytes <= kAllSumMax ? middle_ : long_; }
  Ways& For(uint64_t bytes) { return bytes <= kAllSumMax ? middle_ : long_; }

  Ways middle_{kThreeWays, kMiddleSizes};
  Ways long_{kHalves, kLongSizes};
};

}  // namespace ftar::runtime

#endif  // FTAR_RUNTIME_SHARE_WAY_H_
