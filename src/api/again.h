// Calls that are like the last one of their group: the gradients of one training step after the
// other, a barrier. What such a call would be checked for and translated into is what the last
// one's was, so the operation, its handle's slot and all their memory are used again; only the
// buffers are looked at. Whatever does not fit goes the way of any other call, which also finds the
// words for what is wrong.
//
// Small operations take about as long as what these functions spare. They wait for nothing but the
// job's lock and, AwaitAgain, for members that are about to come; none is a cancellation point. Any
// thread.
#ifndef FTAR_API_AGAIN_H_
#define FTAR_API_AGAIN_H_

#include "api/objects.h"
#include "ftar/ftar.h"

namespace ftar::api {

// Of what has just been started in `group`, and whose handle nobody knows yet: a later call may be
// like it, if it asks for nothing that could have changed until then.
void LetRecur(ftarOp_t op, ftarGroup_t group, const ftarOpDesc& desc);

// Starts it in `group`. False: nothing has happened.
bool StartAgain(ftarGroup_t group, const ftarOpDesc* desc, ftarOp_t* op) noexcept;

// Waits for as long as it would be a waste to sleep. True: it has ended well, `outcome` says how.
bool AwaitAgain(ftarOp_t op, int64_t timeout_ns, ftarOutcome* outcome) noexcept;

// Releases the handle, and keeps its operation for the next call. False: it is no handle, in use,
// or of an operation that does not recur, and still what it was.
bool ReleaseForAgain(ftarOp_t op) noexcept;

}  // namespace ftar::api

#endif  // FTAR_API_AGAIN_H_
