// Two members of one job in this process, of which one is ahead of the other, or opens a group when
// the other has begun to use it: nothing stands still, and what differs is named.
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "ftar/ftar.h"
#include "tests/process/api/jobs.h"
#include "tests/process/harness.h"

namespace process {
namespace {

class Skew : public testing::Test {
 protected:
  void Open(const Knobs& knobs) {
    const std::string coordinator = coordinator_.address();
    for (int32_t i = 0; i < 2; ++i) {
      ftarJobConfig config = FTAR_JOB_CONFIG_INIT;
      config.replica = i;
      config.replicas = 2;
      config.coordinator = coordinator.c_str();
      config.flags = FTAR_JOB_NONBLOCKING;
      ASSERT_EQ(Join(config, knobs, &jobs_[i]), FTAR_IN_PROGRESS) << LastError().text;
    }
    for (ftarJob_t job : jobs_) ASSERT_EQ(ftarJobWaitReady(job, kLongNs), FTAR_OK);
  }
  void TearDown() override {
    for (ftarJob_t job : jobs_) ftarJobDestroy(job);
  }
  ftarGroup_t Group(int member, const char* name, int32_t window) {
    ftarGroupConfig config = FTAR_GROUP_CONFIG_INIT;
    config.name = name;
    config.window = window;
    ftarGroup_t group = nullptr;
    EXPECT_EQ(ftarGroupOpen(jobs_[member], &config, &group), FTAR_OK) << LastError().text;
    return group;
  }
  static ftarOp_t Start(ftarGroup_t group, const void* send, void* recv, uint64_t count) {
    ftarOp_t op = nullptr;
    EXPECT_EQ(ftarAllReduce(send, recv, count, FTAR_F32, FTAR_SUM, group, &op), FTAR_OK);
    return op;
  }
  static ftarResult_t Wait(ftarOp_t op) {
    const ftarResult_t result = ftarOpWait(op, kLongNs, nullptr);
    ftarOpRelease(op);
    return result;
  }
  // Where `mine` comes to lie, and what stays as it was: -1.
  static std::array<float, 2> AllGather(ftarGroup_t group, uint64_t epoch, float mine) {
    std::array<float, 2> all = {-1, -1};
    ftarOpDesc desc = FTAR_OP_DESC_INIT;
    desc.kind = FTAR_ALLGATHER;
    desc.dtype = FTAR_F32;
    desc.send = &mine;
    desc.recv = all.data();
    desc.count = 1;
    desc.epoch = epoch;
    ftarOp_t op = nullptr;
    EXPECT_EQ(ftarOpStart(group, &desc, &op), FTAR_OK) << LastError().text;
    EXPECT_EQ(Wait(op), FTAR_OK) << LastError().text;
    return all;
  }
  static ftarViewInfo ViewOf(ftarGroup_t group) {
    ftarView_t view = nullptr;
    ftarViewInfo info = FTAR_VIEW_INFO_INIT;
    EXPECT_EQ(ftarGroupGetView(group, &view), FTAR_OK);
    EXPECT_EQ(ftarViewGetInfo(view, &info), FTAR_OK);
    EXPECT_EQ(ftarViewRelease(view), FTAR_OK);
    return info;
  }
  // Of ftarJobDump's first group with operations.
  std::string Dump(int member) {
    const std::string path = "/tmp/ftar_skew_" + std::to_string(getpid()) + ".json";
    EXPECT_EQ(ftarJobDump(jobs_[member], path.c_str()), FTAR_OK);
    std::stringstream text;
    text << std::ifstream(path).rdbuf();
    unlink(path.c_str());
    return text.str();
  }
  // Member 0 starts `ahead` operations, then member 1 one after the other.
  void GoAhead(int ahead, uint64_t count, bool library) {
    const std::array<ftarGroup_t, 2> groups = {Group(0, nullptr, 0), Group(1, nullptr, 0)};
    std::array<std::vector<std::vector<float>>, 2> plain;
    const auto take = [&](int member) -> float* {
      void* memory = nullptr;
      if (library) {
        EXPECT_EQ(ftarMemAlloc(jobs_[member], count * 4, nullptr, &memory), FTAR_OK);
        return static_cast<float*>(memory);
      }
      return plain[member].emplace_back(count).data();
    };
    std::vector<std::pair<ftarOp_t, float*>> started;
    for (int i = 0; i < ahead; ++i) {
      float* const send = take(0);
      float* const recv = take(0);
      send[count - 1] = static_cast<float>(i);
      started.emplace_back(Start(groups[0], send, recv, count), recv);
    }
    float* const send = take(1);
    float* const recv = take(1);
    for (int i = 0; i < ahead; ++i) {
      send[count - 1] = 1000;
      ASSERT_EQ(Wait(Start(groups[1], send, recv, count)), FTAR_OK) << i << LastError().text;
      EXPECT_EQ(recv[count - 1], static_cast<float>(1000 + i));
    }
    for (size_t i = 0; i < started.size(); ++i) {
      ASSERT_EQ(Wait(started[i].first), FTAR_OK);
      EXPECT_EQ(started[i].second[count - 1], static_cast<float>(1000 + i));
    }
  }

  Coordinator coordinator_;
  std::array<ftarJob_t, 2> jobs_{};
};

constexpr uint64_t kTwoMiB = (2 << 20) / sizeof(float);

// What is lent of operations that are not called here yet must not keep the ring's space.
TEST_F(Skew, WhoIsAheadWithLentInputsStopsNobody) {
  Open({{"transport", "shm"}});
  GoAhead(24, kTwoMiB, /*library=*/true);
}

TEST_F(Skew, WhoIsAheadWithLargeChunksStopsNobody) {
  Open({{"transport", "shm"}, {"chunk", "1MiB"}});
  GoAhead(24, kTwoMiB, /*library=*/false);
}

// Of a size that leaves a rest at the end of the ring.
TEST_F(Skew, WhoIsAheadWithASmallRingStopsNobody) {
  Open({{"transport", "shm"}, {"shm_ring", "2MiB"}});
  GoAhead(24, kTwoMiB - 6000, /*library=*/false);
}

// Both say who it was, the late one of itself.
TEST_F(Skew, OutcomesNameWhoCameLast) {
  Open({{"transport", "tcp"}});
  const std::array<ftarGroup_t, 2> groups = {Group(0, nullptr, 0), Group(1, nullptr, 0)};
  struct Case {
    ftarKind_t kind;
    uint64_t count;
    int late;
  };
  std::vector<Case> cases;
  for (const int late : {0, 1}) {  // direct, one-shot, and what is only copied
    for (const uint64_t count : {100'000u, 2u}) cases.push_back({FTAR_ALLREDUCE, count, late});
    cases.push_back({FTAR_ALLGATHER, 50'000, late});
  }
  for (const Case& one : cases) {
    const std::vector<float> data(one.count, 1);
    std::array<std::vector<float>, 2> results;
    results.fill(std::vector<float>(2 * one.count));
    std::array<ftarOp_t, 2> ops{};
    for (const int member : {1 - one.late, one.late}) {
      ftarOpDesc desc = FTAR_OP_DESC_INIT;
      desc.kind = one.kind;
      desc.count = one.count;
      desc.send = data.data();
      desc.recv = results[member].data();
      if (member == one.late) usleep(30'000);
      ASSERT_EQ(ftarOpStart(groups[member], &desc, &ops[member]), FTAR_OK) << LastError().text;
    }
    for (ftarOp_t op : ops) {
      ftarOutcome outcome = FTAR_OUTCOME_INIT;
      ASSERT_EQ(ftarOpWait(op, kLongNs, &outcome), FTAR_OK);
      EXPECT_EQ(outcome.slowest_rank, one.late) << one.kind << " of " << one.count;
      EXPECT_GE(outcome.arrival_skew_ns, 20'000'000) << one.kind << " of " << one.count;
      ftarOpRelease(op);
    }
  }
}

// More than a link holds, of an operation that is called last of all.
TEST_F(Skew, WhatNobodyTakesStopsNoOtherGroup) {
  Open({{"transport", "tcp"}});
  constexpr uint64_t kLong = 100 << 20;
  std::array<std::vector<char>, 2> data = {std::vector<char>(kLong, 7), std::vector<char>(kLong)};
  const auto broadcast = [](ftarGroup_t group, std::vector<char>& bytes, uint64_t count) {
    ftarOp_t op = nullptr;
    EXPECT_EQ(ftarBroadcast(bytes.data(), bytes.data(), count, FTAR_U8, 0, group, &op), FTAR_OK);
    return op;
  };
  const std::array<ftarGroup_t, 2> first = {Group(0, "first", 0), Group(1, "first", 0)};
  const std::array<ftarGroup_t, 2> second = {Group(0, "second", 0), Group(1, "second", 0)};
  std::array<std::vector<char>, 2> few = {std::vector<char>(65'536, 5), std::vector<char>(65'536)};
  const ftarOp_t ahead = broadcast(first[0], data[0], kLong);
  const ftarOp_t behind = broadcast(second[0], few[0], few[0].size());
  EXPECT_EQ(Wait(broadcast(second[1], few[1], few[1].size())), FTAR_OK) << LastError().text;
  EXPECT_EQ(Wait(behind), FTAR_OK) << LastError().text;
  EXPECT_EQ(few[1], few[0]);
  EXPECT_EQ(Wait(broadcast(first[1], data[1], kLong)), FTAR_OK) << LastError().text;
  EXPECT_EQ(Wait(ahead), FTAR_OK) << LastError().text;
  EXPECT_EQ(data[1], data[0]);
}

TEST_F(Skew, AWindowHoldsForWhoOpensTheGroupLast) {
  Open({{"transport", "tcp"}});
  std::vector<float> sum(1000, 1), other(1000, 1);
  const ftarGroup_t first = Group(0, "late", 2);
  const ftarOp_t mentioned = Start(first, sum.data(), sum.data(), sum.size());
  // The frame has come when what was sent behind it has.
  const ftarGroup_t ahead = Group(0, nullptr, 0), behind = Group(1, nullptr, 0);
  std::vector<float> a(10, 1), b(10, 1);
  const ftarOp_t one = Start(ahead, a.data(), a.data(), a.size());
  ASSERT_EQ(Wait(Start(behind, b.data(), b.data(), b.size())), FTAR_OK);
  ASSERT_EQ(Wait(one), FTAR_OK);

  const ftarGroup_t last = Group(1, "late", 2);
  std::vector<std::vector<float>> outputs(8, std::vector<float>(1000));
  std::vector<ftarOp_t> ops;
  for (std::vector<float>& output : outputs)
    ops.push_back(Start(last, other.data(), output.data(), other.size()));
  ASSERT_EQ(Wait(mentioned), FTAR_OK);
  ASSERT_EQ(Wait(ops[0]), FTAR_OK);
  const std::string dump = Dump(1);
  EXPECT_NE(dump.find("\"in_flight\": 2"), std::string::npos) << dump;
  EXPECT_NE(dump.find("\"queued\": 5"), std::string::npos) << dump;
  for (size_t i = 1; i < ops.size(); ++i) {
    const ftarOp_t op = Start(first, sum.data(), sum.data(), sum.size());
    EXPECT_EQ(Wait(op), FTAR_OK);
    EXPECT_EQ(Wait(ops[i]), FTAR_OK);
  }
}

TEST_F(Skew, WindowsThatDifferAreAMismatchByName) {
  Open({});
  std::array<std::vector<float>, 2> data = {std::vector<float>(1000, 1),
                                            std::vector<float>(1000, 1)};
  std::array<ftarOp_t, 2> ops{};
  for (int i = 0; i < 2; ++i)
    ops[i] = Start(Group(i, "apart", 4 + i), data[i].data(), data[i].data(), 1000);
  for (ftarOp_t op : ops) {
    EXPECT_EQ(ftarOpWait(op, kLongNs, nullptr), FTAR_ERR_MISMATCH);
    EXPECT_NE(std::string(LastError().text).find("window"), std::string::npos) << LastError().text;
    ftarOpRelease(op);
  }
}

// A view that was given out can be named when it is over, whether or not a call has met it.
TEST_F(Skew, AViewThatWasGivenOutCanBeNamedWhenItIsOver) {
  Open({});
  const ftarGroup_t group = Group(0, nullptr, 0);
  const ftarViewInfo info = ViewOf(group);
  ASSERT_EQ(info.members, 2);
  ASSERT_EQ(ftarJobAbort(jobs_[1], "one less"), FTAR_OK);
  ftarGroupInfo now = FTAR_GROUP_INFO_INIT;
  while (now.members != 1) {
    ftarEvent event = FTAR_EVENT_INIT;
    ASSERT_EQ(ftarJobNextEvent(jobs_[0], &event, kLongNs), FTAR_OK) << "the other stays";
    ASSERT_EQ(ftarGroupGetInfo(group, &now), FTAR_OK);
  }
  const std::array<float, 2> all = AllGather(group, info.epoch, 7);
  EXPECT_EQ(all[0], 7);
  EXPECT_EQ(all[1], 0) << "a segment of a member that is gone";
}

// Where somebody has left, view and operations that name its epoch speak of the same members,
// though the epoch is that of the view in which it was.
TEST_F(Skew, AViewThatIsAskedForAfterALeaveIsThatOfTheNextOperation) {
  Open({});
  const ftarGroup_t group = Group(0, nullptr, 0);
  const ftarGroup_t leavers = Group(1, nullptr, 0);
  std::array<float, 2> data = {1, 1};
  std::array<ftarOp_t, 2> ops = {Start(group, &data[0], &data[0], 1),
                                 Start(leavers, &data[1], &data[1], 1)};
  for (ftarOp_t op : ops) ASSERT_EQ(Wait(op), FTAR_OK) << LastError().text;
  ASSERT_EQ(ftarJobLeave(jobs_[1], kLongNs), FTAR_OK) << LastError().text;
  for (int round = 0; round < 3; ++round) {
    const ftarViewInfo info = ViewOf(group);
    ftarGroupInfo now = FTAR_GROUP_INFO_INIT;
    ASSERT_EQ(ftarGroupGetInfo(group, &now), FTAR_OK);
    EXPECT_EQ(info.epoch, now.epoch);
    EXPECT_EQ(info.members, now.members);
    const std::array<float, 2> all = AllGather(group, info.epoch, 7);
    EXPECT_EQ(all[static_cast<size_t>(info.my_rank)], 7);
    EXPECT_EQ(all[1], info.members == 1 ? -1 : 0) << info.members << " members";
  }
}

// All choose plans by the same figures: the view's, whatever each has measured itself.
TEST_F(Skew, ViewsSayWhatWiresCost) {
  const auto view_of = [this](int member) { return nlohmann::json::parse(Dump(member))["view"]; };
  ASSERT_NO_FATAL_FAILURE(Open({{"transport", "tcp"}}));
  const nlohmann::json measured = view_of(0);
  EXPECT_EQ(measured, view_of(1));
  EXPECT_GT(measured["wire"]["round_ns"], 0);
  EXPECT_EQ(measured["members"].size(), 2u);
}

TEST_F(Skew, WhatWiresCostMayBeTold) {
  ASSERT_NO_FATAL_FAILURE(
      Open({{"transport", "tcp"}, {"wire_round", "30us"}, {"wire_rate", "1000000000"}}));
  const nlohmann::json view = nlohmann::json::parse(Dump(1))["view"];
  EXPECT_EQ(view["wire"]["round_ns"], 30'000);
  EXPECT_EQ(view["wire"]["byte_ps"], 1'000);
}

}  // namespace
}  // namespace process
