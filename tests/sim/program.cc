// What the simulated users do: the same calls in the same order, and a look at every result.
#include <algorithm>
#include <utility>

#include "invariants/result.h"
#include "node.h"
#include "story/director.h"
#include "world.h"

namespace ftar::sim {

collective::OpSpec World::SpecOf(const Node& node, GroupKey group, Seq seq) const {
  if (director_) return director_->SpecOf(node, seq);
  const uint64_t of_group = uint64_t{group - kGroup} << 40;
  constexpr Seq kAlike = 16;  // calls
  const Seq like = weather_.alike != 0 ? seq / kAlike : seq;
  Random dice(seed_ * 1000003 + like + of_group);
  collective::OpSpec spec;
  spec.element_bytes = spec.accumulator_bytes = kElementBytes;
  const uint64_t kind = dice.Below(20);
  spec.count = dice.Below(4) == 0 ? dice.Below(3) : dice.Below(24);
  std::shared_ptr<const wire::View> view;
  std::vector<MemberId> members;
  const bool broadcast =
      kind == 1 || (kind > 3 && kind <= 3 + static_cast<uint64_t>(weather_.broadcasts));
  const bool segmented = kind == 2 || kind == 3;
  if (segmented && seq % 2 == 0) view = node.engine->step_view(group);
  if ((broadcast || segmented) && !view) view = node.engine->group_view(group);
  if (view) {
    for (const wire::ViewEntry& entry : view->entries) members.push_back(entry.card.id);
  }
  if (kind == 0) spec.kind = plan::Kind::kBarrier, spec.count = 0;
  if (broadcast && !members.empty()) {
    spec.kind = plan::Kind::kBroadcast;
    spec.root = members[dice.Below(members.size())];
  }
  if (segmented && !members.empty()) {
    spec.kind = kind == 2 ? plan::Kind::kAllGather : plan::Kind::kReduceScatter;
    spec.layout = view->epoch;
    spec.layout_members = members;
  }
  spec.in_place = weather_.in_place != 0 && dice.Below(2) == 0 && spec.kind != plan::Kind::kBarrier;
  const uint64_t forced = dice.Below(8);
  if (forced >= 1 && forced <= 3) spec.plan = static_cast<plan::PlanKind>(forced);
  if (weather_.weights) {
    Random own(seed_ * 7919 + like * 31 + node.card.replica + of_group);
    const uint64_t draw = own.Below(5);
    spec.weight = draw == 0 ? 0 : draw == 1 ? 2 : 1;
  }
  if (weather_.alike != 0) {
    if (spec.kind != plan::Kind::kBarrier) spec.kind = plan::Kind::kAllReduce;
    spec.layout = 0, spec.layout_members.clear(), spec.root = {};
    spec.count %= 3, spec.plan = plan::PlanKind::kAuto;
  }
  const bool differs = weather_.mismatch > 1 ? seq % 4 == 1 : weather_.mismatch > 0 && seq == 5;
  if (differs && node.card.replica == 1) spec.count += 1;
  return spec;
}

void World::StartNext(Node& node, Use& use) {
  const auto info = node.engine->group_info(use.group);
  const Seq seq = info ? info->next_seq : 0;
  collective::OpSpec spec = SpecOf(node, use.group, seq);
  spec.tag = node.step;
  use.unnumbered.push_back(std::move(spec));
  if (node.lane && use.group == kGroup && CallFast(node)) return;
  Step(node, engine::StartOp{use.group, use.unnumbered.back(), 0});
}

// Buffers exist from the call on; the seq is known when the machine says so, before any of its work
// comes.
void World::OnStarted(Node& node, Use& use, Seq seq) {
  if (use.unnumbered.empty()) return Fail("program: a start nobody asked for");
  collective::OpSpec& spec = use.specs[seq] = std::move(use.unnumbered.front());
  use.unnumbered.pop_front();
  Memory::OpBuffers& buffers = use.memory.Open(seq);
  buffers.send = MakeInput(use.group, spec, node.card.replica, seq);
  buffers.in_place = spec.in_place;
  if (spec.in_place) buffers.recv = buffers.send;
  buffers.recv.resize(std::max<size_t>(buffers.recv.size(), OutputElements(spec)), kUntouched);
  if (director_) director_->Saw(Moment::Verb::kCalls, node, seq);
}

void World::OnDelivered(Node& node, Use& use, const collective::Outcome& outcome) {
  use.delivered_end = outcome.seq + 1;
  look_again_ = true;
  if (trace_)
    Trace("deliver " + ToString(node.card.id) + " op " + std::to_string(outcome.seq) +
          " participants " + std::to_string(outcome.participants) + " status " +
          std::to_string(static_cast<int>(outcome.status)));
  FailIf(node.conduct.Delivers());
  FailIf(fencing_[use.group].Delivered(node.card.id, outcome));
  if (director_) director_->SawOutcome(node, outcome);
  if (failure_deaths_left_ > 0 && outcome.status != Code::kOk) StrikeWhoFailed(node);
  const auto found = use.specs.find(outcome.seq);
  if (found == use.specs.end())  // a stand-in: the leaver's caller is gone
    return FailIf(agreement_[use.group].Delivered(node.card.shard, outcome, nullptr));
  const collective::OpSpec& spec = found->second;
  Memory::OpBuffers& buffers = *use.memory.Find(outcome.seq);
  FailIf(CheckInput(use.group, spec, node.card.replica, outcome, buffers));
  FailIf(CheckMoment(outcome));
  const auto own = std::find(spec.layout_members.begin(), spec.layout_members.end(), node.card.id);
  const bool scattered = spec.kind == plan::Kind::kReduceScatter;
  const uint64_t offset =
      scattered ? static_cast<uint64_t>(own - spec.layout_members.begin()) * spec.count : 0;
  buffers.recv.resize(OutputElements(spec));
  const Buffer* const result = scattered ? nullptr : &buffers.recv;
  FailIf(agreement_[use.group].Delivered(node.card.shard, outcome, result));
  FailIf(CheckResult(use.group, spec, offset, outcome, buffers.recv));
  if (spec.tag > 0 && outcome.status == Code::kOk)
    FailIf(steps_.Delivered(node.card.shard, node.steps.at(spec.tag)));
  use.specs.erase(found);
  use.memory.Close(outcome.seq);
}

void World::Program(Node& node) {
  if (!node.alive || node.over || node.draining) return;
  const engine::Phase phase = node.engine->phase();
  if (phase != engine::Phase::kMember && phase != engine::Phase::kLeaving &&
      phase != engine::Phase::kJoining) {
    node.over = look_again_ = true;
    if (node.seat.machine) RetireSeat(node);
    return NoteEnd(node, phase);
  }
  if (phase == engine::Phase::kMember) CallOrStep(node);
}

// Its user does. Where nothing was told to the machine nothing is taken from it either, so that a
// call on the fast path may be like the last one.
void World::GoOn(Node& node) { node.told ? Drain(node) : Program(node); }

// Somebody who has been in from the start and whom nothing has befallen is still there.
void World::CheckEnd() {
  if (weather_.min_replicas > 1) return;  // the lost wait for a quorum, and may be waiting still
  for (const auto& node : nodes_) {
    const auto view = node->engine->view();
    const bool in = node->alive && !node->struck && !node->leaving && view &&
                    node->engine->phase() == engine::Phase::kMember;
    const wire::ViewEntry* self = in ? view->Find(node->card.id) : nullptr;
    if (self && self->first.kind == wire::Bound::Kind::kAlways)
      Fail("innocence: the job ends, and nothing has befallen " + ToString(node->card.id));
  }
}

// Nobody goes without an occasion: who leaves has seen to the end what it called, and who is
// evicted has been struck by something (rules Q3, Q7).
void World::NoteEnd(Node& node, engine::Phase phase) {
  const std::string who = ToString(node.card.id);
  if (director_) director_->Saw(Moment::Verb::kEnds, node);
  if (phase == engine::Phase::kEvicted && !node.struck) {
    Fail("innocence: " + who +
         " is evicted, and nothing had befallen it: " + node.engine->phase_status().ToString());
  }
  for (Use* use : {&node.main, &node.urgent}) use->memory.GiveBack();
  if (phase != engine::Phase::kLeft) return;
  for (const Use* use : {&node.main, &node.urgent}) {
    for (const auto& [seq, spec] : use->specs) {
      const std::string stage = node.engine->OpStage(use->group, seq);
      if (stage != "before")
        Fail("leaving: " + who + " goes while op " + std::to_string(seq) + " is " + stage);
    }
  }
}

void World::CallOrStep(Node& node) {
  if (!node.first_known) {
    Step(node, engine::OpenGroup{kGroup, 0});
    if (weather_.urgent)
      Step(node, engine::OpenGroup{kUrgentGroup, 0, /*priority=*/1});
    node.first_known = true;
  }
  const bool steps = weather_.ops_per_step > 0;
  for (Use* use : {&node.main, &node.urgent}) {
    if (use->group == kUrgentGroup && !weather_.urgent) continue;
    if (!MayCall(node, *use)) continue;
    if (steps && node.in_step && StepIsOver(node, node.main) &&
        (!weather_.urgent || StepIsOver(node, node.urgent)))
      node.in_step = false;
    const Seq next = node.engine->group_info(use->group)->next_seq;
    if (steps && !node.in_step) {
      if (std::exchange(node.step_pending, true)) continue;
      AskForStep(node);
    } else if (!steps || next < use->step_end) {
      StartNext(node, *use);
      use->resting_until = now_ + RestAfter(next) + LagBefore(node, next + 1);
    } else {
      continue;
    }
    AtNode(node, OfUser(node, use->resting_until), [this, &node] { GoOn(node); });
  }
}

// With doubts: who waits long for it takes it back, and asks again after a while.
void World::AskForStep(Node& node) {
  Step(node, engine::BeginStep{-1, weather_.strict != 0});
  if (!weather_.doubts) return;
  const TimeNs patience = (1 + ++node.asked % 4) * weather_.delay_max_us * kMicrosecond;
  AtNode(node, OfUser(node, now_ + patience), [this, &node, asked = node.asked, patience] {
    if (!node.step_pending || node.asked != asked) return;
    Step(node, engine::WithdrawStep{});
    node.step_pending = false;
    for (Use* use : {&node.main, &node.urgent}) use->resting_until = now_ + patience;
    AtNode(node, OfUser(node, now_ + patience), [this, &node] { GoOn(node); });
  });
}

bool World::StepIsOver(const Node& node, const Use& use) const {
  const auto info = node.engine->group_info(use.group);
  const bool through = info->in_flight + info->queued == 0 || weather_.eager;
  return info->next_seq >= use.step_end && through;
}

bool World::MayCall(Node& node, Use& use) {
  if (use.resting_until > now_) return false;
  const auto info = node.engine->group_info(use.group);
  const size_t under_way = info->in_flight + info->queued;
  if (under_way == 0) FailIf(use.memory.CheckIdle(info->delivered_end));
  if (under_way >= static_cast<size_t>(weather_.window) + 2) return false;
  return !director_ || director_->MayCall(node, info->next_seq);
}

// Bursts and pauses, the same for all: a user computes between his calls. Without pauses a run is
// thousands of operations that no fault ever meets.
TimeNs World::RestAfter(Seq seq) const {
  if (director_) return director_->pause();
  Random dice(seed_ * 104729 + seq);
  return dice.Below(3) > 0 ? dice.Between(0, 50 * kMicrosecond)
                           : dice.Between(1, 20) * kMillisecond;
}

// Nobody is left who was in: what comes afterwards is another job, which counts from 0 again.
bool World::JobIsOver() const {
  if (ended_) return true;
  return begun_ && std::none_of(nodes_.begin(), nodes_.end(), [](const auto& node) {
           const engine::Phase phase = node->engine->phase();
           return node->alive && !node->hung &&
                  (phase == engine::Phase::kMember || phase == engine::Phase::kLeaving);
         });
}

// False for one that waits in vain: its replica is not whole, or it cannot reach somebody.
bool World::MayEnter(const Node& newcomer) const {
  std::set<int> shards;
  for (const auto& node : nodes_) {
    if (!node->alive || node->over || node->hung) continue;
    if (node->card.replica == newcomer.card.replica) shards.insert(node->card.shard);
    for (const auto& other : nodes_) {
      const bool mates =
          node->card.replica == newcomer.card.replica && other->alive && !other->over;
      const bool cut =
          cut_.contains({node->index, other->index}) || cut_.contains({other->index, node->index});
      if (mates && cut) return false;
    }
  }
  return static_cast<int>(shards.size()) == weather_.shards;
}

// False while losses have left fewer replicas than the job needs: it waits for newcomers then, and
// has none to wait for in the end (rule Q4). Who is struck may be among the lost; but where one
// replica is enough, whoever is left goes on, struck or not.
bool World::HasQuorum() const {
  if (weather_.min_replicas == 1) return true;
  std::set<int> replicas;
  for (const auto& node : nodes_) {
    if (node->alive && !node->over && !node->struck && MayEnter(*node))
      replicas.insert(node->card.replica);
  }
  return static_cast<int>(replicas.size()) >= weather_.min_replicas;
}

bool World::Finished() const {
  for (const auto& node : nodes_) {
    if (!node->alive || node->over || node->hung) continue;
    if (node->engine->phase() == engine::Phase::kLeft ||
        node->engine->phase() == engine::Phase::kEvicted)
      continue;
    if (node->engine->phase() == engine::Phase::kJoining && !MayEnter(*node)) continue;
    if (weather_.hosted && IsLeftOut(*node)) continue;
    const bool short_of_it =
        node->main.delivered_end < goal_ || node->urgent.delivered_end < urgent_goal_;
    if (short_of_it) return weather_.hosted ? QuorumIsLost() : !HasQuorum();
  }
  return true;
}

}  // namespace ftar::sim
