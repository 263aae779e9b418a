// Three members in this process that mark steps: a broadcast's root is the member that was meant
// when the step began, whoever has gone since.
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <ftar/ftar.hpp>
#include <future>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "tests/process/api/jobs.h"
#include "tests/process/harness.h"

namespace process {
namespace {

class Steps : public testing::Test {
 protected:
  void SetUp() override {
    for (int i = 0; i < 3; ++i) JoinAs(i);
    for (int i = 0; i < 3; ++i) {
      jobs_[i].WaitReady(kLongNs).OrThrow();
      groups_[i] = jobs_[i].OpenGroup().value();
      data_[i].assign(100, static_cast<float>(i));
    }
  }
  void TearDown() override {
    for (ftar::Group& group : groups_) group = ftar::Group();
  }

  void JoinAs(int replica) {
    ftar::JobConfig config;
    config.replica = replica;
    config.replicas = 3;
    config.coordinator = coordinator_->address().c_str();
    config.timeout_ns = 2 * kSecondNs;
    config.flags = FTAR_JOB_NONBLOCKING;
    jobs_[replica] = ftar::Job::Join(config).value();
  }
  void BeginStep() {
    for (int i = 0; i < 3; ++i) {
      if (jobs_[i]) steps_[i] = jobs_[i].BeginStep().value();
    }
  }
  void Lose(int member) {
    groups_[member] = ftar::Group();
    jobs_[member] = ftar::Job();
  }
  // In the first one's place, to which member 1 is to send the state. `weight`: of who has it.
  void AwaitANewcomer(double weight = 1) {
    BeginStep();
    LoseTheSource();
    JoinAs(0);
    do {
      for (int i : {1, 2}) steps_[i] = jobs_[i].BeginStep(-1, weight).value();
      SleepMs(5);
    } while (steps_[1].joined == 0);
    steps_[0] = jobs_[0].BeginStep().value();
    groups_[0] = jobs_[0].OpenGroup().value();
    for (const ftarStepInfo& step : steps_) ASSERT_EQ(step.source, steps_[1].rank);
  }
  // Member 0, the source, dies; returns when members 1 and 2 have moved up a rank.
  void LoseTheSource() {
    Lose(0);
    for (int i : {1, 2}) {
      // No look at the group before: nothing but the step has seen its view.
      ftarEvent event = FTAR_EVENT_INIT;
      do {
        ASSERT_EQ(ftarJobNextEvent(jobs_[i].get(), &event, kLongNs), FTAR_OK);
      } while (event.type != FTAR_EVENT_MEMBER_LOST);
      ASSERT_EQ(groups_[i].Info().my_rank, i - 1);
    }
  }

  std::optional<Coordinator> coordinator_{std::in_place};
  std::array<ftar::Job, 3> jobs_;
  std::array<ftar::Group, 3> groups_;
  std::array<ftarStepInfo, 3> steps_{};
  std::array<std::vector<float>, 3> data_;
};

TEST_F(Steps, ASourceThatDiesBeforeItsBroadcastIsAbsentForAllAlike) {
  BeginStep();
  EXPECT_EQ(steps_[1].source, -1) << "nobody was here before the first step";
  BeginStep();
  EXPECT_EQ(steps_[1].source, 0);
  EXPECT_EQ(steps_[2].source, 0);
  LoseTheSource();
  const ftar::Op one = groups_[1].Broadcast(data_[1], steps_[1]);
  const ftar::Op two = groups_[2].Broadcast(data_[2], steps_[2]);
  EXPECT_EQ(one.Wait(kLongNs).status, FTAR_ERR_ABSENT) << one.Test().Text();
  EXPECT_EQ(two.Wait(kLongNs).status, FTAR_ERR_ABSENT) << two.Test().Text();
  // It is in no member's view any more.
  EXPECT_NE(two.Test().Text().find("root, replica 0 ("), std::string::npos) << two.Test().Text();
  EXPECT_EQ(data_[2][7], 2);
  BeginStep();
  EXPECT_TRUE(groups_[1].Broadcast(data_[1], steps_[1]).Wait(0).status == FTAR_IN_PROGRESS);
  EXPECT_TRUE(groups_[2].Broadcast(data_[2], steps_[2]).Wait(kLongNs).ok());
  EXPECT_EQ(data_[2][7], 1) << "the next source is who was here longest";
}

// Nobody is more than one step ahead of the first: whoever waits for that says so.
TEST_F(Steps, WhoWaitsForTheFirstToBeginAStepHearsWhoItIs) {
  jobs_[1].BeginStep().value();
  auto ahead = std::async(std::launch::async, [this] { return jobs_[1].BeginStep().value(); });
  ftarEvent event = FTAR_EVENT_INIT;
  do {
    ASSERT_EQ(ftarJobNextEvent(jobs_[1].get(), &event, kLongNs), FTAR_OK);
  } while (event.type != FTAR_EVENT_LATE);
  EXPECT_EQ(event.who.replica, 0);
  EXPECT_EQ(event.seq, FTAR_NO_SEQ);
  EXPECT_EQ(ahead.wait_for(std::chrono::seconds(0)), std::future_status::timeout);
  jobs_[0].BeginStep().value();
  EXPECT_EQ(ahead.get().step, 1);
}

// The second one was named by its event alone.
TEST_F(Steps, WhoWaitsForSeveralHearsOfThemAll) {
  static std::mutex mutex;
  static std::string log;
  log.clear();
  const auto take = [](int32_t, const char* line, void*) {
    const std::lock_guard<std::mutex> guard(mutex);
    log += line;
  };
  ASSERT_EQ(ftarSetLogHandler(take, nullptr), FTAR_OK);
  const ftar::Op op = groups_[0].AllReduce(data_[0]);
  std::array<bool, 3> late{};
  while (!late[1] || !late[2]) {
    ftarEvent event = FTAR_EVENT_INIT;
    ASSERT_EQ(ftarJobNextEvent(jobs_[0].get(), &event, kLongNs), FTAR_OK);
    if (event.type == FTAR_EVENT_LATE) late[static_cast<size_t>(event.who.replica)] = true;
  }
  const std::string text = op.Wait(1).Text();
  EXPECT_EQ(ftarSetLogHandler(nullptr, nullptr), FTAR_OK);
  for (const char* who : {"replica 1 shard 0", "replica 2 shard 0"}) {
    EXPECT_NE(text.find(who), std::string::npos) << text;
    // Not held over a call: the handler takes it within the library's own locks.
    const std::lock_guard<std::mutex> guard(mutex);
    EXPECT_NE(log.find(std::string(who) + " on "), std::string::npos) << log;
  }
  EXPECT_NE(text.find(" have not entered it"), std::string::npos) << text;
  const ftar::Op one = groups_[1].AllReduce(data_[1]), two = groups_[2].AllReduce(data_[2]);
  for (const ftar::Op* each : {&op, &one, &two}) EXPECT_TRUE(each->Wait(kLongNs).ok());
}

TEST_F(Steps, AStepsWeightIsThatOfItsReductions) {
  std::vector<ftar::Op> ops;
  for (int i = 0; i < 3; ++i) {
    steps_[i] = jobs_[i].BeginStep(-1, i + 2).value();
    EXPECT_EQ(steps_[i].weight_sum, 3) << "nothing has told of the others' weights yet";
  }
  std::array<std::vector<float>, 3> state;  // who only listens has no weight
  state.fill(std::vector<float>(10));
  for (int i = 0; i < 3; ++i) {
    ops.push_back(groups_[i].AllReduce(data_[i], FTAR_WAVG));
    ops.push_back(groups_[i].Broadcast(state[i], 0));
  }
  for (const ftar::Op& op : ops) EXPECT_TRUE(op.Wait(kLongNs).ok()) << op.Test().Text();
  for (const ftar::Job& job : jobs_) EXPECT_EQ(job.EndStep().value().weight_sum, 9);
}

TEST_F(Steps, ARootIsARankOfTheEpochThatIsNamed) {
  BeginStep();
  LoseTheSource();
  std::vector<float> out(100, -1);
  ftar::OpDesc desc;
  desc.kind = FTAR_BROADCAST;
  desc.count = out.size();
  desc.root = 2;
  desc.epoch = steps_[1].epoch;
  desc.recv = out.data();
  const ftar::Op receives = groups_[1].Start(desc);  // and has no input
  desc.epoch = steps_[2].epoch;
  desc.send = desc.recv = data_[2].data();
  const ftar::Op sends = groups_[2].Start(desc);
  EXPECT_TRUE(sends.Wait(kLongNs).ok()) << sends.Test().Text();
  EXPECT_TRUE(receives.Wait(kLongNs).ok()) << receives.Test().Text();
  EXPECT_EQ(out[99], 2);
  desc.send = nullptr;
  desc.recv = out.data();
  EXPECT_EQ(groups_[2].Start(desc).Wait(0).status, FTAR_ERR_ARG) << "the root's input is read";
  const ftar::Outcome never = groups_[1].Broadcast(out, 0, 12345).Wait(0);
  EXPECT_EQ(never.status, FTAR_ERR_ARG);
  EXPECT_NE(never.Text().find("epoch"), std::string::npos) << never.Text();
}

// What a member tells of its groups in a view change is more than the ring to its mate takes at a
// time.
class ManyGroups : public Steps {
 protected:
  void SetUp() override {
    setenv("FTAR_SHM_RING", "256K", 1);
    setenv("FTAR_CHUNK", "1K", 1);
    Steps::SetUp();
  }
  void TearDown() override {
    others_.clear();
    Steps::TearDown();
    unsetenv("FTAR_SHM_RING");
    unsetenv("FTAR_CHUNK");
  }

  std::vector<ftar::Group> others_;
};

TEST_F(ManyGroups, OneLossIsNotTheLossOfAll) {
  for (int i = 0; i < 3; ++i) {
    for (int group = 0; group < 1000; ++group)
      others_.push_back(jobs_[i].OpenGroup(std::to_string(group).c_str()).value());
  }
  for (int step = 0; step < 24; ++step) BeginStep();
  LoseTheSource();
  const ftar::Op one = groups_[1].AllReduce(data_[1]);
  const ftar::Op two = groups_[2].AllReduce(data_[2]);
  for (const ftar::Op* op : {&one, &two}) {
    const ftar::Outcome outcome = op->Wait(kLongNs);
    EXPECT_TRUE(outcome.ok()) << outcome.Text();
    EXPECT_EQ(outcome.participants, 2);
  }
  EXPECT_EQ(data_[1][7], 3);
}

TEST_F(Steps, TheStateComesFromWhoeverHasItAndLives) {
  AwaitANewcomer();
  Lose(1);  // the source, when all know that it is to send the state
  const auto receive = [this] { return groups_[0].ShareState(data_[0], steps_[0]); };
  std::future<ftar::Status> received = std::async(std::launch::async, receive);
  EXPECT_TRUE(groups_[2].ShareState(data_[2], steps_[2]).ok());
  const ftar::Status status = received.get();
  EXPECT_TRUE(status.ok()) << status.Text();
  EXPECT_EQ(data_[0], std::vector<float>(100, 2));
  EXPECT_EQ(jobs_[2].EndStep().code(), FTAR_ERR_ABSENT) << "the first try was of the step";
}

TEST_F(Steps, TheStateComesAlsoFromWhoHasNoInput) {
  AwaitANewcomer(/*weight=*/0);
  std::vector<std::future<ftar::Status>> shared;
  for (int i = 0; i < 3; ++i) {
    shared.push_back(std::async(
        std::launch::async, [this, i] { return groups_[i].ShareState(data_[i], steps_[i]); }));
  }
  for (std::future<ftar::Status>& one : shared) {
    const ftar::Status status = one.get();
    EXPECT_TRUE(status.ok()) << status.Text();
  }
  EXPECT_EQ(data_[0], std::vector<float>(100, 1));
  EXPECT_EQ(groups_[0].Info().next_seq, 1u) << "from the first who was asked";
}

TEST_F(Steps, AStateThatNobodyHasAnyMoreIsAbsent) {
  AwaitANewcomer();
  for (int i : {1, 2}) Lose(i);
  const ftar::Status status = groups_[0].ShareState(data_[0], steps_[0]);
  EXPECT_EQ(status.code(), FTAR_ERR_ABSENT) << status.Text();
  EXPECT_EQ(data_[0], std::vector<float>(100, 0)) << "as it was";
}

TEST_F(Steps, NobodySendsAStateWhereNobodyHasJoined) {
  BeginStep();
  const ftarGroupInfo before = groups_[0].Info();
  EXPECT_TRUE(groups_[0].ShareState(data_[0], steps_[0]).ok());
  EXPECT_EQ(groups_[0].Info().next_seq, before.next_seq);
}

// As waits for operations do. The members have begun as many steps as they can without the root.
TEST_F(Steps, AWaitForAStepEndsWhereNobodyCanDecideAndIsTakenUpAgain) {
  BeginStep();
  coordinator_->process().Signal(SIGKILL);
  Lose(0);
  std::array<int64_t, 3> last{};
  std::array<std::vector<float>, 3> more;
  more.fill(std::vector<float>(100, 1));
  for (int i : {1, 2}) {
    ftar::Result<ftarStepInfo> step = jobs_[i].BeginStep();
    for (; step.ok(); step = jobs_[i].BeginStep()) last[i] = step->step;
    EXPECT_EQ(step.code(), FTAR_ERR_COORDINATOR) << step.Text();
    EXPECT_EQ(jobs_[i].BeginStep().code(), FTAR_ERR_COORDINATOR);
    const ftar::Op undecided = groups_[i].AllReduce(more[i]);
    EXPECT_EQ(jobs_[i].EndStep().code(), FTAR_ERR_COORDINATOR);
  }
  const std::string address = coordinator_->address();
  coordinator_.emplace(Variables{}, address);
  std::vector<ftar::Op> ops;
  for (int i : {1, 2}) {
    ftar::Result<ftarStepInfo> step = jobs_[i].BeginStep();
    while (step.code() == FTAR_ERR_COORDINATOR) step = jobs_[i].BeginStep();
    ASSERT_TRUE(step.ok()) << step.Text();
    EXPECT_EQ(step->step, last[i] + 1);
    EXPECT_EQ(step->participants, 2);
    ops.push_back(groups_[i].AllReduce(data_[i]));
  }
  for (const ftar::Op& op : ops) EXPECT_EQ(op.Wait(kLongNs).participants, 2) << op.Test().Text();
}

TEST_F(Steps, ALeaveWithoutATimeLimitEndsWhereNobodyCanDecideAndIsTakenUpAgain) {
  coordinator_->process().Signal(SIGKILL);
  std::vector<std::future<ftarResult_t>> left;
  for (const ftar::Job& job : jobs_)
    left.push_back(std::async(std::launch::async, [&job] { return job.Leave().code(); }));
  for (auto& result : left) EXPECT_EQ(result.get(), FTAR_ERR_COORDINATOR);
  const std::string address = coordinator_->address();
  coordinator_.emplace(Variables{}, address);
  left.clear();
  for (const ftar::Job& job : jobs_) {
    left.push_back(std::async(std::launch::async, [&job] {
      ftarResult_t code = FTAR_ERR_COORDINATOR;
      while (code == FTAR_ERR_COORDINATOR) code = job.Leave().code();
      return code;
    }));
  }
  for (auto& result : left) EXPECT_EQ(result.get(), FTAR_OK);
}

// J4, F7: what one member has named by the view before a death the other names by it as well.
TEST_F(Steps, WhoBeginsAStepBehindADeathNamesTheRanksOfWhoBeganItBefore) {
  BeginStep();
  steps_[1] = jobs_[1].BeginStep().value();
  LoseTheSource();
  steps_[2] = jobs_[2].BeginStep().value();
  EXPECT_EQ(steps_[2].epoch, steps_[1].epoch);
  EXPECT_EQ(steps_[2].source, steps_[1].source);
  std::array<std::vector<float>, 3> sums, all;
  std::vector<ftar::Op> ops;
  for (int i : {1, 2}) {
    EXPECT_EQ(steps_[i].participants, 3);
    EXPECT_EQ(steps_[i].rank, i);
    EXPECT_EQ(steps_[i].left, i - 1);
    data_[i] = {1, 1, 2, 2, 3, 3};
    sums[i].resize(2);
    all[i].assign(6, -1);
    ops.push_back(groups_[i].ReduceScatter(data_[i], sums[i], steps_[i]));
  }
  for (const ftar::Op& op : ops) EXPECT_EQ(op.Wait(kLongNs).status, FTAR_OK) << op.Test().Text();
  ops.clear();
  for (int i : {1, 2}) {
    EXPECT_EQ(sums[i], std::vector<float>(2, 2 * static_cast<float>(i + 1)));
    ops.push_back(groups_[i].AllGather(sums[i], all[i], steps_[i]));
  }
  for (const ftar::Op& op : ops) EXPECT_EQ(op.Wait(kLongNs).status, FTAR_OK) << op.Test().Text();
  EXPECT_EQ(all[1], (std::vector<float>{0, 0, 4, 4, 6, 6}));
  EXPECT_EQ(all[2], all[1]);
  for (int i : {1, 2}) {
    const ftarStepInfo next = jobs_[i].BeginStep().value();
    EXPECT_EQ(next.participants, 2);
    EXPECT_EQ(next.rank, i - 1);
  }
}

}  // namespace
}  // namespace process
