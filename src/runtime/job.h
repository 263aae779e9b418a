// A job as the C ABI sees it: thread-safe, every wait bounded, no exception leaves. api/ validates
// and translates; this class acts. Behind it: one engine (pure), its devices, the control
// connection and the progress thread, under one lock.
//
// Threads: any call from any thread. Callbacks run on the progress thread, or on a thread that is
// inside Wait, without the lock. Who waits, drives (design 7): a thread in Wait pumps the engine
// itself; the progress thread takes over while nobody waits.
#ifndef FTAR_RUNTIME_JOB_H_
#define FTAR_RUNTIME_JOB_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/config.h"
#include "base/ids.h"
#include "base/status.h"
#include "collective/types.h"
#include "device/gpu.h"
#include "wire/messages.h"
#include "wire/view.h"

namespace ftar::runtime {

struct JobOptions {
  int32_t replica = -1, shard = -1, replicas = -1, shards = -1,
          min_replicas = -1;                               // -1: from the launcher's variables
  std::string name, coordinator, host, rack;               // empty: from the environment
  std::vector<std::pair<std::string, std::string>> knobs;  // ftarConfigSet, in order
  int64_t timeout_ns = 0;                                  // the knob `timeout` and nothing else
  bool may_wait = false;                                   // for a name to be known, and a view
};

// Everything an ftarErrorInfo or ftarEvent says about somebody.
struct Culprit {
  Code code = Code::kOk;
  MemberId member;
  int32_t rank = -1, replica = -1, shard = -1;
  Epoch epoch = 0;
  Seq seq = kNoSeq;
  int64_t last_progress_ns = 0;
  std::string host, stage, argument, text;
};

enum class EventType : int32_t {  // values equal FTAR_EVENT_*
  kView = 0,
  kMemberJoined,
  kMemberLeft,
  kMemberLost,
  kLate,
  kSlow,
  kLinkDown,
  kLinkUp,
  kCorrupt,
  kCoordinatorDown,
  kCoordinatorUp,
  kEvicted,
  kDrain,
  kLevel,
};
struct JobEvent {
  EventType type = EventType::kView;
  Code cause = Code::kOk;
  Epoch epoch = 0;
  Seq seq = kNoSeq;
  int64_t time_ns = 0;  // CLOCK_MONOTONIC, when it was decided here
  Culprit who;
};

struct OpRequest {
  collective::OpSpec spec;
  int32_t root_rank = 0;  // broadcast: rank in the group's view at `layout_epoch`, or now
  Epoch layout_epoch = 0;
  const void* send = nullptr;
  void* recv = nullptr;
  double weight = 0;       // NaN: the member's (the step's, else 1)
  int64_t timeout_ns = 0;  // 0: none
  std::function<void(const collective::Outcome&)> on_done;
  bool on_device = false;  // both buffers are the GPU's
  // On a user's stream: begins when the stream gets there, and the stream goes on when it is
  // delivered. `device_outcome` is written in the stream's order.
  bool on_stream = false;
  void* stream = nullptr;
  void* device_outcome = nullptr;
};

// Of an all-reduce or barrier (then both null); `tag` is the caller's.
struct OpBuffers {
  const void* send = nullptr;
  void* recv = nullptr;
  uint64_t tag = 0;
};

class Op;  // one started operation; shared by the caller's handle and the job
class Group;
using OpPtr = std::shared_ptr<Op>;
using GroupPtr = std::shared_ptr<Group>;
using ViewPtr = std::shared_ptr<const wire::View>;

struct GroupInfo {
  MemberId self;
  int32_t rank = -1, shard = 0, members = 0;
  Seq first_seq = 0, next_seq = 0;
  Epoch epoch = 0;
};

struct StepRequest {
  int64_t step = -1;
  double weight = 1;  // NaN: 1
  bool strict = false;
};
struct StepResult {
  int64_t step = 0;
  Epoch epoch = 0;
  int32_t participants = 0, joined = 0, left = 0, source = -1, rank = -1;
  double weight_sum = 0;
  OpPtr failed = nullptr;  // the operation whose status ended the step
};

class Job : public std::enable_shared_from_this<Job> {
 public:
  // Reads configuration and environment, opens devices, starts the progress thread and the way to
  // the coordinator. `on_event` may be null. Errors name the knob, variable or argument.
  static Expected<std::shared_ptr<Job>> Create(const JobOptions& options,
                                               std::function<void(const JobEvent&)> on_event);
  ~Job();

  Status WaitReady(
      int64_t timeout_ns);  // kTimeout, kAuth, kConfig, kPeer (place held), kCoordinator, ...
  Status Leave(int64_t timeout_ns);
  Status Abort(const std::string& reason, Code cause = Code::kAborted);
  Status Report(Code cause, const std::string& text);
  Status Evict(MemberId member, const std::string& reason);
  Status Destroy();  // aborts what runs; afterwards every call returns kState; idempotent

  Status NextEvent(JobEvent* event, int64_t timeout_ns);
  Expected<int> EventFd();
  const Config& config() const;  // effective values with origins
  Status GetCounter(const std::string& name, uint64_t* value) const;
  Status Dump(const std::string& path) const;

  ViewPtr view() const;  // whole job; null before ready
  // Of the group's next call: a leaver is in it until its last operation, a newcomer from its first
  // one on. What a call that names its epoch refers to.
  ViewPtr group_view(const GroupPtr& group) const;
  MemberId self() const;
  int32_t shard() const;
  Culprit last_culprit() const;  // who died or why we are out, for error info
  // Where an operation has ended with `code`, or a wait for it has, and whose fault that was, as
  // far as it is known here.
  Culprit CulpritOf(const OpPtr& op, Code code) const;

  Expected<GroupPtr> OpenGroup(const std::string& name, int32_t window, int32_t priority);
  Status CloseGroup(const GroupPtr& group);
  // `epoch`: members and rank in that view, as far as it is still known; 0: in the newest.
  GroupInfo group_info(const GroupPtr& group, Epoch epoch = 0) const;

  // Why this member starts nothing (in the group): it is out, leaves, or is not in yet.
  Status MayStart(const GroupPtr& group) const;
  // All or none; of NewOp's, each once. Buffers belong to the library until Wait returns a final
  // status.
  Status Start(const GroupPtr& group, std::span<const OpPtr> ops);
  // Start, for an operation of this group that has ended and that nobody looks at any more: it is
  // called as it was but for its buffers, which are as long and have been checked. False: nothing
  // has happened, start another one. It reaches no cancellation point. Not in a callback.
  bool StartAgain(const Group& group, const OpPtr& op, const OpBuffers& buffers);
  // Wait, as long as it takes no more than to look. False: it has not ended. It reaches no
  // cancellation point. Not in a callback.
  bool WaitAgain(const OpPtr& op);
  // kOk and agreed verdicts: final. kInProgress (timeout 0), kTimeout, kQuorum, kCoordinator: the
  // op lives on.
  Status Wait(const OpPtr& op, int64_t timeout_ns);
  Expected<collective::Outcome> OutcomeOf(const GroupPtr& group, Seq seq) const;  // the last 1,024

  Status StepBegin(const StepRequest& request, StepResult* result);
  Status StepEnd(int64_t step, StepResult* result);

  Expected<void*> MemAlloc(
      size_t bytes);  // 64-byte aligned at least; shared-memory backed where possible
  // Of the job's GPU; -1: whichever that is.
  Expected<void*> MemAllocDevice(size_t bytes, int32_t device);
  Status MemFree(void* memory);

  // The job's GPU, opened by the first call that needs it, which takes seconds. kArg if `device` is
  // another one, kDevice if none works. -1: the job's, or this thread's current one. Valid as long
  // as the job.
  Expected<device::Gpu*> Gpu(int32_t device);
  // The one that is open; null: none is yet.
  device::Gpu* GpuIfOpen() const;
  // The GPU whose memory is at an address that the host cannot read, opened if none is open. Null:
  // no GPU's. An error: nobody can say, or it does not open now.
  Expected<device::Gpu*> GpuAt(const void* address);
  // For a call on a stream that names no GPU: where its buffers lie says which, else the stream.
  Expected<device::Gpu*> GpuOfCall(device::StreamHandle stream,
                                   std::span<const void* const> buffers);
  // Whether an address may be a GPU's; opens nothing.
  bool MayUseGpu() const;

  // True on the thread that is inside one of this job's callbacks now.
  static bool InCallback();

 private:
  Job();
  class Impl;
  std::unique_ptr<Impl> impl_;
};

// An operation to be started, and what is asked of it: the caller's to fill in until Start.
OpPtr NewOp();
OpRequest& RequestOf(const OpPtr& op);

// Without waiting: kInProgress, and null, while it runs. The outcome lives as long as the op.
Status OpStatusOf(const OpPtr& op);
const collective::Outcome* OutcomeOf(const OpPtr& op);

}  // namespace ftar::runtime

#endif  // FTAR_RUNTIME_JOB_H_
