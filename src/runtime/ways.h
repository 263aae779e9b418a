// Which of some ways makes operations of one kind shorter, size by size, found out by timing whole
// ones.
//
// In trials, which come at the same operation numbers for all members that began alike, all go each
// way for some operations, one way after the other; the last of each are timed. Between them the
// way that is gone is timed on: a trial may have found it shorter than it is, or things have
// changed. Plain arithmetic; one thread at a time.
#ifndef FTAR_RUNTIME_WAYS_H_
#define FTAR_RUNTIME_WAYS_H_

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <vector>

#include "base/ids.h"

namespace ftar::runtime {

// A trial begins with every `every`th number from the first on, a power of two, and before that
// with each power of two that is long enough; it has `trial` operations each way, of which the last
// `samples` are timed.
struct Trials {
  size_t ways;  // Ways::kMost at most
  Seq trial, samples, every;
};

// In bytes. What is longer than `above` and not than `most` is tried; what is not longer than
// `first` together, and then each doubling for itself.
struct TriedSizes {
  uint64_t above, first, most;
};

class Ways {
 public:
  static constexpr size_t kMost = 3;

  Ways(const Trials& trials, const TriedSizes& tried)
      : trials_(trials), tried_(tried), sizes_(1 + SizeOf(tried.most)) {}

  // For each operation; the first ones of a size are tried no way, since all is new to the caches.
  void Begin(uint64_t bytes) {
    if (Tries(bytes)) ++sizes_[SizeOf(bytes)].begun;
  }
  // The way that operation `seq` goes. The first, unless another one is known to be shorter.
  size_t Of(Seq seq, uint64_t bytes) const {
    if (!Tries(bytes)) return 0;
    const Size& size = sizes_[SizeOf(bytes)];
    const Seq at = InTrial(size, seq);
    if (at < trials_.ways * trials_.trial) return at / trials_.trial;
    size_t best = 0;
    for (size_t way = 1; way < trials_.ways; ++way) {
      if (size.cost[way] > 0 && size.cost[way] < size.cost[best]) best = way;
    }
    return best;
  }
  // Whether it is to be timed, as a whole.
  bool Samples(Seq seq, uint64_t bytes) const {
    if (!Tries(bytes)) return false;
    const Seq at = InTrial(sizes_[SizeOf(bytes)], seq);
    return at < trials_.ways * trials_.trial &&
           at % trials_.trial >= trials_.trial - trials_.samples;
  }
  // Of an operation that is over. One of a trial that is not to be timed says nothing.
  void Note(Seq seq, uint64_t bytes, TimeNs spent) {
    if (!Tries(bytes)) return;
    Size& size = sizes_[SizeOf(bytes)];
    const double cost = static_cast<double>(spent) / static_cast<double>(bytes);
    if (Samples(seq, bytes)) {
      NoteTried(&size, seq, cost);
    } else if (InTrial(size, seq) >= trials_.ways * trials_.trial) {
      NoteUsual(&size, Of(seq, bytes), cost);
    }
  }

 private:
  static constexpr double kDearerMost = 1.5;
  static constexpr Seq kNew = 4;    // of a size, before its first trial
  static constexpr int kUsual = 8;  // of which the shortest is what a way takes by now

  struct Size {
    std::array<double, kMost> cost = {};  // nanoseconds a byte; 0: not known
    Seq first = 0;                        // where the first trial began that was timed
    Seq noted = 0, begun = 0;
    // Of operations between trials, up to kUsual: how many, and the shortest.
    int usual = 0;
    double least = 0;
  };

  // Others may come late, which says nothing of memory: the shortest counts, for a while.
  void NoteTried(Size* size, Seq seq, double cost) {
    if (size->noted == 0) size->first = seq - InTrial(*size, seq);
    double& known = size->cost[InTrial(*size, seq) / trials_.trial];
    known = known == 0 ? cost : std::min(cost, kDearerMost * known);
    ++size->noted;
    size->usual = 0;
  }
  void NoteUsual(Size* size, size_t way, double cost) {
    size->least = size->usual == 0 ? cost : std::min(cost, size->least);
    if (++size->usual < kUsual) return;
    size->cost[way] = size->least;
    size->usual = 0;
  }

  bool Tries(uint64_t bytes) const { return bytes > tried_.above && bytes <= tried_.most; }
  // What an operation costs besides shows more in a byte of a short one.
  size_t SizeOf(uint64_t bytes) const {
    return static_cast<size_t>(std::bit_width((bytes - 1) / tried_.first));
  }
  // How far into a trial; beyond it there is none. At first more often: what is touched for the
  // first time makes any way look dear. Operations of one size among others may never fall on a
  // number that is timed.
  Seq InTrial(const Size& size, Seq seq) const {
    const Seq since = seq - size.first, whole = trials_.ways * trials_.trial;
    if (size.begun < kNew) return whole;
    const bool first = size.noted < trials_.ways * trials_.samples && size.begun <= 4 * whole;
    if (first) return since % whole;
    return since % std::clamp(std::bit_floor(since), 4 * whole, trials_.every);
  }

  Trials trials_;
  TriedSizes tried_;
  std::vector<Size> sizes_;
};

}  // namespace ftar::runtime

#endif  // FTAR_RUNTIME_WAYS_H_
