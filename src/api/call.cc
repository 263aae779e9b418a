#include "api/call.h"

#include <pthread.h>

#include <atomic>
#include <mutex>
#include <string>
#include <type_traits>

#include "api/handles.h"
#include "api/structs.h"
#include "api/translate.h"

namespace ftar::api {
namespace {

std::atomic<bool> g_job_exists{false};
std::atomic<bool> g_forked{false};

// The handle table's lock is taken around the fork, so that a child forked before any job can use
// its copy of the table.
void BeforeFork() { HandleTable::Get().LockForFork(); }
void AfterForkInParent() { HandleTable::Get().UnlockAfterFork(); }
void AfterForkInChild() {
  if (g_job_exists.load(std::memory_order_relaxed)) g_forked.store(true);
  HandleTable::Get().UnlockAfterFork();
}

// Plain memory: a thread's first use of anything that has a destructor asks for memory, and the C
// library ends the process where there is none.
thread_local ftarErrorInfo t_last_error = FTAR_ERROR_INFO_INIT;
thread_local ftarErrorInfo t_culprit = FTAR_ERROR_INFO_INIT;
thread_local bool t_has_culprit = false;
static_assert(std::is_trivially_destructible_v<ftarErrorInfo>);

}  // namespace

Status WatchForks() {
  static std::once_flag once;
  static int error = 0;
  std::call_once(once,
                 [] { error = pthread_atfork(BeforeFork, AfterForkInParent, AfterForkInChild); });
  return error == 0 ? Status::Ok() : Status::System("pthread_atfork", error);
}

void NoteJobExists() { g_job_exists.store(true); }

bool Forked() { return g_forked.load(std::memory_order_relaxed); }

void NoteCulprit(const runtime::Culprit& culprit) {
  FillErrorInfo(culprit, &t_culprit);
  t_has_culprit = true;
}

Status WithCulprit(const runtime::Job& job, Status status) {
  const Code code = status.code();
  if (!IsPeerError(code) && !IsEpochError(code) && !IsGroupError(code)) return status;
  // Who died earlier has nothing to do with what this call lacks.
  const runtime::Culprit who = job.last_culprit();
  if (who.code == code) NoteCulprit(who);
  return status;
}

void SetLastError(const Status& status) {
  ftarErrorInfo info = FTAR_ERROR_INFO_INIT;
  if (t_has_culprit) info = t_culprit;
  info.code = static_cast<ftarResult_t>(status.code());
  if (!status.argument().empty()) CopyText(status.argument(), info.argument);
  if (!status.text().empty()) CopyText(status.text(), info.text);
  t_last_error = info;
  // That of a call made in a callback is not that of the wait which runs the callback.
  t_has_culprit = false;
}

const ftarErrorInfo& LastError() { return t_last_error; }

Status Enter(Where where, const char* call) {
  t_has_culprit = false;
  if (Forked()) {
    return Status(Code::kForked, std::string(call) +
                                     " in a forked child of a process that had joined a job; join "
                                     "after the fork, or exec");
  }
  if (where == Where::kNotInCallback && runtime::Job::InCallback()) {
    return Status(Code::kState, std::string(call) + " must not be called in a callback");
  }
  return Status::Ok();
}

ftarResult_t Leave(const Status& status) {
  if (status.ok()) return FTAR_OK;
  if (status.code() != Code::kInProgress) SetLastError(status);
  return static_cast<ftarResult_t>(status.code());
}

ftarResult_t LeaveByException(Code code, const char* text) {
  t_last_error = FTAR_ERROR_INFO_INIT;
  t_last_error.code = static_cast<ftarResult_t>(code);
  for (size_t i = 0; i + 1 < sizeof(t_last_error.text) && text[i] != '\0'; ++i) {
    t_last_error.text[i] = text[i];
  }
  return t_last_error.code;
}

}  // namespace ftar::api
