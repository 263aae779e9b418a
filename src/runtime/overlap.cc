#include "runtime/overlap.h"

#include <algorithm>
#include <iterator>

namespace ftar::runtime {

Clash ClashOf(const OpRanges& first, const OpRanges& second) {
  if (first.written.Overlaps(second.written)) return {"recv", "recv"};
  if (first.written.Overlaps(second.read)) return {"recv", "send"};
  if (first.read.Overlaps(second.written)) return {"send", "recv"};
  return {};
}

OverlapIndex::OverlapIndex(std::span<const OpRanges> ops) {
  for (size_t i = 0; i < ops.size(); ++i) {
    const auto add = [i](const ByteRange& range, std::vector<Entry>* to) {
      if (range.begin < range.end) to->push_back({range, i, 0});
    };
    add(ops[i].read, &read_);
    add(ops[i].written, &written_);
  }
  Sort(&read_);
  Sort(&written_);
  for (size_t i = 1; i < written_.size(); ++i)
    collide_ = collide_ || written_[i].range.begin < written_[i - 1].furthest;
  collide_ = collide_ || std::ranges::any_of(
                             read_, [this](const Entry& read) { return WrittenByAnother(read); });
}

void OverlapIndex::Sort(std::vector<Entry>* entries) {
  std::ranges::sort(*entries, {}, [](const Entry& entry) { return entry.range.begin; });
  uintptr_t furthest = 0;
  for (Entry& entry : *entries) entry.furthest = furthest = std::max(furthest, entry.range.end);
}

// Of those that begin before its end, one ends behind its begin.
bool OverlapIndex::Meets(const std::vector<Entry>& entries, const ByteRange& range) {
  if (range.begin >= range.end) return false;
  const auto behind = std::ranges::lower_bound(
      entries, range.end, {}, [](const Entry& entry) { return entry.range.begin; });
  return behind != entries.begin() && std::prev(behind)->furthest > range.begin;
}

// What is written does not overlap, so what overlaps `read` lies side by side.
bool OverlapIndex::WrittenByAnother(const Entry& read) const {
  auto at = std::ranges::lower_bound(written_, read.range.end, {},
                                     [](const Entry& entry) { return entry.range.begin; });
  while (at != written_.begin() && (--at)->range.end > read.range.begin) {
    if (at->op != read.op) return true;
  }
  return false;
}

bool OverlapIndex::CollidesWith(const OpRanges& other) const {
  return Meets(written_, other.written) || Meets(written_, other.read) ||
         Meets(read_, other.written);
}

}  // namespace ftar::runtime
