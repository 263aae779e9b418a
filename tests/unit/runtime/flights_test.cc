// Goal: an operation that ends looks at the sends that are under way, and at no others.
#include "runtime/flights.h"

#include <gtest/gtest.h>

#include <vector>

namespace ftar::runtime {
namespace {

Flight FlightOf(Seq seq, uint64_t to = 1) { return {{1, to}, 7, seq, {}}; }

TEST(Flights, AreOverOnce) {
  Flights flights;
  const uint64_t first = flights.Start(FlightOf(1)), second = flights.Start(FlightOf(2));
  ASSERT_NE(first, 0u);
  EXPECT_EQ(flights.End(first)->seq, 1u);
  EXPECT_FALSE(flights.End(first));
  const uint64_t third = flights.Start(FlightOf(3));  // in the place of the first
  EXPECT_FALSE(flights.End(first));
  EXPECT_FALSE(flights.End(0));
  EXPECT_TRUE(flights.Has(7, 2) && flights.Has(7, 3));
  EXPECT_FALSE(flights.Has(7, 1) || flights.Has(8, 2));
  EXPECT_EQ(flights.End(second)->seq, 2u);
  EXPECT_EQ(flights.End(third)->seq, 3u);
  EXPECT_TRUE(flights.empty());
}

TEST(Flights, AreFoundByWhatIsWanted) {
  Flights flights;
  for (Seq seq = 0; seq < 60; ++seq) flights.Start(FlightOf(seq, seq % 3));
  int ended = 0;
  const auto wanted = [](const Flight& flight) { return flight.to == MemberId{1, 2}; };
  for (size_t at = 0; const auto over = flights.EndNext(&at, wanted);) {
    EXPECT_EQ(over->seq % 3, 2u);
    ++ended;
  }
  EXPECT_EQ(ended, 20);
  for (Seq seq = 0; seq < 60; ++seq) EXPECT_EQ(flights.Has(7, seq), seq % 3 != 2);
}

TEST(Flights, ThatAreOverAreNotLookedAt) {
  Flights flights;
  std::vector<uint64_t> cookies;
  for (Seq seq = 0; seq < 1000; ++seq) cookies.push_back(flights.Start(FlightOf(seq)));
  for (size_t i = 1; i < cookies.size(); ++i) EXPECT_TRUE(flights.End(cookies[i]));
  int looks = 0;
  size_t at = 0;
  EXPECT_FALSE(flights.EndNext(&at, [&](const Flight&) { return ++looks < 0; }));
  EXPECT_EQ(looks, 1);
  EXPECT_EQ(flights.End(cookies[0])->seq, 0u);
}

}  // namespace
}  // namespace ftar::runtime
