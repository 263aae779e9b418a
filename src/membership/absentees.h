// Whom a first view waits for, in words: for people, who have not started somebody or have given
// him a number that is none, and for whoever gives up. A value; single-threaded.
#ifndef FTAR_MEMBERSHIP_ABSENTEES_H_
#define FTAR_MEMBERSHIP_ABSENTEES_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "base/ids.h"
#include "membership/agreement.h"

namespace ftar::membership {

class Absentees {
 public:
  using Shards = std::map<int32_t, std::set<int32_t>>;  // by replica

  // The first of a job has come: people are told once, when most jobs are all there.
  void OnFirst(TimeNs now) { tell_at_ = now + 5 * kSecond; }
  bool TakeTimeToTell(TimeNs now) {
    return now >= tell_at_ && std::exchange(tell_at_, kNever) != kNever;
  }
  void OnGaveUp(TimeNs now, int32_t replica) { gave_up_[replica] = now; }
  // Members of a launch give up at the same time: who did so within `recent_ns` is not to be looked
  // for.
  std::string InWords(TimeNs now, TimeNs recent_ns, const Reference& job, const Shards& here);

 private:
  TimeNs tell_at_ = kNever;
  std::map<int32_t, TimeNs> gave_up_;  // replicas whose newcomer did, when
};

}  // namespace ftar::membership

#endif  // FTAR_MEMBERSHIP_ABSENTEES_H_
