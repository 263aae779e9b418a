#include "membership/quorum.h"

#include "base/mutant.h"

namespace ftar::membership {
namespace {

// More than half of the base's replicas, or exactly half with the first of them; or all that are
// not proven dead. Between these there is nothing: a dead replica may have helped to number a view
// that somebody holds who lives and is not here, so it does not make the majority any smaller.
QuorumAnswer HoldsBase(const std::vector<MemberId>& base, const QuorumQuestion& question) {
  size_t held = 0, dead = 0, all = base.size();
  bool holds_first = false;
  for (const MemberId replica : base) {
    const bool is_dead = question.proven_dead.contains(replica);
    const bool here = !is_dead && question.survivors.contains(replica);
    if (replica == base.front()) holds_first = here;
    if (is_dead) ++dead;
    if (here) ++held;
  }
  const bool nobody_else = held > 0 && held + dead == all;
  if (FTAR_MUTANT(kDeadLeaveQuorum)) all -= dead;
  if (FTAR_MUTANT(kDeadVote)) held += dead;
  if (nobody_else || 2 * held > all || (2 * held == all && holds_first)) return {true, {}};
  return {false, std::to_string(held) + " of " + std::to_string(all) +
                     " replicas of an earlier view are here, which is no majority"};
}

}  // namespace

QuorumAnswer HasQuorum(const QuorumQuestion& question) {
  if (question.replicas < static_cast<size_t>(question.min_replicas) &&
      !FTAR_MUTANT(kMinReplicasIgnored)) {
    return {false, std::to_string(question.replicas) + " of at least " +
                       std::to_string(question.min_replicas) + " replicas (min_replicas) are here"};
  }
  if (!question.needs_majority || FTAR_MUTANT(kNoMajority)) return {true, {}};
  for (const std::vector<MemberId>& base : question.bases) {
    QuorumAnswer answer = HoldsBase(base, question);
    if (!answer.granted) return answer;
  }
  return {true, {}};
}

}  // namespace ftar::membership
