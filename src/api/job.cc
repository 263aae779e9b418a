// ftarJob*: joining, leaving, events, counters.
#include "runtime/job.h"

#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "api/call.h"
#include "api/config_visit.h"
#include "api/job_config.h"
#include "api/objects.h"
#include "api/structs.h"
#include "api/translate.h"
#include "ftar/ftar.h"

using namespace ftar;  // NOLINT: the C functions below live outside every namespace
using api::Call;
using api::CallFor;
using api::Where;

namespace {

// Runs `body` on the runtime's job behind a handle.
template <typename Body>
ftarResult_t OnJob(const char* call, Where where, ftarJob_t job, Body&& body) {
  return Call(call, where, [&]() -> Status {
    const auto object = api::FindHandle(job);
    if (object == nullptr) return api::BadHandle(api::HandleKind::kJob, job);
    return body(*object->job);
  });
}

// What others hear of it is cut to an ftarErrorInfo's text, and the coordinator drops whoever sends
// more than the largest message.
std::string TextOf(const char* text) {
  char cut[sizeof ftarErrorInfo::text] = "";
  if (text != nullptr) api::CopyText(std::string(text, strnlen(text, sizeof cut)), cut);
  return cut;
}

Status CheckTimeout(int64_t timeout_ns) {
  if (timeout_ns >= -1) return Status::Ok();
  return Status(Code::kArg, "timeout_ns", "timeout_ns is below -1");
}

Status Join(const ftarJobConfig* in, ftarJob_t* job) {
  if (job == nullptr) return Status(Code::kArg, "job", "job is null");
  ftarJobConfig config = FTAR_JOB_CONFIG_INIT;
  if (in != nullptr) FTAR_RETURN_IF_ERROR(api::ReadStruct(in, "config", &config));
  runtime::JobOptions options;
  FTAR_RETURN_IF_ERROR(api::TranslateJobConfig(config, &options));
  FTAR_RETURN_IF_ERROR(api::WatchForks());

  std::function<void(const runtime::JobEvent&)> on_event;
  if (config.on_event != nullptr) {
    on_event = [fn = config.on_event, user = config.user](const runtime::JobEvent& event) {
      const ftarEvent translated = api::ToPublic(event);
      fn(&translated, user);
    };
  }
  // The handle comes first: once the job runs nothing here may fail for want of memory.
  auto object = std::make_shared<api::JobObject>();
  Expected<ftarJob_t> handle = api::AddHandle<ftarJob_t>(object);
  if (!handle.ok()) return handle.status();
  api::NoteJobExists();
  auto created = runtime::Job::Create(options, std::move(on_event));
  if (!created.ok()) {
    api::RemoveHandle(*handle);
    return created.status();
  }
  object->job = *created;
  Status ready = options.may_wait ? object->job->WaitReady(-1) : Status(Code::kInProgress, "");
  if (ready.ok() || !options.may_wait) {
    *job = *handle;
    return ready;
  }
  ready = api::WithCulprit(*object->job, ready);
  api::RemoveHandle(*handle);
  // The reason why joining failed is what the caller wants to hear, whatever tidying up says.
  static_cast<void>(object->job->Destroy());
  return ready;
}

}  // namespace

ftarResult_t ftarJobJoin(const ftarJobConfig* config, ftarJob_t* job) {
  return CallFor(job, "ftarJobJoin", Where::kNotInCallback, [&] { return Join(config, job); });
}

ftarResult_t ftarJobWaitReady(ftarJob_t job, int64_t timeout_ns) {
  return OnJob("ftarJobWaitReady", Where::kNotInCallback, job, [&](runtime::Job& run) {
    FTAR_RETURN_IF_ERROR(CheckTimeout(timeout_ns));
    return api::WithCulprit(run, run.WaitReady(timeout_ns));
  });
}

ftarResult_t ftarJobLeave(ftarJob_t job, int64_t timeout_ns) {
  return OnJob("ftarJobLeave", Where::kNotInCallback, job, [&](runtime::Job& run) {
    FTAR_RETURN_IF_ERROR(CheckTimeout(timeout_ns));
    return api::WithCulprit(run, run.Leave(timeout_ns));
  });
}

ftarResult_t ftarJobAbort(ftarJob_t job, const char* reason) {
  return OnJob("ftarJobAbort", Where::kAnywhere, job,
               [&](runtime::Job& run) { return run.Abort(TextOf(reason)); });
}

ftarResult_t ftarJobReport(ftarJob_t job, ftarResult_t cause, const char* text) {
  return OnJob("ftarJobReport", Where::kAnywhere, job, [&](runtime::Job& run) {
    if (cause < FTAR_ERR_ARG || std::strcmp(ftarResultString(cause), "unknown result") == 0) {
      return Status(Code::kArg, "cause", "cause is " + std::to_string(cause) + ", no error");
    }
    return run.Report(static_cast<Code>(cause), TextOf(text));
  });
}

ftarResult_t ftarJobEvict(ftarJob_t job, ftarId member, const char* reason) {
  return OnJob("ftarJobEvict", Where::kAnywhere, job, [&](runtime::Job& run) {
    const MemberId id = api::FromPublic(member);
    const runtime::ViewPtr view = run.view();
    if (view != nullptr && view->Find(id) == nullptr) {
      return Status(Code::kArg, "member", "no member " + ToFullString(id) + " is in the view");
    }
    return api::WithCulprit(run, run.Evict(id, TextOf(reason)));
  });
}

ftarResult_t ftarJobNextEvent(ftarJob_t job, ftarEvent* event, int64_t timeout_ns) {
  return OnJob("ftarJobNextEvent", Where::kNotInCallback, job, [&](runtime::Job& run) {
    FTAR_RETURN_IF_ERROR(CheckTimeout(timeout_ns));
    FTAR_RETURN_IF_ERROR(api::CheckOutput(event, "event"));
    runtime::JobEvent next;
    const Status status = run.NextEvent(&next, timeout_ns);
    if (status.ok()) api::WriteStruct(api::ToPublic(next), event);
    // Polling and finding nothing is no failure.
    if (status.code() == Code::kTimeout && timeout_ns == 0) return Status(Code::kInProgress, "");
    return status;
  });
}

ftarResult_t ftarJobEventFd(ftarJob_t job, int* fd) {
  return OnJob("ftarJobEventFd", Where::kAnywhere, job, [&](runtime::Job& run) {
    if (fd == nullptr) return Status(Code::kArg, "fd", "fd is null");
    *fd = -1;
    const Expected<int> made = run.EventFd();
    if (made.ok()) *fd = *made;
    return made.status();
  });
}

ftarResult_t ftarJobConfigEach(ftarJob_t job, ftarConfigVisitor visitor, void* user) {
  return OnJob("ftarJobConfigEach", Where::kAnywhere, job,
               [&](runtime::Job& run) { return api::VisitConfig(run.config(), visitor, user); });
}

ftarResult_t ftarJobGetCounter(ftarJob_t job, const char* name, uint64_t* value) {
  return OnJob("ftarJobGetCounter", Where::kAnywhere, job, [&](runtime::Job& run) {
    if (name == nullptr) return Status(Code::kArg, "name", "name is null");
    if (value == nullptr) return Status(Code::kArg, "value", "value is null");
    return run.GetCounter(name, value);
  });
}

ftarResult_t ftarJobDump(ftarJob_t job, const char* path) {
  return OnJob("ftarJobDump", Where::kAnywhere, job, [&](runtime::Job& run) {
    if (path == nullptr) return Status(Code::kArg, "path", "path is null");
    if (*path == '\0') return Status(Code::kArg, "path", "path is empty");
    return run.Dump(path);
  });
}

ftarResult_t ftarJobDestroy(ftarJob_t job) {
  return Call("ftarJobDestroy", Where::kNotInCallback, [&] {
    if (job == nullptr) return Status::Ok();
    const auto object = api::RemoveHandle(job);
    if (object == nullptr) return api::BadHandle(api::HandleKind::kJob, job);
    const Status status = object->job->Destroy();
    // Only now: a wait in another thread learns from the job itself how its operation ended.
    object->destroyed.store(true);
    return status;
  });
}
