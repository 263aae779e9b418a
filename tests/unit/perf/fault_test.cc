#include "perf/fault.h"

#include <gtest/gtest.h>

namespace ftar::perf {
namespace {

TEST(Fault, EveryKindSurvivesARoundTrip) {
  for (const char* text : {"kill:2@40", "stop:0@1", "leave:3@7", "join@9", "start@9", "reset:1@2",
                           "delay:1@5:250", "corrupt:4@6", "drop:1@0", "exit:1@3"}) {
    const auto fault = ParseFault(text);
    ASSERT_TRUE(fault.has_value()) << text;
    EXPECT_EQ(ToString(*fault), text);
  }
}

TEST(Fault, RefusesWhatIsNotAFault) {
  for (const char* text :
       {"", "kill", "kill:2", "kill@3", "kill:@3", "kill:-1@3", "kill:1@", "kill:1@x", "boom:1@2",
        "join:1@2", "delay:1@2", "delay:1@2:", "kill:1@2:3", "kill:1:2@3", "kill:99999999999@1"}) {
    EXPECT_FALSE(ParseFault(text).has_value()) << text;
  }
}

TEST(Fault, HookTextNamesOperationStageAndChunk) {
  const FaultSpec fault = *ParseFault("kill:2@40");
  EXPECT_EQ(HookText(fault, 42, "sending", 1), "kill@seq=42,stage=sending,chunk=1");
  EXPECT_EQ(HookText(fault, 42, "between", -1), "kill@seq=42,stage=between");
}

TEST(Fault, OnlySomeKindsRemoveTheirVictim) {
  EXPECT_TRUE(RemovesVictim(FaultKind::kKill));
  EXPECT_TRUE(RemovesVictim(FaultKind::kStop));
  EXPECT_TRUE(RemovesVictim(FaultKind::kLeave));
  EXPECT_TRUE(RemovesVictim(FaultKind::kDrop));
  EXPECT_FALSE(RemovesVictim(FaultKind::kDelay));
  EXPECT_FALSE(RemovesVictim(FaultKind::kJoin));
  EXPECT_FALSE(RemovesVictim(FaultKind::kReset));
}

}  // namespace
}  // namespace ftar::perf
