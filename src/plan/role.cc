#include "plan/role.h"

#include <cassert>

namespace ftar::plan {
namespace {

constexpr uint64_t kOneShotBytesMax = 4096;
constexpr int kDirectMembersMax = 64;

std::vector<int> AllBut(int members, int me) {
  std::vector<int> out;
  out.reserve(members > 0 ? members - 1 : 0);
  for (int i = 0; i < members; ++i) {
    if (i != me) out.push_back(i);
  }
  return out;
}

Role OneShot(int members, int me) {
  Role role;
  role.raw_to = role.raw_from = AllBut(members, me);
  role.reduces = role.makes_final = role.lands = true;
  return role;
}

Role Direct(int members, int owner, int me, bool spread) {
  Role role;
  if (me != owner) {
    role.raw_to = {owner};
    role.lands = spread;
    role.final_from = spread ? owner : -1;
    return role;
  }
  role.raw_from = AllBut(members, me);
  role.reduces = role.makes_final = role.lands = true;
  if (spread) role.final_to = role.raw_from;
  return role;
}

// The sum travels owner+1, owner+2, ..., owner and the final chunk on from there, once around. So
// additions run in ring order starting behind the owner, which is why the ring's bits differ from
// those of one-shot and direct.
Role Ring(int members, int owner, int me) {
  Role role;
  const int next = (me + 1) % members;
  const int previous = (me + members - 1) % members;
  role.reduces = role.lands = true;
  if (previous != owner) role.partial_from = previous;
  if (me == owner) {
    role.makes_final = true;
  } else {
    role.partial_to = next;
    role.final_from = previous;
  }
  if (next != owner) role.final_to = {next};
  return role;
}

Role Gather(int members, int owner, int me) {
  Role role;
  role.lands = true;
  if (me == owner) {
    role.gathers = role.makes_final = true;
    role.final_to = AllBut(members, me);
  } else {
    role.final_from = owner;
  }
  return role;
}

}  // namespace

const char* PlanName(PlanKind plan) {
  switch (plan) {
    case PlanKind::kAuto: return "auto";
    case PlanKind::kOneShot: return "oneshot";
    case PlanKind::kDirect: return "direct";
    case PlanKind::kRing: return "ring";
  }
  return "unknown";
}

PlanKind Choose(Kind kind, PlanKind forced, uint64_t bytes, int members, bool deterministic) {
  if (kind == Kind::kBarrier) return PlanKind::kOneShot;
  if (kind != Kind::kAllReduce) return PlanKind::kDirect;
  if (forced == PlanKind::kRing && deterministic) forced = PlanKind::kDirect;
  if (forced != PlanKind::kAuto) return forced;
  if (bytes <= kOneShotBytesMax) return PlanKind::kOneShot;
  return members <= kDirectMembersMax || deterministic ? PlanKind::kDirect : PlanKind::kRing;
}

Role RoleOf(Kind kind, PlanKind plan, int members, int owner, int me) {
  assert(me >= 0 && me < members && owner < members);
  if (kind == Kind::kAllGather || kind == Kind::kBroadcast)
    return owner < 0 ? Role{} : Gather(members, owner, me);
  if (kind == Kind::kReduceScatter)
    return owner < 0 ? Role{} : Direct(members, owner, me, /*spread=*/false);
  if (members == 1) return OneShot(1, 0);
  switch (plan) {
    case PlanKind::kOneShot: return OneShot(members, me);
    case PlanKind::kRing: return Ring(members, owner, me);
    case PlanKind::kAuto:
    case PlanKind::kDirect: break;
  }
  return Direct(members, owner, me, /*spread=*/true);
}

}  // namespace ftar::plan
