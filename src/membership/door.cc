#include "membership/door.h"

#include <set>

#include "membership/agreement.h"

namespace ftar::membership {

std::optional<wire::Hello> Door::Leave(ConnId conn) {
  auto found = waiting_.extract(conn);
  if (found.empty()) return std::nullopt;
  return std::move(found.mapped());
}

std::vector<ConnId> Door::Conns() const {
  std::vector<ConnId> conns;
  for (const auto& [conn, hello] : waiting_) conns.push_back(conn);
  return conns;
}

bool Door::HasWholeJobOf(const wire::Hello& one, const std::string& own_job) const {
  const size_t all = static_cast<size_t>(one.replicas) * static_cast<size_t>(one.shards);
  if (waiting_.size() < all) return false;
  const Reference agreed = ReferenceOf(one);
  std::set<std::pair<int32_t, int32_t>> places;
  for (const auto& [conn, hello] : waiting_) {
    const bool agrees = CheckHello(hello, own_job, agreed).code == Code::kOk;
    if (agrees && hello.card.replica < one.replicas)
      places.insert({hello.card.replica, hello.card.shard});
  }
  return places.size() == all;
}

}  // namespace ftar::membership
