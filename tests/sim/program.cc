// What the simulated users do: the same calls in the same order, and a look at every result.
#include <algorithm>
#include <utility>

#include "node.h"
#include "world.h"

namespace ftar::sim {

namespace {
constexpr GroupKey kGroup = 7;
}

collective::OpSpec World::SpecOf(const Node& node, Seq seq) const {
  Random dice(seed_ * 1000003 + seq);
  collective::OpSpec spec;
  spec.element_bytes = spec.accumulator_bytes = kElementBytes;
  const uint64_t kind = dice.Below(20);
  spec.count = dice.Below(4) == 0 ? dice.Below(3) : dice.Below(24);
  const auto view = node.engine->group_view(kGroup);
  std::vector<MemberId> members;
  if (view) {
    for (const wire::ViewEntry& entry : view->entries) members.push_back(entry.card.id);
  }
  if (kind == 0) spec.kind = plan::Kind::kBarrier, spec.count = 0;
  if (kind == 1 && !members.empty()) {
    spec.kind = plan::Kind::kBroadcast;
    spec.root = members[dice.Below(members.size())];
  }
  if ((kind == 2 || kind == 3) && !members.empty()) {
    spec.kind = kind == 2 ? plan::Kind::kAllGather : plan::Kind::kReduceScatter;
    spec.layout = view->epoch;
    spec.layout_members = members;
  }
  spec.in_place = weather_.in_place && dice.Below(2) == 0 && spec.kind != plan::Kind::kBarrier;
  const uint64_t forced = dice.Below(8);
  if (forced >= 1 && forced <= 3) spec.plan = static_cast<plan::PlanKind>(forced);
  if (weather_.weights) {
    Random own(seed_ * 7919 + seq * 31 + node.card.replica);
    const uint64_t draw = own.Below(5);
    spec.weight = draw == 0 ? 0 : draw == 1 ? 2 : 1;
  }
  if (weather_.mismatch && seq == 5 && node.card.replica == 1) spec.count += 1;
  return spec;
}

void World::StartNext(Node& node) {
  const auto info = node.engine->group_info(kGroup);
  const Seq seq = info ? info->next_seq : 0;
  collective::OpSpec spec = SpecOf(node, seq);
  spec.tag = node.step;
  node.unnumbered.push_back(spec);
  node.engine->Step(now_, engine::StartOp{kGroup, spec, 0});
}

// Buffers exist from the call on; the seq is known when the machine says so, before any of its work
// comes.
void World::OnStarted(Node& node, Seq seq) {
  if (node.unnumbered.empty()) return Fail("program: a start nobody asked for");
  const collective::OpSpec spec = node.unnumbered.front();
  node.unnumbered.pop_front();
  Memory::OpBuffers& buffers = node.memory.Open(kGroup, seq);
  buffers.send = MakeInput(kGroup, spec, node.card.replica, seq);
  buffers.in_place = spec.in_place;
  if (spec.in_place) {
    buffers.recv = buffers.send;
    buffers.recv.resize(std::max<size_t>(buffers.recv.size(), OutputElements(spec)));
  } else {
    buffers.recv.resize(OutputElements(spec));
  }
  node.specs[seq] = spec;
}

void World::OnDelivered(Node& node, const collective::Outcome& outcome) {
  node.delivered_end = outcome.seq + 1;
  ++events_done_;
  const auto spec = node.specs.find(outcome.seq);
  std::string wrong = checkers_.Agreement(node.card.shard, outcome);
  if (wrong.empty()) wrong = checkers_.Fencing(node.card.id, node.card.shard, outcome);
  if (spec != node.specs.end()) {  // else a stand-in: the leaver's caller is gone
    Memory::OpBuffers* buffers = node.memory.Find(kGroup, outcome.seq);
    const auto& layout = spec->second.layout_members;
    const auto own = std::find(layout.begin(), layout.end(), node.card.id);
    const uint64_t offset = spec->second.kind == plan::Kind::kReduceScatter
                                ? (own - layout.begin()) * spec->second.count
                                : 0;
    Buffer result = buffers->recv;
    result.resize(OutputElements(spec->second));
    if (wrong.empty()) wrong = Checkers::Result(kGroup, spec->second, offset, outcome, result);
    if (wrong.empty())
      wrong = Checkers::Input(kGroup, spec->second, node.card.replica, outcome, *buffers);
    node.specs.erase(spec);
    node.memory.Close(kGroup, outcome.seq);
  }
  Trace("deliver " + ToString(node.card.id) + " op " + std::to_string(outcome.seq) +
        " participants " + std::to_string(outcome.participants) + " status " +
        std::to_string(static_cast<int>(outcome.status)));
  if (!wrong.empty()) Fail(wrong);
}

void World::Program(Node& node) {
  if (!node.alive || node.over || node.draining) return;
  const engine::Phase phase = node.engine->phase();
  if (phase != engine::Phase::kMember && phase != engine::Phase::kLeaving &&
      phase != engine::Phase::kJoining) {
    node.over = true;
    return;
  }
  if (phase != engine::Phase::kMember) return;
  if (!node.first_known) {
    node.engine->Step(now_, engine::OpenGroup{kGroup, 0});
    node.first_known = true;
  }
  const auto info = node.engine->group_info(kGroup);
  if (node.resting_until > now_ || info->in_flight + info->queued >= weather_.window + 2) return;
  const bool steps = weather_.ops_per_step > 0;
  if (steps && node.in_step && info->next_seq >= node.step_end &&
      info->in_flight + info->queued == 0)
    node.in_step = false;
  if (steps && !node.in_step) {
    if (std::exchange(node.step_pending, true)) return;
    node.engine->Step(now_, engine::BeginStep{-1, false});
  } else if (!steps || info->next_seq < node.step_end) {
    StartNext(node);
    node.resting_until = now_ + RestAfter(info->next_seq);
  } else {
    return;
  }
  At(std::max(node.resting_until, now_),
     [this, &node] { node.Do([this, &node] { Drain(node); }); });
}

// Bursts and pauses, the same for all: a user computes between his calls. Without pauses a run is
// thousands of operations that no fault ever meets.
TimeNs World::RestAfter(Seq seq) const {
  Random dice(seed_ * 104729 + seq);
  return dice.Below(3) > 0 ? dice.Between(0, 50 * kMicrosecond)
                           : dice.Between(1, 20) * kMillisecond;
}

// Nobody is left who was in: what comes afterwards is another job, which counts from 0 again.
bool World::JobIsOver() const {
  if (ended_) return true;
  return begun_ && std::none_of(nodes_.begin(), nodes_.end(), [](const auto& node) {
           const engine::Phase phase = node->engine->phase();
           return node->alive &&
                  (phase == engine::Phase::kMember || phase == engine::Phase::kLeaving);
         });
}

// False for one that waits in vain: its replica is not whole, or it cannot reach somebody.
bool World::MayEnter(const Node& newcomer) const {
  std::set<int> shards;
  for (const auto& node : nodes_) {
    if (!node->alive || node->over) continue;
    if (node->card.replica == newcomer.card.replica) shards.insert(node->card.shard);
    for (const auto& other : nodes_) {
      const bool mates =
          node->card.replica == newcomer.card.replica && other->alive && !other->over;
      if (mates && cut_.contains({node->index, other->index})) return false;
    }
  }
  return static_cast<int>(shards.size()) == weather_.shards;
}

bool World::Finished() const {
  for (const auto& node : nodes_) {
    if (!node->alive || node->over) continue;
    if (node->engine->phase() == engine::Phase::kLeft ||
        node->engine->phase() == engine::Phase::kEvicted)
      continue;
    if (node->engine->phase() == engine::Phase::kJoining && !MayEnter(*node)) continue;
    if (node->delivered_end < goal_) return false;
  }
  return true;
}

}  // namespace ftar::sim
