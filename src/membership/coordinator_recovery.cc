// After a restart: the state is rebuilt from what members report and from what the predecessor has
// recorded, if anything (rules Q2, Q3, Q4, Q7). Nobody is suspected for one timeout; members go on
// computing meanwhile.
#include <algorithm>
#include <utility>

#include "base/mutant.h"
#include "membership/coordinator_machine.h"

namespace ftar::membership {
// Which of two views goes on. A plan may have a higher number than the change that ended the era it
// was made in: whoever changed then had not heard of it, nor has anybody who went on.
bool CoordinatorMachine::Newer(const wire::View& view, const wire::View& than) {
  if (FTAR_MUTANT(kPlanOfThePastWins)) return view.epoch > than.epoch;
  return std::pair(view.era, view.epoch) > std::pair(than.era, than.epoch);
}

bool CoordinatorMachine::AnybodyReports() const {
  return std::any_of(peers_.begin(), peers_.end(),
                     [](const auto& entry) { return entry.second.state == State::kReporting; });
}

void CoordinatorMachine::OnReport(Peer& peer) {
  const bool first = !AnybodyReports();
  peer.state = State::kReporting;
  recovery_.told.erase(peer.card.id);
  if (!FTAR_MUTANT(kOldReportsStand))
    std::erase_if(recovery_.evidence, [&](const auto& told) { return told.first == peer.card.id; });
  Tell(LogLevel::kInfo, Describe(peer.card) + " reports view " +
                            std::to_string(EpochCounter(peer.report.installed)) + ", promised " +
                            std::to_string(EpochCounter(peer.report.promised)));
  if (first || !recovery_.under_way) BeginRecovery();
}

// Of one that goes. A newcomer's promise tells of a view, too, as long as none is known here.
void CoordinatorMachine::Remember(const Peer& peer) {
  const bool promised = peer.report.promised != 0 && !current_ && !config_.hosted;
  if ((peer.state == State::kReporting || promised) && !FTAR_MUTANT(kReportForgotten))
    recovery_.told[peer.card.id] = peer.report;
}

void CoordinatorMachine::BeginRecovery() {
  recovery_.under_way = true;
  recovery_.at = now_ + timeout_ns_;
  recovery_.until = now_ + kAloneTimeouts * timeout_ns_;
  // A first view in the making gives way: there is a job already.
  change_.reset();
  for (MemberId id : std::exchange(draft_.newcomers, {})) {
    if (Peer* newcomer = Find(id)) newcomer->frozen = true;
  }
  for (auto& [id, other] : peers_) {
    if (other.state == State::kNewcomer) other.state = State::kWaiting;
  }
}

// A plan that has ended with its era binds nobody. A change binds who has promised it, and would
// have begun an era of its number, also if a plan that its coordinator had not heard of is above
// it. (A newcomer may have promised a plan of that era which came to nothing.)
bool CoordinatorMachine::PromisedAbove(const wire::View& base, const wire::Report& report) {
  const bool by_era = report.installed_view && !FTAR_MUTANT(kPlanOutdoesPromise);
  const Epoch goes_on = by_era ? base.era : base.epoch;
  if (report.promised <= goes_on || report.promised_members.empty()) return false;
  const bool holds_it = report.installed_view && report.promised == report.installed;
  return !holds_it || Newer(*report.installed_view, base);
}

// Whom this promise leaves out, by its epoch.
void CoordinatorMachine::LeaveOut(const wire::View& base, const wire::Report& report,
                                  std::map<MemberId, Epoch>* out) {
  const std::set<MemberId> named(report.promised_members.begin(), report.promised_members.end());
  for (const wire::ViewEntry& entry : base.entries) {
    if (!named.contains(entry.card.id)) out->insert({entry.card.id, report.promised});
  }
}

// Who has been told that it is out; and whoever was left out by what those have promised who have
// consented since. They refuse nothing any more, so that is kept here, also if a plan that they had
// no part in has a higher number.
std::map<MemberId, Epoch> CoordinatorMachine::OutByConsent(const wire::View& base) const {
  std::map<MemberId, Epoch> out;
  for (const auto& [gone, report] : recovery_.told) {
    const bool binds = report.promised > report.installed && !report.promised_members.empty();
    if (binds && recovery_.consents.contains(gone)) LeaveOut(base, report, &out);
  }
  for (const auto& [id, peer] : peers_) {
    if (peer.told_to_go) out.insert({id, base.epoch});
  }
  return out;
}

// Q3: whoever was left out of a Prepare that reached a survivor is out for good; by the epoch of
// that Prepare. One that reached a newcomer alone says as much, if nobody else can have sent it:
// the others may have followed it, and be gone. Then a record tells.
std::map<MemberId, Epoch> CoordinatorMachine::LeftOut(const wire::View& base) const {
  std::map<MemberId, Epoch> out;
  const auto hear = [&](MemberId reporter, const wire::Report& report) {
    const bool alone =
        !config_.hosted && !recovery_.predecessors && !FTAR_MUTANT(kNewcomersPromiseIgnored);
    if ((base.Find(reporter) || alone) && PromisedAbove(base, report)) LeaveOut(base, report, &out);
  };
  for (const auto& [reporter, peer] : peers_) hear(reporter, peer.report);
  for (const auto& [reporter, report] : recovery_.told) hear(reporter, report);
  out.merge(OutByConsent(base));
  return out;
}

// Q4: the base is the newest view that anybody heard has installed, or that the predecessor has
// recorded: all members of that one have promised it, or hold the view that it was planned on.
const wire::View* CoordinatorMachine::RecoveryBase() const {
  const wire::View* newest = recovery_.predecessors ? &*record_.view : nullptr;
  const auto hear = [&newest](const wire::Report& report) {
    if (!report.installed_view) return;
    const wire::View& view = *report.installed_view;
    if (!newest || Newer(view, *newest) || FTAR_MUTANT(kAnyBase)) newest = &view;
  };
  for (const auto& [id, report] : recovery_.told) hear(report);
  for (const auto& [id, peer] : peers_) {
    if (peer.state == State::kReporting) hear(peer.report);
  }
  return newest;
}

// Q2: who has promised a view and not heard the end of it names who would be in it. Newcomers, of
// whom the base knows nothing, may hold it by now: they have their time to come as well. A record
// tells by itself whether there is such a view, and a quorum whether anybody can have gone on with
// it.
bool CoordinatorMachine::NamesOthers(const wire::Report& report, const wire::View* base) const {
  if (config_.hosted || recovery_.predecessors || now_ >= recovery_.at ||
      FTAR_MUTANT(kPromisedUnawaited))
    return false;
  if (report.promised <= (base ? base->epoch : 0) || epochs_.MadeHere(report.promised))
    return false;
  return std::ranges::any_of(report.promised_members, [&](MemberId id) {
    return !(base && base->Find(id)) && !Find(id) && !recovery_.told.contains(id) &&
           !recovery_.proven_dead.contains(id) && !graveyard_.Find(id);
  });
}

bool CoordinatorMachine::AwaitsPromised(const wire::View* base) const {
  return std::any_of(peers_.begin(), peers_.end(),
                     [&](const auto& entry) { return NamesOthers(entry.second.report, base); }) ||
         std::any_of(recovery_.told.begin(), recovery_.told.end(),
                     [&](const auto& entry) { return NamesOthers(entry.second, base); });
}

void CoordinatorMachine::TryRecover() {
  // While this process stood still nobody could come.
  if (detector_.JustWoke()) recovery_.at = std::max(recovery_.at, now_ + timeout_ns_);
  const wire::View* const base = RecoveryBase();
  if (!base) {
    const bool hope = AwaitsPromised(nullptr) ||
                      std::any_of(peers_.begin(), peers_.end(),
                                  [](const auto& entry) { return entry.second.viewless(); });
    if (!hope || now_ >= recovery_.at) GiveUpRecovery();
    return;
  }
  std::map<MemberId, Epoch> left_out = LeftOut(*base);
  const auto known =
      std::count_if(base->entries.begin(), base->entries.end(), [&](const wire::ViewEntry& entry) {
        const MemberId id = entry.card.id;
        return Find(id) || recovery_.proven_dead.contains(id) || left_out.contains(id);
      });
  const auto all = static_cast<std::ptrdiff_t>(base->entries.size());
  const bool complete = known == all && !AwaitsPromised(base);
  if (AwaitsQuorum(*base, &left_out)) return;
  // Nobody here has ever been in: there is nothing to go on with, unless others come. Who is behind
  // a relay that cannot show their view has been, and another one has shown it.
  const bool anybody_in =
      AnybodyReports() || std::ranges::any_of(peers_, [base](const auto& entry) {
        return entry.second.viewless() && base->Find(entry.first);
      });
  if (!anybody_in) {
    if (complete || now_ >= recovery_.at) GiveUpRecovery();
    return;
  }
  // Those who are here may be the ones whom the others have gone on without, or this side is cut
  // off from most.
  if (!complete && 2 * known < all && now_ >= recovery_.at && now_ < recovery_.until) {
    recovery_.at += timeout_ns_;
  }
  if (complete || now_ >= recovery_.at || FTAR_MUTANT(kSuspectsAtOnce))
    FinishRecovery(*base, left_out);
}

// All reporters are gone again, or none has come in time for those who want to begin.
void CoordinatorMachine::GiveUpRecovery() {
  recovery_.under_way = false;
  recovery_.predecessors_late = true;
  EvictStrangers({});
  ForgetBroken({});
  recovery_.evidence.clear();
  recovery_.verdict_asked = false;
  if (peers_.empty()) reference_.reset();  // of those who are gone again
  roster_changed_ = true;
}

void CoordinatorMachine::FinishRecovery(wire::View base,
                                        const std::map<MemberId, Epoch>& left_out) {
  recovery_.under_way = false;
  recovery_.at = kNever;
  no_quorum_.Stay();
  if (config_.hosted) seat_.electorates = ReportedElectorates();
  epochs_.TakeHeardIntoAccount();
  suspects_.ExpectTrouble(now_);  // all have just come
  bool settled = true;  // everybody holds the base and has promised nothing above it
  for (auto& [id, peer] : peers_) {
    if (!base.Find(id)) continue;
    peer.installed = peer.report.installed_by_all();
    settled = settled && peer.installed == base.epoch && peer.report.promised <= base.epoch;
  }
  EvictStrangers(base);
  BecomeMembers(base);
  ForgetOldElectorates();
  // J1: its announcement, or Install, may have been on its way when the coordinator was lost. An
  // end that one column knows binds the replica in all of them; leaders who know none choose one.
  for (const wire::ViewEntry& entry : base.entries) {
    if (entry.leaves() && Find(entry.card.id)) draft_.leavers.insert(entry.card.id);
  }
  LoseAbsent(base, left_out);
  ForgetBroken(base);
  TurnRevokedAway();
  // A relay that was lost as well: who has taken over knows its members, and nobody else's.
  for (const auto& [id, peer] : peers_) {
    if (!peer.roster.empty() && !peer.report.installed_view) SendRosters(peer);
  }
  if (!config_.hosted) recovery_.proven_dead.clear();
  for (const auto& [reporter, evidence] : std::exchange(recovery_.evidence, {})) {
    if (Peer* from = Find(reporter)) OnEvidence(*from, evidence);
  }
  const bool ends_a_wait = no_quorum_.End();  // members are told by a Prepare
  change_due_ =
      change_due_ || !settled || std::exchange(recovery_.verdict_asked, false) || ends_a_wait;
  Tell(LogLevel::kInfo, "the coordinator was restarted: view " +
                            std::to_string(EpochCounter(base.epoch)) +
                            (change_due_ ? " needs a change" : " goes on unchanged"));
  roster_changed_ = true;
}

// Where all leave no view says so (ReleaseAll): who is away then very likely has gone.
bool CoordinatorMachine::AllAreGoing(const wire::View& base) const {
  bool any = false;
  for (const wire::ViewEntry& entry : base.entries) {
    const Peer* peer = Find(entry.card.id);
    if (peer && !peer->leave_ready) return false;
    any = any || peer;
  }
  return any && !FTAR_MUTANT(kGoneWithAllLost);
}

// First those who are out for good, then those who may come yet if a quorum is lacking: a replica
// is lost for the reason that is heard first.
void CoordinatorMachine::LoseAbsent(const wire::View& base,
                                    const std::map<MemberId, Epoch>& left_out) {
  const bool all_go = AllAreGoing(base);
  const auto goes_as_planned = [&](const wire::ViewEntry& entry) {
    return !Find(entry.card.id) && (all_go || entry.leaves());
  };
  for (const wire::ViewEntry& entry : base.entries) {
    const MemberId id = entry.card.id;
    const auto proof = recovery_.proven_dead.find(id);
    const auto out = left_out.find(id);
    if (proof != recovery_.proven_dead.end()) {
      Lose(id, Code::kPeer, kProofStage, proof->second);
    } else if (out != left_out.end() && (!goes_as_planned(entry) || FTAR_MUTANT(kGoneLeaverLost))) {
      const Peer* peer = Find(id);
      const std::string epoch = "epoch " + std::to_string(EpochCounter(out->second));
      const bool promised_it = peer && !peer->told_to_go && peer->report.promised == out->second;
      Lose(id, Code::kEvicted, "earlier change",
           promised_it ? "has promised " + epoch + ", which leaves out others who go on"
                       : "was left out of " + epoch + ", which others have promised");
    }
  }
  for (const wire::ViewEntry& entry : base.entries) {
    const MemberId id = entry.card.id;
    const bool gone = goes_as_planned(entry);
    if (Find(id) || recovery_.proven_dead.contains(id) || (left_out.contains(id) && !gone))
      continue;
    Peer& peer = peers_[id];  // missed also when only its mates come back
    peer.card = entry.card;
    peer.state = State::kMember;
    // Had been given its end, and has very likely gone as planned. If not, others wait for it: so
    // all are asked to go on without it.
    if (gone) {
      peer.departed = true;
      if (!FTAR_MUTANT(kGoneLeaverAwaited)) change_due_ = true;
    } else {
      Lose(id, Code::kPeer, "control connection",
           config_.hosted ? "it did not come to the member that coordinates now"
                          : "it did not come back to the restarted coordinator");
    }
  }
}

// Members of an older view that the others have gone on without.
void CoordinatorMachine::EvictStrangers(const wire::View& base) {
  std::vector<MemberId> strangers;
  for (const auto& [id, peer] : peers_) {
    const bool holds_a_view =
        peer.state == State::kReporting || (peer.state == State::kWaiting && peer.viewless());
    if (holds_a_view && !base.Find(id)) strangers.push_back(id);
  }
  for (MemberId id : strangers) {
    Peer& peer = *Find(id);
    const wire::Loss reason =
        wire::LossOf(peer.card, Code::kEvicted, "earlier change",
                     Describe(peer.card) + " is not in the view that the others hold");
    graveyard_.Bury(id, reason);
    Evict(peer, {base.epoch, reason});
    peers_.erase(id);
  }
}

// Units of newcomers that have lost somebody meanwhile: others wait for their places, and for links
// that nobody will make.
void CoordinatorMachine::ForgetBroken(const wire::View& base) {
  std::vector<MemberId> broken;
  for (const auto& [id, peer] : peers_) {
    if (!peer.roster.empty() && recovery_.proven_dead.contains(id) && !base.Find(id) &&
        !FTAR_MUTANT(kRelayBrokenKept))
      broken.push_back(id);
  }
  for (MemberId id : broken) {
    Close(*Find(id));
    ForgetNewcomer(id);
  }
}

// ---- the record ----

// What a successor has to know before anybody else hears of it.
void CoordinatorMachine::Record(Epoch epoch, const wire::View* view) {
  if (record_.epoch == epoch && record_.view.has_value() == (view != nullptr)) return;
  if (reference_) record_.job = reference_->job;
  record_.epoch = epoch;
  record_.view.reset();
  if (view) record_.view = *view;
  ready_.record = record_;
}

// Q3: the others have gone on without whoever holds the recorded view or an older one and is not in
// it; or the job has ended for all of them.
bool CoordinatorMachine::OutByRecord(const wire::Hello& hello) const {
  return hello.report.installed_view->epoch <= record_.epoch &&
         !(record_.view && record_.view->Find(hello.card.id));
}

// Q3: a newcomer that has promised what another coordinator sent, and never heard the end of it.
// The others may have formed that view, and gone on without it: then they have closed their links
// to it for good.
bool CoordinatorMachine::MayBeRevoked(const wire::Report& report) const {
  const bool newcomer = report.promised != 0 && report.installed == 0;
  return newcomer && current_ && report.promised < current_->epoch &&
         !epochs_.MadeHere(report.promised) && !FTAR_MUTANT(kRevokedMayJoin);
}

// Who has come before it was known which view goes on.
void CoordinatorMachine::TurnRevokedAway() {
  std::vector<MemberId> revoked;
  for (const auto& [id, peer] : peers_) {
    const bool waits = peer.state == State::kWaiting || peer.state == State::kNewcomer;
    if (waits && MayBeRevoked(peer.report)) revoked.push_back(id);
  }
  for (const MemberId id : revoked)
    RejectNewcomer(id, "it had promised a view, and lost its coordinator since; it may come anew",
                   Code::kPeer);
}

// Newcomers fill all places, and nobody of the recorded view has come in time: another job begins,
// and who comes later is out.
void CoordinatorMachine::EndRecorded() {
  recovery_.predecessors = false;
  Tell(LogLevel::kWarn, "nobody has come back who held view " +
                            std::to_string(EpochCounter(record_.epoch)) + "; the job begins anew");
  Record(epochs_.Next(), nullptr);
  ready_.ended = true;
}

}  // namespace ftar::membership
