// Over which majorities a hosted coordinator counts (rules Q4, Q5): one for each view from the last
// on that is known formed, by epoch. Who has left, or has said that it takes part in nothing any
// more, consents to whatever the others decide and counts in none. A value; single-threaded.
#ifndef FTAR_MEMBERSHIP_ELECTORATES_H_
#define FTAR_MEMBERSHIP_ELECTORATES_H_

#include <vector>

#include "base/ids.h"
#include "wire/view.h"

namespace ftar::membership {

class Electorates {
 public:
  // Of a view that may be gone on from. Two may tell of one, and each of others who have consented
  // since: those count no more.
  void Add(const wire::View& view) { Merge({view.epoch, view.Successors()}); }
  void AddReported(const wire::View& view);  // with those that it was made over
  void Consent(MemberId id);
  // Nobody goes on from an older one any more.
  void ForgetBelow(Epoch epoch);

  const std::vector<wire::Electorate>& all() const { return all_; }
  // The newest in which it counts; 0: none.
  Epoch Counting(MemberId id) const;

 private:
  void Merge(wire::Electorate electorate);

  std::vector<wire::Electorate> all_;
};

}  // namespace ftar::membership

#endif  // FTAR_MEMBERSHIP_ELECTORATES_H_
