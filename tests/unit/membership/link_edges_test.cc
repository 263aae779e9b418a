#include "membership/link_edges.h"

#include <gtest/gtest.h>

#include <bit>
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
