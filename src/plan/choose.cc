#include "plan/choose.h"

#include <algorithm>

namespace ftar::plan {
namespace {

// What a member sends grows with the members, as (n - 1) times the input, while direct stays below
// twice the input. Two members send the same either way, and save a round.
constexpr uint64_t kOneShotBytesMin = 4 * 1024, kOneShotSentMax = 64 * 1024,
                   kOneShotFits = 16 * 1024;
// Between two of them the copies that a wire makes are as many either way.
constexpr uint64_t kOneShotWiredTwo = 256 * 1024;
constexpr uint64_t kOneShotWiredMost = 16 << 20;
constexpr int kDirectMembersMax = 64;

// TCP between two cores, where no card is slower; and this library's kernels.
constexpr uint64_t kBytePs = 150, kReduceBytePs = 45;

// Up to where one-shot takes no longer than direct. In whole numbers, since members of different
// processors have to come to the same.
uint64_t OneShotOnWires(const Ground& ground) {
  const auto n = static_cast<uint64_t>(ground.members), others = n - 1;
  const uint64_t byte_ps = ground.byte_ps > 0 ? ground.byte_ps : kBytePs;
  const uint64_t spared_ps = 1000 * uint64_t{ground.round_ns} / others + 1000 * kMessageNs;
  return std::min(spared_ps * n / (byte_ps * (n - 2) + kReduceBytePs * others), kOneShotWiredMost);
}

uint64_t OneShotBytes(const Ground& ground) {
  const uint64_t others = std::max<uint64_t>(ground.members, 2) - 1;
  if (ground.wired && ground.round_ns > 0 && ground.members > 1) return OneShotOnWires(ground);
  // Inside a host what fits into the lane costs each member one pass; more is sent for that
  // elsewhere.
  const uint64_t fits = std::min(kOneShotFits, 2 * kOneShotSentMax / others);
  uint64_t small = std::max({kOneShotBytesMin, kOneShotSentMax / others, fits});
  if (ground.wired && ground.members == 2) small = kOneShotWiredTwo;
  if (ground.lane) small = std::min(small, kOneShotFits);
  return small;
}

}  // namespace

PlanKind Choose(Kind kind, uint64_t bytes, const Ground& ground, const Wish& wish) {
  // Where each message costs its receiver a change of who runs: through one owner they are
  // 2 (n - 1) of all together, instead of n (n - 1).
  const bool through_owner =
      ground.crowded && !ground.lane && ground.members > 2 && !wish.oneshot_max_bytes;
  if (kind == Kind::kBarrier) return through_owner ? PlanKind::kDirect : PlanKind::kOneShot;
  if (kind != Kind::kAllReduce) return PlanKind::kDirect;
  if (wish.forced == PlanKind::kRing && wish.deterministic) return PlanKind::kDirect;
  if (wish.forced != PlanKind::kAuto) return wish.forced;
  if (!through_owner && bytes <= wish.oneshot_max_bytes.value_or(OneShotBytes(ground)))
    return PlanKind::kOneShot;
  return ground.members <= kDirectMembersMax || wish.deterministic ? PlanKind::kDirect
                                                                   : PlanKind::kRing;
}

}  // namespace ftar::plan
