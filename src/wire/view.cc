#include "wire/view.h"

#include <algorithm>
#include <cstddef>
#include <set>

namespace ftar::wire {
namespace {

uint32_t MedianOf(const std::vector<WireCosts>& all, uint32_t WireCosts::*cost) {
  std::vector<uint32_t> known;
  for (const WireCosts& one : all) {
    if (one.*cost > 0) known.push_back(one.*cost);
  }
  if (known.empty()) return 0;
  const auto middle = known.begin() + static_cast<std::ptrdiff_t>((known.size() - 1) / 2);
  std::nth_element(known.begin(), middle, known.end());
  return *middle;
}

}  // namespace

WireCosts MedianOf(const std::vector<WireCosts>& all) {
  return {MedianOf(all, &WireCosts::round_ns), MedianOf(all, &WireCosts::byte_ps)};
}

Seq Bound::SeqIn(GroupKey group) const {
  if (kind != Kind::kSeq) return 0;
  for (const SeqBound& bound : seqs) {
    if (bound.group == group) return bound.seq;
  }
  return default_seq;
}

bool Bound::Reached(GroupKey group, Seq seq, uint64_t op_step) const {
  switch (kind) {
    case Kind::kNone: return false;
    case Kind::kAlways: return true;
    case Kind::kStep: return op_step >= step;
    case Kind::kSeq: break;
  }
  return seq >= SeqIn(group);
}

const ViewEntry* FindEntry(const std::vector<ViewEntry>& entries, MemberId id) {
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
