#include "invariants/news.h"

#include <algorithm>
#include <utility>

namespace ftar::sim {

std::string News::Hear(const engine::Notice& notice) {
  const MemberId who = notice.loss.member;
  switch (notice.kind) {
    case engine::Notice::Kind::kJoined:
      return in_.insert(who).second ? "" : "news: hears twice that " + ToString(who) + " is in";
    case engine::Notice::Kind::kLeft:
      if (!leaving_.insert(who).second) return "news: hears again that " + ToString(who) + " goes";
      ++left_[notice.epoch];
      return in_.contains(who) ? "" : "news: " + ToString(who) + " leaves, and was not in";
    case engine::Notice::Kind::kLost:
      if (!leaving_.contains(who)) ++left_[notice.epoch];
      return in_.erase(who) > 0 ? "" : "news: " + ToString(who) + " is lost, and was not in";
    default: return "";
  }
}

std::string News::Heard(const std::vector<engine::Notice>& notices, const wire::View& view) {
  const bool first = !std::exchange(any_view_, true);
  const std::set<MemberId> before = in_;
  for (const engine::Notice& notice : notices) {
    // Of those before its time it hears nothing: nobody is in yet, as far as it knows.
    std::string wrong = Hear(notice);
    if (!wrong.empty()) return wrong;
  }
  std::set<MemberId> now;
  for (const wire::ViewEntry& entry : view.entries) {
    now.insert(entry.card.id);
    // Who was leaving already when this member first saw it goes without a word.
    const bool leaves = entry.leaves();
    if (leaves && !before.contains(entry.card.id)) leaving_.insert(entry.card.id);
  }
  if (!first) {
    for (const MemberId id : now) {
      if (!in_.contains(id)) return "news: does not hear that " + ToString(id) + " is in";
    }
    for (const MemberId id : in_) {
      if (!now.contains(id) && !leaving_.contains(id))
        return "news: does not hear that " + ToString(id) + " is lost";
    }
  }
  in_ = std::move(now);
  return "";
}

std::string News::Begins(const engine::StepBegun& step) {
  int32_t left = 0;
  const auto later = left_.upper_bound(step.as_of);
  for (auto told = left_.begin(); told != later; ++told) left += told->second;
  left_.erase(left_.begin(), later);
  if (step.left == left) return "";
  return "news: step " + std::to_string(step.step) + " begins with " + std::to_string(step.left) +
         " who have left, and it has heard of " + std::to_string(left);
}

}  // namespace ftar::sim
