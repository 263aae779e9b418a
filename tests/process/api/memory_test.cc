// Memory that runs out at every point of a short life: from the k-th allocation on nobody in this
// process gets any, or only the k-th fails. Calls may fail, and say so; nothing crashes and nothing
// hangs, and with memory again all works.
#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

#include "ftar/ftar.h"
#include "tests/process/api/jobs.h"
#include "tests/process/api/scarce_memory.h"
#include "tests/process/harness.h"

namespace process {
namespace {

bool IsOutOfMemory(ftarResult_t result) {
  return result == FTAR_ERR_MEMORY || result == FTAR_ERR_SYSTEM || result == FTAR_ERR_ABORTED;
}

// Joins, multiplies in place by 3, goes: with so many allocations. The first result that is not
// FTAR_OK; then the input is as it was.
ftarResult_t LiveWith(int64_t allocations) {
  std::array<float, 64> data{};
  data.fill(1);
  ftarOpDesc desc = FTAR_OP_DESC_INIT;
  desc.send = desc.recv = data.data();
  desc.count = data.size();
  desc.scale = 3;
  ftarJob_t job = nullptr;
  ftarGroup_t group = nullptr;
  ftarOp_t op = nullptr;
  left = allocations;
  ftarResult_t result = ftarJobJoin(nullptr, &job);
  if (result == FTAR_OK) result = ftarGroupOpen(job, nullptr, &group);
  if (result == FTAR_OK) result = ftarOpStart(group, &desc, &op);
  if (result == FTAR_OK) result = ftarOpWait(op, kLongNs, nullptr);
  const float expected = result == FTAR_OK ? 3 : 1;
  static_cast<void>(ftarOpRelease(op));
  static_cast<void>(ftarGroupClose(group));
  const ftarResult_t gone = ftarJobDestroy(job);
  left = kPlenty;
  for (const float value : data) EXPECT_EQ(value, expected) << allocations;
  return result == FTAR_OK ? gone : result;
}

// Lives with ever more memory, until it suffices. How many failed.
int LiveUntilItSuffices() {
  int failed = 0, good = 0;
  for (int64_t allocations = 0; good < 50; ++allocations) {
    const ftarResult_t result = LiveWith(allocations);
    good = result == FTAR_OK ? good + 1 : 0;
    failed += result == FTAR_OK ? 0 : 1;
    EXPECT_TRUE(result == FTAR_OK || IsOutOfMemory(result))
        << allocations << ": " << ftarResultString(result);
  }
  EXPECT_EQ(LiveWith(kPlenty), FTAR_OK) << LastError().text;
  return failed;
}

TEST(Memory, MayRunOutAtAnyAllocationOfALife) {
  only_one = false;
  ASSERT_EQ(LiveWith(kPlenty), FTAR_OK) << LastError().text;
  EXPECT_GT(LiveUntilItSuffices(), 100);
}

TEST(Memory, MayBeShortForAMoment) {
  only_one = true;
  ASSERT_EQ(LiveWith(kPlenty), FTAR_OK) << LastError().text;
  EXPECT_GT(LiveUntilItSuffices(), 100);
}

// All or none: what is refused has taken no number, and nobody is told that it has ended.
TEST(Memory, RefusesManyAsAWhole) {
  constexpr size_t kMany = 40;
  only_one = true;
  for (int64_t allocations = 0, good = 0; good < 20; ++allocations) {
    std::array<std::array<float, 4>, kMany> data{};
    std::array<ftarOpDesc, kMany> descs;
    int ended = 0;
    for (size_t i = 0; i < kMany; ++i) {
      descs[i] = FTAR_OP_DESC_INIT;
      descs[i].send = descs[i].recv = data[i].data();
      descs[i].count = data[i].size();
      descs[i].user = &ended;
      descs[i].on_done = [](const ftarOutcome*, void* user) { ++*static_cast<int*>(user); };
    }
    ftarJob_t job = nullptr;
    ftarGroup_t group = nullptr;
    ASSERT_EQ(ftarJobJoin(nullptr, &job), FTAR_OK) << LastError().text;
    ASSERT_EQ(ftarGroupOpen(job, nullptr, &group), FTAR_OK) << LastError().text;
    left = allocations;
    const ftarResult_t result =
        ftarOpStartMany(group, descs.data(), sizeof descs[0], kMany, nullptr);
    left = kPlenty;
    ftarGroupInfo info = FTAR_GROUP_INFO_INIT;
    EXPECT_EQ(ftarGroupGetInfo(group, &info), FTAR_OK);
    EXPECT_EQ(ftarGroupClose(group), FTAR_OK);
    EXPECT_EQ(ftarJobDestroy(job), FTAR_OK);
    if (result != FTAR_OK) {
      EXPECT_EQ(info.next_seq, info.first_seq) << allocations;
    }
    EXPECT_EQ(ended, result == FTAR_OK ? static_cast<int>(kMany) : 0) << allocations;
    good = result == FTAR_OK ? good + 1 : 0;
  }
}

struct Shape {
  const char* plan;
  size_t count;
  int64_t apart;  // so many allocations from one try to the next
  const char* name;
};

// Two members that add in place, some operations at a time.
struct Two {
  static constexpr int kOps = 3;
  struct Member {
    ftarJob_t job = nullptr;
    ftarGroup_t group = nullptr;
    std::array<ftarOp_t, kOps> ops{};
    std::array<std::vector<float>, kOps> data;
    int started = 0;
  };

  Two(const std::string& coordinator, const Shape& what) : shape(what) {
    for (int32_t i = 0; i < 2; ++i) {
      ftarJobConfig config = FTAR_JOB_CONFIG_INIT;
      config.replica = i;
      config.replicas = 2;
      config.coordinator = coordinator.c_str();
      config.timeout_ns = 2 * kSecondNs;
      config.flags = FTAR_JOB_NONBLOCKING;
      EXPECT_EQ(ftarJobJoin(&config, &members[i].job), FTAR_IN_PROGRESS) << LastError().text;
      for (std::vector<float>& data : members[i].data) data.assign(shape.count, 1);
    }
    for (Member& member : members) {
      EXPECT_EQ(ftarJobWaitReady(member.job, kLongNs), FTAR_OK) << LastError().text;
      EXPECT_EQ(ftarGroupOpen(member.job, nullptr, &member.group), FTAR_OK) << LastError().text;
    }
  }
  ~Two() {
    for (const Member& member : members) {
      for (const ftarOp_t op : member.ops) ftarOpRelease(op);
      ftarGroupClose(member.group);
      ftarJobDestroy(member.job);
    }
  }
  void Start(Member* member) const {
    for (member->started = 0; member->started < kOps; ++member->started) {
      std::vector<float>& data = member->data[static_cast<size_t>(member->started)];
      ftarOpDesc desc = FTAR_OP_DESC_INIT;
      desc.send = desc.recv = data.data();
      desc.count = shape.count;
      desc.plan = shape.plan;
      ftarOp_t* const op = &member->ops[static_cast<size_t>(member->started)];
      if (ftarOpStart(member->group, &desc, op) != FTAR_OK) return;
    }
  }
  // With so many allocations from now on. How many operations had not enough.
  int Add(int64_t allocations) {
    left = allocations;
    for (Member& member : members) Start(&member);
    for (const Member& member : members) {  // whoever could not even start is not waited for
      if (member.started == kOps) continue;
      left = kPlenty;
      static_cast<void>(ftarJobAbort(member.job, "no memory"));  // it may be out by itself
    }
    int failed = 0;
    std::array<std::array<ftarResult_t, kOps>, 2> results{};
    std::array<std::array<ftarOutcome, kOps>, 2> outcomes{};
    for (size_t i = 0; i < 2; ++i) {
      for (size_t k = 0; k < static_cast<size_t>(members[i].started); ++k) {
        outcomes[i][k] = FTAR_OUTCOME_INIT;
        results[i][k] = ftarOpWait(members[i].ops[k], kSecondNs, &outcomes[i][k]);
      }
    }
    left = kPlenty;
    for (size_t i = 0; i < 2; ++i) {
      for (size_t k = 0; k < static_cast<size_t>(members[i].started); ++k)
        failed += Check(results[i][k], outcomes[i][k].participants, members[i].data[k],
                        "member " + std::to_string(i) + " operation " + std::to_string(k) +
                            " after " + std::to_string(allocations));
    }
    return failed;
  }
  // 1 if it had no memory.
  int Check(ftarResult_t result, int32_t participants, const std::vector<float>& data,
            const std::string& where) const {
    if (result == FTAR_TIMEOUT) return 0;  // a process without memory may starve its waits
    const bool good = result == FTAR_OK;
    EXPECT_TRUE(good || IsOutOfMemory(result)) << ftarResultString(result);
    const auto expected = static_cast<float>(good ? participants : 1);
    size_t wrong = 0;
    for (const float value : data) wrong += value != expected ? 1 : 0;
    EXPECT_EQ(wrong, 0u) << shape.name << " " << where << ": " << ftarResultString(result);
    return good ? 0 : 1;
  }

  Shape shape;
  std::array<Member, 2> members;
};

class MemoryOfTwo : public testing::TestWithParam<Shape> {};

TEST_P(MemoryOfTwo, MayRunOutInTheMiddleOfAnOperation) {
  only_one = false;
  static const Coordinator coordinator;
  int failed = 0;
  for (int64_t allocations = 20; allocations < 200; allocations += GetParam().apart) {
    Two two(coordinator.address(), GetParam());
    failed += two.Add(allocations);
  }
  EXPECT_GT(failed, 4);
}

INSTANTIATE_TEST_SUITE_P(Plans, MemoryOfTwo,
                         testing::Values(Shape{"oneshot", 5000, 13, "oneshot"},
                                         Shape{"direct", 5000, 13, "direct"},
                                         Shape{"ring", 5000, 13, "ring"},
                                         Shape{nullptr, 500, 5, "lane"},
                                         Shape{nullptr, 50000, 13, "shared"}),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace process
