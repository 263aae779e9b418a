// Two members of one job in this process, with a coordinator beside it: what members can get wrong
// about each other.
#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "ftar/ftar.h"
#include "tests/process/api/jobs.h"
#include "tests/process/harness.h"

namespace process {
namespace {

ftarJobConfig Place(const std::string& coordinator, int32_t replica, int32_t replicas = 2) {
  ftarJobConfig config = FTAR_JOB_CONFIG_INIT;
  config.replica = replica;
  config.replicas = replicas;
  config.coordinator = coordinator.c_str();
  config.timeout_ns = 2 * kSecondNs;
  config.flags = FTAR_JOB_NONBLOCKING;
  return config;
}

// It would go on without what it could not open, for as long as it lives.
TEST(Descriptors, AreThereForAllThatAJoinOpensOrItFails) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const int next = dup(STDERR_FILENO);
  close(next);
  const rlimit few{static_cast<rlim_t>(next + 18), before.rlim_max};
  const std::string nobody = "127.0.0.1:1";
  const ftarJobConfig config = Place(nobody, 0);
  ftarJob_t job = nullptr;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
  const ftarResult_t short_of_them = ftarJobJoin(&config, &job);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_EQ(short_of_them, FTAR_ERR_SYSTEM);
  EXPECT_EQ(ftarJobJoin(&config, &job), FTAR_IN_PROGRESS) << LastError().text;
  EXPECT_EQ(ftarJobDestroy(job), FTAR_OK);
}

TEST(Join, ThatLacksReplicasEndsInTimeAndNamesThem) {
  const Coordinator coordinator;
  ftarJobConfig config = Place(coordinator.address(), 1, 3);
  config.flags = 0;
  ftarJob_t job = nullptr;
  const double began = NowSeconds();
  EXPECT_EQ(Join(config, {{"join_timeout", "1s"}}, &job), FTAR_TIMEOUT);
  EXPECT_LT(NowSeconds() - began, 2) << "a moment for the coordinator's answer";
  EXPECT_STREQ(LastError().text,
               "the first view waits for replicas 0 to 2; here: 1; missing: 0, 2");
  EXPECT_STREQ(LastError().argument, "join_timeout");
}

// Its coordinator is there: that none was reached would send people to look for another fault.
TEST(Join, WithAnotherTokenSaysSoHoweverSoonItEnds) {
  const Coordinator coordinator;
  ftarJobConfig config = Place(coordinator.address(), 0);
  config.flags = 0;
  ftarJob_t job = nullptr;
  const Knobs knobs = {{"token", "another"}, {"join_timeout", "1s"}};
  EXPECT_EQ(Join(config, knobs, &job), FTAR_ERR_AUTH) << LastError().text;
  EXPECT_STREQ(LastError().argument, "token");
  EXPECT_EQ(job, nullptr);
}

// What can be done with it afterwards is to destroy it.
TEST(Join, ThatHasEndedIsNotToBeCalledAgain) {
  const Coordinator coordinator;
  std::array<ftarJob_t, 2> jobs{};
  for (int i = 0; i < 2; ++i) {
    const ftarJobConfig config = Place(coordinator.address(), i, 3);
    const char* const limit = i == 0 ? "1s" : "1200ms";
    ASSERT_EQ(Join(config, {{"join_timeout", limit}}, &jobs[i]), FTAR_IN_PROGRESS);
  }
  EXPECT_EQ(ftarJobWaitReady(jobs[0], kLongNs), FTAR_TIMEOUT);
  EXPECT_STREQ(LastError().text,
               "the first view waits for replicas 0 to 2; here: 0 to 1; missing: 2");
  EXPECT_EQ(ftarJobWaitReady(jobs[0], 0), FTAR_TIMEOUT) << "as before";
  ftarGroup_t group = nullptr;
  EXPECT_EQ(ftarGroupOpen(jobs[0], nullptr, &group), FTAR_ERR_STATE);
  EXPECT_EQ(ftarJobLeave(jobs[0], kLongNs), FTAR_OK) << "it is not in";
  EXPECT_EQ(ftarJobWaitReady(jobs[1], kLongNs), FTAR_TIMEOUT);
  EXPECT_STREQ(LastError().text,
               "the first view waits for replicas 0 to 2; here: 1; gave up: 0; missing: 2");
  for (ftarJob_t job : jobs) EXPECT_EQ(ftarJobDestroy(job), FTAR_OK);
}

class Pair : public testing::Test {
 protected:
  void SetUp() override {
    for (int32_t i = 0; i < 2; ++i) {
      const ftarJobConfig config = Place(coordinator_.address(), i);
      ASSERT_EQ(ftarJobJoin(&config, &jobs_[i]), FTAR_IN_PROGRESS) << LastError().text;
    }
    for (int32_t i = 0; i < 2; ++i) {
      ASSERT_EQ(ftarJobWaitReady(jobs_[i], kLongNs), FTAR_OK) << LastError().text;
      ASSERT_EQ(ftarGroupOpen(jobs_[i], nullptr, &groups_[i]), FTAR_OK) << LastError().text;
    }
  }
  void TearDown() override {
    for (int32_t i = 0; i < 2; ++i) {
      ftarGroupClose(groups_[i]);
      ftarJobDestroy(jobs_[i]);
    }
  }
  // Starts an allreduce of `count` floats on both and returns member 0's and 1's statuses.
  std::array<ftarResult_t, 2> Both(uint64_t count0, uint64_t count1) {
    std::array<ftarOp_t, 2> ops{};
    std::array<ftarResult_t, 2> out{};
    const uint64_t counts[2] = {count0, count1};
    for (int i = 0; i < 2; ++i) {
      data_[i].assign(counts[i], static_cast<float>(i + 1));
      EXPECT_EQ(ftarAllReduce(data_[i].data(), data_[i].data(), counts[i], FTAR_F32, FTAR_SUM,
                              groups_[i], &ops[i]),
                FTAR_OK)
          << LastError().text;
    }
    for (int i = 0; i < 2; ++i) {
      out[i] = ftarOpWait(ops[i], kLongNs, &outcomes_[i]);
      if (out[i] != FTAR_OK) errors_[i] = LastError();
      EXPECT_EQ(ftarOpRelease(ops[i]), FTAR_OK);
    }
    return out;
  }
  void ExpectWorking() {
    const std::array<ftarResult_t, 2> results = Both(1000, 1000);
    EXPECT_EQ(results[0], FTAR_OK) << errors_[0].text;
    EXPECT_EQ(results[1], FTAR_OK) << errors_[1].text;
    EXPECT_EQ(data_[0][999], 3);
    EXPECT_EQ(data_[1][0], 3);
  }

  Coordinator coordinator_;
  std::array<ftarJob_t, 2> jobs_{};
  std::array<ftarGroup_t, 2> groups_{};
  std::array<std::vector<float>, 2> data_;
  std::array<ftarOutcome, 2> outcomes_ = {ftarOutcome FTAR_OUTCOME_INIT,
                                          ftarOutcome FTAR_OUTCOME_INIT};
  std::array<ftarErrorInfo, 2> errors_ = {ftarErrorInfo FTAR_ERROR_INFO_INIT,
                                          ftarErrorInfo FTAR_ERROR_INFO_INIT};
};

TEST_F(Pair, TwoJobsInOneProcessReduce) {
  ExpectWorking();
  EXPECT_EQ(outcomes_[0].participants, 2);
  EXPECT_EQ(outcomes_[0].epoch, outcomes_[1].epoch);
  ftarView_t view = nullptr;
  ASSERT_EQ(ftarGroupGetView(groups_[1], &view), FTAR_OK);
  ftarViewInfo info = FTAR_VIEW_INFO_INIT;
  EXPECT_EQ(ftarViewGetInfo(view, &info), FTAR_OK);
  EXPECT_EQ(info.members, 2);
  ftarMemberInfo member = FTAR_MEMBER_INFO_INIT;
  EXPECT_EQ(ftarViewGetMember(view, info.my_rank, &member), FTAR_OK);
  EXPECT_EQ(member.replica, 1);
  EXPECT_EQ(ftarViewRelease(view), FTAR_OK);
}

// Who blocks a signal, to wait for it, blocks it in all threads that it knows.
TEST_F(Pair, TheLibrarysThreadsTakeNoSignals) {
  ExpectWorking();
  sigset_t mine;
  sigemptyset(&mine);
  sigaddset(&mine, SIGUSR1);
  ASSERT_EQ(pthread_sigmask(SIG_BLOCK, &mine, nullptr), 0);
  for (int i = 0; i < 20; ++i) {
    ASSERT_EQ(kill(getpid(), SIGUSR1), 0);
    const timespec patience{5, 0};
    EXPECT_EQ(sigtimedwait(&mine, nullptr, &patience), SIGUSR1);
  }
}

// What outlives a job that was destroyed is in the child as well.
TEST_F(Pair, AForkAfterAJobWasDestroyedHarmsNobody) {
  ExpectWorking();
  ASSERT_EQ(ftarJobDestroy(jobs_[0]), FTAR_OK);  // its group is open
  const pid_t child = fork();
  if (child == 0) _exit(0);
  ASSERT_GT(child, 0);
  int status = -1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST_F(Pair, DisagreementIsAMismatchForAllThatNamesTwoAndTheField) {
  ExpectWorking();
  const std::array<ftarResult_t, 2> results = Both(100, 101);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(results[i], FTAR_ERR_MISMATCH);
    EXPECT_EQ(outcomes_[i].status, FTAR_ERR_MISMATCH);
    EXPECT_NE(std::string(errors_[i].text).find("count"), std::string::npos) << errors_[i].text;
    EXPECT_EQ(outcomes_[i].seq, 1u);
    EXPECT_EQ(errors_[i].seq, 1u);
    EXPECT_EQ(errors_[i].rank, 1) << "the second of the two";
    EXPECT_EQ(errors_[i].replica, 1);
    EXPECT_EQ(errors_[i].shard, 0);
    EXPECT_STRNE(errors_[i].host, "");
    EXPECT_EQ(errors_[i].member.hi, outcomes_[i].culprit.hi);
    EXPECT_EQ(data_[i][50], static_cast<float>(i + 1)) << "the input is intact";
  }
  ExpectWorking();
  EXPECT_EQ(outcomes_[0].seq, 2u) << "the verdict has used a seq up";
}

// One in place, the other not. It was FTAR_OK, of nobody, and all zeros.
TEST_F(Pair, AnAllGatherOfNobodyIsAbsentAndLeavesTheOutputAlone) {
  constexpr uint64_t kCount = 1000;
  std::array<ftarOp_t, 2> ops{};
  std::array<std::vector<float>, 2> results;
  for (int i = 0; i < 2; ++i) {
    data_[i].assign(kCount, 5);
    results[i].assign(2 * kCount, 7);
    std::fill_n(results[i].begin(), i == 0 ? kCount : 0, 5.0f);
    ftarOpDesc desc = FTAR_OP_DESC_INIT;
    desc.kind = FTAR_ALLGATHER;
    desc.send = i == 0 ? results[i].data() : data_[i].data();
    desc.recv = results[i].data();
    desc.count = kCount;
    desc.weight = 0;
    ASSERT_EQ(ftarOpStart(groups_[i], &desc, &ops[i]), FTAR_OK) << LastError().text;
  }
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(ftarOpWait(ops[i], kLongNs, &outcomes_[i]), FTAR_ERR_ABSENT);
    EXPECT_EQ(outcomes_[i].participants, 0);
    EXPECT_EQ(results[i][kCount - 1], i == 0 ? 5 : 7);
    EXPECT_EQ(ftarOpRelease(ops[i]), FTAR_OK);
  }
  EXPECT_EQ(results[1][2 * kCount - 1], 7);
  ExpectWorking();
}

TEST_F(Pair, AWaitThatEndsEarlyLeavesTheOperationAlive) {
  ExpectWorking();
  std::array<ftarOp_t, 2> ops{};
  ASSERT_EQ(ftarBarrier(groups_[0], &ops[0]), FTAR_OK);
  EXPECT_EQ(ftarOpTest(ops[0], nullptr), FTAR_IN_PROGRESS);
  EXPECT_EQ(ftarOpWait(ops[0], 20'000'000, nullptr), FTAR_TIMEOUT);
  EXPECT_EQ(LastError().seq, 1u);
  EXPECT_EQ(LastError().epoch, outcomes_[0].epoch);
  ftarOutcome outcome = FTAR_OUTCOME_INIT;
  EXPECT_EQ(ftarGroupOutcome(groups_[0], 1, &outcome), FTAR_IN_PROGRESS);
  ASSERT_EQ(ftarBarrier(groups_[1], &ops[1]), FTAR_OK);
  for (ftarOp_t op : ops) {
    EXPECT_EQ(ftarOpWait(op, kLongNs, nullptr), FTAR_OK) << LastError().text;
    EXPECT_EQ(ftarOpRelease(op), FTAR_OK);
  }
}

// Nobody waits for it, so that its seq is all there is to ask by.
TEST_F(Pair, WhatThisMembersEndHasEndedIsToldBySeq) {
  ExpectWorking();
  std::vector<float> data(100, 1);
  ASSERT_EQ(ftarAllReduce(data.data(), data.data(), 100, FTAR_F32, FTAR_SUM, groups_[0], nullptr),
            FTAR_OK);
  ASSERT_EQ(ftarBarrier(groups_[0], nullptr), FTAR_OK);
  ftarOutcome outcome = FTAR_OUTCOME_INIT;
  EXPECT_EQ(ftarGroupOutcome(groups_[0], 1, &outcome), FTAR_IN_PROGRESS);
  EXPECT_EQ(ftarJobAbort(jobs_[0], "a test of outcomes"), FTAR_OK);
  for (const uint64_t seq : {0, 1, 2}) {
    EXPECT_EQ(ftarGroupOutcome(groups_[0], seq, &outcome), FTAR_OK) << LastError().text;
    EXPECT_EQ(outcome.status, seq == 0 ? FTAR_OK : FTAR_ERR_ABORTED);
    EXPECT_EQ(outcome.seq, seq);
  }
  EXPECT_EQ(ftarGroupOutcome(groups_[0], 3, &outcome), FTAR_ERR_ARG) << "not started";
}

// Nobody is known to be at fault.
TEST_F(Pair, AWaitThatEndsForWantOfACoordinatorNamesTheOperation) {
  ExpectWorking();
  coordinator_.process().Signal(SIGKILL);
  ftarOp_t op = nullptr;
  ASSERT_EQ(ftarBarrier(groups_[0], &op), FTAR_OK);
  EXPECT_EQ(ftarOpWait(op, kLongNs, nullptr), FTAR_ERR_COORDINATOR);
  EXPECT_EQ(LastError().seq, 1u);
  EXPECT_EQ(LastError().epoch, outcomes_[0].epoch);
  EXPECT_EQ(LastError().replica, -1);
  EXPECT_EQ(ftarOpRelease(op), FTAR_OK);
  ftarEvent event = FTAR_EVENT_INIT;
  do {
    ASSERT_EQ(ftarJobNextEvent(jobs_[0], &event, kLongNs), FTAR_OK);
  } while (event.type != FTAR_EVENT_COORDINATOR_DOWN);
  EXPECT_NE(std::string(event.who.text).find(coordinator_.address()), std::string::npos)
      << event.who.text;
}

TEST_F(Pair, ALeaveThatEndsForWantOfACoordinatorNamesNobodyWhoWasLostBefore) {
  EXPECT_EQ(ftarJobAbort(jobs_[1], "a test of last errors"), FTAR_OK);
  ftarEvent event = FTAR_EVENT_INIT;
  do {
    ASSERT_EQ(ftarJobNextEvent(jobs_[0], &event, kLongNs), FTAR_OK);
  } while (event.type != FTAR_EVENT_MEMBER_LOST);
  coordinator_.process().Signal(SIGKILL);
  EXPECT_EQ(ftarJobLeave(jobs_[0], kLongNs), FTAR_ERR_COORDINATOR);
  EXPECT_EQ(LastError().rank, -1);
  EXPECT_EQ(LastError().replica, -1);
  EXPECT_STREQ(LastError().host, "");
}

TEST_F(Pair, AWaitThatEndsSaysWhomOthersHaveCalledLate) {
  std::array<ftarOp_t, 2> ops{};
  ASSERT_EQ(ftarBarrier(groups_[0], &ops[0]), FTAR_OK);
  ftarEvent event = FTAR_EVENT_INIT;
  do {
    ASSERT_EQ(ftarJobNextEvent(jobs_[0], &event, kLongNs), FTAR_OK);
  } while (event.type != FTAR_EVENT_LATE);
  EXPECT_EQ(event.who.replica, 1);
  EXPECT_NE(std::string(event.who.text).find("in group 'default'"), std::string::npos)
      << event.who.text;
  EXPECT_EQ(ftarOpWait(ops[0], 20'000'000, nullptr), FTAR_TIMEOUT);
  EXPECT_NE(std::string(LastError().text).find("; replica 1 "), std::string::npos)
      << LastError().text;
  EXPECT_EQ(LastError().rank, 1);
  EXPECT_EQ(LastError().replica, 1);
  EXPECT_STREQ(LastError().host, event.who.host);
  EXPECT_EQ(LastError().seq, 0u);
  ASSERT_EQ(ftarBarrier(groups_[1], &ops[1]), FTAR_OK);
  for (ftarOp_t op : ops) {
    EXPECT_EQ(ftarOpWait(op, kLongNs, nullptr), FTAR_OK) << LastError().text;
    EXPECT_EQ(ftarOpRelease(op), FTAR_OK);
  }
}

TEST_F(Pair, ManyThreadsWaitForOneOperationAndOneJob) {
  ftarOp_t op = nullptr, other = nullptr;
  ASSERT_EQ(ftarBarrier(groups_[0], &op), FTAR_OK);
  std::vector<std::thread> waiters;
  std::array<ftarOutcome, 6> outcomes;
  outcomes.fill(ftarOutcome FTAR_OUTCOME_INIT);
  for (ftarOutcome& outcome : outcomes) {
    waiters.emplace_back([&outcome, op] {
      EXPECT_EQ(ftarOpWait(op, kLongNs, &outcome), FTAR_OK) << LastError().text;
    });
  }
  waiters.emplace_back([this] { EXPECT_EQ(ftarJobWaitReady(jobs_[0], kLongNs), FTAR_OK); });
  // One that gives up early takes nothing from the others.
  EXPECT_EQ(ftarOpWait(op, 50'000'000, nullptr), FTAR_TIMEOUT);
  EXPECT_EQ(ftarBarrier(groups_[1], &other), FTAR_OK);
  EXPECT_EQ(ftarOpWait(other, kLongNs, nullptr), FTAR_OK) << LastError().text;
  for (std::thread& waiter : waiters) waiter.join();
  for (const ftarOutcome& outcome : outcomes) {
    EXPECT_EQ(outcome.status, FTAR_OK);
    EXPECT_EQ(outcome.participants, 2);
    EXPECT_EQ(outcome.seq, 0u);
    EXPECT_EQ(outcome.delivered_ns, outcomes[0].delivered_ns);
  }
  EXPECT_EQ(ftarOpRelease(op), FTAR_OK);
  EXPECT_EQ(ftarOpRelease(other), FTAR_OK);
}

TEST_F(Pair, ACancelledThreadFinishesItsWaitFirst) {
  std::vector<float> data(100, 1);
  ftarOp_t op = nullptr;
  ASSERT_EQ(ftarAllReduce(data.data(), data.data(), 100, FTAR_F32, FTAR_SUM, groups_[0], &op),
            FTAR_OK);
  const auto wait = [](void* waited) -> void* {
    ftarOpWait(static_cast<ftarOp_t>(waited), kSecondNs / 2, nullptr);  // the other never calls
    for (;;) pause();                                                   // here it may end
  };
  pthread_t thread{};
  ASSERT_EQ(pthread_create(&thread, nullptr, wait, op), 0);
  usleep(100'000);
  ASSERT_EQ(pthread_cancel(thread), 0);
  void* ended = nullptr;
  ASSERT_EQ(pthread_join(thread, &ended), 0);
  EXPECT_EQ(ended, PTHREAD_CANCELED);
  float other[100] = {};
  ftarOp_t theirs = nullptr;
  ASSERT_EQ(ftarAllReduce(other, other, 100, FTAR_F32, FTAR_SUM, groups_[1], &theirs), FTAR_OK);
  EXPECT_EQ(ftarOpWait(op, kLongNs, nullptr), FTAR_OK) << LastError().text;
  EXPECT_EQ(ftarOpWait(theirs, kLongNs, nullptr), FTAR_OK) << LastError().text;
  EXPECT_EQ(ftarOpRelease(op), FTAR_OK);
  EXPECT_EQ(ftarOpRelease(theirs), FTAR_OK);
}

TEST_F(Pair, OverlapWithAnOperationInFlightIsRefused) {
  std::vector<float> data(100);
  std::array<ftarOp_t, 2> ops{};
  ASSERT_EQ(ftarAllReduce(data.data(), data.data(), 100, FTAR_F32, FTAR_SUM, groups_[0], &ops[0]),
            FTAR_OK);
  // Member 1 has not started, so the first is in flight for certain.
  EXPECT_EQ(
      ftarAllReduce(data.data() + 99, data.data() + 99, 1, FTAR_F32, FTAR_SUM, groups_[0], &ops[1]),
      FTAR_ERR_ARG);
  EXPECT_STREQ(LastError().argument, "desc.recv");
  EXPECT_NE(std::string(LastError().text).find("operation 0 in group 'default'"), std::string::npos)
      << LastError().text;
  std::vector<float> other(100);
  ASSERT_EQ(ftarAllReduce(other.data(), other.data(), 100, FTAR_F32, FTAR_SUM, groups_[1], &ops[1]),
            FTAR_OK);
  for (ftarOp_t op : ops) {
    EXPECT_EQ(ftarOpWait(op, kLongNs, nullptr), FTAR_OK) << LastError().text;
    EXPECT_EQ(ftarOpRelease(op), FTAR_OK);
  }
}

// There is nothing in flight that it could overlap.
TEST_F(Pair, OverlapWithinACallNamesBothDescriptors) {
  std::vector<float> data(100);
  std::array<ftarOpDesc, 4> many{};
  for (size_t i = 0; i < many.size(); ++i) {
    many[i] = FTAR_OP_DESC_INIT;
    many[i].send = many[i].recv = data.data() + 20 * i;
    many[i].count = 20;
  }
  many[2].send = many[2].recv = data.data() + 30;
  EXPECT_EQ(ftarOpStartMany(groups_[0], many.data(), sizeof many[0], many.size(), nullptr),
            FTAR_ERR_ARG);
  EXPECT_STREQ(LastError().argument, "desc[2].recv");
  EXPECT_EQ(std::string(LastError().text),
            "desc[2].recv overlaps desc[1].recv of this call, and one of the two writes");
  many[2].send = data.data();
  many[2].recv = data.data() + 80;
  EXPECT_EQ(ftarOpStartMany(groups_[0], many.data(), sizeof many[0], many.size(), nullptr),
            FTAR_ERR_ARG);
  EXPECT_EQ(std::string(LastError().text),
            "desc[2].send overlaps desc[0].recv of this call, and one of the two writes");
}

TEST_F(Pair, WhatIsEmptyOverlapsNothing) {
  std::vector<float> data(100);
  std::array<ftarOp_t, 4> ops{};
  for (size_t i = 0; i < 2; ++i) {
    float* const begin = data.data() + 50 * i;
    ASSERT_EQ(ftarAllReduce(begin, begin, 50, FTAR_F32, FTAR_SUM, groups_[i], &ops[i]), FTAR_OK);
    ASSERT_EQ(ftarAllReduce(begin + 9, begin + 9, 0, FTAR_F32, FTAR_SUM, groups_[i], &ops[2 + i]),
              FTAR_OK)
        << LastError().text;
  }
  for (ftarOp_t op : ops) {
    EXPECT_EQ(ftarOpWait(op, kLongNs, nullptr), FTAR_OK) << LastError().text;
    EXPECT_EQ(ftarOpRelease(op), FTAR_OK);
  }
}

// Whatever way a call takes: one like the group's last is taken by a shorter one, where both
// members call one after the other.
TEST_F(Pair, OverlapWithAnotherGroupsOperationIsRefusedInACallLikeTheLast) {
  ftarGroupConfig config = FTAR_GROUP_CONFIG_INIT;
  config.name = "other";
  std::array<ftarGroup_t, 2> others{};
  for (size_t i = 0; i < 2; ++i) ASSERT_EQ(ftarGroupOpen(jobs_[i], &config, &others[i]), FTAR_OK);
  std::array<std::vector<float>, 2> large{std::vector<float>(1000), std::vector<float>(1000)};
  std::array<ftarOp_t, 2> waiting{};
  const auto start = [](std::vector<float>& data, uint64_t count, ftarGroup_t group, ftarOp_t* op) {
    return ftarAllReduce(data.data(), data.data(), count, FTAR_F32, FTAR_SUM, group, op);
  };
  ASSERT_EQ(start(large[0], 1000, others[0], &waiting[0]), FTAR_OK);
  constexpr int kCalls = 300;
  std::atomic<int> taken{0};
  const auto call = [&](size_t member) {
    std::vector<float> data(8);
    for (int i = 0; i < kCalls; ++i) {
      ftarOp_t op = nullptr;
      ASSERT_EQ(start(data, 8, groups_[member], &op), FTAR_OK) << LastError().text;
      ASSERT_EQ(ftarOpWait(op, kLongNs, nullptr), FTAR_OK) << LastError().text;
      ASSERT_EQ(ftarOpRelease(op), FTAR_OK);
      if (member == 0) taken += start(large[0], 8, groups_[0], &op) != FTAR_ERR_ARG;
      if (taken > 0) return;
    }
  };
  std::thread second([&] { call(1); });
  call(0);
  if (taken > 0) ftarJobAbort(jobs_[0], "a call was taken that overlaps");
  second.join();
  ASSERT_EQ(taken, 0);
  ASSERT_EQ(start(large[1], 1000, others[1], &waiting[1]), FTAR_OK);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(ftarOpWait(waiting[i], kLongNs, nullptr), FTAR_OK) << LastError().text;
    EXPECT_EQ(ftarOpRelease(waiting[i]), FTAR_OK);
    EXPECT_EQ(ftarGroupClose(others[i]), FTAR_OK);
  }
}

// Members tell groups apart by a hash of 32 bits, which these two share.
TEST_F(Pair, NamesThatCannotBeToldApartAreRefused) {
  ftarGroupConfig config = FTAR_GROUP_CONFIG_INIT;
  config.name = "layer32561";
  ftarGroup_t first = nullptr, second = nullptr;
  ASSERT_EQ(ftarGroupOpen(jobs_[0], &config, &first), FTAR_OK);
  config.name = "grad39408.weight";
  EXPECT_EQ(ftarGroupOpen(jobs_[0], &config, &second), FTAR_ERR_ARG);
  EXPECT_STREQ(LastError().argument, "config.name");
  EXPECT_EQ(ftarGroupClose(first), FTAR_OK);
}

// One member's word is enough, whatever `timeout` is: it is no time limit of a wait.
TEST_F(Pair, AnOperationsTimeEvictsWhoIsLateAndTheEventNamesIt) {
  ExpectWorking();
  std::vector<float> data(8, 1.0f);
  ftarOpDesc desc = FTAR_OP_DESC_INIT;
  desc.send = desc.recv = data.data();
  desc.count = data.size();
  desc.timeout_ns = kSecondNs / 20;
  ftarOp_t op = nullptr;
  ASSERT_EQ(ftarOpStart(groups_[0], &desc, &op), FTAR_OK) << LastError().text;
  EXPECT_EQ(ftarOpWait(op, kLongNs, &outcomes_[0]), FTAR_OK) << LastError().text;
  EXPECT_EQ(outcomes_[0].participants, 1);
  EXPECT_EQ(ftarOpRelease(op), FTAR_OK);
  ftarEvent event = FTAR_EVENT_INIT;
  do {
    ASSERT_EQ(ftarJobNextEvent(jobs_[0], &event, kLongNs), FTAR_OK);
  } while (event.type != FTAR_EVENT_MEMBER_LOST);
  EXPECT_EQ(event.who.replica, 1);
  EXPECT_EQ(event.seq, 1u);
  EXPECT_EQ(event.who.seq, 1u);
  for (const char* said : {"an operation's deadline passed", "operation 1 ", "timeout_ns 50ms"})
    EXPECT_NE(std::string(event.who.text).find(said), std::string::npos) << event.who.text;
}

TEST_F(Pair, ATimeOfForEverEvictsNobody) {
  std::vector<float> data(8, 1.0f), others(8, 2.0f);
  ftarOpDesc desc = FTAR_OP_DESC_INIT;
  desc.kind = FTAR_ALLREDUCE;
  desc.dtype = FTAR_F32;
  desc.redop = FTAR_SUM;
  desc.send = desc.recv = data.data();
  desc.count = data.size();
  desc.timeout_ns = INT64_MAX;
  std::array<ftarOp_t, 2> ops{};
  ASSERT_EQ(ftarOpStart(groups_[0], &desc, &ops[0]), FTAR_OK) << LastError().text;
  // Several heartbeats, with which members accuse whoever is late.
  EXPECT_EQ(ftarOpWait(ops[0], kSecondNs, nullptr), FTAR_TIMEOUT);
  desc.send = desc.recv = others.data();
  ASSERT_EQ(ftarOpStart(groups_[1], &desc, &ops[1]), FTAR_OK) << LastError().text;
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(ftarOpWait(ops[i], kLongNs, &outcomes_[i]), FTAR_OK) << LastError().text;
    EXPECT_EQ(outcomes_[i].participants, 2);
    EXPECT_EQ(ftarOpRelease(ops[i]), FTAR_OK);
  }
}

// Each group counts its staging from 1, and here both have some at a time.
TEST_F(Pair, GroupsDoNotShareStaging) {
  constexpr uint64_t kCounts[2] = {1500, 30};
  std::array<ftarGroup_t, 2> others{};
  std::array<std::array<std::vector<float>, 2>, 2> data;  // of a member, of a group
  std::array<std::array<ftarOp_t, 2>, 2> ops{};
  for (const size_t member : {1, 0}) {
    ftarGroupConfig config = FTAR_GROUP_CONFIG_INIT;
    config.name = "other";
    ASSERT_EQ(ftarGroupOpen(jobs_[member], &config, &others[member]), FTAR_OK);
    const ftarGroup_t groups[2] = {groups_[member], others[member]};
    for (size_t i = 0; i < 2; ++i) {
      // In place, so that the input is kept aside until the other member's has come.
      data[member][i].assign(2 * kCounts[i], static_cast<float>(member + 1));
      ASSERT_EQ(ftarReduceScatter(data[member][i].data(), data[member][i].data(), kCounts[i],
                                  FTAR_F32, FTAR_SUM, groups[i], &ops[member][i]),
                FTAR_OK);
    }
  }
  for (size_t member = 0; member < 2; ++member) {
    for (size_t i = 0; i < 2; ++i) {
      EXPECT_EQ(ftarOpWait(ops[member][i], kLongNs, nullptr), FTAR_OK) << LastError().text;
      EXPECT_EQ(ftarOpRelease(ops[member][i]), FTAR_OK);
      for (uint64_t at = 0; at < kCounts[i]; ++at)
        ASSERT_EQ(data[member][i][at], 3) << member << " " << i << " " << at;
    }
    EXPECT_EQ(ftarGroupClose(others[member]), FTAR_OK);
  }
}

TEST_F(Pair, DestroyWithOpsInFlightAbortsThemAndTheOtherGoesOn) {
  std::vector<float> mine(100, 1), theirs(100, 2);
  ftarOp_t op = nullptr, other = nullptr;
  ASSERT_EQ(ftarAllReduce(mine.data(), mine.data(), 100, FTAR_F32, FTAR_SUM, groups_[0], &op),
            FTAR_OK);
  std::thread waiter([&] { EXPECT_EQ(ftarOpWait(op, kLongNs, nullptr), FTAR_ERR_ABORTED); });
  EXPECT_EQ(ftarJobDestroy(jobs_[0]), FTAR_OK);
  waiter.join();
  EXPECT_EQ(ftarOpWait(op, 0, nullptr), FTAR_ERR_ABORTED) << "its handle stays valid";
  EXPECT_EQ(mine[7], 1) << "the input is intact";
  EXPECT_EQ(ftarJobWaitReady(jobs_[0], 0), FTAR_ERR_HANDLE);
  ASSERT_EQ(
      ftarAllReduce(theirs.data(), theirs.data(), 100, FTAR_F32, FTAR_SUM, groups_[1], &other),
      FTAR_OK);
  ftarOutcome outcome = FTAR_OUTCOME_INIT;
  EXPECT_EQ(ftarOpWait(other, kLongNs, &outcome), FTAR_OK) << LastError().text;
  // Its input may have arrived before the news of its end; then the sum is finished with it.
  EXPECT_EQ(theirs[7], outcome.participants == 2 ? 3 : 2);
  EXPECT_EQ(ftarOpRelease(op), FTAR_OK);
  EXPECT_EQ(ftarOpRelease(other), FTAR_OK);
}

TEST_F(Pair, AbortNamesItsReasonToTheOther) {
  EXPECT_EQ(ftarJobAbort(jobs_[0], "a test of abort"), FTAR_OK);
  ftarOp_t op = nullptr;
  ASSERT_EQ(ftarBarrier(groups_[1], &op), FTAR_OK);
  EXPECT_EQ(ftarOpWait(op, kLongNs, nullptr), FTAR_OK) << LastError().text;
  EXPECT_EQ(ftarOpRelease(op), FTAR_OK);
  ftarEvent event = FTAR_EVENT_INIT;
  bool lost = false;
  while (!lost && ftarJobNextEvent(jobs_[1], &event, kLongNs) == FTAR_OK) {
    lost = event.type == FTAR_EVENT_MEMBER_LOST;
  }
  ASSERT_TRUE(lost);
  EXPECT_EQ(event.who.replica, 0);
  EXPECT_NE(std::string(event.who.text), "");
}

TEST_F(Pair, ASecondMemberOnAHeldPlaceIsRefusedWithTheHolder) {
  ftarJobConfig config = Place(coordinator_.address(), 1);
  config.flags = 0;
  ftarJob_t second = nullptr;
  EXPECT_EQ(Join(config, {{"join_timeout", "1s"}}, &second), FTAR_ERR_PEER);
  EXPECT_EQ(second, nullptr);
  EXPECT_NE(std::string(LastError().text).find("replica 1"), std::string::npos) << LastError().text;
  EXPECT_EQ(LastError().replica, 1);
  EXPECT_EQ(LastError().shard, 0);
  ExpectWorking();
}

TEST_F(Pair, ADifferentConfigurationIsRefusedByName) {
  ftarJobConfig config = Place(coordinator_.address(), 2);
  config.flags = 0;
  ftarJob_t third = nullptr;
  EXPECT_EQ(Join(config, {{"plan", "ring"}, {"join_timeout", "5s"}}, &third), FTAR_ERR_CONFIG);
  EXPECT_NE(std::string(LastError().text).find("plan"), std::string::npos) << LastError().text;
  ExpectWorking();
}

TEST_F(Pair, EvictTellsTheVictimAndTheOthers) {
  ftarGroupInfo victim = FTAR_GROUP_INFO_INIT;
  ASSERT_EQ(ftarGroupGetInfo(groups_[1], &victim), FTAR_OK);
  EXPECT_EQ(ftarJobEvict(jobs_[0], ftarId{1, 2}, "nobody"), FTAR_ERR_ARG);
  EXPECT_EQ(ftarJobEvict(jobs_[0], victim.my_id, "a test of eviction"), FTAR_OK);
  ftarEvent event = FTAR_EVENT_INIT;
  bool out = false;
  while (!out && ftarJobNextEvent(jobs_[1], &event, kLongNs) == FTAR_OK) {
    out = event.type == FTAR_EVENT_EVICTED;
  }
  EXPECT_TRUE(out);
  EXPECT_EQ(event.who.rank, 1) << "itself";
  EXPECT_EQ(event.who.replica, 1);
  ftarOp_t op = nullptr;
  EXPECT_EQ(ftarBarrier(groups_[1], &op), FTAR_ERR_EVICTED);
  EXPECT_EQ(LastError().rank, 1);
  ASSERT_EQ(ftarBarrier(groups_[0], &op), FTAR_OK);
  EXPECT_EQ(ftarOpWait(op, kLongNs, nullptr), FTAR_OK) << LastError().text;
  EXPECT_EQ(ftarOpRelease(op), FTAR_OK);
}

// Nobody has lost anybody: whoever is let go first closes its links while the other still waits.
TEST_F(Pair, WhereAllLeaveNobodyHearsOfLostLinks) {
  ExpectWorking();
  std::thread other([this] { EXPECT_EQ(ftarJobLeave(jobs_[1], kLongNs), FTAR_OK); });
  EXPECT_EQ(ftarJobLeave(jobs_[0], kLongNs), FTAR_OK) << LastError().text;
  other.join();
  for (ftarJob_t job : jobs_) {
    ftarEvent event = FTAR_EVENT_INIT;
    while (ftarJobNextEvent(job, &event, 0) == FTAR_OK) {
      EXPECT_NE(event.type, FTAR_EVENT_LINK_DOWN) << event.who.text;
      EXPECT_NE(event.type, FTAR_EVENT_MEMBER_LOST) << event.who.text;
    }
  }
}

// Without fault tolerance an operation ends when the other has given back what it read of it: that
// is not to wait for what was lent before it, of an operation that the other calls only afterwards.
TEST(WithoutFaultTolerance, WhatTheOtherHasYetToCallHoldsNothingUp) {
  const Coordinator coordinator;
  constexpr size_t kCount = 1 << 20;
  constexpr size_t kBoth = 0;
  struct Member {
    ftarJob_t job = nullptr;
    std::array<ftarGroup_t, 3> groups{};
    std::array<float*, 3> blocks{};

    ftarOp_t Start(size_t i) {
      ftarOp_t op = nullptr;
      EXPECT_EQ(ftarAllReduce(blocks[i], blocks[i] + kCount, kCount, FTAR_F32, FTAR_SUM, groups[i],
                              &op),
                FTAR_OK)
          << LastError().text;
      return op;
    }
    void End(ftarOp_t op) {
      EXPECT_EQ(ftarOpWait(op, kLongNs, nullptr), FTAR_OK) << LastError().text;
      EXPECT_EQ(ftarOpRelease(op), FTAR_OK);
    }
  };
  std::array<Member, 2> members;
  for (int32_t i = 0; i < 2; ++i) {
    const ftarJobConfig config = Place(coordinator.address(), i);
    ASSERT_EQ(Join(config, {{"ft", "off"}}, &members[i].job), FTAR_IN_PROGRESS);
  }
  for (Member& member : members) {
    ASSERT_EQ(ftarJobWaitReady(member.job, kLongNs), FTAR_OK) << LastError().text;
    for (size_t i = 0; i < 3; ++i) {
      const std::string name = std::to_string(i);
      ftarGroupConfig config = FTAR_GROUP_CONFIG_INIT;
      config.name = name.c_str();
      ASSERT_EQ(ftarGroupOpen(member.job, &config, &member.groups[i]), FTAR_OK);
      void* block = nullptr;
      ASSERT_EQ(ftarMemAlloc(member.job, 2 * kCount * sizeof(float), nullptr, &block), FTAR_OK);
      member.blocks[i] = static_cast<float*>(block);
    }
  }
  const auto run = [](Member& member, size_t first) {
    for (size_t i = 0; i < 9; ++i) member.End(member.Start(i % 3));  // till all is mapped
    const ftarOp_t early = member.Start(first);
    usleep(50'000);  // the other has it by then
    member.End(member.Start(kBoth));
    const ftarOp_t late = member.Start(3 - first);
    member.End(late);
    member.End(early);
  };
  std::thread other([&] { run(members[1], 2); });
  run(members[0], 1);
  other.join();
  for (Member& member : members) {
    for (const ftarGroup_t group : member.groups) EXPECT_EQ(ftarGroupClose(group), FTAR_OK);
    EXPECT_EQ(ftarJobDestroy(member.job), FTAR_OK);
  }
}

}  // namespace
}  // namespace process
