// One group of one member: its operations from call to delivery, as a pure machine.
//
// An operation is called (gets its attempt's members and its place in their plans), moves chunks,
// becomes complete (all chunks it needs are final here), stable (rule V1: all members of the
// attempt are known to be complete) and is delivered, in seq order. A view change freezes it (V2),
// reports it (Freeze), and restarts it with a verdict (InstallEra).
//
// Who calls what: engine/ owns one machine a group, feeds frames, works and views, and drains
// TakeTodo(). Data of an era goes to a peer only after OnCredit for it (F2). Single-threaded, no
// memory of the user's: buffers are named (types.h). Files: op_state.h (what is kept of an
// operation), peers.h (and of a peer), planned_change.h (what one asks of the group), group_call.cc
// (calls, window), group_attempt.cc (plans, sends), group_flow.cc (frames, works), group_lane.cc
// (one pass through shared memory, F4), group_fast.cc (the same for a call that waits for nothing
// else, fast_op.h), group_share.cc (longer ones, shared, shares.h), group_change.cc (freeze,
// verdicts), group_deliver.cc (acks, stability, delivery).
#ifndef FTAR_COLLECTIVE_GROUP_MACHINE_H_
#define FTAR_COLLECTIVE_GROUP_MACHINE_H_

#include <array>
#include <deque>
#include <map>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "collective/fast_op.h"
#include "collective/op_state.h"
#include "collective/peers.h"
#include "collective/planned_change.h"
#include "collective/surroundings.h"
#include "collective/types.h"
#include "plan/ground.h"
#include "plan/role.h"
#include "wire/messages.h"

namespace ftar::collective {

// Where an operation stands, for hints to people, the flight recorder and the test hook.
enum class Stage : uint8_t { kQueued, kSending, kReducing, kGathering, kStability, kDelivered };
const char* StageName(Stage stage);

class GroupMachine {
 public:
  explicit GroupMachine(GroupConfig config);
  ~GroupMachine();
  GroupMachine(const GroupMachine&) = delete;
  GroupMachine& operator=(const GroupMachine&) = delete;

  // ---- the caller
  // Peers may have mentioned the group before. window 0: the job's; what the first one says holds.
  void Open(Seq window);
  // Takes a number and queues; runs when the window and the view allow (J3). kNoSeq while this
  // member does not know its first seq yet (it enters at a step whose seqs the root has not told).
  Seq Call(TimeNs now, const OpSpec& spec, uint64_t step);
  bool knows_first() const { return first_known_; }

  // ---- views
  // A view without freeze: the first one of a newcomer, or a planned one. Idempotent.
  void SetPlannedView(TimeNs now, ViewPtr view, ViewPtr base);
  void LearnView(ViewPtr view) { old_views_[view->epoch] = std::move(view); }  // of this era
  ViewPtr ViewFor(Seq seq, uint64_t step) const;
  wire::GroupStatus Freeze(TimeNs now);  // rule V2
  void InstallEra(TimeNs now, ViewPtr view, const wire::GroupVerdicts* verdicts,
                  std::span<const ViewPtr> attempt_views);
  // Newcomer by step: the root has begun `step` at `start`.
  void LearnFirstAt(TimeNs now, Seq start);
  void ForgetFirst();  // that word is void; if nothing is called yet
  std::vector<ViewPtr> AttemptViews() const;  // for ColumnStatus.views
  // Root of a planned change: publish no completion beyond what lets anyone start `boundary` (J3);
  // kNoSeq lifts it.
  Seq ReserveBoundary() const;
  void HoldAcksFor(Seq boundary);
  // Whether nobody can have begun what lies behind it, also where nothing is held back for it.
  bool KeepsBoundary(const wire::Bound& boundary) const {
    return boundary.kind != wire::Bound::Kind::kSeq || hold_.has_boundary() ||
           boundary.SeqIn(config_.key) >= called_end_ + window_;
  }
  void LiftHold(TimeNs now);
  // J5: nothing without one of these is begun before it is known to know of its end.
  void AwaitEnds(std::vector<MemberId> leavers) { departing_.AwaitEnds(std::move(leavers)); }
  // It knows of its end, and has called what lies before `called`.
  void HearEnd(TimeNs now, MemberId leaver, Seq called);
  // Leaver: from now on stand in for the caller (J5).
  void StandIn() { standing_in_ = true; }
  void SkipTo(TimeNs now, Seq seq);  // what lies before is called by nobody any more
  void OnCallNotice(TimeNs now, const wire::CallNotice& notice);
  // Root: tell these members of every call that runs or will run (J5).
  void NotifyCallsTo(std::vector<MemberId> leavers);
  std::vector<wire::CallNotice> TakeCallNotices() { return departing_.TakeNotices(); }

  // ---- peers
  void OnFrame(TimeNs now, InboundFrame frame);
  std::optional<BufferRef> LandingOf(MemberId from, const wire::FrameHeader& header) const;
  void OnCredit(TimeNs now, MemberId from, std::span<const wire::KeptOp> kept);
  std::vector<wire::KeptOp> KeptFrom(MemberId peer) const;  // rule F5
  void OnWant(TimeNs now, MemberId from, const wire::Want& want);
  void OnWorkDone(TimeNs now, uint64_t work_id);
  void OnWorkSpoiled(TimeNs now, uint64_t work_id);
  // Whether TakeTodo would find something in the lane now. Cheap: to be asked in every poll.
  bool LaneHasNews();

  // ---- the fast path, see engine.h
  // Takes the call if nothing but the lane is needed for it; the host publishes `line` at once.
  // `news`: another number when this machine may have been told something since the last call.
  bool StartFast(const FastCall& call, uint64_t step, uint64_t news, LaneLine* line);
  // The same for a call like the last one, if that went in one pass as the one before it did. It
  // needs no memory, and `line` is that one's.
  bool RecurFast(const FastCall& call, uint64_t news, LaneLine* line);
  bool WouldShare(const OpSpec& spec, uint64_t step);
  bool ForeseeFast(TimeNs now) { return fast_.Foresee(now); }
  FastLook LookFast(TimeNs now);
  LaneWords SharedFast() { return fast_.FinishShare(); }  // what the last look gave is done
  const Work& fast_work() const { return fast_.work(); }
  std::span<const int> fast_lanes() const { return fast_.op().lane.segments; }
  LaneRoom fast_room() const { return fast_.op().lane.room; }
  // Of a shared one: the chunks that others sum.
  std::span<const plan::Chunk> fast_others() const { return fast_.shares().others(); }
  // Null: a flag was up. It stays until the next call.
  const Outcome* EndFast(TimeNs start, TimeNs now);
  // It becomes an operation like any other. Comes before anything else that this machine is told.
  void StopFast(TimeNs now);

  // ---- results
  // Both append.
  void TakeTodo(TimeNs now, std::vector<GroupTodo>* out);
  void GiveInputsBack(std::vector<GroupTodo>* out);  // the last call, when this member is out
  struct WantTo {
    MemberId to;
    wire::Want want;
  };
  std::vector<WantTo> TakeWants();
  std::optional<Seq>
  TakeMismatch();  // rule V5: ask the coordinator for a Prepare with the same members

  // ---- looking
  GroupKey key() const { return config_.key; }
  Seq first_seq() const { return first_seq_; }
  Seq floor() const { return floor_; }
  Seq next_seq() const { return next_seq_; }
  Seq called_end() const { return called_end_; }
  uint64_t called_step() const { return called_step_; }
  Seq delivered_end() const { return delivered_end_; }
  size_t in_flight() const { return ops_.size(); }
  size_t queued() const { return queue_.size(); }
  bool idle() const { return ops_.empty() && queue_.empty(); }
  wire::GroupProgress Progress() const;
  Stage StageOf(Seq seq) const;
  bool IsMember(MemberId id, Seq seq, uint64_t step) const;
  // The earliest deadline of an undelivered op, and who it lacks (design 5: a deadline is evidence,
  // never a local failure).
  std::optional<TimeNs> NextOpDeadline() const;
  std::optional<TimeNs> NextLaneDeadline() const;
  struct Overdue {
    Seq seq = 0;
    TimeNs timeout_ns = 0;
    std::vector<MemberId> lacks;
  };
  Overdue TakeOverdue(TimeNs now);
  void ReportOverdueAgain();  // to a coordinator that has not heard of it

 private:
  // group_call.cc
  void ActivateQueued(TimeNs now);
  bool MayActivate(Seq seq, uint64_t step) const;
  void Activate(TimeNs now, const QueuedCall& queued, bool stand_in);
  bool StandInForNext(TimeNs now);
  bool NobodyElseCalls(Seq seq) const;
  Seq FailedEnd() const;  // behind all failures that are known here
  wire::Signature SignatureOf(const OpSpec& spec, uint64_t step) const;
  void LearnFirst(TimeNs now, Seq first);
  void ForgetMovedFirst(const wire::View& view);
  wire::CallNotice NoticeOf(const Op& op) const;
  bool WaitsFor(const Op& op, size_t position) const;
  const wire::ViewEntry* SelfIn(const wire::View& view) const;
  // group_attempt.cc
  const Surroundings& SurroundingsIn(const ViewPtr& view);
  uint64_t PieceBytesOf(const Op& op);
  plan::Ground GroundIn(const ViewPtr& view, size_t members);
  plan::PlanKind ChoosePlan(const OpSpec& spec, const ViewPtr& view, size_t members);
  MemberId HubFor(const Op& op);
  // `used`: memory that is used again.
  std::vector<MemberId> MembersOf(const wire::View& view, Seq seq, uint64_t step,
                                  std::vector<MemberId> used = {}) const;
  void BeginAttempt(TimeNs now, Op& op, ViewPtr view, wire::Origin origin);
  void PlaceInAttempt(Op& op);
  void TellSegmentless(Op& op);
  std::vector<KeptRaw> DetachRaws(Op& op);
  void ReattachRaws(Op& op, std::vector<KeptRaw> kept);
  void ShadowInput(Op& op);
  void StartLocalWork(TimeNs now, Op& op);
  void SendRawsTo(Op& op, int position);
  const wire::KeptOp* KeptBy(MemberId id, Seq seq) const;
  void SendOwnInputs(Op& op);
  void SendFinal(Op& op, uint32_t chunk, MemberId to);
  void SendPartial(Op& op, uint32_t chunk, bool empty);
  void EmitFrame(Op& op, MemberId to, wire::FrameHeader header, std::vector<std::byte> ext,
                 BufferRef payload);
  wire::FrameHeader HeaderFor(const Op& op, wire::FrameKind kind, uint32_t chunk) const;
  BufferRef InputOf(const Op& op, const plan::Chunk& chunk) const;
  uint64_t InputBytes(const Op& op) const;
  BufferRef OutputOf(const Op& op, const plan::Chunk& chunk) const;
  BufferRef FinalOf(const Op& op, uint32_t chunk) const;
  bool NeedsInputShadow(const Op& op) const;
  std::vector<std::byte> WeightsExt(const Op& op, uint32_t chunk) const;
  // group_flow.cc
  void AcceptData(TimeNs now, Op& op, const InboundFrame& frame);
  void AcceptRaw(TimeNs now, Op& op, ChunkState& chunk, int position, const InboundFrame& frame);
  void AcceptPartial(TimeNs now, Op& op, ChunkState& chunk, const InboundFrame& frame);
  void AcceptFinal(TimeNs now, Op& op, ChunkState& chunk, int position, const InboundFrame& frame);
  bool TakeWeights(Op& op, const InboundFrame& frame);
  void Hold(const InboundFrame& frame, Piece* piece);
  void ReplayEarly(TimeNs now, Seq seq);
  void TryReduce(TimeNs now, Op& op, uint32_t chunk);
  void ReduceChunk(TimeNs now, Op& op, uint32_t chunk);
  void GatherOwn(TimeNs now, Op& op, uint32_t chunk);
  void MarkFinal(Op& op, uint32_t chunk);
  bool NeedsUndo(const Op& op) const;
  void SaveUndo(Op& op, ChunkState& chunk, const BufferRef& output);
  void FinishWork(TimeNs now, Op& op, const WorkRef& ref);
  void ReleasePieces(ChunkState& chunk);
  void ReleaseInbound(uint64_t inbound);
  void Drop(const InboundFrame& frame);
  void StartWork(Op& op, Work work, WorkRef ref);
  void PushCopy(const Op& op, const BufferRef& from, const BufferRef& to,
                Work::Kind kind = Work::Kind::kCopy);
  // group_lane.cc
  bool MayPublish(const Op& op);
  bool SlotIsFree(Seq seq) const;
  LaneLine LineOf(const Op& op) const;
  void TakeSlot(const Op& op);
  void Publish(TimeNs now, Op& op);
  bool SeesAll(Op& op);
  bool TakeLine(Op& op, size_t position);
  void LookAtLane(TimeNs now);
  std::optional<Work> LaneWork(Op& op, uint32_t chunk, const BufferRef& dst);
  void LaneWorkDone(TimeNs now, Op& op);
  void Abandon(const Op& op);
  bool FlagIsUp(const Op& op) const;
  void ScanLane(TimeNs now, Op& op);
  void GoByFrames(TimeNs now, Op& op);
  bool LacksLine(const Op& op, size_t position) const;
  void LosePatience(TimeNs now);
  static bool GoesShared(const Op& op) {
    return op.lane.published && op.lane.shared;
  }
  // Nothing but the lane is needed any more.
  bool IsByLane(Op& op);
  // group_share.cc
  bool IsShared(const OpSpec& spec, plan::PlanKind plan, const ViewPtr& view, size_t members);
  bool IsMade(const Op& op, uint32_t chunk) const;
  bool LacksShare(const Op& op, size_t position) const;
  bool MayAllSum(const OpSpec& spec, size_t members) const;
  bool ShareHasNews(Op& op);
  bool SaysDone(const Op& op, size_t position) const;
  bool HearDone(const Op& op);
  void LookAtShares(TimeNs now, Op& op);
  void SharedWorkDone(TimeNs now, Op& op, uint32_t chunk);
  void TellWords(Op& op, bool done);
  void TellDone();
  FastLook LookFastShared(TimeNs now);
  void KeepShares(TimeNs now, Op& op);
  // group_fast.cc
  bool PlaceFast(Seq seq, uint64_t step);
  FastWay WayOf(const OpSpec& spec);
  bool DescribeFast(const OpSpec& spec, uint64_t step);
  bool BeginFast(Seq seq, const FastCall& call, uint64_t step, uint64_t news);
  bool SeesAllFast();
  // group_change.cc
  void EnterAtBound(TimeNs now);
  void ForgetEra();
  void ForgetViews(size_t kept);
  void ApplyVerdicts(TimeNs now, const wire::GroupVerdicts* verdicts);
  void CarryOn(TimeNs now);
  void ApplyVerdict(TimeNs now, Op& op, const wire::Verdict& verdict);
  void Undo(Op& op);
  void RestoreShadow(Op& op);
  void ApplyFail(TimeNs now, Op& op, const wire::Verdict& verdict);
  void ApplySalvage(TimeNs now, Op& op, const wire::Verdict& verdict);
  void ReplayHeldFrames(TimeNs now);
  ViewPtr KnownView(Epoch epoch) const;
  // group_deliver.cc
  void CheckComplete(TimeNs now, Op& op);
  void AdvanceComplete();
  bool MayTell(const Op& op) const;
  void AdvanceTold();
  void OweAcks(const Op& op);
  Seq PublishedEnd() const { return hold_.AckedEnd(told_end_); }
  void SendAcks();
  bool IsStable(const Op& op) const;
  // Another member tells this one when all are complete.
  bool FollowsHub(const Op& op) const { return op.hub.valid() && op.hub != config_.self; }
  bool LacksVerdict(const Op& op, const wire::ViewEntry& entry) const;
  bool AllKnowItFailed(const Op& op) const;
  bool AllHaveAcked(const Op& op) const;
  bool AllSent(const Op& op) const;
  void DeliverReady(TimeNs now);
  void Deliver(TimeNs now, Op& op);
  Outcome OutcomeOf(const Op& op, TimeNs now) const;

  Op* Find(Seq seq);
  const Op* Find(Seq seq) const;
  Todo& Push(Todo::Kind kind);
  void HandOver(std::vector<GroupTodo>* out);
  void UseMemoryAgain(Op* op);
  uint64_t Allocate(Op& op, uint64_t bytes);

  const GroupConfig config_;
  Seq window_ = 0;  // W of rule J3, the same on all members (their calls say so)
  bool opened_ = false;
  ViewPtr current_, base_;  // base_: only while current_ is planned
  ViewPtr decided_in_;      // the era's first view: verdicts name ranks in it
  ViewPtr surrounded_;      // whose surroundings_ these are
  Surroundings surroundings_;
  std::map<Epoch, ViewPtr> old_views_;  // of attempts that still run or are salvaged
  Epoch era_ = 0;
  bool frozen_ = false;
  bool deciding_ = false;  // verdicts are being applied
  bool standing_in_ = false;
  bool first_known_ = false;
  Seq floor_ = 0;  // a newcomer's first operation will be none below it
  Seq first_seq_ = 0;
  Seq next_seq_ = 0;          // of the next Call
  Seq called_end_ = 0;        // ops below it have been called (activated)
  uint64_t called_step_ = 0;  // the highest step of an op called here
  Seq delivered_end_ = 0;
  Seq complete_end_ = 0;  // all below are complete
  Seq told_end_ = 0;      // all below may be told: where this member is the hub, for all
  HoldBack hold_;
  Leavers departing_;
  std::deque<Op> ops_;  // called, undelivered; front has seq delivered_end_
  Op spent_;            // the last one that was delivered, for its memory
  std::deque<QueuedCall> queue_;
  std::map<Seq, wire::Verdict> verdicts_;            // rule V6
  std::map<Seq, wire::Verdict> failed_;              // rule V5: recent failures, delivered or not
  std::map<Seq, std::vector<InboundFrame>> early_;   // of ops not called here yet
  std::vector<InboundFrame> future_;                 // of eras not installed here yet
  Peers peers_;
  Seq acks_told_ = 0;                                // all who may be told have heard that much
  Seq acks_due_ = 0;                                 // what everybody must be told at least
  std::vector<std::pair<uint64_t, WorkRef>> works_;  // by number; few, and done about in order
  std::unordered_map<uint64_t, uint64_t>
      abandoned_;                            // work that a freeze ended -> its inbound frame
  std::map<Seq, wire::CallNotice> notices_;  // for a stand-in, by seq
  std::vector<GroupTodo> todo_;
  std::vector<WantTo> wants_;
  std::optional<Seq> mismatch_;
  uint64_t next_work_ = 1, next_staging_ = 1;
  uint64_t progress_ = 0;
  std::array<LaneSlot, kLaneSlots> lane_slots_;
  FastOp fast_{config_};
};

}  // namespace ftar::collective

#endif  // FTAR_COLLECTIVE_GROUP_MACHINE_H_
