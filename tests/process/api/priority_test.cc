// A group's priority: an urgent operation overtakes the bulk that was called before it, and the
// bulk finishes nonetheless, also when the other member is lost in the middle of both.
#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

#include "ftar/ftar.h"
#include "tests/process/api/jobs.h"
#include "tests/process/harness.h"

namespace process {
namespace {

constexpr uint64_t kBulkCount = 4u << 20;  // elements
constexpr uint64_t kUrgentCount = 16u << 10;
constexpr size_t kBulkOps = 12;

class Priority : public testing::TestWithParam<const char*> {
 protected:
  struct Member {
    ftarJob_t job = nullptr;
    ftarGroup_t bulk = nullptr, urgent = nullptr;
    std::vector<std::vector<float>> data;
    std::vector<ftarOp_t> ops;  // the urgent one is the last
  };

  void SetUp() override {
    for (int32_t i = 0; i < 2; ++i) {
      ftarJobConfig config = FTAR_JOB_CONFIG_INIT;
      config.replica = i;
      config.replicas = 2;
      config.coordinator = coordinator_.address().c_str();
      config.flags = FTAR_JOB_NONBLOCKING;
      ASSERT_EQ(Join(config, {{"transport", GetParam()}}, &members_[i].job), FTAR_IN_PROGRESS)
          << LastError().text;
    }
    for (Member& member : members_) {
      ASSERT_EQ(ftarJobWaitReady(member.job, kLongNs), FTAR_OK) << LastError().text;
      ftarGroupConfig config = FTAR_GROUP_CONFIG_INIT;
      ASSERT_EQ(ftarGroupOpen(member.job, &config, &member.bulk), FTAR_OK);
      config.name = "urgent";
      config.priority = 10;
      ASSERT_EQ(ftarGroupOpen(member.job, &config, &member.urgent), FTAR_OK) << LastError().text;
    }
  }
  void TearDown() override {
    for (Member& member : members_) {
      ftarGroupClose(member.bulk);
      ftarGroupClose(member.urgent);
      ftarJobDestroy(member.job);
    }
  }
  // Those of a group in one call: who calls one by one waits for what is being carried out, and may
  // find all of it over.
  void Call(int index, ftarGroup_t group, size_t n) {
    Member& member = members_[index];
    std::vector<ftarOpDesc> calls(n, ftarOpDesc FTAR_OP_DESC_INIT);
    for (size_t i = 0; i < n; ++i) {
      std::vector<float>& data = member.data[member.ops.size() + i];
      calls[i].kind = FTAR_ALLREDUCE;
      calls[i].dtype = FTAR_F32;
      calls[i].redop = FTAR_SUM;
      calls[i].send = calls[i].recv = data.data();
      calls[i].count = data.size();
    }
    member.ops.resize(member.ops.size() + n);
    ASSERT_EQ(ftarOpStartMany(group, calls.data(), sizeof calls[0], n, &*(member.ops.end() - n)),
              FTAR_OK)
        << LastError().text;
  }
  // All the bulk first: little of it is over when the urgent one is called.
  void CallAll() {
    for (int index = 0; index < 2; ++index) {
      const float value = static_cast<float>(index + 1);
      members_[index].data.assign(kBulkOps, std::vector<float>(kBulkCount, value));
      members_[index].data.emplace_back(kUrgentCount, value);
    }
    for (int index = 0; index < 2; ++index) Call(index, members_[index].bulk, kBulkOps);
    for (int index = 0; index < 2; ++index) Call(index, members_[index].urgent, 1);
  }
  ftarOutcome Finish(ftarOp_t op) {
    ftarOutcome outcome = FTAR_OUTCOME_INIT;
    EXPECT_EQ(ftarOpWait(op, kLongNs, &outcome), FTAR_OK) << LastError().text;
    EXPECT_EQ(ftarOpRelease(op), FTAR_OK);
    return outcome;
  }

  Coordinator coordinator_;
  std::array<Member, 2> members_;
};
INSTANTIATE_TEST_SUITE_P(All, Priority, testing::Values("tcp", "shm"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(Priority, WhatIsUrgentIsDeliveredWhileBulkIsInFlight) {
  CallAll();
  for (Member& member : members_) {
    const int64_t urgent_ns = Finish(member.ops.back()).delivered_ns;
    size_t later = 0;
    for (size_t i = 0; i < kBulkOps; ++i)
      later += Finish(member.ops[i]).delivered_ns > urgent_ns ? 1u : 0u;
    EXPECT_GT(later, kBulkOps / 2);
    for (const std::vector<float>& data : member.data) {
      EXPECT_EQ(data.front(), 3);
      EXPECT_EQ(data.back(), 3);
    }
  }
}

TEST_P(Priority, BothGroupsOutliveAMemberThatIsLostMeanwhile) {
  CallAll();
  ASSERT_EQ(ftarJobAbort(members_[1].job, "in the middle"), FTAR_OK) << LastError().text;
  for (const ftarOp_t op : members_[0].ops) EXPECT_GE(Finish(op).participants, 1);
  for (const ftarOp_t op : members_[1].ops) EXPECT_EQ(ftarOpRelease(op), FTAR_OK);
  for (const std::vector<float>& data : members_[0].data)
    EXPECT_TRUE(data.back() == 1 || data.back() == 3) << data.back();
}

}  // namespace
}  // namespace process
