// ftar.hpp on a job of one: results as values, exceptions only where asked for, handles that clean
// up after themselves.
#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <ftar/ftar.hpp>
#include <initializer_list>
#include <memory>
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

static_assert(!kGathers<std::initializer_list<float>>);

// GNU dialects take it for an integer.
__extension__ typedef __int128 Wide;
static_assert(ftar::kHasDtype<bool> && ftar::kHasDtype<int64_t> && ftar::kHasDtype<float>);
static_assert(!ftar::kHasDtype<Wide> && !ftar::kHasDtype<short> && !ftar::kHasDtype<long double>);

TEST(Hpp, ABufferThatWasMovedFromIsEmpty) {
  ftar::Job job = ftar::Job::Join().value();
  auto buffer = job.Alloc<float>(8).value();
  const auto other = std::move(buffer);
  EXPECT_EQ(other.size(), 8u);
  EXPECT_EQ(buffer.size(), 0u);
  EXPECT_EQ(buffer.begin(), buffer.end());
}

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

TEST(Hpp, NothingCanBeHeldInArrays) {
  std::array<ftar::Op, 2> ops{};
  const std::array<ftar::Group, 2> groups{};
  const ftar::Job jobs[2] = {};
  EXPECT_FALSE(ops[0]);
  EXPECT_EQ(ops[0].Finish().code(), FTAR_ERR_HANDLE);
  EXPECT_TRUE(ops[0].Participants().empty());
  EXPECT_EQ(groups[1].Barrier().Wait().code(), FTAR_ERR_HANDLE);
  EXPECT_EQ(jobs[1].NextEvent().code(), FTAR_ERR_HANDLE);
  ftar::Job job = ftar::Job::Join().value();
  ftar::Group group = job.OpenGroup().value();
  ops[1] = group.Barrier();
  EXPECT_TRUE(ops[1].Finish().ok());
}

TEST(Hpp, WhatIsNotFinalIsAskedAgain) {
  const ftarResult_t answers[] = {FTAR_TIMEOUT, FTAR_ERR_QUORUM, FTAR_ERR_COORDINATOR,
                                  FTAR_IN_PROGRESS, FTAR_ERR_EVICTED};
  size_t asked = 0;
  const ftar::Status last = ftar::Finish([&] { return ftar::Status(answers[asked++]); });
  EXPECT_EQ(asked, std::size(answers));
  EXPECT_EQ(last.code(), FTAR_ERR_EVICTED);
  EXPECT_TRUE(ftar::Status().final());
  ftar::Job job = ftar::Job::Join().value();
  EXPECT_EQ(ftar::Finish([&] { return job.BeginStep(); }).value().step, 0);
}

TEST(Hpp, ManyBucketsStartTogether) {
  ftar::Job job = ftar::Job::Join().value();
  ftar::Group group = job.OpenGroup().value();
  std::vector<std::vector<float>> gradients = {{1, 2, 3}, {4}, {5, 6}};
  std::vector<ftar::OpDesc> buckets;
  for (auto& gradient : gradients) buckets.push_back(ftar::OpDesc::AllReduce(gradient, FTAR_AVG));
  buckets[2].tag = 7;
  const std::vector<ftar::Op> ops = group.StartMany(buckets).value();
  ASSERT_EQ(ops.size(), 3u);
  for (size_t i = 0; i < ops.size(); ++i) EXPECT_EQ(ops[i].Finish().OrThrow().seq, i);
  EXPECT_EQ(gradients[2], (std::vector<float>{5, 6}));

  buckets[1].count = 0;
  buckets[2].recv = nullptr;
  const auto refused = group.StartMany(buckets);
  EXPECT_EQ(refused.code(), FTAR_ERR_ARG);
  EXPECT_NE(refused.Text().find("desc[2].recv"), std::string::npos) << refused.Text();
  EXPECT_EQ(group.Info().next_seq, 3u) << "all or none";
  EXPECT_TRUE(group.StartMany(std::vector<ftar::OpDesc>()).value().empty());
  const ftarStepInfo step = job.BeginStep().value();
  const std::array<ftarOpDesc, 2> in_c = {ftar::OpDesc::Broadcast(gradients[0], 0),
                                          ftar::OpDesc::Broadcast(gradients[1], 0, step.epoch)};
  for (const ftar::Op& op : group.StartMany(in_c).value()) EXPECT_TRUE(op.Finish().ok());
}

TEST(Hpp, OutcomesBySeqAndOfAWholeStep) {
  ftar::Job job = ftar::Job::Join().value();
  ftar::Group group = job.OpenGroup().value();
  std::vector<float> data = {1, 2};
  EXPECT_EQ(job.BeginStep().value().step, 0);
  const ftar::Op op = group.AllReduce(data);
  const ftarStepInfo sum = job.EndStep(0).value();
  EXPECT_EQ(sum.participants, 1);
  EXPECT_EQ(sum.weight_sum, 1);
  EXPECT_EQ(job.EndStep(5).code(), FTAR_ERR_ARG);
  const ftarOutcome outcome = group.GetOutcome(0).value();
  EXPECT_EQ(outcome.status, FTAR_OK);
  EXPECT_EQ(outcome.participants, 1);
  EXPECT_EQ(group.GetOutcome(1).code(), FTAR_ERR_ARG);
}

TEST(Hpp, WhatAJobTellsOfItself) {
  ftar::JobConfig config;
  config.Set("timeout", "2s");
  ftar::Job job = ftar::Job::Join(std::move(config)).value();
  const std::vector<ftar::Knob> knobs = job.Knobs().value();
  const auto timeout = std::find_if(knobs.begin(), knobs.end(),
                                    [](const ftar::Knob& knob) { return knob.name == "timeout"; });
  ASSERT_NE(timeout, knobs.end());
  EXPECT_EQ(timeout->value, "2s");
  EXPECT_FALSE(timeout->origin.empty() || timeout->help.empty());
  EXPECT_EQ(job.Counter("links_opened").value(), 0u);
  EXPECT_EQ(job.Counter("no such counter").code(), FTAR_ERR_ARG);

  const std::string path = testing::TempDir() + "hpp_dump.json";
  job.Dump(path.c_str()).OrThrow();
  EXPECT_EQ(access(path.c_str(), R_OK), 0);
  unlink(path.c_str());
  EXPECT_EQ(job.Dump("/no/such/folder/dump").code(), FTAR_ERR_SYSTEM);

  pollfd ready = {job.EventFd().value(), POLLIN, 0};
  EXPECT_EQ(job.NextEvent(20'000'000'000)->type, FTAR_EVENT_VIEW);  // maybe after the join
  while (job.NextEvent().ok()) continue;
  EXPECT_EQ(poll(&ready, 1, 0), 0);
  EXPECT_EQ(job.NextEvent().code(), FTAR_IN_PROGRESS);
  EXPECT_EQ(job.NextEvent(1'000'000).code(), FTAR_TIMEOUT);
  EXPECT_EQ(job.Report(FTAR_OK, "all is well").code(), FTAR_ERR_ARG);
  EXPECT_EQ(job.Evict(ftarId{1, 2}, "nobody").code(), FTAR_ERR_ARG);

  ftarMemDesc where = FTAR_MEM_DESC_INIT;
  EXPECT_TRUE(job.Alloc<float>(4, &where).ok());
  where.numa = 0;
  EXPECT_EQ(job.Alloc<float>(4, &where).code(), FTAR_ERR_UNSUPPORTED);
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

// A callback may not end a job. The job lives on, and what it calls has to as well.
TEST(Hpp, WhatAJobCallsStaysWhereACallbackDropsTheJob) {
  struct Shared {
    ftar::Job job;
    std::atomic<bool> begin{false}, dropped{false};
  };
  const auto shared = std::make_shared<Shared>();  // for as long as the job lives: to the end
  auto held = std::make_shared<int>(1);
  const std::weak_ptr<int> handler_is_there = held;
  ftar::JobConfig config;
  config.flags = FTAR_JOB_NONBLOCKING;
  config.handler = [shared, held = std::move(held)](const ftarEvent&) {
    while (!shared->begin) usleep(100);
    shared->job = ftar::Job();
    shared->dropped = true;
  };
  shared->job = ftar::Job::Join(std::move(config)).value();
  const ftarJob_t handle = shared->job.get();
  shared->begin = true;
  while (!shared->dropped) usleep(100);
  EXPECT_FALSE(shared->job);
  EXPECT_FALSE(handler_is_there.expired());
  EXPECT_EQ(ftarJobWaitReady(handle, -1), FTAR_OK) << "it lives on";
}

}  // namespace
