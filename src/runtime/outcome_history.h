// A group's last outcomes, for those who ask later. Deliveries come in order of seq, without gaps
// from the first one on, so a place is found by counting; a place that is used again keeps its
// memory. Not synchronised: the job's lock covers it.
#ifndef FTAR_RUNTIME_OUTCOME_HISTORY_H_
#define FTAR_RUNTIME_OUTCOME_HISTORY_H_

#include <cstddef>
#include <vector>

#include "collective/types.h"

namespace ftar::runtime {

class OutcomeHistory {
 public:
  static constexpr size_t kMax = 1024;

  void Add(const collective::Outcome& outcome) {
    if (places_.empty()) first_ = outcome.seq;
    if (places_.size() < kMax) {
      places_.push_back(outcome);
    } else {
      places_[(outcome.seq - first_) % kMax].Become(outcome);
    }
    end_ = outcome.seq + 1;
  }

  // Null if it is none of the last ones.
  const collective::Outcome* Find(Seq seq) const {
    if (places_.empty() || seq < first_ || seq >= end_) return nullptr;
    const collective::Outcome& place = places_[(seq - first_) % kMax];
    return place.seq == seq ? &place : nullptr;
  }

  // The newest is the one before it.
  Seq end() const { return end_; }

 private:
  std::vector<collective::Outcome> places_;
  Seq first_ = 0, end_ = 0;
};

}  // namespace ftar::runtime

#endif  // FTAR_RUNTIME_OUTCOME_HISTORY_H_
