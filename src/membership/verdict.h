// The group leader's table (rules V3 to V5, V8) and the boundaries of a failure view (J1, J2), as
// pure functions of what all survivors of a column reported. Run by whoever leads; the result is
// the same wherever it runs.
#ifndef FTAR_MEMBERSHIP_VERDICT_H_
#define FTAR_MEMBERSHIP_VERDICT_H_

#include <map>
#include <string>
#include <vector>

#include "wire/messages.h"

namespace ftar::membership {

using StatusMap = std::map<MemberId, wire::ColumnStatus>;

struct Decision {
  wire::ColumnVerdicts verdicts;
  std::vector<wire::BoundOf> bounds;
  // What must never be ("someone delivered, yet not all complete"): reported, never committed on.
  std::vector<std::string> violations;
};

// `statuses` holds one from every member of `shard` in `prepare.members`.
Decision Decide(const wire::Prepare& prepare, int32_t shard, const StatusMap& statuses);

// Two words of one step (J4): the newer one counts, as who was not there may hold that of a root
// that is lost, and nobody's by now; of groups that it does not know the other one does.
void TakeMark(wire::StepMark other, wire::StepMark* mark);

// The bounds alone; exposed for tests.
std::vector<wire::BoundOf> DecideBounds(const wire::Prepare& prepare, int32_t shard,
                                        const StatusMap& statuses);

}  // namespace ftar::membership

#endif  // FTAR_MEMBERSHIP_VERDICT_H_
