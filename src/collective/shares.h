// How far a member is with a shared call on the fast path (group_share.cc), block by block.
#ifndef FTAR_COLLECTIVE_SHARES_H_
#define FTAR_COLLECTIVE_SHARES_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "plan/grid.h"

namespace ftar::collective {

// Each member has the chunks that it owns, by position. They come in their order: those before `at`
// are here whole, and of that one its first elements. One block of one owner is made at a time,
// from Next to Finish; whose it is goes round, so that nobody waits for one while another's is
// there.
class Shares {
 public:
  struct Share {
    std::vector<plan::Chunk> chunks;
    size_t at = 0;                    // of chunks: those before it are here
    uint64_t elements = 0, made = 0;  // of that one, and of all, that are here
  };

  // Of `chunks`, which go to `members` by turns; `block`: elements, at most.
  void Cut(const plan::Grid& grid, size_t members, size_t me, uint64_t block);
  void Begin();  // nothing is here
  // The next block, with its owner, of what `made` says has been made: elements, by owner. A chunk
  // goes `whole` in place, so that it is overwritten or not, and where nobody copies it.
  template <typename Made>
  bool Next(bool whole, const Made& made);
  size_t owner() const { return now_; }
  const plan::Chunk& block() const { return block_; }
  void Finish();  // it is here, if there is one

  bool all_here() const {
    return std::ranges::all_of(by_owner_, [](const Share& s) { return s.at == s.chunks.size(); });
  }
  bool some_here() const {
    return std::ranges::any_of(by_owner_, [](const Share& s) { return s.at > 0; });
  }
  uint64_t own() const { return by_owner_[me_].made; }  // elements
  std::span<const Share> by_owner() const { return by_owner_; }
  std::span<const plan::Chunk> others() const { return others_; }  // chunks that others own

 private:
  static constexpr size_t kNobody = ~size_t{0};
  bool Take(size_t owner, uint64_t made, bool whole);

  std::vector<Share> by_owner_;
  std::vector<plan::Chunk> others_;
  uint64_t block_most_ = 0;  // elements
  size_t me_ = 0;
  size_t turn_ = 0;       // whose block comes next
  size_t now_ = kNobody;  // whose block_ is being made
  plan::Chunk block_;
};

template <typename Made>
bool Shares::Next(bool whole, const Made& made) {
  const size_t members = by_owner_.size();
  for (size_t i = 0; i < members; ++i) {
    const size_t owner = turn_;
    turn_ = (turn_ + 1) % members;
    if (Take(owner, made(owner), whole)) return true;
  }
  return false;
}

}  // namespace ftar::collective

#endif  // FTAR_COLLECTIVE_SHARES_H_
