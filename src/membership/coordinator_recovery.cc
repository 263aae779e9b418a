// After a restart: the state is rebuilt from what members report (rules Q2, Q3, Q4, Q7). Nobody is
// suspected for one timeout; members go on computing meanwhile.
#include <algorithm>
#include <utility>

#include "base/mutant.h"
#include "membership/coordinator_machine.h"

namespace ftar::membership {

void CoordinatorMachine::OnReport(Peer& peer) {
  peer.state = State::kReporting;
  Tell(LogLevel::kInfo, Describe(peer.card) + " reports view " +
                            std::to_string(EpochCounter(peer.report.installed)) + ", promised " +
                            std::to_string(EpochCounter(peer.report.promised)));
  if (std::exchange(recovering_, true)) return;
  recover_at_ = now_ + timeout_ns_;
  recover_until_ = now_ + kAloneTimeouts * timeout_ns_;
  // A first view in the making gives way: there is a job already.
  change_.reset();
  for (MemberId id : std::exchange(prepare_newcomers_, {})) {
    if (Peer* newcomer = Find(id)) newcomer->frozen = true;
  }
  for (auto& [id, other] : peers_) {
    if (other.state == State::kNewcomer) other.state = State::kWaiting;
  }
}

// Q3: whoever was left out of a Prepare that reached a survivor is out for good; by the epoch of
// that Prepare.
std::map<MemberId, Epoch> CoordinatorMachine::LeftOut(const wire::View& base) const {
  std::map<MemberId, Epoch> out;
  for (const auto& [reporter, peer] : peers_) {
    const wire::Report& report = peer.report;
    if (!base.Find(reporter) || report.promised <= base.epoch || report.promised_members.empty())
      continue;
    const std::set<MemberId> promised(report.promised_members.begin(),
                                      report.promised_members.end());
    for (const wire::ViewEntry& entry : base.entries) {
      if (!promised.contains(entry.card.id)) out.insert({entry.card.id, report.promised});
    }
  }
  return out;
}

// Q4: the base is the highest view that anybody heard has installed.
void CoordinatorMachine::TryRecover() {
  const Peer* highest = nullptr;
  for (const auto& [id, peer] : peers_) {
    if (peer.state != State::kReporting) continue;
    const bool higher =
        !highest || peer.report.installed_view->epoch > highest->report.installed_view->epoch;
    if (higher || FTAR_MUTANT(kAnyBase)) highest = &peer;
  }
  if (!highest) {  // all reporters are gone again
    recovering_ = false;
    early_evidence_.clear();
    asked_early_ = false;
    roster_changed_ = true;
    return;
  }
  const wire::View& base = *highest->report.installed_view;
  const std::map<MemberId, Epoch> left_out = LeftOut(base);
  const auto known =
      std::count_if(base.entries.begin(), base.entries.end(), [&](const wire::ViewEntry& entry) {
        const MemberId id = entry.card.id;
        return Find(id) || proven_dead_.contains(id) || left_out.contains(id);
      });
  const auto all = static_cast<std::ptrdiff_t>(base.entries.size());
  const bool complete = known == all;
  // Those who are here may be the ones whom the others have gone on without, or this side is cut
  // off from most.
  if (!complete && 2 * known < all && now_ >= recover_at_ && now_ < recover_until_) {
    recover_at_ += timeout_ns_;
  }
  if (complete || now_ >= recover_at_ || FTAR_MUTANT(kSuspectsAtOnce)) FinishRecovery(base);
}

void CoordinatorMachine::FinishRecovery(wire::View base) {
  recovering_ = false;
  recover_at_ = kNever;
  const std::map<MemberId, Epoch> left_out = LeftOut(base);
  bool settled = true;  // everybody holds the base and has promised nothing above it
  for (auto& [id, peer] : peers_) {
    if (!base.Find(id)) continue;
    peer.installed = peer.report.installed;
    settled = settled && peer.installed == base.epoch && peer.report.promised <= base.epoch;
  }
  EvictStrangers(base);
  BecomeMembers(base);
  LoseAbsent(base, left_out);
  proven_dead_.clear();
  for (const auto& [reporter, evidence] : std::exchange(early_evidence_, {})) {
    if (Peer* from = Find(reporter)) OnEvidence(*from, evidence);
  }
  change_due_ = change_due_ || !settled || std::exchange(asked_early_, false);
  Tell(LogLevel::kInfo, "the coordinator was restarted: view " +
                            std::to_string(EpochCounter(base.epoch)) +
                            (change_due_ ? " needs a change" : " goes on unchanged"));
  roster_changed_ = true;
}

void CoordinatorMachine::LoseAbsent(const wire::View& base,
                                    const std::map<MemberId, Epoch>& left_out) {
  for (const wire::ViewEntry& entry : base.entries) {
    const MemberId id = entry.card.id;
    const auto proof = proven_dead_.find(id);
    const auto out = left_out.find(id);
    // Had been given its end, and has very likely gone as planned.
    const bool gone = !Find(id) && entry.last.kind != wire::Bound::Kind::kNone;
    if (proof != proven_dead_.end()) {
      Lose(id, Code::kPeer, "process watch", proof->second);
    } else if (out != left_out.end() && (!gone || FTAR_MUTANT(kGoneLeaverLost))) {
      Lose(id, Code::kEvicted, "earlier change",
           "was left out of epoch " + std::to_string(EpochCounter(out->second)) +
               ", which others have promised");
    } else if (gone) {
      Peer& peer = peers_[id];
      peer.card = entry.card;
      peer.state = State::kMember;
      peer.departed = true;
    } else if (!Find(id)) {
      Lose(id, Code::kPeer, "control connection",
           "it did not come back to the restarted coordinator");
    }
  }
}

// Members of an older view that the others have gone on without.
void CoordinatorMachine::EvictStrangers(const wire::View& base) {
  std::vector<MemberId> strangers;
  for (const auto& [id, peer] : peers_) {
    if (peer.state == State::kReporting && !base.Find(id)) strangers.push_back(id);
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
}

}  // namespace ftar::membership
