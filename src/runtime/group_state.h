// What a job keeps of one of its groups: the calls on their way, what became of the last ones, and
// the members that a call means by an epoch. Under the job's lock.
#ifndef FTAR_RUNTIME_GROUP_STATE_H_
#define FTAR_RUNTIME_GROUP_STATE_H_

#include <cstddef>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "runtime/op.h"
#include "runtime/outcome_history.h"
#include "wire/view.h"

namespace ftar::runtime {

// A group's members by rank. A whole view is thirty times as large.
struct Layout {
  Epoch epoch = 0;
  std::vector<MemberId> members;
};

inline Layout LayoutOf(const wire::View& view) {
  Layout out{view.epoch, {}};
  for (const wire::ViewEntry& entry : view.entries) out.members.push_back(entry.card.id);
  return out;
}

// The last ones, by the epoch by which calls name them.
class Layouts {
 public:
  static constexpr size_t kMax = 64;

  // The oldest make room.
  void Remember(Epoch epoch, const wire::View& view) {
    layouts_[epoch] = LayoutOf(view);
    while (layouts_.size() > kMax) layouts_.erase(layouts_.begin());
  }
  // Null if it is none of them. Good until the next one is remembered.
  const Layout* Find(Epoch epoch) const {
    const auto found = layouts_.find(epoch);
    return found == layouts_.end() ? nullptr : &found->second;
  }

 private:
  std::map<Epoch, Layout> layouts_;
};

// A call that its stream has not reached yet, or that stands behind one in its group.
struct HeldCall {
  OpPtr op;
  bool ready = false;  // its stream is there, or it has none
};

struct GroupState {
  std::string name;
  std::deque<HeldCall> held;
  std::deque<OpPtr> ops;         // called and not delivered, in order of seq
  std::deque<OpPtr> unnumbered;  // called before this member knew its first seq
  OutcomeHistory history;
  size_t entering = 0;  // calls that put something onto streams now
  Layouts layouts;      // of calls and steps, for segments and roots named by epoch

  bool idle() const { return ops.empty() && unnumbered.empty() && held.empty(); }
};

}  // namespace ftar::runtime

#endif  // FTAR_RUNTIME_GROUP_STATE_H_
