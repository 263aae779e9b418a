// Members publish in their lanes, and others see it.
#include <utility>

#include "node.h"
#include "story/director.h"
#include "world.h"

namespace ftar::sim {

namespace {
constexpr TimeNs kSeenMax = 400 * kMicrosecond;
}

// In half of the weather with lanes everybody sees everybody; in the other half not quite.
void World::OpenLane(Node& node, engine::Config* config) {
  const bool blind = weather_.lanes > 1;
  node.lane = std::make_unique<MemberLane>(
      &lane_host_, node.card.id, [this, blind, reader = node.index](MemberId writer) {
        return !blind || (seed_ * 31 + reader * 7 + writer.lo * 3) % 5 != 0;
      });
  node.memory.Attach(kGroup, node.lane.get());
  config->group.lane = node.lane.get();
}

void World::Publish(Node& node, GroupKey group, const collective::Todo& todo) {
  Buffer input;
  FailIf(node.memory.Read(todo.frame.payload, &input));
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

}  // namespace ftar::sim
