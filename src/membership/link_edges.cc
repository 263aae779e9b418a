#include "membership/link_edges.h"

#include <algorithm>
#include <tuple>

namespace ftar::membership {
namespace {

using EdgeSet = std::set<std::pair<int32_t, int32_t>>;
using Neighbours = std::map<int32_t, std::vector<int32_t>>;
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
int CoverSize(const EdgeSet& edges, int budget, size_t* steps) {
  ++*steps;
  if (edges.empty()) return 0;
  if (budget == 0) return 1;
  const auto [a, b] = *edges.begin();
  const int with_a = 1 + CoverSize(Without(edges, a), budget - 1, steps);
  if (with_a == 1) return 1;
  return std::min(with_a, 1 + CoverSize(Without(edges, b), budget - 1, steps));
}

// What is left to ask of covers of one size, once those are taken who are in all of them.
struct Kernel {
  std::set<int32_t> taken;
  EdgeSet rest;
  int budget = 0;  // how many of the rest
};

// Who has more neighbours than may be taken is: without it all of these would be (Buss). Then those
// who may be taken have few edges each, and what has more than that has no such cover.
std::optional<Kernel> KernelOf(const Neighbours& graph, int size, size_t* steps) {
  Kernel kernel{{}, {}, size};
  std::map<int32_t, int> degrees;
  for (const auto& [vertex, others] : graph) degrees[vertex] = static_cast<int>(others.size());
  const auto degree_of = [](const auto& entry) { return entry.second; };
  while (true) {
    const auto most = std::ranges::max_element(degrees, {}, degree_of);
    if (most->second <= kernel.budget) break;
    if (kernel.budget == 0) return std::nullopt;
    ++*steps;
    --kernel.budget;
    kernel.taken.insert(most->first);
    most->second = 0;
    for (const int32_t other : graph.at(most->first)) {
      if (!kernel.taken.contains(other)) --degrees[other];
    }
  }
  int ends = 0;
  for (const auto& [vertex, degree] : degrees) ends += degree;
  if (ends > 2 * kernel.budget * kernel.budget) return std::nullopt;
  for (const auto& [vertex, degree] : degrees) {
    if (degree == 0) continue;
    for (const int32_t other : graph.at(vertex)) {
      if (!kernel.taken.contains(other)) kernel.rest.insert(std::minmax(vertex, other));
    }
  }
  return kernel;
}

// Who is in any smallest cover; nobody if that is too large to search for.
std::set<int32_t> InSmallestCovers(const Neighbours& graph, size_t* steps) {
  for (int size = 1; size <= kExactCoverMax; ++size) {
    const std::optional<Kernel> kernel = KernelOf(graph, size, steps);
    if (!kernel || CoverSize(kernel->rest, kernel->budget, steps) > kernel->budget) continue;
    std::set<int32_t> in = kernel->taken, asked;
    for (const auto& [a, b] : kernel->rest) asked.insert({a, b});
    for (const int32_t vertex : asked) {
      const int others = kernel->budget - 1;
      if (CoverSize(Without(kernel->rest, vertex), others, steps) == others) in.insert(vertex);
    }
    return in;
  }
  return {};
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
                                            const std::function<int64_t(int32_t)>& preference,
                                            size_t* steps) {
  if (edges.empty()) return std::nullopt;
  size_t unasked = 0;
  Neighbours graph;
  for (const auto& [a, b] : edges) {
    graph[a].push_back(b);
    graph[b].push_back(a);
  }
  const std::set<int32_t> exact = InSmallestCovers(graph, steps ? steps : &unasked);
  std::optional<int32_t> best;
  std::tuple<int64_t, int64_t> best_rank;
  for (const auto& [vertex, others] : graph) {
    if (!exact.empty() && !exact.contains(vertex)) continue;
    const auto degree = static_cast<int64_t>(others.size());
    std::tuple<int64_t, int64_t> rank = {preference(vertex), degree};
    if (exact.empty()) rank = {degree, preference(vertex)};
    if (!best || rank > best_rank) {
      best = vertex;
      best_rank = rank;
    }
  }
  return best;
}

}  // namespace ftar::membership
