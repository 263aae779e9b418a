// Rule Q4 seen from outside, where members coordinate: who stands behind a view.
#ifndef FTAR_TESTS_SIM_INVARIANTS_MAJORITY_H_
#define FTAR_TESTS_SIM_INVARIANTS_MAJORITY_H_

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "wire/view.h"

namespace ftar::sim {

class Majority {
 public:
  using Is = std::function<bool(MemberId)>;

  // A view that came by a Prepare holds more than half of the replicas of each view that it says it
  // rests on, or half with the first of them; or all but dead ones. Who has left by its own will,
  // or knows that it is out (`consents`), is not counted, whomever it has told so. The lists are
  // those that members have installed, whatever the coordinator takes them for. Nor does a view
  // need a majority anew that holds all of the one before, by the same coordinator, but those: all
  // of it had promised that one.
  std::string Installed(const wire::View& view, const Is& dead, const Is& consents);

 private:
  std::map<Epoch, std::vector<MemberId>> replicas_;  // of views that somebody has installed
  std::map<uint16_t, wire::View> newest_;            // by the coordinator's incarnation
};

}  // namespace ftar::sim

#endif  // FTAR_TESTS_SIM_INVARIANTS_MAJORITY_H_
