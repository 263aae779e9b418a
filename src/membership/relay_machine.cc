#include "membership/relay_machine.h"

#include <algorithm>
#include <span>

#include "base/mutant.h"
#include "wire/codec.h"
#include "wire/frame.h"

namespace ftar::membership {
namespace {

// Spreads ids over 64 bits; they are random already, but for tests.
uint64_t Mix(uint64_t x) {
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ x >> 27) * 0x94d049bb133111ebULL;
  return x ^ x >> 31;
}

std::string AsText(const wire::Behind& behind) {
  const std::vector<std::byte> bytes = wire::Encode(behind);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

RelayMachine::RelayMachine(RelayConfig config) : config_(config) {
  if (config_.timeout_ns > 0) timeout_ns_ = config_.timeout_ns;
}

void RelayMachine::Step(TimeNs now, const RelayEvent& event) {
  now_ = std::max(now, now_);
  detector_.Advance(now_);
  if (over_) return;
  std::visit([this](const auto& concrete) { On(concrete); }, event);
  if (!over_) RunTimers();
}

RelayReady RelayMachine::TakeReady() {
  ready_.next_deadline = NextDeadline();
  return std::exchange(ready_, {});
}

bool RelayMachine::Takes(const wire::Hello& hello) const {
  if (over_ || config_.members < 1) return false;
  if (!reference_) return true;
  if (hello.card.replica != replica_ || hello.card.shard / config_.members != block_) return false;
  const size_t index = static_cast<size_t>(hello.card.shard % config_.members);
  if (index >= children_.size()) return false;
  const Child& child = children_[index];
  return child.here ? child.card.id == hello.card.id : !complete_ && MayBeMates(hello.report);
}

// Who was in, and who has only been started: the latter has taken the place of one who is dead, and
// nothing becomes of the others of that life.
bool RelayMachine::MayBeMates(const wire::Report& report) const {
  const auto fresh = [](const wire::Report& one) { return one.promised == 0; };
  return FTAR_MUTANT(kRelayMixesLives) || std::ranges::none_of(children_, [&](const Child& child) {
           return child.here && ((fresh(report) && child.installed != 0) ||
                                 (report.installed != 0 && fresh(child.report)));
         });
}

// ---- who is here ----

void RelayMachine::Adopt(const wire::Hello& hello) {
  reference_ = ReferenceOf(hello);
  replica_ = hello.card.replica;
  block_ = hello.card.shard / config_.members;
  const int32_t first = block_ * config_.members;
  children_.resize(static_cast<size_t>(std::min(config_.members, hello.shards - first)));
  const TimeNs agreed = AgreedNumber(*reference_, KnobId::kTimeout, timeout_ns_);
  timeout_ns_ = std::max<TimeNs>(agreed, kMillisecond);
  detector_.Configure(timeout_ns_, 0, AgreedNumber(*reference_, KnobId::kFt, 1) != 0);
  next_beat_ = now_ + timeout_ns_ / 10;
}

void RelayMachine::On(const Connected& event) {
  const wire::Rejected refusal = CheckHello(event.hello, {}, reference_);
  if (refusal.code != Code::kOk) return Refuse(event.conn, refusal);
  const auto left = std::find_if(children_.begin(), children_.end(), [&](const Child& child) {
    return child.gone && child.card.id == event.hello.card.id;
  });
  if (left != children_.end())
    return Refuse(event.conn, wire::Rejected{Code::kLeft, "", "this member has left"});
  if (!Takes(event.hello)) {
    return Refuse(event.conn, wire::Rejected{Code::kPeer, "replica",
                                             "the place of " + Describe(event.hello.card) +
                                                 " is held by somebody else"});
  }
  if (!reference_) Adopt(event.hello);
  TakeIn(children_[static_cast<size_t>(event.hello.card.shard % config_.members)], event);
}

void RelayMachine::TakeIn(Child& child, const Connected& event) {
  if (child.conn != 0) {
    // As the coordinator does: another lower relay may speak for them by now.
    if (!child.roster.empty()) Send(child, wire::Redirect{0, {}, {}, false, true});
    ready_.close.push_back(child.conn);
    conns_.erase(child.conn);
  }
  const bool back = std::exchange(child.here, true);
  child.conn = event.conn;
  child.card = event.hello.card;
  child.roster = event.hello.roster;
  child.report = event.hello.report;
  child.installed = std::max(child.installed, child.report.installed);
  child.held_by_all = std::max(child.held_by_all, child.report.installed_by_all());
  child.lost_at = kNever;
  child.elsewhere = false;
  conns_[event.conn] = IndexOf(child);
  detector_.Heard(child.card.id);
  if (child.installed != 0 || child.report.promised != 0) detector_.Watch(now_, child.card.id);
  if (!complete_) {
    AwaitMates(child);
    return CompleteIfAll();
  }
  if (back) CatchUp(child);
}

// Its mates may have found another relay, since this one or that one was away; so all are sent to
// look again from time to time, their own one first. Whoever comes has a while to be found before
// that. Members of a lost relay have as long to come as they would have to be heard; newcomers, who
// may be started at any time, have no end.
void RelayMachine::AwaitMates(const Child& child) {
  // Who is sent to look again is back long before that: this is another loss, with time of its own.
  const TimeNs sent_at = std::exchange(scattered_at_, kNever);
  const bool anew = sent_at != kNever && now_ - sent_at >= timeout_ns_ / 2;
  if (child.installed != 0 && (gather_until_ == kNever || anew)) gather_until_ = now_ + timeout_ns_;
  const bool gathers = gather_until_ != kNever;
  if (!gathers && FTAR_MUTANT(kRelayNewcomersStay)) return;
  scatter_at_ = now_ + (gathers ? timeout_ns_ / 10 : timeout_ns_);
}

void RelayMachine::Scatter() {
  scatter_at_ = kNever;
  scattered_at_ = now_;
  for (Child& child : children_) {
    if (child.conn == 0) continue;
    ready_.close.push_back(child.conn);
    conns_.erase(std::exchange(child.conn, 0));
    if (child.installed == 0) child = {};
  }
  over_ = std::ranges::none_of(children_, &Child::here);
}

// What it may have missed; all of it may come twice (V10).
void RelayMachine::CatchUp(Child& child) {
  const size_t index = IndexOf(child);
  ForgetReportsOf(index);
  for (auto& [id, unit] : units_) {
    unit.linked.erase(index);
    if (!child.roster.empty() && id != unit_)
      Send(child, wire::Roster{unit.behind.cards[index].id, unit.behind.rosters[index]});
  }
  // Who is in knows its peers. Before that it tells of its links when it is welcomed, each time.
  if (child.installed == 0 && welcomed_) Send(child, wire::Welcome{CardsFor(index, peers_)});
  if (prepare_ && prepare_->epoch >= child.report.promised &&
      prepare_->epoch > child.report.installed_by_all() && !Unknown(prepare_->members))
    Send(child, PrepareFor(index, Own(*prepare_)));
  if (pending_ && pending_->view.epoch > child.report.installed_by_all() &&
      !Unknown(pending_->view.entries))
    Send(child,
         wire::Install{ViewFor(index, Own(pending_->view)), LossesFor(index, Own(pending_->lost))});
  if (no_quorum_) Send(child, *no_quorum_);
  if (release_) Send(child, *release_);
}

void RelayMachine::CompleteIfAll() {
  // Who came first tends to stand in front.
  const auto away = [](const Child& child) { return !child.here || child.conn == 0; };
  if (std::any_of(children_.rbegin(), children_.rend(), away)) return;
  complete_ = true;
  gather_until_ = scatter_at_ = kNever;
  unit_ = {};
  Unit self;
  self.replica = replica_;
  for (const Child& child : children_) {
    unit_.hi = Mix(unit_.hi ^ child.card.id.hi) + child.card.id.lo;
    unit_.lo = Mix(unit_.lo ^ child.card.id.lo) + child.card.id.hi;
    self.behind.cards.push_back(child.card);
    self.behind.rosters.push_back(child.roster);
  }
  units_[unit_] = std::move(self);
  if (above_) Introduce();
}

// Q7: those who are left of a unit whose mates did not find here in time. The coordinator gives
// them up by itself, since it does not hear of them.
void RelayMachine::GiveUpGathering() {
  wire::Loss reason;
  reason.cause = Code::kEvicted;
  reason.stage = "relay";
  reason.text = "mates of its replica did not come back when their relay was lost";
  Epoch newest = 0;
  for (const Child& child : children_) newest = std::max(newest, child.installed);
  End(wire::Evicted{newest, reason});
}

bool RelayMachine::AnyIn() const {
  return std::any_of(children_.begin(), children_.end(),
                     [](const Child& child) { return child.installed != 0; });
}

// As members do, who are missed from the moment that the others may be in a view with them.
bool RelayMachine::Beats() const {
  return AnyIn() || promised_ != 0 ||
         std::ranges::any_of(children_, [](const Child& one) { return one.report.promised != 0; });
}

size_t RelayMachine::Staying() const {
  return static_cast<size_t>(std::count_if(children_.begin(), children_.end(),
                                           [](const Child& child) { return !child.gone; }));
}

bool RelayMachine::All(bool Child::*what) const {
  return std::all_of(children_.begin(), children_.end(),
                     [what](const Child& child) { return child.*what; });
}

void RelayMachine::On(const Disconnected& event) {
  const auto found = conns_.find(event.conn);
  if (found == conns_.end()) return;
  const size_t index = found->second;
  conns_.erase(found);
  Child& child = children_[index];
  if (child.conn != event.conn) return;
  child.conn = 0;
  if (child.gone) return;
  if (!complete_ && child.installed == 0) {
    Tell(LogLevel::kInfo, Describe(child.card) + " gave up joining");
    child = {};
    over_ = std::none_of(children_.begin(), children_.end(), [](const Child& c) { return c.here; });
    return;
  }
  if (!complete_) return;  // it may have gone to look for its mates elsewhere
  if (LeftAlone(child)) return AwaitBack(child);
  // Behind a relay that is lost others may live (Q7).
  const TimeNs patience = child.roster.empty() ? config_.cluster_ns : timeout_ns_ / 4;
  child.lost_at = now_ + patience;
  next_loss_ = std::min(next_loss_, child.lost_at);
}

// The unit goes with any of those behind it. Who is in is told by the coordinator, which hears of
// it by a word that needs no answer; who only wants in waits here for another one.
void RelayMachine::LoseChild(size_t index, Code code, const std::string& text) {
  Child& child = children_[index];
  if (lost_ || over_) return;
  Tell(LogLevel::kWarn, Describe(child.card) + ": " + text);
  lost_ = wire::Goodbye{code, Describe(child.card) + ": " + text};
  lost_child_ = index;
  if (complete_ && above_) ready_.up.push_back(*lost_);
  if (!AnyIn() && confirming_ == 0 && !pending_) GatherAgain(index);
}

// Those who are left begin a new unit with whoever comes in that one's place. Who is away may come
// back to it as well, or never.
void RelayMachine::GatherAgain(size_t index) {
  if (confirming_ != 0) SendAll(wire::VoidPlan{confirming_});
  for (Child& child : children_) {
    const bool lost = &child == &children_[index];
    if (!lost && child.conn != 0) continue;
    if (child.conn != 0) {
      ready_.close.push_back(child.conn);
      conns_.erase(child.conn);
    }
    child = {};
  }
  for (const Child& child : children_) {
    if (child.here) AwaitMates(child);
  }
  units_.clear();
  peers_.clear();
  welcomed_ = false;
  links_told_.clear();
  early_evidence_.clear();
  early_links_.clear();
  overdue_.clear();
  unwanted_.clear();
  decided_.clear();
  pending_.reset();
  told_.reset();
  proposed_ = confirming_ = announcing_ = 0;
  lost_.reset();
  complete_ = above_ = false;
  over_ = std::ranges::none_of(children_, &Child::here);
}

// Whoever hears nothing for two fifths of `timeout` looks for another relay. So who was not heard
// for long when its connection closed, or not at all while this process stood still, need not be
// dead. Without fault tolerance nobody beats, and silence says nothing.
bool RelayMachine::LeftAlone(const Child& child) const {
  if (FTAR_MUTANT(kRelayStillCounts)) return false;
  return detector_.JustWoke() ||
         (detector_.enabled() && detector_.SilentFor(child.card.id) >= timeout_ns_ / 3);
}

// It may be back soon, as it finds none of its mates where it looks. Or all of them go.
void RelayMachine::AwaitBack(Child& child) {
  child.elsewhere = true;
  child.lost_at = now_ + timeout_ns_ / 4;
  next_loss_ = std::min(next_loss_, child.lost_at);
  const auto here = [](const Child& one) { return !one.gone && one.conn != 0; };
  if (std::ranges::none_of(children_, here)) Dissolve();
}

// Another relay speaks for them, or all are to come together again: here or there, their own relay
// first. If one of them does not, the coordinator gives the unit up by itself.
void RelayMachine::Dissolve() {
  Tell(LogLevel::kWarn, Describe(children_[0].card) + " and its mates look for another relay: "
                            "some of them and this one have not heard each other");
  for (const Child& child : children_) {
    if (child.conn != 0) ready_.close.push_back(child.conn);
  }
  conns_.clear();
  over_ = true;
}

// Everybody here is out, or was never let in.
void RelayMachine::End(wire::Message message) {
  auto* const evicted = std::get_if<wire::Evicted>(&message);
  for (size_t i = 0; i < children_.size(); ++i) {
    const Child& child = children_[i];
    if (child.conn == 0) continue;
    if (evicted) {
      wire::Loss own = evicted->reason;
      own.Name(child.card);
      Send(child, wire::Evicted{evicted->epoch, std::move(own)});
    } else {
      Send(child, message);
    }
    ready_.close.push_back(child.conn);
  }
  conns_.clear();
  over_ = true;
}

void RelayMachine::Refuse(ConnId conn, wire::Message message) {
  ready_.down.push_back({{conn}, std::move(message)});
  ready_.close.push_back(conn);
}

void RelayMachine::Send(const Child& child, wire::Message message) {
  if (child.conn != 0) ready_.down.push_back({{child.conn}, std::move(message)});
}

void RelayMachine::SendAll(wire::Message message) {
  Outgoing out{{}, std::move(message)};
  for (const Child& child : children_) {
    if (child.conn != 0) out.to.push_back(child.conn);
  }
  if (!out.to.empty()) ready_.down.push_back(std::move(out));
}

// ---- the connection up ----

void RelayMachine::On(const AboveUp&) {
  above_ = true;
  away_ = false;
  if (complete_) Introduce();
}

// What it meant to announce it cannot announce any more, and roots hold their columns up for it.
// And a unit that is not whole, and was in no view, is given up by the coordinator with its
// connection; one that was announced meanwhile is missed there.
void RelayMachine::On(const AboveDown&) {
  above_ = false;
  const auto stays = [this](const Child& child) { return !child.gone && !LeftAlone(child); };
  if (complete_ && Staying() > 0 && std::ranges::none_of(children_, stays)) return Dissolve();
  no_quorum_.reset();  // it says so again
  if (lost_ && !AnyIn()) return GatherAgain(lost_child_);
  links_told_.clear();
  if (proposed_ != 0) SendAll(wire::VoidPlan{std::exchange(proposed_, 0)});
}

// As a member does (Q2): the highest that anybody here has promised or holds, or may begin any
// moment (J1).
wire::Report RelayMachine::MakeReport() const {
  wire::Report report;
  report.promised = promised_;
  if (prepare_ && prepare_->epoch == promised_) {
    for (const wire::ViewEntry& entry : prepare_->members)
      report.promised_members.push_back(entry.card.id);
  }
  for (const Child& child : children_) {
    if (child.report.promised > report.promised) {
      report.promised = child.report.promised;
      report.promised_members.clear();  // of other columns it knows nothing
    }
    report.installed = std::max(report.installed, child.installed);
  }
  if (installed_ && installed_->epoch == report.installed) report.installed_view = installed_;
  if (told_ && told_->epoch > report.installed && !FTAR_MUTANT(kRelayToldUnsaid)) {
    report.installed = told_->epoch;
    report.installed_view = told_;
  }
  report.in_part = LeastInstalled() != report.installed && !FTAR_MUTANT(kRelayHidesTheLast);
  return report;
}

void RelayMachine::Introduce() {
  const Unit& self = units_.at(unit_);
  wire::Hello hello;
  hello.wire_version = wire::kWireVersion;
  hello.job = reference_->job;
  hello.card = children_[0].card;
  hello.card.id = unit_;
  hello.card.shard = block_;
  hello.card.pid = 0;
  hello.card.addresses.clear();
  hello.replicas = reference_->replicas;
  hello.shards = (reference_->shards + config_.members - 1) / config_.members;
  hello.min_replicas = reference_->min_replicas;
  hello.agreed_config = reference_->agreed_config;
  hello.report = MakeReport();
  hello.roster = AsText(self.behind);
  ready_.up.push_back(std::move(hello));
  if (lost_) ready_.up.push_back(*lost_);
  for (const auto& [id, unit] : units_) {
    if (unit.exited)
      ready_.up.push_back(wire::Evidence{wire::EvidenceKind::kProcessExited, id, Code::kPeer, 0,
                                         "its process has exited"});
    if (!unit.broken.empty())
      ready_.up.push_back(
          wire::Evidence{wire::EvidenceKind::kLinkLost, id, Code::kLink, 0, "lost before"});
  }
  for (const auto& [who, evidence] : overdue_) PassUp(who.first, evidence);
  for (const auto& [who, evidence] : unwanted_) PassUp(who.first, evidence);
  for (const wire::AskPrepare& asked : asked_) ready_.up.push_back(asked);
  if (All(&Child::leave_requested)) ready_.up.push_back(wire::LeaveRequest{});
  if (All(&Child::leave_ready)) ready_.up.push_back(wire::LeaveReady{LeastInstalled(), {}});
}

// ---- time ----

void RelayMachine::RunTimers() {
  if (!reference_) return;
  LoseDisconnected();
  if (now_ >= gather_until_) return GiveUpGathering();
  if (now_ >= scatter_at_) Scatter();
  RunDetector();
  if (now_ < next_beat_) return;
  next_beat_ = now_ + timeout_ns_ / 10;
  // Its own beat, or else they would drop the one that they have when it is the coordinator that is
  // away, and be taken for lost. They are told, since their waits may end then.
  SendAll(wire::CoordinatorBeat{0, !above_ || away_});
  if (complete_ && above_ && Beats()) ready_.up.push_back(Progress());
}

void RelayMachine::LoseDisconnected() {
  if (now_ < next_loss_) return;
  next_loss_ = kNever;
  for (size_t i = 0; i < children_.size() && !over_; ++i) {
    if (children_[i].lost_at > now_) {
      next_loss_ = std::min(next_loss_, children_[i].lost_at);
      continue;
    }
    children_[i].lost_at = kNever;
    if (children_[i].elsewhere || MatesFollow(children_[i])) return Dissolve();
    LoseChild(i, Code::kPeer, "its connection to its relay closed");
  }
}

// Q7: of a lower relay that is lost those behind it may live. Their next one looks for its own
// upper relay first; where this one stands by for that, and that is back, they wait there and do
// not come here. So all come together again, their own first. If they are dead the coordinator
// gives the unit up by itself, and at once if their links are gone as well.
bool RelayMachine::MatesFollow(const Child& child) const {
  return !child.roster.empty() && AnyIn() && !lost_ && Staying() == children_.size() &&
         !FTAR_MUTANT(kUpperRelayStays);
}

// Who is late shows only between columns, at the coordinator; who is silent or stuck shows here.
void RelayMachine::RunDetector() {
  if (now_ < detector_.NextCheck()) return;
  for (const Finding& finding : detector_.Check()) {
    const auto child = std::find_if(children_.begin(), children_.end(), [&](const Child& one) {
      return one.here && one.card.id == finding.member;
    });
    if (child == children_.end() || child->gone || child->elsewhere) continue;
    // A relay that has taken over knows the change that stops them from their own word.
    const Epoch promised = std::max(prepare_ ? prepare_->epoch : 0, child->report.promised);
    const bool changing = child->installed < promised;
    if (finding.kind == Finding::Kind::kSilent)
      LoseChild(IndexOf(*child), Code::kPeer, "no heartbeat in time");
    if (finding.kind == Finding::Kind::kStuck && !changing && child->roster.empty())
      LoseChild(IndexOf(*child), Code::kPeer,
                "holds all data of operation " + std::to_string(finding.seq) + " and stands still");
  }
}

TimeNs RelayMachine::NextDeadline() const {
  if (over_ || !reference_) return kNever;
  return std::min({next_beat_, gather_until_, scatter_at_, next_loss_, detector_.NextCheck()});
}

// ---- events ----

void RelayMachine::On(const Received& event) {
  const auto found = conns_.find(event.conn);
  if (found == conns_.end()) return;
  Child& child = children_[found->second];
  detector_.Heard(child.card.id);
  std::visit(
      [&](const auto& message) {
        if constexpr (requires { Hear(child, message); }) Hear(child, message);
      },
      event.message);
}

void RelayMachine::On(const FromAbove& event) {
  if (!above_) return;
  std::visit(
      [&](const auto& message) {
        if constexpr (requires { Tell(message); }) Tell(message);
      },
      event.message);
}

}  // namespace ftar::membership
