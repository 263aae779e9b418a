// ftar.hpp on a job of one: results as values, exceptions only where asked for, handles that clean
// up after themselves.
#include <gtest/gtest.h>

#include <array>
#include <ftar/ftar.hpp>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace {

// What std::span is from C++20 on.
template <typename T>
struct Slice {
  T* first;
  size_t count;
  T* data() const { return first; }
  size_t size() const { return count; }
};

template <typename C, typename = void>
constexpr bool kReduces = false;
template <typename C>
constexpr bool kReduces<
    C, std::void_t<decltype(std::declval<const ftar::Group&>().AllReduce(std::declval<C>()))>> =
    true;
static_assert(kReduces<std::vector<float>&> && kReduces<std::array<float, 4>&>);
static_assert(kReduces<ftar::Buffer<float>&> && kReduces<const ftar::Buffer<float>&>);
static_assert(kReduces<Slice<float>> && kReduces<const Slice<float>> && kReduces<Slice<float>&>);
// A temporary that owns its elements would be gone before the operation is through.
static_assert(!kReduces<std::vector<float>> && !kReduces<const std::vector<float>>);
static_assert(!kReduces<std::array<float, 4>> && !kReduces<std::array<const float, 4>>);
static_assert(!kReduces<ftar::Buffer<float>> && !kReduces<float (&&)[4]> && !kReduces<int&>);

template <typename C, typename = void>
constexpr bool kGathers = false;
template <typename C>
constexpr bool kGathers<C, std::void_t<decltype(std::declval<const ftar::Group&>().AllGather(
                               std::declval<C>(), std::declval<std::vector<float>&>()))>> = true;
static_assert(kGathers<const std::vector<float>&> && kGathers<Slice<const float>>);
static_assert(!kGathers<std::vector<float>> && !kGathers<std::string>);

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

TEST(Hpp, ATemporaryViewIsReducedInPlace) {
  ftar::Job job = ftar::Job::Join().value();
  ftar::Group group = job.OpenGroup().value();
  std::vector<float> data = {1, 2, 3};
  EXPECT_TRUE(group.AllReduce(Slice<float>{data.data(), 2}, FTAR_AVG).Wait().ok());
  EXPECT_TRUE(group.Broadcast(Slice<float>{data.data(), 2}, 0).Wait().ok());
  EXPECT_EQ(data, (std::vector<float>{1, 2, 3}));
}

TEST(Hpp, AnInputOfItsOwnStaysAsItIs) {
  ftar::Job job = ftar::Job::Join().value();
  ftar::Group group = job.OpenGroup().value();
  const std::vector<float> input = {1, 2, 3};
  std::vector<float> output(3);
  const ftarRedop_t largest = FTAR_MAX;
  EXPECT_TRUE(group.AllReduce(input, output, largest).Wait().ok());
  EXPECT_EQ(output, input);

  std::array<float, 3> segment{};
  EXPECT_TRUE(group.ReduceScatter(input, segment, FTAR_AVG).Wait().ok());
  EXPECT_EQ(segment[2], 3);
  output.assign(3, 0);
  const ftarStepInfo step = job.BeginStep().value();
  EXPECT_TRUE(group.AllGather(segment, output, step).Wait().ok());
  EXPECT_EQ(output, input);
  EXPECT_TRUE(
      group.ReduceScatter(Slice<const float>{input.data(), 2}, Slice<float>{&output[1], 2}, step)
          .Wait()
          .ok());
  EXPECT_EQ(output, (std::vector<float>{1, 1, 2}));
}

TEST(Hpp, SizesThatDoNotFitTogetherAreRefused) {
  ftar::Job job = ftar::Job::Join().value();
  ftar::Group group = job.OpenGroup().value();
  std::vector<double> three(3), four(4);
  const ftar::Outcome reduced = group.AllReduce(three, four).Wait();
  EXPECT_EQ(reduced.status, FTAR_ERR_ARG);
  EXPECT_STREQ(reduced.error()->argument, "send");
  EXPECT_EQ(reduced.Text(), "FTAR_ERR_ARG: send has 3 elements, not 4");
  EXPECT_EQ(group.ReduceScatter(four, three).Wait().Text(),
            "FTAR_ERR_ARG: send has 4 elements, not 3 for each of 1 members");
  EXPECT_EQ(group.AllGather(three, four).Wait().Text(),
            "FTAR_ERR_ARG: recv has 4 elements, not 3 for each of 1 members");
  EXPECT_EQ(group.AllGather(three, three, ftarStepInfo{}).Wait().code(), FTAR_ERR_ARG);
  EXPECT_EQ(group.Info().next_seq, 0u) << "a refused start takes no seq";
  EXPECT_EQ(ftar::Group().AllGather(three, three).Wait().code(), FTAR_ERR_HANDLE);
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
