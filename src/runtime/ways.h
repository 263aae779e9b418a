// Which of some ways makes operations of one kind and size shorter, found out by timing whole ones.
//
// In trials, which come at the same operation numbers for all members that began alike, all go each
// way for some operations, one way after the other; the last of each are timed. Plain arithmetic;
// one thread at a time.
#ifndef FTAR_RUNTIME_WAYS_H_
#define FTAR_RUNTIME_WAYS_H_

#include <algorithm>
#include <array>
#include <bit>

#include "base/ids.h"

namespace ftar::runtime {

// A trial begins with every `kEvery`th number from the first on, a power of two, and before that
// with each power of two that is long enough; it has `kTrial` operations each way, of which the
// last `kSamples` are timed.
template <size_t kWays, Seq kEvery, Seq kTrial, Seq kSamples>
class Ways {
 public:
  // For each operation.
  void Begin() { ++begun_; }
  // The way that operation `seq` goes. The first, unless another one is known to be shorter.
  size_t Of(Seq seq) const {
    const Seq at = InTrial(seq);
    if (at < kWays * kTrial) return at / kTrial;
    size_t best = 0;
    for (size_t way = 1; way < kWays; ++way) {
      if (cost_[way] > 0 && cost_[way] < cost_[best]) best = way;
    }
    return best;
  }
  // Whether it is to be timed.
  bool Samples(Seq seq) const {
    const Seq at = InTrial(seq);
    return at < kWays * kTrial && at % kTrial >= kTrial - kSamples;
  }
  // Of an operation that Samples. `cost`: in any unit, the same for all.
  void Note(Seq seq, double cost) {
    if (noted_ == 0) first_ = seq - InTrial(seq);
    double& known = cost_[InTrial(seq) / kTrial];
    // Others may come late, which says nothing of memory: the shortest counts, for a while.
    known = known == 0 ? cost : std::min(cost, kDearerMost * known);
    ++noted_;
  }

 private:
  static constexpr double kDearerMost = 1.5;

  // How far into a trial; beyond it there is none. At first more often: what is touched for the
  // first time makes any way look dear. Operations of one size among others may never fall on a number
  // that is timed.
  Seq InTrial(Seq seq) const {
    const Seq since = seq - first_;
    const bool first = noted_ < kWays * kSamples && begun_ <= 4 * kWays * kTrial;
    if (first) return since % (kWays * kTrial);
    return since % std::clamp(std::bit_floor(since), 4 * kWays * kTrial, kEvery);
  }

  std::array<double, kWays> cost_ = {};  // 0: not known
  Seq first_ = 0;  // where the first trial began that was timed
  Seq noted_ = 0, begun_ = 0;
};

}  // namespace ftar::runtime

#endif  // FTAR_RUNTIME_WAYS_H_
