// Goal: FTAR_TEST_FAULT is read strictly, and a hook strikes once, at its point and nowhere else.
#include "runtime/test_hook.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ftar::runtime {
namespace {

using testing::HasSubstr;

FaultPlan Parsed(const std::string& text) {
  const Expected<FaultPlan> plan = ParseFaultPlan(text);
  EXPECT_TRUE(plan.ok()) << text << ": " << plan.status().ToString();
  return plan.ok() ? *plan : FaultPlan{};
}

TEST(ParseFaultPlan, ReadsEveryKindAndStage) {
  const struct {
    const char* word;
    FaultKind kind;
  } kinds[] = {{"kill", FaultKind::kKill},
               {"stop", FaultKind::kStop},
               {"reset", FaultKind::kReset},
               {"drop", FaultKind::kDrop},
               {"exit", FaultKind::kExit}};
  for (const auto& [word, kind] : kinds)
    EXPECT_EQ(Parsed(std::string(word) + "@seq=1,stage=before").kind, kind);
  const struct {
    const char* word;
    FaultStage stage;
  } stages[] = {{"before", FaultStage::kBefore},       {"sending", FaultStage::kSending},
                {"reducing", FaultStage::kReducing},   {"gathering", FaultStage::kGathering},
                {"stability", FaultStage::kStability}, {"between", FaultStage::kBetween}};
  for (const auto& [word, stage] : stages)
    EXPECT_EQ(Parsed(std::string("kill@seq=1,stage=") + word).stage, stage);
  const FaultPlan plan = Parsed("drop@chunk=5,stage=sending,seq=12345678901");
  EXPECT_EQ(plan.seq, 12345678901u);
  EXPECT_EQ(plan.chunk, 5);
  EXPECT_EQ(Parsed("kill@seq=1,stage=before").chunk, -1);
}

TEST(ParseFaultPlan, RefusesWhatItDoesNotUnderstand) {
  for (const char* text :
       {"", "kill", "@seq=1,stage=before", "hang@seq=1,stage=before", "kill@", "kill@seq=1",
        "kill@stage=before", "kill@seq=1,stage=later", "kill@seq=,stage=before",
        "kill@seq=1x,stage=before", "kill@seq=-1,stage=before", "kill@seq=1,stage=before,chunk=x",
        "kill@seq=1,stage=before,when=now", "kill@seq=1,,stage=before", "kill@seq,stage=before"}) {
    const Expected<FaultPlan> plan = ParseFaultPlan(text);
    ASSERT_FALSE(plan.ok()) << text;
    EXPECT_EQ(plan.status().code(), Code::kConfig);
    EXPECT_EQ(plan.status().argument(), "FTAR_TEST_FAULT");
    EXPECT_THAT(plan.status().text(), HasSubstr("'" + std::string(text) + "'"));
  }
}

TEST(TestHook, StrikesOnceAtItsPoint) {
  TestHook hook(Parsed("reset@seq=3,stage=reducing"));
  EXPECT_TRUE(hook.armed());
  EXPECT_EQ(hook.seq_at(FaultStage::kReducing), Seq{3});
  EXPECT_EQ(hook.seq_at(FaultStage::kSending), std::nullopt);
  EXPECT_EQ(hook.At(FaultStage::kReducing, 2, 0), std::nullopt);
  EXPECT_EQ(hook.At(FaultStage::kSending, 3, 0), std::nullopt);
  EXPECT_EQ(hook.At(FaultStage::kReducing, 3, 9), FaultKind::kReset) << "the first chunk there is";
  EXPECT_FALSE(hook.armed());
  EXPECT_EQ(hook.At(FaultStage::kReducing, 3, 9), std::nullopt);
}

TEST(TestHook, WaitsForItsChunkOrCountsWhereThereIsNone) {
  TestHook numbered(Parsed("drop@seq=0,stage=sending,chunk=2"));
  EXPECT_EQ(numbered.At(FaultStage::kSending, 0, 0), std::nullopt);
  EXPECT_EQ(numbered.At(FaultStage::kSending, 0, 3), std::nullopt);
  EXPECT_EQ(numbered.At(FaultStage::kSending, 0, 2), FaultKind::kDrop);
  TestHook counted(Parsed("drop@seq=0,stage=between,chunk=2"));
  EXPECT_EQ(counted.At(FaultStage::kBetween, 0, -1), std::nullopt);
  EXPECT_EQ(counted.At(FaultStage::kBetween, 0, -1), std::nullopt);
  EXPECT_EQ(counted.At(FaultStage::kBetween, 0, -1), FaultKind::kDrop);
}

TEST(TestHook, UnarmedDoesNothing) {
  TestHook hook;
  EXPECT_FALSE(hook.armed());
  EXPECT_EQ(hook.At(FaultStage::kBefore, 0, 0), std::nullopt);
}

}  // namespace
}  // namespace ftar::runtime
