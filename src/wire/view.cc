#include "wire/view.h"

#include <set>

namespace ftar::wire {

bool Bound::Reached(GroupKey group, Seq seq, uint64_t op_step) const {
  switch (kind) {
    case Kind::kNone: return false;
    case Kind::kAlways: return true;
    case Kind::kStep: return op_step >= step;
    case Kind::kSeq: break;
  }
  for (const SeqBound& bound : seqs) {
    if (bound.group == group) return seq >= bound.seq;
  }
  return seq >= default_seq;
}

const ViewEntry* View::Find(MemberId id) const {
  for (const ViewEntry& entry : entries) {
    if (entry.card.id == id) return &entry;
  }
  return nullptr;
}

std::vector<MemberId> View::Successors() const {
  std::vector<MemberId> first;
  std::set<int32_t> replicas;
  for (const ViewEntry& entry : entries) {
    if (replicas.insert(entry.card.replica).second) first.push_back(entry.card.id);
  }
  return first;
}

}  // namespace ftar::wire
