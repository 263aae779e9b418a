#include "invariants/majority.h"

#include <algorithm>

namespace ftar::sim {

std::string Majority::Installed(const wire::View& view, const Is& dead, const Is& consents) {
  const bool fresh = replicas_.insert({view.epoch, view.Successors()}).second;
  if (!fresh) return "";
  wire::View& before = newest_[EpochIncarnation(view.epoch)];
  const bool loses_nobody =
      before.epoch != 0 && before.epoch < view.epoch &&
      std::all_of(before.entries.begin(), before.entries.end(), [&](const wire::ViewEntry& entry) {
        return view.Find(entry.card.id) || consents(entry.card.id);
      });
  if (before.epoch < view.epoch) before = view;
  if (loses_nobody || view.planned) return "";
  for (const wire::Electorate& electorate : view.electorates) {
    const auto known = replicas_.find(electorate.epoch);
    size_t all = 0, held = 0, lost = 0;
    bool first_held = false;
    for (const MemberId id : known == replicas_.end() ? electorate.replicas : known->second) {
      const bool here = view.Find(id) != nullptr;
      if (!here && consents(id)) continue;
      if (all++ == 0) first_held = here;
      if (here) ++held;
      if (!here && dead(id)) ++lost;
    }
    const bool half = 2 * held == all && first_held;
    if (all == 0 || 2 * held > all || half || held + lost == all) continue;
    return "majority: view " + std::to_string(EpochCounter(view.epoch)) + " holds " +
           std::to_string(held) + " of the " + std::to_string(all) + " replicas of view " +
           std::to_string(EpochCounter(electorate.epoch)) + ", and others live";
  }
  return "";
}

}  // namespace ftar::sim
