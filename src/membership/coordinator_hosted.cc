// A coordinator that lives in a member's process: it can be replaced at any time, also while it is
// alive and merely unheard. So it goes on only with a quorum (rule Q4), and gives way to whoever
// has gone on above it (rule Q5). Taking over is coordinator_recovery.cc's work, as after a
// restart.
#include <algorithm>
#include <utility>

#include "base/mutant.h"
#include "membership/coordinator_machine.h"

namespace ftar::membership {
namespace {

// Without a quorum: in timeouts, until it makes room for one who may be heard by more.
constexpr int kPatience = 2;
// A process that leaves waits some seconds at most for its coordinator to be replaced.
constexpr TimeNs kGoodbyesMax = 1 * kSecond;

}  // namespace

// `base`: the view that tells which members a replica has.
QuorumAnswer CoordinatorMachine::AskQuorum(const std::set<MemberId>& survivors, size_t replicas,
                                           const wire::View& base) const {
  QuorumQuestion question;
  question.survivors = survivors;
  question.replicas = replicas;
  question.min_replicas = reference_ ? reference_->min_replicas : 1;
  question.needs_majority = config_.hosted;
  const Electorates electorates = recovery_.under_way ? ReportedElectorates() : seat_.electorates;
  for (const wire::Electorate& electorate : electorates.all())
    question.bases.push_back(electorate.replicas);
  std::set<MemberId> counts = seat_.witnessed;
  if (FTAR_MUTANT(kAnyProofCounts)) {
    for (const auto& [id, proof] : recovery_.proven_dead) counts.insert(id);
  }
  for (const MemberId first : base.Successors()) {
    const int32_t replica = base.Find(first)->card.replica;
    const bool dead =
        std::all_of(base.entries.begin(), base.entries.end(), [&](const wire::ViewEntry& entry) {
          return entry.card.replica != replica || counts.contains(entry.card.id);
        });
    if (dead) question.proven_dead.insert(first);
  }
  // Who had been lost before the base was made is not in it. Of a replica with other processes it
  // is not known here whether they have ended, too.
  for (const std::vector<MemberId>& earlier : question.bases) {
    for (const MemberId id : earlier) {
      const bool whole = reference_ && reference_->shards == 1;
      if (whole && !base.Find(id) && counts.contains(id)) question.proven_dead.insert(id);
    }
  }
  return membership::HasQuorum(question);
}

void CoordinatorMachine::TellNoQuorum(const std::string& why) {
  if (config_.hosted) no_quorum_.StandDownBy(now_ + kPatience * timeout_ns_);
  const bool news = no_quorum_.Begin(why);
  std::vector<MemberId> all;
  for (auto& [id, peer] : peers_) {
    const bool in = peer.state == State::kMember || peer.state == State::kReporting;
    if (in && peer.conn != 0 && no_quorum_.IsToHear(peer.conn)) all.push_back(id);
  }
  Multicast(all, wire::NoQuorum{why});
  if (news) Tell(LogLevel::kError, "no quorum: " + why);
}

// Counted over the replicas of `base` that are here whole without `left_out`.
QuorumAnswer CoordinatorMachine::QuorumWithout(const wire::View& base,
                                               const std::map<MemberId, Epoch>& left_out) const {
  std::set<MemberId> heard;
  std::set<int32_t> replicas, broken;
  for (const wire::ViewEntry& entry : base.entries) {
    const bool gone = entry.leaves() && (!Find(entry.card.id) || FTAR_MUTANT(kLeaversCountAsGone));
    const bool here = Find(entry.card.id) && !left_out.contains(entry.card.id);
    if (!here && !gone) broken.insert(entry.card.replica);
  }
  for (const wire::ViewEntry& entry : base.entries) {
    const bool here = Find(entry.card.id) && !left_out.contains(entry.card.id);
    if (!here || broken.contains(entry.card.replica)) continue;
    heard.insert(entry.card.id);
    replicas.insert(entry.card.replica);
  }
  return AskQuorum(heard, replicas.size(), base);
}

// Q3 binds those who have promised, and nobody else: if they have lost so many that they are no
// majority, those whom they had promised to leave out may go on without them. Their Prepare comes
// to nothing then: in every majority is somebody who has not promised it and promises a later one.
// Tried in turn: all without whoever has promised to leave one of them out, and each promise's own.
bool CoordinatorMachine::LeaveOutThePromised(const wire::View& base,
                                             std::map<MemberId, Epoch>* left_out) const {
  const std::map<MemberId, Epoch> always_out = OutByConsent(base);
  std::vector<const Peer*> here;
  std::map<Epoch, std::set<MemberId>> promises;
  for (const wire::ViewEntry& entry : base.entries) {
    const Peer* peer = Find(entry.card.id);
    if (!peer || always_out.contains(entry.card.id)) continue;
    here.push_back(peer);
    const std::vector<MemberId>& named = peer->report.promised_members;
    if (PromisedAbove(base, peer->report))
      promises[peer->report.promised] = {named.begin(), named.end()};
  }
  const auto try_side = [&](Epoch epoch) {
    std::map<MemberId, Epoch> out = always_out;
    std::vector<const Peer*> side;
    for (const Peer* peer : here) {
      if (epoch == 0 || promises[epoch].contains(peer->card.id))
        side.push_back(peer);
      else
        out.insert({peer->card.id, epoch});
    }
    std::set<Epoch> narrow;  // promises that leave somebody of this side out
    for (const auto& [promised, named] : promises) {
      const auto in = [&named](const Peer* peer) { return named.contains(peer->card.id); };
      if (!std::ranges::all_of(side, in)) narrow.insert(promised);
    }
    for (const Peer* peer : side) {
      const Epoch promised = peer->report.promised;
      if (narrow.contains(promised) && PromisedAbove(base, peer->report))
        out.insert({peer->card.id, promised});
    }
    if (!QuorumWithout(base, out).granted) return false;
    *left_out = std::move(out);
    return true;
  };
  if (try_side(0)) return true;
  return std::ranges::any_of(promises, [&](const auto& entry) { return try_side(entry.first); });
}

// Who has been left out by all that was promised and is here can go on with nobody any more. If the
// others would have a quorum once it has consented, it is told so.
void CoordinatorMachine::AskToGo(const wire::View& base,
                                 const std::map<MemberId, Epoch>& left_out) {
  std::set<MemberId> asked = recovery_.consents;
  for (const auto& [id, epoch] : left_out) {
    if (Find(id)) asked.insert(id);
  }
  asked.swap(recovery_.consents);
  const bool helps = QuorumWithout(base, left_out).granted;
  asked.swap(recovery_.consents);
  if (!helps) return;
  for (const MemberId id : asked) {
    Peer* peer = recovery_.consents.contains(id) ? nullptr : Find(id);
    if (!peer || std::exchange(peer->told_to_go, true)) continue;
    const std::string epoch = "epoch " + std::to_string(EpochCounter(left_out.at(id)));
    const std::string text =
        Describe(peer->card) + " was left out of " + epoch + ", which others have promised";
    Tell(LogLevel::kWarn, text + "; it is told so");
    Send(*peer,
         wire::Evicted{base.epoch, wire::LossOf(peer->card, Code::kEvicted, "earlier change", text),
                       true});
  }
}

// A successor evicts nobody before it may act at all: those who are away belong to the job still.
bool CoordinatorMachine::AwaitsQuorum(const wire::View& base, std::map<MemberId, Epoch>* left_out) {
  if (!config_.hosted) return false;
  const QuorumAnswer answer = QuorumWithout(base, *left_out);
  const bool all_known = std::ranges::all_of(base.entries, [this](const wire::ViewEntry& entry) {
    return Find(entry.card.id) || recovery_.proven_dead.contains(entry.card.id);
  });
  const bool late = all_known || now_ >= recovery_.at;
  const bool granted = answer.granted || FTAR_MUTANT(kReportsNotAwaited);
  if (granted || (late && !FTAR_MUTANT(kPromisedAlone) && LeaveOutThePromised(base, left_out))) {
    no_quorum_.Stay();  // those who have come would find the seat empty, and come again
    return false;
  }
  if (!late) {
    if (no_quorum_.lacking()) TellNoQuorum(answer.text);  // to those who have come since
    return true;
  }
  const bool waited = all_known || no_quorum_.lacking();
  if (waited && !FTAR_MUTANT(kPromisedAlone)) AskToGo(base, *left_out);
  recovery_.at = now_ + timeout_ns_;
  TellNoQuorum(answer.text);
  return true;
}

// Q4, joint: the highest view that somebody heard knows formed, and what came later and somebody
// heard has installed.
Electorates CoordinatorMachine::ReportedElectorates() const {
  Electorates all;
  Epoch formed = 0;
  const auto hear = [&](const wire::Report& report) {
    if (!report.installed_view) return;
    formed = std::max(formed, report.formed);
    all.AddReported(*report.installed_view);
  };
  for (const auto& [id, peer] : peers_) hear(peer.report);
  for (const auto& [id, report] : recovery_.told) hear(report);
  for (const MemberId id : recovery_.consents) all.Consent(id);
  all.ForgetBelow(formed);
  if (FTAR_MUTANT(kInstalledBaseAlone) && !all.all().empty())
    all.ForgetBelow(all.all().back().epoch);
  return all;
}

// All members hold the current view: from now on nobody goes on from an older one.
bool CoordinatorMachine::Formed() const {
  if (!config_.hosted || !current_) return false;
  return std::all_of(current_->entries.begin(), current_->entries.end(),
                     [this](const wire::ViewEntry& entry) {
                       const Peer* peer = Find(entry.card.id);
                       return peer && (peer->departed || peer->installed >= current_->epoch);
                     });
}

// Once the current view is formed what came before it does not count any more.
void CoordinatorMachine::ForgetOldElectorates() {
  if (Formed()) seat_.electorates.ForgetBelow(current_->epoch);
}

// A death that was seen while the dead one still followed this coordinator, or had just lost it.
void CoordinatorMachine::Witness(MemberId dead) {
  const Peer* peer = Find(dead);
  const Suspects::Suspicion* const suspicion = suspects_.Find(dead);
  const bool just_lost = suspicion && now_ - suspicion->since <= config_.cluster_ns / 2;
  recovery_.proven_dead.insert({dead, "its process has exited"});
  // While this process stood still others may have gone on without it.
  const bool awake = !detector_.JustWoke() || FTAR_MUTANT(kLedAsleep);
  if (awake && ((peer && peer->conn != 0) || just_lost)) seat_.witnessed.insert(dead);
  // It may be what the quorum lacked.
  change_due_ = change_due_ || (no_quorum_.lacking() && lost_.contains(dead));
}

// Who is out and lives is told so. But its connection may have been lost a moment ago; then it does
// not hear that, and proof of our deaths counts for it yet (SuccessionConfig::grace_ns). So no view
// without it is made before that time is over. Whose connection is known to be closed has been
// waited for as long; who gave up takes nothing over, nor does who has lost its replica.
bool CoordinatorMachine::MayTakeOver(MemberId lost, const wire::Loss& loss) const {
  const Peer* peer = Find(lost);
  const bool heard = suspects_.Find(lost) || (peer && peer->conn != 0);
  return config_.hosted && heard && !recovery_.proven_dead.contains(lost) &&
         loss.stage != kSelfReportStage && loss.stage != "replica" &&
         !FTAR_MUTANT(kInstallsUnheard);
}

// Somebody has installed, or a member has promised, what another coordinator has made: that one
// goes on. What others have promised, strangers and newcomers, binds nobody; nor does a plan made
// in an era before this one, of which they alone have heard: whoever plans in this era, or has
// begun another, is one who has taken over.
bool CoordinatorMachine::Overtaken(MemberId from, const wire::Report& report) {
  const bool member = current_ && Alive(from);
  const Epoch heard = member ? std::max(report.promised, report.installed) : report.installed;
  if (!config_.hosted || recovery_.under_way || !current_ || !epochs_.IsAnothers(heard))
    return false;
  const bool of_the_past = report.installed_view && !Newer(*report.installed_view, *current_);
  if (!member && of_the_past && !FTAR_MUTANT(kPlanOfThePastOvertakes)) return false;
  StandDown("another has numbered epoch " + std::to_string(EpochCounter(heard)));
  return true;
}

// Who hears that it is out promises nothing any more, and says goodbye: it consents, too. So a
// majority is counted of those alone who can still go on (Q5).
void CoordinatorMachine::Evict(Peer& peer, wire::Evicted message) {
  if (peer.conn == 0) return;
  TellEvicted(peer.conn, peer.report, std::move(message));
  conns_.erase(peer.conn);
  peer.conn = 0;
}

void CoordinatorMachine::TellEvicted(ConnId conn, const wire::Report& report,
                                     wire::Evicted message) {
  message.awaits_goodbye = config_.hosted;
  if (config_.hosted)
    seat_.parting[conn] = {message.reason.member, report, now_ + timeout_ns_};
  else
    ready_.close.push_back(conn);
  ready_.messages.push_back({{conn}, std::move(message)});
}

void CoordinatorMachine::CloseSilentParting() {
  std::erase_if(seat_.parting, [this](const auto& entry) {
    const bool silent = entry.second.until <= now_;
    if (silent) ready_.close.push_back(entry.first);
    return silent;
  });
}

void CoordinatorMachine::OnParted(ConnId conn) {
  const Parting parting = seat_.parting.extract(conn).mapped();
  ready_.close.push_back(conn);
  if (recovery_.under_way) {
    recovery_.told[parting.id] = parting.report;
    recovery_.consents.insert(parting.id);
  } else if (MayConsent(parting.id, parting.report, parting.report.installed)) {
    seat_.electorates.Consent(parting.id);
    change_due_ = change_due_ || no_quorum_.lacking();
  }
}

// What it has promised another coordinator, and holds no view of, would have to be kept: that is
// left to who collects reports anew. `installed`: the latest that it is known to hold.
bool CoordinatorMachine::MayConsent(MemberId id, const wire::Report& report,
                                    Epoch installed) const {
  return report.installed <= seat_.electorates.Counting(id) &&
         (report.promised <= installed || epochs_.MadeHere(report.promised));
}

void CoordinatorMachine::On(const Retire&) {
  if (std::exchange(seat_.retiring, true)) return;
  seat_.goodbyes_until = now_ + std::min(timeout_ns_ / 2, kGoodbyesMax);
}

// Q5: a replica that has left as planned counts as away for whoever takes over, until a view is
// made without it. Who retires makes one anyway, see TryHandOver; where all leave none is needed.
bool CoordinatorMachine::KeepsTheGone() const {
  if (!config_.hosted || seat_.retiring || !AnybodyStays(AskedToLeave())) return false;
  std::set<int32_t> here, gone;
  for (const wire::ViewEntry& entry : current_->entries)
    (Alive(entry.card.id) ? here : gone).insert(entry.card.replica);
  return !FTAR_MUTANT(kGoneCountAsAway) && !std::ranges::includes(here, gone);
}

// Members that have gone would count as away for whoever takes over, and of two one would be left
// without a majority. So this one still makes the view without them, sees that all hold it, tells
// them that, and only then gives way. Whose end is as near as its own had been it waits for: a
// goodbye that is under way meanwhile would be heard by nobody.
void CoordinatorMachine::TryHandOver() {
  if ((!current_ && !recovery_.under_way) || FTAR_MUTANT(kLeavesUnreplaced))
    return StandDown("its own member has gone");
  if (recovery_.under_way || change_ || plan_ || !lost_.empty() || change_due_) return;
  const wire::View& view = *current_;
  if (view.Find(config_.self) && Alive(config_.self)) return;  // it has not said so here yet
  if (!AnybodyIn()) return StandDown("all members have left");
  change_due_ = std::any_of(view.entries.begin(), view.entries.end(),
                            [this](const auto& entry) { return !Alive(entry.card.id); });
  if (change_due_ || (!Formed() && !FTAR_MUTANT(kHandsOverUnheld))) return;
  const bool leaves = std::ranges::any_of(view.entries, &wire::ViewEntry::leaves);
  if (leaves && now_ < seat_.goodbyes_until && !FTAR_MUTANT(kGoodbyesUnawaited)) return;
  Beat();
  const auto stays = std::ranges::find(view.entries, false, &wire::ViewEntry::leaves);
  const wire::MemberCard& next = (stays == view.entries.end() ? view.entries.front() : *stays).card;
  std::vector<MemberId> all;
  for (const auto& [id, peer] : peers_) all.push_back(id);
  Multicast(all, wire::Redirect{view.epoch, next.id, next.addresses, false, true});
  seat_.handed_over = true;
  StandDown("it hands over to " + Describe(next));
}

void CoordinatorMachine::StandDown(const std::string& why) {
  if (std::exchange(seat_.stood_down, true)) return;
  Tell(seat_.retiring ? LogLevel::kInfo : LogLevel::kWarn,
       "this member coordinates no longer: " + why);
  ready_.stand_down = true;
}

}  // namespace ftar::membership
