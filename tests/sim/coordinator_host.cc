// The coordinator's end of the simulated control connections.
#include "node.h"
#include "wire/codec.h"
#include "world.h"

namespace ftar::sim {

using membership::CoordinatorMachine;

void World::StartCoordinator() {
  coordinator_ = std::make_unique<CoordinatorMachine>();
  coordinator_->replicas = weather_.replicas; coordinator_->shards = weather_.shards;
  ++coordinator_life_;
}

void World::FeedCoordinator(const membership::CoordinatorMachine::Event& event) {
  if (!coordinator_) return;
  coordinator_->Step(now_, event);
  DrainCoordinator();
}

void World::DrainCoordinator() {
  auto ready = coordinator_->TakeReady();
  for (auto& [connection, message] : ready.messages) {
    Node& node = *nodes_[connection - 1];
    Trace(std::string("to ") + ToString(node.card.id) + " " + wire::MessageName(message));
    At(WireTime(0, connection), [this, &node, message = message] { if (node.alive) Feed(node, engine::FromCoordinator{message}); });
  }
}

void World::Attach(Node& node) {
  node.connection = node.index;
  Feed(node, engine::CoordinatorUp{});
}

void World::ToCoordinator(Node& node, wire::Message message) {
  const uint64_t c = node.index;
  At(WireTime(node.index, 0), [this, c, message = std::move(message)] {
    if (auto* hello = std::get_if<wire::Hello>(&message)) FeedCoordinator(CoordinatorMachine::Connected{c, *hello});
    else FeedCoordinator(CoordinatorMachine::Received{c, message});
  });
}

}  // namespace ftar::sim
