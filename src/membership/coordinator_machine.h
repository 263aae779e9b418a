// The coordinator as a pure machine: who is in, at which epoch, and when that changes (design
// 5; rules V5, V10, Q1 to Q4, Q7, Q8, J1 to J5). It never sees operations: a column's leader
// decides those and reports boundaries only.
//
// Think of a conductor: musicians (members) play without looking at her. She moves only when one
// falls ill (a failure change: all pause, agree where they were, go on) or when one comes or goes
// as arranged (a plan: "from bar b on, with the new one"). If she leaves the room the music goes
// on; whoever replaces her asks all what they last played before she lifts a hand.
//
// Driver's contract: feed events in the order in which they happen on each connection, one
// Connected first; after every Step take Ready, make `record` durable if the driver keeps one, send
// `messages` in order, then close `close`, and call Step(now, Timer) at `next_deadline`.
// Disconnected follows for every connection that ends, also for those closed here. Time comes in as
// `now`, which may jump (see FailureDetector). Single-threaded. Files: coordinator_machine.cc
// (events in, Ready out), coordinator_admission.cc (who may enter, first view),
// coordinator_evidence.cc (who is out), coordinator_change.cc (Prepare to Install),
// coordinator_plan.cc (joins and leaves without a stop), coordinator_recovery.cc (after a restart;
// the record), coordinator_hosted.cc (one that can be replaced). What can be decided apart is, each
// by a class that knows nothing of this one: Absentees, Door, Electorates, Epochs, FailureDetector,
// Graveyard, LinkEdges, NoQuorum, Suspects; the structs below hold the rest, by what it is for.
#ifndef FTAR_MEMBERSHIP_COORDINATOR_MACHINE_H_
#define FTAR_MEMBERSHIP_COORDINATOR_MACHINE_H_

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "base/log.h"
#include "membership/absentees.h"
#include "membership/agreement.h"
#include "membership/coordinator_events.h"
#include "membership/door.h"
#include "membership/electorates.h"
#include "membership/epochs.h"
#include "membership/failure_detector.h"
#include "membership/graveyard.h"
#include "membership/link_edges.h"
#include "membership/no_quorum.h"
#include "membership/quorum.h"
#include "membership/record.h"
#include "membership/suspects.h"
#include "wire/messages.h"

namespace ftar::membership {

struct CoordinatorConfig {
  std::string job;              // empty: the first member's
  uint16_t incarnation = 0;     // random for every start (rule Q1)
  TimeNs timeout_ns = 0;        // until members tell theirs, the knob `timeout`; 0: its default
  TimeNs late_timeout_ns = -1;  // 0: off; negative: the members' knob `late_timeout`
  TimeNs settle_ns =
      300 * kMillisecond;  // after a start, no first view is formed before this has passed
  TimeNs place_wait_ns = 300 * kSecond;  // how long a newcomer waits for a place that is held
  TimeNs cluster_ns =
      2 * kMillisecond;  // connections that close within this are one happening (rule Q7)
  // Lives in a member's process and can be replaced (rule Q5): goes on only with a quorum (rule
  // Q4).
  bool hosted = false;
  MemberId self;                 // hosted: whose process it lives in
  bool successor = false;        // hosted, and not the one that the job began with
  std::set<MemberId> witnessed;  // see Succession
};

class CoordinatorMachine {
 public:
  // `record`: what a predecessor has left, if anything was kept.
  explicit CoordinatorMachine(CoordinatorConfig config, CoordinatorRecord record = {});

  void Step(TimeNs now, const CoordinatorEvent& event);
  CoordinatorReady TakeReady();

  // For status displays and tests. The view is the one last installed or announced; null before the
  // first.
  const wire::View* view() const { return current_ ? &*current_ : nullptr; }
  bool changing() const { return change_.has_value(); }
  bool stood_down() const { return seat_.stood_down; }
  size_t buried() const { return graveyard_.size(); }

 private:
  // Where somebody who said Hello stands.
  enum class State : uint8_t {
    kWaiting,    // the place is held by somebody else, or an old view is being recovered
    kNewcomer,   // has the place; welcomed once it is known whom to link to
    kReporting,  // claims a view that this coordinator did not make (rule Q2)
    kMember,     // in current_
  };
  struct Peer {
    ConnId conn = 0;  // 0: not connected
    wire::MemberCard card;
    std::string roster;  // of a relay: who is behind it, for the relays of its column
    wire::Report report;
    Epoch installed = 0;
    State state = State::kWaiting;
    TimeNs since_ns = 0, heard_ns = 0;
    TimeNs closed_ns = 0;  // its last connection's end; 0: none has ended
    // Q2: holds a view that its relay, which has taken over from another one, cannot show.
    bool viewless() const { return report.installed != 0 && !report.installed_view; }

    // Until it is in.
    std::string held_by;  // who had its place when it came
    TimeNs placed_ns = 0;
    bool frozen = false;     // it promised a Prepare which did not come to an end
    bool announced = false;  // a root may have told it to begin

    // Its links.
    uint64_t serial = 0;  // order of welcome: later dials earlier
    bool welcomed = false;
    bool linked = false;                         // holds all the links it needs
    std::set<MemberId> told;                     // peers it was told to dial
    std::set<MemberId> links;                    // that it says are up
    MemberId missing;                            // one of which it had none when last looked at
    std::map<MemberId, std::string> links_lost;  // of a newcomer, for people: why

    // Its end.
    bool leave_requested = false;
    bool leave_ready = false;  // asked to leave, and nothing it has called is under way
    bool released = false;     // told to go: all were ready to
    bool departed = false;     // released and gone; the entry goes with the next view
    bool told_to_go = false;   // reports, and is out by what others have promised
  };
  struct Change {
    wire::Prepare prepare;
    std::map<int32_t, wire::Decided> decided;  // by column
    std::set<int32_t> columns;
    TimeNs wait_ns = 0, deadline_ns = 0;
    int timeouts = 0;
    bool complete = false;  // all columns have decided
  };
  struct Draft {  // of the next Prepare, beside whom it loses; while there is a Change, of that
    std::set<MemberId> newcomers;  // to be among `members`
    std::set<MemberId> leavers;    // who get their end by it
    TimeNs gather_until = 0;       // not before: those who are lost may be taken back
    int changes_first = 0;  // so many changes have gone before those who could be planned for
    // Whom newcomers could take over from: known before the next view says it.
    bool nobody_stays = false;
  };
  struct Plan {
    enum class Stage : uint8_t { kAllLeave, kReserving, kConfirming, kAnnouncing };
    Stage stage = Stage::kReserving;
    wire::View view;
    std::map<int32_t, MemberId> roots;  // by column
    std::map<int32_t, wire::Reserved> reserved;
    std::set<MemberId> newcomers, unconfirmed, leavers;
    std::set<int32_t> unannounced;
    TimeNs deadline_ns = 0;
  };
  struct Parting {  // told that it is out; its goodbye is awaited for a while
    MemberId id;
    wire::Report report;
    TimeNs until = 0;
  };
  struct Recovery {  // until it is known which view goes on
    bool under_way = false;
    TimeNs at = kNever;     // with whoever has come by then
    TimeNs until = kNever;  // where few of many have, it is put off no further
    // Said meanwhile, of a view that is not known yet.
    std::map<MemberId, std::string> proven_dead;                // why; hosted: said at any time
    std::vector<std::pair<MemberId, wire::Evidence>> evidence;  // of this reporter
    bool verdict_asked = false;                                 // rule V5
    // Of those who are gone again, until somebody goes on.
    std::map<MemberId, wire::Report> told;
    std::set<MemberId> consents;  // who had reported, and has left since
    bool predecessors = false;    // the record's view is, and nobody has gone on with it here yet
    bool predecessors_late = false;  // its members have had their time; they may come still
  };
  struct Seat {  // hosted: of one that another may take (rules Q4, Q5)
    Electorates electorates;
    std::set<MemberId> witnessed;  // dead, and had numbered nothing without those who are here
    TimeNs unheard_until = 0;      // before that no view without those who were lost last
    std::map<ConnId, Parting> parting;
    TimeNs goodbyes_until = 0;  // of others that leave, it does not hand over before
    bool retiring = false, handed_over = false;
    bool stood_down = false;
  };
  // coordinator_machine.cc
  void On(const Connected& event);
  void On(const Disconnected& event);
  void On(const Received& event);
  void On(const Timer&) {}
  void On(const Retire&);
  void RunTimers();
  void Settle();
  TimeNs NextDeadline() const;
  void Beat();
  void Send(const Peer& peer, wire::Message message);
  void Multicast(const std::vector<MemberId>& to, wire::Message message);
  void Tell(LogLevel level, std::string text);
  Peer* Find(MemberId id);
  const Peer* Find(MemberId id) const;
  void Close(Peer& peer);
  TimeNs change_wait_ns() const { return std::max<TimeNs>(timeout_ns_ / 4, kMillisecond); }

  // coordinator_admission.cc
  void AdoptReference(const wire::Hello& hello);
  void ReadAgreedConfig();
  void Admit(Peer& peer);
  void Reconnect(Peer& peer, const Connected& event);
  void TakeBack(int32_t replica);
  void TurnAway(ConnId conn, wire::Message message, std::string note);
  void Refuse(ConnId conn, const wire::Hello& hello, const wire::Rejected& refusal);
  void TellLeft(const Connected& event);
  void OnDisagreement(const Connected& event, const wire::Rejected& refusal);
  bool AnybodyHere() const;
  void AnswerDoor();
  MemberId HolderOf(int32_t replica, int32_t shard, MemberId except) const;
  void GivePlaces();
  void TellPeers();
  void TellRosters(const std::vector<Peer*>& fresh);
  void TellRosterOf(const Peer& peer, uint64_t before_serial);
  void SendRosters(const Peer& to);
  bool KnowsRosters(const Peer& peer) const;
  bool InRoster(const Peer& peer) const;
  bool PlacesFilled() const;
  bool Linked(Peer& newcomer) const;
  bool Misses(const Peer& newcomer, const Peer& peer) const;  // a link that it needs
  void OnLinksUp(Peer& from, const wire::LinksUp& message);
  void RejectOverdue();
  void RejectHung();
  void TellMissing();
  bool FirstViewWaits() const;
  std::string WhoIsMissing();
  bool TellLateHolder(const Peer& newcomer);
  bool TellMissedLinks(const Peer& newcomer);
  void TellMissingReplicas(const Peer& newcomer);
  void ForgetNewcomer(MemberId id);
  void TryForm();

  // coordinator_evidence.cc
  void OnHeartbeat(Peer& from, const wire::Heartbeat& message);
  bool HearOfNewcomers(Peer& from, const wire::Evidence& message);
  void OnEvidence(Peer& from, const wire::Evidence& message);
  void OnGoodbye(Peer& from, const wire::Goodbye& message);
  void Depart(Peer& peer);
  void OnLost(Peer& peer, const Disconnected& event);
  Suspects::Links LinksOf(MemberId id) const;
  bool NoneWhole(const std::vector<MemberId>& silent) const;
  void HastenSuspicion(MemberId id);
  Suspects::Census TakeCensus(const Suspects::Due& due);
  void JudgeLinks();
  void JudgeDeadlines();
  void JudgeSuspects();
  void LoseSilent(const std::vector<Finding>& findings);
  void HearAgain(MemberId id);
  void RunDetector();
  bool Lose(MemberId id, Code cause, std::string stage, std::string text, int64_t age_ns = 0,
            Seq seq = kNoSeq);
  void LoseOne(const wire::ViewEntry& entry, wire::Loss loss);
  bool IsIn(MemberId id) const { return places_.contains(id); }  // the current view
  bool Alive(MemberId id) const;  // in the current view, neither lost nor departed
  bool MayLackLinks(MemberId id) const;
  bool Leaving(MemberId id) const;
  bool AnybodyIn() const;
  std::set<MemberId> AskedToLeave() const;
  bool Entering(MemberId id) const;
  const wire::View* AnnouncedView() const;
  const wire::ViewEntry* EntryOf(MemberId id) const;
  int64_t AgeOf(MemberId id) const;

  // coordinator_change.cc
  void StartChange();
  void TakeWaitersAlong();
  wire::Prepare MakePrepare();
  std::vector<wire::ViewEntry> NextEntries() const;
  bool HasQuorum(const wire::Prepare& prepare);
  void SendPrepare(wire::Prepare prepare);
  void EvictLost(Epoch epoch);
  void OnRefuse(Peer& from, const wire::Refuse& message);
  void OnDecided(Peer& from, const wire::Decided& message);
  void OnAskPrepare(Peer& from, const wire::AskPrepare& message);
  void OnInstalled(Peer& from, const wire::Installed& message);
  void ChangeOverdue();
  void DropNewcomersOfChange();
  void RejectNewcomer(MemberId id, const std::string& why, Code code = Code::kTimeout);
  bool NobodyHasBegun() const;
  bool TurnBack();
  void LoseAll(const std::string& stage, const std::string& why);
  void InstallIfDue();
  void InstallChange();
  void BecomeMembers(const wire::View& view);
  void EndJob(const std::string& why);
  void LoseAnnounced(std::optional<int32_t> replica, const std::string& why);

  // coordinator_plan.cc
  void TryPlan();
  bool AllInstalled() const;
  bool AnybodyStays(const std::set<MemberId>& leavers) const;
  bool WaitsForNobody() const;
  bool ReleaseAll();
  std::set<MemberId> ReadyNewcomers() const;
  std::set<MemberId> ReadyLeavers() const;
  bool PlanRoots(std::map<int32_t, MemberId>* roots) const;
  void StartPlan(std::set<MemberId> newcomers, std::set<MemberId> leavers);
  void PrepareInstead(std::set<MemberId> newcomers, std::set<MemberId> leavers);
  void VoidPlan();
  void OnReserved(Peer& from, const wire::Reserved& message);
  void OnConfirmed(Peer& from, const wire::Confirmed& message);
  void OnAnnounced(Peer& from, const wire::Announced& message);
  bool BoundPlan();
  void ConfirmOrAnnounce();
  void PlanOverdue();

  // coordinator_recovery.cc
  void OnReport(Peer& peer);
  void Remember(const Peer& peer);
  bool AnybodyReports() const;
  void BeginRecovery();
  void TryRecover();
  void GiveUpRecovery();
  static bool Newer(const wire::View& view, const wire::View& than);
  const wire::View* RecoveryBase() const;
  static bool PromisedAbove(const wire::View& base, const wire::Report& report);
  static void LeaveOut(const wire::View& base, const wire::Report& report,
                       std::map<MemberId, Epoch>* out);
  std::map<MemberId, Epoch> OutByConsent(const wire::View& base) const;
  std::map<MemberId, Epoch> LeftOut(const wire::View& base) const;
  bool NamesOthers(const wire::Report& report, const wire::View* base) const;
  bool AwaitsPromised(const wire::View* base) const;
  void FinishRecovery(wire::View base, const std::map<MemberId, Epoch>& left_out);
  bool AllAreGoing(const wire::View& base) const;
  void LoseAbsent(const wire::View& base, const std::map<MemberId, Epoch>& left_out);
  void EvictStrangers(const wire::View& base);
  void ForgetBroken(const wire::View& base);
  void Record(Epoch epoch, const wire::View* view);
  bool OutByRecord(const wire::Hello& hello) const;
  bool MayBeRevoked(const wire::Report& report) const;
  void TurnRevokedAway();
  void EndRecorded();

  // coordinator_hosted.cc
  bool KeepsTheGone() const;
  QuorumAnswer AskQuorum(const std::set<MemberId>& survivors, size_t replicas,
                         const wire::View& base) const;
  void TellNoQuorum(const std::string& why);
  QuorumAnswer QuorumWithout(const wire::View& base,
                             const std::map<MemberId, Epoch>& left_out) const;
  bool LeaveOutThePromised(const wire::View& base, std::map<MemberId, Epoch>* left_out) const;
  void AskToGo(const wire::View& base, const std::map<MemberId, Epoch>& left_out);
  bool AwaitsQuorum(const wire::View& base, std::map<MemberId, Epoch>* left_out);
  Electorates ReportedElectorates() const;
  bool Formed() const;
  bool Overtaken(MemberId from, const wire::Report& report);
  void Witness(MemberId dead);
  bool MayTakeOver(MemberId lost, const wire::Loss& loss) const;
  void ForgetOldElectorates();
  void Evict(Peer& peer, wire::Evicted message);
  void TellEvicted(ConnId conn, const wire::Report& report, wire::Evicted message);
  void CloseSilentParting();
  void OnParted(ConnId conn);
  bool MayConsent(MemberId id, const wire::Report& report, Epoch installed) const;
  void TryHandOver();
  void StandDown(const std::string& why);

  const CoordinatorConfig config_;
  TimeNs now_ = 0;
  bool started_ = false;
  TimeNs next_beat_ = 0;
  TimeNs timeout_ns_ = 10 * kSecond;
  std::optional<Reference> reference_;
  Epochs epochs_;
  CoordinatorRecord record_;

  // Who is here, and who is in.
  std::map<MemberId, Peer> peers_;
  std::unordered_map<ConnId, MemberId> conns_;
  uint64_t serial_ = 0;  // of the last who was welcomed
  Door door_;
  Graveyard graveyard_;
  std::optional<wire::View> current_;
  std::unordered_map<MemberId, size_t> places_;  // in its entries

  // The first view.
  bool settling_ = true;  // it waits for reports of an older one
  TimeNs settled_at_ = 0;
  Absentees absentees_;

  // Who is out, and why.
  FailureDetector detector_;
  LinkEdges edges_;
  Suspects suspects_;
  std::map<std::pair<MemberId, MemberId>, wire::Evidence> overdue_;  // (reporter, subject)
  std::map<MemberId, wire::Loss> lost_;  // out of current_, not yet installed away
  std::vector<wire::Loss> last_lost_;    // of the last Install, to send it again

  // How the view changes. What is due Settle does when the event has been worked off.
  bool change_due_ = false;
  bool roster_changed_ = false;  // who is here, or who has a place
  bool plan_due_ = false;        // something happened that may let a first or planned view begin
  Draft draft_;
  std::optional<Change> change_;
  std::optional<Plan> plan_;
  std::set<std::pair<GroupKey, Seq>> asked_;  // rule V5: answered in this era
  NoQuorum no_quorum_;
  Recovery recovery_;
  Seat seat_;

  CoordinatorReady ready_;
};

}  // namespace ftar::membership

#endif  // FTAR_MEMBERSHIP_COORDINATOR_MACHINE_H_
