#include "membership/bounds.h"

#include <algorithm>
#include <limits>
#include <map>
#include <tuple>

#include "base/mutant.h"

namespace ftar::membership {
namespace {

using wire::Bound;

// Group by group; one that only one side lists stands against the other side's default.
Bound LaterSeq(const Bound& a, const Bound& b) {
  std::map<GroupKey, Seq> seqs;
  for (const Bound* side : {&a, &b}) {
    for (const wire::SeqBound& at : side->seqs)
      seqs[at.group] = std::max(a.SeqIn(at.group), b.SeqIn(at.group));
  }
  Bound out{Bound::Kind::kSeq, 0, std::max(a.default_seq, b.default_seq), {}};
  for (const auto& [group, seq] : seqs) out.seqs.push_back({group, seq});
  return out;
}

// Orders first bounds, roughly where they are by operation in several groups.
uint64_t PlaceOf(const Bound& first) {
  switch (first.kind) {
    case Bound::Kind::kAlways: return 0;
    case Bound::Kind::kStep: return first.step;
    case Bound::Kind::kSeq: break;
    case Bound::Kind::kNone: return std::numeric_limits<uint64_t>::max();
  }
  uint64_t place = first.default_seq;
  for (const wire::SeqBound& at : first.seqs) place = std::max(place, at.seq);
  return place;
}

}  // namespace

void FillBounds(const std::map<int32_t, wire::Decided>& decided,
                std::vector<wire::ViewEntry>* entries) {
  std::map<MemberId, const wire::BoundOf*> bounds;
  LatestBound first, last;
  for (const auto& [column, decision] : decided) {
    for (const wire::BoundOf& bound : decision.bounds) {
      bounds[bound.member] = &bound;
      if (bound.fresh_first) first.Add(bound.first);
      if (bound.fresh_last) last.Add(bound.last);
    }
  }
  // An announcement that one column has heard binds the replica in all, where nobody has passed it.
  std::map<int32_t, wire::Bound> first_kept, last_kept;
  for (const wire::ViewEntry& entry : *entries) {
    const auto found = bounds.find(entry.card.id);
    if (found == bounds.end()) continue;
    if (!found->second->fresh_first) first_kept[entry.card.replica] = found->second->first;
    if (!found->second->fresh_last && found->second->last.kind != wire::Bound::Kind::kNone)
      last_kept[entry.card.replica] = found->second->last;
  }
  const auto fill = [](const LatestBound& fresh, const wire::Bound& own,
                       const std::map<int32_t, wire::Bound>& kept, int32_t replica) {
    const wire::Bound chosen = fresh.Of(own);
    const auto known = kept.find(replica);
    if (known == kept.end()) return chosen;
    LatestBound later;
    later.Add(own);
    later.Add(known->second);
    return later.Common() == known->second ? known->second : chosen;
  };
  for (wire::ViewEntry& entry : *entries) {
    const auto found = bounds.find(entry.card.id);
    if (found == bounds.end()) {
      entry.last = {};
      continue;
    }
    const wire::BoundOf& bound = *found->second;
    const int32_t replica = entry.card.replica;
    entry.first = bound.fresh_first ? fill(first, bound.first, first_kept, replica) : bound.first;
    entry.last = bound.fresh_last ? fill(last, bound.last, last_kept, replica) : bound.last;
  }
}

const wire::ViewEntry* ColumnRoot(const wire::View& view, int32_t shard) {
  const auto key = [](const wire::ViewEntry& entry) {
    return std::tuple(entry.leaves(), PlaceOf(entry.first), entry.joined_epoch);
  };
  const wire::ViewEntry* root = nullptr;
  for (const wire::ViewEntry& entry : view.entries) {
    if (entry.card.shard == shard && (!root || key(entry) < key(*root))) root = &entry;
  }
  return root;
}

void LatestBound::Add(const Bound& bound) {
  switch (bound.kind) {
    case Bound::Kind::kStep:
      if (!step_ || (step_->step < bound.step && !FTAR_MUTANT(kColumnsApart))) step_ = bound;
      return;
    case Bound::Kind::kSeq:
      seq_ = seq_ && !FTAR_MUTANT(kColumnsApart) ? LaterSeq(*seq_, bound) : bound;
      return;
    case Bound::Kind::kNone:
    case Bound::Kind::kAlways: other_ = true; return;
  }
}

Bound LatestBound::Of(const Bound& own) const {
  if (own.kind == Bound::Kind::kStep && step_) return *step_;
  if (own.kind == Bound::Kind::kSeq && seq_) return *seq_;
  return own;
}

std::optional<Bound> LatestBound::Common() const {
  if (other_ || (step_ && seq_)) return std::nullopt;
  return step_ ? step_ : seq_;
}

wire::View ColumnOf(const wire::View& view, int32_t shard) {
  wire::View out{.epoch = view.epoch,
                 .era = view.era,
                 .base = view.base,
                 .planned = view.planned,
                 .boundary = view.boundary,
                 .entries = {},
                 .electorates = view.electorates};
  for (const wire::ViewEntry& entry : view.entries) {
    if (entry.card.shard == shard) out.entries.push_back(entry);
  }
  return out;
}

}  // namespace ftar::membership
