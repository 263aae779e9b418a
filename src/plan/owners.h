// Where the owners of an operation's chunks stand in an attempt. Pure.
#ifndef FTAR_PLAN_OWNERS_H_
#define FTAR_PLAN_OWNERS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace ftar::plan {

// Both lists hold member keys, in about the same order: those that own the chunks, or segments, and
// those of the attempt, in which owners are positions.
template <typename Id>
class Owners {
 public:
  Owners(const std::vector<Id>& origin, const std::vector<Id>& current)
      : origins_(origin.size()), current_(current.size()) {
    if (origin == current) return;
    std::vector<std::pair<Id, int>> places;
    places.reserve(current.size());
    for (const Id& id : current) places.emplace_back(id, static_cast<int>(places.size()));
    std::sort(places.begin(), places.end());
    at_.reserve(origin.size());
    for (const Id& id : origin) {
      const auto found = std::lower_bound(places.begin(), places.end(), std::pair{id, -1});
      at_.push_back(found != places.end() && found->first == id ? found->second : -1);
    }
  }
  // -1: the owner is gone.
  int At(size_t index) const { return at_.empty() ? static_cast<int>(index) : at_[index]; }
  // A chunk's owner in `origin` while that lives, else a survivor by turns, so only a leaver's
  // chunks change owner (rule F5).
  int ByTurns(uint32_t chunk) const {
    const int first = At(chunk % origins_);
    return first >= 0 ? first : static_cast<int>(chunk / origins_ % current_);
  }

 private:
  const size_t origins_, current_;
  std::vector<int> at_;  // by origin; empty: the lists are the same
};

}  // namespace ftar::plan

#endif  // FTAR_PLAN_OWNERS_H_
