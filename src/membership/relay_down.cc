// What each behind a relay hears: of its own column alone. A job's view names units; a member's
// names the twelve, or however many, whom it works with.
#include <algorithm>
#include <cstddef>
#include <span>
#include <utility>

#include "base/mutant.h"
#include "membership/relay_machine.h"
#include "wire/codec.h"

namespace ftar::membership {

// ---- in the words of one column ----

std::vector<wire::MemberCard> RelayMachine::CardsFor(
    size_t index, const std::vector<wire::MemberCard>& units) const {
  std::vector<wire::MemberCard> cards;
  for (const wire::MemberCard& card : units) {
    if (const auto unit = units_.find(card.id); unit != units_.end())
      cards.push_back(unit->second.behind.cards[index]);
  }
  return cards;
}

std::vector<wire::ViewEntry> RelayMachine::Own(const std::vector<wire::ViewEntry>& entries) const {
  std::vector<wire::ViewEntry> own;
  for (const wire::ViewEntry& entry : entries) {
    if (entry.card.shard == block_ && units_.contains(entry.card.id)) own.push_back(entry);
  }
  return own;
}

std::vector<wire::Loss> RelayMachine::Own(const std::vector<wire::Loss>& lost) const {
  std::vector<wire::Loss> own;
  for (const wire::Loss& loss : lost) {
    if (loss.shard == block_) own.push_back(loss);
  }
  return own;
}

wire::View RelayMachine::Own(const wire::View& view) const {
  return {view.epoch, view.era, view.base, view.planned, view.boundary, Own(view.entries), {}};
}

wire::Prepare RelayMachine::Own(const wire::Prepare& message) const {
  wire::Prepare own{message.epoch,        message.base,        {},
                    Own(message.members), message.leader_turn, Own(message.lost)};
  for (const MemberId id : message.survivors) {
    if (units_.contains(id)) own.survivors.push_back(id);
  }
  return own;
}

std::vector<wire::ViewEntry> RelayMachine::EntriesFor(
    size_t index, const std::vector<wire::ViewEntry>& own) const {
  std::vector<wire::ViewEntry> entries;
  entries.reserve(own.size());
  for (const wire::ViewEntry& entry : own) {
    entries.push_back({units_.at(entry.card.id).behind.cards[index], entry.joined_epoch,
                       entry.first, entry.last});
    entries.back().card.wire = entry.card.wire;  // as all who see the unit see it
  }
  return entries;
}

wire::View RelayMachine::ViewFor(size_t index, const wire::View& own) const {
  return {own.epoch, own.era, own.base, own.planned, own.boundary, EntriesFor(index, own.entries),
          {}};
}

wire::Loss RelayMachine::LossFor(size_t index, wire::Loss loss) const {
  loss.shard = children_[index].card.shard;
  if (const auto unit = units_.find(loss.member); unit != units_.end()) {
    loss.member = unit->second.behind.cards[index].id;
    loss.host = unit->second.behind.cards[index].host;
  }
  return loss;
}

std::vector<wire::Loss> RelayMachine::LossesFor(size_t index,
                                                const std::vector<wire::Loss>& own) const {
  std::vector<wire::Loss> out;
  for (const wire::Loss& loss : own) out.push_back(LossFor(index, loss));
  return out;
}

wire::Prepare RelayMachine::PrepareFor(size_t index, const wire::Prepare& own) const {
  wire::Prepare out{own.epoch,
                    own.base,
                    {},
                    EntriesFor(index, own.members),
                    own.leader_turn,
                    LossesFor(index, own.lost)};
  for (const MemberId id : own.survivors)
    out.survivors.push_back(units_.at(id).behind.cards[index].id);
  return out;
}

const wire::ViewEntry* RelayMachine::Unknown(const std::vector<wire::ViewEntry>& units) const {
  const auto found = std::find_if(units.begin(), units.end(), [this](const wire::ViewEntry& entry) {
    return entry.card.shard == block_ && !units_.contains(entry.card.id);
  });
  return found == units.end() ? nullptr : &*found;
}

// ---- who is where ----

// From a coordinator that has read none of it.
void RelayMachine::Tell(const wire::Roster& message) {
  Expected<wire::Message> read = wire::Decode(std::as_bytes(std::span(message.bytes)));
  auto* const behind = read.ok() ? std::get_if<wire::Behind>(&*read) : nullptr;
  if (!behind || behind->cards.size() != children_.size() ||
      behind->rosters.size() != children_.size()) {
    Tell(LogLevel::kError, "a roster of another relay is not one of " +
                               std::to_string(children_.size()) + " members");
    return;
  }
  for (size_t i = 0; i < children_.size(); ++i) {
    if (!children_[i].roster.empty())
      Send(children_[i], wire::Roster{behind->cards[i].id, behind->rosters[i]});
  }
  if (message.unit != unit_) Name(message, std::move(*behind));
  // Members of a lost relay tell all they have to tell at once, before this.
  for (const auto& [index, peer] : std::exchange(early_links_, {}))
    Hear(children_[index], wire::LinksUp{{peer}, children_[index].wire});
  for (const auto& [index, evidence] : std::exchange(early_evidence_, {}))
    Hear(children_[index], evidence);
}

void RelayMachine::Name(const wire::Roster& message, wire::Behind behind) {
  const auto [at, fresh] = units_.try_emplace(message.unit);
  Unit& unit = at->second;
  unit.named = ++namings_;
  unit.seen = false;
  if (!fresh) return;
  unit.replica = behind.cards[0].replica;
  unit.behind = std::move(behind);
}

// Units that were in and are not any longer, and those that never were and will not be any more.
// Who has not been in yet may be on its way.
void RelayMachine::ForgetUnits() {
  std::set<MemberId> in;
  for (const wire::ViewEntry& entry : pending_->view.entries) in.insert(entry.card.id);
  std::erase_if(units_, [&](const auto& entry) {
    const auto& [id, unit] = entry;
    if (id == unit_ || in.contains(id) || (!unit.seen && !IsOfThePast(unit))) return false;
    links_told_.erase(id);
    return true;
  });
  early_evidence_.clear();  // whoever is in is known by now
  early_links_.clear();
  const auto gone = [this](const auto& e) { return !UnitOf(e.first.first, e.first.second); };
  std::erase_if(overdue_, gone);
  std::erase_if(unwanted_, gone);
}

void RelayMachine::Await(wire::Install install) {
  pending_ = std::move(install);
  pending_named_ = namings_;
}

// Those of the view that is pending. Of a plan that is announced this is not said before somebody
// holds it: until then it may be void, and its newcomers wait for the next one. Who was named later
// is a newcomer again, to a coordinator that does not know of that view.
void RelayMachine::PendingAreIn() {
  for (const wire::ViewEntry& entry : pending_->view.entries) {
    const auto unit = units_.find(entry.card.id);
    if (unit != units_.end() && unit->second.named <= pending_named_) unit->second.seen = true;
  }
}

// A newcomer has a place when whoever had it before has given it up or is lost. A change that is
// under way may still name that one, and one or two before it.
bool RelayMachine::IsOfThePast(const Unit& unit) const {
  constexpr int kLaterMax = 8;
  return std::ranges::count_if(units_, [&unit](const auto& entry) {
           return entry.second.replica == unit.replica && entry.second.named > unit.named;
         }) >= kLaterMax;
}

void RelayMachine::Tell(const wire::Welcome& message) {
  peers_ = message.peers;
  welcomed_ = true;
  links_told_.clear();  // what it has told of them is void there, and is told again
  for (size_t i = 0; i < children_.size(); ++i)
    Send(children_[i], wire::Welcome{CardsFor(i, message.peers)});
}

void RelayMachine::Tell(const wire::Connect& message) {
  std::erase_if(peers_, [this](const wire::MemberCard& card) { return !units_.contains(card.id); });
  peers_.insert(peers_.end(), message.peers.begin(), message.peers.end());
  for (size_t i = 0; i < children_.size(); ++i)
    Send(children_[i], wire::Connect{CardsFor(i, message.peers)});
}

// ---- changes ----

void RelayMachine::Tell(const wire::Prepare& message) {
  if (message.epoch < promised_) {
    ready_.up.push_back(wire::Refuse{message.epoch, MakeReport()});  // Q2
    return;
  }
  if (const wire::ViewEntry* const unknown = Unknown(message.members)) {
    Tell(LogLevel::kError, "a change names " + Describe(unknown->card) +
                               ", of which no roster has come to that of replica " +
                               std::to_string(children_[0].card.replica));
    return;
  }
  // Of a unit that leaves some have gone already and can say nothing any more; the others go, too.
  if (Staying() < children_.size()) {
    ready_.up.push_back(wire::Goodbye{Code::kLeft, "left in part"});
    wire::Loss reason;
    reason.cause = Code::kEvicted;
    reason.stage = "relay";
    reason.text = "others of its replica had left when the members changed";
    return End(wire::Evicted{message.epoch, std::move(reason)});
  }
  const bool again = prepare_ && message.epoch == promised_;
  promised_ = message.epoch;
  prepare_ = message;
  refused_ = false;
  no_quorum_.reset();
  if (!again) {
    if (!FTAR_MUTANT(kRelayAggregateOutlives)) decided_.clear();
    proposed_ = confirming_ = announcing_ = 0;
    reserved_.clear();
  }
  WatchAll();
  const wire::Prepare own = Own(message);
  for (size_t i = 0; i < children_.size(); ++i) Send(children_[i], PrepareFor(i, own));
  if (again) TellDecided();
}

// The others may be in a view with all of them by now, so each is missed from here on, whether it
// says that it holds that view or not.
void RelayMachine::WatchAll() {
  if (FTAR_MUTANT(kRelayMissesHolders)) return;
  for (const Child& child : children_) {
    if (!child.gone) detector_.Watch(now_, child.card.id);
  }
}

void RelayMachine::Tell(const wire::Install& message) {
  if (Unknown(message.view.entries)) return;
  Await(message);
  told_.reset();
  WatchAll();
  const wire::View own = Own(message.view);
  const std::vector<wire::Loss> lost = Own(message.lost);
  for (size_t i = 0; i < children_.size(); ++i) {
    Send(children_[i], wire::Install{ViewFor(i, own), LossesFor(i, lost)});
    if (children_[i].installed == message.view.epoch) installed_ = message.view;
  }
  PendingAreIn();
  ForgetUnits();
}

void RelayMachine::Tell(const wire::Propose& message) {
  if (Unknown(message.view.entries)) return;
  proposed_ = message.view.epoch;
  reserved_.clear();
  const wire::View own = Own(message.view);
  for (size_t i = 0; i < children_.size(); ++i) Send(children_[i], wire::Propose{ViewFor(i, own)});
}

void RelayMachine::Tell(const wire::Confirm& message) {
  if (Unknown(message.view.entries)) return;
  confirming_ = message.view.epoch;
  confirmed_.clear();
  Await({message.view, {}});
  const wire::View own = Own(message.view);
  for (size_t i = 0; i < children_.size(); ++i) Send(children_[i], wire::Confirm{ViewFor(i, own)});
}

// To those whose members are roots an order, to the others a word: their members hear of it on
// their links, and the relay would have to report it.
void RelayMachine::Tell(const wire::Announce& message) {
  if (Unknown(message.view.entries)) return;
  announcing_ = message.view.epoch;
  announced_.clear();
  Await({message.view, {}});
  told_ = message.view;
  WatchAll();
  const wire::View own = Own(message.view);
  for (size_t i = 0; i < children_.size(); ++i) {
    Send(children_[i], wire::Announce{ViewFor(i, own)});
    if (children_[i].installed == message.view.epoch) installed_ = message.view;
  }
  if (installed_ && installed_->epoch == message.view.epoch) PendingAreIn();
  ForgetUnits();
}

void RelayMachine::Tell(const wire::VoidPlan& message) {
  if (proposed_ == message.epoch) proposed_ = 0;
  if (confirming_ == message.epoch) confirming_ = 0;
  if (told_ && told_->epoch == message.epoch) told_.reset();
  SendAll(message);
}

void RelayMachine::Tell(const wire::Evicted& message) { End(message); }
void RelayMachine::Tell(const wire::Rejected& message) { End(message); }
// Not passed on: it beats itself. That a view is formed only a coordinator says that has no relays.
void RelayMachine::Tell(const wire::CoordinatorBeat& message) { away_ = message.away; }

// It has closed this line, as another relay speaks for them. Of newcomers, who do not beat, nothing
// else tells that they are gone: two would take each other's place for ever.
void RelayMachine::Tell(const wire::Redirect&) {
  if (complete_) Dissolve();
}

void RelayMachine::Tell(const wire::NoQuorum& message) {
  no_quorum_ = message;
  SendAll(message);
}
void RelayMachine::Tell(const wire::Release& message) {
  release_ = message;
  SendAll(message);
}

void RelayMachine::Tell(const wire::LateNotice& message) {
  const auto unit = units_.find(message.member);
  if (unit == units_.end()) return;
  for (size_t i = 0; i < children_.size(); ++i) {
    wire::LateNotice own = message;
    own.member = unit->second.behind.cards[i].id;
    Send(children_[i], own);
  }
}

}  // namespace ftar::membership
