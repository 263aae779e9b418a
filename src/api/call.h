// What surrounds every call of the C ABI: the fork check, the callback check, the end of a thread's
// cancellation until the call is over, and the last stop of every exception and of every Status,
// which becomes the thread's last error here.
// Any thread.
#ifndef FTAR_API_CALL_H_
#define FTAR_API_CALL_H_

#include <exception>
#include <new>
#include <utility>

#include "base/status.h"
#include "ftar/ftar.h"
#include "runtime/job.h"
#include "runtime/no_cancel.h"

namespace ftar::api {

// --- fork

// Installs the fork handlers, once a process. Before the first handle is made.
Status WatchForks();
// From the first job on, a forked child must not use the library.
void NoteJobExists();
// True in a child forked after NoteJobExists.
bool Forked();

// --- the thread's last error

// Adds to the error that this call is about to return: who it was. Lost if the call succeeds.
void NoteCulprit(const runtime::Culprit& culprit);
// The same where the job knows, of errors that are about somebody. Returns `status`.
Status WithCulprit(const runtime::Job& job, Status status);
// Makes `status` (not OK) the thread's last error, together with the culprit noted.
void SetLastError(const Status& status);
const ftarErrorInfo& LastError();

// --- calls

enum class Where {
  kAnywhere,       // also in a callback
  kNotInCallback,  // waits, starts or destroys
};

// The checks of `where`; names the call in the text.
Status Enter(Where where, const char* call);
// Ends a call: notes the error, if it is one, and translates.
ftarResult_t Leave(const Status& status);
// The same for an exception; needs no memory.
ftarResult_t LeaveByException(Code code, const char* text);

// Runs `body`, which returns a Status, as the C function named `call`.
template <typename Body>
ftarResult_t Call(const char* call, Where where, Body&& body) noexcept {
  const runtime::NoCancel whole;
  try {
    Status entered = Enter(where, call);
    if (!entered.ok()) return Leave(entered);
    return Leave(std::forward<Body>(body)());
  } catch (const std::bad_alloc&) {
    return LeaveByException(Code::kMemory, "out of memory");
  } catch (const std::exception& exception) {
    return LeaveByException(Code::kInternal, exception.what());
  } catch (...) {
    return LeaveByException(Code::kInternal, "an exception that is no std::exception");
  }
}

// The same for a call that makes something for its caller: null wherever the call fails.
template <typename Made, typename Body>
ftarResult_t CallFor(Made** out, const char* call, Where where, Body&& body) noexcept {
  if (out != nullptr) *out = nullptr;
  return Call(call, where, std::forward<Body>(body));
}

}  // namespace ftar::api

#endif  // FTAR_API_CALL_H_
