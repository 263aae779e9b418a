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

std::string World::HostName(const Seat& seat) {
  return seat.host ? " at " + ToString(seat.host->card.id) : "";
}

void World::StartCoordinator() {
  if (!weather_.hosted) OpenSeat(fixed_);
}

void World::OpenSeat(Seat& seat) {
  membership::CoordinatorConfig config;
  config.incarnation = seat.host ? seat.host->succession->incarnation() : ++incarnation_;
  config.settle_ns = 20 * kMillisecond;
  config.hosted = seat.host != nullptr;
  if (config.hosted) {
    config.cluster_ns = 20 * kMillisecond;
    config.self = seat.host->card.id;
    config.witnessed = seat.host->succession->witnessed();
  }
  config.successor = config.hosted && (begun_ || seat.host->index != 1);
  membership::CoordinatorRecord record;
  if (!disk_.empty()) {
    Expected<membership::CoordinatorRecord> read = membership::DecodeRecord(disk_);
    if (!read.ok()) return Fail("record: " + read.status().ToString());
    record = std::move(*read);
  }
  seat.machine = std::make_unique<membership::CoordinatorMachine>(config, std::move(record));
  seat.wake = kNever;
  ++seat.life;
  FeedSeat(seat, membership::Timer{});
}

void World::FeedCoordinator(uint64_t conn, const membership::CoordinatorEvent& event) {
  if (weather_.relays > 0 && IsForRelay(event)) return;
  if (line_ends_.contains(conn)) return FeedSeat(fixed_, event);
  const auto found = connections_.find(conn);
  if (found == connections_.end()) return;
  const Connection& connection = found->second;
  if (!weather_.hosted || connection.life == connection.seat->life)
    FeedSeat(*connection.seat, event);
}

void World::FeedSeat(Seat& seat, const membership::CoordinatorEvent& event) {
  if (!seat.machine || (seat.host && !seat.host->alive)) return;
  if (seat.host && seat.host->stopped) {
    auto held = std::make_shared<const membership::CoordinatorEvent>(event);
    seat.host->backlog.emplace_back([this, &seat, life = seat.life, held] {
      if (life == seat.life) FeedSeat(seat, *held);
    });
    return;
  }
  seat.machine->Step(now_, event);
  DrainSeat(seat);
}

void World::DrainSeat(Seat& seat) {
  membership::CoordinatorReady ready = seat.machine->TakeReady();
  if (ready.record && weather_.record && !seat.host)
    disk_ = membership::EncodeRecord(*ready.record);
  if (ready.ended && !ended_) CheckEnd();
  ended_ = ended_ || ready.ended;
  look_again_ = look_again_ || ready.ended;
  for (const membership::Note& note : ready.notes) {
    if (trace_) Trace("coordinator" + HostName(seat) + ": " + note.text);
    if (director_) director_->SawNote(note.text);
    Excuse(note.text);
  }
  for (membership::Outgoing& outgoing : ready.messages) {
    const auto message = std::make_shared<const wire::Message>(std::move(outgoing.message));
    for (const membership::ConnId conn : outgoing.to) {
      if (weather_.relays > 0 && CarriedToRelay(conn, message)) continue;
      if (Node* node = NodeOf(conn)) CarryOrder(*node, conn, message);
      if (!seat.machine) return;  // a story's: it dies in the middle of what it sends
    }
    if (ambushes_left_ > 0) Ambush(*message);
    if (fades_left_ > 0) Fade(*message);
    if (plan_strikes_left_ > 0) StrikePlan(*message);
    if (stray_ && std::holds_alternative<wire::Install>(*message))
      After(later_.Between(0, 3 * weather_.delay_max_us * kMicrosecond), [this] { Abandon(); });
  }
  for (const membership::ConnId conn : ready.close) {
    CloseFromCoordinator(conn);
    if (!seat.machine) return;
  }
  if (ready.stand_down) {
    CloseSeat(seat);
    return StepSuccession(*seat.host, membership::StoodDown{});
  }
  WakeSeat(seat, ready.next_deadline);
}

void World::WakeSeat(Seat& seat, TimeNs deadline) {
  CheckRests(&seat.rest, deadline, "the coordinator");
  if (deadline >= seat.wake) return;
  seat.wake = std::max(deadline, now_ + 1);
  At(seat.wake, [this, &seat, life = seat.life] {
    if (life != seat.life) return;
    seat.wake = kNever;
    seat.rest.just_woken = true;
    FeedSeat(seat, membership::Timer{});
    seat.rest.just_woken = false;
  });
}

// A link to somebody who has died may be missed before the coordinator hears of the death; then it
// takes either end for lost. And who had been announced is lost with all whom it would have taken
// over from.
void World::Excuse(const std::string& note) {
  const bool newcomer = note.starts_with("lost [newcomer]");
  if (!note.starts_with("lost [link]") && !newcomer) return;
  std::set<MemberId> named;
  const auto look_for = [&](MemberId id, const std::vector<MemberId>& whom) {
    if (note.find("(" + ToString(id) + ")") != std::string::npos)
      named.insert(whom.begin(), whom.end());
  };
  for (const auto& node : nodes_) look_for(node->card.id, {node->card.id});
  for (const auto& [unit, members] : units_) look_for(unit, members);
  const auto names = [&named](const Node& node) { return named.contains(node.card.id); };
  const bool dead = newcomer || std::any_of(nodes_.begin(), nodes_.end(), [&](const auto& node) {
                      return !node->alive && names(*node);
                    });
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
    node.heard_at = now_;
    if (const auto* prepare = std::get_if<wire::Prepare>(message.get()))
      node.conduct.HearsPrepare(*prepare);
    if (std::holds_alternative<wire::Redirect>(*message))
      StepSuccession(node, membership::CoordinatorLeaves{});
    Feed(node, engine::FromCoordinator{*message});
    if (director_) director_->SawMessage(Moment::Verb::kHears, &node, nullptr, *message);
  };
  const auto arrive = [&node, conn, hear] {
    if (node.connection == conn) hear();
  };
  if (director_ && director_->Blocked(nullptr, &node)) return;
  if (late_installs_left_ > 0 && std::holds_alternative<wire::Install>(*message))
    DelayInstall(conn);
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
    LoseConnection(*node);
    After(5 * kMillisecond, [this, node] {
      if (node->alive && !node->over && node->connection == 0) Attach(*node);
    });
  });
  FeedCoordinator(conn, membership::Disconnected{conn, ""});
}

World::Node* World::NodeOf(uint64_t conn) {
  const auto found = connections_.find(conn);
  return found == connections_.end() ? nullptr : found->second.member;
}

void World::Attach(Node& node) {
  if (weather_.hosted) return StepSuccession(node, membership::SuccessionTick{});
  const bool cut =
      director_ && (director_->Blocked(&node, nullptr) || director_->Blocked(nullptr, &node));
  // The runtime tries again until it is there.
  const bool nobody = !fixed_.machine && weather_.relays == 0;
  if (!node.alive || nobody || cut || now_ < std::max(node.away_until, cut_off_until_)) {
    if (node.alive) After(5 * kMillisecond, [this, &node] { Attach(node); });
    return;
  }
  if (node.connection == 0) Connected(node, fixed_);
}

void World::Connected(Node& node, Seat& seat) {
  node.connection = ++next_connection_;
  connections_[node.connection] = {&node, &seat, seat.life};
  if (weather_.relays > 0) {
    RelayHost& relay = RelayFor(node);
    below_relays_[node.connection] = {&relay, relay.life};
  }
  Feed(node, engine::CoordinatorUp{});
}

void World::LoseConnection(Node& node) {
  Feed(node, engine::CoordinatorDown{});
  if (weather_.hosted) StepSuccession(node, membership::CoordinatorGone{});
}

void World::ToCoordinator(Node& node, wire::Message message) {
  const uint64_t conn = node.connection;
  if (conn == 0) return;
  if (trace_ && !std::holds_alternative<wire::Heartbeat>(message)) {
    Trace(ToString(node.card.id) + " -> coordinator " + wire::MessageName(message));
  }
  Seat* seat = connections_[conn].seat;
  const auto life_above = [this, seat, conn] {
    return weather_.relays > 0 ? LifeAbove(conn) : seat->life;
  };
  const uint64_t life = life_above();
  if (director_ && director_->Blocked(&node, nullptr)) return;
  auto held = std::make_shared<const wire::Message>(std::move(message));
  if (std::holds_alternative<wire::Hello>(*held)) node.introduced_to = incarnation_;
  if (const auto* hello = std::get_if<wire::Hello>(held.get());
      hello && hello->report.installed_view)
    node.reported = std::make_shared<const wire::View>(*hello->report.installed_view);
  At(WireTime(conn + kConnectionBase, 0), [this, seat, conn, life, life_above, held] {
    if (life != life_above()) return;
    if (const auto* hello = std::get_if<wire::Hello>(held.get())) {
      FeedCoordinator(conn, membership::Connected{conn, *hello});
    } else {
      FeedCoordinator(conn, membership::Received{conn, *held});
    }
    if (director_ && seat->machine)
      director_->SawMessage(Moment::Verb::kHears, nullptr, NodeOf(conn), *held);
  });
  if (director_) director_->SawMessage(Moment::Verb::kSends, &node, nullptr, *held);
  if (plan_strikes_left_ > 0) StrikePlan(*held);
}

}  // namespace ftar::sim
