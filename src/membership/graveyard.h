// Why somebody is out, for when he comes back (rule Q3): of the last few thousand. A value;
// single-threaded.
#ifndef FTAR_MEMBERSHIP_GRAVEYARD_H_
#define FTAR_MEMBERSHIP_GRAVEYARD_H_

#include <cstddef>
#include <deque>
#include <map>

#include "base/ids.h"
#include "wire/messages.h"

namespace ftar::membership {

class Graveyard {
 public:
  static constexpr size_t kMost = 4096;

  // Whoever is in it already gets another reason, and keeps his place in the order.
  void Bury(MemberId id, const wire::Loss& loss) {
    if (graves_.insert_or_assign(id, loss).second) order_.push_back(id);
    if (order_.size() <= kMost) return;
    graves_.erase(order_.front());
    order_.pop_front();
  }
  const wire::Loss* Find(MemberId id) const {
    const auto found = graves_.find(id);
    return found == graves_.end() ? nullptr : &found->second;
  }
  size_t size() const { return graves_.size(); }

 private:
  std::map<MemberId, wire::Loss> graves_;
  std::deque<MemberId> order_;  // the oldest first
};

}  // namespace ftar::membership

#endif  // FTAR_MEMBERSHIP_GRAVEYARD_H_
