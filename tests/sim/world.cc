#include "world.h"

#include <algorithm>
#include <cstdio>

#include "base/mutant.h"
#include "node.h"
#include "relay_host.h"
#include "story/director.h"
#include "story/explorer.h"
#include "wire/codec.h"

namespace ftar::sim {

namespace {
constexpr int kRoundsMax = 1000;
constexpr TimeNs kSlowMax = 6 * kMillisecond;  // of a link in skewed weather
constexpr TimeNs kStallMax = 30 * kMillisecond;
constexpr TimeNs kHeartbeat = 10 * kMillisecond;
}  // namespace

World::World(uint64_t seed, Weather weather, bool trace, const Story* story, Explorer* explorer)
    : seed_(seed),
      weather_(weather),
      trace_(trace),
      rng_(seed ^ 0x5eed),
      lanes_(seed ^ 0x1a9e),
      later_(seed ^ 0x1a7e5),
      views_(weather.relays > 0 ? 0 : weather.shards, weather.min_replicas),
      explorer_(explorer) {
  queue_.reserve(1024);
  if (story) director_ = std::make_unique<Director>(*this, *story);
}
World::~World() = default;

void World::Trace(const std::string& line) const {
  if (!trace_) return;
  const std::string text = director_ ? director_->Readable(line) : line;
  std::printf("%10.3f ms  %s\n", static_cast<double>(now_) / 1e6, text.c_str());
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

// Rule V8: operations of a step that asked for one participant set are not salvaged.
std::string CheckStrict(const wire::ColumnVerdicts& verdicts, bool strict) {
  if (!strict) return "";
  for (const wire::GroupVerdicts& group : verdicts.groups) {
    for (const wire::Verdict& verdict : group.verdicts) {
      if (verdict.kind == wire::VerdictKind::kSalvage)
        return "strict: op " + std::to_string(verdict.seq) + " of a strict step is salvaged";
    }
  }
  return "";
}
}  // namespace

void World::TraceMessage(MemberId from, MemberId to, const wire::Message& message) const {
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
  if (ended_) return;  // what comes afterwards is another job
  if (failure_.empty()) failure_ = what;
  Trace("VIOLATION " + what);
}

void World::Schedule(When when, Node* host, uint64_t from, Action run) {
  uint32_t slot = 0;
  if (free_slots_.empty()) {
    slot = static_cast<uint32_t>(slots_.size());
    slots_.emplace_back();
  } else {
    slot = free_slots_.back();
    free_slots_.pop_back();
  }
  const bool in_lane = when.lane != 0;
  slots_[slot] = {std::move(run), host, from, in_lane};
  in_lanes_ += in_lane ? 1 : 0;
  if (in_lane && explorer_ && explorer_->exploring())
    return explorer_->Offer(when.lane, when.object, slot);
  queue_.push_back({std::max(when.at, now_), order_++, slot});
  std::push_heap(queue_.begin(), queue_.end(), std::greater<>());
}

bool World::RunNext() {
  if (explorer_ && explorer_->Rules(*this)) {
    RunSlot(explorer_->Choose());
    return true;
  }
  if (queue_.empty()) return false;
  std::pop_heap(queue_.begin(), queue_.end(), std::greater<>());
  const Turn turn = queue_.back();
  queue_.pop_back();
  now_ = turn.at;
  RunSlot(turn.slot);
  return true;
}

void World::RunSlot(uint32_t slot) {
  ++events_done_;
  Scheduled next = std::move(slots_[slot]);
  free_slots_.push_back(slot);
  in_lanes_ -= next.in_lane ? 1 : 0;
  Node* host = next.host;
  if (host && !host->alive) return;
  if (next.from != 0 && !cut_.empty() && cut_.contains({next.from, host->index})) return;
  if (next.from != 0 && !torn_.empty() && torn_.contains({next.from, host->index})) return;
  if (host && host->stopped) {
    host->backlog.push_back(std::move(next.run));
  } else {
    next.run();
  }
}

// A wire's end: members by number, connections to the coordinator above them.
uint64_t World::ObjectAt(uint64_t end) const {
  if (end < kConnectionBase) return end;
  const auto found = connections_.find(end - kConnectionBase);
  return found == connections_.end() ? 0 : found->second.member->index;
}

namespace {
constexpr uint64_t kAckLane = uint64_t{1} << 63, kUserLane = uint64_t{1} << 62;
}

World::When World::OfUser(const Node& node, TimeNs at) {
  return {at, kUserLane | node.index, node.index};
}

World::When World::OfWork(const Node& node, TimeNs at) {
  return {at, node.index << 32 | node.index, node.index};
}

TimeNs World::Delay(uint64_t from, uint64_t to) {
  return director_ ? director_->WireTime(from, to)
                   : rng_.Between(1000, weather_.delay_max_us * kMicrosecond);
}

TimeNs World::WorkTime() {
  const TimeNs most = weather_.work_delay_max_us * kMicrosecond;
  if (director_) return director_->work_time();
  return most > 0 ? rng_.Between(0, most) : 0;
}

// First in, first out per direction; but where data waits to be sent, an ack passes it, and urgent
// data passes what is less so.
World::When World::WireTime(uint64_t from, uint64_t to, Carries carries) {
  Wire& wire = WireOf(from, to);
  TimeNs delay = Delay(from, to);
  const bool slow = weather_.skew && (seed_ * 31 + from * 7 + to * 3) % 4 == 0;
  if (slow) delay = std::min(8 * delay, kSlowMax);
  const uint64_t lane = from << 32 | to, object = ObjectAt(to);
  if (carries == Carries::kAck && weather_.acks_pass) {
    wire.word_free = std::max(wire.word_free + 1, now_ + delay);
    return {wire.word_free, lane | kAckLane, object};
  }
  if (carries == Carries::kUrgentData) {
    const TimeNs word = FTAR_MUTANT(kUrgentPassesControl) ? 0 : wire.word_free;
    wire.urgent_free = std::max(std::max(wire.urgent_free, word) + 1, now_ + delay);
    wire.free = std::max(wire.free, wire.urgent_free);
    return {wire.urgent_free, lane, object};
  }
  wire.free = std::max(std::max(wire.free, wire.word_free) + 1, now_ + delay);
  if (carries != Carries::kData) wire.word_free = wire.free;
  return {wire.free, lane, object};
}

World::Node* World::Find(MemberId id) {
  return id.lo == 0 || id.lo > nodes_.size() || nodes_[id.lo - 1]->card.id != id
             ? nullptr
             : nodes_[id.lo - 1].get();
}

World::Node& World::AddNode(int replica, int shard) {
  auto node = std::make_unique<Node>(kHeartbeat);
  node->index = nodes_.size() + 1;
  node->card.id = {(uint64_t{static_cast<unsigned>(replica)} << 56) | rng_.Next() >> 8,
                   nodes_.size() + 1};
  node->card.replica = replica;
  node->card.shard = shard;
  node->card.host = "host" + std::to_string(replica);
  if (weather_.cores > 0) {
    node->card.host_key = "host";
    node->card.cores = weather_.cores;
    node->card.lane = weather_.lanes > 0;
  }
  engine::Config config;
  config.job = "sim";
  config.self = node->card;
  config.replicas = weather_.replicas;
  config.shards = weather_.shards;
  config.min_replicas = weather_.min_replicas;
  config.timeout_ns = 10 * kHeartbeat;
  const std::string late = director_ && director_->late_timeout() > 0
                               ? std::to_string(director_->late_timeout() / kMillisecond) + "ms"
                               : "off";
  config.agreed_config = {"late_timeout=" + late, "timeout=100ms"};
  config.group.window = static_cast<Seq>(weather_.window);
  config.group.chunk_bytes = weather_.pieces ? 0 : 64;
  config.group.piece_least = kElementBytes;
  config.group.piece_most = 1024;
  if (weather_.lanes) OpenLane(*node, &config);
  node->engine = std::make_unique<engine::Engine>(config);
  node->struck = host_struck_;
  nodes_.push_back(std::move(node));
  Node& placed = *nodes_.back();
  placed.seat.host = &placed;
  if (weather_.hosted) {
    membership::SuccessionConfig succession;
    succession.self = placed.card.id;
    succession.incarnation = static_cast<uint16_t>(nodes_.size());
    succession.founder = nodes_.size() == 1;
    succession.step_ns = 25 * kMillisecond;
    succession.retry_ns = 5 * kMillisecond;
    succession.grace_ns = 10 * kMillisecond;
    placed.succession = std::make_unique<membership::Succession>(succession);
  }
  if (director_) director_->Placed(placed);
  if (trace_)
    Trace("start  " + ToString(placed.card.id) + " replica " + std::to_string(replica) + " shard " +
          std::to_string(shard));
  After(Delay(placed.index, 0), [this, &placed] { Attach(placed); });
  return placed;
}

// At once, or when the node runs again.
void World::Feed(Node& node, engine::Event event) {
  if (!node.alive) return;
  const bool tick = std::holds_alternative<engine::Tick>(event);
  const bool data = std::holds_alternative<engine::FrameArrived>(event) ||
                    std::holds_alternative<engine::WorkDone>(event);
  if (!tick && !data) node.conduct.HasOccasion();
  if (!node.stopped) {
    Step(node, event);
    const auto* exited = std::get_if<engine::PeerExited>(&event);
    if (exited && weather_.hosted)
      StepSuccession(node, membership::HostExited{exited->peer, node.engine->led()});
    return Drain(node);
  }
  auto held = std::make_unique<engine::Event>(std::move(event));
  node.backlog.emplace_back(
      [this, &node, held = std::move(held)] { Feed(node, std::move(*held)); });
}

// Whoever has been told the time, and wants to be told at once again, over and over, never sleeps.
void World::CheckRests(Rest* rest, TimeNs deadline, const std::string& who) {
  constexpr int kInARowMax = 100;
  if (!rest->just_woken) return;
  rest->in_a_row = deadline <= now_ ? rest->in_a_row + 1 : 0;
  if (rest->in_a_row > kInARowMax) Fail("rest: " + who + " is woken again and again");
}

void World::Step(Node& node, const engine::Event& event) {
  node.told = true;
  node.engine->Step(now_, event);
}

void World::Drain(Node& node) {
  if (node.draining) return;
  node.draining = true;
  int round = 0;
  for (; round < kRoundsMax && failure_.empty(); ++round) {
    engine::Ready ready = node.engine->TakeReady();
    const TimeNs deadline = ready.next_deadline;
    const bool done = ready.empty();
    if (!done) {
      CarryOut(node, std::move(ready));
      continue;
    }
    CheckRests(&node.rest, deadline, ToString(node.card.id));
    if (deadline != kNever && deadline < node.wake) {
      node.wake = std::max(deadline, now_ + 1);
      AtNode(node, node.wake, [this, &node] {
        node.wake = kNever;
        node.rest.just_woken = true;
        if (node.engine->phase() != engine::Phase::kLeft) Feed(node, engine::Tick{});
        node.rest.just_woken = false;
      });
    }
    break;
  }
  if (round == kRoundsMax) Fail("quiet: always has more to do");
  node.draining = node.told = false;
  if (director_) director_->SawStages(node);
  Program(node);
}

void World::CarryOut(Node& node, engine::Ready ready) {
  for (const engine::Started& started : ready.started) {
    if (trace_) Trace("called " + ToString(node.card.id) + " op " + std::to_string(started.seq));
    if (started.seq != kNoSeq) OnStarted(node, node.Of(started.group), started.seq);
  }
  for (MemberId id : ready.revoke) {
    FailIf(node.conduct.Revokes(id));
    node.revoked.insert(id);
    for (Use* use : {&node.main, &node.urgent}) {
      use->memory.LoseLender(id);
      use->memory.RecallFrom(id);
    }
    if (Node* peer = Find(id)) node.SetLink(*peer, false);
  }
  for (const MemberId id : ready.forget) {
    const auto view = node.engine->view();
    if (view && view->Find(id))
      Fail("fencing: " + ToString(node.card.id) + " forgets " + ToString(id) + " of its view");
  }
  if (weather_.hosted && ready.decides()) NoteSuccessors(node);
  if (ready.view_changed && node.engine->view()) {
    FailIf(node.news.Heard(ready.notices, *node.engine->view()));
    NoteView(node);
  }
  if (!node.alive) return;  // a story's: it dies on the spot, here or below in what it sends
  for (wire::Message& message : ready.to_coordinator) {
    FailIf(node.conduct.SaysToCoordinator(now_, message));
    if (std::holds_alternative<wire::Decided>(message))
      FailIf(node.conduct.TellsStatus(node.engine->view().get(), node.card.id, node.revoked));
    ToCoordinator(node, std::move(message));
    if (!node.alive) return;
  }
  for (engine::PeerMessage& message : ready.to_peers) {
    CarryWord(node, message);
    if (!node.alive) return;
  }
  for (const wire::MemberCard& card : ready.connect) Connect(node, card);
  for (engine::GroupTodo& item : ready.todo) {
    if (failure_.empty()) CarryTodo(node, item.group, item.todo);
    if (!node.alive) return;
  }
  if (trace_ && ready.step)
    Trace("step   " + ToString(node.card.id) + " " + std::to_string(ready.step->step) + " status " +
          std::to_string(static_cast<int>(ready.step->status)));
  if (ready.step && ready.step->status == Code::kOk) {
    node.in_step = true;
    node.step = static_cast<uint64_t>(ready.step->step) + 1;
    node.steps[node.step] = *ready.step;
    FailIf(node.news.Begins(*ready.step));
    node.step_pending = false;
    for (Use* use : {&node.main, &node.urgent}) {
      const auto info = node.engine->group_info(use->group);
      if (info) use->step_end = info->next_seq + static_cast<Seq>(weather_.ops_per_step);
    }
    if (director_) director_->Saw(Moment::Verb::kBegins, node, node.step - 1);
  } else if (ready.step) {
    node.step_pending = false;
  }
  for (const engine::Notice& notice : ready.notices) {
    if (notice.kind == engine::Notice::Kind::kQuorum && notice.loss.cause == Code::kInternal)
      Fail("table: " + notice.loss.text);
  }
}

void World::NoteView(Node& node) {
  begun_ = look_again_ = true;
  const auto view = node.engine->view();
  if (trace_) Trace("view   " + ToString(node.card.id) + " " + DescribeView(*view));
  if (IsForgotten(*view)) ended_ = true;
  newest_ = std::max(newest_, view->epoch);
  FailIf(views_.Installed(node.card.id, view));
  if (weather_.hosted) FailIf(CheckMajority(*view));
  if (director_) director_->Saw(Moment::Verb::kInstalls, node, EpochCounter(view->epoch));
}

std::string World::CheckMajority(const wire::View& view) {
  const auto dead = [this](MemberId id) { return !Find(id)->alive; };
  const auto consents = [this](MemberId id) {
    const engine::Phase phase = Find(id)->engine->phase();
    return phase == engine::Phase::kLeft || phase == engine::Phase::kAborted ||
           phase == engine::Phase::kEvicted;
  };
  return majority_.Installed(view, dead, consents);
}

// A restarted coordinator without a record knows what it is told. If all who have installed a view
// are gone before they could tell, or away for longer than it waits, those whom they had left
// behind begin another job: it cannot know better (docs/protocol.md 8).
bool World::IsForgotten(const wire::View& installed) const {
  const Epoch epoch = installed.epoch;
  if (weather_.record || weather_.hosted) return false;
  if (EpochIncarnation(epoch) == EpochIncarnation(newest_)) return false;
  if (EpochCounter(epoch) > EpochCounter(newest_)) return IsOfTheLeftBehind(installed);
  return std::none_of(nodes_.begin(), nodes_.end(), [this, epoch](const auto& node) {
    const auto view = node->engine->view();
    // Behind a relay that tells for it.
    const bool told = weather_.relays > 0 || node->introduced_to == EpochIncarnation(epoch);
    return told && node->alive && !node->stopped && !node->over && view && view->epoch >= newest_ &&
           EpochIncarnation(view->epoch) == EpochIncarnation(newest_);
  });
}

// It takes in nobody of the newest view, and its coordinator could not know better: of those who
// have come to it, the dead included, nobody held that view, or had promised its maker one without
// them. Where all are new another job begins, and who has held the newest may have gone since.
bool World::IsOfTheLeftBehind(const wire::View& view) const {
  bool found = false;
  for (const auto& node : nodes_) {
    const auto newest = node->engine->view();
    if (!newest || newest->epoch != newest_) continue;
    found = true;
    for (const wire::ViewEntry& entry : newest->entries) {
      if (view.Find(entry.card.id)) return false;
    }
  }
  const auto is_new = [&view](const auto& entry) { return entry.joined_epoch == view.epoch; };
  const bool all_new = std::ranges::all_of(view.entries, is_new);
  const auto knew_better = [&](const auto& node) {
    if (node->introduced_to != EpochIncarnation(view.epoch)) return false;
    const auto held = node->engine->view();
    if (held && held->epoch == newest_) return !all_new || (node->alive && node->connection != 0);
    const Epoch promised = node->conduct.prepared();
    const bool above =
        promised >= newest_ && EpochIncarnation(promised) == EpochIncarnation(newest_);
    return above && std::ranges::any_of(view.entries, [&](const auto& entry) {
             return !is_new(entry) && !node->conduct.prepared_members().contains(entry.card.id);
           });
  };
  return found && std::ranges::none_of(nodes_, knew_better);
}

// A word from member to member. The codec is part of every run.
void World::CarryWord(Node& node, engine::PeerMessage& message) {
  const MemberId from = node.card.id;
  if (trace_) TraceMessage(from, message.to, message.message);
  if (std::holds_alternative<wire::ColumnStatus>(message.message))
    FailIf(node.conduct.TellsStatus(node.engine->view().get(), from, node.revoked));
  if (const auto* verdicts = std::get_if<wire::ColumnVerdicts>(&message.message))
    FailIf(CheckStrict(*verdicts, weather_.strict && weather_.ops_per_step > 0));
  Node* target = Find(message.to);
  if (!target || !node.Holds(*target)) return;
  if (clogs_left_ > 0) Clog(node, *target, message.message);
  const When arrival = WireTime(node.index, target->index, Carries::kWord);
  if (director_) director_->SawMessage(Moment::Verb::kSends, &node, target, message.message);
  Schedule(arrival, target, node.index,
           [this, target, from, bytes = wire::Encode(message.message)] {
             if (!Reaches(*target, from)) return;
             Expected<wire::Message> decoded = wire::Decode(bytes);
             if (!decoded.ok()) return Fail("codec: " + decoded.status().ToString());
             if (const auto* credit = std::get_if<wire::Credit>(&*decoded))
               target->conduct.HearsCredit(from, credit->era);
             if (!director_) return Feed(*target, engine::FromPeer{from, std::move(*decoded)});
             Feed(*target, engine::FromPeer{from, *decoded});
             director_->SawMessage(Moment::Verb::kHears, target, Find(from), *decoded);
           });
}

void World::CarryTodo(Node& node, GroupKey group, collective::Todo& todo) {
  using Kind = collective::Todo::Kind;
  Use& use = node.Of(group);
  switch (todo.kind) {
    case Kind::kAllocate: return use.memory.Allocate(todo.id, todo.bytes);
    case Kind::kFree: return use.memory.Free(todo.id);
    case Kind::kReleaseInbound: return FailIf(use.memory.ReleaseInbound(todo.id));
    case Kind::kCancelSends: return use.memory.RecallOf(todo.id);
    case Kind::kFinishSends: return;
    case Kind::kSend: return SendFrame(node, todo.frame());
    case Kind::kPublish: return Publish(node, group, todo.publication());
    case Kind::kTell: return Tell(node, group, todo.words());
    case Kind::kAdopt: return FailIf(node.blocks.Adopt(todo.id, &use.memory));
    case Kind::kDeliver: return OnDelivered(node, use, todo.outcome());
    case Kind::kWork: break;
  }
  bool spoiled = false;
  FailIf(use.memory.Run(todo.work(), node.engine->view()->era, &spoiled));
  PutAside(node, group, todo.work());
  if (todo.work().id == 0) return;
  const uint64_t id = todo.work().id;
  AtNode(node, OfWork(node, now_ + WorkTime()), [this, &node, &use, id, spoiled] {
    use.memory.WorkIsDone(id);
    if (!spoiled) return Feed(node, engine::WorkDone{use.group, id});
    Feed(node, engine::WorkSpoiled{use.group, id});
  });
}

// As sockets are read: what has come of a payload is written before the rest is here, and all of it
// before the frames that went before it on the link's other paths are.
std::shared_ptr<World::Placed> World::LandEarly(const Node& node, Node& target,
                                                const wire::FrameHeader& header,
                                                const Buffer& payload, TimeNs arrival) {
  const auto placed = std::make_shared<Placed>(Placed{node.card.id, header, payload, nullptr});
  const TimeNs begin = rng_.Between(now_, arrival), end = rng_.Between(begin, arrival);
  AtNode(target, begin, [this, &target, placed] {
    if (!Reaches(target, placed->from)) return;
    const auto place = target.engine->LandingOf(placed->from, placed->header);
    if (place)
      placed->landing = target.Of(placed->header.group).memory.Land(*place, placed->header.seq);
    if (placed->landing)
      FailIf(target.Of(placed->header.group).memory.ArriveIn(placed->landing.get(), nullptr));
  });
  AtNode(target, end, [this, &target, placed] {
    const bool lands = placed->landing && placed->landing->active;
    if (lands && Reaches(target, placed->from))
      FailIf(
          target.Of(placed->header.group).memory.ArriveIn(placed->landing.get(), &placed->payload));
  });
  return placed;
}

// V1: what a frame says to be complete at its sender is so in this era, or is delivered.
std::string World::AcksTruly(Node& node, const wire::FrameHeader& header) const {
  const auto view = node.engine->view();
  if (!view || view->era != header.era) return "";
  for (Seq seq = node.Of(header.group).delivered_end; seq < header.complete_end; ++seq) {
    const std::string_view stage = node.engine->OpStage(header.group, seq);
    if (stage != "stability" && stage != "between") {
      return "ack: op " + std::to_string(seq) + " is complete, says " + ToString(node.card.id) +
             ", where it is at " + std::string(stage);
    }
  }
  return "";
}

void World::SendFrame(Node& node, const collective::SendFrame& frame) {
  Use& use = node.Of(frame.header.group);
  FailIf(node.conduct.Sends(frame.to, frame.header));
  FailIf(AcksTruly(node, frame.header));
  Buffer payload;
  FailIf(use.memory.Read(frame.payload, &payload));
  const bool ack = frame.header.kind == wire::FrameKind::kAck;
  if (trace_ && !ack) {
    static constexpr const char* kNames[] = {"?", "control", "ack", "raw", "partial", "final"};
    Trace("frame  " + ToString(node.card.id) + " -> " + ToString(frame.to) + " " +
          kNames[static_cast<int>(frame.header.kind)] + " of op " +
          std::to_string(frame.header.seq) + " chunk " + std::to_string(frame.header.chunk) +
          " attempt " + std::to_string(EpochCounter(frame.header.attempt)));
  }
  Node* target = Find(frame.to);
  if (!target || !node.Holds(*target)) return;
  const bool urgent = use.group == kUrgentGroup;
  const Carries carries = ack ? Carries::kAck : urgent ? Carries::kUrgentData : Carries::kData;
  const bool final = frame.header.kind == wire::FrameKind::kFinal;
  if (weather_.lands > 1 && final && rng_.Below(4) == 0)  // the path stalls, and is lost at last
    WireOf(node.index, target->index).free += rng_.Between(kMillisecond, kStallMax);
  const When arrival = WireTime(node.index, target->index, carries);
  const bool lent = weather_.lends && !payload.empty() && !frame.copied;
  std::shared_ptr<const Loan> loan = lent ? use.memory.Lend(frame.to, frame.header.seq) : nullptr;
  collective::InboundFrame inbound{node.card.id, frame.header, frame.ext, 0, lent};
  const bool lands = weather_.lands && final && !lent && !payload.empty() && rng_.Below(2) == 0;
  auto placed = lands ? LandEarly(node, *target, frame.header, payload, arrival.at) : nullptr;
  Schedule(arrival, target, node.index,
           [this, target, inbound = std::move(inbound), payload = std::move(payload),
            loan = std::move(loan), placed = std::move(placed)]() mutable {
             if (!Reaches(*target, inbound.from)) return;
             const wire::FrameHeader& header = inbound.header;
             if (placed && placed->landing)
               FailIf(target->Of(header.group).memory.EndLanding(placed->landing.get(), &payload));
             if (!payload.empty())
               inbound.inbound =
                   target->Of(header.group)
                       .memory.AddInbound(std::move(payload), {header.kind, header.era, header.seq,
                                                               inbound.from, std::move(loan)});
             const MemberId from = inbound.from;
             const wire::FrameHeader heard = header;
             Feed(*target, engine::FrameArrived{std::move(inbound)});
             if (director_) director_->SawFrame(Moment::Verb::kHears, *target, *Find(from), heard);
           });
  if (director_) director_->SawFrame(Moment::Verb::kSends, node, *target, frame.header);
}

// What was under way when a link closed on this side does not arrive any more.
bool World::Reaches(const Node& target, MemberId sender) const {
  return !target.revoked.contains(sender) && (target.links >> sender.lo & 1) != 0;
}

void World::Connect(Node& node, const wire::MemberCard& card) {
  const MemberId id = card.id;
  At(WireTime(node.index, 0).at, [this, &node, id] {  // it changes both ends: no lane
    Node* peer = Find(id);
    if (!node.alive) return;
    const bool refused = !peer || !peer->alive || peer->revoked.contains(node.card.id) ||
                         cut_.contains({node.index, peer->index}) ||
                         cut_.contains({peer->index, node.index});
    if (refused) return Feed(node, engine::LinkIsDown{id, Code::kLink, "refused"});
    node.SetLink(*peer, true);
    peer->SetLink(node, true);
    Feed(node, engine::LinkIsUp{id, WireCosts(node, *peer)});
    Feed(*peer, engine::LinkIsUp{node.card.id, WireCosts(*peer, node)});
  });
}

// So much that some of the small operations here are not for one-shot.
wire::WireCosts World::WireCosts(const Node& from, const Node& to) const {
  if (!weather_.wires) return {};
  Random dice(seed_ * 6151 + from.index * 64 + to.index);
  return {static_cast<uint32_t>(dice.Between(1, 10'000)),
          static_cast<uint32_t>(dice.Between(5'000, 200'000))};
}

std::string World::DescribeStuck(const Node& node) const {
  std::string out = "\n  " + ToString(node.card.id) + " phase " +
                    std::to_string(static_cast<int>(node.engine->phase())) +
                    (node.engine->changing() ? " frozen" : "");
  if (const auto view = node.engine->view())
    out += " view " + std::to_string(EpochCounter(view->epoch));
  for (const GroupKey group : {kGroup, kUrgentGroup}) {
    const auto info = node.engine->group_info(group);
    if (!info) continue;
    out += " first " + std::to_string(info->first_seq) + " delivered " +
           std::to_string(info->delivered_end) + " called " + std::to_string(info->called_end) +
           " queued " + std::to_string(info->queued) + " at " +
           node.engine->OpStage(group, info->delivered_end) + ";";
  }
  out += " waits for";
  for (const wire::GroupProgress& group : node.engine->progress().groups) {
    for (const MemberId id : group.waits_for) out += " " + ToString(id);
  }
  return out;
}

std::string World::Run() {
  if (director_) return director_->Play();
  StartCoordinator();
  for (int replica = 0; replica < weather_.replicas; ++replica) {
    for (int shard = 0; shard < weather_.shards; ++shard) AddNode(replica, shard);
  }
  ScheduleFaults();
  while (failure_.empty() && RunNext()) {
    if (look_again_ && (JobIsOver() || (calm_ && Finished()))) return failure_;
    look_again_ = false;
    if (events_done_ > kEventsMax || now_ > kTimeMax) break;
  }
  if (failure_.empty() && !Finished()) {
    std::string missing = "liveness: after " + std::to_string(events_done_) + " events";
    for (const auto& node : nodes_) {
      if (node->alive && !node->over && !node->hung) missing += DescribeStuck(*node);
    }
    Fail(missing);
  }
  return failure_;
}

}  // namespace ftar::sim
