// The quorum of a view change (rule Q4), as a pure function: may these survivors go on without the
// others?
//
// A coordinator that can be replaced must be sure that no other part of the job goes on as well. It
// counts replicas over every base: the highest view that somebody heard knows formed, and each
// later view that somebody heard has installed (joint quorum, since planned views also take
// replicas in). A fixed coordinator, or one that holds the store's lease, is the only one of its
// kind and needs only `min_replicas`. Values only; any thread.
#ifndef FTAR_MEMBERSHIP_QUORUM_H_
#define FTAR_MEMBERSHIP_QUORUM_H_

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "base/ids.h"

namespace ftar::membership {

// A replica is named by its first member (wire::View::Successors).
struct QuorumQuestion {
  std::vector<std::vector<MemberId>> bases;  // each in list order
  std::set<MemberId> survivors;              // whoever else is in here does not matter
  // Replicas all of whose processes were seen to have exited (a closed connection or silence does
  // not belong here) before they could have numbered a view without those who are here. They never
  // count as survivors; but where all who are not here are dead, nobody is left who could go on
  // elsewhere.
  std::set<MemberId> proven_dead;
  size_t replicas = 0;  // that survive, newcomers included
  int32_t min_replicas = 1;
  bool needs_majority = true;  // false: fixed coordinator, or the lease is held
};

struct QuorumAnswer {
  bool granted = false;
  std::string text;  // why not, for users
};

QuorumAnswer HasQuorum(const QuorumQuestion& question);

}  // namespace ftar::membership

#endif  // FTAR_MEMBERSHIP_QUORUM_H_
