// A first-in first-out queue that never grows beyond its capacity, for what arrives faster than its
// reader reads: events of a job, flight-recorder entries. When full, the oldest entry makes room
// and is counted. Not synchronised; the owner's lock covers it.
#ifndef FTAR_BASE_BOUNDED_QUEUE_H_
#define FTAR_BASE_BOUNDED_QUEUE_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <utility>

namespace ftar {

template <typename T>
class BoundedQueue {
 public:
  // A capacity of 0 keeps nothing and counts everything.
  explicit BoundedQueue(size_t capacity) : capacity_(capacity) {}

  void Push(T value) {
    if (capacity_ == 0) {
      ++dropped_;
      return;
    }
    if (entries_.size() == capacity_) {
      entries_.pop_front();
      ++dropped_;
    }
    entries_.push_back(std::move(value));
  }

  std::optional<T> Pop() {
    if (entries_.empty()) return std::nullopt;
    std::optional<T> out(std::move(entries_.front()));
    entries_.pop_front();
    return out;
  }

  bool empty() const { return entries_.empty(); }
  size_t size() const { return entries_.size(); }
  uint64_t dropped() const { return dropped_; }
  // Oldest first, for dumps.
  auto begin() const { return entries_.begin(); }
  auto end() const { return entries_.end(); }

 private:
  size_t capacity_;
  std::deque<T> entries_;
  uint64_t dropped_ = 0;
};

}  // namespace ftar

#endif  // FTAR_BASE_BOUNDED_QUEUE_H_
