// What a story does to its members, links and coordinator.
#include <algorithm>
#include <utility>

#include "story/director.h"

namespace ftar::sim {

namespace {
constexpr TimeNs kSilence = 100 * kMillisecond;
constexpr uint64_t kExitLane = uint64_t{1} << 60;  // an exit is seen beside what is on the wire
}  // namespace

void Director::Do(const Deed& deed, const Happening& happening) {
  using Kind = Deed::Kind;
  if (world_.trace_ && deed.kind != Kind::kNothing) world_.Trace("        ***");
  std::vector<Node*> nodes = NodesOf(deed.who);
  const auto peer = [&] { return NodesOf(deed.peer).at(0); };
  switch (deed.kind) {
    case Kind::kNothing: return;
    case Kind::kRestart: return Restart(deed.time);
    case Kind::kPart: return Part(deed);
    case Kind::kSlow: return Slow(deed);
    case Kind::kRepeat: return Repeat(deed, happening);
    case Kind::kJoin:
      arriving_ = deed.who;
      for (int shard = 0; shard < story_.weather.shards; ++shard)
        world_.AddNode(deed.replica, shard);
      arriving_.clear();
      return;
    case Kind::kLetGo: free_.insert(deed.who); break;
    case Kind::kCut:
      if (deed.who == kCoordinatorName || deed.peer == kCoordinatorName) return CutOff(deed);
      break;
    default: break;
  }
  for (Node* node : nodes) {
    if (!node->alive) continue;
    switch (deed.kind) {
      case Kind::kKill: Kill(*node, deed); break;
      case Kind::kStop: Stop(*node); break;
      case Kind::kContinue: world_.Continue(*node); break;
      case Kind::kCut: Cut(*node, *peer(), deed.one_way); break;
      case Kind::kMend:
        blocked_.erase({node, nullptr});
        blocked_.erase({nullptr, node});
        world_.Attach(*node);
        break;
      case Kind::kFlap: Flap(*node, *peer(), deed.time); break;
      case Kind::kHiccup: Hiccup(*node, deed.time); break;
      case Kind::kOrphan:
        if (auto* relay = world_.RelayAbove(node->connection)) world_.CrashRelay(*relay);
        break;
      case Kind::kLeave:
        node->leaving = true;
        world_.Feed(*node, engine::RequestLeave{});
        break;
      case Kind::kAbort:
        world_.Strike(*node);
        world_.Feed(*node, engine::AbortSelf{Code::kMemory, "out of memory"});
        node->conduct.GivesUp();
        break;
      case Kind::kEvict:
        world_.Strike(*node);
        world_.Feed(*peer(), engine::EvictPeer{node->card.id, "by hand"});
        break;
      case Kind::kLetGo: world_.Drain(*node); break;
      default: break;
    }
  }
}

// What was sent before arrives; then connections close, or somebody on its host sees that the
// process has gone, or, without power, nobody sees anything.
void Director::Kill(Node& node, const Deed& deed) {
  if (world_.trace_) world_.Trace("kill   " + ToString(node.card.id));
  world_.Strike(node);
  node.alive = false;
  const uint64_t connection = std::exchange(node.connection, 0);
  if (node.seat.machine) world_.CloseSeat(node.seat);
  if (deed.unnoticed) return;
  const TimeNs seen = world_.now_ + story_.notice;
  if (connection != 0) {
    World& world = world_;
    const uint64_t end = connection + World::kConnectionBase;
    const TimeNs sent = world_.WireOf(end, 0).free + 1;
    world_.At({std::max(seen, sent), end << 32, 0}, [&world, connection] {
      world.FeedCoordinator(connection, membership::Disconnected{connection, ""});
    });
  }
  const bool proven = deed.proven;
  for (auto& other : world_.nodes_) {
    if (other.get() == &node) continue;
    Node* watcher = other.get();
    const uint64_t wire = node.index << 32 | watcher->index;
    const TimeNs sent = world_.WireOf(node.index, watcher->index).free + 1;
    const World::When closes(std::max(seen, sent), wire, watcher->index);
    const World::When exits(seen, kExitLane | wire, watcher->index);
    world_.At(proven ? exits : closes, [this, watcher, &node, proven] {
      const MemberId dead = node.card.id;
      if (!watcher->Holds(node) || watcher->revoked.contains(dead)) return;
      if (proven) {
        world_.Feed(*watcher, engine::PeerExited{dead});
      } else {
        watcher->SetLink(node, false);
        world_.Feed(*watcher, engine::LinkIsDown{dead, Code::kLink, "connection closed"});
      }
    });
  }
}

void Director::Stop(Node& node) {
  if (world_.trace_) world_.Trace("stop   " + ToString(node.card.id));
  world_.Strike(node);
  node.stopped = true;
}

// For good. Cut one way, the receiver closes the link, and the sender hears of that.
void Director::Cut(Node& a, Node& b, bool one_way) {
  if (world_.trace_) world_.Trace("cut    " + ToString(a.card.id) + " - " + ToString(b.card.id));
  world_.Strike(a);
  world_.Strike(b);
  world_.cut_.insert({a.index, b.index});
  if (!one_way) world_.cut_.insert({b.index, a.index});
  for (auto [self, peer] : {std::pair{&a, &b}, std::pair{&b, &a}}) {
    const TimeNs later = one_way && self == &a ? 5 * story_.notice : story_.notice;
    world_.After(later, [this, self = self, peer = peer] {
      if (!self->revoked.contains(peer->card.id))
        world_.Feed(*self, engine::LinkIsDown{peer->card.id, Code::kLink, "reset"});
    });
  }
}

// One end notices; what the other has sent and will send does not come in any more.
void Director::CutHere(Node& self, Node& peer) {
  if (world_.trace_)
    world_.Trace("cut    " + ToString(self.card.id) + " from " + ToString(peer.card.id));
  world_.Strike(self);
  world_.cut_.insert({peer.index, self.index});
  if (!self.revoked.contains(peer.card.id))
    world_.Feed(self, engine::LinkIsDown{peer.card.id, Code::kLink, "reset"});
}

std::vector<Director::Blow> Director::BlowsOf(size_t scene) {
  std::vector<Blow> blows;
  for (const Deed& deed : story_.scenes[scene].deeds) {
    const auto nodes = NodesOf(deed.kind == Deed::Kind::kEvict ? deed.peer : deed.who);
    for (Node* node : nodes) {
      if (deed.kind != Deed::Kind::kCut) {
        blows.push_back({node, [this, &deed, scene] {
                           progress_[scene].fired = true;
                           Do(deed, {});
                         }});
        continue;
      }
      Node* peer = NodesOf(deed.peer).at(0);
      for (auto [self, other] : {std::pair{node, peer}, std::pair{peer, node}}) {
        blows.push_back({self, [this, self = self, other = other, scene] {
                           progress_[scene].fired = true;
                           if (self->alive) CutHere(*self, *other);
                         }});
      }
    }
  }
  return blows;
}

// Both ways the connection is lost, until the way is mended. One way words vanish, and nobody is
// told: the coordinator hears silence, and a member that hears nothing for a timeout gives its
// connection up, as the runtime does.
void Director::CutOff(const Deed& deed) {
  const bool from = deed.peer == kCoordinatorName;
  for (Node* node : NodesOf(from ? deed.who : deed.peer)) {
    if (world_.trace_) world_.Trace("cut    " + ToString(node->card.id) + " - coordinator");
    world_.Strike(*node);
    if (from || !deed.one_way) blocked_.insert({node, nullptr});
    if (!from || !deed.one_way) blocked_.insert({nullptr, node});
    if (node->connection == 0 || (deed.one_way && from)) continue;
    World& world = world_;
    const TimeNs later = deed.one_way ? kSilence : story_.notice;
    world_.After(later, [&world, node, connection = node->connection] {
      if (node->connection != connection) return;
      node->connection = 0;
      world.FeedCoordinator(connection, membership::Disconnected{connection, "reset"});
      world.Feed(*node, engine::CoordinatorDown{});
      world.Attach(*node);
    });
  }
}

void Director::Part(const Deed& deed) {
  for (const std::string& here : deed.side) {
    for (const std::string& there : deed.others) {
      if (here == kCoordinatorName || there == kCoordinatorName) {
        Deed cut;
        cut.who = here, cut.peer = there;
        CutOff(cut);
        continue;
      }
      for (Node* a : NodesOf(here)) {
        for (Node* b : NodesOf(there)) {
          Cut(*a, *b, /*one_way=*/false);
          if (story_.weather.hosted) world_.Part(*a, *b);
        }
      }
    }
  }
}

// What is sent meanwhile comes later; nobody is struck: it may not be evicted for this.
void Director::Flap(Node& a, Node& b, TimeNs duration) {
  if (world_.trace_) world_.Trace("flap   " + ToString(a.card.id) + " - " + ToString(b.card.id));
  const TimeNs back = world_.now_ + duration;
  for (auto [self, peer] : {std::pair{&a, &b}, std::pair{&b, &a}}) {
    World::Wire& wire = world_.WireOf(self->index, peer->index);
    wire.free = std::max(wire.free, back);
    wire.word_free = std::max(wire.word_free, back);
    world_.Feed(*self, engine::LinkIsDown{peer->card.id, Code::kLink, "reset"});
    world_.At(back, [this, self = self, peer = peer] {
      const bool holds = !self->revoked.contains(peer->card.id) && self->Holds(*peer);
      if (peer->alive && holds) world_.Feed(*self, engine::LinkIsUp{peer->card.id});
    });
  }
}

void Director::Hiccup(Node& node, TimeNs duration) {
  if (node.connection == 0) return;
  if (world_.trace_) world_.Trace("hiccup " + ToString(node.card.id));
  world_.Strike(node);
  const TimeNs sent = world_.WireOf(node.connection + World::kConnectionBase, 0).free + 1;
  world_.LoseCoordinator(node, std::max(world_.now_ + kMillisecond, sent), kMillisecond / 10,
                         duration);
}

// As the process dies: what it has sent arrives, and nothing else.
void Director::Restart(TimeNs duration) {
  World& world = world_;
  if (!world.fixed_.machine) return;
  if (world.trace_) world.Trace("restart of the coordinator");
  bool anybody = false;
  for (auto& held : world.nodes_) {
    Node* node = held.get();
    const engine::Phase phase = node->engine->phase();
    const bool in = phase == engine::Phase::kMember || phase == engine::Phase::kLeaving;
    anybody = anybody || (in && node->alive);
    if (!in || !world.KnownToOthers(*node)) node->struck = true;  // the new one may not know it
    const uint64_t connection = node->connection;
    if (connection == 0 || world.weather_.relays > 0) continue;
    const TimeNs heard = world.WireOf(0, connection + World::kConnectionBase).free + 1;
    const TimeNs down = std::max(world.now_ + story_.notice, heard);
    world.At(down, [&world, node, connection] {
      if (node->connection != connection) return;
      node->connection = 0;
      world.Feed(*node, engine::CoordinatorDown{});
    });
    world.At(std::max(world.now_ + duration, down) + kMillisecond, [&world, node] {
      if (node->alive && !node->over) world.Attach(*node);
    });
  }
  if (world.weather_.relays > 0) world.BreakLines(nullptr);
  world.fixed_.machine.reset();
  world.After(duration, [&world] { world.StartCoordinator(); });
  // Nobody is there to tell the new one of the job, so it begins another.
  if (world.begun_ && !anybody) world.ended_ = true;
}

void Director::Slow(const Deed& deed) {
  const auto ends = [this](const std::string& name) {
    std::vector<const void*> out;
    for (const Node* node : NodesOf(name)) out.push_back(node);
    if (name == kCoordinatorName) out.push_back(nullptr);
    return out;
  };
  for (const void* from : ends(deed.who)) {
    for (const void* to : ends(deed.peer)) slow_[{from, to}] = deed.time;
  }
}

// The same words once more, on the same connection.
void Director::Repeat(const Deed& deed, const Happening& happening) {
  for (auto& node : world_.nodes_) {
    if (node.get() != happening.peer) continue;
    const uint64_t connection = node->connection;
    World& world = world_;
    Node* self = node.get();
    world_.AtNode(*node, world_.now_ + deed.time,
                  [&world, self, connection, order = happening.order] {
                    if (self->connection == connection)
                      world.Feed(*self, engine::FromCoordinator{*order});
                  });
  }
}

}  // namespace ftar::sim
