// The newest of what was put in, up to a capacity: for what must not be met again soon, where
// remembering all of it for ever would be a leak. Not synchronised.
#ifndef FTAR_BASE_RECENT_SET_H_
#define FTAR_BASE_RECENT_SET_H_

#include <cstddef>
#include <deque>
#include <unordered_set>

namespace ftar {

template <typename T>
class RecentSet {
 public:
  explicit RecentSet(size_t capacity) : capacity_(capacity) {}

  // What is there already stays where it is in the order.
  void Add(const T& value) {
    if (!set_.insert(value).second) return;
    order_.push_back(value);
    if (order_.size() <= capacity_) return;
    set_.erase(order_.front());
    order_.pop_front();
  }
  bool Contains(const T& value) const { return set_.contains(value); }
  size_t size() const { return set_.size(); }

 private:
  size_t capacity_;
  std::unordered_set<T> set_;
  std::deque<T> order_;  // oldest first
};

}  // namespace ftar

#endif  // FTAR_BASE_RECENT_SET_H_
