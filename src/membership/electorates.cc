#include "membership/electorates.h"

#include <algorithm>
#include <set>
#include <utility>

namespace ftar::membership {

void Electorates::Merge(wire::Electorate electorate) {
  const auto place = std::find_if(
      all_.begin(), all_.end(),
      [&electorate](const wire::Electorate& other) { return other.epoch >= electorate.epoch; });
  if (place == all_.end() || place->epoch != electorate.epoch) {
    all_.insert(place, std::move(electorate));
    return;
  }
  const std::set<MemberId> named(electorate.replicas.begin(), electorate.replicas.end());
  std::erase_if(place->replicas, [&named](MemberId id) { return !named.contains(id); });
}

void Electorates::AddReported(const wire::View& view) {
  for (const wire::Electorate& electorate : view.electorates) Merge(electorate);
  Add(view);
}

void Electorates::Consent(MemberId id) {
  for (wire::Electorate& electorate : all_) std::erase(electorate.replicas, id);
}

void Electorates::ForgetBelow(Epoch epoch) {
  std::erase_if(all_, [epoch](const wire::Electorate& one) { return one.epoch < epoch; });
}

Epoch Electorates::Counting(MemberId id) const {
  Epoch newest = 0;
  for (const wire::Electorate& electorate : all_) {
    if (std::ranges::find(electorate.replicas, id) != electorate.replicas.end())
      newest = electorate.epoch;
  }
  return newest;
}

}  // namespace ftar::membership
