#include "scale/job.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "wire/codec.h"

namespace ftar::sim {
namespace {

constexpr GroupKey kGroup = 7;

void Count(Traffic* traffic, size_t bytes, uint64_t times = 1) {
  traffic->messages += times;
  traffic->bytes += bytes * times;
}

}  // namespace

ScaleJob::ScaleJob(ScaleShape shape) : shape_(std::move(shape)) {
  int32_t width = shape_.shards;
  for (size_t level = 0; level < shape_.levels.size(); ++level) {
    level_begin_.push_back(relays_.size());
    width = (width + shape_.levels[level] - 1) / shape_.levels[level];
    blocks_.push_back(width);
    for (int32_t replica = 0; replica < shape_.replicas; ++replica) {
      for (int32_t block = 0; block < width; ++block) {
        Relay relay;
        relay.level = static_cast<int32_t>(level);
        relay.replica = replica;
        relay.block = block;
        relays_.push_back(std::move(relay));
      }
    }
  }
  members_.reserve(static_cast<size_t>(shape_.replicas) * shape_.shards * 3);
  const AtWork work(Role::kCoordinator);
  membership::CoordinatorConfig config;
  config.incarnation = 1;
  coordinator_ = std::make_unique<membership::CoordinatorMachine>(config);
}
ScaleJob::~ScaleJob() = default;

size_t ScaleJob::top_relays() const { return relays_.size() - level_begin_.back(); }

int64_t ScaleJob::RelayAt(size_t level, int32_t replica, int32_t block) const {
  return static_cast<int64_t>(level_begin_[level]) + int64_t{replica} * blocks_[level] + block;
}

// Its own relay, or while that is lost the next one of its replica.
int64_t ScaleJob::AboveMember(const Member& member) const {
  for (int32_t i = 0; i < blocks_[0]; ++i) {
    const int32_t block = (member.shard / shape_.levels[0] + i) % blocks_[0];
    const int64_t relay = RelayAt(0, member.replica, block);
    if (relays_[static_cast<size_t>(relay)].lines) return relay;
  }
  return -1;
}

// ---- deeds ----

uint32_t ScaleJob::AddMember(int32_t replica, int32_t shard) {
  const AtWork work(Role::kMember);
  Member member;
  const uint32_t index = static_cast<uint32_t>(members_.size());
  member.replica = replica;
  member.shard = shard;
  engine::Config config;
  config.job = "scale";
  config.self.id = {(index + 1) * 0x9e3779b97f4a7c15ULL, index + 1};
  config.self.replica = replica;
  config.self.shard = shard;
  config.self.pid = 4000 + shard % 8;
  config.self.host = "node-" + std::to_string(replica) + "-" + std::to_string(shard / 8);
  config.self.host_key = "7f3a5c1e-92d4-4b06-8c77-" + config.self.host + ":4026531840";
  config.self.rack = "rack-" + std::to_string(shard / 256);
  config.self.addresses = "shm=@ftar-" + ToString(config.self.id) + ";tcp=10." +
                          std::to_string(replica) + "." + std::to_string(shard / 250) + "." +
                          std::to_string(shard % 250) + ":47110";
  config.replicas = shape_.replicas;
  config.shards = shape_.shards;
  config.agreed_config = {"timeout=10s"};
  member.engine = std::make_unique<engine::Engine>(std::move(config));
  members_.push_back(std::move(member));
  ++living_;
  return index;
}

void ScaleJob::StartReplica(int32_t replica) {
  for (Relay& relay : relays_) {
    if (relay.replica != replica || relay.lines) continue;
    const AtWork work(Role::kRelay);
    membership::RelayConfig config;
    config.members = shape_.levels[static_cast<size_t>(relay.level)];
    relay.lines = std::make_unique<membership::RelayLines>(config);
  }
  for (int32_t shard = 0; shard < shape_.shards; ++shard) {
    const uint32_t index = AddMember(replica, shard);
    At(now_, Dial{index, -1, 0});
  }
}

// What was sent arrives; what ends is seen to end.
void ScaleJob::KillReplica(int32_t replica, bool with_relays) {
  for (Member& member : members_) {
    if (member.replica != replica || !member.engine) continue;
    if (member.conn != 0) Next(UpperSees{member.conn});
    for (const uint32_t peer : member.links) Next(LinkLost{peer, IndexOf(member)});
    --living_;
    if (member.epoch == newest_) --living_in_;
    const AtWork work(Role::kMember);
    member.engine.reset();
  }
  for (Relay& relay : relays_) {
    if (!with_relays || relay.replica != replica) continue;
    for (const auto& [line, conn] : relay.conns) Next(UpperSees{conn});
    relay.conns.clear();
    const AtWork work(Role::kRelay);
    relay.lines.reset();
  }
}

void ScaleJob::KillRelay(int32_t replica) {
  Relay& relay = relays_[static_cast<size_t>(RelayAt(0, replica, 0))];
  for (const auto& [line, conn] : relay.conns) Next(UpperSees{conn});
  for (uint64_t id = 1; id < conns_.size(); ++id) {
    if (conns_[id].open && conns_[id].upper == &relay - &relays_[0]) Next(LowerSees{id});
  }
  relay.conns.clear();
  const AtWork work(Role::kRelay);
  relay.lines.reset();
}

void ScaleJob::StartOps() {
  delivered_ = delivered_wrong_ = 0;
  for (Member& member : members_) {
    if (!member.engine || member.engine->phase() != engine::Phase::kMember) continue;
    collective::OpSpec spec;
    spec.count = 256;
    Feed(member, engine::StartOp{kGroup, spec, 1});
  }
}

bool ScaleJob::AllHold(size_t replicas) const {
  return living_in_ == living_ && newest_replicas_ == replicas;
}

bool ScaleJob::RunUntil(const std::function<bool()>& done, TimeNs limit) {
  const TimeNs until = now_ + limit;
  while (!done()) {
    if (queue_.empty() || queue_.begin()->first > until) return false;
    now_ = queue_.begin()->first;
    Events events = std::exchange(queue_.begin()->second, {});
    RunTick(&events);
    if (queue_.begin()->second.size() == 0) queue_.erase(queue_.begin());
  }
  return true;
}

// What happens in one moment at different places happens in any order, so a column's events are
// taken together, in theirs: what its members touch is still in the processor's caches then.
void ScaleJob::RunTick(Events* events) {
  begin_.assign(static_cast<size_t>(shape_.shards) + relays_.size() + 2, 0);
  places_.resize(events->size());
  for (uint32_t i = 0; i < events->size(); ++i) {
    places_[i] = static_cast<uint32_t>(PlaceOf((*events)[i]));
    ++begin_[places_[i] + 1];
  }
  std::partial_sum(begin_.begin(), begin_.end(), begin_.begin());
  order_.resize(events->size());
  for (uint32_t i = 0; i < events->size(); ++i) order_[begin_[places_[i]]++] = i;
  constexpr uint32_t kAhead = 8;  // they lie anywhere in memory
  std::optional<AtWork> work;
  Role role = Role::kOther;
  uint32_t i = 0;
  for (size_t place = 0; place + 1 < begin_.size(); ++place) {
    if (i == begin_[place]) continue;
    if (!work || RoleAt(place) != role) {
      work.reset();
      work.emplace(role = RoleAt(place));
    }
    for (; i < begin_[place]; ++i) {
      if (i + kAhead < order_.size()) __builtin_prefetch(&(*events)[order_[i + kAhead]]);
      std::visit([this](auto& concrete) { On(concrete); }, (*events)[order_[i]]);
    }
  }
}

Role ScaleJob::RoleAt(size_t place) const {
  const auto relays = static_cast<size_t>(shape_.shards);
  if (place < relays) return Role::kMember;
  return place < relays + relays_.size() ? Role::kRelay : Role::kCoordinator;
}

// Columns, relays, and the coordinator.
size_t ScaleJob::PlaceOf(const Event& event) const {
  const auto above = [this](int64_t relay) {
    return static_cast<size_t>(shape_.shards) + (relay < 0 ? relays_.size() : relay);
  };
  const auto place = [&](int64_t member, int64_t relay) {
    return member < 0 ? above(relay) : static_cast<size_t>(members_[member].shard);
  };
  const auto lower = [&](uint64_t conn) { return place(conns_[conn].member, conns_[conn].relay); };
  return std::visit(
      [&](const auto& concrete) {
        using T = std::decay_t<decltype(concrete)>;
        if constexpr (std::is_same_v<T, Up> || std::is_same_v<T, UpperSees>) {
          return above(conns_[concrete.conn].upper);
        } else if constexpr (std::is_same_v<T, Down> || std::is_same_v<T, LowerSees>) {
          return lower(concrete.conn);
        } else if constexpr (std::is_same_v<T, Dial> || std::is_same_v<T, Wake>) {
          return place(concrete.member, concrete.relay);
        } else if constexpr (std::is_same_v<T, LinkUp>) {
          return place(concrete.a, -1);
        } else if constexpr (std::is_same_v<T, LinkLost>) {
          return place(concrete.at, -1);
        } else {
          return place(concrete.to, -1);
        }
      },
      event);
}

// ---- wires up and down ----

void ScaleJob::SendUp(uint64_t conn, wire::Message message, Traffic* traffic) {
  if (!conns_[conn].open) return;
  const bool top = conns_[conn].upper < 0;
  std::vector<std::byte> bytes;
  if (top || traffic) bytes = wire::Encode(message);
  if (traffic) Count(traffic, bytes.size());
  if (top) {
    Count(&counts_.coordinator_in, bytes.size());
    Next(Up{conn, nullptr, std::move(bytes)});
  } else {
    Next(Up{conn, std::make_shared<wire::Message>(std::move(message)), {}});
  }
}

void ScaleJob::On(Up& event) {
  const int64_t upper = conns_[event.conn].upper;
  if (upper < 0) {
    Expected<wire::Message> message = wire::Decode(std::exchange(event.bytes, {}));
    if (!message.ok()) return;
    if (auto* hello = std::get_if<wire::Hello>(&*message)) {
      return FeedCoordinator(membership::Connected{event.conn, std::move(*hello)});
    }
    return FeedCoordinator(membership::Received{event.conn, std::move(*message)});
  }
  Relay& relay = relays_[static_cast<size_t>(upper)];
  if (!relay.lines) return;
  const Words words = std::move(event.words);
  if (auto* hello = std::get_if<wire::Hello>(words.get())) {
    FeedRelay(relay, membership::Connected{event.conn, std::move(*hello)});
  } else {
    FeedRelay(relay, membership::Received{event.conn, std::move(*words)});
  }
}

void ScaleJob::SendDown(membership::Outgoing outgoing, Traffic* traffic) {
  const auto words = std::make_shared<wire::Message>(std::move(outgoing.message));
  if (traffic) Count(traffic, wire::Encode(*words).size(), outgoing.to.size());
  for (const uint64_t conn : outgoing.to) Next(Down{conn, words});
}

namespace {
// The last to read it takes it. What is worked off is given back before the end of its moment: the
// next words come to lie where it was, which is in the caches.
wire::Message Take(std::shared_ptr<wire::Message> words) {
  return words.use_count() == 1 ? std::move(*words) : *words;
}
}  // namespace

void ScaleJob::On(Down& event) {
  const Conn conn = conns_[event.conn];
  if (!conn.open) return;
  if (conn.member >= 0)
    return Feed(members_[static_cast<size_t>(conn.member)],
                engine::FromCoordinator{Take(std::move(event.words))});
  FeedRelay(relays_[static_cast<size_t>(conn.relay)],
            membership::FromLine{conn.line, Take(std::move(event.words))});
}

// The upper end closes it: what was sent before arrives before.
void ScaleJob::CloseDown(uint64_t conn) { Next(LowerSees{conn}); }

void ScaleJob::On(const LowerSees& event) {
  if (!std::exchange(conns_[event.conn].open, false)) return;
  const Conn conn = conns_[event.conn];
  if (conn.member >= 0) {
    Member& member = members_[static_cast<size_t>(conn.member)];
    if (member.conn != event.conn) return;
    member.conn = 0;
    Feed(member, engine::CoordinatorDown{});
    if (member.engine) Next(Dial{conn.member, -1, 0});
    return;
  }
  Relay& relay = relays_[static_cast<size_t>(conn.relay)];
  if (relay.conns.erase(conn.line) == 0) return;
  FeedRelay(relay, membership::LineDown{conn.line});
  Next(Dial{-1, conn.relay, conn.line});
}

void ScaleJob::On(const UpperSees& event) {
  if (!std::exchange(conns_[event.conn].open, false)) return;
  const int64_t upper = conns_[event.conn].upper;
  if (upper < 0) return FeedCoordinator(membership::Disconnected{event.conn, ""});
  FeedRelay(relays_[static_cast<size_t>(upper)], membership::Disconnected{event.conn, ""});
}

void ScaleJob::On(const Dial& event) {
  const uint64_t id = conns_.size();
  Conn conn;
  conn.member = event.member;
  conn.relay = event.relay;
  conn.line = event.line;
  if (event.member >= 0) {
    Member& member = members_[static_cast<size_t>(event.member)];
    if (!member.engine || member.conn != 0) return;
    conn.upper = AboveMember(member);
    if (conn.upper < 0) return Next(Dial{event.member, -1, 0});
    conns_.push_back(conn);
    member.conn = id;
    return Feed(member, engine::CoordinatorUp{});
  }
  Relay& relay = relays_[static_cast<size_t>(event.relay)];
  if (!relay.lines) return;
  const size_t above = static_cast<size_t>(relay.level) + 1;
  if (above < shape_.levels.size())
    conn.upper = RelayAt(above, relay.replica, relay.block / shape_.levels[above]);
  conns_.push_back(conn);
  relay.conns[event.line] = id;
  FeedRelay(relay, membership::LineUp{event.line});
}

// ---- relays and the coordinator ----

void ScaleJob::FeedRelay(Relay& relay, const membership::RelayLinesEvent& event) {
  if (!relay.lines) return;
  relay.lines->Step(now_, event);
  membership::RelayLinesReady ready = relay.lines->TakeReady();
  const auto self = static_cast<int64_t>(&relay - &relays_[0]);
  for (const membership::OpenLine& open : ready.open) Next(Dial{-1, self, open.line});
  const bool counted = relay.block == 0;
  for (auto& [line, message] : ready.up) {
    if (const auto conn = relay.conns.find(line); conn != relay.conns.end())
      SendUp(conn->second, std::move(message), counted ? &counts_.relays_up : nullptr);
  }
  for (membership::Outgoing& outgoing : ready.down)
    SendDown(std::move(outgoing), counted ? &counts_.relays_down : nullptr);
  for (const uint64_t conn : ready.close) CloseDown(conn);
  for (const membership::LineId line : ready.hang_up) {
    const auto conn = relay.conns.find(line);
    if (conn == relay.conns.end()) continue;
    Next(UpperSees{conn->second});
    relay.conns.erase(conn);
  }
  if (ready.next_deadline < relay.wake) {
    relay.wake = std::max(ready.next_deadline, now_ + 1);
    At(relay.wake, Wake{-1, self});
  }
}

void ScaleJob::FeedCoordinator(const membership::CoordinatorEvent& event) {
  coordinator_->Step(now_, event);
  membership::CoordinatorReady ready = coordinator_->TakeReady();
  for (membership::Outgoing& outgoing : ready.messages) {
    if (std::holds_alternative<wire::Install>(outgoing.message) ||
        std::holds_alternative<wire::Announce>(outgoing.message))
      decided_at_ = now_;
    SendDown(std::move(outgoing), &counts_.coordinator_out);
  }
  for (const uint64_t conn : ready.close) CloseDown(conn);
  if (ready.next_deadline < coordinator_wake_) {
    coordinator_wake_ = std::max(ready.next_deadline, now_ + 1);
    At(coordinator_wake_, Wake{-1, -1});
  }
}

void ScaleJob::On(const Wake& event) {
  if (event.member >= 0) {
    Member& member = members_[static_cast<size_t>(event.member)];
    member.wake = kNever;
    return Feed(member, engine::Tick{});
  }
  if (event.relay >= 0) {
    Relay& relay = relays_[static_cast<size_t>(event.relay)];
    relay.wake = kNever;
    return FeedRelay(relay, membership::Timer{});
  }
  coordinator_wake_ = kNever;
  FeedCoordinator(membership::Timer{});
}

}  // namespace ftar::sim
