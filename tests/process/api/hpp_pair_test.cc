// ftar.hpp between two members in this process: shapes that depend on how many there are.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <ftar/ftar.hpp>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/process/harness.h"

namespace {

constexpr int64_t kLongNs = 20'000'000'000;  // who waits for so long has failed

struct Pair {
  process::Coordinator coordinator;
  std::array<ftar::Job, 2> jobs;
  std::array<ftar::Group, 2> groups;

  Pair() {
    for (int32_t i = 0; i < 2; ++i) {
      ftar::JobConfig config;
      config.replica = i;
      config.replicas = 2;
      config.coordinator = coordinator.address().c_str();
      config.flags = FTAR_JOB_NONBLOCKING;
      jobs[i] = ftar::Job::Join(std::move(config)).value();
    }
    for (int32_t i = 0; i < 2; ++i) {
      jobs[i].WaitReady().OrThrow();
      groups[i] = jobs[i].OpenGroup().value();
    }
  }
};

// The first event of that type, within a time in which it must come.
ftar::Result<ftarEvent> Await(const ftar::Job& job, ftarEventType_t type) {
  for (;;) {
    auto event = job.NextEvent(kLongNs);
    if (!event.ok() || event->type == type) return event;
  }
}

TEST(HppPair, TwoMembersHaveASegmentEach) {
  Pair pair;
  auto& [coordinator, jobs, groups] = pair;
  const std::vector<float> input = {1, 2, 3, 4};
  std::vector<float> segments[2] = {{0, 0}, {0, 0}}, all[2] = {{0, 0, 0, 0}, {0, 0, 0, 0}};
  std::vector<ftar::Op> ops;
  for (int32_t i = 0; i < 2; ++i) ops.push_back(groups[i].ReduceScatter(input, segments[i]));
  for (const ftar::Op& op : ops) op.Wait().OrThrow();
  EXPECT_EQ(segments[0], (std::vector<float>{2, 4}));
  EXPECT_EQ(segments[1], (std::vector<float>{6, 8}));
  ops.clear();
  for (int32_t i = 0; i < 2; ++i) {
    const ftarStepInfo step = jobs[i].BeginStep().value();
    EXPECT_EQ(groups[i].AllGather(input, segments[i], step).Wait().Text(),
              "FTAR_ERR_ARG: recv has 2 elements, not 4 for each of 2 members");
    ops.push_back(groups[i].AllGather(segments[i], all[i], step));
  }
  for (const ftar::Op& op : ops) op.Wait().OrThrow();
  EXPECT_EQ(all[0], (std::vector<float>{2, 4, 6, 8}));
  EXPECT_EQ(all[1], all[0]);
}

TEST(HppPair, BucketsThatStartTogetherAreAveraged) {
  Pair pair;
  std::vector<float> gradients[2][2] = {{{1, 2}, {3}}, {{3, 4}, {5}}};
  std::vector<ftar::Op> ops[2];
  for (size_t i = 0; i < 2; ++i) {
    const std::array<ftar::OpDesc, 2> buckets = {
        ftar::OpDesc::AllReduce(gradients[i][0], FTAR_AVG),
        ftar::OpDesc::AllReduce(gradients[i][1], FTAR_AVG)};
    ops[i] = pair.groups[i].StartMany(buckets).value();
  }
  for (size_t i = 0; i < 2; ++i) {
    for (const ftar::Op& op : ops[i]) EXPECT_EQ(op.Finish().OrThrow().participants, 2);
    EXPECT_EQ(gradients[i][0], (std::vector<float>{2, 3}));
    EXPECT_EQ(gradients[i][1], (std::vector<float>{4}));
  }
}

TEST(HppPair, WhoIsEvictedAndWhoStaysAreToldByEvents) {
  Pair pair;
  const ftarId second = pair.groups[1].Info().my_id;
  pair.jobs[0].Evict(second, "it is too slow").OrThrow();
  const auto lost = Await(pair.jobs[0], FTAR_EVENT_MEMBER_LOST).value();
  EXPECT_EQ(lost.who.replica, 1);
  EXPECT_NE(std::string(lost.who.text).find("it is too slow"), std::string::npos) << lost.who.text;
  EXPECT_TRUE(Await(pair.jobs[1], FTAR_EVENT_EVICTED).ok());
  EXPECT_EQ(pair.groups[1].Barrier().Finish().code(), FTAR_ERR_EVICTED);
  EXPECT_EQ(pair.groups[0].Barrier().Finish().OrThrow().participants, 1);
}

TEST(HppPair, ALineForPeopleSaysWhoHasLeft) {
  Pair pair;
  std::atomic<bool> gone{false};
  std::thread other([&] {
    EXPECT_TRUE(pair.jobs[1].Leave().ok());
    gone = true;
  });
  std::string said;
  // Steps are boundaries at which the other may go; it is told of before it has gone.
  for (bool left = false; !left || !gone;) {
    ftar::Finish([&] { return pair.jobs[0].BeginStep(); }).value();
    while (auto event = pair.jobs[0].NextEvent()) {
      EXPECT_STRNE(event->who.text, "") << event->type;
      if (event->type != FTAR_EVENT_MEMBER_LEFT) continue;
      left = true;
      said = event->who.text;
    }
  }
  other.join();
  EXPECT_EQ(said.rfind("replica 1 shard 0 on ", 0), 0u) << said;
  EXPECT_NE(said.find(" has left"), std::string::npos) << said;
}

TEST(HppPair, WhoReportsItselfBrokenIsOut) {
  Pair pair;
  pair.jobs[1].Report(FTAR_ERR_DEVICE, "my fan has stopped").OrThrow();
  const auto lost = Await(pair.jobs[0], FTAR_EVENT_MEMBER_LOST).value();
  EXPECT_NE(std::string(lost.who.text).find("my fan has stopped"), std::string::npos)
      << lost.who.text;
}

}  // namespace
