// The faults that the weather brings. Each strikes at a drawn time; members and links are drawn
// when it strikes.
#include <algorithm>
#include <utility>

#include "node.h"
#include "world.h"

namespace ftar::sim {

namespace {
constexpr TimeNs kFaultSpan = 120 * kMillisecond;
}

// Somebody who is in and may be struck without ending the job: one replica must remain.
World::Node* World::Victim(bool spare_last) {
  std::vector<Node*> in;
  std::set<int> replicas;
  for (auto& node : nodes_) {
    if (!node->alive || node->over || node->stopped || node->leaving) continue;
    if (node->engine->phase() == engine::Phase::kMember) replicas.insert(node->card.replica);
    in.push_back(node.get());
  }
  if (in.empty() || (spare_last && replicas.size() < 2)) return nullptr;
  return in[rng_.Below(in.size())];
}

// Where members coordinate, the job begins with the first of them: before it has, nobody could.
bool World::MayEnd(const Node& node) const { return begun_ || !node.seat.machine; }

// It and its replica may be evicted from now on, and nobody wonders.
void World::Strike(Node& node) {
  ++faults_;
  // Whom its successor does not hear in time is out as well.
  const bool hosts = std::any_of(nodes_.begin(), nodes_.end(), [&node](const auto& mate) {
    return mate->seat.machine && mate->card.replica == node.card.replica;
  });
  if (hosts) {
    host_struck_ = true;
    for (auto& other : nodes_) other->struck = true;
  }
  StrikeReplica(node.card.replica);
  StrikeFlapping();
}

void World::StrikeReplica(int32_t replica) {
  for (auto& mate : nodes_) {
    if (mate->alive && mate->card.replica == replica) mate->struck = true;
  }
}

// Those behind a lost upper relay are not all together again yet. Where one link of theirs is lost
// meanwhile, the last one who could vouch for them may be at its other end.
bool World::Parted() const { return weather_.relay_tops > 0 && LacksRelay(); }

// Who is struck, or parted, may not come to say that a link is up again.
void World::StrikeFlapping() {
  if (now_ >= flapping_until_) return;
  for (const auto& [a, b] : flapping_) {
    if (!Parted() && !a->struck && !b->struck) continue;
    StrikeReplica(a->card.replica);
    StrikeReplica(b->card.replica);
  }
}

// A connection ends behind what was sent on it, a Hello above all.
TimeNs World::BehindWords(uint64_t connection, TimeNs closed_at) {
  return std::max(closed_at, WireOf(connection + kConnectionBase, 0).free + 1);
}

void World::Kill(Node& node) {
  if (!MayEnd(node)) return;
  if (trace_) Trace("kill   " + ToString(node.card.id));
  Strike(node);
  Unquiet(now_ + 20 * kMillisecond);
  look_again_ = true;
  node.alive = false;
  if (node.seat.machine) CloseSeat(node.seat);
  const MemberId dead = node.card.id;
  const uint64_t connection = std::exchange(node.connection, 0);
  if (connection != 0) {
    const TimeNs closed = now_ + rng_.Between(100'000, 20 * kMillisecond);
    At(BehindWords(connection, closed), [this, connection] {
      FeedCoordinator(connection, membership::Disconnected{connection, ""});
    });
  }
  for (auto& other : nodes_) {
    if (!other->alive || !other->Holds(node)) continue;
    Node* watcher = other.get();
    if (weather_.crashes && later_.Chance(0.5)) torn_.insert({node.index, watcher->index});
    const bool proof = rng_.Chance(0.5);
    After(rng_.Between(50'000, 10 * kMillisecond), [this, watcher, &node, dead, proof] {
      if (watcher->revoked.contains(dead)) return;
      watcher->SetLink(node, false);
      if (proof) {
        Feed(*watcher, engine::PeerExited{dead});
      } else {
        Feed(*watcher, engine::LinkIsDown{dead, Code::kLink, "connection closed"});
      }
    });
  }
}

void World::Stop(Node& node, TimeNs duration) {
  if (trace_)
    Trace("stop   " + ToString(node.card.id) + " for " + std::to_string(duration / 1'000'000) +
          " ms");
  Strike(node);
  node.stopped = true;
  Unquiet(now_ + duration);
  After(duration, [this, &node] { Continue(node); });
}

void World::Continue(Node& node) {
  if (trace_) Trace("cont   " + ToString(node.card.id));
  node.stopped = false;
  while (!node.backlog.empty() && node.alive && !node.stopped) {
    Action action = std::move(node.backlog.front());
    node.backlog.pop_front();
    action();
  }
}

// The link is lost for good, in one direction or in both; both ends live and reach the coordinator
// (rule Q7).
void World::CutLink(Node& a, Node& b) {
  if (trace_) Trace("cut    " + ToString(a.card.id) + " - " + ToString(b.card.id));
  Strike(a);
  Strike(b);
  --faults_;  // one, at two ends
  Unquiet(now_ + 5 * kMillisecond);
  cut_.insert({a.index, b.index});
  if (!weather_.one_way) cut_.insert({b.index, a.index});
  for (auto [from, to] : {std::pair{&a, &b}, std::pair{&b, &a}}) {
    Node* self = from;
    const MemberId peer = to->card.id;
    // Cut one way, the receiver closes it, and the sender hears of that.
    const bool hears = cut_.contains({to->index, from->index});
    const TimeNs later = hears ? 0 : 5 * kMillisecond;
    After(later + rng_.Between(1, 5) * kMillisecond, [this, self, peer] {
      self->main.memory.RecallFrom(peer);
      self->urgent.memory.RecallFrom(peer);
      if (!self->revoked.contains(peer))
        Feed(*self, engine::LinkIsDown{peer, Code::kLink, "reset"});
    });
  }
}

// The member's connection closes; the coordinator sees that at `closed_at`.
void World::LoseCoordinator(Node& node, TimeNs closed_at, TimeNs down_after, TimeNs back_after) {
  const uint64_t connection = std::exchange(node.connection, 0);
  const bool reset = weather_.resets != 0 && connection % 2 == 0;
  At(BehindWords(connection, closed_at), [this, connection, reset] {
    FeedCoordinator(connection, membership::Disconnected{connection, "reset", reset});
  });
  if (weather_.hosted) node.away_until = std::max(node.away_until, now_ + back_after);
  After(down_after, [this, &node] { LoseConnection(node); });
  After(back_after, [this, &node] {
    if (!node.over) Attach(node);
  });
  Unquiet(now_ + back_after);
}

// Somebody else who is in and runs holds a view with it; or there is nobody else.
bool World::KnownToOthers(const Node& node) const {
  bool others = false;
  for (const auto& other : nodes_) {
    const auto view = other->engine->view();
    const bool mute = other->stopped && weather_.relays == 0;  // else its relay speaks for it
    if (other.get() == &node || !other->alive || other->over || mute || !view) continue;
    if (view->Find(node.card.id)) return true;
    others = true;
  }
  return !others;
}

void World::RestartCoordinator() {
  if (weather_.hosted) return StrikeHost();
  if (!fixed_.machine) return;
  if (trace_) Trace("restart of the coordinator");
  ++faults_;
  bool anybody = false;
  for (auto& node : nodes_) {
    const engine::Phase phase = node->engine->phase();
    const bool in = phase == engine::Phase::kMember || phase == engine::Phase::kLeaving;
    anybody = anybody || (in && node->alive && !node->stopped);
    if (!in || !KnownToOthers(*node)) node->struck = true;  // the new one may not know it
    // Those whose relay is lost as well: nobody else knows what it knew.
    if (LacksRelay()) node->struck = true;
    if (node->connection == 0 || weather_.relays > 0) continue;
    node->connection = 0;
    Node* member = node.get();
    After(rng_.Between(100'000, 2 * kMillisecond),
          [this, member] { Feed(*member, engine::CoordinatorDown{}); });
    After(rng_.Between(5, 20) * kMillisecond, [this, member] {
      if (member->alive) Attach(*member);
    });
  }
  if (weather_.relays > 0) BreakLines(nullptr);
  fixed_.machine.reset();
  recovered_by_ = now_ + 200 * kMillisecond;
  After(rng_.Between(2, 10) * kMillisecond, [this] { StartCoordinator(); });
  Unquiet(now_ + 30 * kMillisecond);
  // Nobody is there to tell the new one of the job, so it begins another.
  if (begun_ && !anybody && !weather_.record) ended_ = look_again_ = true;
}

void World::KillOne() {
  if (Node* node = Victim(true)) Kill(*node);
}

void World::StopOne() {
  if (Node* node = Victim(true)) Stop(*node, rng_.Between(1, 250) * kMillisecond);
}

void World::HangOne() {
  Node* node = Victim(true);
  if (!node || !MayEnd(*node)) return;
  if (trace_) Trace("hang   " + ToString(node->card.id));
  Strike(*node);
  node->stopped = node->hung = look_again_ = true;
}

void World::JoinOne() {
  std::set<int> live;
  for (auto& node : nodes_) {
    if (node->alive && !node->over) live.insert(node->card.replica);
  }
  int replica = 0;
  while (live.contains(replica)) ++replica;
  if (replica >= kReplicasMax) return;  // in the place of one who lives it would wait for ever
  ++faults_;
  for (int shard = 0; shard < weather_.shards; ++shard) AddNode(replica, shard);
}

void World::LeaveOne() {
  Node* node = Victim(true);
  if (!node || node->engine->phase() != engine::Phase::kMember) return;
  ++faults_;
  if (weather_.hosted) Strike(*node);
  for (auto& mate : nodes_) {  // a replica leaves as a whole
    if (!mate->alive || mate->over || mate->card.replica != node->card.replica) continue;
    if (trace_) Trace("leave  " + ToString(mate->card.id));
    mate->leaving = true;
    views_.Leaves(mate->card.id);
    if (weather_.relays > 0)
      mate->struck = true;  // goes with those who have left, see RelayMachine
    Feed(*mate, engine::RequestLeave{});
  }
}

void World::CutOne() {
  Node* a = Victim(true);
  Node* b = Victim(true);
  if (a && b && a != b && a->card.shard == b->card.shard) CutLink(*a, *b);
}

// A link fails and is back before anybody is evicted for it: what was sent meanwhile comes later.
void World::FlapOne() {
  Node* a = Victim(true);
  Node* b = Victim(true);
  if (!a || !b || !a->Holds(*b) || !b->Holds(*a) || !cut_.empty()) return;
  if (trace_) Trace("flap   " + ToString(a->card.id) + " - " + ToString(b->card.id));
  ++faults_;
  if (now_ < blackout_until_) a->struck = b->struck = true;
  if (now_ >= flapping_until_) flapping_.clear();
  flapping_.push_back({a, b});
  flapping_until_ = now_ + 20 * kMillisecond;
  if (Parted()) StrikeFlapping();
  const TimeNs back = now_ + later_.Between(kMillisecond / 2, 4 * kMillisecond);
  Flap(*a, *b, back);
  Unquiet(back);
}

void World::Flap(Node& a, Node& b, TimeNs back) {
  for (auto [from, to] : {std::pair{&a, &b}, std::pair{&b, &a}}) {
    Node* self = from;
    Node* peer = to;
    Wire& wire = WireOf(self->index, peer->index);
    wire.free = std::max(wire.free, back);
    wire.word_free = std::max(wire.word_free, back);
    const auto holds = [this, self, peer] {
      return peer->alive && !self->revoked.contains(peer->card.id) && self->Holds(*peer) &&
             !cut_.contains({self->index, peer->index}) &&
             !cut_.contains({peer->index, self->index});
    };
    Feed(*self, engine::LinkIsDown{peer->card.id, Code::kLink, "reset"});
    At(back, [this, self, peer, holds] {
      if (holds()) Feed(*self, engine::LinkIsUp{peer->card.id, WireCosts(*self, *peer)});
    });
  }
}

void World::HiccupOne() {
  Node* node = Victim(true);
  if (!node || node->connection == 0) return;
  if (trace_) Trace("hiccup " + ToString(node->card.id));
  Strike(*node);
  const TimeNs sent = WireOf(node->connection + kConnectionBase, 0).free + 1;
  const TimeNs closed = now_ + later_.Between(100'000, 5 * kMillisecond);
  LoseCoordinator(*node, std::max(closed, sent), kMillisecond / 10,
                  later_.Between(kMillisecond / 5, 150 * kMillisecond));
}

// All connections close at once, and all come back soon: it is the coordinator's side that was
// struck, and nobody may be evicted for it (rule Q7).
void World::Blackout() {
  if (!fixed_.machine) return;
  if (trace_) Trace("blackout");
  ++faults_;
  TimeNs closed = now_ + kMillisecond;
  for (const auto& node : nodes_)
    closed = std::max(closed, WireOf(node->connection + kConnectionBase, 0).free + 1);
  StrikeUnheard();
  blackout_until_ = closed + 20 * kMillisecond;
  const std::set<const Node*> spared = SparedMembers();
  for (const auto& node : nodes_) {
    if (!node->alive || node->connection == 0 || spared.contains(node.get())) continue;
    LoseCoordinator(*node, closed, kMillisecond / 2,
                    closed - now_ + later_.Between(3 * kMillisecond, 12 * kMillisecond));
  }
}

// Half of the members, as long as more than half of all connections close.
std::set<const World::Node*> World::SparedMembers() {
  const wire::View* view = fixed_.machine->view();
  if (weather_.sparing == 0 || !view) return {};
  std::vector<const Node*> members;
  size_t all = 0;
  for (const auto& node : nodes_) {
    if (!node->alive || node->connection == 0) continue;
    ++all;
    if (view->Find(node->card.id)) members.push_back(node.get());
  }
  if (members.empty()) return {};
  std::rotate(members.begin(), members.begin() + later_.Below(members.size()), members.end());
  members.resize(std::min(members.size() / 2, (all - 1) / 2));
  return {members.begin(), members.end()};
}

// Who may be evicted when all lose the coordinator. With others away for reasons of their own it
// cannot tell; a newcomer has no place to come back to; and that a link is up again must be told in
// time.
void World::StrikeUnheard() {
  const wire::View* view = fixed_.machine->view();
  bool whole = now_ > flapping_until_;
  for (const auto& node : nodes_) {
    const bool away = !node->alive || node->stopped || node->over || node->connection == 0;
    whole = whole && !(view && view->Find(node->card.id) && away);
  }
  for (const auto& node : nodes_) {
    const bool here = node->alive && node->connection != 0;
    if (here && (!whole || !view || !view->Find(node->card.id))) node->struck = true;
  }
}

// The coordinator is cut off for longer than `timeout`, and the members give it up. When the
// network is back their old connections end one by one, and they come back one by one.
void World::CutOffCoordinator() {
  const wire::View* view = fixed_.machine ? fixed_.machine->view() : nullptr;
  if (!view || view->entries.size() < 2) return;  // of one member it cannot tell who is away
  const TimeNs heals = now_ + later_.Between(120, 300) * kMillisecond;
  if (trace_) Trace("cut off for " + std::to_string((heals - now_) / kMillisecond) + " ms");
  ++faults_;
  StrikeUnheard();
  cut_off_until_ = std::max(cut_off_until_, heals);
  blackout_until_ = heals + 100 * kMillisecond;
  for (const auto& node : nodes_) {
    if (!node->alive || node->connection == 0) continue;
    LoseCoordinator(*node, heals + later_.Between(0, 40) * kMillisecond,
                    later_.Between(100, 110) * kMillisecond,
                    heals - now_ + later_.Between(10, 80) * kMillisecond);
  }
}

void World::AbortOne() {
  Node* node = Victim(true);
  if (!node || !MayEnd(*node)) return;
  Strike(*node);
  Feed(*node, engine::AbortSelf{Code::kMemory, "out of memory"});
  node->conduct.GivesUp();
  if (weather_.ambushes == 0) return Kill(*node);
  // It takes a while to go: its links and its connection stay up meanwhile.
  const TimeNs lag = later_.Between(kMillisecond, 30 * kMillisecond);
  Unquiet(now_ + lag);
  AtNode(*node, now_ + lag, [this, node] { Kill(*node); });
}

// A replica loses the coordinator and is evicted without hearing of it. When the others have gone
// on the coordinator is restarted, and for longer than it waits for them only that replica reaches
// it.
void World::StrandOne() {
  Node* stray = weather_.hosted ? nullptr : Victim(true);
  if (!stray || stray->connection == 0 || stray_) return;
  if (trace_) Trace("strand " + ToString(stray->card.id));
  stray_ = stray;
  for (const auto& mate : nodes_) {
    if (mate->card.replica != stray->card.replica || mate->connection == 0) continue;
    Strike(*mate);
    mate->away_until = kNever;
    const TimeNs sent = WireOf(mate->connection + 1000, 0).free + 1;
    LoseCoordinator(*mate, std::max(now_ + kMillisecond, sent), kMillisecond / 10, kMillisecond);
  }
  Unquiet(now_ + 50 * kMillisecond);
  After(50 * kMillisecond, [this] { Abandon(); });
}

void World::Abandon() {
  if (!stray_) return;
  const int replica = std::exchange(stray_, nullptr)->card.replica;
  const TimeNs away = later_.Chance(0.5) ? later_.Between(100, 400) * kMillisecond
                                         : later_.Between(1000, 1300) * kMillisecond;
  for (const auto& node : nodes_) {
    const bool back = node->card.replica == replica;
    node->away_until = now_ + (back ? later_.Between(1, 20) * kMillisecond : away);
    node->struck = true;
  }
  if (trace_) Trace("abandon: the others are away for " + std::to_string(away / 1'000'000) + " ms");
  RestartCoordinator();
  Unquiet(now_ + away + 30 * kMillisecond);
}

// The member that coordinates dies, or stands still for longer than the others wait for it.
void World::StrikeHost() {
  Node* host = Host();
  if (!host || !begun_ || !Victim(true)) return;
  if (later_.Below(3) > 0) return Kill(*host);
  Stop(*host, later_.Between(20, 400) * kMillisecond);
}

// Some do not reach the others for a while, neither over links nor to coordinate.
void World::PartitionOne() {
  if (!cut_.empty() || now_ < severed_until_ || now_ < flapping_until_ || !Victim(true)) return;
  side_ = later_.Next();
  const TimeNs back = severed_until_ = now_ + later_.Between(5, 400) * kMillisecond;
  if (trace_) Trace("part   for " + std::to_string((back - now_) / kMillisecond) + " ms");
  ++faults_;
  host_struck_ = true;
  for (const auto& a : nodes_) {
    a->struck = true;
    for (const auto& b : nodes_) {
      const bool links = a->index < b->index && a->Holds(*b) && b->Holds(*a) && Severed(*a, *b);
      if (links && a->alive && b->alive) Flap(*a, *b, back);
    }
    if (a->connection == 0 || !a->alive) continue;
    if (!Severed(*a, *connections_[a->connection].seat->host)) continue;
    LoseCoordinator(*a, now_ + later_.Between(1, 5) * kMillisecond, kMillisecond, 0);
  }
  Unquiet(back);
}

// Right behind a word of the coordinator that begins, ends or announces a change: deaths of leaders
// and roots, deaths of anybody, restarts of the coordinator itself, also one after the other.
void World::Ambush(const wire::Message& message) {
  const auto* prepare = std::get_if<wire::Prepare>(&message);
  const bool end = std::holds_alternative<wire::Install>(message) ||
                   std::holds_alternative<wire::Announce>(message) ||
                   std::holds_alternative<wire::Confirm>(message);
  if ((!prepare && !end) || calm_ || !begun_ || !later_.Chance(0.3)) return;
  --ambushes_left_;
  const TimeNs delay = later_.Between(0, 3 * weather_.delay_max_us * kMicrosecond);
  const uint64_t what = later_.Below(10);  // the leader, anybody, a stop, the coordinator
  Node* leader = prepare && !prepare->members.empty() && what < 3
                     ? Find(prepare->members.front().card.id)
                     : nullptr;
  Unquiet(now_ + delay + kMillisecond);
  After(delay, [this, leader, what] {
    if (what >= 8) return RestartCoordinator();
    if (!Victim(true)) return;  // nobody may be struck any more
    if (leader && leader->alive && !leader->over && !leader->stopped) return Kill(*leader);
    if (what == 7) return StopOne();
    KillOne();
  });
}

// Who is first in the list is about to die when members change: what it says from now on does not
// come to some, and to others it does.
void World::Fade(const wire::Message& message) {
  const auto* prepare = std::get_if<wire::Prepare>(&message);
  const auto* announce = std::get_if<wire::Announce>(&message);
  if ((!prepare && !announce) || calm_ || !begun_ || !later_.Chance(0.7)) return;
  const auto& entries = prepare ? prepare->members : announce->view.entries;
  Node* first = entries.empty() ? nullptr : Find(entries.front().card.id);
  if (!first || !first->alive || first->over || first->stopped || !Victim(true)) return;
  --fades_left_;
  Strike(*first);
  const TimeNs dies = now_ + later_.Between(0, 10 * weather_.delay_max_us * kMicrosecond);
  Unquiet(dies + kMillisecond);
  for (const auto& other : nodes_) {
    if (!first->Holds(*other) || later_.Chance(0.5)) continue;
    Wire& wire = WireOf(first->index, other->index);
    wire.free = wire.word_free = std::max(wire.free, dies + kMillisecond);
    const auto clogged = std::pair{first->index, other->index};
    At(dies, [this, first, clogged] {
      if (first->alive && !first->over && Victim(true)) torn_.insert(clogged);
    });
  }
  At(dies, [this, first] {
    if (first->alive && !first->over && Victim(true)) Kill(*first);
  });
}

// One member hears of the view later than all others, who go on in it; or never, since the
// coordinator is lost meanwhile, and what was to come from it.
void World::DelayInstall(uint64_t conn) {
  if (calm_ || !begun_ || !later_.Chance(0.3)) return;
  --late_installs_left_;
  const TimeNs by = later_.Between(2, 40) * kMillisecond;
  Wire& wire = WireOf(0, conn + kConnectionBase);
  wire.free = wire.word_free = std::max(wire.free, now_ + by);
  Unquiet(now_ + by);
  const uint64_t what = later_.Below(4);
  After(later_.Between(0, by), [this, what] {
    if (what < 2) return RestartCoordinator();
    if (what == 2) KillOne();
  });
}

void World::StrikeAtRandom(int times, void (World::*strike)()) {
  for (int i = 0; i < times; ++i) {
    const TimeNs at = rng_.Between(2 * kMillisecond, kFaultSpan);
    Unquiet(now_ + at);
    After(at, [this, strike] { (this->*strike)(); });
  }
}

void World::StrikeLater(int times, void (World::*strike)()) {
  for (int i = 0; i < times; ++i) {
    const TimeNs at = later_.Between(2 * kMillisecond, kFaultSpan);
    Unquiet(now_ + at);
    After(at, [this, strike] { (this->*strike)(); });
  }
}

void World::ScheduleFaults() {
  StrikeAtRandom(weather_.kills, &World::KillOne);
  StrikeAtRandom(weather_.stops, &World::StopOne);
  StrikeAtRandom(weather_.joins, &World::JoinOne);
  StrikeAtRandom(weather_.leaves, &World::LeaveOne);
  StrikeAtRandom(weather_.cuts, &World::CutOne);
  StrikeAtRandom(weather_.coordinator_restarts, &World::RestartCoordinator);
  if (weather_.aborts > 0) {
    After(rng_.Between(15, 40) * kMillisecond, [this] { AbortOne(); });
    Unquiet(40 * kMillisecond);
  }
  StrikeLater(weather_.hangs, &World::HangOne);
  StrikeLater(weather_.flaps, &World::FlapOne);
  StrikeLater(weather_.hiccups, &World::HiccupOne);
  // Both are about members' own connections to the coordinator.
  const bool direct = weather_.relays == 0;
  StrikeLater(direct ? weather_.blackouts : 0, &World::Blackout);
  StrikeLater(direct ? 0 : weather_.relay_losses, &World::LoseRelay);
  StrikeLater(direct ? 0 : weather_.relay_stops, &World::StopRelay);
  StrikeLater(direct ? weather_.strandings : 0, &World::StrandOne);
  StrikeLater(direct ? weather_.cutoffs : 0, &World::CutOffCoordinator);
  if (weather_.hosted) StrikeLater(weather_.partitions, &World::PartitionOne);
  ambushes_left_ = weather_.ambushes;
  late_installs_left_ = weather_.late_installs;
  fades_left_ = weather_.fades;
  clogs_left_ = weather_.clogs;
  failure_deaths_left_ = weather_.failure_deaths;
  plan_strikes_left_ = weather_.plan_strikes;
  CalmDown();
}

// When the last fault has shown. Whoever is left has to deliver some more, newcomers included.
void World::CalmDown() {
  if (quiet_at_ > now_) return After(quiet_at_ - now_, [this] { CalmDown(); });
  calm_ = look_again_ = true;
  for (const auto& node : nodes_) {
    goal_ = std::max(goal_, node->main.delivered_end);
    urgent_goal_ = std::max(urgent_goal_, node->urgent.delivered_end);
  }
  goal_ += static_cast<Seq>(weather_.ops);
  if (weather_.urgent) urgent_goal_ += static_cast<Seq>(weather_.ops);
  if (trace_) Trace("calm: everybody must reach " + std::to_string(goal_));
}

}  // namespace ftar::sim
