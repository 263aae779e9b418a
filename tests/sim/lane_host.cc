// Members publish in their lanes, and others see it.
#include <algorithm>
#include <utility>

#include "node.h"
#include "story/director.h"
#include "world.h"

namespace ftar::sim {

namespace {
constexpr TimeNs kSeenMax = 400 * kMicrosecond;
}  // namespace

// In half of the weather with lanes everybody sees everybody; in the other half not quite.
void World::OpenLane(Node& node, engine::Config* config) {
  const bool blind = weather_.lanes > 1;
  node.lane = std::make_unique<MemberLane>(
      &lane_host_, node.card.id, [this, blind, reader = node.index](MemberId writer) {
        return !blind || (seed_ * 31 + reader * 7 + writer.lo * 3) % 5 != 0;
      });
  for (Use* use : {&node.main, &node.urgent}) use->memory.Attach(use->group, node.lane.get());
  config->group.lane = node.lane.get();
}

void World::Publish(Node& node, GroupKey group, const collective::Todo& todo) {
  Buffer input;
  FailIf(node.Of(group).memory.Read(todo.frame.payload, &input));
  if (trace_)
    Trace("line   " + ToString(node.card.id) + " op " + std::to_string(todo.line.seq) +
          " attempt " + std::to_string(EpochCounter(todo.line.attempt)));
  // In a story a member's wire to itself says when its stores are seen.
  const auto delay = [&](const Node& reader) {
    return director_ ? director_->WireTime(node.index, reader.index) : lanes_.Between(0, kSeenMax);
  };
  const TimeNs seen_at = node.lane->Publish(group, todo.line, std::move(input), delay(node));
  for (const auto& other : nodes_) {
    if (other->alive) TellOfLane(*other, seen_at + (other.get() == &node ? 0 : delay(*other)));
  }
}

// It polls.
void World::TellOfLane(Node& node, TimeNs at) {
  AtNode(node, at, [this, &node] {
    if (node.engine->HasLaneNews()) Feed(node, engine::Tick{});
  });
}

// The user's thread publishes, and looks for some time; whatever happens to its member before the
// end stops the fast path.
bool World::CallFast(Node& node) {
  collective::LaneLine line;
  const collective::OpSpec& called = node.main.unnumbered.back();
  if (!node.engine->StartFast(kGroup, {now_, &called, false}, &line)) return false;
  const Seq seq = node.fast = line.seq;
  if (trace_) Trace("called " + ToString(node.card.id) + " op " + std::to_string(seq) + ", fast");
  OnStarted(node, node.main, seq);
  collective::Todo todo;
  todo.line = line;
  const collective::OpSpec& spec = node.main.specs.at(seq);
  todo.frame.payload = {collective::BufferRef::Kind::kSend, seq, 0, spec.count * kElementBytes};
  Publish(node, kGroup, todo);
  node.begun.clear();
  PeekFast(node, seq);
  LookFast(node, seq);
  AtNode(node, OfUser(node, now_ + lanes_.Between(1, kSeenMax / 4)),
         [this, &node, seq] { PeekFast(node, seq); });
  AtNode(node, OfUser(node, now_ + lanes_.Between(1, kSeenMax)),
         [this, &node, seq] { LookFast(node, seq); });
  return true;
}

// What is there of long inputs is made before their lines are seen, and is not made again.
void World::PeekFast(Node& node, Seq seq) {
  if (node.fast != seq || !node.engine->in_fast() || !node.begun.empty()) return;
  const uint64_t there = node.engine->BegunFast();
  if (there == 0) return;
  FailIf(node.main.memory.RunFast(node.engine->fast_work(), node.engine->view()->era, &node.begun));
  node.begun.resize(there / 2 + 1);
}

void World::LookFast(Node& node, Seq seq) {
  if (node.fast != seq || !node.engine->in_fast()) return;
  const collective::FastLook found = node.engine->LookFast(now_);
  if (found == collective::FastLook::kWait) return;
  if (found == collective::FastLook::kStopped) return Drain(node);
  Buffer result;
  FailIf(node.main.memory.RunFast(node.engine->fast_work(), node.engine->view()->era, &result));
  std::copy(node.begun.begin(), node.begun.end(), result.begin());
  // It may be slow to look at the flags, and finds them as they are then.
  AtNode(node, OfWork(node, now_ + WorkTime()),
         [this, &node, seq, result = std::move(result)]() mutable {
           EndFast(node, seq, std::move(result));
         });
}

void World::EndFast(Node& node, Seq seq, Buffer result) {
  if (node.fast != seq || !node.engine->in_fast()) return;
  if (const auto outcome = node.engine->EndFast(now_, now_)) {
    Memory::OpBuffers& buffers = *node.main.memory.Find(seq);
    buffers.recv = std::move(result);
    OnDelivered(node, node.main, *outcome);
  }
  Drain(node);
}

}  // namespace ftar::sim
