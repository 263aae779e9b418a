// ftar.hpp between two members in this process: shapes that depend on how many there are.
#include <gtest/gtest.h>

#include <ftar/ftar.hpp>
#include <utility>
#include <vector>

#include "tests/process/harness.h"

namespace {

TEST(HppPair, TwoMembersHaveASegmentEach) {
  process::Coordinator coordinator;
  ftar::Job jobs[2];
  ftar::Group groups[2];
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

}  // namespace
