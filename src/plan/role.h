// A plan as data: what one member does for one chunk of one attempt. Pure functions of (kind, plan,
// members, chunk, me).
//
// Ranks here are positions in the attempt's member list, which is also the order of additions.
// Every plan is a chunk-wise flow: raw inputs or partial sums come in, one reduction, a partial or
// the final goes out, finals are landed and passed on.
#ifndef FTAR_PLAN_ROLE_H_
#define FTAR_PLAN_ROLE_H_

#include <cstdint>
#include <vector>

namespace ftar::plan {

// Values equal FTAR_ALLREDUCE and so on.
enum class Kind : uint8_t {
  kAllReduce = 0,
  kReduceScatter = 1,
  kAllGather = 2,
  kBroadcast = 3,
  kBarrier = 4
};
enum class PlanKind : uint8_t { kAuto = 0, kOneShot = 1, kDirect = 2, kRing = 3 };
const char* PlanName(PlanKind plan);
// Nothing is added up.
constexpr bool Copies(Kind kind) { return kind == Kind::kAllGather || kind == Kind::kBroadcast; }
// Its input or its output is a segment for each member.
constexpr bool HasSegments(Kind kind) {
  return kind == Kind::kReduceScatter || kind == Kind::kAllGather;
}

struct Role {
  std::vector<int> raw_to;  // send my input of this chunk to these
  bool reduces =
      false;  // wait for `raw_from` (and `partial_from`), reduce together with my own input
  std::vector<int>
      raw_from;  // ascending, without me; additions run in rank order with mine at its place
  int partial_from =
      -1;  // ring: the sum so far; it comes before my own input in the order of additions
  int partial_to = -1;        // ring: my reduction is a partial sum and goes there
  bool makes_final = false;   // my reduction (or my input, for a gather) is the final chunk
  bool gathers = false;       // the final chunk is a copy of my input, nothing is reduced
  std::vector<int> final_to;  // pass the final chunk on to these: when made, or when received
  int final_from = -1;        // who sends me the final chunk; -1 if I make it or need none
  bool lands = false;         // the final chunk belongs into my output

  void Clear();  // keeps the memory
};

// `owner`: position that makes the final chunk; -1 if nobody does (the segment's owner is gone).
// `me` in [0, members). `role` is clear.
void AddRole(Kind kind, PlanKind plan, int members, int owner, int me, Role* role);

}  // namespace ftar::plan

#endif  // FTAR_PLAN_ROLE_H_
