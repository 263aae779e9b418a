#include "transport/tcp/costs.h"

#include <gtest/gtest.h>

namespace ftar::transport::tcp {
namespace {

TEST(BytePs, IsTheCardsButNoLessThanTcpTakes) {
  EXPECT_EQ(BytePsOf(1'000), 8'000u);
  EXPECT_EQ(BytePsOf(25'000), 320u);
  EXPECT_EQ(BytePsOf(400'000), 150u);
  EXPECT_EQ(BytePsOf(0), 0u);
  EXPECT_EQ(BytePsOf(uint64_t{1} << 63), 0u) << "no speed that a card has";
}

TEST(BytePs, OfLoopbackIsNotKnown) {
  const auto loopback = ParseAddress("127.0.0.1:1");
  ASSERT_TRUE(loopback.ok());
  EXPECT_NE(InterfaceOf(*loopback), "");
  EXPECT_EQ(BytePs(*loopback), 0u);
  const auto nobodys = ParseAddress("192.0.2.1:1");
  ASSERT_TRUE(nobodys.ok());
  EXPECT_EQ(InterfaceOf(*nobodys), "");
  EXPECT_EQ(BytePs(*nobodys), 0u);
}

TEST(Streams, AreAsManyAsFillTheCardWithinBounds) {
  EXPECT_EQ(StreamsFor(0), 2);
  EXPECT_EQ(StreamsFor(BytePsOf(1'000)), 2);
  EXPECT_EQ(StreamsFor(150), 3);
  EXPECT_EQ(StreamsFor(1), 8);
}

TEST(Round, IsNotKnownOfWhatIsNoSocket) { EXPECT_EQ(RoundNs(-1), 0u); }

}  // namespace
}  // namespace ftar::transport::tcp
