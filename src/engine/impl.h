// The inside of Engine: one member's membership side, and its groups. See engine.h for the
// contract. Files: engine.cc (events in, Ready out, joining, evidence), change.cc (Prepare, Status,
// verdicts, Install), plan.cc (planned joins and leaves, rules J3 to J5), steps.cc (step marks,
// rule J4).
#ifndef FTAR_ENGINE_IMPL_H_
#define FTAR_ENGINE_IMPL_H_

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "collective/group_machine.h"
#include "engine/engine.h"
#include "membership/verdict.h"

namespace ftar::engine {

class Engine::Impl {
 public:
  explicit Impl(Config config);

  void Step(TimeNs now, const Event& event);
  void TakeReady(Ready* ready);

  Seq next_seq(GroupKey group) const;
  bool StartFast(GroupKey group, const collective::FastCall& call, collective::LaneLine* line);
  bool RecurFast(GroupKey group, const collective::FastCall& call, collective::LaneLine* line);
  bool WouldShare(GroupKey group, const collective::OpSpec& spec);
  bool HasCoordinator() const { return coordinator_up_ && !coordinator_away_; }
  bool in_fast() const { return fast_ != nullptr; }
  std::span<const int> fast_lanes() const { return last_fast_->fast_lanes(); }
  std::span<const plan::Chunk> fast_others() const { return last_fast_->fast_others(); }
  bool ForeseeFast(TimeNs now) { return fast_ != nullptr && fast_->ForeseeFast(now); }
  collective::FastLook LookFast(TimeNs now);
  const collective::Work& fast_work() const { return last_fast_->fast_work(); }
  collective::LaneRoom fast_room() const { return last_fast_->fast_room(); }
  collective::LaneWords SharedFast() { return last_fast_->SharedFast(); }
  const collective::Outcome* EndFast(TimeNs start, TimeNs now);
  void StopFast();

  // engine.cc: one handler an event
  void On(const CoordinatorUp&);
  void On(const CoordinatorDown&);
  void On(const FromCoordinator& event);
  void On(const FromPeer& event);
  void On(const FrameArrived& event);
  void On(const LinkIsUp& event);
  void On(const LinkIsDown& event);
  void On(const PeerExited& event);
  void On(const WorkDone& event);
  void On(const WorkSpoiled& event);
  void On(const OpenGroup& event);
  void On(const StartOp& event);
  void On(const BeginStep& event);
  void On(const WithdrawStep&) { pending_step_.reset(); }
  void On(const RequestLeave&);
  void On(const AbortSelf& event);
  void On(const ReportSelf& event);
  void On(const EvictPeer& event);
  void On(const Tick&);

  // messages from the coordinator
  void On(const wire::Welcome& message);
  void On(const wire::CoordinatorBeat& message);
  void On(const wire::Rejected& message);
  void On(const wire::Connect& message);
  void On(const wire::Prepare& message);
  void On(const wire::Install& message);
  void On(const wire::Propose& message);
  void On(const wire::Confirm& message);
  void On(const wire::VoidPlan& message);
  void On(const wire::Evicted& message);
  void On(const wire::LateNotice& message);
  void On(const wire::NoQuorum& message);
  void On(const wire::Release& message);
  void OnAnnounceOrder(const wire::Announce& message);
  // messages from peers
  void OnPeer(MemberId from, const wire::ColumnStatus& message);
  void OnPeer(MemberId from, const wire::ColumnVerdicts& message);
  void OnPeer(MemberId from, const wire::AskVerdicts& message);
  void OnPeer(MemberId from, const wire::Announce& message);
  void OnPeer(MemberId from, const wire::Credit& message);
  void OnPeer(MemberId from, const wire::StepMark& message);
  void OnPeer(MemberId from, const wire::Want& message);
  void OnPeer(MemberId from, const wire::CallNotice& message);
  void OnPeer(MemberId from, const wire::Release& message);
  void OnPeer(MemberId from, const wire::LeaveReady& message);

  // What the face shows.
  std::optional<wire::Prepare> prepare_;  // promised, not installed
  Config config_;
  Phase phase_ = Phase::kJoining;
  Status phase_status_;
  collective::ViewPtr view_, base_;
  collective::ViewPtr leavers_of_;  // whose leavers those are
  std::vector<MemberId> leavers_;
  bool asked_why_ = false;         // it has not come in
  bool coordinator_up_ = false;    // the connection to it, or to a relay
  bool coordinator_away_ = false;  // says that relay
  bool quorum_lost_ = false;
  bool led_ = false;
  TimeNs woke_at_ = 0;  // from a pause that was longer than its beats allow
  bool frozen_ = false;
  std::map<GroupKey, std::unique_ptr<collective::GroupMachine>> groups_;
  struct Ranked {
    int32_t priority = 0;
    GroupKey key = 0;
    collective::GroupMachine* group = nullptr;
  };
  std::vector<Ranked> ranked_;  // of groups_, the most urgent first, equals by key

  std::vector<wire::MemberCard> Successors() const;
  std::shared_ptr<const wire::View> GroupView(GroupKey group) const;
  std::shared_ptr<const wire::View> StepView(GroupKey group) const;
  wire::Heartbeat Progress() const;

 private:
  // Of a step: how many enter at it, who was here before, and the view that names its ranks.
  struct Boundary {
    int32_t joined = 0;
    MemberId source;  // invalid: nobody
    Epoch layout = 0;
  };
  struct Held {
    MemberId from;
    wire::Message message;
  };

  // engine.cc
  Seq NextSeq(GroupKey group) const;
  collective::ViewPtr ViewAt(GroupKey group, Seq seq, uint64_t step) const;
  std::shared_ptr<const wire::View> NextMembers(const wire::View& view, GroupKey group) const;
  void Introduce();
  void HearAway(bool away);
  void SendCoordinator(wire::Message message) {
    ready_.to_coordinator.push_back(std::move(message));
  }
  void SendPeer(MemberId to, wire::Message message);
  void SendColumn(const wire::View& view, const wire::Message& message);
  void Notify(Notice::Kind kind, wire::Loss loss = {}, wire::LateNotice late = {});
  void Become(Phase phase, Status status);
  std::vector<MemberId> AddPeers(const std::vector<wire::MemberCard>& peers);
  void TellLinksUp(std::vector<MemberId> peers);
  wire::LinksUp WantedLinks() const;
  wire::LinksUp LinksTo(std::vector<MemberId> peers) const;
  void Accuse(wire::Evidence evidence);
  bool Known(MemberId id) const;
  void DispatchPeer(MemberId from, const wire::Message& message);
  bool HoldForEra(MemberId from, Epoch era, const wire::Message& message);
  void Rank(GroupKey group, int32_t priority);
  void CollectGroups();
  bool Beats() const;
  void NotePause();
  void HearLead();
  void Beat();
  void CheckDeadlines();
  TimeNs NextDeadline() const;
  collective::GroupMachine& Group(GroupKey key);
  Seq FirstStepSeq(GroupKey group, uint64_t step) const;
  const wire::StepMark* MarkFrom(uint64_t step) const;
  uint64_t OwnBound() const;
  const wire::StepMark* OwnBeginning() const;
  Seq FirstSeqOf(const wire::ViewEntry& entry, GroupKey group) const;
  void EnterAtMark(GroupKey key, collective::GroupMachine& group);

  // change.cc
  void HoldForChange(Epoch epoch, MemberId from, const wire::Message& message);
  wire::Report MakeReport() const;
  wire::ColumnStatus MakeStatus();
  MemberId LeaderOf(const wire::Prepare& prepare) const;
  std::vector<MemberId> ColumnOf(const std::vector<wire::ViewEntry>& entries) const;
  void NotePromise(Epoch epoch, const std::vector<wire::ViewEntry>& members);
  void Promise(const wire::Prepare& prepare);
  void RaiseFlag();
  void RevokeAllBut(const std::vector<wire::ViewEntry>& members);
  bool Needed(MemberId id) const;
  void ForgetStrangers();
  void LeadIfAll();
  bool IsOvertaken(const std::vector<MemberId>& column) const;
  void TryInstall();
  void InstallEra(const wire::Install& install, const wire::ColumnVerdicts& verdicts);
  void BeginEra(Epoch era);
  void ForgetWordsOfLeaving();
  void PassMarksOn(const collective::ViewPtr& before);
  void EnterAsRoot(const wire::ColumnVerdicts& verdicts);
  void TellNews(const wire::View& before);
  void LoseAlone(Code cause, const char* stage, std::string why, const std::string& said);
  void AfterView(const collective::ViewPtr& before);
  void GrantCredits();
  void ReplayHeld();

  // plan.cc
  MemberId RootOf(const wire::View& view) const;
  bool IsRoot() const { return view_ && RootOf(*view_) == config_.self.id; }
  wire::Bound ReserveStep(const wire::View& next);
  wire::Bound ReserveSeqs();
  void DropProposal();
  void BecomeMember();
  void BeginLeaving();
  bool InPlace(const std::vector<wire::ViewEntry>& entries);
  void InstallPlanned(const wire::View& view);
  const std::vector<MemberId>& Leavers();
  bool PassedBound(const wire::Bound& bound) const;
  bool MayPropose() const;
  void AwaitEnds();
  Seq CalledBy(MemberId leaver, GroupKey key) const;  // it has said so
  void TellEndKnown();
  bool HasCalledAll(MemberId leaver, GroupKey key, Seq delivered_end) const;
  void SkipWhatNobodyCalls();
  void TendLeaving();
  void SeeLeaversOff();
  void TellLeaveReady();
  void GoHeard(TimeNs go_by);
  void Go();

  // steps.cc
  void TryBeginStep();
  void RefuseStep(Code why, uint64_t next);
  bool IsEntering() const { return step_ == 0 && OwnBound() > 0; }
  std::optional<uint64_t> NextStep() const;
  void TellOfLateRoot();
  void FinishBeginStep(uint64_t step);
  void AnnounceStep(uint64_t step, const Boundary& boundary);
  void KeepMark(const wire::StepMark& mark);
  void RenewMarks(const wire::ColumnVerdicts& verdicts);
  bool MarksABoundNearer(const wire::StepMark& mark) const;
  bool MarksABound(size_t index) const;
  void LearnBoundary(const wire::StepMark& mark);
  bool TakesPart(const wire::ViewEntry& entry, uint64_t step) const;
  Boundary BoundaryOf(uint64_t step, uint64_t previous) const;
  void KeepView(collective::ViewPtr view);
  bool IsNamed(Epoch epoch) const;
  collective::ViewPtr NamedView(Epoch epoch) const;
  void LearnNamedViews(const wire::ColumnVerdicts& verdicts,
                       const std::vector<collective::ViewPtr>& views);
  void NameRanks(uint64_t step, Epoch told);
  StepBegun DescribeStep(uint64_t step, const Boundary& boundary) const;

  TimeNs now_ = 0;
  Ready ready_;
  collective::GroupMachine* fast_ = nullptr;  // has an operation on the fast path
  collective::GroupMachine* last_fast_ = nullptr;  // had the last one there
  uint64_t news_ = 1;                         // grows with all that groups may have been told of

  // joining
  std::map<MemberId, wire::MemberCard> wanted_;  // peers to hold a link to
  std::set<MemberId> ended_;                     // links to them have ended
  std::map<MemberId, wire::WireCosts> links_;    // that are up
  bool welcomed_ = false;

  // promises
  Epoch promised_ = 0;
  std::vector<MemberId> promised_members_;
  Epoch formed_ = 0;                // the highest view known formed (rule Q4)
  membership::StatusMap statuses_;  // leader: of prepare_
  std::map<Epoch, std::vector<Held>>
      early_changes_;  // Status and verdicts of Prepares not heard yet
  std::optional<wire::ColumnVerdicts> verdicts_;
  std::optional<wire::Install> install_;
  std::set<MemberId> leaving_;  // as it is known here; a change may void the end and plan it anew
  std::map<MemberId, wire::Loss> losses_;  // that Prepares have told of since the last view
  bool decided_ = false;
  TimeNs ask_verdicts_at_ = kNever;

  // era
  Epoch era_ = 0;
  std::vector<MemberId> lane_gone_;  // revoked; their lanes are needed until the next era
  std::set<MemberId> credit_sent_;
  std::map<MemberId, wire::Credit> credits_;  // received for era_ (F2)
  std::vector<Held> held_;                    // peer messages of eras not installed yet
  std::vector<wire::Announce> held_announces_;

  // planned changes
  std::optional<wire::Propose> early_proposal_;  // root: waits for the boundary before
  std::optional<wire::View> proposed_;           // root: reserved, not announced
  uint64_t reserved_step_ = 0;                   // root: the boundary it has promised to keep
  std::optional<wire::View> confirmed_;          // newcomer: confirmed, not announced
  std::set<MemberId> leave_ready_, ends_unheard_;
  std::map<MemberId, std::vector<wire::SeqBound>> leavers_called_;  // by each that has said so
  Epoch leave_ready_sent_ = 0;
  bool leave_requested_ = false, released_ = false, release_sent_ = false;
  bool leave_ready_told_ = false;  // to the coordinator
  TimeNs go_by_ = kNever;          // released: waits no longer for a coordinator that is away

  // steps; internal step numbers are the user's plus 1, 0 is "no step yet"
  uint64_t step_ = 0, root_step_ = 0, era_step_ = 0;
  bool steps_marked_ = false, strict_ = false;
  std::optional<BeginStep> pending_step_;
  struct LateRoot {
    MemberId member;
    TimeNs since = 0, tell_at = kNever;
  };
  LateRoot late_root_;  // for which that waits
  std::map<MemberId, std::deque<wire::StepMark>>
      other_marks_;                   // of members that are not the root here yet
  std::deque<wire::StepMark> marks_;  // the newest few: a newcomer may need one that is past
  std::map<uint64_t, Boundary> boundaries_;  // of steps that others have begun
  std::deque<collective::ViewPtr> past_views_;  // the last few; others may have begun steps in them
  collective::ViewPtr step_view_;               // names the ranks of the step that runs
  int32_t lost_since_step_ = 0;

  // evidence and beats
  // Told again to a coordinator that comes back: who is accused, and which verdicts are missing in
  // this era (rule V5).
  std::map<MemberId, wire::Evidence> evidence_;
  std::map<MemberId, wire::Evidence> user_says_;  // of this member, or of whom it wants evicted
  std::vector<wire::AskPrepare> asked_;
  TimeNs next_beat_ = 0;
};

}  // namespace ftar::engine

#endif  // FTAR_ENGINE_IMPL_H_
