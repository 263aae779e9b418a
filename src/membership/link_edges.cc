#include "membership/link_edges.h"

#include <algorithm>
#include <tuple>

namespace ftar::membership {
namespace {

using EdgeSet = std::set<std::pair<int32_t, int32_t>>;
constexpr int kExactCoverMax = 6;

EdgeSet Without(const EdgeSet& edges, int32_t vertex) {
  EdgeSet rest;
  for (const auto& edge : edges) {
    if (edge.first != vertex && edge.second != vertex) rest.insert(edge);
  }
  return rest;
}

// The size of a smallest cover, or budget + 1 if it is larger than `budget`. Either end of any edge
// is in every cover, so the search is a binary tree of depth `budget`.
int CoverSize(const EdgeSet& edges, int budget) {
  if (edges.empty()) return 0;
  if (budget == 0) return 1;
  const auto [a, b] = *edges.begin();
  const int with_a = 1 + CoverSize(Without(edges, a), budget - 1);
  if (with_a == 1) return 1;
  return std::min(with_a, 1 + CoverSize(Without(edges, b), budget - 1));
}

std::map<int32_t, int> Degrees(const EdgeSet& edges) {
  std::map<int32_t, int> degrees;
  for (const auto& [a, b] : edges) {
    ++degrees[a];
    ++degrees[b];
  }
  return degrees;
}

}  // namespace

void LinkEdges::Add(TimeNs now, MemberId reporter, MemberId subject, std::string text) {
  edges_.insert({std::minmax(reporter, subject), {reporter, subject, std::move(text), now}});
}

void LinkEdges::Remove(MemberId reporter, MemberId subject) {
  edges_.erase(std::minmax(reporter, subject));
}

void LinkEdges::Forget(MemberId member) {
  std::erase_if(edges_, [member](const auto& entry) {
    return entry.first.first == member || entry.first.second == member;
  });
}

bool LinkEdges::Reported(MemberId reporter, MemberId subject) const {
  const auto found = edges_.find(std::minmax(reporter, subject));
  return found != edges_.end() && found->second.reporter == reporter;
}

void LinkEdges::ForgetReportsOf(MemberId reporter) {
  std::erase_if(edges_,
                [reporter](const auto& entry) { return entry.second.reporter == reporter; });
}

std::vector<LinkEdges::Edge> LinkEdges::edges() const {
  std::vector<Edge> out;
  for (const auto& [key, edge] : edges_) out.push_back(edge);
  return out;
}

TimeNs LinkEdges::oldest_ns() const {
  TimeNs oldest = kNever;
  for (const auto& [key, edge] : edges_) oldest = std::min(oldest, edge.since_ns);
  return oldest;
}

std::optional<int32_t> FirstOfSmallestCover(const EdgeSet& edges,
                                            const std::function<int64_t(int32_t)>& preference) {
  if (edges.empty()) return std::nullopt;
  const std::map<int32_t, int> degrees = Degrees(edges);
  const int size = CoverSize(edges, kExactCoverMax);
  std::optional<int32_t> best;
  std::tuple<int64_t, int64_t> best_rank;
  for (const auto& [vertex, degree] : degrees) {
    std::tuple<int64_t, int64_t> rank;
    if (size > kExactCoverMax) {
      rank = {degree, preference(vertex)};
    } else {
      if (CoverSize(Without(edges, vertex), size - 1) != size - 1)
        continue;  // in no smallest cover
      rank = {preference(vertex), degree};
    }
    if (!best || rank > best_rank) {
      best = vertex;
      best_rank = rank;
    }
  }
  return best;
}

}  // namespace ftar::membership
