#include "invariants/views.h"

#include <algorithm>
#include <set>

namespace ftar::sim {
namespace {

std::string Short(const wire::View& view) { return std::to_string(EpochCounter(view.epoch)); }

std::set<int32_t> ReplicasOf(const wire::View& view) {
  std::set<int32_t> replicas;
  for (const wire::ViewEntry& entry : view.entries) replicas.insert(entry.card.replica);
  return replicas;
}

}  // namespace

bool Views::Leaves(const wire::ViewEntry& entry) const {
  return entry.leaves() || leaving_.contains(entry.card.id);
}

bool Views::HasLeavers(const wire::View& view) const {
  return std::ranges::any_of(view.entries,
                             [this](const wire::ViewEntry& entry) { return Leaves(entry); });
}

std::string Views::Installed(MemberId member, std::shared_ptr<const wire::View> view) {
  const int32_t column = shards_ > 0 ? -1 : view->entries.front().card.shard;
  const auto [known, first] = known_.insert({{view->epoch, column}, view});
  if (!first && known->second != view && !(*known->second == *view))
    return "views: two views of epoch " + Short(*view);
  std::shared_ptr<const wire::View>& last = last_[member];
  const std::shared_ptr<const wire::View> before = last;
  last = view;
  if (HasLeavers(*view)) with_leavers_.insert(view->epoch);
  std::string wrong = first ? CheckReplicas(*view) : "";
  if (!before || !wrong.empty()) return wrong;
  if (view->epoch < before->epoch)
    return "views: the epoch of " + ToString(member) + " went back to " + Short(*view);
  wrong = CheckOrder(*before, *view);
  return wrong.empty() ? CheckQuorum(*before, *view) : wrong;
}

std::string Views::CheckReplicas(const wire::View& view) const {
  std::map<int32_t, int> members;
  for (const wire::ViewEntry& entry : view.entries) ++members[entry.card.replica];
  for (const wire::ViewEntry& entry : view.entries) {
    if (members[entry.card.replica] != std::max(shards_, 1) && !Leaves(entry))
      return "views: epoch " + Short(view) + " has a part of replica " +
             std::to_string(entry.card.replica);
  }
  return "";
}

std::string Views::CheckOrder(const wire::View& before, const wire::View& view) const {
  auto next = view.entries.begin();
  for (const wire::ViewEntry& entry : before.entries) {
    if (!view.Find(entry.card.id)) continue;
    if (next->card.id != entry.card.id)
      return "views: epoch " + Short(view) + " moves the rank of " + ToString(entry.card.id);
    ++next;
  }
  return "";
}

std::string Views::CheckQuorum(const wire::View& before, const wire::View& view) const {
  const auto count = [](const wire::View& of) { return static_cast<int>(ReplicasOf(of).size()); };
  if (view.planned || count(view) >= min_replicas_ || count(before) < min_replicas_) return "";
  // They may have gone as planned.
  if (with_leavers_.contains(before.epoch) || HasLeavers(before)) return "";
  return "views: epoch " + Short(view) + " has " + std::to_string(count(view)) + " replicas of " +
         std::to_string(min_replicas_) + " that the job needs";
}

}  // namespace ftar::sim
