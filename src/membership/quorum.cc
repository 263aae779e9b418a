#include "membership/quorum.h"

#include "base/mutant.h"

namespace ftar::membership {
namespace {

// More than half of the base's replicas that are not proven dead, or exactly half with the first of
// them.
QuorumAnswer HoldsBase(const std::vector<int32_t>& base, const QuorumQuestion& question) {
  size_t living = 0, held = 0;
  bool holds_first = false;
  for (int32_t replica : base) {
    if (question.proven_dead.contains(replica)) continue;
    const bool here = question.survivors.contains(replica);
    if (living == 0) holds_first = here;
    ++living;
    if (here) ++held;
  }
  if (2 * held > living || (2 * held == living && held > 0 && holds_first)) return {true, {}};
  return {false, std::to_string(held) + " of " + std::to_string(living) +
                     " replicas of the last view are here, which is no majority"};
}

}  // namespace

QuorumAnswer HasQuorum(const QuorumQuestion& question) {
  size_t surviving = 0;
  for (int32_t replica : question.survivors) {
    if (!question.proven_dead.contains(replica)) ++surviving;
  }
  if (surviving < static_cast<size_t>(question.min_replicas) && !FTAR_MUTANT(kMinReplicasIgnored)) {
    return {false, std::to_string(surviving) + " of at least " +
                       std::to_string(question.min_replicas) + " replicas (min_replicas) are here"};
  }
  if (!question.needs_majority) return {true, {}};
  for (const std::vector<int32_t>& base : question.bases) {
    QuorumAnswer answer = HoldsBase(base, question);
    if (!answer.granted) return answer;
  }
  return {true, {}};
}

}  // namespace ftar::membership
