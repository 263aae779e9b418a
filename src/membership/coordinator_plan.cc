// Joins and leaves without a stop (rules J3 to J5): each column's root reserves a boundary that
// nobody can have passed, the latest of them is confirmed by the newcomers, then announced. One
// planned view at a time; a failure goes first.
#include <algorithm>
#include <utility>

#include "base/mutant.h"
#include "membership/bounds.h"
#include "membership/coordinator_machine.h"

namespace ftar::membership {

// Everybody holds the current view. Before that a root would not understand a proposal that builds
// on it.
bool CoordinatorMachine::AllInstalled() const {
  return std::all_of(current_->entries.begin(), current_->entries.end(),
                     [this](const wire::ViewEntry& entry) {
                       const Peer* peer = Find(entry.card.id);
                       return !Alive(entry.card.id) || (peer && peer->installed >= current_->epoch);
                     });
}

// Newcomers of replicas that are complete and linked. None while a column has nobody left to take
// over from: the last members have been given their ends, and another first view follows.
std::set<MemberId> CoordinatorMachine::ReadyNewcomers() const {
  // Those who are away may have gone on under another coordinator, and whoever is taken in now
  // would be out with this one.
  if ((config_.hosted && !suspects_.empty()) || draft_.nobody_stays) return {};
  std::set<int32_t> columns;
  for (const wire::ViewEntry& entry : current_->entries) {
    const MemberId id = entry.card.id;
    if (Alive(id) && (!Leaving(id) || FTAR_MUTANT(kBeginsAmongTheLost)))
      columns.insert(entry.card.shard);
  }
  if (static_cast<int32_t>(columns.size()) < reference_->shards) return {};
  std::map<int32_t, std::set<MemberId>> replicas;
  for (const auto& [id, peer] : peers_) {
    const bool linked = peer.linked || FTAR_MUTANT(kUnlinkedEnters);
    if (peer.state == State::kNewcomer && linked && peer.conn != 0 && !lost_.contains(id))
      replicas[peer.card.replica].insert(id);
  }
  std::set<MemberId> ready;
  for (const auto& [replica, ids] : replicas) {
    if (static_cast<int32_t>(ids.size()) == reference_->shards)
      ready.insert(ids.begin(), ids.end());
  }
  return ready;
}

// Members of replicas all of whose members have asked to leave, and have not been given their end
// yet.
std::set<MemberId> CoordinatorMachine::ReadyLeavers() const {
  std::map<int32_t, std::set<MemberId>> replicas;
  std::set<int32_t> staying;
  for (const wire::ViewEntry& entry : current_->entries) {
    const MemberId id = entry.card.id;
    if (!Alive(id) || Leaving(id)) continue;
    const Peer* peer = Find(id);
    if (peer && peer->leave_requested) {
      replicas[entry.card.replica].insert(id);
    } else {
      staying.insert(entry.card.replica);
    }
  }
  std::set<MemberId> ready;
  for (const auto& [replica, ids] : replicas) {
    if (!staying.contains(replica)) ready.insert(ids.begin(), ids.end());
  }
  return ready;
}

// False if a column's root is gone: then no boundary can be announced and the change has to go by
// Prepare.
bool CoordinatorMachine::PlanRoots(std::map<int32_t, MemberId>* roots) const {
  for (const wire::ViewEntry& entry : current_->entries) {
    const int32_t column = entry.card.shard;
    if (roots->contains(column)) continue;
    const MemberId root = ColumnRoot(*current_, column)->card.id;
    const Peer* peer = Find(root);
    if (!peer || !Alive(root) || peer->conn == 0) return false;
    (*roots)[column] = root;
  }
  return true;
}

bool CoordinatorMachine::AnybodyStays(const std::set<MemberId>& leavers) const {
  return std::any_of(current_->entries.begin(), current_->entries.end(),
                     [this, &leavers](const wire::ViewEntry& entry) {
                       return Alive(entry.card.id) && !Leaving(entry.card.id) &&
                              !leavers.contains(entry.card.id);
                     });
}

std::set<MemberId> CoordinatorMachine::AskedToLeave() const {
  std::set<MemberId> leavers;
  for (const auto& [id, peer] : peers_) {
    if (peer.leave_requested) leavers.insert(id);
  }
  return leavers;
}

// Too few are left, all of them leavers: newcomers cannot take over from them (J3), so nobody
// brings the quorum back, and those who have come wait for the end of the job.
bool CoordinatorMachine::WaitsForNobody() const {
  const bool come = std::any_of(peers_.begin(), peers_.end(), [](const auto& entry) {
    return entry.second.state == State::kNewcomer && entry.second.linked;
  });
  return come && !config_.hosted && !AnybodyStays(AskedToLeave());
}

// J5 where nobody stays: each has delivered what it called and calls no more, so none needs another
// any longer, and no view has to say so. What they stand in for is over by the same word. True once
// that is so: there is nothing left to plan.
bool CoordinatorMachine::ReleaseAll() {
  // Whom it has lost and may not evict for want of a quorum may need those who are here.
  if (config_.hosted && !lost_.empty()) return false;
  const wire::View* const announced = AnnouncedView();
  std::vector<MemberId> all;
  bool released = false;
  for (const wire::ViewEntry& entry : announced ? announced->entries : current_->entries) {
    const MemberId id = entry.card.id;
    if (!Alive(id)) continue;
    const Peer* peer = Find(id);
    if (!peer || !(FTAR_MUTANT(kReleasedUnready) ? peer->leave_requested : peer->leave_ready))
      return false;
    released = released || peer->released;
    if (!peer->released) all.push_back(id);
  }
  if (all.empty()) return released;
  if (!announced) VoidPlan();
  for (MemberId id : all) Find(id)->released = true;
  Tell(LogLevel::kInfo, "all members leave; nothing is under way");
  Multicast(all, wire::Release{current_->epoch});
  return true;
}

void CoordinatorMachine::TryPlan() {
  if (!std::exchange(plan_due_, false)) return;
  if (change_ || recovery_.under_way || ReleaseAll()) return;
  if (plan_) {
    if (plan_->stage != Plan::Stage::kReserving || AnybodyStays(ReadyLeavers())) return;
    VoidPlan();  // the boundary that it asks for nobody will reach
  }
  // First, as this is asked again whenever somebody has installed it.
  if (lost_.empty() && !AllInstalled()) return;
  std::set<MemberId> newcomers = ReadyNewcomers();
  if (!lost_.empty()) {  // no quorum: newcomers may bring it back
    if (WaitsForNobody()) {
      LoseAll("quorum", "too few are left for it to come to its end");
      return EndJob("only leavers are left, and too few");
    }
    if (newcomers.empty()) return;
    draft_.newcomers.merge(newcomers);
    change_due_ = true;
    if (now_ >= draft_.gather_until) StartChange();  // those who come back may be right behind
    return;
  }
  std::set<MemberId> leavers = ReadyLeavers();
  if (newcomers.empty() && leavers.empty() && !KeepsTheGone()) return;
  StartPlan(std::move(newcomers), std::move(leavers));
}

void CoordinatorMachine::StartPlan(std::set<MemberId> newcomers, std::set<MemberId> leavers) {
  Plan plan;
  const bool frozen = std::any_of(newcomers.begin(), newcomers.end(),
                                  [this](MemberId id) { return Find(id)->frozen; });
  const bool all_leave = !AnybodyStays(leavers);
  if (all_leave && newcomers.empty()) {
    plan.stage = Plan::Stage::kAllLeave;
    plan.leavers = std::move(leavers);
    // A moment for those who finish together to say that they are ready: then no view is needed.
    plan.deadline_ns = now_ + 10 * config_.cluster_ns;
    plan_ = std::move(plan);
    return;
  }
  // Where nobody stays nobody calls up to a boundary, so none would ever be reached.
  if (frozen || all_leave || !PlanRoots(&plan.roots))
    return PrepareInstead(std::move(newcomers), std::move(leavers));
  std::vector<wire::ViewEntry> entries;
  draft_.newcomers = newcomers;
  entries = NextEntries();
  draft_.newcomers.clear();
  plan.view.epoch = epochs_.Next();
  plan.view.era = current_->era;
  plan.view.base = current_->epoch;
  plan.view.planned = true;
  plan.view.entries = std::move(entries);
  plan.view.electorates = seat_.electorates.all();
  for (wire::ViewEntry& entry : plan.view.entries) {
    if (entry.joined_epoch == 0) entry.joined_epoch = plan.view.epoch;
  }
  plan.newcomers = plan.unconfirmed = std::move(newcomers);
  plan.leavers = std::move(leavers);
  // A root answers when it has passed the boundary before (J3), which takes as long as its
  // operations do. These may wait for who leaves now, which calls nothing more.
  TimeNs wait = change_wait_ns();
  if (current_->planned) wait = plan.leavers.empty() ? timeout_ns_ : wait / 10;
  plan.deadline_ns = now_ + wait;
  std::vector<MemberId> roots;
  for (const auto& [column, root] : plan.roots) {
    roots.push_back(root);
    plan.unannounced.insert(column);
  }
  Tell(LogLevel::kInfo, "planned view " + std::to_string(EpochCounter(plan.view.epoch)) + ": " +
                            std::to_string(plan.newcomers.size()) + " join, " +
                            std::to_string(plan.leavers.size()) + " leave");
  plan_ = std::move(plan);
  Multicast(roots, wire::Propose{plan_->view});
}

void CoordinatorMachine::PrepareInstead(std::set<MemberId> newcomers, std::set<MemberId> leavers) {
  draft_.newcomers = std::move(newcomers);
  draft_.leavers = std::move(leavers);
  StartChange();
}

// The planned view will not come; its number is not used again (J1). Once it may have been
// announced only a Prepare undoes it.
void CoordinatorMachine::VoidPlan() {
  if (!plan_) return;
  if (!AnnouncedView()) {
    std::vector<MemberId> all(plan_->newcomers.begin(), plan_->newcomers.end());
    for (const auto& [column, root] : plan_->roots) all.push_back(root);
    Multicast(all, wire::VoidPlan{plan_->view.epoch});
    epochs_.VoidLast();
  }
  plan_.reset();
  plan_due_ = true;
}

void CoordinatorMachine::OnReserved(Peer& from, const wire::Reserved& message) {
  if (!plan_ || plan_->stage != Plan::Stage::kReserving || message.epoch != plan_->view.epoch)
    return;
  const auto root = plan_->roots.find(message.shard);
  if (root == plan_->roots.end() || root->second != from.card.id) return;
  plan_->reserved.insert({message.shard, message});
  if (plan_->reserved.size() < plan_->roots.size()) return;
  const bool idle = std::all_of(plan_->reserved.begin(), plan_->reserved.end(),
                                [](const auto& entry) { return entry.second.idle; });
  // J3: where nothing is in flight the boundary goes by Prepare and Install, and a joiner never
  // waits for traffic.
  if (idle || !BoundPlan()) {
    std::set<MemberId> newcomers = plan_->newcomers, leavers = plan_->leavers;
    VoidPlan();
    return PrepareInstead(std::move(newcomers), std::move(leavers));
  }
  ConfirmOrAnnounce();
}

// J4: the latest boundary of all columns is everybody's.
bool CoordinatorMachine::BoundPlan() {
  LatestBound latest;
  for (const auto& [column, reserved] : plan_->reserved) latest.Add(reserved.earliest);
  const std::optional<wire::Bound> bound = latest.Common();
  if (!bound) return false;
  plan_->view.boundary = *bound;
  for (wire::ViewEntry& entry : plan_->view.entries) {
    if (plan_->newcomers.contains(entry.card.id)) entry.first = *bound;
    if (plan_->leavers.contains(entry.card.id)) entry.last = *bound;
  }
  return true;
}

// J3: announced only when the newcomers have confirmed the boundary.
void CoordinatorMachine::ConfirmOrAnnounce() {
  if (!plan_->unconfirmed.empty() && !FTAR_MUTANT(kAnnouncedUnconfirmed)) {
    plan_->stage = Plan::Stage::kConfirming;
    Multicast({plan_->newcomers.begin(), plan_->newcomers.end()}, wire::Confirm{plan_->view});
    return;
  }
  plan_->stage = Plan::Stage::kAnnouncing;
  for (MemberId id : plan_->newcomers) Find(id)->announced = true;
  plan_->deadline_ns = now_ + change_wait_ns();
  std::vector<MemberId> told;
  for (const auto& [column, root] : plan_->roots) told.push_back(root);
  // Members hear of it on their links. A relay has none, and could not report the view.
  for (const auto& [id, peer] : peers_) {
    const bool root = plan_->roots.contains(peer.card.shard) && plan_->roots[peer.card.shard] == id;
    if (!peer.roster.empty() && !root && plan_->view.Find(id)) told.push_back(id);
  }
  Record(plan_->view.epoch, &plan_->view);
  if (config_.hosted) seat_.electorates.Add(plan_->view);
  Multicast(told, wire::Announce{plan_->view});
}

void CoordinatorMachine::OnConfirmed(Peer& from, const wire::Confirmed& message) {
  if (!plan_ || plan_->stage != Plan::Stage::kConfirming || message.epoch != plan_->view.epoch)
    return;
  if (plan_->unconfirmed.erase(from.card.id) > 0 && plan_->unconfirmed.empty()) ConfirmOrAnnounce();
}

void CoordinatorMachine::OnAnnounced(Peer& from, const wire::Announced& message) {
  if (!plan_ || plan_->stage != Plan::Stage::kAnnouncing || message.epoch != plan_->view.epoch)
    return;
  const auto root = plan_->roots.find(message.shard);
  if (root == plan_->roots.end() || root->second != from.card.id) return;
  if (plan_->unannounced.erase(message.shard) == 0 || !plan_->unannounced.empty()) return;
  Tell(LogLevel::kInfo, "view " + std::to_string(EpochCounter(message.epoch)) + " is announced");
  const wire::View view = std::move(plan_->view);
  BecomeMembers(view);
}

void CoordinatorMachine::PlanOverdue() {
  if (!plan_ || now_ < plan_->deadline_ns) return;
  if (plan_->stage != Plan::Stage::kAllLeave) {
    Tell(LogLevel::kInfo, "planned view " + std::to_string(EpochCounter(plan_->view.epoch)) +
                              " was not taken up in time; changing by Prepare");
  }
  if (AnnouncedView()) return StartChange();
  std::set<MemberId> newcomers = plan_->newcomers, leavers = plan_->leavers;
  VoidPlan();
  PrepareInstead(std::move(newcomers), std::move(leavers));
}

}  // namespace ftar::membership
