// The inside of Job. One lock covers the engine, its devices, the control connection and the op
// table; callbacks run without. Methods let go of it and have it again where they wait.
//
// Who drives the engine has the wheel (wheel.h). Other waiting threads sleep on `changed_` and take
// over when the driver leaves. Files: job_create.cc (configuration to a running job), job.cc (the
// face), job_drive.cc (pump, wait, progress thread), job_ops.cc (start, wait, deliver), job_fast.cc
// (small operations in one pass), job_streams.cc (operations on users' streams), job_events.cc
// (notices, callbacks), job_membership.cc (ready, leave, abort, destroy), step.cc, dump.cc.
#ifndef FTAR_RUNTIME_JOB_IMPL_H_
#define FTAR_RUNTIME_JOB_IMPL_H_

#include <poll.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/bounded_queue.h"
#include "base/config.h"
#include "base/log.h"
#include "coordinator/control_connection.h"
#include "coordinator/resolver.h"
#include "runtime/clock.h"
#include "runtime/culprits.h"
#include "runtime/engine_driver.h"
#include "runtime/events.h"
#include "runtime/fork_guard.h"
#include "runtime/gates.h"
#include "runtime/group_state.h"
#include "runtime/host.h"
#include "runtime/hosting.h"
#include "runtime/job.h"
#include "runtime/job_lock.h"
#include "runtime/memory.h"
#include "runtime/op.h"
#include "runtime/rendezvous.h"
#include "runtime/step_record.h"
#include "runtime/stream_calls.h"
#include "runtime/waiting.h"
#include "runtime/wheel.h"

namespace ftar::runtime {

void Pause();          // of a thread that spins
Status ForkedError();  // of any call in a forked child

class Job::Impl final : public DriverHost, public ForkAware {
 public:
  Impl() = default;
  ~Impl() override;

  // job_create.cc. Nobody else knows of the job yet.
  Status Open(const JobOptions& options,
              std::function<void(const JobEvent&)> on_event) FTAR_NO_THREAD_SAFETY_ANALYSIS;

  // The face, see job.h.
  Status WaitReady(int64_t timeout_ns) FTAR_EXCLUDES(mutex_);
  Status Leave(int64_t timeout_ns) FTAR_EXCLUDES(mutex_);
  Status Abort(const std::string& reason, Code cause) FTAR_EXCLUDES(mutex_);
  Status Report(Code cause, const std::string& text) FTAR_EXCLUDES(mutex_);
  Status Evict(MemberId member, const std::string& reason) FTAR_EXCLUDES(mutex_);
  Status Destroy() FTAR_EXCLUDES(mutex_);
  Status GetCounter(const std::string& name, uint64_t* value) FTAR_EXCLUDES(mutex_);
  std::string DumpJson() FTAR_EXCLUDES(mutex_);
  ViewPtr view() FTAR_EXCLUDES(mutex_);
  ViewPtr group_view(GroupKey key) FTAR_EXCLUDES(mutex_);
  Culprit last_culprit() FTAR_EXCLUDES(mutex_);
  Culprit CulpritOf(const Op& op, Code code) FTAR_EXCLUDES(mutex_);
  Expected<GroupPtr> OpenGroup(const std::string& name, int32_t window, int32_t priority)
      FTAR_EXCLUDES(mutex_);
  GroupInfo group_info(GroupKey key, Epoch epoch) FTAR_EXCLUDES(mutex_);
  Status MayStart(const GroupPtr& group) FTAR_EXCLUDES(mutex_);
  Status Start(const GroupPtr& group, std::span<const OpPtr> ops) FTAR_EXCLUDES(mutex_);
  Status Wait(const OpPtr& op, int64_t timeout_ns) FTAR_EXCLUDES(mutex_);
  bool StartAgain(const Group& group, const OpPtr& op, const OpBuffers& buffers)
      FTAR_EXCLUDES(mutex_);
  bool WaitAgain(const OpPtr& op) FTAR_EXCLUDES(mutex_);
  Expected<collective::Outcome> OutcomeOf(GroupKey group, Seq seq) FTAR_EXCLUDES(mutex_);
  Status StepBegin(const StepRequest& request, StepResult* result) FTAR_EXCLUDES(mutex_);
  Status StepEnd(int64_t step, StepResult* result) FTAR_EXCLUDES(mutex_);

  bool forked() const { return forked_.load(std::memory_order_relaxed); }
  MemberId self() const { return self_; }
  int32_t shard() const { return place_.shard; }
  const Config& config() const { return config_; }
  EventQueue& events() { return events_; }
  // job_streams.cc
  Expected<device::Gpu*> Gpu(int32_t device) FTAR_EXCLUDES(mutex_);
  device::Gpu* GpuIfOpen() const { return gpu_.load(std::memory_order_acquire); }
  Expected<device::Gpu*> GpuAt(const void* address) FTAR_EXCLUDES(mutex_);
  Expected<device::Gpu*> GpuOfCall(device::StreamHandle stream,
                                   std::span<const void* const> buffers) FTAR_EXCLUDES(mutex_);
  bool MayUseGpu() const {
    return gpu_.load(std::memory_order_relaxed) != nullptr ||
           process_uses_gpu_.load(std::memory_order_relaxed);
  }
  Expected<void*> MemAllocDevice(size_t bytes, int32_t device) FTAR_EXCLUDES(mutex_);
  UserMemory& memory() { return memory_; }

  // DriverHost
  Op* FindOp(GroupKey group, Seq seq) override FTAR_REQUIRES(mutex_);
  void SendToCoordinator(const wire::Message& message) override FTAR_REQUIRES(mutex_);
  void OnStarted(const engine::Started& started) override FTAR_REQUIRES(mutex_);
  void OnDelivered(GroupKey group, collective::Outcome&& outcome) override FTAR_REQUIRES(mutex_);
  void NoteFast(const collective::Outcome& outcome) override FTAR_REQUIRES(mutex_);
  void OnDeliveredFast(TimeNs now) override FTAR_REQUIRES(mutex_);
  void OnStep(const engine::StepBegun& step) override FTAR_REQUIRES(mutex_);
  void OnNotice(const engine::Notice& notice) override FTAR_REQUIRES(mutex_);
  void OnViewChanged() override FTAR_REQUIRES(mutex_);
  void OnPathLost(MemberId peer, const Status& why) override FTAR_REQUIRES(mutex_);
  void OnPeerExited(MemberId peer) override FTAR_REQUIRES(mutex_);

  // ForkAware
  void BeforeFork() override FTAR_ACQUIRE(mutex_);
  void AfterForkInParent() override FTAR_RELEASE(mutex_);
  void AfterForkInChild() override FTAR_RELEASE(mutex_);

 private:
  // Of a wait: whether it runs them, or its caller may hold a lock that they take.
  enum class Callbacks { kRun, kLeave };
  // What a graph calls again whenever it is launched.
  struct Captured {
    GroupPtr group;
    OpRequest request;
    device::Gate* gate = nullptr;
  };
  // By a thread that is to begin a step.
  struct StepAsked {
    bool pending = false;            // it waits
    std::optional<TimeNs> since_ns;  // since when its user asks for the next one
    std::optional<engine::StepBegun> answer;
  };
  // The last operation on the fast path (job_fast.cc).
  struct FastCall {
    // Is it still there? driver_->in_fast(). To be compared with an operation that is held, never
    // followed.
    const Op* op = nullptr;
    const Op* last = nullptr;          // the same, also when it has ended, until another is started
    GroupState* group = nullptr;       // its group's
    // Of mutex_.times(), when a call that was StartAgain's ended in it and left nothing to be done.
    uint64_t ended_at = 0;
    bool smooth = false;               // so did the last one that has ended
    const OpPtr* looked_at = nullptr;  // during LookFast
    TimeNs called_ns = 0;              // about now, when it was called or had moved much
    TimeNs moved_ns = 0;               // when something of it was done, if it is shared
    bool waits_at_once = false;        // the caller has, for the last one that was left to a guard
  };
  // What is said once.
  struct Said {
    // While it joins: when people are told next what it waits for.
    TimeNs next_ns = 0;
    bool welcomed = false;                     // the coordinator to this member
    bool waiting = false;                      // that it has one, and no view yet
    bool disordered = false, crowded = false;  // of streams
    bool no_ring = false;
  };
  struct Counts {
    uint64_t ops_again = 0, ops_delivered = 0, view_changes = 0, pumps = 0, sleeps = 0;
  };
  // A wait ends early for reasons of its own; `done` looks at the state under the lock.
  using Predicate = std::function<bool()>;

  // job_create.cc: without the lock, before anybody else knows of the job.
  Status Configure(const JobOptions& options) FTAR_NO_THREAD_SAFETY_ANALYSIS;
  Expected<std::vector<std::string>> AwaitAnswer(const HostPort& name, TimeNs end)
      FTAR_REQUIRES(mutex_);
  Expected<std::vector<std::string>> AwaitAWay() FTAR_EXCLUDES(mutex_);
  Expected<Devices> OpenDevices(std::vector<std::string> ways) FTAR_NO_THREAD_SAFETY_ANALYSIS;
  void OpenLane() FTAR_NO_THREAD_SAFETY_ANALYSIS;
  Status OpenControl(const Devices& devices) FTAR_NO_THREAD_SAFETY_ANALYSIS;
  engine::Config MakeEngineConfig(const Devices& devices) FTAR_NO_THREAD_SAFETY_ANALYSIS;
  void ArmTestHook() FTAR_NO_THREAD_SAFETY_ANALYSIS;

  // job_drive.cc
  // True: done, false: deadline.
  bool DriveUntil(const Predicate& done, TimeNs deadline, Callbacks callbacks = Callbacks::kRun)
      FTAR_REQUIRES(mutex_);
  void Drive(const Predicate& done, TimeNs deadline, Callbacks callbacks) FTAR_REQUIRES(mutex_);
  bool Pump(TimeNs now) FTAR_REQUIRES(mutex_);
  bool PumpControl(TimeNs now) FTAR_REQUIRES(mutex_);
  void HearCoordinator(TimeNs now, ControlConnection::Result& result) FTAR_REQUIRES(mutex_);
  void PumpHosting(TimeNs now) FTAR_REQUIRES(mutex_);
  void NoteSuccessors(TimeNs now) FTAR_REQUIRES(mutex_);
  // After events: run the engine, act on a changed phase.
  void Settle(TimeNs now) FTAR_REQUIRES(mutex_);
  void Sleep(TimeNs deadline, int wake_fd) FTAR_REQUIRES(mutex_);
  bool SleepWith(std::span<pollfd> fds, TimeNs due) FTAR_REQUIRES(mutex_);
  bool Owes() const FTAR_REQUIRES(mutex_);
  void TakeWheel() FTAR_REQUIRES(mutex_);
  void LeaveWheel() FTAR_REQUIRES(mutex_);
  void WakeIfNeeded() FTAR_REQUIRES(mutex_);
  void RunCallbacks() FTAR_REQUIRES(mutex_);
  void RunCallback(const std::function<void()>& call) FTAR_EXCLUDES(mutex_);
  void LeaveCallbacks() FTAR_REQUIRES(mutex_);
  void ProgressMain() FTAR_EXCLUDES(mutex_);
  void ProgressTurn() FTAR_REQUIRES(mutex_);

  // job_streams.cc
  void LookForGpu();
  std::string GpuLibrary() const;
  Status Heed(Status said) FTAR_EXCLUDES(mutex_);
  Status LookForGraphs(std::span<const OpPtr> ops) FTAR_REQUIRES(mutex_);
  Status PutGate(const Op& op, device::Gate* gate) FTAR_REQUIRES(mutex_);
  Status TakeGates(std::span<const OpPtr> ops) FTAR_REQUIRES(mutex_);
  Status EnterStream(const GroupPtr& group, const OpPtr& op) FTAR_REQUIRES(mutex_);
  Status EnterStreams(const GroupPtr& group, std::span<const OpPtr> ops) FTAR_REQUIRES(mutex_);
  void AwaitTurn(const GroupState& state) FTAR_REQUIRES(mutex_);
  void AwaitRoom(device::StreamHandle stream) FTAR_REQUIRES(mutex_);
  void NoteCaptured(const GroupPtr& group, const OpPtr& op) FTAR_REQUIRES(mutex_);
  Status StartOnStreams(const GroupPtr& group, std::span<const OpPtr> ops) FTAR_REQUIRES(mutex_);
  void LetGo(GroupState& state, std::span<const OpPtr> ops, Code why) FTAR_REQUIRES(mutex_);
  void Hold(TimeNs now, GroupState& state, const OpPtr& op) FTAR_REQUIRES(mutex_);
  bool StartHeld(TimeNs now, GroupState& state) FTAR_REQUIRES(mutex_);
  void TryStartHeld(TimeNs now, GroupState& state) FTAR_REQUIRES(mutex_);
  void CheckOrder(const GroupState& state, const OpPtr& op) FTAR_REQUIRES(mutex_);
  bool StreamsArrived() const FTAR_REQUIRES(mutex_);
  void CloseGate(const OpPtr& op) FTAR_REQUIRES(mutex_);
  void LetKernelGo(const OpPtr& op) FTAR_REQUIRES(mutex_);
  void CheckQueues() FTAR_REQUIRES(mutex_);
  void Replay(TimeNs now, const Captured& captured) FTAR_REQUIRES(mutex_);
  bool PumpStreams(TimeNs now) FTAR_REQUIRES(mutex_);
  void OpenGate(const OpPtr& op) FTAR_REQUIRES(mutex_);

  // job_fast.cc
  void LookUp(TimeNs now) FTAR_REQUIRES(mutex_);
  bool UnderGuard(TimeNs now) const FTAR_REQUIRES(mutex_);
  bool MayStartAgain(const Group& group, const OpPtr& op, bool like_last) FTAR_REQUIRES(mutex_);
  bool StartFast(TimeNs now, const OpPtr& op, Likeness likeness) FTAR_REQUIRES(mutex_);
  bool LaunchAgain(const Group& group, const OpPtr& op) FTAR_REQUIRES(mutex_);
  bool LeaveToGuard(const OpPtr& op) FTAR_REQUIRES(mutex_);
  void ListFast(const OpPtr& op) FTAR_REQUIRES(mutex_);
  bool LookFast(const OpPtr& op, TimeNs now) FTAR_REQUIRES(mutex_);
  void WaitFast(const OpPtr& op, bool patient) FTAR_REQUIRES(mutex_);

  // job_ops.cc
  void Enlist(std::span<const OpPtr> ops) FTAR_REQUIRES(mutex_);
  void Launch(TimeNs now, const OpPtr& op) FTAR_REQUIRES(mutex_);
  void LaunchAll(TimeNs now, std::span<const OpPtr> ops) FTAR_REQUIRES(mutex_);
  Status CheckStart(const GroupPtr& group) const FTAR_REQUIRES(mutex_);
  Status Prepare(TimeNs now, GroupState& state, GroupKey group, Op* op) FTAR_REQUIRES(mutex_);
  Status CheckUsable() const FTAR_REQUIRES(mutex_);  // forked, destroyed, out
  // No operation begins or ends any more: waits end.
  bool IsOver() const FTAR_REQUIRES(mutex_) { return destroyed_ || !ended_.ok(); }
  void RememberColumn() FTAR_REQUIRES(mutex_);
  const Layout* FindLayout(GroupState& state, GroupKey group, Epoch epoch) FTAR_REQUIRES(mutex_);
  Status CheckOverlap(std::span<const OpPtr> fresh) const FTAR_REQUIRES(mutex_);
  void SayIfNoRing() FTAR_REQUIRES(mutex_);
  bool NothingUnderWay() const FTAR_REQUIRES(mutex_);
  void NumberOps(GroupState& state, Seq end) FTAR_REQUIRES(mutex_);
  std::deque<OpPtr>::iterator PlaceOf(GroupKey group, GroupState& state, Seq seq)
      FTAR_REQUIRES(mutex_);
  void FinishOp(const OpPtr& op, collective::Outcome&& outcome) FTAR_REQUIRES(mutex_);
  void EndOp(const OpPtr& op) FTAR_REQUIRES(mutex_);
  void CleanUp(const OpPtr& op) FTAR_REQUIRES(mutex_);
  void EndWith(const OpPtr& op, const Status& why) FTAR_REQUIRES(mutex_);
  void FinishAll(const Status& status) FTAR_REQUIRES(mutex_);
  template <typename Verdict>
  Status UntilDecided(const Predicate& done, TimeNs deadline, const Verdict& undecided)
      FTAR_REQUIRES(mutex_);
  Status Undecided(const char* what, TimeNs since_ns, TimeNs span_ns, TimeNs begun_ns)
      FTAR_REQUIRES(mutex_);
  std::string NoCoordinator() const FTAR_REQUIRES(mutex_);
  Status WaitVerdict(const Op& op, TimeNs begun_ns) FTAR_REQUIRES(mutex_);

  // step.cc
  Status AwaitStep(const StepRequest& request) FTAR_REQUIRES(mutex_);
  void WithdrawStep() FTAR_REQUIRES(mutex_);

  // job_membership.cc
  void EndHere(Code cause, std::string_view why) FTAR_REQUIRES(mutex_);
  void OnPhaseEnded() FTAR_REQUIRES(mutex_);
  void AwaitHandOver() FTAR_REQUIRES(mutex_);
  TimeNs JoinLimit() const;
  void GiveUpJoining(TimeNs deadline, const Status& why) FTAR_REQUIRES(mutex_);
  Status JoinFailure(TimeNs now, TimeNs deadline) FTAR_REQUIRES(mutex_);
  Status RefusedByCoordinator() const FTAR_REQUIRES(mutex_);
  TimeNs SpeakAfter() const;
  void SayWhatItWaitsFor(TimeNs now) FTAR_REQUIRES(mutex_);
  void SayWhatIsOdd() FTAR_REQUIRES(mutex_);
  std::string AwaitedToJoin() const FTAR_REQUIRES(mutex_);

  // job_events.cc
  void Emit(JobEvent event) FTAR_REQUIRES(mutex_);
  void LateEvent(const wire::LateNotice& late, JobEvent* event) FTAR_REQUIRES(mutex_);

  // dump.cc
  std::vector<std::pair<const char*, uint64_t>> Counters() const FTAR_REQUIRES(mutex_);
  nlohmann::ordered_json GroupsJson(TimeNs now) const FTAR_REQUIRES(mutex_);

  // Constant after Open.
  Config config_;
  std::vector<std::string> environment_;
  Place place_;
  std::string token_;
  MemberId self_;
  std::string host_, host_key_;
  Logger log_;
  Cores cores_;
  std::function<void(const JobEvent&)> on_event_;
  TimeNs created_ns_ = 0;
  TimeNs timeout_ns_ = 10 * kSecond;

  JobMutex mutex_;
  JobCondition changed_;   // for waiting threads that do not drive
  JobCondition turn_;      // for those that wait to put something onto streams
  JobCondition progress_;  // for the progress thread while a user thread drives
  std::atomic<bool> forked_{false};
  std::mutex gpu_mutex_;                    // one opens the GPU; taken before mutex_
  std::atomic<device::Gpu*> gpu_{nullptr};  // the driver's, once it is open
  std::atomic<bool> process_uses_gpu_{false};

  // The engine and the ways to others.
  std::optional<HostLane> lane_ FTAR_GUARDED_BY(mutex_);  // none: all goes by frames
  std::unique_ptr<EngineDriver> driver_ FTAR_GUARDED_BY(mutex_);
  std::optional<ControlConnection> control_ FTAR_GUARDED_BY(mutex_);
  // Where any member may coordinate. Shared with who waits, without the lock, until it has handed
  // over.
  std::shared_ptr<Hosting> hosting_ FTAR_GUARDED_BY(mutex_);
  engine::Engine::SuccessorsOf successors_of_ FTAR_GUARDED_BY(mutex_);  // whom it knows
  ControlConnection::Result control_result_ FTAR_GUARDED_BY(mutex_);    // scratch
  TimeNs look_at_control_ns_ FTAR_GUARDED_BY(mutex_) = 0;
  coordinator::Resolver resolver_ FTAR_GUARDED_BY(mutex_);

  // Who drives, and who waits.
  Wheel wheel_ FTAR_GUARDED_BY(mutex_);
  Pace pace_ FTAR_GUARDED_BY(mutex_) = PaceOf(1, 1);
  int waiters_ FTAR_GUARDED_BY(mutex_) = 0;
  bool delivered_ FTAR_GUARDED_BY(mutex_) = false;  // since they were last told
  std::deque<std::function<void()>> callbacks_ FTAR_GUARDED_BY(mutex_);
  bool running_callbacks_ FTAR_GUARDED_BY(mutex_) = false;

  // Operations.
  std::map<GroupKey, GroupState> groups_ FTAR_GUARDED_BY(mutex_);
  Layouts columns_ FTAR_GUARDED_BY(mutex_);             // of the last views
  std::deque<OpPtr> starting_ FTAR_GUARDED_BY(mutex_);  // between StartOp and Started
  uint64_t next_handle_ FTAR_GUARDED_BY(mutex_) = 1;
  FastCall fast_ FTAR_GUARDED_BY(mutex_);
  StepAsked step_asked_ FTAR_GUARDED_BY(mutex_);
  StepRecord steps_ FTAR_GUARDED_BY(mutex_);

  // Streams.
  std::unique_ptr<GatePool> gates_ FTAR_GUARDED_BY(mutex_);
  std::vector<Captured> captured_ FTAR_GUARDED_BY(mutex_);
  StreamCalls stream_calls_ FTAR_GUARDED_BY(mutex_);
  ClosedGates closed_gates_ FTAR_GUARDED_BY(mutex_);
  // The resident one, as far as the last call has seen.
  bool kernel_comes_ FTAR_GUARDED_BY(mutex_) = true;

  // What people are told.
  ViewPtr view_ FTAR_GUARDED_BY(mutex_);
  Culprits culprits_ FTAR_GUARDED_BY(mutex_);
  Said said_ FTAR_GUARDED_BY(mutex_);
  // The flight recorder; fetching does not empty it.
  BoundedQueue<JobEvent> recent_events_ FTAR_GUARDED_BY(mutex_){256};
  Counts counts_ FTAR_GUARDED_BY(mutex_);

  // The end.
  std::optional<TimeNs> leave_asked_ns_ FTAR_GUARDED_BY(mutex_);  // since when it is to leave
  Status ended_ FTAR_GUARDED_BY(mutex_);                          // why this member is out
  Status join_failed_ FTAR_GUARDED_BY(mutex_);  // or never came in, though it waited
  // Made while there is some.
  Status no_memory_ FTAR_GUARDED_BY(mutex_){Code::kMemory, "no memory left"};
  bool closed_down_ FTAR_GUARDED_BY(mutex_) = false;  // links and operations have ended with it
  bool destroyed_ FTAR_GUARDED_BY(mutex_) = false;    // by its user
  bool stopping_ FTAR_GUARDED_BY(mutex_) = false;     // the progress thread is to end

  // These have rules of their own for threads.
  EventQueue events_;
  const std::shared_ptr<transport::ExportedMemory> exports_ =
      std::make_shared<transport::ExportedMemory>();
  const std::shared_ptr<transport::Priorities> priorities_ =
      std::make_shared<transport::Priorities>();
  UserMemory memory_{exports_};
  std::thread thread_;
};

// Marks the calling thread as being inside a callback.
class CallbackScope {
 public:
  CallbackScope();
  ~CallbackScope();
};

// For `done`, until the deadline, or until `undecided` says why nobody can decide. The caller looks
// whether it is a forked child's.
template <typename Verdict>
Status Job::Impl::UntilDecided(const Predicate& done, TimeNs deadline, const Verdict& undecided) {
  while (!done()) {
    if (DriveUntil(done, std::min(deadline, Now() + kLookNs)) || forked()) break;
    FTAR_RETURN_IF_ERROR(undecided());
    if (Now() >= deadline) break;
  }
  return Status::Ok();
}

}  // namespace ftar::runtime

#endif  // FTAR_RUNTIME_JOB_IMPL_H_
