#include "perf/judge.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace ftar::perf {
namespace {

constexpr int64_t kMs = 1'000'000;

// A survivor that delivers one operation each millisecond, loses replica 2 at 10.5 ms, hears of it
// at `heard_ms` and goes on two milliseconds later.
History Survivor(int64_t heard_ms) {
  History history;
  for (int64_t ms = 1; ms <= 40; ++ms) {
    if (ms > 10 && ms < heard_ms + 2) continue;
    OpRecord op;
    op.seq = static_cast<uint64_t>(ms);
    op.delivered_ns = ms * kMs;
    op.participants = ms <= 10 ? std::vector<int32_t>{0, 1, 2} : std::vector<int32_t>{0, 1};
    history.ops.push_back(op);
  }
  history.events.push_back({FTAR_EVENT_MEMBER_LOST, 0, 2, heard_ms * kMs, 2, "silent"});
  history.events.push_back({FTAR_EVENT_VIEW, 0, 2, (heard_ms + 1) * kMs, -1, ""});
  CountersRecord counters;
  counters.values[kLinksKept] = 3;
  history.counters.push_back(counters);
  counters.time_ns = (heard_ms + 2) * kMs;
  counters.values = {0, 1, 5, 0, 100};
  history.counters.push_back(counters);
  return history;
}

TEST(Judge, TimesRunFromTheStrike) {
  std::map<int, History> histories;
  histories[0] = Survivor(12);
  histories[1] = Survivor(14);
  histories[2] = Survivor(50);
  const int64_t struck_ns = 10 * kMs + kMs / 2;
  const FaultResult result = JudgeFault(*ParseFault("kill:2@9"), 2, struck_ns, 11, histories, true);
  EXPECT_DOUBLE_EQ(*result.detect_ms, 1.5);  // the first survivor that hears
  EXPECT_DOUBLE_EQ(*result.decide_ms, 4.5);  // the last one that has the view
  EXPECT_DOUBLE_EQ(*result.finish_ms, 5.5);  // the last one that goes on
  EXPECT_DOUBLE_EQ(*result.stall_ms, 6);
  EXPECT_EQ(result.participants_before, 3);
  EXPECT_EQ(result.participants_after, 2);
  EXPECT_EQ(result.links_closed, 2u);
  EXPECT_EQ(result.links_kept, 10u);  // of the last change, at both survivors
  EXPECT_EQ(result.links_opened, 0u);
  EXPECT_EQ(result.bytes_resent, 200u);
  EXPECT_EQ(result.noticed, "silent");
}

TEST(Judge, AFaultThatNeverStruckHasNoTimes) {
  std::map<int, History> histories;
  histories[0] = Survivor(12);
  const FaultResult result = JudgeFault(*ParseFault("kill:2@9"), 2, 0, 11, histories, true);
  EXPECT_FALSE(result.detect_ms.has_value());
  EXPECT_TRUE(FaultJson(result)["finish_ms"].is_null());
}

// Everybody leaves at the end, and each leave is a view: none of them is a fault's.
TEST(Judge, TheEndOfTheRunIsNoFault) {
  std::map<int, History> histories;
  histories[0] = Survivor(12);
  std::erase_if(histories[0].events, [](const EventRecord&) { return true; });
  histories[0].events.push_back({FTAR_EVENT_MEMBER_LEFT, 0, 3, 50 * kMs, 2, ""});
  histories[0].events.push_back({FTAR_EVENT_LINK_DOWN, 0, 3, 50 * kMs, 2, "closed"});
  histories[0].events.push_back({FTAR_EVENT_VIEW, 0, 3, 50 * kMs, -1, ""});
  const FaultResult result = JudgeFault(*ParseFault("reset:2@9"), 2, 10 * kMs, 20, histories, true);
  EXPECT_FALSE(result.detect_ms.has_value());
  EXPECT_FALSE(result.decide_ms.has_value());
  EXPECT_DOUBLE_EQ(*result.finish_ms, 10);  // operation 20 ends at 20 ms
}

// A newcomer's view in between is not the one that took the victim out.
TEST(Judge, OnlyTheViewThatMovedTheVictimCounts) {
  std::map<int, History> histories;
  histories[0] = Survivor(12);
  histories[0].events.insert(histories[0].events.begin(),
                             {FTAR_EVENT_VIEW, 0, 1, 11 * kMs, -1, ""});
  const FaultResult result = JudgeFault(*ParseFault("kill:2@9"), 2, 10 * kMs, 11, histories, true);
  EXPECT_DOUBLE_EQ(*result.decide_ms, 3);
}

TEST(Judge, TheObjectHasAllItsFields) {
  const nlohmann::json json = FaultJson(FaultResult());
  for (const char* name : {"kind", "rank", "iteration", "detect_ms", "decide_ms", "finish_ms",
                           "stall_ms", "participants_before", "participants_after", "bytes_resent",
                           "links_opened", "links_closed", "links_kept", "agreed"}) {
    EXPECT_TRUE(json.contains(name)) << name;
  }
}

}  // namespace
}  // namespace ftar::perf
