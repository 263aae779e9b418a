// Relays between members and the coordinator, in weather that has them: what src/coordinator's
// relay does on real sockets. Each unit of a replica has a relay of its own; one more stands by for
// those whose relay is lost. Of two levels some relays of a replica stand behind one, and another
// stands by for them; one more upper one stands by for all.
#include "relay_host.h"

#include <algorithm>
#include <utility>

#include "node.h"
#include "world.h"

namespace ftar::sim {

namespace {
constexpr std::pair kSpare{-1, -1}, kSpareTop{-2, -2};
constexpr int kTops = 1000, kSpares = 2000;  // where their units' numbers begin
}  // namespace

// The one whose place that is, or else the one that stands by.
World::RelayHost& World::Standing(std::pair<int, int> own, std::pair<int, int> spare) {
  if (relays_[own].life == 0) StartRelay(relays_[own]);
  if (relays_[own].lines && now_ >= relays_[own].still_until) return relays_[own];
  if (!relays_[spare].lines) StartRelay(relays_[spare]);
  return relays_[spare];
}

World::RelayHost& World::RelayFor(const Node& node) {
  const int replica = node.card.replica, block = node.card.shard / weather_.relays;
  if (weather_.relay_tops == 0) return Standing({replica, block}, kSpare);
  const int top = block / weather_.relay_tops;
  const std::pair spare{replica, kSpares + top};
  relays_[{replica, block}].above = relays_[spare].above = {replica, kTops + top};
  return Standing({replica, block}, spare);
}

// None: the coordinator.
World::RelayHost* World::UpperOf(const RelayHost& relay) {
  if (!relay.above) return nullptr;
  relays_[*relay.above].top = relays_[kSpareTop].top = true;
  return &Standing(*relay.above, kSpareTop);
}

void World::StartRelay(RelayHost& relay) {
  membership::RelayConfig config;
  config.members = relay.top ? weather_.relay_tops : weather_.relays;
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

// A member, or those behind a relay.
MemberId World::SpeakerOf(uint64_t conn) {
  const auto line = line_ends_.find(conn);
  return line == line_ends_.end() ? NodeOf(conn)->card.id : line->second.unit;
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
  if (now_ < relay->still_until) {
    At(relay->still_until, [this, waits = std::make_shared<const membership::CoordinatorEvent>(
                                      event)] { IsForRelay(*waits); });
    return true;
  }
  if (const auto* connected = std::get_if<membership::Connected>(&event))
    relay->behind.Hears(SpeakerOf(conn), connected->hello);
  if (const auto* received = std::get_if<membership::Received>(&event))
    relay->behind.Hears(SpeakerOf(conn), received->message);
  FeedRelay(*relay, *own);
  return true;
}

void World::FeedRelay(RelayHost& relay, const membership::RelayLinesEvent& event) {
  if (!relay.lines) return;
  if (now_ < relay.still_until) {
    const auto waits = std::make_shared<const membership::RelayLinesEvent>(event);
    return At(relay.still_until, [this, &relay, life = relay.life, waits] {
      if (life == relay.life) FeedRelay(relay, *waits);
    });
  }
  relay.lines->Step(now_, event);
  membership::RelayLinesReady ready = relay.lines->TakeReady();
  for (const membership::Note& note : ready.notes) {
    if (trace_) Trace("relay: " + note.text);
    if (note.level == LogLevel::kError) Fail("relay: " + note.text);
  }
  for (const auto& [line, unit, timeout_ns] : ready.open) {
    relay.wanted.insert(line);
    const LineEnd end{&relay, line, relay.life, unit};
    After(Delay(0, 0), [this, end] { OpenLine(end); });
  }
  for (auto& [line, message] : ready.up) {
    FailIf(relay.behind.Says(line, message));
    if (const auto conn = relay.up.find(line); conn != relay.up.end())
      CarryUp(conn->second, std::move(message));
  }
  for (membership::Outgoing& outgoing : ready.down) {
    const auto message = std::make_shared<const wire::Message>(std::move(outgoing.message));
    for (const uint64_t conn : outgoing.to) {
      if (CarriedToRelay(conn, message)) continue;
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

void World::OpenLine(const LineEnd& end) {
  RelayHost& relay = *end.relay;
  const bool wanted = end.life == relay.life && relay.wanted.contains(end.line);
  if (!wanted || relay.up.contains(end.line)) return;
  if (now_ < relay.still_until) return At(relay.still_until, [this, end] { OpenLine(end); });
  RelayHost* const above = UpperOf(relay);
  if (!above && !fixed_.machine) {
    After(5 * kMillisecond, [this, end] { OpenLine(end); });
    return;
  }
  const uint64_t conn = ++next_connection_;
  relay.up[end.line] = conn;
  line_ends_[conn] = end;
  if (above) below_relays_[conn] = {above, above->life};
  FeedRelay(relay, membership::LineUp{end.line});
}

// All members behind it, also those behind relays that stand behind this one.
void World::NameUnit(const wire::Hello& hello) {
  std::vector<MemberId> members;
  for (const MemberId name : NamesIn(hello.roster)) {
    const auto lower = units_.find(name);
    if (lower == units_.end()) {
      members.push_back(name);
    } else {
      members.insert(members.end(), lower->second.begin(), lower->second.end());
    }
  }
  units_[hello.card.id] = std::move(members);
}

void World::CarryUp(uint64_t conn, wire::Message message) {
  if (const auto* hello = std::get_if<wire::Hello>(&message)) NameUnit(*hello);
  if (trace_ && !std::holds_alternative<wire::Heartbeat>(message))
    Trace("relay " + std::to_string(conn) + " -> coordinator " + wire::MessageName(message));
  // The codec is part of every run.
  At(WireTime(conn + kConnectionBase, 0),
     [this, conn, life = LifeAbove(conn), bytes = wire::Encode(message)] {
       if (life != LifeAbove(conn)) return;
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
        [this, end] { OpenLine(end); });
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

// All lines to this relay break, or to the coordinator if it is none: their upper end is gone, or
// nobody reaches it for a moment.
void World::BreakLines(const RelayHost* above) {
  for (auto& [place, relay] : relays_) {
    for (const auto& [line, conn] : relay.up) {
      if (RelayAbove(conn) != above) continue;
      const LineEnd end = line_ends_.at(conn);
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
  BreakLines(&relay);
  // Who was on the way to the coordinator by this relay is known to nobody there.
  const bool unknown = !fixed_.machine || now_ < recovered_by_ || now_ < relay_lost_at_;
  for (auto& node : nodes_) {
    if (!node->alive || node->connection == 0) continue;
    RelayHost* const own = RelayAbove(node->connection);
    const bool below = own != &relay;
    const auto leads_here = [&](const auto& line) { return RelayAbove(line.second) == &relay; };
    if (below && (own == nullptr || !std::ranges::any_of(own->up, leads_here))) continue;
    // So is a newcomer that is being taken in: it may be turned away for it.
    const auto view = node->engine->view();
    const bool entering =
        !view || view->planned || node->engine->phase() == engine::Phase::kJoining;
    if (unknown || entering) Strike(*node);
    if (below) continue;
    node->connection = 0;
    Node* member = node.get();
    After(later_.Between(100'000, kMillisecond),
          [this, member] { Feed(*member, engine::CoordinatorDown{}); });
    After(later_.Between(kMillisecond, 4 * kMillisecond), [this, member] {
      if (member->alive && !member->over) Attach(*member);
    });
  }
  relay_lost_at_ = now_;
  StrikeFlapping();
  After(later_.Between(20, 60) * kMillisecond, [this, &relay] {
    if (!relay.lines) StartRelay(relay);
  });
  Unquiet(now_ + 60 * kMillisecond);
}

// ---- a relay stands still ----

// Its members look for another one, and are there before it is missed (rule Q7). What was said to
// it lies there until it goes on.
void World::StopRelay() {
  std::vector<RelayHost*> standing;
  for (auto& [place, relay] : relays_) {
    if (relay.lines && !relay.top) standing.push_back(&relay);
  }
  if (standing.empty() || LacksRelay()) return;
  RelayHost& relay = *standing[later_.Below(standing.size())];
  const TimeNs length = later_.Between(kTimeout / 10, kTimeout * 3 / 2);
  if (trace_) Trace("a relay stands still for " + std::to_string(length / kMillisecond) + " ms");
  ++faults_;
  relay.still_until = relay_lost_at_ = now_ + length;
  const bool unknown = !fixed_.machine || now_ < recovered_by_;
  for (auto& node : nodes_) {
    if (!node->alive || RelayAbove(node->connection) != &relay) continue;
    // As in CrashRelay.
    const auto view = node->engine->view();
    const bool in = node->engine->phase() == engine::Phase::kMember && view && !view->planned;
    if (unknown || !in) Strike(*node);
    // First it dials the same one.
    const TimeNs after = kTimeout * 2 / 5 + kTimeout / 8;
    AtNode(*node, now_ + after + later_.Between(0, kTimeout / 10),
           [this, member = node.get(), conn = node->connection] { LeaveRelay(*member, conn); });
  }
  Unquiet(relay_lost_at_ + kTimeout);
}

void World::LeaveRelay(Node& node, uint64_t conn) {
  RelayHost* const relay = RelayAbove(conn);
  const bool heard = now_ >= relay->still_until;
  if (node.over || node.connection != conn || heard || &RelayFor(node) == relay) return;
  node.connection = 0;
  Feed(node, engine::CoordinatorDown{});
  Connected(node, fixed_);
  const bool heeded = later_.Chance(0.5);
  if (heeded) FeedCoordinator(conn, membership::Received{conn, wire::Redirect{}});
  FeedCoordinator(conn, membership::Disconnected{conn, "reset"});
}

}  // namespace ftar::sim
