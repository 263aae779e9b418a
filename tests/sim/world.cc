#include "world.h"

#include <algorithm>
#include <cstdio>

#include "node.h"
#include "wire/codec.h"

namespace ftar::sim {

namespace {
constexpr GroupKey kGroup = 7;
constexpr uint64_t kEventsMax = 400'000;
constexpr TimeNs kTimeMax = 20 * kSecond;
}  // namespace

World::World(uint64_t seed, Weather weather, bool trace)
    : seed_(seed), weather_(weather), trace_(trace), rng_(seed ^ 0x5eed) {}
World::~World() = default;

void World::Trace(const std::string& line) {
  if (trace_) std::printf("%10.3f ms  %s\n", static_cast<double>(now_) / 1e6, line.c_str());
}

namespace {
std::string DescribeBound(const wire::Bound& bound) {
  std::string out;
  if (bound.kind == wire::Bound::Kind::kStep) out = "step " + std::to_string(bound.step);
  if (bound.kind != wire::Bound::Kind::kSeq) return out;
  out = "op " + std::to_string(bound.default_seq);
  for (const wire::SeqBound& seq : bound.seqs) out += "/" + std::to_string(seq.seq);
  return out;
}

std::string DescribeView(const wire::View& view) {
  std::string out = "epoch " + std::to_string(EpochCounter(view.epoch)) +
                    (view.planned ? " from " + DescribeBound(view.boundary) : "") + " of";
  for (const wire::ViewEntry& entry : view.entries) {
    out += " " + ToString(entry.card.id);
    const std::string first = DescribeBound(entry.first), last = DescribeBound(entry.last);
    if (!first.empty() || !last.empty()) out += " (" + first + " to " + last + ")";
  }
  return out;
}
}  // namespace

void World::TraceMessage(MemberId from, MemberId to, const wire::Message& message) {
  std::string detail;
  if (const auto* verdicts = std::get_if<wire::ColumnVerdicts>(&message)) {
    static constexpr const char* kNames[] = {"?", "commit", "salvage", "retry", "fail"};
    for (const wire::GroupVerdicts& group : verdicts->groups) {
      for (const wire::Verdict& verdict : group.verdicts) {
        detail += " " + std::to_string(verdict.seq) + ":" + kNames[static_cast<int>(verdict.kind)];
      }
    }
  }
  if (const auto* mark = std::get_if<wire::StepMark>(&message)) {
    detail = " step " + std::to_string(mark->step);
    for (const wire::SeqBound& start : mark->starts) detail += " from " + std::to_string(start.seq);
  }
  if (const auto* notice = std::get_if<wire::CallNotice>(&message))
    detail =
        " op " + std::to_string(notice->seq) + " step " + std::to_string(notice->signature.step);
  Trace("say    " + ToString(from) + " -> " + ToString(to) + " " + wire::MessageName(message) +
        detail);
}

void World::Fail(const std::string& what) {
  if (failure_.empty()) failure_ = what;
  Trace("VIOLATION " + what);
}

void World::At(TimeNs at, std::function<void()> run) {
  queue_.push({std::max(at, now_), order_++, std::move(run)});
}

// First in, first out per direction; but where data waits to be sent, an ack passes it.
TimeNs World::WireTime(uint64_t from, uint64_t to, Carries carries) {
  Wire& wire = wires_[{from, to}];
  if (carries == Carries::kAck && weather_.acks_pass) {
    wire.word_free = std::max(wire.word_free + 1, now_ + Delay());
    return wire.word_free;
  }
  wire.free = std::max(std::max(wire.free, wire.word_free) + 1, now_ + Delay());
  if (carries != Carries::kData) wire.word_free = wire.free;
  return wire.free;
}

World::Node* World::Find(MemberId id) {
  for (auto& node : nodes_) {
    if (node->card.id == id) return node.get();
  }
  return nullptr;
}

World::Node& World::AddNode(int replica, int shard) {
  auto node = std::make_unique<Node>();
  node->index = nodes_.size() + 1;
  node->card.id = {(uint64_t{static_cast<unsigned>(replica)} << 56) | rng_.Next() >> 8,
                   nodes_.size() + 1};
  node->card.replica = replica;
  node->card.shard = shard;
  node->card.host = "host" + std::to_string(replica);
  engine::Config config;
  config.job = "sim";
  config.self = node->card;
  config.replicas = weather_.replicas;
  config.shards = weather_.shards;
  config.timeout_ns = 100 * kMillisecond;
  config.agreed_config = {"late_timeout=off", "timeout=100ms"};
  config.group.window = weather_.window;
  config.group.plan = weather_.plan;
  config.group.chunk_bytes = 64;
  node->engine = std::make_unique<engine::Engine>(config);
  nodes_.push_back(std::move(node));
  Node& placed = *nodes_.back();
  Trace("start  " + ToString(placed.card.id) + " replica " + std::to_string(replica) + " shard " +
        std::to_string(shard));
  After(Delay(), [this, &placed] { Attach(placed); });
  return placed;
}

void World::Feed(Node& node, engine::Event event) {
  node.Do([this, &node, event = std::move(event)] {
    node.engine->Step(now_, event);
    Drain(node);
  });
}

void World::Drain(Node& node) {
  if (node.draining) return;
  node.draining = true;
  for (int round = 0; round < 1000 && failure_.empty(); ++round) {
    engine::Ready ready = node.engine->TakeReady();
    const TimeNs deadline = ready.next_deadline;
    const bool done = ready.empty();
    CarryOut(node, std::move(ready));
    if (!done) continue;
    if (deadline != kNever && deadline < node.wake) {
      node.wake = std::max(deadline, now_ + 1);
      At(node.wake, [this, &node] {
        node.wake = kNever;
        if (node.engine->phase() != engine::Phase::kLeft) Feed(node, engine::Tick{});
      });
    }
    break;
  }
  node.draining = false;
  Program(node);
}

void World::CarryOut(Node& node, engine::Ready ready) {
  for (const engine::Started& started : ready.started) {
    if (started.seq != kNoSeq) OnStarted(node, started.seq);
  }
  for (MemberId id : ready.revoke) {
    node.revoked.insert(id);
    node.links.erase(id);
  }
  for (wire::Message& message : ready.to_coordinator) ToCoordinator(node, std::move(message));
  for (engine::PeerMessage& message : ready.to_peers) {
    const std::vector<std::byte> bytes = wire::Encode(message.message);
    const MemberId from = node.card.id;
    if (trace_) TraceMessage(from, message.to, message.message);
    SendToPeer(node, message.to, Carries::kWord, [this, bytes, from](Node& to) {
      Expected<wire::Message> decoded = wire::Decode(bytes);
      if (!decoded.ok()) return Fail("codec: " + decoded.status().ToString());
      Feed(to, engine::FromPeer{from, std::move(*decoded)});
    });
  }
  for (const wire::MemberCard& card : ready.connect) Connect(node, card);
  for (engine::GroupTodo& item : ready.todo) CarryTodo(node, item.group, item.todo);
  if (ready.step && ready.step->status == Code::kOk) {
    node.in_step = true;
    node.step = static_cast<uint64_t>(ready.step->step) + 1;
    node.step_pending = false;
    const auto info = node.engine->group_info(kGroup);
    node.step_end = info->next_seq + weather_.ops_per_step;
  } else if (ready.step) {
    node.step_pending = false;
  }
  if (ready.view_changed && node.engine->view()) {
    begun_ = true;
    Trace("view   " + ToString(node.card.id) + " " + DescribeView(*node.engine->view()));
    const std::string wrong = checkers_.ViewSeen(node.card.id, *node.engine->view());
    if (!wrong.empty()) Fail(wrong);
  }
  for (const engine::Notice& notice : ready.notices) {
    if (notice.kind == engine::Notice::Kind::kQuorum && notice.loss.cause == Code::kInternal)
      Fail("invariant: " + notice.loss.text);
  }
}

void World::CarryTodo(Node& node, GroupKey group, collective::Todo& todo) {
  using Kind = collective::Todo::Kind;
  switch (todo.kind) {
    case Kind::kAllocate: return node.memory.Allocate(group, todo.id, todo.bytes);
    case Kind::kFree: return node.memory.Free(group, todo.id);
    case Kind::kReleaseInbound: return node.memory.ReleaseInbound(todo.id);
    case Kind::kCancelSends:
    case Kind::kFinishSends: return;
    case Kind::kSend: return SendFrame(node, group, todo.frame);
    case Kind::kDeliver: return OnDelivered(node, todo.outcome);
    case Kind::kWork: break;
  }
  if (!node.memory.Run(group, todo.work))
    return Fail("memory: a work of op " + std::to_string(todo.work.seq) +
                " reads what is not there");
  if (todo.work.id == 0) return;
  const uint64_t id = todo.work.id;
  const TimeNs delay = weather_.work_delay_max > 0 ? rng_.Between(0, weather_.work_delay_max) : 0;
  After(delay, [this, &node, group, id] { Feed(node, engine::WorkDone{group, id}); });
}

void World::SendFrame(Node& node, GroupKey group, const collective::SendFrame& frame) {
  Buffer payload;
  if (!node.memory.Read(group, frame.payload, &payload))
    return Fail("memory: a frame sends what is not there");
  collective::InboundFrame inbound;
  inbound.from = node.card.id;
  inbound.header = frame.header;
  inbound.ext = frame.ext;
  const bool ack = frame.header.kind == wire::FrameKind::kAck;
  if (trace_ && !ack) {
    static constexpr const char* kNames[] = {"?", "control", "ack", "raw", "partial", "final"};
    Trace("frame  " + ToString(node.card.id) + " -> " + ToString(frame.to) + " " +
          kNames[static_cast<int>(frame.header.kind)] + " of op " +
          std::to_string(frame.header.seq) + " chunk " + std::to_string(frame.header.chunk) +
          " attempt " + std::to_string(EpochCounter(frame.header.attempt)));
  }
  const Carries carries = ack ? Carries::kAck : Carries::kData;
  SendToPeer(node, frame.to, carries, [this, inbound, payload](Node& to) mutable {
    if (!payload.empty()) inbound.inbound = to.memory.AddInbound(std::move(payload));
    Feed(to, engine::FrameArrived{std::move(inbound)});
  });
}

void World::SendToPeer(Node& from, MemberId to, Carries carries,
                       std::function<void(Node&)> deliver) {
  Node* target = Find(to);
  if (!target || !from.links.contains(to)) return;
  const MemberId sender = from.card.id;
  const TimeNs arrival = WireTime(from.index, target->index, carries);
  At(arrival, [this, sender, target, deliver = std::move(deliver)] {
    if (!target->alive || cut_.contains({Find(sender)->index, target->index})) return;
    target->Do([this, sender, target, deliver] {
      if (!target->revoked.contains(sender) && target->links.contains(sender)) deliver(*target);
    });
  });
}

void World::Connect(Node& node, const wire::MemberCard& card) {
  const MemberId id = card.id;
  At(WireTime(node.index, 0), [this, &node, id] {
    Node* peer = Find(id);
    if (!node.alive) return;
    if (!peer || !peer->alive || peer->revoked.contains(node.card.id) ||
        cut_.contains({node.index, peer->index})) {
      Feed(node, engine::LinkIsDown{id, Code::kLink, "refused"});
      return;
    }
    node.links.insert(id);
    peer->links.insert(node.card.id);
    Feed(node, engine::LinkIsUp{id});
    Feed(*peer, engine::LinkIsUp{node.card.id});
  });
}

std::string World::DescribeStuck(const Node& node) const {
  std::string out = "\n  " + ToString(node.card.id) + " phase " +
                    std::to_string(static_cast<int>(node.engine->phase())) +
                    (node.engine->changing() ? " frozen" : "");
  if (const auto view = node.engine->view())
    out += " view " + std::to_string(EpochCounter(view->epoch));
  const auto info = node.engine->group_info(kGroup);
  if (!info) return out;
  out += " first " + std::to_string(info->first_seq) + " delivered " +
         std::to_string(info->delivered_end) + " called " + std::to_string(info->called_end) +
         " queued " + std::to_string(info->queued) + " waits for";
  for (const wire::GroupProgress& group : node.engine->progress().groups) {
    for (const MemberId id : group.waits_for) out += " " + ToString(id);
  }
  return out;
}

std::string World::Run() {
  StartCoordinator();
  for (int replica = 0; replica < weather_.replicas; ++replica) {
    for (int shard = 0; shard < weather_.shards; ++shard) AddNode(replica, shard);
  }
  ScheduleFaults();
  while (!queue_.empty() && failure_.empty()) {
    Scheduled next = std::move(const_cast<Scheduled&>(queue_.top()));
    queue_.pop();
    now_ = next.at;
    next.run();
    ++events_done_;
    if (JobIsOver() || (calm_ && Finished())) return failure_;
    if (events_done_ > kEventsMax || now_ > kTimeMax) break;
  }
  if (failure_.empty() && !Finished()) {
    std::string missing = "liveness:";
    for (const auto& node : nodes_) {
      if (node->alive && !node->over) missing += DescribeStuck(*node);
    }
    Fail(missing);
  }
  return failure_;
}

}  // namespace ftar::sim
