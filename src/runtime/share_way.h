// How two who share an operation make it (collective/group_share.cc): each sums all of it; or
// halves, of which each copies the other's, written by way of the caches or past them
// (hand_over.h).
//
// To sum all reads more and writes nothing that the other reads. Up to some size that is always
// best; beyond it more than the caches hold is read where the cores share them, and where they
// share none what the other has read is dear to write over. Two members who find differently about
// that go by halves. Plain arithmetic; one thread at a time.
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
  void Begin(uint64_t bytes) {
    if (AllSumsAlways(bytes) || !Knows(bytes)) return;
    if (bytes <= kAllSumMax)
      middle_[SizeOf(bytes)].Begin();
    else
      long_[SizeOf(bytes)].Begin();
  }
  bool AllSum(Seq seq, uint64_t bytes) const { return WayOf(seq, bytes) == kAllSum; }
  // Whether halves go past the caches.
  bool Streams(Seq seq, uint64_t bytes) const { return WayOf(seq, bytes) == kStreamed; }
  // Whether it is to be timed, as a whole.
  bool Samples(Seq seq, uint64_t bytes) const {
    if (bytes <= kAllSumAlways || !Knows(bytes)) return false;
    return bytes <= kAllSumMax ? middle_[SizeOf(bytes)].Samples(seq)
                               : long_[SizeOf(bytes)].Samples(seq);
  }
  // Of an operation that Samples.
  void Note(Seq seq, uint64_t bytes, TimeNs spent) {
    const double cost = static_cast<double>(spent) / static_cast<double>(bytes);
    if (bytes <= kAllSumMax)
      middle_[SizeOf(bytes)].Note(seq, cost);
    else
      long_[SizeOf(bytes)].Note(seq, cost);
  }

 private:
  enum Way : size_t { kCached, kStreamed, kAllSum };
  static constexpr uint64_t kAllSumAlways = 512 * 1024, kAllSumMax = 4 * kAllSumAlways;
  static constexpr uint64_t kHalvesMax = 4 * kAllSumMax;
  static constexpr Seq kTryEvery = 1024;

  size_t WayOf(Seq seq, uint64_t bytes) const {
    if (bytes <= kAllSumAlways) return kAllSum;
    if (bytes <= kAllSumMax) return middle_[SizeOf(bytes)].Of(seq);
    return Knows(bytes) ? long_[SizeOf(bytes)].Of(seq) : kCached;
  }
  static size_t SizeOf(uint64_t bytes) {
    return bytes <= 2 * kAllSumAlways || (bytes > kAllSumMax && bytes <= 2 * kAllSumMax) ? 0 : 1;
  }

  Ways<3, kTryEvery, 4, 2> middle_[2];
  Ways<2, kTryEvery, 2, 1> long_[2];
};

}  // namespace ftar::runtime

#endif  // FTAR_RUNTIME_SHARE_WAY_H_
