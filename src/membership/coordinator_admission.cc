// Who may enter: configuration, places, links, and the first view.
#include <algorithm>
#include <utility>

#include "base/knob_value.h"
#include "base/mutant.h"
#include "membership/agreement.h"
#include "membership/coordinator_machine.h"

namespace ftar::membership {
namespace {

// Who is lost so does not come back.
bool IsFinal(const wire::Loss& loss) {
  return loss.cause == Code::kEvicted || loss.stage == kProofStage ||
         loss.stage == kSelfReportStage;
}

}  // namespace

void CoordinatorMachine::AdoptReference(const wire::Hello& hello) {
  reference_ = ReferenceOf(hello);
  absentees_.OnFirst(now_);
  ReadAgreedConfig();
}

// The coordinator's own timing follows the knobs that the members have agreed on, whatever its host
// has set: by theirs members take it for lost when they hear no beat.
void CoordinatorMachine::ReadAgreedConfig() {
  const auto number = [this](KnobId id, int64_t otherwise) {
    return AgreedNumber(*reference_, id, otherwise);
  };
  timeout_ns_ = std::max<TimeNs>(number(KnobId::kTimeout, timeout_ns_), kMillisecond);
  suspects_.Configure(timeout_ns_);
  if (config_.timeout_ns > 0 && config_.timeout_ns != timeout_ns_) {
    Tell(LogLevel::kWarn, "timeout is " + FormatDuration(config_.timeout_ns) + " here and " +
                              FormatDuration(timeout_ns_) + " at " + reference_->who +
                              "; the members' counts");
  }
  const TimeNs late_timeout =
      config_.late_timeout_ns < 0 ? number(KnobId::kLateTimeout, 0) : config_.late_timeout_ns;
  detector_.Configure(timeout_ns_, late_timeout, number(KnobId::kFt, 1) != 0);
  next_beat_ = std::min(next_beat_, now_ + timeout_ns_ / 10);
}

void CoordinatorMachine::TurnAway(ConnId conn, wire::Message message, std::string note) {
  ready_.messages.push_back({{conn}, std::move(message)});
  ready_.close.push_back(conn);
  Tell(LogLevel::kWarn, std::move(note));
}

void CoordinatorMachine::Refuse(ConnId conn, const wire::Hello& hello,
                                const wire::Rejected& refusal) {
  TurnAway(conn, refusal, "refused " + Describe(hello.card) + ": " + refusal.text);
}

// It was let go, and has not heard that.
void CoordinatorMachine::TellLeft(const Connected& event) {
  TurnAway(event.conn, wire::Rejected{Code::kLeft, "", "this member has left"},
           Describe(event.hello.card) + " came back after it had left");
}

// ---- who disagrees ----

// The job that it disagrees with may be over: nobody of it is here. Then it waits as long as one
// who agrees would for one of their places, and is refused only if somebody comes back. A member of
// another job waits as well, for as long as they have: what it is does not say that they are gone.
void CoordinatorMachine::OnDisagreement(const Connected& event, const wire::Rejected& refusal) {
  const wire::MemberCard& card = event.hello.card;
  const bool may_begin_one = CheckHello(event.hello, config_.job, {}).code == Code::kOk;
  if (!may_begin_one || AnybodyHere()) return Refuse(event.conn, event.hello, refusal);
  Tell(LogLevel::kWarn, Describe(card) + " waits whether the job before goes on: " + refusal.text);
  door_.Wait(event.conn, event.hello);
  if (!reference_ || event.hello.job != reference_->job) return;
  if (const MemberId holder = HolderOf(card.replica, card.shard, card.id); holder.valid())
    suspects_.Replace(holder);
  if (door_.HasWholeJobOf(event.hello, config_.job)) suspects_.ReplaceAll();
}

// Of the job that is agreed on: whose connection stands and who is not silent.
bool CoordinatorMachine::AnybodyHere() const {
  return std::ranges::any_of(peers_, [this](const auto& entry) {
    return entry.second.conn != 0 && !suspects_.Find(entry.first) && !lost_.contains(entry.first);
  });
}

// Either there is nothing to disagree with any more, or there is somebody who does.
void CoordinatorMachine::AnswerDoor() {
  if (door_.empty() || (reference_ && !AnybodyHere())) return;
  for (auto& [conn, hello] : door_.Open()) On(Connected{conn, std::move(hello)});
}

// ---- places ----

// Who has this place: a living member, or a newcomer that was there before. Nobody: an invalid id.
MemberId CoordinatorMachine::HolderOf(int32_t replica, int32_t shard, MemberId except) const {
  for (const auto& [id, peer] : peers_) {
    if (id == except || peer.card.replica != replica || peer.card.shard != shard) continue;
    if (peer.state == State::kNewcomer) return id;
    if (peer.state == State::kMember && !peer.departed && !lost_.contains(id)) return id;
  }
  return {};
}

void CoordinatorMachine::Admit(Peer& peer) {
  peer.state = State::kWaiting;
  if (recovery_.under_way || peer.viewless()) return;
  const MemberId holder = HolderOf(peer.card.replica, peer.card.shard, peer.card.id);
  if (holder.valid()) {
    peer.held_by = Describe(Find(holder)->card);
    Tell(LogLevel::kWarn, Describe(peer.card) + " waits: its place is held by " + peer.held_by);
    return suspects_.Replace(holder);
  }
  peer.state = State::kNewcomer;
  peer.placed_ns = now_;
  Tell(LogLevel::kInfo, Describe(peer.card) + " wants to join");
}

void CoordinatorMachine::GivePlaces() {
  if (recovery_.under_way) return;
  // First come, first served, whatever the order of ids.
  std::vector<Peer*> waiting;
  for (auto& [id, peer] : peers_) {
    if (peer.state == State::kWaiting) waiting.push_back(&peer);
  }
  std::stable_sort(waiting.begin(), waiting.end(),
                   [](const Peer* a, const Peer* b) { return a->since_ns < b->since_ns; });
  for (Peer* peer : waiting) {
    if (!HolderOf(peer->card.replica, peer->card.shard, peer->card.id).valid()) Admit(*peer);
  }
}

// A known member on a new connection: the old one broke, or has not been seen to break yet.
void CoordinatorMachine::Reconnect(Peer& peer, const Connected& event) {
  // Another process may speak for those behind a relay by now. The one before would come again.
  if (peer.conn != 0 && !peer.roster.empty() && !FTAR_MUTANT(kRelayStillCounts))
    Send(peer, wire::Redirect{0, {}, {}, false, true});
  Close(peer);
  const MemberId id = peer.card.id;
  if (peer.departed && peer.released) return TellLeft(event);
  if (peer.departed) {  // taken for gone as planned, and it was only away: what it has called is
                        // lost
    const std::string text = Describe(peer.card) + " was away when the others went on without it";
    Tell(LogLevel::kWarn, text);
    return TellEvicted(event.conn, event.hello.report,
                       {current_ ? current_->epoch : record_.epoch,
                        wire::LossOf(peer.card, Code::kEvicted, "control connection", text)});
  }
  const bool viewless = peer.state == State::kReporting && !event.hello.report.installed_view;
  if (viewless && !peer.roster.empty()) {  // whoever has taken over cannot show it
    Remember(peer);
    peer.state = State::kWaiting;
  } else if (viewless) {
    return TurnAway(event.conn, wire::Rejected{Code::kPeer, "", "it had reported a view before"},
                    Describe(peer.card) + " came back without the view that it had reported");
  }
  peer.conn = event.conn;
  peer.report = event.hello.report;
  peer.installed = std::max(peer.installed, peer.report.installed_by_all());
  conns_[event.conn] = id;
  no_quorum_.OnReconnect();
  suspects_.Drop(id);
  detector_.Heard(id);
  roster_changed_ = true;
  if (peer.state == State::kReporting) return OnReport(peer);
  // It was away when the coordinator was started anew: from here on it is known who is behind it.
  const bool unknown = peer.roster.empty() && !FTAR_MUTANT(kLateRosterUntold);
  if (unknown) peer.roster = event.hello.roster;
  const bool relay = !peer.roster.empty();
  if (relay) SendRosters(peer);  // it may be another process, which has taken the members over
  if (relay && unknown) TellRosterOf(peer, UINT64_MAX);
  // Those that stand are told again; that a link is back may have been said to nobody.
  if (relay || !FTAR_MUTANT(kOldReportsStand)) edges_.ForgetReportsOf(id);
  if (peer.state != State::kMember) {
    peer.welcomed = false;
    peer.told.clear();
    peer.links.clear();
    if (change_ && draft_.newcomers.contains(id)) Send(peer, change_->prepare);
    return;
  }
  Tell(LogLevel::kInfo, Describe(peer.card) + " is back on a new connection");
  // Lost, but no Prepare without it has gone out for want of a quorum: it is not out (rule Q3 binds
  // only what was sent).
  if (lost_.contains(id) && !change_) TakeBack(peer.card.replica);
  const bool lacks = current_ && !current_->planned && !change_ &&
                     peer.report.installed_by_all() != current_->epoch;
  // Another relay has to be able to report the view that its members hold, also in a change.
  const bool cannot_report = current_ && relay && !peer.report.installed_view &&
                             (!change_ || !FTAR_MUTANT(kViewlessInChange));
  if (lacks || cannot_report) Send(peer, wire::Install{*current_, last_lost_});  // V10: idempotent
  if (change_) {
    Send(peer, change_->prepare);
  } else if (current_ && !lacks && peer.report.promised > peer.report.installed_by_all()) {
    // It has promised another coordinator a change that came to nothing, and does not obey an
    // announcement (J1): only a change of our own has it go on.
    change_due_ = change_due_ || !FTAR_MUTANT(kPromisedElsewhere);
  }
}

// Unless one of it is out for good: dead, or by its own word, an operator's, or a Prepare that
// others have promised.
void CoordinatorMachine::TakeBack(int32_t replica) {
  for (const auto& [id, loss] : lost_) {
    if (loss.replica == replica && IsFinal(loss) && !FTAR_MUTANT(kDeadTakenBack)) return;
  }
  std::erase_if(lost_, [replica](const auto& entry) { return entry.second.replica == replica; });
  // A quorum may be back with the first that come back; others may be right behind, and have a
  // while from then on.
  const bool others =
      std::ranges::any_of(lost_, [](const auto& entry) { return !IsFinal(entry.second); });
  if (!others) draft_.gather_until = 0;
  if (others && draft_.gather_until <= now_) draft_.gather_until = now_ + timeout_ns_ / 4;
  no_quorum_.StayUntil(draft_.gather_until + kMillisecond);
  for (auto& [id, peer] : peers_) {
    if (peer.card.replica == replica && peer.state == State::kNewcomer)
      peer.state = State::kWaiting;
    // Its mates may have been seen to break, or to be silent, as well; they have the same time
    // again to come back, or to be heard.
    if (peer.card.replica != replica || peer.state != State::kMember) continue;
    if (peer.conn == 0) {
      OnLost(peer, {});
    } else {
      detector_.Forget(id);
      detector_.Watch(now_, id);
    }
  }
  // Newcomers that were to bring the quorum back have made no links to it. Who was announced has,
  // and is left out by no Prepare: somebody may be in a view with it, and would revoke it (Q3).
  std::erase_if(draft_.newcomers, [this](MemberId id) {
    const Peer* newcomer = Find(id);
    return !newcomer || !newcomer->announced || FTAR_MUTANT(kAnnouncedLeftOut);
  });
  for (auto& [id, peer] : peers_) {
    if (peer.state == State::kNewcomer) peer.linked = Linked(peer);
  }
  change_due_ = roster_changed_ = plan_due_ = true;
}

void CoordinatorMachine::ForgetNewcomer(MemberId id) {
  if (plan_ && plan_->newcomers.contains(id)) {
    if (AnnouncedView()) {
      // Somebody may have started with it (J1): only a failure change takes it out.
      Lose(id, Code::kPeer, "control connection", "its connection closed while it was taken in");
    } else {
      VoidPlan();
    }
  }
  const Peer* peer = Find(id);
  if (peer && draft_.newcomers.contains(id)) {
    // Replicas come in whole or not at all; its mates keep their places for a successor.
    const int32_t replica = peer->card.replica;
    LoseAnnounced(replica, Describe(peer->card) + " was lost while its replica was taken in");
    std::erase_if(draft_.newcomers, [this, replica](MemberId other) {
      const Peer* mate = Find(other);
      return !mate || mate->card.replica == replica;
    });
    if (change_) change_due_ = true;
  }
  peers_.erase(id);
  roster_changed_ = true;
  if (peers_.empty() && !current_) reference_.reset();
}

void CoordinatorMachine::RejectOverdue() {
  std::vector<MemberId> overdue;
  for (const auto& [id, peer] : peers_) {
    if (peer.state == State::kWaiting && now_ - peer.since_ns >= config_.place_wait_ns &&
        !recovery_.under_way)
      overdue.push_back(id);
  }
  for (MemberId id : overdue) {
    Peer& peer = *Find(id);
    const MemberId holder = HolderOf(peer.card.replica, peer.card.shard, id);
    const std::string who = holder.valid() ? Describe(Find(holder)->card) : "somebody who is gone";
    const std::string text = "the place of " + Describe(peer.card) + " is held by " + who;
    ready_.messages.push_back({{peer.conn}, wire::Rejected{Code::kPeer, "replica", text}});
    Tell(LogLevel::kWarn, "refused a newcomer: " + text);
    Close(peer);
    ForgetNewcomer(id);
  }
}

// Newcomers do not beat, so one that hangs is found by this: it is silent, has not got its links,
// and keeps another out who has all but that to it. Where all wait for somebody else, nobody is to
// blame; and where this process has just stood still, what they have said is not read yet.
void CoordinatorMachine::RejectHung() {
  constexpr int kTimeouts = 2;
  if (!current_ || recovery_.under_way || detector_.JustWoke()) return;
  const auto hangs = [this](const Peer& peer) {
    return peer.state == State::kNewcomer && !peer.linked &&
           now_ - std::max(peer.placed_ns, peer.heard_ns) >= kTimeouts * timeout_ns_;
  };
  std::map<MemberId, std::string> hung;  // and whom it keeps out
  for (const auto& [id, peer] : peers_) {
    if (peer.state != State::kNewcomer || !peer.welcomed || peer.linked) continue;
    std::vector<MemberId> missed;
    for (const auto& [other_id, other] : peers_) {
      if (Misses(peer, other)) missed.push_back(other_id);
    }
    const bool all = std::ranges::all_of(missed, [&](MemberId one) { return hangs(*Find(one)); });
    for (const MemberId one : missed) {
      if (all) hung.try_emplace(one, Describe(peer.card));
    }
  }
  for (const auto& [id, kept_out] : hung)
    RejectNewcomer(id, "it has been silent for long, and " + kept_out + " waits for its link");
}

// Two that were given one place wait for the same view, and one of them gives up before the other,
// who then has the place for a moment; that hears whose it was. False: not so.
bool CoordinatorMachine::TellLateHolder(const Peer& newcomer) {
  const bool long_held = now_ - newcomer.placed_ns < newcomer.placed_ns - newcomer.since_ns;
  if (newcomer.state != State::kNewcomer || newcomer.held_by.empty() || !long_held) return false;
  const std::string text = "the place of " + Describe(newcomer.card) + " was held by " +
                           newcomer.held_by + " until that gave up";
  Send(newcomer, wire::Rejected{Code::kPeer, "replica", text});
  Tell(LogLevel::kWarn, "refused a newcomer: " + text);
  return true;
}

// Who gives up hears which links have kept it out: a wall between two hosts, or a transport that
// reaches one of them only. It knows its links, but not which ones it lacks.
// False: none.
bool CoordinatorMachine::TellMissedLinks(const Peer& newcomer) {
  if (newcomer.state != State::kNewcomer || !newcomer.welcomed) return false;
  std::vector<const Peer*> missed;
  for (const auto& [id, peer] : peers_) {
    if (Misses(newcomer, peer)) missed.push_back(&peer);
  }
  if (missed.empty()) return false;
  const wire::MemberCard& first = missed.front()->card;
  std::string text = Describe(newcomer.card) + " has no link to " + Describe(first);
  if (missed.size() > 1) text += " and to " + std::to_string(missed.size() - 1) + " more";
  const auto why = newcomer.links_lost.find(first.id);
  if (why != newcomer.links_lost.end()) text += ": " + why->second;
  Send(newcomer, wire::Rejected{Code::kTimeout, "join_timeout", text});
  Tell(LogLevel::kWarn, "a newcomer gave up: " + text);
  return true;
}

// Who gives up before the first view hears who has not come; it knows only whom that waits for. Not
// a relay, which speaks for several.
void CoordinatorMachine::TellMissingReplicas(const Peer& newcomer) {
  const bool waits = newcomer.state == State::kNewcomer && newcomer.roster.empty();
  if (!waits || !FirstViewWaits() || newcomer.card.replica >= reference_->replicas) return;
  Send(newcomer, wire::Rejected{Code::kTimeout, "join_timeout", WhoIsMissing()});
}

bool CoordinatorMachine::FirstViewWaits() const {
  return reference_ && !recovery_.under_way && !current_ && !config_.successor && !PlacesFilled();
}

// Once, with what people look for: who is not started, or has a number that is none.
void CoordinatorMachine::TellMissing() {
  if (!reference_ || recovery_.under_way || !absentees_.TakeTimeToTell(now_)) return;
  if (FirstViewWaits()) Tell(LogLevel::kWarn, WhoIsMissing());
}

std::string CoordinatorMachine::WhoIsMissing() {
  Absentees::Shards here;
  for (const auto& [id, peer] : peers_) {
    if (peer.state == State::kNewcomer) here[peer.card.replica].insert(peer.card.shard);
  }
  return absentees_.InWords(now_, timeout_ns_, *reference_, here);
}

// ---- links ----

// Who counts when links are made: members, and newcomers that may enter next.
bool CoordinatorMachine::InRoster(const Peer& peer) const {
  if (peer.state == State::kMember) return Alive(peer.card.id);
  return peer.state == State::kNewcomer && (current_ || peer.card.replica < reference_->replicas);
}

// Every newcomer holds links to its column: to members and to the newcomers before it. Later dials
// earlier, so each pair has one who dials.
bool CoordinatorMachine::Linked(Peer& newcomer) const {
  if (!newcomer.welcomed) return false;
  // From the one on that was missing last: links come up one by one, and each looks along all.
  auto at = peers_.lower_bound(newcomer.missing);
  for (size_t looked = 0; looked < peers_.size(); ++looked, ++at) {
    if (at == peers_.end()) at = peers_.begin();
    if (!Misses(newcomer, at->second)) continue;
    newcomer.missing = at->first;
    return false;
  }
  return true;
}

bool CoordinatorMachine::Misses(const Peer& newcomer, const Peer& peer) const {
  const bool another = peer.card.id != newcomer.card.id && peer.card.shard == newcomer.card.shard;
  const bool later = peer.state == State::kNewcomer &&
                     (!peer.welcomed || peer.serial > newcomer.serial);
  return another && !later && InRoster(peer) && !newcomer.links.contains(peer.card.id) &&
         !peer.links.contains(newcomer.card.id);
}

// Before the first view links wait until all places are filled: list order decides who dials.
bool CoordinatorMachine::PlacesFilled() const {
  const auto filled = std::count_if(peers_.begin(), peers_.end(), [this](const auto& entry) {
    return entry.second.state == State::kNewcomer && InRoster(entry.second);
  });
  return filled >= int64_t{reference_->replicas} * reference_->shards;
}

void CoordinatorMachine::TellPeers() {
  if (recovery_.under_way || !reference_) return;
  if (!current_ && (now_ < settled_at_ || !PlacesFilled())) return;
  std::vector<Peer*> roster, fresh;
  for (auto& [id, peer] : peers_) {
    if (!InRoster(peer)) continue;
    roster.push_back(&peer);
    if (peer.state == State::kNewcomer && !peer.welcomed) fresh.push_back(&peer);
  }
  std::sort(fresh.begin(), fresh.end(), [](const Peer* a, const Peer* b) {
    return std::pair(a->card.replica, a->card.shard) < std::pair(b->card.replica, b->card.shard);
  });
  for (Peer* peer : fresh) peer->serial = ++serial_;
  TellRosters(fresh);
  std::map<int32_t, std::vector<const Peer*>> columns;
  for (const Peer* peer : roster) columns[peer->card.shard].push_back(peer);
  for (Peer* peer : roster) {
    if (peer->state != State::kNewcomer) continue;
    std::vector<wire::MemberCard> cards;
    for (const Peer* other : columns[peer->card.shard]) {
      if (other->serial < peer->serial && peer->told.insert(other->card.id).second)
        cards.push_back(other->card);
    }
    if (!std::exchange(peer->welcomed, true)) {
      Send(*peer, wire::Welcome{std::move(cards)});
    } else if (!cards.empty()) {
      Send(*peer, wire::Connect{std::move(cards)});
    }
  }
  for (Peer* peer : roster) {
    if (peer->state == State::kNewcomer) peer->linked = Linked(*peer);
  }
}

// Who has been told, or is being told now, who stands behind the relays of its column.
bool CoordinatorMachine::KnowsRosters(const Peer& peer) const {
  return !peer.roster.empty() && (peer.state == State::kMember || peer.serial > 0);
}

// Names of those behind a relay come before the first message that speaks of it. They are the only
// thing here whose size grows with the members, and they pass unread, once for each newcomer.
void CoordinatorMachine::TellRosters(const std::vector<Peer*>& fresh) {
  for (const Peer* peer : fresh) {
    if (peer->roster.empty()) continue;
    SendRosters(*peer);
    TellRosterOf(*peer, peer->serial);
  }
}

void CoordinatorMachine::TellRosterOf(const Peer& peer, uint64_t before_serial) {
  std::vector<MemberId> others;
  for (const auto& [id, other] : peers_) {
    const bool column = other.card.shard == peer.card.shard && id != peer.card.id;
    if (column && other.serial < before_serial && KnowsRosters(other)) others.push_back(id);
  }
  Multicast(others, wire::Roster{peer.card.id, peer.roster});
}

void CoordinatorMachine::SendRosters(const Peer& to) {
  const bool changes =
      change_ && draft_.newcomers.contains(to.card.id) && !FTAR_MUTANT(kRelayPreparedUntold);
  for (const auto& [id, other] : peers_) {
    const bool column = other.card.shard == to.card.shard && id != to.card.id;
    const bool later = to.state == State::kNewcomer && other.serial > to.serial && !changes;
    if (column && !later && KnowsRosters(other)) Send(to, wire::Roster{id, other.roster});
  }
}

void CoordinatorMachine::OnLinksUp(Peer& from, const wire::LinksUp& message) {
  from.links.insert(message.peers.begin(), message.peers.end());
  if (from.state != State::kNewcomer) {
    roster_changed_ = true;  // a newcomer may have waited for one of these
    return;
  }
  from.card.wire = message.wire;
  from.linked = Linked(from);
  plan_due_ = plan_due_ || from.linked;
}

// ---- the first view ----

void CoordinatorMachine::TryForm() {
  if (!std::exchange(plan_due_, false) || change_ || recovery_.under_way || !reference_ ||
      now_ < settled_at_)
    return;
  std::set<MemberId> ready;
  for (const auto& [id, peer] : peers_) {
    if (peer.state == State::kNewcomer && peer.linked && peer.card.replica < reference_->replicas)
      ready.insert(id);
  }
  if (static_cast<int64_t>(ready.size()) < int64_t{reference_->replicas} * reference_->shards)
    return;
  if (recovery_.predecessors) EndRecorded();
  draft_.newcomers = std::move(ready);
  Tell(LogLevel::kInfo, "all " + std::to_string(draft_.newcomers.size()) +
                            " members are here; the first view begins");
  StartChange();
}

}  // namespace ftar::membership
