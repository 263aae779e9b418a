#include "collective/arrivals.h"

#include <gtest/gtest.h>

namespace ftar::collective {
namespace {

TEST(Arrivals, TheLastIsWhoseFirstByteCameLast) {
  Arrivals arrivals;
  arrivals.Begin(4);
  EXPECT_FALSE(arrivals.Last(1, 100));
  arrivals.Note(0, 200);
  arrivals.Note(3, 500);
  arrivals.Note(0, 900);  // more of what has begun
  EXPECT_FALSE(arrivals.Last(1, 100)) << "member 2 may be later than all";
  arrivals.Note(2, 300);
  ASSERT_TRUE(arrivals.Last(1, 100));
  EXPECT_EQ(arrivals.Last(1, 100)->position, 3u);
  EXPECT_EQ(arrivals.Last(1, 100)->skew_ns, 400);
  EXPECT_EQ(arrivals.Last(1, 250)->skew_ns, 300);
}

TEST(Arrivals, TheLastMayBeThisOne) {
  Arrivals arrivals;
  arrivals.Begin(2);
  arrivals.Note(1, 200);
  EXPECT_EQ(arrivals.Last(0, 700)->position, 0u);
  EXPECT_EQ(arrivals.Last(0, 700)->skew_ns, 500);
  arrivals.Begin(2);
  EXPECT_FALSE(arrivals.Last(0, 700)) << "another operation";
}

TEST(Arrivals, OfOneThereIsNone) {
  Arrivals arrivals;
  arrivals.Begin(1);
  EXPECT_FALSE(arrivals.Last(0, 100));
}

}  // namespace
}  // namespace ftar::collective
