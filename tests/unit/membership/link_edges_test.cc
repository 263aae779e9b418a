#include "membership/link_edges.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <map>
#include <random>

namespace ftar::membership {
namespace {

using EdgeSet = std::set<std::pair<int32_t, int32_t>>;

int64_t HigherFirst(int32_t vertex) { return vertex; }

TEST(SmallestCover, NoEdgesNoVertex) { EXPECT_FALSE(FirstOfSmallestCover({}, HigherFirst)); }

TEST(SmallestCover, OneEdgeTakesThePreferred) {
  EXPECT_EQ(FirstOfSmallestCover({{1, 4}}, HigherFirst), 4);
  EXPECT_EQ(FirstOfSmallestCover({{1, 4}}, [](int32_t v) { return -v; }), 1);
}

TEST(SmallestCover, AStarIsItsCentre) {
  EXPECT_EQ(FirstOfSmallestCover({{0, 1}, {0, 2}, {0, 3}}, HigherFirst), 0);
}

TEST(SmallestCover, AGreedyChoiceWouldTakeTooMany) {
  // 0 touches three edges, yet {1, 2, 3} is the smallest cover.
  EXPECT_EQ(FirstOfSmallestCover({{0, 1}, {0, 2}, {0, 3}, {1, 4}, {2, 5}, {3, 6}}, HigherFirst), 3);
}

// One at a time, always of a smallest cover: the number taken is the size of the smallest cover by
// brute force.
TEST(SmallestCover, TakesAsFewAsBruteForce) {
  std::mt19937 random(7);
  for (int round = 0; round < 300; ++round) {
    EdgeSet edges;
    for (int i = 0; i < 7; ++i) {
      const auto a = static_cast<int32_t>(random() % 8), b = static_cast<int32_t>(random() % 8);
      if (a != b) edges.insert(std::minmax(a, b));
    }
    int smallest = 8;
    for (uint32_t cover = 0; cover < 256; ++cover) {
      const bool all = std::all_of(edges.begin(), edges.end(), [cover](const auto& edge) {
        return cover >> edge.first & 1 || cover >> edge.second & 1;
      });
      if (all) smallest = std::min(smallest, std::popcount(cover));
    }
    int taken = 0;
    while (const auto vertex = FirstOfSmallestCover(edges, HigherFirst)) {
      std::erase_if(
          edges, [&](const auto& edge) { return edge.first == *vertex || edge.second == *vertex; });
      ++taken;
    }
    ASSERT_EQ(taken, smallest);
  }
}

TEST(SmallestCover, LargeGraphsEndByDegree) {
  EdgeSet edges;
  for (int32_t a = 0; a < 40; ++a) {
    for (int32_t b = a + 1; b < 40; ++b) edges.insert({a, b});
  }
  EXPECT_EQ(FirstOfSmallestCover(edges, HigherFirst), 39);
}

// What FirstOfSmallestCover says in words, by trying all sets of vertices.
std::optional<int32_t> NaiveFirst(const EdgeSet& edges,
                                  const std::function<int64_t(int32_t)>& preference) {
  constexpr int32_t kVertices = 10;
  int smallest = kVertices;
  std::set<int32_t> in;  // of the smallest
  for (uint32_t cover = 0; cover < 1u << kVertices; ++cover) {
    const bool all = std::all_of(edges.begin(), edges.end(), [cover](const auto& edge) {
      return cover >> edge.first & 1 || cover >> edge.second & 1;
    });
    if (!all || std::popcount(cover) > smallest) continue;
    if (std::popcount(cover) < smallest) in.clear();
    smallest = std::popcount(cover);
    for (int32_t vertex = 0; vertex < kVertices; ++vertex) {
      if (cover >> vertex & 1) in.insert(vertex);
    }
  }
  std::map<int32_t, int64_t> degrees;
  for (const auto& [a, b] : edges) ++degrees[a], ++degrees[b];
  std::optional<int32_t> best;
  std::pair<int64_t, int64_t> best_rank;
  for (const auto& [vertex, degree] : degrees) {
    if (smallest <= 6 && !in.contains(vertex)) continue;
    std::pair<int64_t, int64_t> rank = {preference(vertex), degree};
    if (smallest > 6) std::swap(rank.first, rank.second);
    if (best && rank <= best_rank) continue;
    best = vertex;
    best_rank = rank;
  }
  return best;
}

TEST(SmallestCover, SaysWhatTryingAllSays) {
  std::mt19937 random(11);
  int large = 0;
  for (int round = 0; round < 1000; ++round) {
    EdgeSet edges;
    const int count = static_cast<int>(random() % 120);
    for (int i = 0; i < count; ++i) {
      const auto a = static_cast<int32_t>(random() % 10), b = static_cast<int32_t>(random() % 10);
      if (a != b) edges.insert(std::minmax(a, b));
    }
    const auto some_alike = [round](int32_t vertex) -> int64_t { return vertex * (round + 3) % 4; };
    ASSERT_EQ(FirstOfSmallestCover(edges, some_alike), NaiveFirst(edges, some_alike)) << round;
    if (edges.size() > 35) ++large;
  }
  EXPECT_GT(large, 0) << "of more than six some are by degree";
}

// A few hosts of a large job are cut off: all others miss them. The search stays small.
TEST(SmallestCover, LargeGraphsAreCheap) {
  for (int32_t hosts = 1; hosts <= 7; ++hosts) {
    EdgeSet edges;
    for (int32_t host = 0; host < hosts; ++host) {
      for (int32_t other = hosts; other < 1024; ++other) edges.insert({host, other});
    }
    size_t steps = 0;
    EXPECT_EQ(FirstOfSmallestCover(edges, HigherFirst, &steps), hosts - 1);
    EXPECT_LT(steps, 100u) << hosts;
  }
  EdgeSet stars;  // as many as it searches for, and none with too many ends to be settled at once
  for (int32_t star = 0; star < 6; ++star) {
    for (int32_t ray = 0; ray < 6; ++ray) stars.insert({star, 6 + 6 * star + ray});
  }
  size_t steps = 0;
  EXPECT_EQ(FirstOfSmallestCover(stars, HigherFirst, &steps), 5);
  EXPECT_LT(steps, 5000u);
}

TEST(LinkEdges, BothDirectionsAreOneEdge) {
  LinkEdges edges;
  edges.Add(5, {1, 1}, {2, 2}, "reset");
  edges.Add(9, {2, 2}, {1, 1}, "reset too");
  ASSERT_EQ(edges.edges().size(), 1u);
  EXPECT_EQ(edges.oldest_ns(), 5);
  edges.Remove({2, 2}, {1, 1});
  EXPECT_TRUE(edges.empty());
  EXPECT_EQ(edges.oldest_ns(), kNever);
}

TEST(LinkEdges, ForgetsAllOfAMember) {
  LinkEdges edges;
  edges.Add(1, {1, 1}, {2, 2}, "");
  edges.Add(1, {3, 3}, {1, 1}, "");
  edges.Add(1, {3, 3}, {2, 2}, "");
  edges.Forget({1, 1});
  EXPECT_EQ(edges.edges().size(), 1u);
}

}  // namespace
}  // namespace ftar::membership
