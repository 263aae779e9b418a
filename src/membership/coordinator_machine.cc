#include "membership/coordinator_machine.h"

#include <algorithm>
#include <utility>

#include "base/mutant.h"

namespace ftar::membership {

CoordinatorMachine::CoordinatorMachine(CoordinatorConfig config, CoordinatorRecord record)
    : config_(std::move(config)),
      epochs_(config_.incarnation),
      record_(std::move(record)),
      suspects_(config_.cluster_ns) {
  epochs_.Hear(record_.epoch);
  if (FTAR_MUTANT(kRecordIgnored)) record_ = {};
  recovery_.predecessors = record_.view.has_value();
  seat_.witnessed = config_.witnessed;
  if (config_.timeout_ns > 0) timeout_ns_ = config_.timeout_ns;
  detector_.Configure(timeout_ns_, std::max<TimeNs>(config_.late_timeout_ns, 0), true);
  suspects_.Configure(timeout_ns_);
}

void CoordinatorMachine::Step(TimeNs now, const CoordinatorEvent& event) {
  now_ = started_ ? std::max(now, now_) : now;
  if (!std::exchange(started_, true)) {
    settled_at_ = now_ + config_.settle_ns;
    next_beat_ = now_ + timeout_ns_ / 10;
  }
  if (seat_.stood_down) return;
  detector_.Advance(now_);
  std::visit([this](const auto& concrete) { On(concrete); }, event);
  RunTimers();
  Settle();
}

CoordinatorReady CoordinatorMachine::TakeReady() {
  ready_.next_deadline = started_ && !seat_.stood_down ? NextDeadline() : kNever;
  if (seat_.stood_down && !seat_.handed_over) ready_.messages.clear();
  return std::exchange(ready_, {});
}

// What follows from what happened, in the order of urgency: losses before arrivals.
void CoordinatorMachine::Settle() {
  // A successor that nobody comes to who has been in, and whom not all come to who may begin.
  const bool idle = config_.successor && reference_ && !current_ && !recovery_.under_way;
  if (idle) TellNoQuorum("nobody has come who was in before");
  if (now_ >= no_quorum_.stand_down_at()) StandDown("it has had no quorum for long");
  if (seat_.stood_down) return;
  if (recovery_.under_way) TryRecover();
  if (seat_.retiring) TryHandOver();
  if (seat_.stood_down) return;
  if (change_due_ && now_ >= draft_.gather_until) StartChange();
  // Who brings the quorum back hears nothing of this.
  if (no_quorum_.due() && !recovery_.under_way && !change_due_) TellNoQuorum(no_quorum_.why());
  if (current_ && !change_ && lost_.empty() && !AnybodyIn()) EndJob("all members have left");
  AnswerDoor();
  if (!current_ && now_ >= settled_at_ && std::exchange(settling_, false)) roster_changed_ = true;
  if (std::exchange(roster_changed_, false)) {
    plan_due_ = true;
    GivePlaces();
    TellPeers();
  }
  if (!current_) {
    TryForm();
  } else {
    TryPlan();
  }
}

void CoordinatorMachine::RunTimers() {
  if (now_ >= next_beat_) {
    Beat();
    RejectOverdue();
    RejectHung();
    CloseSilentParting();
    TellMissing();
  }
  RunDetector();
  JudgeSuspects();
  JudgeLinks();
  JudgeDeadlines();
  ChangeOverdue();
  PlanOverdue();
}

TimeNs CoordinatorMachine::NextDeadline() const {
  // A recovery that nobody is left of ends as well, and the detector has to see that this process
  // is awake meanwhile.
  const bool nobody =
      conns_.empty() && seat_.parting.empty() && door_.empty() && !recovery_.under_way;
  TimeNs next = nobody ? kNever : next_beat_;
  next = std::min(next, detector_.NextCheck());
  next = std::min(next, suspects_.NextDeadline());
  if (!edges_.empty()) {
    const TimeNs judge = edges_.oldest_ns() + timeout_ns_ / 10;
    next = std::min(next, judge > now_ ? judge : now_ + timeout_ns_ / 10);
  }
  if (change_)
    next = std::min(next, change_->complete ? seat_.unheard_until : change_->deadline_ns);
  if (plan_) next = std::min(next, plan_->deadline_ns);
  if (recovery_.under_way) next = std::min(next, recovery_.at);
  if (change_due_) next = std::min(next, draft_.gather_until);
  next = std::min(next, no_quorum_.stand_down_at());
  if (now_ < seat_.goodbyes_until) next = std::min(next, seat_.goodbyes_until);
  if (settling_ && !current_ && !peers_.empty()) next = std::min(next, settled_at_);
  return next;
}

// Members see by these that the coordinator is there; each also serves the newcomers, who have
// nobody else to hear.
void CoordinatorMachine::Beat() {
  next_beat_ = now_ + timeout_ns_ / 10;
  Outgoing beat{{}, wire::CoordinatorBeat{Formed() && !no_quorum_.lacking() ? current_->epoch : 0}};
  for (const auto& [id, peer] : peers_) {
    if (peer.conn != 0) beat.to.push_back(peer.conn);
  }
  for (const ConnId conn : door_.Conns()) beat.to.push_back(conn);
  if (!beat.to.empty()) ready_.messages.push_back(std::move(beat));
}

// ---- events ----

void CoordinatorMachine::On(const Connected& event) {
  const wire::Rejected refusal = CheckHello(event.hello, config_.job, reference_);
  const wire::MemberCard& card = event.hello.card;
  epochs_.Hear(event.hello.report.promised);
  epochs_.Hear(event.hello.report.installed);
  if (refusal.code != Code::kOk) return OnDisagreement(event, refusal);
  if (Overtaken(card.id, event.hello.report)) return;
  if (Peer* known = Find(card.id)) return Reconnect(*known, event);
  // Q3: whoever is out is out for good, however he comes back under the same incarnation.
  const wire::Loss* const grave = graveyard_.Find(card.id);
  if (grave && grave->cause == Code::kLeft) return TellLeft(event);
  const wire::Report& report = event.hello.report;
  const bool foreign = current_ ? report.installed != 0 && !Alive(card.id)
                                : report.installed_view && OutByRecord(event.hello);
  if ((grave || foreign) && !FTAR_MUTANT(kEvictedMayReturn)) {
    const wire::Loss reason =
        grave ? *grave
              : wire::LossOf(card, Code::kEvicted, "control connection",
                             Describe(card) + " is not in the view that the job has gone on with");
    Tell(LogLevel::kWarn, Describe(card) + " came back after its eviction");
    TellEvicted(event.conn, report, {current_ ? current_->epoch : record_.epoch, reason});
    return;
  }
  if (MayBeRevoked(event.hello.report)) {
    const std::string text = Describe(card) + " had promised a view, and lost its coordinator";
    TurnAway(event.conn, wire::Rejected{Code::kPeer, "", text}, text + " since; it may come anew");
    return;
  }
  if (!reference_) AdoptReference(event.hello);
  Peer& peer = peers_[card.id];
  peer.conn = event.conn;
  peer.card = card;
  peer.roster = event.hello.roster;
  peer.report = event.hello.report;
  peer.since_ns = peer.heard_ns = now_;
  peer.frozen = peer.report.promised != 0;  // by a coordinator that is gone
  conns_[event.conn] = card.id;
  roster_changed_ = true;
  if (event.hello.report.installed_view && !current_) return OnReport(peer);
  const bool known_by_others = (recovery_.predecessors && !recovery_.predecessors_late) ||
                               peer.viewless() || (!current_ && NamesOthers(peer.report, nullptr));
  if (known_by_others && !recovery_.under_way) BeginRecovery();
  Admit(peer);
}

void CoordinatorMachine::On(const Disconnected& event) {
  seat_.parting.erase(event.conn);
  no_quorum_.Forget(event.conn);
  door_.Leave(event.conn);
  const auto found = conns_.find(event.conn);
  if (found == conns_.end()) return;
  const MemberId id = found->second;
  conns_.erase(found);
  Peer* peer = Find(id);
  if (!peer || peer->conn != event.conn) return;
  peer->conn = 0;
  peer->closed_ns = now_;
  roster_changed_ = true;
  switch (peer->state) {
    case State::kMember: return OnLost(*peer, event);
    case State::kReporting:
      // It may come back while the view is being recovered. What it has told stands (Q2, Q4); where
      // there is a quorum to be heard, that tells as much.
      if (!config_.hosted) Remember(*peer);
      peers_.erase(id);
      return;
    case State::kWaiting:
    case State::kNewcomer: suspects_.OnNewcomerClosed(now_); Remember(*peer);
  }
  Tell(LogLevel::kInfo, Describe(peer->card) + " gave up joining");
  ForgetNewcomer(id);
}

void CoordinatorMachine::On(const Received& event) {
  if (std::holds_alternative<wire::Goodbye>(event.message)) {
    if (seat_.parting.contains(event.conn)) return OnParted(event.conn);
    if (const std::optional<wire::Hello> hello = door_.Leave(event.conn))
      return Refuse(event.conn, *hello, CheckHello(*hello, config_.job, reference_));
  }
  const auto found = conns_.find(event.conn);
  if (found == conns_.end()) return;  // closed here already
  Peer* peer = Find(found->second);
  if (!peer) return;
  peer->heard_ns = now_;
  HearAgain(peer->card.id);
  // Silent, but no Prepare without it has gone out for want of a quorum: as in Reconnect.
  if (const auto lost = lost_.find(peer->card.id);
      lost != lost_.end() && !change_ && lost->second.stage == kSilenceStage)
    TakeBack(peer->card.replica);
  const wire::Message& message = event.message;
  if (const auto* m = std::get_if<wire::LinksUp>(&message)) return OnLinksUp(*peer, *m);
  if (const auto* m = std::get_if<wire::Heartbeat>(&message)) return OnHeartbeat(*peer, *m);
  if (const auto* m = std::get_if<wire::Evidence>(&message)) return OnEvidence(*peer, *m);
  if (const auto* m = std::get_if<wire::Goodbye>(&message)) return OnGoodbye(*peer, *m);
  if (const auto* m = std::get_if<wire::Refuse>(&message)) return OnRefuse(*peer, *m);
  if (const auto* m = std::get_if<wire::Decided>(&message)) return OnDecided(*peer, *m);
  if (const auto* m = std::get_if<wire::Installed>(&message)) return OnInstalled(*peer, *m);
  if (const auto* m = std::get_if<wire::Reserved>(&message)) return OnReserved(*peer, *m);
  if (const auto* m = std::get_if<wire::Confirmed>(&message)) return OnConfirmed(*peer, *m);
  if (const auto* m = std::get_if<wire::Announced>(&message)) return OnAnnounced(*peer, *m);
  if (const auto* m = std::get_if<wire::AskPrepare>(&message)) return OnAskPrepare(*peer, *m);
  if (std::holds_alternative<wire::LeaveRequest>(message)) {
    peer->leave_requested = true;
    plan_due_ = true;
    return;
  }
  if (std::holds_alternative<wire::LeaveReady>(message)) {
    if (!peer->leave_requested) return;  // ready for what it has not asked for: believe nothing
    peer->leave_ready = plan_due_ = true;
    if (peer->released) Send(*peer, wire::Release{current_ ? current_->epoch : 0});
    return;
  }
  // Anything else is not a member's to say to a coordinator; it is dropped, the connection is
  // authenticated and may stay.
}

// ---- small things ----

CoordinatorMachine::Peer* CoordinatorMachine::Find(MemberId id) {
  const auto found = peers_.find(id);
  return found == peers_.end() ? nullptr : &found->second;
}

const CoordinatorMachine::Peer* CoordinatorMachine::Find(MemberId id) const {
  const auto found = peers_.find(id);
  return found == peers_.end() ? nullptr : &found->second;
}

void CoordinatorMachine::Send(const Peer& peer, wire::Message message) {
  if (peer.conn != 0) ready_.messages.push_back({{peer.conn}, std::move(message)});
}

void CoordinatorMachine::Multicast(const std::vector<MemberId>& to, wire::Message message) {
  Outgoing out{{}, std::move(message)};
  for (MemberId id : to) {
    const Peer* peer = Find(id);
    if (peer && peer->conn != 0) out.to.push_back(peer->conn);
  }
  if (!out.to.empty()) ready_.messages.push_back(std::move(out));
}

void CoordinatorMachine::Tell(LogLevel level, std::string text) {
  ready_.notes.push_back({level, std::move(text)});
}

void CoordinatorMachine::Close(Peer& peer) {
  if (peer.conn == 0) return;
  ready_.close.push_back(peer.conn);
  conns_.erase(peer.conn);
  peer.conn = 0;
}

}  // namespace ftar::membership
