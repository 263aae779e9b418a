#include "membership/door.h"

#include <gtest/gtest.h>

#include "wire/frame.h"

namespace ftar::membership {
namespace {

wire::Hello Knocks(int32_t replica, int32_t replicas, const std::string& knob) {
  wire::Hello hello;
  hello.wire_version = wire::kWireVersion;
  hello.job = "job";
  hello.card.id = {7, static_cast<uint64_t>(replica) + 1};
  hello.card.replica = replica;
  hello.replicas = replicas;
  hello.shards = hello.min_replicas = 1;
  hello.agreed_config = {knob};
  return hello;
}

TEST(Door, TheWholeJobIsWhoAgrees) {
  Door door;
  const wire::Hello first = Knocks(0, 2, "timeout=1s");
  door.Wait(1, first);
  EXPECT_FALSE(door.HasWholeJobOf(first, ""));
  door.Wait(2, Knocks(1, 2, "timeout=2s"));
  EXPECT_FALSE(door.HasWholeJobOf(first, ""));
  door.Wait(3, Knocks(0, 2, "timeout=1s"));  // started twice
  EXPECT_FALSE(door.HasWholeJobOf(first, ""));
  door.Wait(4, Knocks(1, 2, "timeout=1s"));
  EXPECT_TRUE(door.HasWholeJobOf(first, ""));
}

TEST(Door, ForgetsWhoLeavesAndWhoIsLetIn) {
  Door door;
  for (const int32_t replica : {0, 1})
    door.Wait(static_cast<ConnId>(replica) + 1, Knocks(replica, 2, "timeout=1s"));
  ASSERT_TRUE(door.Leave(1));
  EXPECT_FALSE(door.Leave(1));
  EXPECT_EQ(door.Conns(), std::vector<ConnId>{2});
  EXPECT_EQ(door.Open().at(2).card.replica, 1);
  EXPECT_TRUE(door.empty());
}

}  // namespace
}  // namespace ftar::membership
