// ftar.hpp on a job of one: results as values, exceptions only where asked for, handles that clean
// up after themselves.
#include <gtest/gtest.h>

#include <ftar/ftar.hpp>
#include <string>
#include <utility>
#include <vector>

namespace {

TEST(Hpp, TrainsAlone) {
  ftar::Job job = ftar::Job::Join().value();
  ftar::Group group = job.OpenGroup().value();
  auto gradients = job.Alloc<float>(100).value();
  std::vector<int64_t> weights(10, 4);
  for (int i = 0; i < 3; ++i) {
    const ftarStepInfo step = job.BeginStep().value();
    EXPECT_EQ(step.step, i);
    group.Broadcast(weights, 0).Wait().OrThrow();
    for (float& x : gradients) x = 3;
    const ftar::Outcome done = group.AllReduce(gradients, FTAR_AVG).Wait();
    EXPECT_TRUE(done.ok()) << done.Text();
    EXPECT_TRUE(done.final());
    EXPECT_EQ(done.participants, 1);
    EXPECT_EQ(gradients[99], 3);
  }
  EXPECT_TRUE(group.Barrier().Wait().ok());
  const ftar::View view = group.GetView().value();
  EXPECT_EQ(view.Info().members, 1);
  EXPECT_EQ(view.Member(0).rank, 0);
  EXPECT_EQ(group.Info().next_seq, 7u);
  job.Leave().OrThrow();
}

TEST(Hpp, ParticipantsOfAnOperation) {
  ftar::Job job = ftar::Job::Join().value();
  ftar::Group group = job.OpenGroup("own").value();
  double one[1] = {1};
  const ftar::Op op = group.AllReduce(one);
  EXPECT_TRUE(op.Wait().ok());
  ASSERT_EQ(op.Participants().size(), 1u);
  EXPECT_EQ(op.Participants()[0].weight, 1);
}

TEST(Hpp, ARefusedStartIsAnOutcomeWithAReason) {
  ftar::Job job = ftar::Job::Join().value();
  ftar::Group group = job.OpenGroup().value();
  ftar::OpDesc desc;
  desc.count = 4;
  const ftar::Outcome refused = group.Start(desc).Wait();
  EXPECT_EQ(refused.status, FTAR_ERR_ARG);
  EXPECT_NE(refused.Text().find("send"), std::string::npos) << refused.Text();
  EXPECT_THROW(refused.OrThrow(), ftar::Error);
}

TEST(Hpp, AFailedJoinSaysWhyAndThrowsOnlyIfAsked) {
  ftar::JobConfig config;
  config.Set("timeuot", "1s");
  ftar::Result<ftar::Job> job = ftar::Job::Join(std::move(config));
  EXPECT_FALSE(job.ok());
  EXPECT_EQ(job.code(), FTAR_ERR_CONFIG);
  EXPECT_NE(job.Text().find("timeuot"), std::string::npos) << job.Text();
  try {
    job.value();
    FAIL() << "value() of a failed result must throw";
  } catch (const ftar::Error& error) {
    EXPECT_EQ(error.code(), FTAR_ERR_CONFIG);
    EXPECT_NE(std::string(error.what()).find("timeuot"), std::string::npos);
  }
}

TEST(Hpp, AMovedJobIsTheSameJob) {
  ftar::JobConfig config;
  config.Set("timeout", "1s");
  config.handler = [](const ftarEvent&) {};
  ftar::Job first = ftar::Job::Join(std::move(config)).value();
  const ftarJob_t handle = first.get();
  ftar::Job second = std::move(first);
  EXPECT_EQ(first.get(), nullptr);
  ftar::Job third;
  third = std::move(second);
  EXPECT_EQ(second.get(), nullptr);
  EXPECT_EQ(third.get(), handle);
  EXPECT_TRUE(third.OpenGroup().ok());
  EXPECT_TRUE(third.OpenGroup("urgent", 0, 10).ok());
  EXPECT_EQ(third.OpenGroup("urgent", 0, 1000).code(), FTAR_ERR_ARG);
  third = ftar::Job();
  EXPECT_EQ(ftarJobWaitReady(handle, 0), FTAR_ERR_HANDLE) << "the temporary took it along";
}

}  // namespace
