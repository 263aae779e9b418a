// Numbers for the views that one coordinator makes (rule Q1): above everything made here or heard
// of, and distinct from what any other incarnation makes. A value; single-threaded.
#ifndef FTAR_MEMBERSHIP_EPOCHS_H_
#define FTAR_MEMBERSHIP_EPOCHS_H_

#include <algorithm>

#include "base/ids.h"
#include "base/mutant.h"

namespace ftar::membership {

class Epochs {
 public:
  explicit Epochs(uint16_t incarnation) : incarnation_(incarnation) {}

  void Hear(Epoch epoch) {
    if (!FTAR_MUTANT(kHeardEpochForgotten)) counter_ = std::max(counter_, EpochCounter(epoch));
  }
  Epoch Next() {
    newest_ = MakeEpoch(++counter_, incarnation_);
    if (first_ == 0) first_ = newest_;
    return newest_;
  }
  // The view that the last one was made for will not come. J1: its number is not used again.
  void VoidLast() {
    if (FTAR_MUTANT(kVoidNumberReused)) --counter_;
  }
  // What is made here from now on has taken into account whatever was heard so far.
  void TakeHeardIntoAccount() { newest_ = MakeEpoch(counter_, UINT16_MAX); }
  // Whatever is above what was made here or taken into account is another's.
  bool IsAnothers(Epoch epoch) const { return epoch > newest_; }
  // Not by another coordinator, and not by this process when it coordinated before.
  bool MadeHere(Epoch epoch) const {
    const bool since = first_ != 0 && epoch >= first_;
    return (since || FTAR_MUTANT(kPromisedBefore)) && EpochIncarnation(epoch) == incarnation_;
  }

 private:
  const uint16_t incarnation_;
  uint64_t counter_ = 0;  // of the highest made or heard
  Epoch newest_ = 0;      // made, or taken into account
  Epoch first_ = 0;       // made here
};

}  // namespace ftar::membership

#endif  // FTAR_MEMBERSHIP_EPOCHS_H_
