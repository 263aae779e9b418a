#include "base/bounded_queue.h"

#include <gtest/gtest.h>

namespace ftar {
namespace {

TEST(BoundedQueue, DropsTheOldestAndCountsIt) {
  BoundedQueue<int> queue(2);
  for (int i = 1; i <= 3; ++i) queue.Push(i);
  EXPECT_EQ(queue.size(), 2u);
  EXPECT_EQ(queue.dropped(), 1u);
  EXPECT_EQ(*queue.begin(), 2);
  EXPECT_EQ(queue.Pop(), 2);
  EXPECT_EQ(queue.Pop(), 3);
  EXPECT_EQ(queue.Pop(), std::nullopt);
  EXPECT_TRUE(queue.empty());
}

TEST(BoundedQueue, CapacityZeroKeepsNothing) {
  BoundedQueue<int> queue(0);
  queue.Push(1);
  EXPECT_TRUE(queue.empty());
  EXPECT_EQ(queue.dropped(), 1u);
}

}  // namespace
}  // namespace ftar
