#include "runtime/job.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <string_view>

#include "base/signals_os.h"
#include "runtime/job_impl.h"

namespace ftar::runtime {
namespace {

Status CannotWrite(const std::string& path, int error) {
  return Status(Code::kSystem, "path", Status::System("cannot write " + path, error).text());
}

// Whoever reads a pipe has this long to make room for more.
constexpr int kRoomMs = 1000;

// 0, or why it cannot all be written.
int WriteAll(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t done = write(fd, text.data(), text.size());
    if (done >= 0) {
      text.remove_prefix(static_cast<size_t>(done));
    } else if (errno == EAGAIN) {
      pollfd room{fd, POLLOUT, 0};
      if (poll(&room, 1, kRoomMs) == 0) return ETIMEDOUT;
    } else if (errno != EINTR) {
      return errno;
    }
  }
  return 0;
}

// A pipe without a reader is an error instead of a wait for one.
Status WriteDump(const std::string& path, const std::string& text) {
  // A pipe may be broken, a file too large: both are errors here, and no end of the process.
  const SignalWithheld broken(SIGPIPE), too_large(SIGXFSZ);
  constexpr int kFlags = O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
  const int fd = open(path.c_str(), kFlags, 0644);
  if (fd < 0) return CannotWrite(path, errno);
  int error = WriteAll(fd, text);
  if (close(fd) != 0 && error == 0) error = errno;
  return error == 0 ? Status::Ok() : CannotWrite(path, error);
}

}  // namespace

Job::Job() : impl_(std::make_unique<Impl>()) {}

Job::~Job() {
  // In a forked child the progress thread is not there to be joined; what the parent's copy holds
  // is left alone.
  if (impl_ && impl_->forked()) static_cast<void>(impl_.release());
}

Status ForkedError() { return Status(Code::kForked, "this job belongs to the parent process"); }

Expected<std::shared_ptr<Job>> Job::Create(const JobOptions& options,
                                           std::function<void(const JobEvent&)> on_event) {
  std::shared_ptr<Job> job(new Job);
  FTAR_RETURN_IF_ERROR(job->impl_->Open(options, std::move(on_event)));
  return job;
}

Status Job::WaitReady(int64_t timeout_ns) { return impl_->WaitReady(timeout_ns); }
Status Job::Leave(int64_t timeout_ns) { return impl_->Leave(timeout_ns); }
Status Job::Abort(const std::string& reason, Code cause) {
  return impl_->forked() ? ForkedError() : impl_->Abort(reason, cause);
}
Status Job::Report(Code cause, const std::string& text) {
  return impl_->forked() ? ForkedError() : impl_->Report(cause, text);
}
Status Job::Evict(MemberId member, const std::string& reason) {
  return impl_->forked() ? ForkedError() : impl_->Evict(member, reason);
}
Status Job::Destroy() { return impl_->Destroy(); }

Status Job::NextEvent(JobEvent* event, int64_t timeout_ns) {
  if (impl_->forked()) return ForkedError();
  std::optional<JobEvent> next = impl_->events().Wait(timeout_ns);
  if (!next && impl_->events().closed())
    return Status(Code::kState, "job", "the job is destroyed");
  if (!next) return Status(timeout_ns == 0 ? Code::kInProgress : Code::kTimeout, "no event");
  *event = std::move(*next);
  return Status::Ok();
}

Expected<int> Job::EventFd() {
  if (impl_->forked()) return ForkedError();
  return impl_->events().Descriptor();
}

const Config& Job::config() const { return impl_->config(); }
Status Job::GetCounter(const std::string& name, uint64_t* value) const {
  return impl_->GetCounter(name, value);
}

Status Job::Dump(const std::string& path) const {
  if (impl_->forked()) return ForkedError();
  return WriteDump(path, impl_->DumpJson());
}

ViewPtr Job::view() const { return impl_->view(); }
ViewPtr Job::group_view(const GroupPtr& group) const { return impl_->group_view(group->key); }
MemberId Job::self() const { return impl_->self(); }
int32_t Job::shard() const { return impl_->shard(); }
Culprit Job::last_culprit() const { return impl_->last_culprit(); }
Culprit Job::CulpritOf(const OpPtr& op, Code code) const { return impl_->CulpritOf(*op, code); }

Expected<GroupPtr> Job::OpenGroup(const std::string& name, int32_t window, int32_t priority) {
  if (impl_->forked()) return ForkedError();
  return impl_->OpenGroup(name, window, priority);
}

Status Job::CloseGroup(const GroupPtr& group) {
  group->closed = true;
  return Status::Ok();
}

GroupInfo Job::group_info(const GroupPtr& group, Epoch epoch) const {
  return impl_->group_info(group->key, epoch);
}

Status Job::MayStart(const GroupPtr& group) const { return impl_->MayStart(group); }

Status Job::Start(const GroupPtr& group, std::span<const OpPtr> ops) {
  if (impl_->forked()) return ForkedError();
  if (InCallback()) return Status(Code::kState, "a callback must not start operations");
  return impl_->Start(group, ops);
}

bool Job::StartAgain(const Group& group, const OpPtr& op, const OpBuffers& buffers) {
  return !impl_->forked() && impl_->StartAgain(group, op, buffers);
}

bool Job::WaitAgain(const OpPtr& op) { return !impl_->forked() && impl_->WaitAgain(op); }

Status Job::Wait(const OpPtr& op, int64_t timeout_ns) { return impl_->Wait(op, timeout_ns); }

Expected<collective::Outcome> Job::OutcomeOf(const GroupPtr& group, Seq seq) const {
  return impl_->OutcomeOf(group->key, seq);
}

Status Job::StepBegin(const StepRequest& request, StepResult* result) {
  return impl_->StepBegin(request, result);
}
Status Job::StepEnd(int64_t step, StepResult* result) { return impl_->StepEnd(step, result); }

Expected<void*> Job::MemAlloc(size_t bytes) {
  if (impl_->forked()) return ForkedError();
  return impl_->memory().Allocate(bytes);
}

Expected<void*> Job::MemAllocDevice(size_t bytes, int32_t device) {
  if (impl_->forked()) return ForkedError();
  return impl_->MemAllocDevice(bytes, device);
}

Status Job::MemFree(void* memory) {
  if (impl_->forked()) return ForkedError();
  return impl_->memory().Free(memory);
}

Expected<device::Gpu*> Job::Gpu(int32_t device) {
  if (impl_->forked()) return ForkedError();
  return impl_->Gpu(device);
}

bool Job::MayUseGpu() const { return impl_->MayUseGpu(); }
device::Gpu* Job::GpuIfOpen() const { return impl_->forked() ? nullptr : impl_->GpuIfOpen(); }

Expected<device::Gpu*> Job::GpuAt(const void* address) {
  if (impl_->forked()) return ForkedError();
  return impl_->GpuAt(address);
}

Expected<device::Gpu*> Job::GpuOfCall(device::StreamHandle stream,
                                      std::span<const void* const> buffers) {
  if (impl_->forked()) return ForkedError();
  return impl_->GpuOfCall(stream, buffers);
}

}  // namespace ftar::runtime
