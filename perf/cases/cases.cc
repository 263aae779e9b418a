// The list of all collectives.
#include "perf/case.h"

namespace ftar::perf {

const Case& CaseOf(ftarKind_t kind) {
  for (const Case* candidate :
       {&kAllReduceCase, &kReduceScatterCase, &kAllGatherCase, &kBroadcastCase}) {
    if (candidate->kind == kind) return *candidate;
  }
  return kBarrierCase;
}

}  // namespace ftar::perf
