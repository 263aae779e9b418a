// The coordinator's end of the simulated control connections: what src/coordinator's server does on
// real sockets.
#include "node.h"
#include "wire/codec.h"
#include "world.h"

namespace ftar::sim {

void World::StartCoordinator() {
  membership::CoordinatorConfig config;
  config.incarnation = ++incarnation_;
  config.settle_ns = 20 * kMillisecond;
  coordinator_ = std::make_unique<membership::CoordinatorMachine>(config);
  coordinator_wake_ = kNever;
  ++coordinator_life_;
  FeedCoordinator(membership::Timer{});
}

void World::FeedCoordinator(const membership::CoordinatorEvent& event) {
  if (!coordinator_) return;
  coordinator_->Step(now_, event);
  DrainCoordinator();
}

void World::DrainCoordinator() {
  membership::CoordinatorReady ready = coordinator_->TakeReady();
  ended_ = ended_ || ready.ended;
  for (const membership::Note& note : ready.notes) Trace("coordinator: " + note.text);
  for (const membership::Outgoing& outgoing : ready.messages) {
    for (const membership::ConnId conn : outgoing.to) {
      Node* node = NodeOf(conn);
      if (!node) continue;
      if (trace_ && !std::holds_alternative<wire::CoordinatorBeat>(outgoing.message)) {
        Trace("coordinator -> " + ToString(node->card.id) + " " +
              wire::MessageName(outgoing.message));
      }
      At(WireTime(0, conn + 1000), [this, node, conn, message = outgoing.message] {
        node->Do([this, node, conn, message] {
          if (node->connection == conn) Feed(*node, engine::FromCoordinator{message});
        });
      });
    }
  }
  for (const membership::ConnId conn : ready.close) {
    Node* node = NodeOf(conn);
    if (!node) continue;
    At(WireTime(0, conn + 1000), [this, node, conn] {
      node->Do([this, node, conn] {
        if (node->connection != conn) return;
        node->connection = 0;
        Feed(*node, engine::CoordinatorDown{});
        After(5 * kMillisecond, [this, node] {
          if (node->alive && !node->over && node->connection == 0) Attach(*node);
        });
      });
    });
    FeedCoordinator(membership::Disconnected{conn, ""});
    if (!coordinator_) return;
  }
  if (ready.next_deadline < coordinator_wake_) {
    coordinator_wake_ = std::max(ready.next_deadline, now_ + 1);
    const uint64_t life = coordinator_life_;
    At(coordinator_wake_, [this, life] {
      if (life != coordinator_life_) return;
      coordinator_wake_ = kNever;
      FeedCoordinator(membership::Timer{});
    });
  }
}

World::Node* World::NodeOf(uint64_t conn) {
  const auto found = connections_.find(conn);
  return found == connections_.end() ? nullptr : found->second;
}

void World::Attach(Node& node) {
  if (!node.alive || !coordinator_) {  // the runtime tries again until it is there
    if (node.alive) After(5 * kMillisecond, [this, &node] { Attach(node); });
    return;
  }
  node.connection = ++next_connection_;
  connections_[node.connection] = &node;
  Feed(node, engine::CoordinatorUp{});
}

void World::ToCoordinator(Node& node, wire::Message message) {
  const uint64_t conn = node.connection;
  if (conn == 0) return;
  if (trace_ && !std::holds_alternative<wire::Heartbeat>(message)) {
    Trace(ToString(node.card.id) + " -> coordinator " + wire::MessageName(message));
  }
  const uint64_t life = coordinator_life_;
  At(WireTime(conn + 1000, 0), [this, conn, life, message = std::move(message)] {
    if (life != coordinator_life_) return;
    if (const auto* hello = std::get_if<wire::Hello>(&message)) {
      FeedCoordinator(membership::Connected{conn, *hello});
    } else {
      FeedCoordinator(membership::Received{conn, message});
    }
  });
}

}  // namespace ftar::sim
