// The runtime's values as the public structs, field by field. Pure; any thread.
#ifndef FTAR_API_TRANSLATE_H_
#define FTAR_API_TRANSLATE_H_

#include "collective/types.h"
#include "ftar/ftar.h"
#include "runtime/job.h"

namespace ftar::api {

inline ftarId ToPublic(MemberId id) { return ftarId{id.hi, id.lo}; }
inline MemberId FromPublic(ftarId id) { return MemberId{id.hi, id.lo}; }

// Overwrites every field of `info` but size and device.
void FillErrorInfo(const runtime::Culprit& culprit, ftarErrorInfo* info);
ftarOutcome ToPublic(const collective::Outcome& outcome);
// Of a caller whose struct is as long as ours, where it lies: all but `size`.
void FillOutcome(const collective::Outcome& from, ftarOutcome* out);
// What those that are alike (Outcome::alike) differ in.
void FillMoment(const collective::Outcome& from, ftarOutcome* out);
ftarEvent ToPublic(const runtime::JobEvent& event);
ftarStepInfo ToPublic(const runtime::StepResult& step);
ftarMemberInfo ToPublic(const collective::Participant& participant);

}  // namespace ftar::api

#endif  // FTAR_API_TRANSLATE_H_
