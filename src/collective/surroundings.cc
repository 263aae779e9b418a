#include "collective/surroundings.h"

#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "membership/bounds.h"
#include "wire/addresses.h"

namespace ftar::collective {
Surroundings SurroundingsOf(const wire::View& view, int32_t shard) {
  Surroundings out;
  std::map<std::pair<std::string_view, uint64_t>, int32_t> members;  // by the cores they share
  std::string_view host;
  std::vector<wire::WireCosts> costs;
  out.lane = true;
  for (const wire::ViewEntry& entry : view.entries) {
    const wire::MemberCard& card = entry.card;
    const int32_t here = ++members[{card.host_key, card.core_set}];
    out.crowded = out.crowded || (card.cores > 0 && here > card.cores);
    if (card.shard != shard) continue;
    costs.push_back(card.wire);
    if (host.empty()) host = card.host_key;
    out.lane = out.lane && card.lane && card.host_key == host;
    const bool mapped = card.host_key == host && !wire::FindAddress(card.addresses, "shm").empty();
    out.wired = out.wired || !mapped;
  }
  out.wire = wire::MedianOf(costs);
  // The same one that announces: what proves that all are complete comes behind the announcement
  // on the same links (J3).
  if (const wire::ViewEntry* root = membership::ColumnRoot(view, shard)) out.hub = root->card.id;
  return out;
}

}  // namespace ftar::collective
