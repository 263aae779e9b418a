// The coordinator's end of the simulated control connections: what src/coordinator's server does on
// real sockets.
#include <algorithm>
#include <memory>
#include <utility>

#include "node.h"
#include "relay_host.h"
#include "story/director.h"
#include "wire/codec.h"
#include "world.h"

namespace ftar::sim {

void World::StartCoordinator() {
  membership::CoordinatorConfig config;
  config.incarnation = ++incarnation_;
  config.settle_ns = 20 * kMillisecond;
  membership::CoordinatorRecord record;
  if (!disk_.empty()) {
    Expected<membership::CoordinatorRecord> read = membership::DecodeRecord(disk_);
    if (!read.ok()) return Fail("record: " + read.status().ToString());
    record = std::move(*read);
  }
  coordinator_ = std::make_unique<membership::CoordinatorMachine>(config, std::move(record));
  coordinator_wake_ = kNever;
  ++coordinator_life_;
  FeedCoordinator(membership::Timer{});
}

void World::FeedCoordinator(const membership::CoordinatorEvent& event) {
  if (weather_.relays > 0 && IsForRelay(event)) return;
  if (!coordinator_) return;
  coordinator_->Step(now_, event);
  DrainCoordinator();
}

void World::DrainCoordinator() {
  membership::CoordinatorReady ready = coordinator_->TakeReady();
  if (ready.record && weather_.record) disk_ = membership::EncodeRecord(*ready.record);
  if (ready.ended && !ended_) CheckEnd();
  ended_ = ended_ || ready.ended;
  look_again_ = look_again_ || ready.ended;
  for (const membership::Note& note : ready.notes) {
    if (trace_) Trace("coordinator: " + note.text);
    if (director_) director_->SawNote(note.text);
    ExcuseLinks(note.text);
  }
  for (membership::Outgoing& outgoing : ready.messages) {
    const auto message = std::make_shared<const wire::Message>(std::move(outgoing.message));
    for (const membership::ConnId conn : outgoing.to) {
      if (weather_.relays > 0 && CarriedToRelay(conn, message)) continue;
      if (Node* node = NodeOf(conn)) CarryOrder(*node, conn, message);
      if (!coordinator_) return;  // a story's: it dies in the middle of what it sends
    }
    if (ambushes_left_ > 0) Ambush(*message);
    if (stray_ && std::holds_alternative<wire::Install>(*message))
      After(later_.Between(0, 3 * weather_.delay_max_us * kMicrosecond), [this] { Abandon(); });
  }
  for (const membership::ConnId conn : ready.close) {
    CloseFromCoordinator(conn);
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

// A link to somebody who has died may be missed before the coordinator hears of the death; then it
// takes either end for lost.
void World::ExcuseLinks(const std::string& note) {
  if (!note.starts_with("lost [link]")) return;
  const auto names = [&note](const Node& node) {
    return note.find("(" + ToString(node.card.id) + ")") != std::string::npos;
  };
  const bool dead = std::any_of(nodes_.begin(), nodes_.end(),
                                [&](const auto& node) { return !node->alive && names(*node); });
  for (const auto& node : nodes_) {
    if (!dead || !names(*node)) continue;
    for (const auto& mate : nodes_)
      mate->struck = mate->struck || mate->card.replica == node->card.replica;
  }
}

void World::CarryOrder(Node& node, uint64_t conn, std::shared_ptr<const wire::Message> message) {
  if (trace_ && !std::holds_alternative<wire::CoordinatorBeat>(*message))
    Trace("coordinator -> " + ToString(node.card.id) + " " + wire::MessageName(*message));
  const auto hear = [this, &node, message] {
    if (const auto* prepare = std::get_if<wire::Prepare>(message.get()))
      node.conduct.HearsPrepare(*prepare);
    Feed(node, engine::FromCoordinator{*message});
    if (director_) director_->SawMessage(Moment::Verb::kHears, &node, nullptr, *message);
  };
  const auto arrive = [&node, conn, hear] {
    if (node.connection == conn) hear();
  };
  if (director_ && director_->Blocked(nullptr, &node)) return;
  AtNode(node, WireTime(0, conn + kConnectionBase), arrive);
  if (director_) director_->SawMessage(Moment::Verb::kSends, nullptr, &node, *message, message);
  const bool repeatable = std::holds_alternative<wire::Prepare>(*message) ||
                          std::holds_alternative<wire::Install>(*message);
  if (weather_.echoes && repeatable && !calm_ && later_.Chance(0.25))
    AtNode(node, now_ + later_.Between(kMillisecond, 60 * kMillisecond), arrive);
}

void World::CloseFromCoordinator(uint64_t conn) {
  if (weather_.relays > 0 && ClosedToRelay(conn)) return;
  Node* node = NodeOf(conn);
  if (!node) return;
  AtNode(*node, WireTime(0, conn + kConnectionBase), [this, node, conn] {
    if (node->connection != conn) return;
    node->connection = 0;
    Feed(*node, engine::CoordinatorDown{});
    After(5 * kMillisecond, [this, node] {
      if (node->alive && !node->over && node->connection == 0) Attach(*node);
    });
  });
  FeedCoordinator(membership::Disconnected{conn, ""});
}

World::Node* World::NodeOf(uint64_t conn) {
  const auto found = connections_.find(conn);
  return found == connections_.end() ? nullptr : found->second;
}

void World::Attach(Node& node) {
  const bool cut =
      director_ && (director_->Blocked(&node, nullptr) || director_->Blocked(nullptr, &node));
  // The runtime tries again until it is there.
  const bool nobody = !coordinator_ && weather_.relays == 0;
  if (!node.alive || nobody || cut || now_ < node.away_until) {
    if (node.alive) After(5 * kMillisecond, [this, &node] { Attach(node); });
    return;
  }
  if (node.connection != 0) return;
  node.connection = ++next_connection_;
  connections_[node.connection] = &node;
  if (weather_.relays > 0) {
    RelayHost& relay = RelayFor(node);
    below_relays_[node.connection] = {&relay, relay.life};
  }
  Feed(node, engine::CoordinatorUp{});
}

void World::ToCoordinator(Node& node, wire::Message message) {
  const uint64_t conn = node.connection;
  if (conn == 0) return;
  if (trace_ && !std::holds_alternative<wire::Heartbeat>(message)) {
    Trace(ToString(node.card.id) + " -> coordinator " + wire::MessageName(message));
  }
  const uint64_t life = LifeAbove(conn);
  if (director_ && director_->Blocked(&node, nullptr)) return;
  auto held = std::make_shared<const wire::Message>(std::move(message));
  At(WireTime(conn + kConnectionBase, 0), [this, conn, life, held] {
    if (life != LifeAbove(conn)) return;
    if (const auto* hello = std::get_if<wire::Hello>(held.get())) {
      FeedCoordinator(membership::Connected{conn, *hello});
    } else {
      FeedCoordinator(membership::Received{conn, *held});
    }
    if (director_ && coordinator_)
      director_->SawMessage(Moment::Verb::kHears, nullptr, NodeOf(conn), *held);
  });
  if (director_) director_->SawMessage(Moment::Verb::kSends, &node, nullptr, *held);
}

}  // namespace ftar::sim
