// A relay as a pure machine: it speaks for some members of one replica as if they were one, so that
// the coordinator's work grows with the relays, not with the members (design 5 "Scale").
//
// Think of a platoon's radio operator. Headquarters knows platoons: one voice, one place in the
// line. When the operator says "ready" all soldiers are; what headquarters orders he tells each in
// the terms of that soldier's own row. He decides nothing. If he falls, the platoon has not: it
// calls in by the next radio, and only if it stays silent is it taken for lost.
//
// Replicas come, leave and are lost as a whole, and a change is decided column by column. So a
// block of adjacent columns of a replica (a **unit**) is to the coordinator what a member is: it
// has an id, an entry in the view, one connection. Up goes what a member would say, once all behind
// it have said it; down comes what a member would hear, and each hears of its own column alone.
// Downwards a relay is to its members what a coordinator is. So relays can stand behind relays, and
// engines and the coordinator's machine are the same with and without.
//
// One machine lives as long as one unit: from the first Hello of a member until `over`. The unit's
// id follows from its members' ids, so a relay that takes over after another's loss speaks for the
// same unit (rule Q7).
//
// Driver's contract: events of each connection below in order, one Connected first. As long as
// `complete()`, hold a connection up, feed AboveUp for each one made and AboveDown when it ends;
// the machine introduces itself again. `up` may be dropped while there is none. Otherwise as for
// CoordinatorMachine. Single-threaded. Files: relay_machine.cc (events in, Ready out, who is here),
// relay_up.cc (what all say), relay_down.cc (what each hears).
#ifndef FTAR_MEMBERSHIP_RELAY_MACHINE_H_
#define FTAR_MEMBERSHIP_RELAY_MACHINE_H_

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "base/ids.h"
#include "membership/agreement.h"
#include "membership/coordinator_machine.h"
#include "membership/failure_detector.h"
#include "wire/messages.h"

namespace ftar::membership {

struct RelayConfig {
  int32_t members = 8;    // shards of a replica behind one relay; the same at all relays of a job
  TimeNs timeout_ns = 0;  // where members tell none, the knob `timeout`; 0: its default
  TimeNs cluster_ns = 2 * kMillisecond;
};

struct AboveUp {};
struct AboveDown {};
struct FromAbove {
  wire::Message message;
};
using RelayEvent =
    std::variant<Connected, Disconnected, Received, Timer, AboveUp, AboveDown, FromAbove>;

struct RelayReady {
  std::vector<wire::Message> up;
  std::vector<Outgoing> down;
  std::vector<ConnId> close;  // after the messages
  std::vector<Note> notes;
  TimeNs next_deadline = kNever;
};

class RelayMachine {
 public:
  explicit RelayMachine(RelayConfig config);

  void Step(TimeNs now, const RelayEvent& event);
  RelayReady TakeReady();

  // True if this Hello is for this unit: a member that it knows, or one for a free place of a unit
  // that is not complete. Else it is another unit's, perhaps of the same place.
  bool Takes(const wire::Hello& hello) const;
  bool complete() const { return complete_ && !over_; }
  bool over() const { return over_; }
  MemberId unit() const { return unit_; }
  TimeNs timeout_ns() const { return timeout_ns_; }
  size_t units() const { return units_.size(); }  // of its column that it can name; for tests

 private:
  struct Child {
    ConnId conn = 0;
    bool here = false;  // the place is taken, whether connected or not
    wire::MemberCard card;
    std::string roster;    // of a relay below
    wire::WireCosts wire;  // as last told
    wire::Report report;
    Epoch installed = 0;    // by somebody behind it
    Epoch held_by_all = 0;  // less where it is a relay some of whose members lack that
    bool gone = false;      // has left as planned
    bool leave_requested = false, leave_ready = false;
    TimeNs lost_at = kNever;  // when its closed connection counts
    bool elsewhere = false;   // and until then it may have found another relay
    wire::Heartbeat beat;
  };
  struct Unit {  // of this column of units, this one included
    int32_t replica = 0;
    wire::Behind behind;
    std::set<size_t> linked, broken;  // columns whose link to it is up, or was and is lost
    bool seen = false;                // in a view
    bool exited = false;
    uint64_t named = 0;               // when its roster came last, among all that came
  };

  // relay_machine.cc
  void On(const Connected& event);
  void On(const Disconnected& event);
  void On(const Received& event);
  void On(const Timer&) {}
  void On(const AboveUp&);
  void On(const AboveDown&);
  void On(const FromAbove& event);
  void RunTimers();
  void LoseDisconnected();
  void RunDetector();
  TimeNs NextDeadline() const;
  void Adopt(const wire::Hello& hello);
  void TakeIn(Child& child, const Connected& event);
  void CatchUp(Child& child);
  void CompleteIfAll();
  bool MayBeMates(const wire::Report& report) const;
  void AwaitMates(const Child& child);
  void Scatter();
  void GiveUpGathering();
  void Introduce();
  wire::Report MakeReport() const;
  void LoseChild(size_t index, Code code, const std::string& text);
  void GatherAgain(size_t index);
  bool LeftAlone(const Child& child) const;
  void AwaitBack(Child& child);
  bool MatesFollow(const Child& child) const;
  void Dissolve();
  void End(wire::Message message);
  void Refuse(ConnId conn, wire::Message message);
  void Send(const Child& child, wire::Message message);
  void SendAll(wire::Message message);
  void Tell(LogLevel level, std::string text) { ready_.notes.push_back({level, std::move(text)}); }
  bool AnyIn() const;
  bool Beats() const;
  bool All(bool Child::*what) const;
  size_t Staying() const;
  size_t IndexOf(const Child& child) const { return static_cast<size_t>(&child - &children_[0]); }

  // relay_up.cc
  void Hear(Child& child, const wire::LinksUp& message);
  void Hear(Child& child, const wire::Refuse& message);
  void Hear(Child& child, const wire::Decided& message);
  void Hear(Child& child, const wire::Installed& message);
  void Hear(Child& child, const wire::Reserved& message);
  void Hear(Child& child, const wire::Confirmed& message);
  void Hear(Child& child, const wire::Announced& message);
  void Hear(Child& child, const wire::Heartbeat& message);
  void Hear(Child& child, const wire::Evidence& message);
  void Hear(Child& child, const wire::AskPrepare& message);
  void Hear(Child& child, const wire::LeaveRequest& message);
  void Hear(Child& child, const wire::LeaveReady& message);
  void Hear(Child& child, const wire::Goodbye& message);
  void Hear(Child& child, const wire::Redirect& message);
  void KeepEarly(size_t index, const wire::Evidence& message);
  void PassUp(size_t index, const wire::Evidence& message);
  void ForgetReportsOf(size_t index);
  void Mend(size_t index, MemberId id, Unit& unit);
  bool Linked(const Unit& unit) const;
  void TellDecided();
  bool MergeBounds(wire::Decided* decided, MemberId* clash) const;
  void OnLink(Child& child, MemberId id, Unit& unit, const wire::Evidence& message);
  wire::Heartbeat Progress() const;
  Epoch LeastInstalled() const;
  std::pair<const MemberId, Unit>* UnitOf(size_t index, MemberId member);

  // relay_down.cc
  void Tell(const wire::Roster& message);
  void Tell(const wire::Welcome& message);
  void Tell(const wire::Connect& message);
  void Tell(const wire::Prepare& message);
  void WatchAll();
  void Tell(const wire::Install& message);
  void Tell(const wire::Propose& message);
  void Tell(const wire::Confirm& message);
  void Tell(const wire::Announce& message);
  void Tell(const wire::VoidPlan& message);
  void Tell(const wire::Evicted& message);
  void Tell(const wire::Rejected& message);
  void Tell(const wire::CoordinatorBeat& message);
  void Tell(const wire::LateNotice& message);
  void Tell(const wire::NoQuorum& message);
  void Tell(const wire::Redirect& message);
  void Tell(const wire::Release& message);
  std::vector<wire::MemberCard> CardsFor(size_t index,
                                         const std::vector<wire::MemberCard>& units) const;
  // What of it is of this column of units: looked for once, not for every member.
  wire::Prepare Own(const wire::Prepare& message) const;
  wire::View Own(const wire::View& view) const;
  std::vector<wire::Loss> Own(const std::vector<wire::Loss>& lost) const;
  std::vector<wire::ViewEntry> Own(const std::vector<wire::ViewEntry>& entries) const;
  // Of that.
  std::vector<wire::ViewEntry> EntriesFor(size_t index,
                                          const std::vector<wire::ViewEntry>& own) const;
  wire::View ViewFor(size_t index, const wire::View& own) const;
  std::vector<wire::Loss> LossesFor(size_t index, const std::vector<wire::Loss>& own) const;
  wire::Loss LossFor(size_t index, wire::Loss loss) const;
  wire::Prepare PrepareFor(size_t index, const wire::Prepare& own) const;
  // One of whom no roster has come; null: there is none.
  const wire::ViewEntry* Unknown(const std::vector<wire::ViewEntry>& units) const;
  void Name(const wire::Roster& message, wire::Behind behind);
  void ForgetUnits();
  void PendingAreIn();
  void Await(wire::Install install);
  bool IsOfThePast(const Unit& unit) const;

  const RelayConfig config_;
  TimeNs now_ = 0;
  TimeNs timeout_ns_ = 10 * kSecond;
  std::optional<Reference> reference_;
  int32_t replica_ = 0, block_ = 0;
  std::vector<Child> children_;  // by shard
  std::unordered_map<ConnId, size_t> conns_;
  FailureDetector detector_;
  TimeNs next_beat_ = kNever, gather_until_ = kNever, scatter_at_ = kNever;
  TimeNs scattered_at_ = kNever;  // and nobody has come since
  TimeNs next_loss_ = kNever;  // no child's lost_at is earlier

  bool complete_ = false, over_ = false, above_ = false;
  bool away_ = false;  // the one above is a relay, and has no coordinator
  uint64_t namings_ = 0;
  MemberId unit_;
  std::map<MemberId, Unit> units_;
  std::set<MemberId> links_told_;
  bool welcomed_ = false;                // by the one above, as a newcomer that is to link to these
  std::vector<wire::MemberCard> peers_;
  std::optional<wire::Goodbye> lost_;  // somebody is, and the unit with it
  size_t lost_child_ = 0;

  Epoch promised_ = 0;                    // passed on
  std::optional<wire::Prepare> prepare_;  // the same; kept after its Install for who comes back
  std::map<size_t, wire::Decided> decided_;
  bool refused_ = false;
  // The newest that was passed on, and the newest that somebody here holds.
  std::optional<wire::Install> pending_;
  uint64_t pending_named_ = 0;  // namings_, when it came
  std::optional<wire::View> installed_;
  // Of a plan that was announced to them, or that newcomers have confirmed: they may begin in it by
  // a word of another column's members, before or behind a Prepare.
  std::optional<wire::View> told_;
  Epoch installed_told_ = 0;
  Epoch proposed_ = 0;
  std::map<size_t, wire::Reserved> reserved_;
  Epoch confirming_ = 0, announcing_ = 0;
  std::set<size_t> confirmed_, announced_;
  std::vector<wire::AskPrepare> asked_;
  // Of whom no roster tells yet.
  std::vector<std::pair<size_t, wire::Evidence>> early_evidence_;
  std::vector<std::pair<size_t, MemberId>> early_links_;
  // Told again to a coordinator that comes back: as who said it put it, by whom and of whom.
  std::map<std::pair<size_t, MemberId>, wire::Evidence> overdue_, unwanted_;
  // For who comes back; the first until there is a change.
  std::optional<wire::NoQuorum> no_quorum_;
  std::optional<wire::Release> release_;

  RelayReady ready_;
};

}  // namespace ftar::membership

#endif  // FTAR_MEMBERSHIP_RELAY_MACHINE_H_
