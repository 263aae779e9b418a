#include "collective/shares.h"

#include <gtest/gtest.h>

namespace ftar::collective {
namespace {

constexpr uint64_t kAll = ~uint64_t{0};

// Two members, four chunks of 16 elements in blocks of 10, seen by member 1.
Shares Cut() {
  Shares shares;
  shares.Cut(plan::Grid(64, 4, 4, 1, 64), 2, 1, 10);
  shares.Begin();
  return shares;
}

TEST(Shares, ChunksGoToMembersByTurns) {
  const Shares shares = Cut();
  ASSERT_EQ(shares.by_owner().size(), 2u);
  EXPECT_EQ(shares.by_owner()[1].chunks[0].first, 16u);
  ASSERT_EQ(shares.others().size(), 2u);
  EXPECT_EQ(shares.others()[1].first, 32u);
}

TEST(Shares, BlocksEndWithTheirChunkAndOwnersTakeTurns) {
  Shares shares = Cut();
  const auto made = [](size_t) { return kAll; };
  const struct {
    size_t owner;
    uint64_t first, count;
  } expected[] = {{1, 16, 10}, {0, 0, 10},  {1, 26, 6}, {0, 10, 6},
                  {1, 48, 10}, {0, 32, 10}, {1, 58, 6}, {0, 42, 6}};
  for (const auto& block : expected) {
    ASSERT_TRUE(shares.Next(/*whole=*/false, made));
    EXPECT_EQ(shares.owner(), block.owner);
    EXPECT_EQ(shares.block().first, block.first);
    EXPECT_EQ(shares.block().count, block.count);
    EXPECT_FALSE(shares.all_here());
    shares.Finish();
  }
  EXPECT_TRUE(shares.all_here());
  EXPECT_EQ(shares.own(), 32u);
  EXPECT_FALSE(shares.Next(/*whole=*/false, made));
  shares.Begin();
  EXPECT_FALSE(shares.some_here());
}

TEST(Shares, OfOthersThereIsWhatTheyHaveMade) {
  Shares shares = Cut();
  uint64_t theirs = 15;
  const auto made = [&theirs](size_t owner) { return owner == 1 ? 0 : theirs; };
  EXPECT_FALSE(shares.Next(/*whole=*/true, made)) << "a whole chunk has 16";
  ASSERT_TRUE(shares.Next(/*whole=*/false, made));
  EXPECT_EQ(shares.block().count, 10u);
  shares.Finish();
  EXPECT_FALSE(shares.Next(/*whole=*/false, made)) << "5 of the 6 that are left";
  theirs = 16;
  ASSERT_TRUE(shares.Next(/*whole=*/false, made));
  EXPECT_FALSE(shares.some_here());
  shares.Finish();
  EXPECT_TRUE(shares.some_here());
}

}  // namespace
}  // namespace ftar::collective
