// Relays between members and the coordinator, in weather that has them: what src/coordinator's
// relay does on real sockets. Each unit of a replica has a relay of its own; one more stands by for
// those whose relay is lost.
#include "relay_host.h"

#include <algorithm>
#include <utility>

#include "node.h"
#include "world.h"

namespace ftar::sim {

World::RelayHost& World::RelayFor(const Node& node) {
  const int block = node.card.shard / weather_.relays;
  RelayHost& own = relays_[{node.card.replica, block}];
  if (own.life == 0) StartRelay(own);
  if (own.lines) return own;
  RelayHost& spare = relays_[{-1, -1}];
  if (!spare.lines) StartRelay(spare);
  return spare;
}

void World::StartRelay(RelayHost& relay) {
  membership::RelayConfig config;
  config.members = weather_.relays;
  relay.lines = std::make_unique<membership::RelayLines>(config);
  relay.behind = {};
  ++relay.life;
  relay.wake = kNever;
}

// The relay at the upper end of this connection; none: the coordinator.
World::RelayHost* World::RelayAbove(uint64_t conn) {
  const auto found = below_relays_.find(conn);
  return found == below_relays_.end() ? nullptr : found->second.first;
}

uint64_t World::LifeAbove(uint64_t conn) {
  const RelayHost* relay = RelayAbove(conn);
  return relay ? relay->life : fixed_.life;
}

// True if the event is for a relay. What was meant for one that is gone goes nowhere.
bool World::IsForRelay(const membership::CoordinatorEvent& event) {
  uint64_t conn = 0;
  std::optional<membership::RelayLinesEvent> own;
  if (const auto* connected = std::get_if<membership::Connected>(&event)) {
    conn = connected->conn;
    own = *connected;
  } else if (const auto* disconnected = std::get_if<membership::Disconnected>(&event)) {
    conn = disconnected->conn;
    own = *disconnected;
  } else if (const auto* received = std::get_if<membership::Received>(&event)) {
    conn = received->conn;
    own = *received;
  }
  const auto found = below_relays_.find(conn);
  if (!own || found == below_relays_.end()) return false;
  const auto [relay, life] = found->second;
  if (relay->life != life) return true;
  if (const auto* connected = std::get_if<membership::Connected>(&event))
    relay->behind.Hears(NodeOf(conn)->card.id, connected->hello);
  if (const auto* received = std::get_if<membership::Received>(&event))
    relay->behind.Hears(NodeOf(conn)->card.id, received->message);
  FeedRelay(*relay, *own);
  return true;
}

void World::FeedRelay(RelayHost& relay, const membership::RelayLinesEvent& event) {
  if (!relay.lines) return;
  relay.lines->Step(now_, event);
  membership::RelayLinesReady ready = relay.lines->TakeReady();
  for (const membership::Note& note : ready.notes) {
    if (trace_) Trace("relay: " + note.text);
    if (note.level == LogLevel::kError) Fail("relay: " + note.text);
  }
  for (const auto& [line, unit, timeout_ns] : ready.open) {
    relay.wanted.insert(line);
    After(Delay(0, 0), [this, &relay, line, life = relay.life] { OpenLine(relay, line, life); });
  }
  for (auto& [line, message] : ready.up) {
    FailIf(relay.behind.Says(line, message));
    if (const auto conn = relay.up.find(line); conn != relay.up.end())
      CarryUp(conn->second, std::move(message));
  }
  for (membership::Outgoing& outgoing : ready.down) {
    const auto message = std::make_shared<const wire::Message>(std::move(outgoing.message));
    for (const uint64_t conn : outgoing.to) {
      if (Node* node = NodeOf(conn)) CarryOrder(*node, conn, message);
    }
  }
  for (const uint64_t conn : ready.close) CloseFromCoordinator(conn);
  for (const membership::LineId line : ready.hang_up) HangUp(relay, line);
  CheckRests(&relay.rest, ready.next_deadline, "a relay");
  if (!relay.lines || ready.next_deadline >= relay.wake) return;
  relay.wake = std::max(ready.next_deadline, now_ + 1);
  At(relay.wake, [this, &relay, life = relay.life] {
    if (life != relay.life) return;
    relay.wake = kNever;
    relay.rest.just_woken = true;
    FeedRelay(relay, membership::Timer{});
    relay.rest.just_woken = false;
  });
}

// ---- lines up ----

void World::OpenLine(RelayHost& relay, membership::LineId line, uint64_t life) {
  if (life != relay.life || !relay.wanted.contains(line) || relay.up.contains(line)) return;
  if (!fixed_.machine) {
    After(5 * kMillisecond, [this, &relay, line, life] { OpenLine(relay, line, life); });
    return;
  }
  const uint64_t conn = ++next_connection_;
  relay.up[line] = conn;
  line_ends_[conn] = {&relay, line, life};
  FeedRelay(relay, membership::LineUp{line});
}

void World::CarryUp(uint64_t conn, wire::Message message) {
  if (trace_ && !std::holds_alternative<wire::Heartbeat>(message))
    Trace("relay " + std::to_string(conn) + " -> coordinator " + wire::MessageName(message));
  // The codec is part of every run.
  At(WireTime(conn + kConnectionBase, 0),
     [this, conn, life = fixed_.life, bytes = wire::Encode(message)] {
       if (life != fixed_.life) return;
       Expected<wire::Message> decoded = wire::Decode(bytes);
       if (!decoded.ok()) return Fail("codec: " + decoded.status().ToString());
       if (const auto* hello = std::get_if<wire::Hello>(&*decoded))
         return FeedCoordinator(conn, membership::Connected{conn, *hello});
       FeedCoordinator(conn, membership::Received{conn, std::move(*decoded)});
     });
}

// True if the other end of this connection is a relay.
bool World::CarriedToRelay(uint64_t conn, const std::shared_ptr<const wire::Message>& message) {
  const auto found = line_ends_.find(conn);
  if (found == line_ends_.end()) return false;
  const LineEnd end = found->second;
  if (trace_ && !std::holds_alternative<wire::CoordinatorBeat>(*message))
    Trace("coordinator -> relay " + std::to_string(conn) + " " + wire::MessageName(*message));
  At(WireTime(0, conn + kConnectionBase), [this, end, conn, message] {
    const auto line = end.relay->up.find(end.line);
    if (end.life != end.relay->life || line == end.relay->up.end() || line->second != conn) return;
    if (const auto* roster = std::get_if<wire::Roster>(message.get()))
      end.relay->behind.Learns(*roster);
    FeedRelay(*end.relay, membership::FromLine{end.line, *message});
  });
  return true;
}

bool World::ClosedToRelay(uint64_t conn) {
  const auto found = line_ends_.find(conn);
  if (found == line_ends_.end()) return false;
  const LineEnd end = found->second;
  At(WireTime(0, conn + kConnectionBase), [this, end, conn] { LoseLine(end, conn); });
  FeedCoordinator(conn, membership::Disconnected{conn, ""});
  return true;
}

// The relay sees its line end, and makes another one.
void World::LoseLine(const LineEnd& end, uint64_t conn) {
  const auto line = end.relay->up.find(end.line);
  if (end.life != end.relay->life || line == end.relay->up.end() || line->second != conn) return;
  end.relay->up.erase(line);
  FeedRelay(*end.relay, membership::LineDown{end.line});
  After(later_.Between(kMillisecond, 5 * kMillisecond),
        [this, end] { OpenLine(*end.relay, end.line, end.life); });
}

void World::HangUp(RelayHost& relay, membership::LineId line) {
  relay.wanted.erase(line);
  const auto found = relay.up.find(line);
  if (found == relay.up.end()) return;
  const uint64_t conn = found->second;
  relay.up.erase(found);
  At(WireTime(conn + kConnectionBase, 0), [this, conn] {
    FeedCoordinator(conn, membership::Disconnected{conn, ""});
  });
}

// All lines break: the coordinator's end is gone, or nobody reaches it for a moment.
void World::BreakLines() {
  for (auto& [place, relay] : relays_) {
    for (const auto& [line, conn] : relay.up) {
      const LineEnd end{&relay, line, relay.life};
      After(rng_.Between(100'000, 2 * kMillisecond),
            [this, end, conn = conn] { LoseLine(end, conn); });
    }
  }
}

// ---- a relay is lost ----

// Its members live, come back by another one, and nobody is evicted for it (rule Q7).
void World::LoseRelay() {
  std::vector<RelayHost*> standing;
  for (auto& [place, relay] : relays_) {
    if (relay.lines) standing.push_back(&relay);
  }
  if (!standing.empty()) CrashRelay(*standing[later_.Below(standing.size())]);
}

void World::CrashRelay(RelayHost& relay) {
  if (trace_) Trace("crash of a relay");
  ++faults_;
  for (const auto& [line, conn] : relay.up) {
    const TimeNs sent = WireOf(conn + kConnectionBase, 0).free + 1;
    At(std::max(now_ + later_.Between(100'000, kMillisecond), sent), [this, conn = conn] {
      FeedCoordinator(conn, membership::Disconnected{conn, "reset"});
    });
  }
  relay.up.clear();
  relay.wanted.clear();
  relay.lines.reset();
  ++relay.life;
  // Who was on the way to the coordinator by this relay is known to nobody there.
  const bool unknown = !fixed_.machine || now_ < recovered_by_;
  for (auto& node : nodes_) {
    if (!node->alive || node->connection == 0 || RelayAbove(node->connection) != &relay) continue;
    node->connection = 0;
    // So is a newcomer that is being taken in: it may be turned away for it.
    const auto view = node->engine->view();
    const bool entering =
        !view || view->planned || node->engine->phase() == engine::Phase::kJoining;
    if (unknown || entering) Strike(*node);
    Node* member = node.get();
    After(later_.Between(100'000, kMillisecond),
          [this, member] { Feed(*member, engine::CoordinatorDown{}); });
    After(later_.Between(kMillisecond, 4 * kMillisecond), [this, member] {
      if (member->alive && !member->over) Attach(*member);
    });
  }
  relay_lost_at_ = now_;
  After(later_.Between(20, 60) * kMillisecond, [this, &relay] {
    if (!relay.lines) StartRelay(relay);
  });
  Unquiet(now_ + 60 * kMillisecond);
}

}  // namespace ftar::sim
