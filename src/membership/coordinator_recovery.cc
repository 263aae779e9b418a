// After a restart: the state is rebuilt from what members report (rules Q2, Q3, Q4, Q7). Nobody is
// suspected for one timeout; members go on computing meanwhile.
#include <algorithm>
#include <utility>

#include "membership/coordinator_machine.h"

namespace ftar::membership {

void CoordinatorMachine::OnReport(Peer& peer) {
  peer.state = State::kReporting;
  Tell(LogLevel::kInfo, Describe(peer.card) + " reports view " +
                            std::to_string(EpochCounter(peer.report.installed)) + ", promised " +
                            std::to_string(EpochCounter(peer.report.promised)));
  if (std::exchange(recovering_, true)) return;
  recover_at_ = now_ + timeout_ns_;
  // A first view in the making gives way: there is a job already.
  change_.reset();
  for (MemberId id : std::exchange(prepare_newcomers_, {})) {
    if (Peer* newcomer = Find(id)) newcomer->frozen = true;
  }
  for (auto& [id, other] : peers_) {
    if (other.state == State::kNewcomer) other.state = State::kWaiting;
  }
}

// Q4: the base is the highest view that anybody heard has installed.
void CoordinatorMachine::TryRecover() {
  const Peer* highest = nullptr;
  for (const auto& [id, peer] : peers_) {
    if (peer.state != State::kReporting) continue;
    if (!highest || peer.report.installed_view->epoch > highest->report.installed_view->epoch)
      highest = &peer;
  }
  if (!highest) {  // all reporters are gone again
    recovering_ = false;
    roster_changed_ = true;
    return;
  }
  const wire::View& base = *highest->report.installed_view;
  const bool complete =
      std::all_of(base.entries.begin(), base.entries.end(), [this](const wire::ViewEntry& entry) {
        return Find(entry.card.id) || proven_dead_.contains(entry.card.id);
      });
  if (complete || now_ >= recover_at_) FinishRecovery(base);
}

void CoordinatorMachine::FinishRecovery(wire::View base) {
  recovering_ = false;
  recover_at_ = kNever;
  std::vector<wire::Report> reports;
  std::set<MemberId> here, strangers;
  for (auto& [id, peer] : peers_) {
    const bool listed = base.Find(id) != nullptr;
    if (listed) {
      // A member that heard of no Install yet has promised one; it is among the survivors of the
      // view that it promised.
      here.insert(id);
      reports.push_back(peer.report);
      peer.installed = peer.report.installed;
    } else if (peer.state == State::kReporting) {
      strangers.insert(id);
    }
  }
  BecomeMembers(base);
  for (const wire::ViewEntry& entry : base.entries) {
    const MemberId id = entry.card.id;
    if (here.contains(id)) continue;
    if (entry.last.kind != wire::Bound::Kind::kNone && !proven_dead_.contains(id)) {
      Peer& gone = peers_[id];  // had been given its end, and has very likely gone as planned
      gone.card = entry.card;
      gone.state = State::kMember;
      gone.departed = true;
      continue;
    }
    const auto proof = proven_dead_.find(id);
    if (proof != proven_dead_.end()) {
      Lose(id, Code::kPeer, "process watch", proof->second);
    } else {
      Lose(id, Code::kPeer, "control connection",
           "it did not come back to the restarted coordinator");
    }
  }
  proven_dead_.clear();
  bool settled = true;  // everybody holds the base and has promised nothing above it
  for (const wire::Report& report : reports) {
    settled = settled && report.installed == base.epoch && report.promised <= base.epoch;
    if (report.promised <= base.epoch || report.promised_members.empty()) continue;
    const auto& promised = report.promised_members;
    for (MemberId id :
         here) {  // Q3: whoever was left out of a Prepare that reached a survivor is out for good
      if (std::find(promised.begin(), promised.end(), id) != promised.end()) continue;
      Lose(id, Code::kEvicted, "earlier change",
           "was left out of epoch " + std::to_string(EpochCounter(report.promised)) +
               ", which others have promised");
    }
  }
  for (MemberId id : strangers) {
    Peer& peer = *Find(id);
    const wire::Loss reason{id,
                            peer.card.replica,
                            peer.card.shard,
                            peer.card.host,
                            Code::kEvicted,
                            "earlier change",
                            0,
                            Describe(peer.card) + " is not in the view that the others hold"};
    graveyard_[id] = reason;
    Send(peer, wire::Evicted{base.epoch, reason});
    Close(peer);
    peers_.erase(id);
  }
  change_due_ = change_due_ || !settled;
  Tell(LogLevel::kInfo, "the coordinator was restarted: view " +
                            std::to_string(EpochCounter(base.epoch)) +
                            (change_due_ ? " needs a change" : " goes on unchanged"));
  roster_changed_ = true;
}

}  // namespace ftar::membership
