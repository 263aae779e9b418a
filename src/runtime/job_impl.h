// The inside of Job. One lock covers the engine, its devices, the control connection and the op
// table; callbacks run without. Methods let go of it and have it again where they wait.
//
// Who drives: at most one thread pumps at a time. A user thread inside a wait takes the wheel from
// the progress thread, which then only looks every millisecond whether somebody still drives, so
// that a small blocking operation pays no hand-over and no failure notice waits longer than that.
// Other waiting threads sleep on `changed_` and take over when the driver leaves. Files:
// job_create.cc (configuration to a running job), job.cc (the face), job_drive.cc (pump, wait,
// progress thread), job_ops.cc (start, wait, deliver), job_fast.cc (small operations in one pass),
// job_events.cc (notices, callbacks), job_membership.cc (ready, leave, abort, destroy), step.cc,
// dump.cc.
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
#include "runtime/engine_driver.h"
#include "runtime/events.h"
#include "runtime/fork_guard.h"
#include "runtime/gates.h"
#include "runtime/host.h"
#include "runtime/hosting.h"
#include "runtime/job.h"
#include "runtime/job_lock.h"
#include "runtime/memory.h"
#include "runtime/op.h"
#include "runtime/outcome_history.h"
#include "runtime/rendezvous.h"
#include "runtime/waiting.h"

namespace ftar::runtime {

void Pause();          // of a thread that spins
Status ForkedError();  // of any call in a forked child

class Job::Impl final : public DriverHost, public ForkAware {
 public:
  Impl() = default;
  ~Impl() override;

  // job_create.cc
  Status Open(const JobOptions& options, std::function<void(const JobEvent&)> on_event);

  // The face, see job.h.
  Status WaitReady(int64_t timeout_ns);
  Status Leave(int64_t timeout_ns);
  Status Abort(const std::string& reason, Code cause);
  Status Report(Code cause, const std::string& text);
  Status Evict(MemberId member, const std::string& reason);
  Status Destroy();
  void EndHere(Code cause, std::string_view why);
  Status NextEvent(JobEvent* event, int64_t timeout_ns);
  Status GetCounter(const std::string& name, uint64_t* value);
  std::string DumpJson();
  ViewPtr view();
  ViewPtr group_view(GroupKey key);
  Culprit last_culprit();
  Culprit CulpritOf(const Op& op, Code code);
  Expected<GroupPtr> OpenGroup(const std::string& name, int32_t window, int32_t priority);
  GroupInfo group_info(GroupKey key, Epoch epoch);
  Status MayStart(const GroupPtr& group);
  Status Start(const GroupPtr& group, std::span<const OpPtr> ops);
  Status Wait(const OpPtr& op, int64_t timeout_ns);
  bool StartAgain(const Group& group, const OpPtr& op, const OpBuffers& buffers);
  bool WaitAgain(const OpPtr& op);
  Expected<collective::Outcome> OutcomeOf(GroupKey group, Seq seq);
  Status StepBegin(const StepRequest& request, StepResult* result);
  Status StepEnd(int64_t step, StepResult* result);

  bool forked() const { return forked_.load(std::memory_order_relaxed); }
  MemberId self() const { return self_; }
  int32_t shard() const { return place_.shard; }
  const Config& config() const { return config_; }
  EventQueue& events() { return events_; }
  // job_streams.cc
  Expected<device::Gpu*> Gpu(int32_t device);
  device::Gpu* GpuIfOpen() const { return gpu_.load(std::memory_order_acquire); }
  Expected<device::Gpu*> GpuAt(const void* address);
  Expected<device::Gpu*> GpuOfCall(device::StreamHandle stream,
                                   std::span<const void* const> buffers);
  bool MayUseGpu() const {
    return gpu_.load(std::memory_order_relaxed) != nullptr ||
           process_uses_gpu_.load(std::memory_order_relaxed);
  }
  Expected<void*> MemAllocDevice(size_t bytes, int32_t device);
  UserMemory& memory() { return memory_; }

  // DriverHost
  Op* FindOp(GroupKey group, Seq seq) override;
  void SendToCoordinator(const wire::Message& message) override;
  void OnStarted(const engine::Started& started) override;
  void OnDelivered(GroupKey group, collective::Outcome&& outcome) override;
  void NoteFast(const collective::Outcome& outcome) override;
  void OnDeliveredFast(TimeNs now) override;
  void OnStep(const engine::StepBegun& step) override;
  void OnNotice(const engine::Notice& notice) override;
  void OnViewChanged() override;
  void OnPathLost(MemberId peer, const Status& why) override;
  void OnPeerExited(MemberId peer) override;

  // ForkAware
  void BeforeFork() override;
  void AfterForkInParent() override;
  void AfterForkInChild() override;

 private:
  enum class Wheel { kNobody, kUser, kProgress };
  // Of a wait: whether it runs them, or its caller may hold a lock that they take.
  enum class Callbacks { kRun, kLeave };
  // A call that its stream has not reached yet, or that stands behind one in its group.
  struct Held {
    OpPtr op;
    bool ready = false;  // its stream is there, or it has none
  };
  // What a graph calls again whenever it is launched.
  struct Captured {
    GroupPtr group;
    OpRequest request;
    device::Gate* gate = nullptr;
  };
  // A group's members by rank.
  struct Layout {
    Epoch epoch = 0;
    std::vector<MemberId> members;
  };
  static Layout LayoutOf(const wire::View& view);
  struct GroupState {
    std::string name;
    std::deque<Held> held;
    std::deque<OpPtr> ops;         // called and not delivered, in order of seq
    std::deque<OpPtr> unnumbered;  // called before this member knew its first seq
    OutcomeHistory history;
    size_t entering = 0;  // calls that put something onto streams now
    // Of calls and steps, for segments and roots named by epoch. A whole view is thirty times as
    // large.
    std::map<Epoch, Layout> layouts;
    void Remember(Epoch epoch, const ViewPtr& view);  // the oldest make room
  };
  // A wait ends early for reasons of its own; `done` looks at the state under the lock.
  using Predicate = std::function<bool()>;

  // job_create.cc
  Status Configure(const JobOptions& options);
  Expected<std::vector<std::string>> AwaitAnswer(const HostPort& name, TimeNs end);
  Expected<std::vector<std::string>> AwaitAWay();
  Expected<Devices> OpenDevices(std::vector<std::string> ways);
  void OpenLane();
  Status OpenControl(const Devices& devices);
  engine::Config MakeEngineConfig(const Devices& devices);
  void ArmTestHook();

  // job_drive.cc
  // True: done, false: deadline.
  bool DriveUntil(const Predicate& done, TimeNs deadline, Callbacks callbacks = Callbacks::kRun);
  void Drive(const Predicate& done, TimeNs deadline, Callbacks callbacks);
  bool Pump(TimeNs now);
  bool PumpControl(TimeNs now);
  void HearCoordinator(TimeNs now, ControlConnection::Result& result);
  void PumpHosting(TimeNs now);
  void NoteSuccessors(TimeNs now);
  void Settle(TimeNs now);  // after events: run the engine, act on a changed phase
  void Sleep(TimeNs deadline, int wake_fd);
  bool SleepWith(std::span<pollfd> fds, TimeNs due);
  bool Owes() const;
  bool DriverSleeps() const;
  void TakeWheel(Wheel who);
  void LeaveWheel();
  void Wake();  // the sleeping driver, whoever it is
  void WakeIfNeeded();
  void RunCallbacks();
  void RunCallback(const std::function<void()>& call);
  void LeaveCallbacks();
  void ProgressMain();
  void ProgressTurn();

  // job_streams.cc
  void LookForGpu();
  std::string GpuLibrary() const;
  Status Heed(Status said);
  Status LookForGraphs(std::span<const OpPtr> ops);
  Status PutGate(const Op& op, device::Gate* gate);
  Status TakeGates(std::span<const OpPtr> ops);
  Status EnterStream(const GroupPtr& group, const OpPtr& op);
  Status EnterStreams(const GroupPtr& group, std::span<const OpPtr> ops);
  void AwaitTurn(const GroupState& state);
  void AwaitRoom(device::StreamHandle stream);
  void NoteCaptured(const GroupPtr& group, const OpPtr& op);
  Status StartOnStreams(const GroupPtr& group, std::span<const OpPtr> ops);
  void LetGo(GroupState& state, std::span<const OpPtr> ops, Code why);
  void Hold(TimeNs now, GroupState& state, const OpPtr& op);
  bool StartHeld(TimeNs now, GroupState& state);
  void TryStartHeld(TimeNs now, GroupState& state);
  void CheckOrder(const GroupState& state, const OpPtr& op);
  bool StreamsArrived() const;
  void CloseGate(const OpPtr& op);
  void LetKernelGo(const OpPtr& op);
  void CheckQueues();
  void Replay(TimeNs now, const Captured& captured);
  bool PumpStreams(TimeNs now);
  void OpenGate(const OpPtr& op);

  // job_fast.cc
  void LookUp(TimeNs now);
  bool UnderGuard(TimeNs now) const;
  bool StartFast(TimeNs now, const OpPtr& op, bool like_last);
  bool LeaveToGuard(const OpPtr& op);
  void ListFast(const OpPtr& op);
  bool LookFast(const OpPtr& op, TimeNs now);
  void WaitFast(const OpPtr& op, bool patient);

  // job_ops.cc
  void Enlist(std::span<const OpPtr> ops);
  void Launch(TimeNs now, const OpPtr& op);
  void LaunchAll(TimeNs now, std::span<const OpPtr> ops);
  Status CheckStart(const GroupPtr& group) const;
  Status Prepare(TimeNs now, GroupState& state, GroupKey group, Op* op);
  Status CheckUsable() const;  // forked, destroyed, out
  // No operation begins or ends any more: waits end.
  bool IsOver() const { return destroyed_ || !ended_.ok(); }
  void RememberColumn();
  const Layout* FindLayout(GroupState& state, GroupKey group, Epoch epoch);
  Status CheckOverlap(std::span<const OpPtr> fresh) const;
  void SayIfNoRing();
  bool NothingUnderWay() const;
  void NumberOps(GroupState& state, Seq end);
  std::deque<OpPtr>::iterator PlaceOf(GroupKey group, GroupState& state, Seq seq);
  void FinishOp(const OpPtr& op, collective::Outcome&& outcome);
  void EndOp(const OpPtr& op);
  void EndWith(const OpPtr& op, const Status& why);
  void FinishAll(const Status& status);
  template <typename Verdict>
  Status UntilDecided(const Predicate& done, TimeNs deadline, const Verdict& undecided);
  Status Undecided(const char* what, TimeNs since_ns, TimeNs span_ns, TimeNs begun_ns);
  std::string NoCoordinator() const;
  Status WaitVerdict(const Op& op, TimeNs begun_ns);
  struct Late {
    Seq seq = 0;
    std::vector<Culprit> who;  // of so many people are told
    bool more = false;
  };
  const Late* LateIn(const Op& op) const;
  static std::string LateText(const Late& late);

  // step.cc
  Status AwaitStep(const StepRequest& request);
  void WithdrawStep();
  void SumUpStep();

  // job_membership.cc
  void OnPhaseEnded();
  void AwaitHandOver();
  TimeNs JoinLimit() const;
  void GiveUpJoining(TimeNs deadline, const Status& why);
  Status JoinFailure(TimeNs now, TimeNs deadline);
  Status RefusedByCoordinator() const;
  TimeNs SpeakAfter() const;
  void SayWhatItWaitsFor(TimeNs now);
  void SayWhatIsOdd();
  std::string AwaitedToJoin() const;

  // job_events.cc
  void Emit(JobEvent event);
  void LateEvent(const wire::LateNotice& late, JobEvent* event);
  void SayLate(GroupKey group, const Culprit& who);
  Culprit CulpritOf(const wire::Loss& loss, Epoch epoch) const;
  const wire::ViewEntry* EntryOf(MemberId id, int32_t* rank) const;

  // dump.cc
  std::vector<std::pair<const char*, uint64_t>> Counters() const;
  nlohmann::ordered_json GroupsJson(TimeNs now) const;

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

  // Under mutex_.
  std::optional<HostLane> lane_;  // none: all goes by frames
  std::unique_ptr<EngineDriver> driver_;
  std::optional<ControlConnection> control_;
  // Where any member may coordinate. Shared with who waits, without the lock, until it has handed
  // over.
  std::shared_ptr<Hosting> hosting_;
  engine::Engine::SuccessorsOf successors_of_;  // whom it knows
  ControlConnection::Result control_result_;  // scratch
  TimeNs look_at_control_ns_ = 0;
  coordinator::Resolver resolver_;
  // While it joins: when people are told next what it waits for.
  TimeNs speak_ns_ = 0;
  bool waiting_said_ = false, welcomed_ = false;
  Wheel wheel_ = Wheel::kNobody;
  bool stopping_ = false, destroyed_ = false, closed_down_ = false;
  bool user_sleeping_ = false, progress_waits_ = false;
  // How often users' threads have had the wheel: now, and when the progress thread looked last.
  uint64_t drives_ = 0, seen_drive_ = 0;
  // The progress thread sleeps, and whatever comes wakes it. It takes that back without the lock,
  // as soon as it is up: then it looks at everything, whoever has the lock meanwhile.
  std::atomic<bool> guards_{false};
  bool delivered_ = false;  // since waiting threads were last told
  TimeNs last_user_drive_ns_ = 0;
  TimeNs sleep_until_ = kNever;
  int waiters_ = 0;
  Pace pace_ = PaceOf(1, 1);
  int user_wake_fd_ = -1, progress_wake_fd_ = -1;
  std::map<GroupKey, GroupState> groups_;
  std::deque<OpPtr> starting_;  // between StartOp and Started
  // The last one on the fast path; is it still? driver_->in_fast(). To be compared with an
  // operation that is held, never followed.
  const Op* fast_ = nullptr;
  const Op* last_fast_ = nullptr;     // the same, also when it has ended, until another is started
  GroupState* fast_state_ = nullptr;  // its group's
  const OpPtr* looked_at_ = nullptr;  // during LookFast
  TimeNs fast_ns_ = 0;                // about now, when it was called or had moved much
  TimeNs fast_moved_ns_ = 0;          // when something of it was done, if it is shared
  bool waits_at_once_ = false;        // the caller has, for the last one that was left to a guard
  uint64_t next_handle_ = 1;
  std::deque<std::function<void()>> callbacks_;
  bool running_callbacks_ = false;
  ViewPtr view_, previous_view_;
  std::map<Epoch, Layout> columns_;  // of the last views
  Culprit last_culprit_;
  std::map<GroupKey, Late> late_;  // in the group's last operation that people were told of
  Status ended_;                   // why this member is out
  Status join_failed_;             // or never came in, though it waited
  Status no_memory_{Code::kMemory, "no memory left"};  // made while there is some
  std::optional<TimeNs> leave_asked_ns_;  // since when this member is to leave

  // Streams.
  std::unique_ptr<GatePool> gates_;
  std::vector<Captured> captured_;
  size_t held_ = 0;      // in all groups
  size_t entering_ = 0;  // calls that put something onto streams now
  std::map<device::StreamHandle, size_t> closed_gates_;  // none: 0
  bool kernel_comes_ = true;  // the resident one, as far as the last call has seen
  bool disordered_ = false;   // said
  bool crowded_ = false;      // said
  bool no_ring_ = false;      // said
  TimeNs streams_ns_ = 0;  // when a stream last arrived
  TimeNs look_at_streams_ns_ = kNever;
  std::mutex gpu_mutex_;                    // one opens the GPU; taken before mutex_
  std::atomic<device::Gpu*> gpu_{nullptr};  // the driver's, once it is open
  std::atomic<bool> process_uses_gpu_{false};

  // Steps.
  bool step_pending_ = false;
  std::optional<TimeNs> step_asked_ns_;  // since when its user asks for the next one
  std::optional<engine::StepBegun> step_answer_;
  uint64_t step_number_ = 0;  // StepBegin calls so far; marks ops
  double step_weight_ = 1;
  StepResult current_step_;
  StepResult step_sum_;         // of those of its operations that ended well and are not in
  std::deque<OpPtr> step_ops_;  // these

  uint64_t ops_again_ = 0, ops_delivered_ = 0, view_changes_ = 0, pumps_ = 0, sleeps_ = 0;

  EventQueue events_;
  BoundedQueue<JobEvent> recent_events_{256};  // the flight recorder; fetching does not empty it
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
