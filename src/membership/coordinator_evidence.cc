// Who is out, and why: connections, proofs, links, heartbeats, operators (design 5, rules Q7 and
// Q8). Everything ends in Lose(), which takes the whole replica and leaves the change to be started
// when the event has been worked off.
#include <algorithm>
#include <utility>

#include "membership/coordinator_machine.h"

#include "base/knob_value.h"
#include "base/mutant.h"

namespace ftar::membership {
namespace {

std::string With(std::string text, const std::string& detail) {
  return detail.empty() ? text : std::move(text) + ": " + detail;
}

}  // namespace

// While it is being announced; null else. Somebody may have heard of it, and act by it.
const wire::View* CoordinatorMachine::AnnouncedView() const {
  return plan_ && plan_->stage == Plan::Stage::kAnnouncing ? &plan_->view : nullptr;
}

const wire::ViewEntry* CoordinatorMachine::EntryOf(MemberId id) const {
  if (const auto place = places_.find(id); place != places_.end())
    return &current_->entries[place->second];
  const wire::View* const announced = AnnouncedView();
  return announced ? announced->Find(id) : nullptr;
}

bool CoordinatorMachine::Alive(MemberId id) const {
  if (!EntryOf(id) || lost_.contains(id)) return false;
  const Peer* peer = Find(id);
  return !peer || !peer->departed;
}

// Is being taken in: a link that it loses now is missed as soon as it is a member.
bool CoordinatorMachine::Entering(MemberId id) const {
  const Peer* peer = Find(id);
  return peer && peer->state == State::kNewcomer &&
         ((plan_ && plan_->newcomers.contains(id)) || draft_.newcomers.contains(id));
}

// Also who is lost while a quorum is lacking: it may be taken back, and its links are not.
bool CoordinatorMachine::MayLackLinks(MemberId id) const {
  return Alive(id) || Entering(id) || (EntryOf(id) && lost_.contains(id));
}

bool CoordinatorMachine::Leaving(MemberId id) const {
  const wire::ViewEntry* entry = EntryOf(id);
  // A column may have been told of its end, and have released it, before the others have.
  const wire::View* const announced = AnnouncedView();
  if (announced && announced->Find(id) && !FTAR_MUTANT(kEarlyLeaverLost))
    entry = announced->Find(id);
  return entry && entry->leaves();
}

bool CoordinatorMachine::AnybodyIn() const {
  return std::any_of(current_->entries.begin(), current_->entries.end(),
                     [this](const wire::ViewEntry& entry) { return Alive(entry.card.id); });
}

int64_t CoordinatorMachine::AgeOf(MemberId id) const { return detector_.SilentFor(id); }

// ---- losing ----

void CoordinatorMachine::LoseOne(const wire::ViewEntry& entry, wire::Loss loss) {
  if (MayTakeOver(entry.card.id, loss)) seat_.unheard_until = now_ + config_.cluster_ns;
  loss.Name(entry.card);
  suspects_.Drop(entry.card.id);
  Tell(LogLevel::kWarn, "lost [" + loss.stage + "] " + loss.text);
  if (FTAR_MUTANT(kLossIsConsent)) seat_.electorates.Consent(entry.card.id);
  lost_.insert({entry.card.id, std::move(loss)});
  // Its place is free, and newcomers may bring a lost quorum back.
  change_due_ = roster_changed_ = true;
}

// Whole replicas leave, in all groups at once: a model copy with a hole is of no use.
bool CoordinatorMachine::Lose(MemberId id, Code cause, std::string stage, std::string text,
                              int64_t age_ns, Seq seq) {
  const wire::ViewEntry* culprit = EntryOf(id);
  if (!culprit || !Alive(id)) return false;
  if (Peer* peer = Find(id); peer && peer->released) {  // nobody needs it any more
    Depart(*peer);
    return false;
  }
  wire::Loss loss;
  loss.cause = cause;
  loss.stage = std::move(stage);
  loss.text = Describe(culprit->card) + ": " + std::move(text);
  loss.last_progress_ns = age_ns;
  loss.seq = seq;
  const wire::MemberCard card = culprit->card;
  LoseOne(*culprit, loss);
  if (FTAR_MUTANT(kHalfReplicaStays)) return true;
  for (const wire::View* view : {current_ ? &*current_ : nullptr, plan_ ? &plan_->view : nullptr}) {
    if (!view) continue;
    for (const wire::ViewEntry& entry : view->entries) {
      if (entry.card.replica != card.replica || !Alive(entry.card.id)) continue;
      wire::Loss mate = loss;
      mate.stage = "replica";
      mate.text = Describe(entry.card) + " goes with its replica: " + loss.text;
      mate.last_progress_ns = 0;
      mate.seq = kNoSeq;
      LoseOne(entry, std::move(mate));
    }
  }
  return true;
}

// ---- connections ----

// A control connection has closed. Alone it is evidence enough; together with many others it says
// more about this side (Q7).
void CoordinatorMachine::OnLost(Peer& peer, const Disconnected& event) {
  const MemberId id = peer.card.id;
  if (!Alive(id)) return;
  if (peer.released) return Depart(peer);
  suspects_.OnClosed(
      now_, id,
      {With("its connection to the coordinator closed", event.text), LinksOf(id), event.reset,
       !peer.roster.empty() || detector_.JustWoke(), detector_.Grace()});
}

// What it says itself shows that it lived.
Suspects::Links CoordinatorMachine::LinksOf(MemberId id) const {
  using Links = Suspects::Links;
  const Peer* const peer = Find(id);
  if (!peer) return Links::kUnknown;
  size_t here = 0, lost = 0;
  for (const auto& [other_id, other] : peers_) {
    if (other.state != State::kMember || other.card.shard != peer->card.shard || other.conn == 0 ||
        other_id == id || !Alive(other_id))
      continue;
    ++here;
    if (edges_.Reported(other_id, id)) ++lost;
  }
  return lost < here ? Links::kSome : here > 0 ? Links::kNone : Links::kNobodyTells;
}

void CoordinatorMachine::HastenSuspicion(MemberId id) {
  const Peer* peer = Find(id);
  if (peer && suspects_.PutOff(now_, id, !peer->roster.empty()) &&
      LinksOf(id) == Suspects::Links::kNone)
    suspects_.Hasten(now_, id);
}

// Every replica that is left lacks a suspect, or somebody of `silent`: if these are lost the job
// ends, and nobody waits for that.
bool CoordinatorMachine::NoneWhole(const std::vector<MemberId>& silent) const {
  if (!current_ || FTAR_MUTANT(kEndsInHaste)) return false;
  std::set<int32_t> lacking;
  const auto add = [&](MemberId id) {
    if (const wire::ViewEntry* const entry = EntryOf(id)) lacking.insert(entry->card.replica);
  };
  std::ranges::for_each(suspects_.Ids(), add);
  std::ranges::for_each(silent, add);
  return std::ranges::all_of(current_->entries, [&](const wire::ViewEntry& entry) {
    return !Alive(entry.card.id) || lacking.contains(entry.card.replica);
  });
}

Suspects::Census CoordinatorMachine::TakeCensus(const Suspects::Due& due) {
  Suspects::Census census;
  bool anybody_here = false, expects_words = false;
  for (const auto& [id, peer] : peers_) {
    // Cut off from it, this side sees a connection that nothing comes on. Newcomers say nothing
    // while they wait: who has come a moment ago shows that there is a way here.
    const TimeNs silent =
        peer.state == State::kMember ? detector_.SilentFor(id) : now_ - peer.heard_ns;
    const bool mute = silent >= timeout_ns_ / 4 && !FTAR_MUTANT(kMuteConnectionsCount);
    const bool here = peer.conn != 0 && !mute;
    anybody_here = anybody_here || here;
    if (peer.state != State::kMember || !Alive(id)) continue;
    ++census.members;
    // Who is back already was cut off as well; the others get their time by that once.
    const bool was_away =
        due.fresh && peer.closed_ns != 0 && peer.closed_ns + config_.cluster_ns >= due.since;
    if (!here || was_away) ++census.closed;
    expects_words = expects_words || peer.conn != 0;
  }
  const size_t newcomers = suspects_.NewcomersClosed(now_, due.since);
  census.closed += newcomers;
  census.all = census.members + newcomers;
  const bool deaf = expects_words && detector_.Deaf() && !FTAR_MUTANT(kCutOffIsDeath);
  census.alone = (!anybody_here || deaf) && census.members > 1;
  census.ends = NoneWhole({});
  return census;
}

void CoordinatorMachine::JudgeSuspects() {
  const Suspects::Due due = suspects_.DueAt(now_);
  if (due.ids.empty()) return;
  const Suspects::Census census = TakeCensus(due);
  bool told = false;
  for (MemberId id : due.ids) {
    const Suspects::Verdict verdict = suspects_.Judge(now_, id, LinksOf(id), census);
    if (verdict.lost) Lose(id, Code::kPeer, verdict.stage, verdict.text, AgeOf(id));
    if (!verdict.waits || std::exchange(told, true)) continue;
    Tell(LogLevel::kWarn, std::to_string(census.closed) + " of " + std::to_string(census.all) +
                              " connections closed at once; waiting whether they come back");
  }
}

void CoordinatorMachine::OnGoodbye(Peer& from, const wire::Goodbye& message) {
  const MemberId id = from.card.id;
  if (recovery_.under_way && !from.roster.empty()) {  // of a view that is not known yet
    recovery_.proven_dead[id] = message.text;
    return;
  }
  if (from.state != State::kMember) {
    if (from.state == State::kWaiting && message.code == Code::kTimeout) {
      // Tired of waiting for its place: told who holds it.
      from.since_ns = now_ - config_.place_wait_ns;
      return RejectOverdue();
    }
    // What it has told stands, as that of one whose connection ends (Q2, Q4). Who has left as
    // planned, or knows that it is out, consents to whatever the others decide (Q5, Q8).
    const bool left = message.code == Code::kLeft || message.code == Code::kEvicted;
    if (message.code == Code::kTimeout && !TellLateHolder(from) && !TellMissedLinks(from))
      TellMissingReplicas(from);
    if (message.code == Code::kTimeout && from.state == State::kNewcomer)
      absentees_.OnGaveUp(now_, from.card.replica);
    if (left || !config_.hosted) Remember(from);
    if (from.state == State::kReporting && left) recovery_.consents.insert(id);
    if (from.told_to_go) recovery_.at = now_;  // all had their time before it was asked
    Close(from);
    ForgetNewcomer(id);
    return;
  }
  // Who asked to leave and says so has been released, even if the announcement was told to nobody
  // here: its root had lost this coordinator in the middle of it.
  const bool asked =
      from.leave_requested && !FTAR_MUTANT(kUnannouncedLost) && !FTAR_MUTANT(kEarlyLeaverLost);
  if (message.code == Code::kLeft && (Leaving(id) || from.released || asked)) {
    return Depart(from);
  }
  // Q8: a member that ends otherwise than by verdict has left.
  if (MayConsent(id, from.report, std::max(from.installed, from.report.installed)))
    seat_.electorates.Consent(id);
  // A relay says who of those behind it is lost, and why.
  const bool relay = !from.roster.empty();
  Lose(id, message.code, kSelfReportStage,
       relay ? message.text : With("it gave up", message.text));
}

void CoordinatorMachine::Depart(Peer& peer) {
  const MemberId id = peer.card.id;
  peer.departed = true;
  if (peer.released) {  // the job may be over when it comes back
    wire::Loss let_go;
    let_go.cause = Code::kLeft;
    graveyard_.Bury(id, let_go);
  }
  suspects_.Drop(id);
  edges_.Forget(id);
  detector_.Forget(id);
  roster_changed_ = true;
  seat_.electorates.Consent(id);
  Tell(LogLevel::kInfo, Describe(peer.card) + " has left as planned");
  Close(peer);
  // It had gone before the Prepare reached it, and will not say where it stood.
  if (change_ || !lost_.empty()) change_due_ = true;
  plan_due_ = plan_due_ || config_.hosted;  // see KeepsTheGone
}

// ---- evidence ----

// Of links that are up again, and of whoever is being taken in. True: that is all there is to it.
bool CoordinatorMachine::HearOfNewcomers(Peer& from, const wire::Evidence& message) {
  const MemberId reporter = from.card.id, subject = message.subject;
  if (message.kind == wire::EvidenceKind::kLinkRestored) {
    if (!FTAR_MUTANT(kRestoredLinkCounts)) edges_.Remove(reporter, subject);
    from.links.insert(subject);
    roster_changed_ = true;  // a newcomer may have waited for this link
    return true;
  }
  // It will say so when the link is back. Also of somebody who is not here now: it may come back
  // before its link does.
  const bool kept = FTAR_MUTANT(kAwayLinkKept) && !Find(subject);
  if (message.kind == wire::EvidenceKind::kLinkLost && !kept) from.links.erase(subject);
  if (message.kind == wire::EvidenceKind::kLinkLost && from.state == State::kNewcomer) {
    from.linked = Linked(from);
    plan_due_ = true;
    if (Find(subject)) from.links_lost.insert_or_assign(subject, message.text);
    edges_.Add(now_, reporter, subject, message.text);  // counts if it is being taken in already
    return true;
  }
  if (Peer* newcomer = Find(subject); newcomer && newcomer->state == State::kNewcomer) {
    if (message.kind == wire::EvidenceKind::kLinkLost && from.state == State::kMember)
      edges_.Add(now_, reporter, subject, message.text);
    roster_changed_ = true;
    return EntryOf(subject) == nullptr;
  }
  return false;
}

void CoordinatorMachine::OnEvidence(Peer& from, const wire::Evidence& message) {
  const MemberId reporter = from.card.id, subject = message.subject;
  // Of a view that is not known yet, and said once a connection.
  if (recovery_.under_way && message.kind != wire::EvidenceKind::kProcessExited) {
    recovery_.evidence.push_back({reporter, message});
    return;
  }
  if (HearOfNewcomers(from, message)) return;
  if (recovery_.under_way && message.kind == wire::EvidenceKind::kProcessExited) {
    recovery_.proven_dead[subject] = "its process has exited, as " + Describe(from.card) + " says";
    return;
  }
  if (config_.hosted && message.kind == wire::EvidenceKind::kProcessExited) Witness(subject);
  if (message.kind == wire::EvidenceKind::kLinkLost) {
    const wire::ViewEntry *a = EntryOf(reporter), *b = EntryOf(subject);
    if (a && b && a->card.replica != b->card.replica && MayLackLinks(reporter) &&
        MayLackLinks(subject))
      edges_.Add(now_, reporter, subject, message.text);
    return HastenSuspicion(subject);
  }
  if (!Alive(subject)) return;
  const std::string as_seen = ", as " + Describe(from.card) + " says";
  switch (message.kind) {
    case wire::EvidenceKind::kProcessExited: {
      const std::string text = "its process has exited" + as_seen;
      if (Leaving(subject) && Find(subject) && Find(subject)->conn != 0) {
        // A released leaver exits right behind its Goodbye, which travels on another connection.
        suspects_.Await(now_, subject, timeout_ns_ / 4, kProofStage, text);
        return;
      }
      Lose(subject, Code::kPeer, kProofStage, text, message.last_progress_ns);
      return;
    }
    case wire::EvidenceKind::kSelfReport:
      if (subject == reporter)
        Lose(subject, message.code, kSelfReportStage, With("it reported itself", message.text));
      return;
    case wire::EvidenceKind::kOperator:
      Lose(subject, Code::kEvicted, "operator", With("evicted", message.text) + as_seen,
           AgeOf(subject));
      return;
    case wire::EvidenceKind::kDeadline:
      if (Alive(reporter)) overdue_[{reporter, subject}] = message;
      return;
    case wire::EvidenceKind::kLinkLost:
    case wire::EvidenceKind::kLinkRestored: return;
  }
}

// Q7: evidence by link is an edge between two who both say they live. Evict the fewest replicas
// that cover all edges, first one that the coordinator cannot reach, then the higher rank; one at a
// time, since each eviction may explain the other edges.
void CoordinatorMachine::JudgeLinks() {
  const TimeNs stands = timeout_ns_ / 10;
  if (edges_.empty() || edges_.oldest_ns() + stands > now_ || !current_) return;
  bool younger = false;
  std::set<std::pair<int32_t, int32_t>> broken;
  for (const LinkEdges::Edge& edge : edges_.edges()) {
    if (!Alive(edge.reporter) || !Alive(edge.subject)) {
      if (!MayLackLinks(edge.reporter) || !MayLackLinks(edge.subject))
        edges_.Remove(edge.reporter, edge.subject);
      continue;
    }
    // It may be up again in a moment, and counts when it has stood as long as others have.
    if (now_ - edge.since_ns < stands && !FTAR_MUTANT(kFreshEdgeCounts)) {
      younger = true;
      continue;
    }
    // Who has lost its connection to here as well may be dead, and the other end is the last to
    // blame for that: when all but one die at once, the edges meet in the one who lives.
    if (suspects_.Find(edge.reporter) || suspects_.Find(edge.subject)) continue;
    // Who has its end goes soon, and its links close with it; but until then it is needed.
    const bool goes = Leaving(edge.reporter) || Leaving(edge.subject);
    if (goes && now_ - edge.since_ns < timeout_ns_ / 2) continue;
    broken.insert(
        std::minmax(EntryOf(edge.reporter)->card.replica, EntryOf(edge.subject)->card.replica));
  }
  // The younger ones may show who is at the middle of this: they are waited for, once.
  if (younger && edges_.oldest_ns() + 2 * stands > now_) return;
  const auto preference = [this](int32_t replica) {
    int64_t rank = 0, trouble = 0, goes = 0;
    for (size_t i = 0; i < current_->entries.size(); ++i) {
      const wire::MemberCard& card = current_->entries[i].card;
      if (card.replica != replica) continue;
      rank = static_cast<int64_t>(i);
      const Peer* peer = Find(card.id);
      const bool unreachable = !peer || peer->conn == 0 || AgeOf(card.id) > timeout_ns_ / 4;
      // Its connection was lost, and may be back: what struck that has struck its links.
      const bool struck = peer && peer->closed_ns != 0 && now_ - peer->closed_ns < timeout_ns_;
      trouble = std::max<int64_t>(trouble, struck ? 2 : unreachable ? 1 : 0);
      if (Leaving(card.id)) goes = 1;
    }
    return trouble << 41 | goes << 40 | rank;
  };
  const auto replica = FirstOfSmallestCover(broken, preference);
  if (!replica) return;
  for (const LinkEdges::Edge& edge : edges_.edges()) {
    const wire::ViewEntry *a = EntryOf(edge.reporter), *b = EntryOf(edge.subject);
    if (!a || !b || !Alive(edge.reporter) || !Alive(edge.subject)) continue;
    const bool reporter_goes = a->card.replica == *replica,
               subject_goes = b->card.replica == *replica;
    if (!reporter_goes && !subject_goes) continue;
    const wire::ViewEntry& other = reporter_goes ? *b : *a;
    Lose(reporter_goes ? edge.reporter : edge.subject, Code::kLink, "link",
         With("no link to " + Describe(other.card) + ", and both are alive", edge.text));
    return;
  }
}

// A deadline passed without the subject's data. That says who is lacked, not who is at fault: the
// subject may itself wait for a third. It goes when heartbeats say that it holds others up; the
// accusation ends when the reporter no longer lacks it.
void CoordinatorMachine::JudgeDeadlines() {
  for (auto next = overdue_.begin(); next != overdue_.end();) {
    const auto [reporter, subject] = next->first;
    const bool stands = Alive(reporter) && Alive(subject) && !change_;
    if (stands && detector_.HoldsOthersUp(subject) && detector_.WaitsFor(reporter, subject)) {
      const std::string text = With("an operation's deadline passed without it, as " +
                                        Describe(EntryOf(reporter)->card) + " says",
                                    next->second.text);
      const Seq seq = next->second.seq;
      next = overdue_.erase(next);
      Lose(subject, Code::kPeer, "deadline", text, AgeOf(subject), seq);
      continue;
    }
    next = stands || change_ ? std::next(next) : overdue_.erase(next);
  }
}

// ---- heartbeats ----

void CoordinatorMachine::OnHeartbeat(Peer& from, const wire::Heartbeat& message) {
  if (from.state != State::kMember) return;
  if (message.installed > from.installed) OnInstalled(from, {message.installed});
  detector_.Beat(from.card.id, message);
  std::erase_if(overdue_, [&](const auto& entry) {
    return entry.first.first == from.card.id &&
           !detector_.WaitsFor(entry.first.first, entry.first.second);
  });
}

// Silence of those without whom the job ends may be the network's: they have as long again.
void CoordinatorMachine::LoseSilent(const std::vector<Finding>& findings) {
  std::vector<MemberId> silent;
  for (const Finding& finding : findings) {
    // Whose connection has closed has its time already.
    const bool awaited = suspects_.Find(finding.member) != nullptr;
    if (finding.kind == Finding::Kind::kSilent && Alive(finding.member) && !awaited)
      silent.push_back(finding.member);
  }
  if (silent.empty()) return;
  const bool ends = NoneWhole(silent);
  for (const MemberId id : silent) {
    const TimeNs age = AgeOf(id);
    const std::string text =
        "no heartbeat for " + FormatDuration(age / kMillisecond * kMillisecond);
    if (!ends) {
      Lose(id, Code::kPeer, kSilenceStage, text, age);
      continue;
    }
    suspects_.Await(now_, id, timeout_ns_, kSilenceStage, text);
    Tell(LogLevel::kWarn, Describe(EntryOf(id)->card) + ": " + text +
                              "; waiting whether it is heard, the job ends without it");
  }
}

// It was silent and its connection holds: nothing speaks against it any more, and newcomers that
// waited for that may come in.
void CoordinatorMachine::HearAgain(MemberId id) {
  detector_.Heard(id);
  if (suspects_.OnHeard(id)) plan_due_ = plan_due_ || !FTAR_MUTANT(kHeardAgainAlone);
}

void CoordinatorMachine::RunDetector() {
  if (!current_ || now_ < detector_.NextCheck()) return;
  const std::vector<Finding> findings = detector_.Check();
  LoseSilent(findings);
  for (const Finding& finding : findings) {
    if (!Alive(finding.member)) continue;
    const std::string since = FormatDuration(finding.for_ns / kMillisecond * kMillisecond);
    const std::string where = "operation " + std::to_string(finding.seq);
    // While a change stops everybody, standing still says nothing; silence does.
    const bool stopped = change_ || !lost_.empty();
    switch (finding.kind) {
      case Finding::Kind::kSilent: break;  // LoseSilent
      case Finding::Kind::kStuck:
        if (stopped) break;
        // It may wait for somebody who is away and has time to come back.
        if (!suspects_.empty()) {
          detector_.Excuse(finding.member);
          break;
        }
        Lose(finding.member, Code::kPeer, "stuck",
             "holds all data of " + where + " and has not moved for " + since, finding.for_ns,
             finding.seq);
        break;
      case Finding::Kind::kLateTooLong:
        if (stopped) break;
        Lose(finding.member, Code::kPeer, "late",
             "has not entered " + where + " for " + since + " (late_timeout)", finding.for_ns,
             finding.seq);
        break;
      case Finding::Kind::kLate: {
        std::vector<MemberId> all;
        for (const wire::ViewEntry& entry : current_->entries) all.push_back(entry.card.id);
        Multicast(all,
                  wire::LateNotice{finding.member, finding.group, finding.seq, finding.for_ns});
        Tell(LogLevel::kInfo, Describe(EntryOf(finding.member)->card) + " has not entered " +
                                  where + " for " + since);
        break;
      }
    }
  }
}

}  // namespace ftar::membership
