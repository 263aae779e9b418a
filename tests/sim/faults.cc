// The weather, and the faults it brings. Each fault strikes at a drawn time; members and links are
// drawn when it strikes.
#include <algorithm>

#include "node.h"
#include "world.h"

namespace ftar::sim {

namespace {
constexpr TimeNs kFaultSpan = 120 * kMillisecond;
}

Weather DrawWeather(uint64_t seed) {
  Random dice(seed * 2654435761u + 17);
  Weather weather;
  weather.replicas = static_cast<int>(dice.Between(1, 5));
  weather.shards = dice.Below(5) == 0 ? 2 : 1;
  weather.ops = static_cast<int>(dice.Between(3, 12));
  weather.ops_per_step = dice.Below(2) == 0 ? 0 : static_cast<int>(dice.Between(1, 6));
  weather.window = static_cast<Seq>(dice.Between(1, 6));
  weather.delay_max = dice.Below(3) == 0 ? 5 * kMillisecond : dice.Between(20, 1000) * kMicrosecond;
  weather.work_delay_max = dice.Below(2) == 0 ? 0 : dice.Between(1, 500) * kMicrosecond;
  const auto some = [&dice](int most) {
    return dice.Below(2) == 0 ? 0 : static_cast<int>(dice.Between(1, most));
  };
  weather.kills = some(3);
  weather.stops = some(2);
  weather.joins = some(3);
  weather.leaves = some(2);
  weather.cuts = some(2);
  weather.coordinator_restarts = dice.Below(4) == 0 ? 1 : 0;
  weather.in_place = dice.Below(2) == 0;
  weather.mismatch = dice.Below(8) == 0;
  weather.weights = dice.Below(3) == 0;
  weather.aborts = dice.Below(6) == 0 ? 1 : 0;
  weather.acks_pass = dice.Below(2) == 0;
  return weather;
}

std::string Describe(const Weather& w) {
  return std::to_string(w.replicas) + "x" + std::to_string(w.shards) + " members, window " +
         std::to_string(w.window) + ", " + std::to_string(w.ops_per_step) + " ops a step, delay " +
         std::to_string(w.delay_max / 1000) + " us, kills " + std::to_string(w.kills) + ", stops " +
         std::to_string(w.stops) + ", joins " + std::to_string(w.joins) + ", leaves " +
         std::to_string(w.leaves) + ", cuts " + std::to_string(w.cuts) + ", coordinator restarts " +
         std::to_string(w.coordinator_restarts) + (w.in_place ? ", in place" : "") +
         (w.mismatch ? ", a mismatch" : "") + (w.weights ? ", weights" : "") +
         (w.aborts > 0 ? ", an abort" : "") + (w.acks_pass ? ", acks pass data" : "");
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

void World::Kill(Node& node) {
  Trace("kill   " + ToString(node.card.id));
  ++faults_;
  node.alive = false;
  const MemberId dead = node.card.id;
  const uint64_t connection = node.connection;
  node.connection = 0;
  if (connection != 0) {
    // A connection ends behind what was sent on it, a Hello above all.
    const TimeNs closed = now_ + rng_.Between(100'000, 20 * kMillisecond);
    At(std::max(closed, wires_[{connection + 1000, 0}].free + 1), [this, connection] {
      FeedCoordinator(membership::Disconnected{connection, ""});
    });
  }
  for (auto& other : nodes_) {
    if (!other->alive || !other->links.contains(dead)) continue;
    Node* watcher = other.get();
    const bool proof = rng_.Chance(0.5);
    After(rng_.Between(50'000, 10 * kMillisecond), [this, watcher, dead, proof] {
      if (watcher->revoked.contains(dead)) return;
      watcher->links.erase(dead);
      if (proof) {
        Feed(*watcher, engine::PeerExited{dead});
      } else {
        Feed(*watcher, engine::LinkIsDown{dead, Code::kLink, "connection closed"});
      }
    });
  }
}

void World::Stop(Node& node, TimeNs duration) {
  Trace("stop   " + ToString(node.card.id) + " for " + std::to_string(duration / 1'000'000) +
        " ms");
  ++faults_;
  node.stopped = true;
  After(duration, [this, &node] {
    Trace("cont   " + ToString(node.card.id));
    node.stopped = false;
    while (!node.backlog.empty() && node.alive && !node.stopped) {
      auto action = std::move(node.backlog.front());
      node.backlog.pop_front();
      action();
    }
  });
}

// Both sides lose the link for good; both live and reach the coordinator (rule Q7).
void World::CutLink(Node& a, Node& b) {
  Trace("cut    " + ToString(a.card.id) + " - " + ToString(b.card.id));
  ++faults_;
  cut_.insert({a.index, b.index});
  cut_.insert({b.index, a.index});
  for (auto [from, to] : {std::pair{&a, &b}, std::pair{&b, &a}}) {
    Node* self = from;
    const MemberId peer = to->card.id;
    After(rng_.Between(1, 5) * kMillisecond, [this, self, peer] {
      if (!self->revoked.contains(peer))
        Feed(*self, engine::LinkIsDown{peer, Code::kLink, "reset"});
    });
  }
}

void World::RestartCoordinator() {
  Trace("restart of the coordinator");
  ++faults_;
  for (auto& node : nodes_) {
    if (node->connection == 0) continue;
    node->connection = 0;
    Node* member = node.get();
    After(rng_.Between(100'000, 2 * kMillisecond),
          [this, member] { Feed(*member, engine::CoordinatorDown{}); });
    After(rng_.Between(5, 20) * kMillisecond, [this, member] {
      if (member->alive) Attach(*member);
    });
  }
  coordinator_.reset();
  After(rng_.Between(2, 10) * kMillisecond, [this] { StartCoordinator(); });
}

void World::ScheduleFaults() {
  const auto at_random = [this](int times, std::function<void()> strike) {
    for (int i = 0; i < times; ++i) After(rng_.Between(2 * kMillisecond, kFaultSpan), strike);
  };
  at_random(weather_.kills, [this] {
    if (Node* node = Victim(true)) Kill(*node);
  });
  at_random(weather_.stops, [this] {
    if (Node* node = Victim(true)) Stop(*node, rng_.Between(1, 250) * kMillisecond);
  });
  at_random(weather_.joins, [this] {
    std::set<int> live;
    for (auto& node : nodes_) {
      if (node->alive && !node->over) live.insert(node->card.replica);
    }
    int replica = 0;
    while (live.contains(replica)) ++replica;
    ++faults_;
    for (int shard = 0; shard < weather_.shards; ++shard) AddNode(replica % 8, shard);
  });
  at_random(weather_.leaves, [this] {
    Node* node = Victim(true);
    if (!node || node->engine->phase() != engine::Phase::kMember) return;
    ++faults_;
    for (auto& mate : nodes_) {  // a replica leaves as a whole
      if (!mate->alive || mate->over || mate->card.replica != node->card.replica) continue;
      Trace("leave  " + ToString(mate->card.id));
      mate->leaving = true;
      Feed(*mate, engine::RequestLeave{});
    }
  });
  at_random(weather_.cuts, [this] {
    Node* a = Victim(true);
    Node* b = Victim(true);
    if (a && b && a != b && a->card.shard == b->card.shard) CutLink(*a, *b);
  });
  at_random(weather_.coordinator_restarts, [this] { RestartCoordinator(); });
  if (weather_.aborts > 0) {
    After(rng_.Between(15, 40) * kMillisecond, [this] {
      Node* node = Victim(true);
      if (!node) return;
      Feed(*node, engine::AbortSelf{Code::kMemory, "out of memory"});
      Kill(*node);
    });
  }
  After(kFaultSpan + 350 * kMillisecond, [this] {
    calm_ = true;
    for (const auto& node : nodes_) goal_ = std::max(goal_, node->delivered_end);
    goal_ += weather_.ops;
    Trace("calm: everybody must reach " + std::to_string(goal_));
  });
}

}  // namespace ftar::sim
