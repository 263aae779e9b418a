#include "plan/role.h"

#include <cassert>

namespace ftar::plan {
namespace {

void AllBut(int members, int me, std::vector<int>* out) {
  for (int i = 0; i < members; ++i) {
    if (i != me) out->push_back(i);
  }
}

void OneShot(int members, int me, Role* role) {
  AllBut(members, me, &role->raw_to);
  AllBut(members, me, &role->raw_from);
  role->reduces = role->makes_final = role->lands = true;
}

void Direct(int members, int owner, int me, bool spread, Role* role) {
  if (me != owner) {
    role->raw_to.push_back(owner);
    role->lands = spread;
    role->final_from = spread ? owner : -1;
    return;
  }
  AllBut(members, me, &role->raw_from);
  role->reduces = role->makes_final = role->lands = true;
  if (spread) AllBut(members, me, &role->final_to);
}

// The sum travels owner+1, owner+2, ..., owner and the final chunk on from there, once around. So
// additions run in ring order starting behind the owner, which is why the ring's bits differ from
// those of one-shot and direct.
void Ring(int members, int owner, int me, Role* role) {
  const int next = (me + 1) % members;
  const int previous = (me + members - 1) % members;
  role->reduces = role->lands = true;
  if (previous != owner) role->partial_from = previous;
  if (me == owner) {
    role->makes_final = true;
  } else {
    role->partial_to = next;
    role->final_from = previous;
  }
  if (next != owner) role->final_to.push_back(next);
}

void Gather(int members, int owner, int me, Role* role) {
  role->lands = true;
  if (me == owner) {
    role->gathers = role->makes_final = true;
    AllBut(members, me, &role->final_to);
  } else {
    role->final_from = owner;
  }
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

void Role::Clear() {
  raw_to.clear();
  raw_from.clear();
  final_to.clear();
  partial_from = partial_to = final_from = -1;
  reduces = makes_final = gathers = lands = false;
}

void AddRole(Kind kind, PlanKind plan, int members, int owner, int me, Role* role) {
  assert(me >= 0 && me < members && owner < members);
  if (kind == Kind::kAllGather || kind == Kind::kBroadcast) {
    if (owner >= 0) Gather(members, owner, me, role);
  } else if (kind == Kind::kReduceScatter) {
    if (owner >= 0) Direct(members, owner, me, /*spread=*/false, role);
  } else if (members == 1 || plan == PlanKind::kOneShot) {
    OneShot(members, me, role);
  } else if (plan == PlanKind::kRing) {
    Ring(members, owner, me, role);
  } else {
    Direct(members, owner, me, /*spread=*/true, role);
  }
}

}  // namespace ftar::plan
