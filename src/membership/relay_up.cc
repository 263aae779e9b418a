// What all behind a relay say, as one word: it goes up when the last of them has said it, and what
// belongs to an older change goes nowhere.
#include <algorithm>
#include <utility>

#include "base/mutant.h"
#include "membership/bounds.h"
#include "membership/relay_machine.h"

namespace ftar::membership {
namespace {

using wire::Bound;

constexpr size_t kEarlyMax = 65'536;

// One bound for the columns of a unit. Those that a survivor knows stand; what leaders have chosen
// now may be raised to them, or to the latest of all (J1, J4). Nothing if that cannot be: a column
// has passed what another one knows.
struct MergedBound {
  bool clash = false, fresh = true, nowhere = false;
  std::optional<Bound> known;
  LatestBound latest, beside;  // of the fresh ones; of these and the known one
  std::optional<Bound> sample;
  bool same = true;

  void Add(const Bound& bound, bool is_fresh) {
    same = same && (!sample || *sample == bound);
    sample = bound;
    fresh = fresh && is_fresh;
    nowhere = nowhere || (is_fresh && bound.kind == Bound::Kind::kNone);
    if (is_fresh) {
      latest.Add(bound);
    } else {
      clash = clash || (known && !(*known == bound));
      known = bound;
    }
    beside.Add(bound);
  }
  std::optional<Bound> Get() const {
    if (same) return sample;
    if (clash) return std::nullopt;
    const std::optional<Bound> later = known ? beside.Common() : latest.Common();
    if (known && later != known) return std::nullopt;
    return later;
  }
};

const wire::BoundOf* Find(const wire::Decided& decided, MemberId member) {
  for (const wire::BoundOf& bound : decided.bounds) {
    if (bound.member == member) return &bound;
  }
  return nullptr;
}

}  // namespace

// The unit, of this column of units, that stands at `index` for this member.
std::pair<const MemberId, RelayMachine::Unit>* RelayMachine::UnitOf(size_t index, MemberId member) {
  for (auto& unit : units_) {
    if (unit.second.behind.cards[index].id == member) return &unit;
  }
  return nullptr;
}

// ---- joining ----

// A unit is linked to another when all its columns are.
bool RelayMachine::Linked(const Unit& unit) const {
  return unit.linked.size() >= (FTAR_MUTANT(kRelayLinkedByOne) ? 1 : children_.size());
}

void RelayMachine::Hear(Child& child, const wire::LinksUp& message) {
  const size_t index = IndexOf(child);
  child.wire = message.wire;
  bool more = false;
  for (const MemberId peer : message.peers) {
    auto* const found = UnitOf(index, peer);
    if (!found) {
      if (early_links_.size() < kEarlyMax) early_links_.push_back({index, peer});
      continue;
    }
    found->second.linked.insert(index);
    Mend(index, found->first, found->second);
    more = more || (Linked(found->second) && !links_told_.contains(found->first));
  }
  if (!more || !above_) return;
  wire::LinksUp up;
  for (const auto& [id, unit] : units_) {
    if (!Linked(unit)) continue;
    up.peers.push_back(id);
    links_told_.insert(id);
  }
  std::vector<wire::WireCosts> costs;
  for (const Child& each : children_) costs.push_back(each.wire);
  up.wire = wire::MedianOf(costs);
  ready_.up.push_back(std::move(up));
}

// ---- a change by Prepare ----

void RelayMachine::Hear(Child& child, const wire::Refuse& message) {
  child.report.promised = std::max(child.report.promised, message.report.promised);
  if (!prepare_ || message.epoch != prepare_->epoch || std::exchange(refused_, true)) return;
  wire::Refuse up;
  up.epoch = message.epoch;
  up.report.promised = message.report.promised;
  up.report.installed = message.report.installed;
  if (!message.report.promised_members.empty()) {
    // It speaks of its own column; replicas are promised as a whole.
    std::set<int32_t> promised;
    for (const MemberId id : message.report.promised_members) {
      if (const auto* unit = UnitOf(IndexOf(child), id)) promised.insert(unit->second.replica);
    }
    for (const wire::ViewEntry& entry : prepare_->members) {
      if (promised.contains(entry.card.replica))
        up.report.promised_members.push_back(entry.card.id);
    }
  }
  ready_.up.push_back(std::move(up));
}

void RelayMachine::Hear(Child& child, const wire::Decided& message) {
  const bool stale = !prepare_ || message.epoch != prepare_->epoch;
  if ((stale && !FTAR_MUTANT(kRelayOldWordCounts)) || message.shard != child.card.shard) return;
  decided_.insert({IndexOf(child), message});
  TellDecided();
}

void RelayMachine::TellDecided() {
  const size_t needed = children_.size() - (FTAR_MUTANT(kRelayDecidesWithoutLast) ? 1 : 0);
  if (decided_.empty() || decided_.size() < needed || !above_) return;
  wire::Decided up;
  up.epoch = prepare_->epoch;
  up.shard = block_;
  MemberId clash;
  if (MergeBounds(&up, &clash)) {
    ready_.up.push_back(std::move(up));
    return;
  }
  // Rare: a root that had lost the coordinator went past a boundary that another column holds.
  ready_.up.push_back(wire::Evidence{wire::EvidenceKind::kOperator, clash, Code::kEvicted, 0,
                                     "its columns would begin or end apart"});
}

// J3: a column of newcomers alone has nothing to go on with, and the coordinator ends the job; so
// the word of such a column is that of the unit.
bool RelayMachine::MergeBounds(wire::Decided* decided, MemberId* clash) const {
  for (const auto& [index, column] : decided_) {
    const bool newcomers =
        std::all_of(column.bounds.begin(), column.bounds.end(),
                    [](const wire::BoundOf& bound) { return bound.fresh_first; });
    if (!newcomers || prepare_->lost.empty()) continue;
    for (const auto& [id, unit] : units_) {
      const wire::BoundOf* bound = Find(column, unit.behind.cards[index].id);
      if (!bound) continue;
      decided->bounds.push_back(*bound);
      decided->bounds.back().member = id;
    }
    return true;
  }
  for (const wire::ViewEntry& entry : prepare_->members) {
    const auto known = units_.find(entry.card.id);
    if (entry.card.shard != block_ || known == units_.end()) continue;
    const Unit& unit = known->second;
    MergedBound first, last;
    for (const auto& [index, column] : decided_) {
      const wire::BoundOf* bound = Find(column, unit.behind.cards[index].id);
      if (!bound) continue;
      first.Add(bound->first, bound->fresh_first);
      last.Add(bound->last, bound->fresh_last);
    }
    if (!first.sample) continue;
    if (first.nowhere) {  // in one column, so the unit is turned back
      decided->bounds.push_back({entry.card.id, {}, {}, true, false});
      continue;
    }
    const std::optional<Bound> begins = first.Get(), ends = last.Get();
    *clash = entry.card.id;
    if (!begins || !ends) return false;
    decided->bounds.push_back({entry.card.id, *begins, *ends, first.fresh, last.fresh});
  }
  return true;
}

Epoch RelayMachine::LeastInstalled() const {
  Epoch least = 0;
  for (const Child& child : children_) {
    if (child.gone) continue;
    if (child.held_by_all == 0) return 0;
    least = least == 0 ? child.held_by_all : std::min(least, child.held_by_all);
  }
  return least;
}

void RelayMachine::Hear(Child& child, const wire::Installed& message) {
  if (message.epoch <= child.held_by_all) return;
  child.held_by_all = message.epoch;
  child.installed = std::max(child.installed, message.epoch);
  if (!complete_) AwaitMates(child);
  detector_.Watch(now_, child.card.id);
  if (pending_ && pending_->view.epoch == message.epoch &&
      (!installed_ || installed_->epoch < message.epoch)) {
    installed_ = pending_->view;
    PendingAreIn();
    asked_.clear();
    detector_.Restart();
  }
  // Who came first tends to stand in front, so the last to install are found soon.
  const auto behind = [this](const Child& one) {
    return !one.gone && one.held_by_all <= installed_told_ && !FTAR_MUTANT(kRelayInstalledByOne);
  };
  if (!above_ || std::any_of(children_.rbegin(), children_.rend(), behind)) return;
  installed_told_ = FTAR_MUTANT(kRelayInstalledByOne) ? message.epoch : LeastInstalled();
  ready_.up.push_back(wire::Installed{installed_told_});
}

void RelayMachine::Hear(Child& child, const wire::AskPrepare& message) {
  const bool known = std::any_of(asked_.begin(), asked_.end(), [&](const auto& asked) {
    return asked.group == message.group && asked.seq == message.seq;
  });
  if (known || child.gone) return;
  asked_.push_back(message);
  if (above_) ready_.up.push_back(message);
}

// ---- planned changes ----

void RelayMachine::Hear(Child& child, const wire::Reserved& message) {
  if (proposed_ == 0 || message.epoch != proposed_) return;
  reserved_.insert({IndexOf(child), message});
  if (reserved_.size() < children_.size()) return;
  wire::Reserved up{proposed_, block_, true, {}};
  LatestBound latest;
  for (const auto& [index, reserved] : reserved_) {
    up.idle = up.idle && reserved.idle;
    latest.Add(reserved.earliest);
  }
  // No common measure yet (J4): a bound that is none makes the coordinator change by Prepare.
  up.earliest = latest.Common().value_or(Bound{});
  if (FTAR_MUTANT(kRelayReservesFirst)) up.earliest = reserved_.begin()->second.earliest;
  ready_.up.push_back(std::move(up));
}

void RelayMachine::Hear(Child& child, const wire::Confirmed& message) {
  if (message.epoch != confirming_) return;
  confirmed_.insert(IndexOf(child));
  const size_t needed = FTAR_MUTANT(kRelayConfirmsForAll) ? 1 : children_.size();
  if (confirmed_.size() != needed) return;
  told_ = pending_->view;
  ready_.up.push_back(wire::Confirmed{confirming_});
}

void RelayMachine::Hear(Child& child, const wire::Announced& message) {
  if (message.epoch != announcing_) return;
  announced_.insert(IndexOf(child));
  if (announced_.size() == children_.size())
    ready_.up.push_back(wire::Announced{announcing_, block_});
}

void RelayMachine::Hear(Child& child, const wire::LeaveRequest&) {
  const bool before = All(&Child::leave_requested);
  child.leave_requested = true;
  if (!before && All(&Child::leave_requested) && above_) ready_.up.push_back(wire::LeaveRequest{});
}

void RelayMachine::Hear(Child& child, const wire::LeaveReady&) {
  const bool before = All(&Child::leave_ready);
  child.leave_ready = true;
  if (!before && All(&Child::leave_ready) && above_)
    ready_.up.push_back(wire::LeaveReady{LeastInstalled(), {}});
}

void RelayMachine::Hear(Child& child, const wire::Goodbye& message) {
  if (message.code == Code::kLeft) {
    child.gone = true;
    child.lost_at = kNever;
    detector_.Forget(child.card.id);
    if (Staying() > 0) return;
    if (above_) ready_.up.push_back(message);
    over_ = true;
    return;
  }
  if (message.code == Code::kTimeout && child.installed == 0) {  // wants to hear what it waits for
    if (complete_ && above_) {
      ready_.up.push_back(message);
    } else {
      Send(child, wire::Rejected{Code::kTimeout, "replica",
                                 "others of its replica have not come to their relay"});
    }
    return;
  }
  const bool relay = !child.roster.empty();
  LoseChild(IndexOf(child), message.code, relay ? message.text : "it gave up: " + message.text);
}

// ---- beats and evidence ----

void RelayMachine::Hear(Child& child, const wire::Heartbeat& message) {
  if (message.installed > child.held_by_all) Hear(child, wire::Installed{message.installed});
  child.beat = message;
  detector_.Beat(child.card.id, message);
  std::erase_if(overdue_, [&](const auto& entry) {
    return entry.first.first == IndexOf(child) &&
           !detector_.WaitsFor(child.card.id, entry.first.second);
  });
}

// The least of what is done, the sum of what moves, all that anybody lacks. An operation that is
// the oldest here and at a unit that is lacked has not been called there by somebody: called ends
// are at least what the other side of the column has delivered.
wire::Heartbeat RelayMachine::Progress() const {
  wire::Heartbeat beat;
  beat.installed = LeastInstalled();
  std::map<GroupKey, wire::GroupProgress> groups;
  std::map<GroupKey, std::set<MemberId>> lacked;
  for (size_t i = 0; i < children_.size(); ++i) {
    if (children_[i].gone) continue;
    for (const wire::GroupProgress& group : children_[i].beat.groups) {
      const auto [found, fresh] = groups.insert({group.group, group});
      wire::GroupProgress& sum = found->second;
      if (!fresh) {
        sum.called_end = std::min(sum.called_end, group.called_end);
        sum.delivered_end = std::min(sum.delivered_end, group.delivered_end);
        sum.counter += group.counter;
      }
      for (const auto& [id, unit] : units_) {
        const MemberId own = unit.behind.cards[i].id;
        if (std::find(group.waits_for.begin(), group.waits_for.end(), own) != group.waits_for.end())
          lacked[group.group].insert(id);
      }
    }
  }
  for (auto& [key, group] : groups) {
    group.waits_for.assign(lacked[key].begin(), lacked[key].end());
    beat.groups.push_back(std::move(group));
  }
  return beat;
}

void RelayMachine::Hear(Child& child, const wire::Evidence& message) {
  const size_t index = IndexOf(child);
  if (message.kind == wire::EvidenceKind::kSelfReport) {
    if (message.subject == child.card.id)
      LoseChild(index, message.code, "it reported itself: " + message.text);
    return;
  }
  if (!UnitOf(index, message.subject)) return KeepEarly(index, message);
  const std::pair<size_t, MemberId> who{index, message.subject};
  if (message.kind == wire::EvidenceKind::kDeadline) overdue_[who] = message;
  if (message.kind == wire::EvidenceKind::kOperator) unwanted_[who] = message;
  PassUp(index, message);
}

// In the words of units.
void RelayMachine::PassUp(size_t index, const wire::Evidence& message) {
  auto* const found = UnitOf(index, message.subject);
  if (!found) return;
  Child& child = children_[index];
  auto& [id, unit] = *found;
  wire::Evidence up = message;
  up.subject = id;
  up.text = Describe(unit.behind.cards[index]) + ", says " + Describe(child.card) +
            (message.text.empty() ? "" : ": " + message.text);
  switch (message.kind) {
    case wire::EvidenceKind::kLinkLost:
    case wire::EvidenceKind::kLinkRestored: return OnLink(child, id, unit, up);
    case wire::EvidenceKind::kProcessExited:
      if (std::exchange(unit.exited, true) || !above_) return;
      break;
    case wire::EvidenceKind::kSelfReport:
    case wire::EvidenceKind::kOperator:
    case wire::EvidenceKind::kDeadline: break;
  }
  if (above_) ready_.up.push_back(std::move(up));
}

// It does not hear this relay, and has found another one.
void RelayMachine::Hear(Child& child, const wire::Redirect&) {
  if (!complete_ || child.gone) return;
  ready_.close.push_back(child.conn);
  conns_.erase(std::exchange(child.conn, 0));
  AwaitBack(child);
}

// What stands it says again; that a link is back, or that it waits for somebody no longer, it may
// have said to nobody. The coordinator does the same with who comes back to it.
void RelayMachine::ForgetReportsOf(size_t index) {
  std::erase_if(early_evidence_, [index](const auto& early) { return early.first == index; });
  std::erase_if(early_links_, [index](const auto& early) { return early.first == index; });
  std::erase_if(overdue_, [index](const auto& entry) { return entry.first.first == index; });
  if (children_[index].installed == 0) return;  // says which links it has when it is welcomed
  for (auto& [id, unit] : units_) Mend(index, id, unit);
}

void RelayMachine::Mend(size_t index, MemberId id, Unit& unit) {
  const bool last = unit.broken.erase(index) > 0 && unit.broken.empty();
  if (last && above_)
    ready_.up.push_back(wire::Evidence{wire::EvidenceKind::kLinkRestored, id, Code::kOk, 0, ""});
}

// Of one whom no roster tells of yet. That a link is back is not said when it is lost again.
void RelayMachine::KeepEarly(size_t index, const wire::Evidence& message) {
  if (message.kind == wire::EvidenceKind::kLinkLost) {
    std::erase_if(early_evidence_, [&](const auto& early) {
      return early.first == index && early.second.subject == message.subject &&
             early.second.kind == wire::EvidenceKind::kLinkRestored;
    });
    std::erase(early_links_, std::pair(index, message.subject));
  }
  if (early_evidence_.size() < kEarlyMax) early_evidence_.push_back({index, message});
}

// A link between units is lost with the first of its columns, and back with the last.
void RelayMachine::OnLink(Child& child, MemberId id, Unit& unit, const wire::Evidence& message) {
  const size_t index = IndexOf(child);
  if (message.kind == wire::EvidenceKind::kLinkLost) {
    unit.linked.erase(index);
    links_told_.erase(id);
    if (unit.broken.insert(index).second && unit.broken.size() == 1 && above_)
      ready_.up.push_back(message);
    return;
  }
  unit.linked.insert(index);
  const bool was = unit.broken.erase(index) > 0;
  const bool back = unit.broken.empty() || FTAR_MUTANT(kRelayLinkBackByOne);
  if (!was || !back || !above_) return;
  ready_.up.push_back(message);
  links_told_.insert(id);
}

}  // namespace ftar::membership
