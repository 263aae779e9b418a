// Works that follow from an operation and from where its inputs are, whoever has them done.
#ifndef FTAR_COLLECTIVE_OP_WORKS_H_
#define FTAR_COLLECTIVE_OP_WORKS_H_

#include "base/mutant.h"
#include "collective/op_state.h"
#include "collective/types.h"
#include "plan/grid.h"

namespace ftar::collective {

// Of a shared one: each member makes the whole result for itself; and whether its sums are for
// others, too. Asked when the lines of all are seen.
inline bool AllSum(const Op& op) { return op.lane.whole || FTAR_MUTANT(kSharedPartsSummed); }

// By how much its sum is divided. False if nobody has a weight.
bool Divide(const Op& op, Work* work);
// All of the work that makes `chunk` of the result of the inputs in the lanes, but its end and
// where the result goes. False if nobody has a weight.
bool FillLaneWork(const Op& op, const plan::Chunk& chunk, Work* work);
// The same for what `owner` has made of it.
void FillSumCopy(const Op& op, int owner, const plan::Chunk& chunk, Work* work);

}  // namespace ftar::collective

#endif  // FTAR_COLLECTIVE_OP_WORKS_H_
