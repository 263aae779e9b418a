// Faults that are aimed: they strike behind what members say to each other, call or deliver, where
// those of faults.cc come at any time or behind a word of the coordinator.
#include <algorithm>
#include <utility>
#include <variant>

#include "node.h"
#include "world.h"

namespace ftar::sim {

// A user that computes longer than the others, before some of its calls.
TimeNs World::LagBefore(const Node& node, Seq seq) const {
  constexpr uint64_t kOf = 16;
  if (weather_.laggards == 0 || calm_) return 0;
  Random dice(seed_ * 15485863 + seq * 131 + node.index);
  if (dice.Below(kOf) >= static_cast<uint64_t>(weather_.laggards)) return 0;
  return dice.Between(2 * kMillisecond, 60 * kMillisecond);
}

// A word from member to member gets stuck, and what is sent behind it on that link: others hear of
// the same from their own links long before. Fresh links are slow more often.
void World::Clog(Node& from, Node& to, const wire::Message& message) {
  const bool verdicts = std::holds_alternative<wire::ColumnVerdicts>(message);
  const bool matters = verdicts || std::holds_alternative<wire::StepMark>(message) ||
                       std::holds_alternative<wire::Announce>(message);
  const bool fresh = to.main.delivered_end == 0 && !verdicts;
  if (!matters || calm_ || !begun_ || !later_.Chance(fresh ? 0.7 : 0.1)) return;
  --clogs_left_;
  const TimeNs by = later_.Between(2 * kMillisecond, 150 * kMillisecond);
  if (trace_) Trace("clog   " + ToString(from.card.id) + " - " + ToString(to.card.id));
  Strike(from);
  Strike(to);
  Wire& wire = WireOf(from.index, to.index);
  wire.free = wire.word_free = std::max(wire.free, now_ + by);
  Unquiet(now_ + by);
}

// Who has delivered a failure dies: the others may be the only ones who can tell of it (rule V6).
void World::StrikeWhoFailed(Node& node) {
  if (calm_ || !later_.Chance(0.7)) return;
  --failure_deaths_left_;
  const TimeNs dies = now_ + later_.Between(0, 3 * weather_.delay_max_us * kMicrosecond);
  Unquiet(dies + kMillisecond);
  At(dies, [this, &node] {
    if (node.alive && !node.over && Victim(true)) Kill(node);
  });
}

// Behind a word of a planned change, the coordinator's or a member's: somebody dies, stands still
// or loses the coordinator.
void World::StrikePlan(const wire::Message& message) {
  const bool plans = std::holds_alternative<wire::Propose>(message) ||
                     std::holds_alternative<wire::Reserved>(message) ||
                     std::holds_alternative<wire::Confirm>(message) ||
                     std::holds_alternative<wire::Confirmed>(message) ||
                     std::holds_alternative<wire::Announce>(message) ||
                     std::holds_alternative<wire::Announced>(message);
  if (!plans || calm_ || !begun_ || !later_.Chance(0.5)) return;
  --plan_strikes_left_;
  const TimeNs delay = later_.Between(0, 2 * weather_.delay_max_us * kMicrosecond);
  const uint64_t what = later_.Below(4);
  Unquiet(now_ + delay + kMillisecond);
  After(delay, [this, what] {
    if (what < 2) return KillOne();
    if (what == 3) return HiccupOne();
    if (Node* node = Victim(true)) Stop(*node, later_.Between(20, 300) * kMillisecond);
  });
}

}  // namespace ftar::sim
