#include "collective/shares.h"

namespace ftar::collective {

void Shares::Cut(const plan::Grid& grid, size_t members, size_t me, uint64_t block) {
  by_owner_.assign(members, {});
  others_.clear();
  block_most_ = block;
  me_ = me;
  for (uint32_t c = 0; c < grid.chunks(); ++c) {
    const size_t owner = c % members;
    by_owner_[owner].chunks.push_back(grid.At(c));
    if (owner != me) others_.push_back(grid.At(c));
  }
}

void Shares::Begin() {
  for (Share& share : by_owner_) {
    share.at = 0;
    share.elements = share.made = 0;
  }
  turn_ = me_;
  now_ = kNobody;
}

// What there is of the next block, if that is enough.
bool Shares::Take(size_t owner, uint64_t made, bool whole) {
  const Share& share = by_owner_[owner];
  if (share.at >= share.chunks.size()) return false;
  plan::Chunk block = share.chunks[share.at];
  const uint64_t left = block.count - share.elements;
  block.first += share.elements;
  block.count = whole ? left : std::min(left, block_most_);
  if (block.count > made - share.made || block.count == 0) return false;
  block_ = block;
  now_ = owner;
  return true;
}

void Shares::Finish() {
  if (now_ == kNobody) return;
  Share& share = by_owner_[std::exchange(now_, kNobody)];
  share.elements += block_.count;
  share.made += block_.count;
  if (share.elements < share.chunks[share.at].count) return;
  share.elements = 0;
  ++share.at;
}

}  // namespace ftar::collective
