#include "perf/churn.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <set>

namespace ftar::perf {
namespace {

TEST(Churn, MembersStayWithinTheirBounds) {
  std::set<ChurnAction> at_high;
  for (uint64_t random = 0; random < 1000; ++random) {
    EXPECT_EQ(ChooseAction(6, 6, 10, random), ChurnAction::kJoin);
    EXPECT_NE(ChooseAction(10, 6, 10, random), ChurnAction::kJoin);
    at_high.insert(ChooseAction(10, 6, 10, random));
  }
  EXPECT_EQ(at_high.size(), 3u);  // kills, stops and leaves
}

TEST(Churn, SeesItsOwnFootprint) {
  const Footprint footprint = FootprintOf(getpid());
  EXPECT_GE(footprint.descriptors, 3u);
  EXPECT_GT(footprint.mappings, 3u);
  EXPECT_GT(footprint.private_kib, 100u);
  EXPECT_EQ(FootprintOf(-1).descriptors, 0u);
}

}  // namespace
}  // namespace ftar::perf
