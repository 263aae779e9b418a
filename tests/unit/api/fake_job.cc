#include "tests/unit/api/fake_job.h"

#include <cstdlib>
#include <new>
#include <stdexcept>

#include "runtime/log_sink.h"

namespace ftar::runtime {
namespace {

thread_local bool t_in_callback = false;
Config g_config;
void (*g_log_handler)(int32_t, const char*, void*) = nullptr;

}  // namespace

FakeWorld& World() {
  static FakeWorld world;
  return world;
}

void ResetWorld(int32_t members) {
  World() = FakeWorld();
  World().members = members;
  World().view->epoch = MakeEpoch(7, 1);
  for (int32_t i = 0; i < members; ++i) {
    wire::ViewEntry entry;
    entry.card.id = MemberId{1, static_cast<uint64_t>(i) + 1};
    entry.card.replica = i;
    entry.card.host = "host" + std::to_string(i);
    World().view->entries.push_back(entry);
  }
}

void AsCallback(const std::function<void()>& body) {
  t_in_callback = true;
  body();
  t_in_callback = false;
}

class Group {};
class Op {
 public:
  OpRequest request;
  bool aborted = false;
  bool done = false;
};

// What ends a wait and leaves the operation alive.
bool EndsEarly(Code code) {
  return code == Code::kTimeout || code == Code::kQuorum || code == Code::kCoordinator;
}

class Job::Impl {
 public:
  bool destroyed = false;
};

Job::Job() : impl_(std::make_unique<Impl>()) {}
Job::~Job() = default;

Expected<std::shared_ptr<Job>> Job::Create(const JobOptions& options,
                                           std::function<void(const JobEvent&)> on_event) {
  World().options = options;
  World().on_event = std::move(on_event);
  if (!World().create.ok()) return World().create;
  return std::shared_ptr<Job>(new Job);
}

Status Job::WaitReady(int64_t) { return World().wait_ready; }
Status Job::Leave(int64_t) {
  if (World().in_leave) AsCallback(World().in_leave);
  return World().leave;
}
Status Job::Abort(const std::string&, Code) { return Status::Ok(); }
Status Job::Report(Code cause, const std::string& text) {
  World().reported = cause;
  World().said = text;
  return Status::Ok();
}
Status Job::Evict(MemberId, const std::string& reason) {
  World().said = reason;
  return Status::Ok();
}
Status Job::Destroy() {
  impl_->destroyed = true;
  ++World().destroyed;
  return Status::Ok();
}
Status Job::NextEvent(JobEvent*, int64_t) { return Status(Code::kTimeout, "no event"); }
Expected<int> Job::EventFd() { return 3; }
const Config& Job::config() const { return g_config; }
Status Job::GetCounter(const std::string& name, uint64_t* value) const {
  if (name != "ops") return Status(Code::kArg, "name", "no counter " + name);
  *value = 42;
  return Status::Ok();
}
Status Job::Dump(const std::string&) const { return Status::Ok(); }
ViewPtr Job::view() const { return World().view; }
ViewPtr Job::group_view(const GroupPtr&) const { return World().view; }
MemberId Job::self() const { return MemberId{1, 1}; }
int32_t Job::shard() const { return 0; }
Culprit Job::last_culprit() const { return World().culprit; }
Culprit Job::CulpritOf(const OpPtr&, Code) const { return World().culprit; }
Expected<GroupPtr> Job::OpenGroup(const std::string&, int32_t, int32_t priority) {
  World().group_priority = priority;
  return std::make_shared<Group>();
}
Status Job::CloseGroup(const GroupPtr&) { return World().close_group; }
GroupInfo Job::group_info(const GroupPtr&, Epoch) const {
  GroupInfo info;
  info.self = self();
  info.rank = World().rank;
  info.members = World().members;
  info.epoch = World().view->epoch;
  return info;
}

Status Job::MayStart(const GroupPtr&) const { return World().start; }

Status Job::Start(const GroupPtr&, std::span<const OpPtr> ops) {
  if (World().throw_bad_alloc) throw std::bad_alloc();
  if (World().throw_other) throw std::runtime_error("broken");
  if (!World().start.ok()) return World().start;
  for (const OpPtr& op : ops) {
    if (World().ops_done && op->request.on_done) op->request.on_done(World().outcome);
    World().requests.push_back(op->request);
  }
  return Status::Ok();
}
bool Job::StartAgain(const Group&, const OpPtr& op, const OpBuffers& buffers) {
  if (World().throw_bad_alloc) throw std::bad_alloc();
  if (!World().again) return false;
  op->done = false;
  World().again_with.push_back(buffers);
  return true;
}
bool Job::WaitAgain(const OpPtr& op) {
  op->done = op->done || World().again;
  return World().again;
}
bool Job::MayUseGpu() const { return World().uses_gpu; }
OpPtr NewOp() { return std::make_shared<Op>(); }
OpRequest& RequestOf(const OpPtr& op) { return op->request; }

Status Job::Wait(const OpPtr& op, int64_t) {
  if (impl_->destroyed) {
    op->aborted = true;
    return Status(Code::kState, "destroyed");
  }
  op->done = !EndsEarly(World().wait.code());
  return World().wait;
}
Expected<collective::Outcome> Job::OutcomeOf(const GroupPtr&, Seq seq) const {
  if (seq > 0) return Status(Code::kArg, "seq", "not started yet");
  return World().outcome;
}
Status Job::StepBegin(const StepRequest& request, StepResult* result) {
  World().step = request;
  result->step = 5;
  result->joined = 1;
  result->source = 1;
  return Status::Ok();
}
Status Job::StepEnd(int64_t, StepResult*) { return Status::Ok(); }
Expected<void*> Job::MemAlloc(size_t bytes) {
  void* memory = std::calloc(1, bytes);
  if (memory == nullptr) return Status(Code::kMemory, "bytes", "no memory");
  return memory;
}
// A job without a GPU.
Expected<void*> Job::MemAllocDevice(size_t, int32_t) {
  return Status(Code::kDevice, "gpu", "no GPU here");
}
Expected<device::Gpu*> Job::Gpu(int32_t) { return Status(Code::kDevice, "gpu", "no GPU here"); }
device::Gpu* Job::GpuIfOpen() const { return nullptr; }
Expected<device::Gpu*> Job::GpuAt(const void*) { return Status(Code::kDevice, "no GPU here"); }
Expected<device::Gpu*> Job::GpuOfCall(device::StreamHandle, std::span<const void* const>) {
  return Status(Code::kDevice, "gpu", "no GPU here");
}
Status Job::MemFree(void* memory) {
  std::free(memory);
  return Status::Ok();
}
bool Job::InCallback() { return t_in_callback; }

const collective::Outcome* OutcomeOf(const OpPtr& op) {
  return op->done || World().ops_done ? &World().outcome : nullptr;
}

Status OpStatusOf(const OpPtr& op) {
  if (op->aborted) return Status(Code::kAborted, "the job was destroyed");
  if (!World().ops_done) return Status(Code::kInProgress, "");
  return World().outcome.status == Code::kOk ? Status::Ok()
                                             : Status(World().outcome.status, World().outcome.text);
}

void SetLogHandler(void (*handler)(int32_t, const char*, void*), void*) { g_log_handler = handler; }

}  // namespace ftar::runtime
