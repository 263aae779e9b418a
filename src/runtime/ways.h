// Which of some ways makes operations of one kind and size shorter, found out by timing whole ones.
//
// In trials, which come at the same operation numbers for all members, all go each way for some
// operations, one way after the other; the last of each are timed. Plain arithmetic; one thread at
// a time.
#ifndef FTAR_RUNTIME_WAYS_H_
#define FTAR_RUNTIME_WAYS_H_

#include <algorithm>
#include <array>
#include <bit>

#include "base/ids.h"

namespace ftar::runtime {

template <size_t kWays>
class Ways {
 public:
  // A trial begins with every `every`th number, a power of two, and before that with each power of
  // two that is long enough; it has `trial` operations each way, of which the last `samples` are
  // timed.
  constexpr Ways(Seq every, Seq trial, Seq samples)
      : every_(every), trial_(trial), samples_(samples) {}

  // The way that operation `seq` goes.
  size_t Of(Seq seq) const {
    const Seq at = InTrial(seq);
    if (at < kWays * trial_) return at / trial_;
    return static_cast<size_t>(std::ranges::min_element(cost_) - cost_.begin());
  }
  // Whether it is to be timed.
  bool Samples(Seq seq) const {
    const Seq at = InTrial(seq);
    return at < kWays * trial_ && at % trial_ >= trial_ - samples_;
  }
  // Of an operation that Samples. `cost`: in any unit, the same for all.
  void Note(Seq seq, double cost) {
    double& known = cost_[InTrial(seq) / trial_];
    // Others may come late, which says nothing of memory: the shortest counts, for a while.
    known = known == 0 ? cost : std::min(cost, kDearerMost * known);
    ++noted_;
  }

 private:
  static constexpr double kDearerMost = 1.5;

  // How far into a trial; beyond it there is none. At first one follows the other: what is touched
  // for the first time makes any way look dear.
  Seq InTrial(Seq seq) const {
    if (noted_ < kWays * samples_) return seq % (kWays * trial_);
    return seq >= every_ ? seq % every_ : seq % std::max(std::bit_floor(seq), 4 * trial_);
  }

  Seq every_, trial_, samples_;
  std::array<double, kWays> cost_ = {};  // 0: not known
  Seq noted_ = 0;
};

}  // namespace ftar::runtime

#endif  // FTAR_RUNTIME_WAYS_H_
