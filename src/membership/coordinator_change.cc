// A change by Prepare and Install: failures, the first view, and joins or leaves while nothing runs
// (rules V5, V10, Q3, Q4, J1).
#include <algorithm>
#include <tuple>
#include <utility>

#include "base/mutant.h"
#include "membership/bounds.h"
#include "membership/coordinator_machine.h"
#include "membership/quorum.h"

namespace ftar::membership {
namespace {

std::string ShortEpoch(Epoch epoch) { return std::to_string(EpochCounter(epoch)); }

std::set<int32_t> ReplicasOf(const std::vector<wire::ViewEntry>& entries) {
  std::set<int32_t> replicas;
  for (const wire::ViewEntry& entry : entries) replicas.insert(entry.card.replica);
  return replicas;
}

}  // namespace

// Who is in the next view, in list order: whoever is left, then newcomers at the end, replica by
// replica. Ranks of those who stay do not change by a join (rule F6: the list is the order of
// additions).
std::vector<wire::ViewEntry> CoordinatorMachine::NextEntries() const {
  std::vector<wire::ViewEntry> entries;
  const wire::View* const announced = AnnouncedView();
  const wire::View* const source = announced ? announced : view();
  if (source) {
    for (const wire::ViewEntry& entry : source->entries) {
      if (!Alive(entry.card.id)) continue;
      // A newcomer whose plan was being announced: whether it has begun is for the column's leader
      // to find out (J1).
      const Peer* peer = Find(entry.card.id);
      if (!IsIn(entry.card.id) && !peer) continue;
      entries.push_back(entry);
    }
  }
  std::vector<const Peer*> newcomers;
  for (MemberId id : draft_.newcomers) {
    const bool there = wire::FindEntry(entries, id) != nullptr;
    const Peer* peer = Find(id);
    if (peer && !there && !lost_.contains(id)) newcomers.push_back(peer);
  }
  // Somebody may be in a view with those who were announced: their ranks stand (F6).
  const auto place = [](const Peer* peer) {
    const bool later = !peer->announced && !FTAR_MUTANT(kAnnouncedMoved);
    return std::tuple(later, peer->card.replica, peer->card.shard);
  };
  std::ranges::sort(newcomers, {}, place);
  for (const Peer* peer : newcomers) {
    wire::ViewEntry entry;
    entry.card = peer->card;
    entry.first = {};  // the leader's to fill
    entries.insert(FTAR_MUTANT(kNewcomersFirst) ? entries.begin() : entries.end(),
                   std::move(entry));
  }
  return entries;
}

wire::Prepare CoordinatorMachine::MakePrepare() {
  wire::Prepare prepare;
  prepare.epoch = epochs_.Next();
  prepare.base = current_ ? current_->epoch : 0;
  // Hosted: of a plan that was announced, and that somebody may have heard of.
  if (!seat_.electorates.all().empty()) prepare.base = seat_.electorates.all().back().epoch;
  prepare.members = NextEntries();
  for (wire::ViewEntry& entry : prepare.members) {
    const MemberId id = entry.card.id;
    if (entry.joined_epoch == 0) entry.joined_epoch = prepare.epoch;
    if (draft_.leavers.contains(id)) entry.last.kind = wire::Bound::Kind::kAlways;  // asks to leave
    // Q3: survivors nest in what each was promised last, and a planned view is no promise that
    // everybody has heard of: who came by one since the last Install is a member, not a survivor.
    const bool heard_of =
        current_ && (entry.joined_epoch <= current_->era || FTAR_MUTANT(kNewcomerSurvives));
    if (heard_of && IsIn(id)) prepare.survivors.push_back(id);
  }
  if (prepare.survivors.empty() && current_) {
    // All have come since. Whoever came later knows of those who came first.
    Epoch oldest = prepare.epoch;
    for (const wire::ViewEntry& entry : prepare.members)
      oldest = std::min(oldest, entry.joined_epoch);
    for (const wire::ViewEntry& entry : prepare.members) {
      const bool first = entry.joined_epoch == oldest || FTAR_MUTANT(kLatestSurvives);
      if (first && IsIn(entry.card.id)) prepare.survivors.push_back(entry.card.id);
    }
  }
  for (const auto& [id, loss] : lost_) prepare.lost.push_back(loss);
  return prepare;
}

// Q4: without a quorum the losses wait, nothing is sent, and nobody is out yet: those who come back
// in time belong to the job as before.
bool CoordinatorMachine::HasQuorum(const wire::Prepare& prepare) {
  std::set<MemberId> survivors;
  for (const wire::ViewEntry& entry : prepare.members) survivors.insert(entry.card.id);
  const QuorumAnswer answer = AskQuorum(survivors, ReplicasOf(prepare.members).size(), *current_);
  if (!answer.granted) {
    TellNoQuorum(answer.text);
    return false;
  }
  return true;
}

// A failure goes before a plan, and members may ask for verdicts faster than a plan gets through
// (V5). Who has waited for several changes comes or goes with the next (J3).
void CoordinatorMachine::TakeWaitersAlong() {
  constexpr int kChangesFirst = 3;
  if (!current_ || change_) return;
  const std::set<MemberId> newcomers = ReadyNewcomers(), leavers = ReadyLeavers();
  const bool nobody = newcomers.empty() && leavers.empty();
  draft_.changes_first = nobody ? 0 : draft_.changes_first + 1;
  if (draft_.changes_first <= kChangesFirst || FTAR_MUTANT(kPlansStarve)) return;
  draft_.changes_first = 0;
  draft_.newcomers.insert(newcomers.begin(), newcomers.end());
  if (AnybodyStays(leavers)) draft_.leavers.insert(leavers.begin(), leavers.end());
}

void CoordinatorMachine::StartChange() {
  change_due_ = false;
  TakeWaitersAlong();
  if (AnnouncedView()) {
    draft_.newcomers.insert(plan_->newcomers.begin(), plan_->newcomers.end());
    draft_.leavers.insert(plan_->leavers.begin(), plan_->leavers.end());
  }
  wire::Prepare prepare = MakePrepare();
  if (config_.hosted && current_ && (prepare.members.empty() || prepare.survivors.empty()))
    return StandDown("its own member is lost");
  if (prepare.members.empty()) return EndJob("all members are lost");
  if (current_) {
    if (prepare.survivors.empty()) return EndJob("all members of the last view are lost");
  } else if (prepare.members.size() <
             static_cast<size_t>(reference_->replicas) * reference_->shards) {
    // A first view that lost somebody: back to waiting. Its newcomers have promised an epoch that
    // will not come.
    if (change_)
      Tell(LogLevel::kWarn,
           "the first view lost a member before it was formed; waiting for another one");
    for (const wire::ViewEntry& entry : prepare.members) Find(entry.card.id)->frozen = true;
    change_.reset();
    draft_.newcomers.clear();
    roster_changed_ = true;
    return;
  }
  VoidPlan();
  if (current_ && !lost_.empty() && !HasQuorum(prepare)) {
    change_.reset();
    plan_due_ = plan_due_ || (!FTAR_MUTANT(kWaitersUncalled) &&
                              draft_.newcomers.empty());  // who waits may bring it back
    return;
  }
  SendPrepare(std::move(prepare));
}

void CoordinatorMachine::SendPrepare(wire::Prepare prepare) {
  no_quorum_.End();  // also when those that were lost are back
  no_quorum_.Stay();
  Change change;
  change.wait_ns = change_ ? change_->wait_ns : change_wait_ns();
  change.timeouts = change_ ? change_->timeouts : 0;
  change.deadline_ns = now_ + change.wait_ns;
  change.prepare = std::move(prepare);
  change.prepare.leader_turn = static_cast<uint32_t>(change.timeouts);
  change_ = std::move(change);
  const wire::Prepare& sent = change_->prepare;
  std::vector<MemberId> all;
  for (const wire::ViewEntry& entry : sent.members) {
    all.push_back(entry.card.id);
    change_->columns.insert(entry.card.shard);
    if (draft_.newcomers.contains(entry.card.id)) Find(entry.card.id)->frozen = true;
  }
  Tell(LogLevel::kDebug,
       "prepare " + ShortEpoch(sent.epoch) + " with " + std::to_string(all.size()) + " members");
  Multicast(all, sent);
  EvictLost(sent.epoch);
}

// From the moment a Prepare without them is on its way they are out for good (Q3). Those who can
// still hear are told why.
void CoordinatorMachine::EvictLost(Epoch epoch) {
  for (const auto& [id, loss] : lost_) {
    graveyard_.Bury(id, loss);
    edges_.Forget(id);
    detector_.Forget(id);
    Peer* peer = Find(id);
    if (!peer) continue;
    Evict(*peer, {epoch, loss});
    peers_.erase(id);
    roster_changed_ = true;
  }
}

// V10: asked again with another leader order, waiting twice as long each time.
void CoordinatorMachine::ChangeOverdue() {
  InstallIfDue();
  if (!change_ || change_->complete || now_ < change_->deadline_ns) return;
  ++change_->timeouts;
  change_->wait_ns = std::min(2 * change_->wait_ns, std::max(timeout_ns_, change_wait_ns()));
  std::string missing;
  for (int32_t column : change_->columns) {
    if (!change_->decided.contains(column))
      missing += (missing.empty() ? "" : ", ") + std::to_string(column);
  }
  Tell(LogLevel::kWarn, "epoch " + ShortEpoch(change_->prepare.epoch) + ": no decision of column " +
                            missing + " in time; asking again with another leader");
  // Who is awaited is what it stalls for, not they.
  if (change_->timeouts >= 2 && current_ && suspects_.empty()) DropNewcomersOfChange();
  StartChange();
}

// Members beat and are found when they hang; newcomers do not. A change that stalls twice goes on
// without them.
void CoordinatorMachine::DropNewcomersOfChange() {
  for (MemberId id : std::set<MemberId>(draft_.newcomers)) {
    if (!EntryOf(id)) RejectNewcomer(id, "it did not answer in the change that was to take it in");
  }
}

void CoordinatorMachine::RejectNewcomer(MemberId id, const std::string& why, Code code) {
  Peer* peer = Find(id);
  if (!peer) return;
  const std::string text = Describe(peer->card) + " was not admitted: " + why;
  Send(*peer, wire::Rejected{code, "", text});
  Tell(LogLevel::kWarn, text);
  Close(*peer);
  ForgetNewcomer(id);
}

// Q2, Q3: what a survivor has promised elsewhere binds: intersect with it and go above. A
// newcomer's promise binds nobody; one that cannot take part is turned away, and may come as a new
// incarnation.
void CoordinatorMachine::OnRefuse(Peer& from, const wire::Refuse& message) {
  epochs_.Hear(message.report.promised);
  epochs_.Hear(message.report.installed);
  // Counted over less than this member has installed (Q4): planned views come without being asked.
  const bool old_base = change_ && message.report.installed > change_->prepare.base;
  if (Overtaken(from.card.id, message.report)) return;
  if (old_base && config_.hosted) return StandDown("a member has a later view");
  if (from.state == State::kReporting) return;  // it answers nothing that was asked here
  from.report = message.report;
  if (!change_ || message.epoch != change_->prepare.epoch) return;
  change_due_ = true;
  const bool stale = message.report.promised > message.epoch;  // going above it is all it takes
  if (from.state == State::kNewcomer) {
    if (!stale && current_)
      RejectNewcomer(from.card.id, "it has promised a view without some of today's members",
                     Code::kPeer);
    return;
  }
  const std::vector<MemberId>& promised = message.report.promised_members;
  if (promised.empty()) return;
  for (MemberId id : std::vector<MemberId>(change_->prepare.survivors)) {
    if (std::find(promised.begin(), promised.end(), id) != promised.end()) continue;
    Lose(id, Code::kEvicted, "earlier change",
         "was left out of epoch " + ShortEpoch(message.report.promised) + ", which " +
             Describe(from.card) + " has promised");
  }
}

// V5: members disagree on a call; the leaders find the words. Asked by many, answered once an
// operation and era.
void CoordinatorMachine::OnAskPrepare(Peer& from, const wire::AskPrepare& message) {
  if (recovery_.under_way) recovery_.verdict_asked = true;
  // Who was announced may have begun before all roots have said that they did so (J3).
  const bool in = from.state == State::kMember || from.announced;
  if (!current_ || change_ || !in || message.epoch < current_->era) return;
  if (!asked_.insert({message.group, message.seq}).second) return;
  Tell(LogLevel::kInfo,
       Describe(from.card) + " asks for a verdict on operation " + std::to_string(message.seq));
  change_due_ = true;
}

void CoordinatorMachine::OnDecided(Peer& from, const wire::Decided& message) {
  if (!change_ || message.epoch != change_->prepare.epoch || message.shard != from.card.shard)
    return;
  if (!wire::FindEntry(change_->prepare.members, from.card.id)) return;
  change_->decided.insert({message.shard, message});
  if (change_->decided.size() == change_->columns.size() || FTAR_MUTANT(kInstallAtFirstColumn))
    change_->complete = true;
  InstallIfDue();
}

void CoordinatorMachine::InstallIfDue() {
  if (!change_ || !change_->complete || change_due_ || now_ < seat_.unheard_until) return;
  change_->complete = false;
  InstallChange();
}

// J3: a newcomer that never was in a view with somebody who had begun forms none alone; there is
// nothing that it could go on with. So it is in a column that has lost the last one who had: of
// that shard nothing is left, whatever there is of the others.
bool CoordinatorMachine::NobodyHasBegun() const {
  bool nobody = true;
  for (const auto& [shard, decided] : change_->decided) {
    const bool only_newcomers =
        std::all_of(decided.bounds.begin(), decided.bounds.end(),
                    [](const wire::BoundOf& bound) { return bound.fresh_first; });
    const bool has_lost =
        std::any_of(lost_.begin(), lost_.end(),
                    [column = shard](const auto& entry) { return entry.second.shard == column; });
    if (only_newcomers && has_lost) return true;
    nobody = nobody && only_newcomers;
  }
  return nobody;
}

// J3: newcomers for whom a column has no place. All of it who are left had been given their ends,
// and how far the others have come without them nobody knows: there is nothing to take over. Who
// may have heard its announcement is lost; the others wait until the job is over. True if there are
// any: the change goes on without them.
bool CoordinatorMachine::TurnBack() {
  std::set<int32_t> replicas;
  for (const wire::ViewEntry& entry : change_->prepare.members) {
    for (const auto& [column, decided] : change_->decided) {
      for (const wire::BoundOf& bound : decided.bounds) {
        const bool nowhere = bound.fresh_first && bound.first.kind == wire::Bound::Kind::kNone;
        if (nowhere && bound.member == entry.card.id) replicas.insert(entry.card.replica);
      }
    }
  }
  const std::string why = "those whom it would have taken over from are lost";
  for (const int32_t replica : replicas) {
    LoseAnnounced(replica, why);
    for (const wire::ViewEntry& entry : change_->prepare.members) {
      if (entry.card.replica == replica) Lose(entry.card.id, Code::kPeer, "newcomer", why);
    }
    std::erase_if(draft_.newcomers, [this, replica](MemberId id) {
      const Peer* peer = Find(id);
      return !peer || peer->card.replica == replica;
    });
  }
  draft_.nobody_stays = draft_.nobody_stays || !replicas.empty();
  change_due_ = change_due_ || !replicas.empty();
  return !replicas.empty();
}

void CoordinatorMachine::InstallChange() {
  if (current_ && NobodyHasBegun()) {
    LoseAll("newcomer", "all who had begun were lost before it had taken over from them");
    return EndJob("a column has only newcomers left");
  }
  if (TurnBack()) return;
  wire::View view;
  view.epoch = view.era = change_->prepare.epoch;
  view.entries = change_->prepare.members;
  view.electorates = seat_.electorates.all();
  FillBounds(change_->decided, &view.entries);
  last_lost_.clear();
  for (const auto& [id, loss] : lost_) last_lost_.push_back(loss);
  std::vector<MemberId> all;
  for (const wire::ViewEntry& entry : view.entries) all.push_back(entry.card.id);
  Multicast(all, wire::Install{view, last_lost_});
  Tell(LogLevel::kInfo, "view " + ShortEpoch(view.epoch) +
                            "; replicas: " + std::to_string(ReplicasOf(view.entries).size()) +
                            ", members lost: " + std::to_string(lost_.size()));
  change_.reset();
  lost_.clear();
  asked_.clear();
  draft_.newcomers.clear();
  for (MemberId id : std::exchange(draft_.leavers, {})) {
    if (Peer* peer = Find(id)) peer->leave_requested = true;
  }
  BecomeMembers(view);
  detector_.Restart();
}

// The one door through which a view becomes current.
void CoordinatorMachine::BecomeMembers(const wire::View& view) {
  if (!FTAR_MUTANT(kRecordAfterSend)) Record(view.epoch, &view);
  current_ = view;
  places_.clear();
  for (size_t i = 0; i < view.entries.size(); ++i) places_.emplace(view.entries[i].card.id, i);
  if (config_.hosted) seat_.electorates.Add(view);
  recovery_.predecessors = draft_.nobody_stays = false;
  recovery_.told.clear();
  recovery_.consents.clear();
  plan_.reset();
  for (const wire::ViewEntry& entry : view.entries) {
    Peer* peer = Find(entry.card.id);
    if (!peer) continue;
    if (std::exchange(peer->state, State::kMember) != State::kMember) peer->linked = false;
    peer->frozen = peer->announced = false;
    detector_.Watch(now_, entry.card.id);
  }
  std::erase_if(peers_, [&view](const auto& entry) {
    return entry.second.departed && !view.Find(entry.first);
  });
  roster_changed_ = true;
}

void CoordinatorMachine::OnInstalled(Peer& from, const wire::Installed& message) {
  const bool newcomer = from.state == State::kWaiting || from.state == State::kNewcomer;
  if (newcomer && !epochs_.MadeHere(message.epoch) && !FTAR_MUTANT(kLateInstallUnasked)) {
    // What the one before had told it came to its end only now: it comes again, and reports that.
    const MemberId id = from.card.id;
    Tell(LogLevel::kInfo, Describe(from.card) + " has installed view " +
                              std::to_string(EpochCounter(message.epoch)) +
                              " since it came; it is to report that");
    Close(from);
    return ForgetNewcomer(id);
  }
  from.installed = std::max(from.installed, message.epoch);
  if (FTAR_MUTANT(kRecordAfterSend) && current_ && message.epoch == current_->epoch)
    Record(current_->epoch, &*current_);
  if (Overtaken(from.card.id, {0, {}, message.epoch, {}, 0})) return;
  ForgetOldElectorates();
  plan_due_ = true;
}

// A newcomer that may have heard its announcement is a member (J1): it makes no links any more, may
// have operations in flight, and cannot wait for another view as newcomers do.
void CoordinatorMachine::LoseAnnounced(std::optional<int32_t> replica, const std::string& why) {
  for (const auto& [id, peer] : peers_) {
    if (peer.state != State::kNewcomer || !peer.announced || lost_.contains(id)) continue;
    if (replica && peer.card.replica != *replica) continue;
    wire::ViewEntry entry;
    entry.card = peer.card;
    wire::Loss loss;
    loss.cause = Code::kPeer;
    loss.stage = "newcomer";
    loss.text = Describe(peer.card) + ": " + why;
    LoseOne(entry, std::move(loss));
  }
}

void CoordinatorMachine::LoseAll(const std::string& stage, const std::string& why) {
  for (const wire::ViewEntry& entry : current_->entries)
    Lose(entry.card.id, Code::kPeer, stage, why);
}

// Nobody is left. What is known of epochs stays, so that a new beginning is above everything old.
void CoordinatorMachine::EndJob(const std::string& why) {
  LoseAnnounced({}, "all others were lost before it had taken over from them");
  Tell(lost_.empty() ? LogLevel::kInfo : LogLevel::kError, "the job has ended: " + why);
  const Epoch end = epochs_.Next();
  EvictLost(end);
  Record(end, nullptr);
  std::erase_if(peers_, [](const auto& entry) { return entry.second.state == State::kMember; });
  for (auto& [id, peer] : peers_) {
    if (peer.state != State::kNewcomer) continue;
    peer.welcomed = peer.linked = false;  // links are told anew, in the order of a first view
    peer.told.clear();
  }
  current_.reset();
  places_.clear();
  change_.reset();
  plan_.reset();
  lost_.clear();
  suspects_.Clear();
  overdue_.clear();
  draft_.newcomers.clear();
  draft_.leavers.clear();
  recovery_.told.clear();
  recovery_.consents.clear();
  edges_ = {};
  detector_.Clear();
  no_quorum_.End();
  change_due_ = draft_.nobody_stays = false;
  if (peers_.empty()) reference_.reset();
  roster_changed_ = true;
  ready_.ended = true;
}

}  // namespace ftar::membership
