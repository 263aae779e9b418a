#include <algorithm>
#include <cassert>
#include <string>
#include <utility>

#include "base/knob_value.h"
#include "base/mutant.h"
#include "engine/impl.h"
#include "membership/bounds.h"

namespace ftar::engine {

Engine::Engine(Config config) : impl_(std::make_unique<Impl>(std::move(config))) {}
Engine::~Engine() = default;
void Engine::Step(TimeNs now, const Event& event) { impl_->Step(now, event); }
void Engine::TakeReady(Ready* ready) { impl_->TakeReady(ready); }
Ready Engine::TakeReady() {
  Ready ready;
  TakeReady(&ready);
  return ready;
}
bool Engine::StartFast(GroupKey group, const collective::FastCall& call,
                       collective::LaneLine* line) {
  return impl_->StartFast(group, call, line);
}
bool Engine::RecurFast(GroupKey group, const collective::FastCall& call,
                       collective::LaneLine* line) {
  return impl_->RecurFast(group, call, line);
}
bool Engine::in_fast() const { return impl_->in_fast(); }
std::span<const int> Engine::fast_lanes() const { return impl_->fast_lanes(); }
std::span<const plan::Chunk> Engine::fast_others() const { return impl_->fast_others(); }
collective::FastLook Engine::LookFast(TimeNs now) { return impl_->LookFast(now); }
bool Engine::ForeseeFast(TimeNs now) { return impl_->ForeseeFast(now); }
const collective::Work& Engine::fast_work() const { return impl_->fast_work(); }
bool Engine::WouldShare(GroupKey group, const collective::OpSpec& spec) {
  return impl_->WouldShare(group, spec);
}
Seq Engine::next_seq(GroupKey group) const { return impl_->next_seq(group); }
collective::LaneRoom Engine::fast_room() const { return impl_->fast_room(); }
collective::LaneWords Engine::SharedFast() { return impl_->SharedFast(); }
const collective::Outcome* Engine::EndFast(TimeNs start, TimeNs now) {
  return impl_->EndFast(start, now);
}
Phase Engine::phase() const { return impl_->phase_; }
Status Engine::phase_status() const { return impl_->phase_status_; }
std::shared_ptr<const wire::View> Engine::view() const {
  return impl_->phase_ == Phase::kJoining ? nullptr : impl_->view_;
}
std::shared_ptr<const wire::View> Engine::group_view(GroupKey group) const {
  return impl_->GroupView(group);
}
std::shared_ptr<const wire::View> Engine::step_view(GroupKey group) const {
  return impl_->StepView(group);
}
std::vector<wire::MemberCard> Engine::successors() const { return impl_->Successors(); }
Engine::SuccessorsOf Engine::successors_of() const {
  const bool promised = !impl_->view_ && impl_->prepare_;
  return {impl_->view_, promised ? impl_->prepare_->epoch : 0};
}
bool Engine::coordinator_up() const { return impl_->HasCoordinator(); }
bool Engine::quorum_lost() const { return impl_->quorum_lost_; }
bool Engine::led() const { return impl_->led_; }
bool Engine::changing() const { return impl_->frozen_; }
wire::Heartbeat Engine::progress() const { return impl_->Progress(); }

std::optional<Engine::GroupInfo> Engine::group_info(GroupKey group) const {
  const auto found = impl_->groups_.find(group);
  if (found == impl_->groups_.end()) return std::nullopt;
  const collective::GroupMachine& machine = *found->second;
  return GroupInfo{machine.first_seq(),
                   machine.next_seq(),
                   machine.called_end(),
                   machine.delivered_end(),
                   impl_->view_ ? impl_->view_->epoch : 0,
                   machine.in_flight(),
                   machine.queued()};
}

bool Engine::HasLaneNews() {
  if (!impl_->config_.group.lane) return false;
  return std::any_of(impl_->groups_.begin(), impl_->groups_.end(),
                     [](const auto& entry) { return entry.second->LaneHasNews(); });
}

bool Engine::HeedsLane() const {
  if (!impl_->config_.group.lane) return false;
  return std::any_of(impl_->groups_.begin(), impl_->groups_.end(),
                     [](const auto& entry) { return entry.second->in_flight() > 0; });
}

std::optional<collective::BufferRef> Engine::LandingOf(MemberId from,
                                                       const wire::FrameHeader& header) const {
  const auto found = impl_->groups_.find(header.group);
  if (found == impl_->groups_.end()) return {};
  return found->second->LandingOf(from, header);
}

const char* Engine::OpStage(GroupKey group, Seq seq) const {
  const auto found = impl_->groups_.find(group);
  return found == impl_->groups_.end() ? "before"
                                       : collective::StageName(found->second->StageOf(seq));
}

GroupKey KeyOf(const std::string& group_name) {
  uint32_t hash = 2166136261u;  // FNV-1a: stable between builds and machines
  for (const char c : group_name) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619u;
  return hash;
}

Engine::Impl::Impl(Config config) : config_(std::move(config)) {
  if (config_.heartbeat_ns <= 0)
    config_.heartbeat_ns = std::max<TimeNs>(config_.timeout_ns / 10, kMillisecond);
  config_.group.self = config_.self.id;
  config_.group.shard = config_.self.shard;
  if (!config_.solo) return;
  wire::View view;
  view.epoch = view.era = MakeEpoch(1, 0);
  view.entries = {{config_.self, view.epoch, {wire::Bound::Kind::kAlways, 0, 0, {}}, {}}};
  view_ = std::make_shared<const wire::View>(std::move(view));
  era_ = promised_ = view_->epoch;
  phase_ = Phase::kMember;
  ready_.view_changed = true;
  Notify(Notice::Kind::kView);
}

std::vector<wire::MemberCard> Engine::Impl::Successors() const {
  wire::View promised;
  if (!view_ && prepare_) {
    const wire::Prepare& prepare = *prepare_;
    promised.entries = prepare.members;
    // Whoever is new has nothing to go on with. Who came by a planned view has, and is no survivor.
    // This one may be all that is left of the list, though others alone hold the base.
    std::erase_if(promised.entries, [&](const wire::ViewEntry& entry) {
      const bool self = entry.card.id == config_.self.id;
      const bool is_new =
          entry.joined_epoch == prepare.epoch || (self && FTAR_MUTANT(kViewlessNeverLeads));
      return prepare.base != 0 && is_new;
    });
  }
  const wire::View& view = view_ ? *view_ : promised;
  // Whoever leaves would sit down only to get up again, and may do so while others look for it.
  std::vector<MemberId> order = view.Successors();
  std::stable_partition(order.begin(), order.end(),
                        [&view](MemberId id) { return !view.Find(id)->leaves(); });
  std::vector<wire::MemberCard> cards;
  for (const MemberId id : order) cards.push_back(view.Find(id)->card);
  return cards;
}

void Engine::Impl::Step(TimeNs now, const Event& event) {
  now_ = std::max(now, now_);
  StopFast();
  NotePause();
  if (FTAR_MUTANT(kLaneFlagLate)) RaiseFlag();
  std::visit([this](const auto& concrete) { On(concrete); }, event);
}

// Q4: while this member stood still the coordinator may have gone on without it. It hears of that
// late, and of deaths perhaps before; so it counts as led again by what has come since.
void Engine::Impl::NotePause() {
  if (!Beats() || next_beat_ == 0 || now_ <= next_beat_ + config_.heartbeat_ns / 2) return;
  woke_at_ = now_;
  if (!FTAR_MUTANT(kLedAsleep)) led_ = false;
}

void Engine::Impl::HearLead() { led_ = led_ || now_ >= woke_at_ + config_.heartbeat_ns / 2; }

void Ready::Clear() {
  to_coordinator.clear();
  to_peers.clear();
  todo.clear();
  connect.clear();
  revoke.clear();
  forget.clear();
  started.clear();
  step.reset();
  notices.clear();
  view_changed = false;
  next_deadline = kNever;
}

Seq Engine::Impl::next_seq(GroupKey group) const {
  const auto found = groups_.find(group);
  return found != groups_.end() ? found->second->next_seq() : kNoSeq;
}

bool Engine::Impl::StartFast(GroupKey group, const collective::FastCall& call,
                             collective::LaneLine* line) {
  if (phase_ != Phase::kMember || frozen_ || fast_ || strict_ || early_proposal_) return false;
  if (last_fast_ == nullptr || last_fast_->key() != group) {
    const auto found = groups_.find(group);
    if (found == groups_.end()) return false;
    last_fast_ = found->second.get();
  }
  now_ = std::max(call.now, now_);
  if (!last_fast_->StartFast(call, step_, news_, line)) return false;
  fast_ = last_fast_;
  return true;
}

// What the engine was when the last one began it is until it is told something.
bool Engine::Impl::RecurFast(GroupKey group, const collective::FastCall& call,
                             collective::LaneLine* line) {
  if (fast_ || last_fast_ == nullptr || last_fast_->key() != group) return false;
  if (!last_fast_->RecurFast(call, news_, line)) return false;
  now_ = std::max(call.now, now_);
  fast_ = last_fast_;
  return true;
}

bool Engine::Impl::WouldShare(GroupKey group, const collective::OpSpec& spec) {
  const auto found = groups_.find(group);
  return phase_ == Phase::kMember && !frozen_ && !fast_ && found != groups_.end() &&
         found->second->WouldShare(spec, step_);
}

collective::FastLook Engine::Impl::LookFast(TimeNs now) {
  if (!fast_) return collective::FastLook::kStopped;
  now_ = std::max(now, now_);
  const collective::FastLook found = fast_->LookFast(now_);
  if (found == collective::FastLook::kStopped) fast_ = nullptr;
  return found;
}

const collective::Outcome* Engine::Impl::EndFast(TimeNs start, TimeNs now) {
  if (!fast_) return nullptr;
  now_ = std::max(now, now_);
  return std::exchange(fast_, nullptr)->EndFast(start, now_);
}

void Engine::Impl::StopFast() {
  if (fast_) std::exchange(fast_, nullptr)->StopFast(now_);
  if (!FTAR_MUTANT(kFastOutlivesNews)) ++news_;
}

void Engine::Impl::TakeReady(Ready* ready) {
  StopFast();
  if (phase_ == Phase::kMember || phase_ == Phase::kLeaving) {
    TryBeginStep();
    TellOfLateRoot();
    CollectGroups();
    TendLeaving();
    if (early_proposal_ && MayPropose()) On(*std::exchange(early_proposal_, {}));
    CheckDeadlines();
  }
  Beat();
  // What a member that is out still has in its groups goes to nobody (Become gave the inputs back);
  // the runtime ends those operations.
  ready_.next_deadline = NextDeadline();
  // Most say little else, and there are several of them an operation.
  if (ready_.decides()) return std::swap(*ready, ready_);
  ready->todo.swap(ready_.todo);
  ready->started.swap(ready_.started);
  ready->next_deadline = ready_.next_deadline;
}

void Engine::Impl::SendPeer(MemberId to, wire::Message message) {
  assert(to != config_.self.id);
  ready_.to_peers.push_back({to, std::move(message)});
}

// To all others of this member's column.
void Engine::Impl::SendColumn(const wire::View& view, const wire::Message& message) {
  for (const MemberId id : ColumnOf(view.entries)) {
    if (id != config_.self.id) SendPeer(id, message);
  }
}

// Of the view that this member has.
void Engine::Impl::Notify(Notice::Kind kind, wire::Loss loss, wire::LateNotice late) {
  ready_.notices.push_back({kind, view_ ? view_->epoch : 0, std::move(loss), late});
}

void Engine::Impl::Become(Phase phase, Status status) {
  if (phase_ == phase || IsOver(phase_)) return;
  if (IsOver(phase)) {
    // Others may read here what goes back now. Who leaves has nothing left that they would read.
    if (config_.group.lane && phase != Phase::kLeft && !FTAR_MUTANT(kOutUnflagged))
      config_.group.lane->RaiseFrozen(~Epoch{0});
    // First, so that it can be done again where there is no memory for all of it.
    for (auto& [key, group] : groups_) {
      group->GiveInputsBack(&ready_.todo);
    }
  }
  phase_ = phase;
  phase_status_ = std::move(status);
}

// ---- joining

void Engine::Impl::On(const CoordinatorUp&) {
  const bool was_down = !HasCoordinator();
  coordinator_up_ = true;
  coordinator_away_ = false;
  led_ = false;
  woke_at_ = 0;
  // One that lacks it says so itself. Where members coordinate, one that has it does.
  if (!view_ || view_->electorates.empty()) quorum_lost_ = false;
  if (FTAR_MUTANT(kPromiseForgotten)) promised_members_.clear();
  if (!IsOver(phase_)) Introduce();
  if (was_down && view_) Notify(Notice::Kind::kCoordinatorUp);
}

void Engine::Impl::Introduce() {
  wire::Hello hello;
  hello.wire_version = wire::kWireVersion;
  hello.job = config_.job;
  hello.card = config_.self;
  hello.replicas = config_.replicas;
  hello.shards = config_.shards;
  hello.min_replicas = config_.min_replicas;
  hello.agreed_config = config_.agreed_config;
  hello.report = MakeReport();
  SendCoordinator(std::move(hello));
  if (phase_ == Phase::kJoining) {
    welcomed_ = false;
  }
  for (const auto& [peer, evidence] : evidence_) SendCoordinator(evidence);
  for (const auto& [peer, evidence] : user_says_) SendCoordinator(evidence);
  for (auto& [key, group] : groups_) group->ReportOverdueAgain();
  // What came up while nobody could be told; a newcomer may wait for it.
  if (phase_ != Phase::kJoining && !FTAR_MUTANT(kLinkBackUntold)) SendCoordinator(WantedLinks());
  for (const wire::AskPrepare& asked : asked_) {
    if (!FTAR_MUTANT(kAskOnlyOnce)) SendCoordinator(asked);
  }
  if (leave_requested_) SendCoordinator(wire::LeaveRequest{});
  leave_ready_told_ = false;
}

void Engine::Impl::On(const CoordinatorDown&) {
  const bool had = HasCoordinator();
  if (!std::exchange(coordinator_up_, false)) return;
  DropProposal();  // what it meant to announce it cannot announce any more
  if (view_ && had) Notify(Notice::Kind::kCoordinatorDown);
}

void Engine::Impl::On(const wire::Welcome& message) {
  welcomed_ = true;
  AddPeers(message.peers);
  if (phase_ == Phase::kJoining) SendCoordinator(WantedLinks());
}

// A relay may be there without a coordinator. It is still to be told everything.
void Engine::Impl::HearAway(bool away) {
  if (std::exchange(coordinator_away_, away) == away || !view_) return;
  Notify(away ? Notice::Kind::kCoordinatorDown : Notice::Kind::kCoordinatorUp);
}

// Q4: told by a coordinator that can be replaced, while it has a quorum.
void Engine::Impl::On(const wire::CoordinatorBeat& message) {
  HearAway(message.away);
  if (!view_ || message.formed != view_->epoch) return;
  formed_ = message.formed;
  quorum_lost_ = false;
  HearLead();
}

void Engine::Impl::On(const wire::Connect& message) { TellLinksUp(AddPeers(message.peers)); }

// Those whose links had come up before.
std::vector<MemberId> Engine::Impl::AddPeers(const std::vector<wire::MemberCard>& peers) {
  std::vector<MemberId> linked;
  for (const wire::MemberCard& card : peers) {
    if (card.id == config_.self.id || !wanted_.insert({card.id, card}).second) continue;
    if (links_.contains(card.id)) {
      linked.push_back(card.id);
    } else {
      ready_.connect.push_back(card);
    }
  }
  return linked;
}

// The coordinator adds them to those that it has heard of: all of them each time would be bytes by
// the third power of the members.
void Engine::Impl::TellLinksUp(std::vector<MemberId> peers) {
  if (phase_ == Phase::kJoining && welcomed_) SendCoordinator(LinksTo(std::move(peers)));
}

wire::LinksUp Engine::Impl::WantedLinks() const {
  std::vector<MemberId> peers;
  for (const auto& [id, cost] : links_) {
    if (wanted_.contains(id)) peers.push_back(id);
  }
  return LinksTo(std::move(peers));
}

// Of these it also says when they are lost. What wires cost, those say whose others have dialled.
wire::LinksUp Engine::Impl::LinksTo(std::vector<MemberId> peers) const {
  std::vector<wire::WireCosts> costs;
  for (const auto& [id, cost] : links_) costs.push_back(cost);
  wire::LinksUp message;
  message.peers = std::move(peers);
  message.wire = wire::MedianOf(costs);
  return message;
}

void Engine::Impl::On(const wire::Rejected& message) {
  // It lost the coordinator right when it was let go.
  if (phase_ == Phase::kLeaving && message.code == Code::kLeft) return Become(Phase::kLeft, {});
  Become(Phase::kRejected, Status(message.code, message.argument, message.text));
}

void Engine::Impl::On(const LinkIsUp& event) {
  links_.insert_or_assign(event.peer, event.wire);
  ended_.erase(event.peer);
  std::erase(ready_.forget, event.peer);
  if (const auto found = evidence_.find(event.peer);
      found != evidence_.end() && found->second.kind == wire::EvidenceKind::kLinkLost) {
    wire::Evidence restored = found->second;
    restored.kind = wire::EvidenceKind::kLinkRestored;
    evidence_.erase(found);
    SendCoordinator(restored);
    wire::Loss who;
    who.member = event.peer;
    Notify(Notice::Kind::kLinkUp, std::move(who));
  }
  std::vector<MemberId> told;  // nobody: what its wire costs is told all the same
  if (wanted_.contains(event.peer)) told.push_back(event.peer);
  TellLinksUp(std::move(told));
}

// ---- evidence (design 5)

bool Engine::Impl::Known(MemberId id) const {
  if (view_ && view_->Find(id)) return true;
  if (prepare_ && wire::FindEntry(prepare_->members, id)) return true;
  return wanted_.contains(id);
}

// By an operation, too, that still runs in a view before.
bool Engine::Impl::Needed(MemberId id) const {
  return Known(id) || (base_ && base_->Find(id)) ||
         std::find(lane_gone_.begin(), lane_gone_.end(), id) != lane_gone_.end();
}

// Newcomers that have dialled and ended before any view had them, and leavers that all are through
// with.
void Engine::Impl::ForgetStrangers() {
  for (auto at = ended_.begin(); at != ended_.end();) {
    if (Needed(*at) && !FTAR_MUTANT(kForgetsItsOwn)) {
      ++at;
      continue;
    }
    evidence_.erase(*at);
    ready_.forget.push_back(*at);
    at = ended_.erase(at);
  }
}

// The first to know pushes; a coordinator that is away is told when it is back.
void Engine::Impl::Accuse(wire::Evidence evidence) {
  if (!Known(evidence.subject)) return;
  const auto [known, fresh] = evidence_.insert({evidence.subject, evidence});
  if (!fresh) {
    if (known->second.kind <= evidence.kind) return;  // nothing stronger than what was told
    known->second = evidence;
  }
  SendCoordinator(std::move(evidence));
}

void Engine::Impl::On(const LinkIsDown& event) {
  links_.erase(event.peer);
  ended_.insert(event.peer);
  ForgetStrangers();
  if (!Known(event.peer)) return;
  Accuse({wire::EvidenceKind::kLinkLost, event.peer, event.code, 0, event.text});
  wire::Loss who;
  who.member = event.peer;
  who.cause = event.code;
  who.stage = "link";
  who.text = event.text;
  // Whoever leaves closes its links when it is released: users have been told that it leaves. Where
  // all leave no view says so, and this member needs no link any more.
  const wire::ViewEntry* entry = view_ ? view_->Find(event.peer) : nullptr;
  if (leave_ready_told_ || (entry && entry->leaves())) return;
  Notify(Notice::Kind::kLinkDown, std::move(who));
}

void Engine::Impl::On(const PeerExited& event) {
  links_.erase(event.peer);
  Accuse(
      {wire::EvidenceKind::kProcessExited, event.peer, Code::kPeer, 0, "its process has exited"});
}

void Engine::Impl::On(const ReportSelf& event) {
  if (config_.solo) return LoseAlone(event.code, "self-report", "it reported itself", event.text);
  const MemberId self = config_.self.id;
  user_says_[self] = {wire::EvidenceKind::kSelfReport, self, event.code, 0, event.text};
  SendCoordinator(user_says_[self]);
}

void Engine::Impl::On(const EvictPeer& event) {
  if (config_.solo) return LoseAlone(Code::kEvicted, "operator", "evicted", event.text);
  user_says_[event.peer] = {wire::EvidenceKind::kOperator, event.peer, Code::kEvicted, 0,
                            event.text};
  SendCoordinator(user_says_[event.peer]);
}

void Engine::Impl::On(const wire::Evicted& message) {
  Notice notice{Notice::Kind::kEvicted, message.epoch, message.reason, {}};
  if (message.awaits_goodbye) SendCoordinator(wire::Goodbye{Code::kEvicted, "evicted"});
  Become(Phase::kEvicted, Status(Code::kEvicted, message.reason.text));
  ready_.notices.push_back(std::move(notice));
}

void Engine::Impl::On(const wire::LateNotice& message) { Notify(Notice::Kind::kLate, {}, message); }

void Engine::Impl::On(const wire::NoQuorum& message) {
  quorum_lost_ = true;
  led_ = false;
  wire::Loss who;
  who.cause = Code::kQuorum;
  who.text = message.text;
  Notify(Notice::Kind::kQuorum, std::move(who));
}

void Engine::Impl::On(const AbortSelf& event) {
  SendCoordinator(wire::Goodbye{event.code, event.text});  // Q8
  // A newcomer that is tired of waiting wants to hear what it has waited for: the coordinator
  // answers with Rejected, which names the holder of its place. The second time it waits no longer.
  const bool asks = event.code == Code::kTimeout && phase_ == Phase::kJoining;
  if (asks && !std::exchange(asked_why_, true)) return;
  if (FTAR_MUTANT(kAbortedGoesOn)) return;
  Become(Phase::kAborted, Status(event.code, event.text));
}

// ---- dispatch

namespace {
template <typename T>
concept FromCoordinatorOnly = requires(Engine::Impl& impl, const T& message) {
  impl.On(message);
};
}  // namespace

void Engine::Impl::On(const FromCoordinator& event) {
  if (IsOver(phase_)) return;
  std::visit(
      [this](const auto& message) {
        using T = std::decay_t<decltype(message)>;
        if constexpr (std::is_same_v<T, wire::Announce>) {
          OnAnnounceOrder(message);
        } else if constexpr (FromCoordinatorOnly<T>) {
          On(message);
        }  // anything else is not the coordinator's to say
      },
      event.message);
}

void Engine::Impl::On(const FromPeer& event) {
  if (IsOver(phase_)) return;
  DispatchPeer(event.from, event.message);
}

namespace {
template <typename T>
concept FromPeers = requires(Engine::Impl& impl, MemberId from, const T& message) {
  impl.OnPeer(from, message);
};
template <typename T>
concept OfAnEra = requires(const T& message) {
  message.era;
};
}  // namespace

void Engine::Impl::DispatchPeer(MemberId from, const wire::Message& message) {
  std::visit(
      [&](const auto& concrete) {
        using T = std::decay_t<decltype(concrete)>;
        if constexpr (OfAnEra<T>) {
          if (HoldForEra(from, concrete.era, message)) return;
        }
        if constexpr (FromPeers<T>) OnPeer(from, concrete);
      },
      message);
}

// F2: what belongs to an era not installed here waits for it; what belongs to an older one is void.
bool Engine::Impl::HoldForEra(MemberId from, Epoch era, const wire::Message& message) {
  if (era > era_ || !view_) {
    if (!FTAR_MUTANT(kNewWordDropped)) held_.push_back({from, message});
    return true;
  }
  return era < era_ && !FTAR_MUTANT(kOldWordObeyed);
}

void Engine::Impl::ReplayHeld() {
  for (Held& held : std::exchange(held_, {})) DispatchPeer(held.from, held.message);
}

void Engine::Impl::On(const FrameArrived& event) {
  Group(event.frame.header.group).OnFrame(now_, event.frame);
}

void Engine::Impl::OnPeer(MemberId from, const wire::Credit& message) {
  for (auto& [key, group] : groups_) group->OnCredit(now_, from, message.kept);
  credits_.insert({from, message});
}

void Engine::Impl::OnPeer(MemberId from, const wire::Want& message) {
  Group(message.group).OnWant(now_, from, message);
}

void Engine::Impl::OnPeer(MemberId, const wire::CallNotice& message) {
  Group(message.group).OnCallNotice(now_, message);
}

// ---- operations

// A group exists from its first mention on: a peer's frame may come before the local open.
collective::GroupMachine& Engine::Impl::Group(GroupKey key) {
  if (const auto found = groups_.find(key); found != groups_.end()) return *found->second;
  collective::GroupConfig config = config_.group;
  config.key = key;
  auto machine = std::make_unique<collective::GroupMachine>(std::move(config));
  ranked_.reserve(groups_.size() + 1);
  auto& slot = groups_[key] = std::move(machine);  // no empty slot if there is no memory
  ranked_.push_back({0, key, slot.get()});
  Rank(key, 0);
  if (!view_ || phase_ == Phase::kJoining) return *slot;
  slot->AwaitEnds({ends_unheard_.begin(), ends_unheard_.end()});
  for (const collective::ViewPtr& past : past_views_) {
    if (past->era == era_) slot->LearnView(past);
  }
  slot->SetPlannedView(now_, view_, base_);
  for (const auto& [leaver, called] : leavers_called_)
    slot->HearEnd(now_, leaver, CalledBy(leaver, key));
  for (const auto& [peer, credit] : credits_) slot->OnCredit(now_, peer, credit.kept);
  EnterAtMark(key, *slot);
  if (phase_ == Phase::kLeaving) slot->StandIn();
  // V2: opened between Prepare and Install it is frozen like the others; its Status said nothing.
  if (frozen_) static_cast<void>(slot->Freeze(now_));
  return *slot;
}

void Engine::Impl::On(const OpenGroup& event) {
  Group(event.group).Open(event.window);
  Rank(event.group, event.priority);
}

void Engine::Impl::Rank(GroupKey group, int32_t priority) {
  for (Ranked& ranked : ranked_) {
    if (ranked.key == group) ranked.priority = priority;
  }
  std::ranges::sort(ranked_, {},
                    [](const Ranked& one) { return std::pair(-one.priority, one.key); });
}

void Engine::Impl::On(const StartOp& event) {
  if (phase_ != Phase::kMember) {
    ready_.started.push_back({event.handle, event.group, kNoSeq});
    return;
  }
  collective::OpSpec spec = event.spec;
  spec.strict = spec.strict || strict_;
  const Seq seq = Group(event.group).Call(now_, spec, step_);
  ready_.started.push_back({event.handle, event.group, seq});
}

void Engine::Impl::On(const WorkDone& event) {
  const auto found = groups_.find(event.group);
  if (found != groups_.end()) found->second->OnWorkDone(now_, event.id);
}

void Engine::Impl::On(const WorkSpoiled& event) {
  const auto found = groups_.find(event.group);
  if (found != groups_.end()) found->second->OnWorkSpoiled(now_, event.id);
}

void Engine::Impl::On(const Tick&) {}

// Everything the groups have to say since last time, in order, the most urgent ones first.
void Engine::Impl::CollectGroups() {
  for (const auto& [priority, key, group] : ranked_) {
    group->TakeTodo(now_, &ready_.todo);
    for (auto& want : group->TakeWants()) SendPeer(want.to, want.want);
    for (wire::CallNotice& notice : group->TakeCallNotices()) {
      for (MemberId leaver : Leavers()) {
        if (leaver != config_.self.id) SendPeer(leaver, notice);
      }
    }
    if (const auto seq = group->TakeMismatch()) {
      asked_.push_back({view_->epoch, key, *seq});
      SendCoordinator(asked_.back());
    }
  }
}

wire::Heartbeat Engine::Impl::Progress() const {
  wire::Heartbeat beat;
  beat.installed = view_ ? view_->epoch : 0;
  for (const auto& [key, group] : groups_) beat.groups.push_back(group->Progress());
  return beat;
}

// A newcomer is missed from the moment that the others may be in a view with it, whether it has
// heard of that or not.
bool Engine::Impl::Beats() const {
  const bool in = phase_ == Phase::kMember || phase_ == Phase::kLeaving;
  const bool enters = phase_ == Phase::kJoining && (frozen_ || confirmed_);
  if (config_.solo || !config_.group.fault_tolerant) return false;
  return in || (enters && !FTAR_MUTANT(kEntersUnheard));
}

void Engine::Impl::Beat() {
  if (!Beats() || now_ < next_beat_) return;
  next_beat_ = now_ + config_.heartbeat_ns;
  if (coordinator_up_) SendCoordinator(view_ ? Progress() : wire::Heartbeat{});
}

void Engine::Impl::CheckDeadlines() {
  for (auto& [key, group] : groups_) {
    const collective::GroupMachine::Overdue overdue = group->TakeOverdue(now_);
    // It speaks of this operation alone, so it is not kept: it would stand in the way of the next
    // one's, and accuse whoever has come long since before a coordinator that is new.
    for (MemberId late : overdue.lacks) {
      if (!Known(late)) continue;
      SendCoordinator(wire::Evidence{wire::EvidenceKind::kDeadline, late, Code::kPeer, 0,
                                     "operation " + std::to_string(overdue.seq) +
                                         " was called with timeout_ns " +
                                         FormatDuration(overdue.timeout_ns),
                                     overdue.seq});
    }
  }
  if (frozen_ && prepare_ &&
      now_ >= ask_verdicts_at_) {  // V10: a frozen member that hears nothing asks again
    ask_verdicts_at_ = now_ + config_.heartbeat_ns;
    const MemberId leader = LeaderOf(*prepare_);
    if (!verdicts_ && leader != config_.self.id) {
      SendPeer(leader, MakeStatus());
      SendPeer(leader, wire::AskVerdicts{promised_});
    }
  }
}

TimeNs Engine::Impl::NextDeadline() const {
  TimeNs next = Beats() ? next_beat_ : kNever;
  if (phase_ != Phase::kMember && phase_ != Phase::kLeaving) return next;
  next = std::min(next, go_by_);
  if (frozen_) next = std::min(next, ask_verdicts_at_);
  if (pending_step_) next = std::min(next, late_root_.tell_at);
  for (const auto& [key, group] : groups_) {
    if (const auto deadline = group->NextOpDeadline()) next = std::min(next, *deadline);
    if (const auto deadline = group->NextLaneDeadline(); deadline && !frozen_)
      next = std::min(next, *deadline);
  }
  return next;
}

std::shared_ptr<const wire::View> Engine::Impl::GroupView(GroupKey key) const {
  if (!view_ || phase_ == Phase::kJoining) return nullptr;
  const auto group = groups_.find(key);
  const auto view = group == groups_.end() ? nullptr : group->second->ViewFor(NextSeq(key), step_);
  if (view != nullptr) return NextMembers(*view, key);
  return NextMembers(*ViewAt(key, NextSeq(key), step_), key);
}

Seq Engine::Impl::NextSeq(GroupKey key) const {
  const auto found = groups_.find(key);
  return found == groups_.end() ? 0 : found->second->next_seq();
}

// For groups that nobody has opened here.
collective::ViewPtr Engine::Impl::ViewAt(GroupKey key, Seq seq, uint64_t step) const {
  return collective::ViewOf(view_, key, seq, step,
                            [this](Epoch epoch) { return NamedView(epoch); });
}

// Of this column, whoever takes part in this member's next call, in its step.
std::shared_ptr<const wire::View> Engine::Impl::NextMembers(const wire::View& view,
                                                            GroupKey key) const {
  const Seq seq = NextSeq(key);
  wire::View out = membership::ColumnOf(view, config_.self.shard);
  std::erase_if(out.entries,
                [&](const wire::ViewEntry& entry) { return !entry.Contains(key, seq, step_); });
  return std::make_shared<const wire::View>(std::move(out));
}

}  // namespace ftar::engine
