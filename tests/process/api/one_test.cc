// Bad input on a real job of one member, which needs no coordinator.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <new>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "ftar/ftar.h"
#include "tests/process/api/jobs.h"

namespace process {
namespace {

class OneMember : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(ftarJobJoin(nullptr, &job_), FTAR_OK) << LastError().text;
    ASSERT_EQ(ftarGroupOpen(job_, nullptr, &group_), FTAR_OK) << LastError().text;
    data_.fill(3);
  }
  void TearDown() override {
    EXPECT_EQ(ftarGroupClose(group_), FTAR_OK);
    EXPECT_EQ(ftarJobDestroy(job_), FTAR_OK);
  }
  // One good operation: whatever went before has broken nothing.
  void ExpectWorking() {
    ftarOp_t op = nullptr;
    ASSERT_EQ(
        ftarAllReduce(data_.data(), data_.data(), data_.size(), FTAR_F32, FTAR_SUM, group_, &op),
        FTAR_OK)
        << LastError().text;
    EXPECT_EQ(ftarOpWait(op, kLongNs, nullptr), FTAR_OK) << LastError().text;
    EXPECT_EQ(data_[5], 3);
    EXPECT_EQ(ftarOpRelease(op), FTAR_OK);
  }

  ftarJob_t job_ = nullptr;
  ftarGroup_t group_ = nullptr;
  std::array<float, 64> data_{};
};

TEST_F(OneMember, EveryKindTypeAndOperatorRuns) {
  constexpr unsigned char kByte = 0x3c;  // of a number near 1 in all float types
  constexpr size_t kCount = 5, kWidest = 8;
  std::array<unsigned char, 512> send{}, recv{};
  send.fill(kByte);
  for (int32_t kind = FTAR_ALLREDUCE; kind <= FTAR_BARRIER; ++kind) {
    for (int32_t dtype = FTAR_F32; dtype <= FTAR_U64; ++dtype) {
      for (int32_t redop = FTAR_SUM; redop <= FTAR_WAVG; ++redop) {
        if (redop == FTAR_WAVG && dtype >= FTAR_I8) continue;
        ftarOpDesc desc = FTAR_OP_DESC_INIT;
        desc.kind = kind;
        desc.dtype = dtype;
        desc.redop = redop;
        desc.count = kind == FTAR_BARRIER ? 0 : kCount;
        desc.send = send.data();
        desc.recv = recv.data() + 1;
        ftarOp_t op = nullptr;
        ASSERT_EQ(ftarOpStart(group_, &desc, &op), FTAR_OK) << LastError().text;
        EXPECT_EQ(ftarOpWait(op, kLongNs, nullptr), FTAR_OK) << LastError().text;
        EXPECT_EQ(ftarOpRelease(op), FTAR_OK);
        // Of one input every result is that input.
        const auto written = static_cast<size_t>(std::count(recv.begin(), recv.end(), kByte));
        EXPECT_GE(written, desc.count) << kind << " " << dtype << " " << redop;
        EXPECT_LE(written, desc.count * kWidest) << kind << " " << dtype << " " << redop;
        EXPECT_EQ(written % kCount, 0u) << kind << " " << dtype << " " << redop;
        recv.fill(0);
      }
    }
  }
}

TEST_F(OneMember, RefusedStartsTakeNoSeq) {
  ExpectWorking();
  ftarGroupInfo before = FTAR_GROUP_INFO_INIT, after = FTAR_GROUP_INFO_INIT;
  ASSERT_EQ(ftarGroupGetInfo(group_, &before), FTAR_OK);
  ftarOp_t op = nullptr;
  EXPECT_EQ(ftarAllReduce(nullptr, data_.data(), 4, FTAR_F32, FTAR_SUM, group_, &op), FTAR_ERR_ARG);
  EXPECT_EQ(ftarAllReduce(data_.data(), data_.data() + 1, 4, FTAR_F32, FTAR_SUM, group_, &op),
            FTAR_ERR_ARG);
  EXPECT_EQ(
      ftarAllReduce(data_.data(), data_.data(), UINT64_MAX / 2, FTAR_F32, FTAR_SUM, group_, &op),
      FTAR_ERR_ARG);
  EXPECT_EQ(ftarBroadcast(data_.data(), data_.data(), 4, FTAR_F32, 1, group_, &op), FTAR_ERR_ARG);
  EXPECT_EQ(op, nullptr);
  ASSERT_EQ(ftarGroupGetInfo(group_, &after), FTAR_OK);
  EXPECT_EQ(after.next_seq, before.next_seq);
  ExpectWorking();
}

TEST_F(OneMember, AnUnmappedBufferIsNamedAndTheJobGoesOn) {
  constexpr size_t kBytes = 1 << 20;
  void* gone = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(gone, MAP_FAILED);
  ASSERT_EQ(munmap(gone, kBytes), 0);
  ftarOp_t op = nullptr;
  EXPECT_EQ(ftarAllReduce(gone, gone, kBytes, FTAR_U8, FTAR_SUM, group_, &op), FTAR_ERR_ARG);
  EXPECT_NE(std::string(LastError().text).find("not mapped"), std::string::npos);
  ExpectWorking();
}

struct FromCallback {
  ftarGroup_t group = nullptr;
  ftarJob_t job = nullptr;
  std::atomic<int32_t> start{0}, wait{0}, destroy{0}, view{-1};
  std::atomic<bool> done{false};
};

TEST_F(OneMember, StartWaitAndDestroyInACallbackAreRefused) {
  FromCallback seen;
  seen.group = group_;
  seen.job = job_;
  ftarOpDesc desc = FTAR_OP_DESC_INIT;
  desc.send = desc.recv = data_.data();
  desc.count = data_.size();
  desc.user = &seen;
  desc.on_done = [](const ftarOutcome* outcome, void* user) {
    auto* out = static_cast<FromCallback*>(user);
    EXPECT_EQ(outcome->status, FTAR_OK);
    EXPECT_EQ(outcome->size, sizeof(ftarOutcome));
    ftarOp_t op = nullptr;
    out->start = ftarBarrier(out->group, &op);
    out->wait = ftarOpWait(op, -1, nullptr);
    out->destroy = ftarJobDestroy(out->job);
    ftarView_t view = nullptr;
    out->view = ftarJobGetView(out->job, &view);
    ftarViewRelease(view);
    out->done = true;
  };
  ftarOp_t op = nullptr;
  ASSERT_EQ(ftarOpStart(group_, &desc, &op), FTAR_OK) << LastError().text;
  EXPECT_EQ(ftarOpWait(op, kLongNs, nullptr), FTAR_OK);
  EXPECT_EQ(ftarOpRelease(op), FTAR_OK);
  // The callback may run on the progress thread just after the wait; leaving waits for it.
  EXPECT_EQ(ftarJobLeave(job_, kLongNs), FTAR_OK) << LastError().text;
  for (int i = 0; i < 1000 && !seen.done; ++i) usleep(10'000);
  EXPECT_EQ(seen.start, FTAR_ERR_STATE);
  EXPECT_EQ(seen.wait, FTAR_ERR_STATE);
  EXPECT_EQ(seen.destroy, FTAR_ERR_STATE);
  EXPECT_EQ(seen.view, FTAR_OK);
}

// Whoever starts may hold a lock that its callback takes.
TEST_F(OneMember, AStartRunsNoCallback) {
  struct Seen {
    std::atomic<bool> starting{false}, inside{false};
    std::atomic<int> done{0};
    std::thread::id starter = std::this_thread::get_id();
  } seen;
  std::vector<float> data(100, 1);
  ftarOpDesc desc = FTAR_OP_DESC_INIT;
  desc.send = desc.recv = data.data();
  desc.count = data.size();
  desc.user = &seen;
  desc.on_done = [](const ftarOutcome*, void* user) {
    auto& known = *static_cast<Seen*>(user);
    if (known.starting && std::this_thread::get_id() == known.starter) known.inside = true;
    ++known.done;
  };
  constexpr int kOps = 20;
  for (int i = 0; i < kOps; ++i) {
    ftarOp_t op = nullptr;
    seen.starting = true;
    ASSERT_EQ(ftarOpStart(group_, &desc, &op), FTAR_OK) << LastError().text;
    seen.starting = false;
    // Nobody waits for it, and it comes all the same.
    while (seen.done <= i) std::this_thread::yield();
    EXPECT_EQ(ftarOpRelease(op), FTAR_OK);
  }
  EXPECT_FALSE(seen.inside);
}

TEST_F(OneMember, WaitAfterLeaveStillAnswersAndStartsDoNot) {
  ftarOp_t op = nullptr;
  ASSERT_EQ(ftarBarrier(group_, &op), FTAR_OK);
  EXPECT_EQ(ftarJobLeave(job_, kLongNs), FTAR_OK) << LastError().text;
  ftarOutcome outcome = FTAR_OUTCOME_INIT;
  EXPECT_EQ(ftarOpWait(op, kLongNs, &outcome), FTAR_OK) << LastError().text;
  EXPECT_EQ(outcome.participants, 1);
  ftarOp_t late = nullptr;
  EXPECT_EQ(ftarBarrier(group_, &late), FTAR_ERR_LEFT);
  EXPECT_EQ(late, nullptr);
  EXPECT_EQ(ftarStepBegin(job_, nullptr, nullptr), FTAR_ERR_LEFT);
  EXPECT_EQ(ftarOpRelease(op), FTAR_OK);
}

TEST_F(OneMember, AWeightOfZeroIsAbsentAndLeavesTheOutputAlone) {
  std::array<float, 64> out{};
  out.fill(7);
  ftarOpDesc desc = FTAR_OP_DESC_INIT;
  desc.send = data_.data();
  desc.recv = out.data();
  desc.count = out.size();
  desc.redop = FTAR_WAVG;
  desc.weight = 0;
  ftarOp_t op = nullptr;
  ASSERT_EQ(ftarOpStart(group_, &desc, &op), FTAR_OK) << LastError().text;
  ftarOutcome outcome = FTAR_OUTCOME_INIT;
  EXPECT_EQ(ftarOpWait(op, kLongNs, &outcome), FTAR_ERR_ABSENT);
  EXPECT_EQ(outcome.status, FTAR_ERR_ABSENT);
  EXPECT_EQ(LastError().code, FTAR_ERR_ABSENT);
  EXPECT_EQ(out[3], 7);
  EXPECT_EQ(ftarOpRelease(op), FTAR_OK);
  ExpectWorking();
}

// A failure that the first one had heard of was forgotten: the step had ended well.
TEST_F(OneMember, AStepThatEndsBadlyDoesSoHoweverOftenItIsAsked) {
  ftarStepConfig step = FTAR_STEP_CONFIG_INIT;
  step.weight = 0;
  ASSERT_EQ(ftarStepBegin(job_, &step, nullptr), FTAR_OK) << LastError().text;
  ftarOpDesc desc = FTAR_OP_DESC_INIT;
  desc.send = desc.recv = data_.data();
  desc.count = data_.size();
  ASSERT_EQ(ftarOpStart(group_, &desc, nullptr), FTAR_OK) << LastError().text;
  EXPECT_EQ(ftarStepEnd(job_, -1, nullptr), FTAR_ERR_ABSENT);
  EXPECT_EQ(ftarStepEnd(job_, -1, nullptr), FTAR_ERR_ABSENT);
  EXPECT_EQ(LastError().code, FTAR_ERR_ABSENT);
  ASSERT_EQ(ftarStepBegin(job_, nullptr, nullptr), FTAR_OK) << LastError().text;
  EXPECT_EQ(ftarStepEnd(job_, -1, nullptr), FTAR_OK) << LastError().text;
}

TEST_F(OneMember, WhoNamesAStepThatDoesNotFollowHearsWhichOneDoes) {
  ftarStepConfig step = FTAR_STEP_CONFIG_INIT;
  step.step = 5;
  ASSERT_EQ(ftarStepBegin(job_, &step, nullptr), FTAR_OK) << LastError().text;
  EXPECT_EQ(ftarStepBegin(job_, &step, nullptr), FTAR_ERR_ARG);
  EXPECT_STREQ(LastError().text,
               "step 5 cannot begin here: the next one is step 6, which -1 begins");
}

// 1e-50 is 0 in f32, and twice 2e38 is infinite: the average was NaN, and the status FTAR_OK.
TEST_F(OneMember, AWeightThatTheTypeDoesNotHoldIsRefused) {
  ftarOpDesc desc = FTAR_OP_DESC_INIT;
  desc.send = desc.recv = data_.data();
  desc.count = data_.size();
  ftarOp_t op = nullptr;
  for (double weight : {1e-50, 2e38, 1e39}) {
    desc.redop = FTAR_WAVG;
    desc.weight = weight;
    EXPECT_EQ(ftarOpStart(group_, &desc, &op), FTAR_ERR_ARG) << weight;
    EXPECT_STREQ(LastError().argument, "desc.weight");
    const ftarOpDesc both[] = {FTAR_OP_DESC_INIT, desc};
    EXPECT_EQ(ftarOpStartMany(group_, both, sizeof desc, 2, nullptr), FTAR_ERR_ARG) << weight;
    EXPECT_STREQ(LastError().argument, "desc[1].weight");
    desc.redop = FTAR_SUM;
    ASSERT_EQ(ftarOpStart(group_, &desc, &op), FTAR_OK) << LastError().text;
    EXPECT_EQ(ftarOpWait(op, kLongNs, nullptr), FTAR_OK) << LastError().text;
    EXPECT_EQ(ftarOpRelease(op), FTAR_OK);
  }
  // A step's is meant for operations of all kinds.
  ftarStepConfig step = FTAR_STEP_CONFIG_INIT;
  step.weight = 1e-50;
  ASSERT_EQ(ftarStepBegin(job_, &step, nullptr), FTAR_OK) << LastError().text;
  desc.redop = FTAR_WAVG;
  desc.weight = NAN;
  EXPECT_EQ(ftarOpStart(group_, &desc, &op), FTAR_ERR_ARG);
  ExpectWorking();
}

TEST_F(OneMember, OverlapWithAnOperationInFlightIsEitherRefusedOrTooLate) {
  // The first may have ended already; what must not happen is a crash or a wrong result.
  ftarOp_t first = nullptr, second = nullptr;
  std::vector<float> large(1 << 20, 1.0F);
  ASSERT_EQ(
      ftarAllReduce(large.data(), large.data(), large.size(), FTAR_F32, FTAR_SUM, group_, &first),
      FTAR_OK);
  const ftarResult_t result = ftarAllReduce(large.data() + 1, large.data() + 1, large.size() - 1,
                                            FTAR_F32, FTAR_SUM, group_, &second);
  EXPECT_TRUE(result == FTAR_OK || result == FTAR_ERR_ARG) << result;
  EXPECT_EQ(ftarOpWait(first, kLongNs, nullptr), FTAR_OK);
  if (result == FTAR_OK) {
    EXPECT_EQ(ftarOpWait(second, kLongNs, nullptr), FTAR_OK);
  }
  EXPECT_EQ(large[9], 1.0F);
  EXPECT_EQ(ftarOpRelease(first), FTAR_OK);
  EXPECT_EQ(ftarOpRelease(second), FTAR_OK);
}

TEST_F(OneMember, EveryCallInAForkedChildIsRefused) {
  const pid_t child = fork();
  ASSERT_NE(child, -1);
  if (child == 0) {
    ftarOp_t op = nullptr;
    ftarJob_t job = nullptr;
    int wrong = 0;
    wrong += ftarBarrier(group_, &op) != FTAR_ERR_FORKED;
    wrong += ftarJobLeave(job_, 0) != FTAR_ERR_FORKED;
    wrong += ftarJobDestroy(job_) != FTAR_ERR_FORKED;
    wrong += ftarJobJoin(nullptr, &job) != FTAR_ERR_FORKED;
    // exit, not _exit: no destructor may touch what belongs to the parent.
    exit(wrong);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
  ExpectWorking();
}

// As one does that finds no memory, nor does whoever is to hear of it.
TEST_F(OneMember, ACallbackMayThrowWhereNobodyCanBeTold) {
  ASSERT_EQ(ftarSetLogHandler([](int32_t, const char*, void*) { throw std::bad_alloc(); }, nullptr),
            FTAR_OK);
  ftarOpDesc desc = FTAR_OP_DESC_INIT;
  desc.kind = FTAR_BARRIER;
  std::atomic<int> ended{0};
  desc.user = &ended;
  desc.on_done = [](const ftarOutcome*, void* user) {
    ++*static_cast<std::atomic<int>*>(user);
    throw std::bad_alloc();
  };
  for (int i = 0; i < 2; ++i) {
    ASSERT_EQ(ftarOpStart(group_, &desc, nullptr), FTAR_OK) << LastError().text;
    while (ended <= i) std::this_thread::yield();
  }
  ExpectWorking();
  EXPECT_EQ(ftarSetLogHandler(nullptr, nullptr), FTAR_OK);
}

// It returns in the child, too, on a thread that is the library's: that has nothing to do there.
TEST_F(OneMember, ACallbackMayFork) {
  struct Seen {
    std::atomic<pid_t> child{0};
    std::atomic<int> ended{0};
  };
  void* const shared = mmap(nullptr, sizeof(Seen), PROT_READ | PROT_WRITE,
                            MAP_SHARED | MAP_ANONYMOUS, -1, 0);  // with the child
  ASSERT_NE(shared, MAP_FAILED);
  auto* const seen = new (shared) Seen;
  ftarOpDesc desc = FTAR_OP_DESC_INIT;
  desc.kind = FTAR_BARRIER;
  desc.user = seen;
  desc.on_done = [](const ftarOutcome*, void* user) {
    auto* const known = static_cast<Seen*>(user);
    if (++known->ended > 1) return;
    const pid_t child = fork();
    if (child != 0) known->child = child;
  };
  const std::array<ftarOpDesc, 2> both = {desc, desc};
  ASSERT_EQ(ftarOpStartMany(group_, both.data(), sizeof desc, both.size(), nullptr), FTAR_OK);
  while (seen->child == 0) std::this_thread::yield();
  ASSERT_NE(seen->child, -1);
  pid_t ended = 0;
  for (int i = 0; i < 2000 && ended == 0; ++i) {
    ended = waitpid(seen->child, nullptr, WNOHANG);
    usleep(10'000);
  }
  EXPECT_EQ(ended, seen->child);
  if (ended == 0) kill(seen->child, SIGKILL);
  while (seen->ended < 2) std::this_thread::yield();
  EXPECT_EQ(seen->ended, 2) << "one of them in the child";
  munmap(shared, sizeof(Seen));
  ExpectWorking();
}

TEST_F(OneMember, SeveralThreadsAndGroupsAtOnce) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([this, t] {
      ftarGroupConfig config = FTAR_GROUP_CONFIG_INIT;
      const std::string name = "group" + std::to_string(t);
      config.name = name.c_str();
      ftarGroup_t group = nullptr;
      ASSERT_EQ(ftarGroupOpen(job_, &config, &group), FTAR_OK) << LastError().text;
      std::array<double, 17> data{};
      for (int i = 0; i < 50; ++i) {
        ftarOp_t op = nullptr;
        ASSERT_EQ(
            ftarAllReduce(data.data(), data.data(), data.size(), FTAR_F64, FTAR_SUM, group, &op),
            FTAR_OK)
            << LastError().text;
        ftarOutcome outcome = FTAR_OUTCOME_INIT;
        ASSERT_EQ(ftarOpWait(op, kLongNs, &outcome), FTAR_OK) << LastError().text;
        EXPECT_EQ(outcome.seq, static_cast<uint64_t>(i));
        ASSERT_EQ(ftarOpRelease(op), FTAR_OK);
      }
      EXPECT_EQ(ftarGroupClose(group), FTAR_OK);
    });
  }
  for (std::thread& thread : threads) thread.join();
  ExpectWorking();
}

TEST_F(OneMember, OutcomesConfigurationCountersAndDump) {
  ExpectWorking();
  ftarOutcome outcome = FTAR_OUTCOME_INIT;
  EXPECT_EQ(ftarGroupOutcome(group_, 0, &outcome), FTAR_OK) << LastError().text;
  EXPECT_EQ(outcome.participants, 1);
  EXPECT_EQ(outcome.status, FTAR_OK);
  EXPECT_EQ(ftarGroupOutcome(group_, 99, &outcome), FTAR_ERR_ARG);
  int knobs = 0;
  EXPECT_EQ(ftarJobConfigEach(
                job_,
                [](const char*, const char*, const char* origin, const char*, void* user) {
                  EXPECT_STRNE(origin, "");
                  ++*static_cast<int*>(user);
                },
                &knobs),
            FTAR_OK);
  EXPECT_GT(knobs, 20);
  uint64_t value = 0;
  EXPECT_EQ(ftarJobGetCounter(job_, "no_such_counter", &value), FTAR_ERR_ARG);
  EXPECT_EQ(ftarJobDump(job_, "/nonexistent/folder/dump"), FTAR_ERR_SYSTEM);
  EXPECT_EQ(ftarJobDump(job_, "/dev/full"), FTAR_ERR_SYSTEM);
  EXPECT_NE(std::string(LastError().text).find("No space"), std::string::npos) << LastError().text;
  const std::string path = testing::TempDir() + "/ftar_dump_" + std::to_string(getpid());
  EXPECT_EQ(ftarJobDump(job_, path.c_str()), FTAR_OK) << LastError().text;
  std::ifstream file(path);
  nlohmann::json dump = nlohmann::json::parse(file, nullptr, false);
  ASSERT_TRUE(dump.is_object()) << "ftar.h promises JSON";
  EXPECT_EQ(dump["phase"], "member");
  EXPECT_EQ(dump["view"]["members"].size(), 1u);
  EXPECT_EQ(dump["events"].at(0)["type"], "view") << "the flight recorder";
  EXPECT_GT(dump["counters"]["ops_delivered"], 0);
  EXPECT_EQ(dump["groups"][0]["delivered"], dump["groups"][0]["called"]);
  EXPECT_EQ(unlink(path.c_str()), 0);
}

// It went direct without a word.
TEST(OneJob, ADeterministicRingIsSaidToBeNone) {
  static std::atomic<int> said = 0;
  ASSERT_EQ(ftarSetLogHandler(
                [](int32_t, const char* line, void*) {
                  if (std::string(line).find("a ring does not add in") != std::string::npos) ++said;
                },
                nullptr),
            FTAR_OK);
  for (const char* knob : {"ring", "auto"}) {
    said = 0;
    ftarJob_t job = nullptr;
    ftarGroup_t group = nullptr;
    ftarJobConfig config = FTAR_JOB_CONFIG_INIT;
    ASSERT_EQ(Join(config, {{"plan", knob}, {"deterministic", "on"}}, &job), FTAR_OK);
    EXPECT_EQ(said, std::string(knob) == "ring" ? 1 : 0);
    ASSERT_EQ(ftarGroupOpen(job, nullptr, &group), FTAR_OK) << LastError().text;
    ftarOpDesc desc = FTAR_OP_DESC_INIT;
    desc.kind = FTAR_BARRIER;
    desc.plan = "ring";
    for (int i = 0; i < 3; ++i) {
      ftarOp_t op = nullptr;
      ASSERT_EQ(ftarOpStart(group, &desc, &op), FTAR_OK) << LastError().text;
      EXPECT_EQ(ftarOpWait(op, kLongNs, nullptr), FTAR_OK) << LastError().text;
      EXPECT_EQ(ftarOpRelease(op), FTAR_OK);
    }
    EXPECT_EQ(said, 1);
    EXPECT_EQ(ftarGroupClose(group), FTAR_OK);
    EXPECT_EQ(ftarJobDestroy(job), FTAR_OK);
  }
  EXPECT_EQ(ftarSetLogHandler(nullptr, nullptr), FTAR_OK);
}

// Nothing came of either: a job of one has no coordinator to ask.
TEST_F(OneMember, EvictsItselfAndByItsOwnReport) {
  ftarGroupInfo me = FTAR_GROUP_INFO_INIT;
  ASSERT_EQ(ftarGroupGetInfo(group_, &me), FTAR_OK);
  ftarJob_t other = nullptr;
  ASSERT_EQ(ftarJobJoin(nullptr, &other), FTAR_OK) << LastError().text;
  EXPECT_EQ(ftarJobEvict(job_, me.my_id, "a test of eviction"), FTAR_OK);
  EXPECT_EQ(ftarJobReport(other, FTAR_ERR_DEVICE, "its fan has stopped"), FTAR_OK);
  const std::pair<ftarJob_t, const char*> told[] = {{job_, "evicted: a test of eviction"},
                                                    {other, "it reported itself: its fan has"}};
  for (const auto& [job, why] : told) {
    ftarEvent event = FTAR_EVENT_INIT;
    do {
      ASSERT_EQ(ftarJobNextEvent(job, &event, kLongNs), FTAR_OK) << LastError().text;
    } while (event.type != FTAR_EVENT_EVICTED);
    EXPECT_EQ(event.cause, FTAR_ERR_EVICTED);
    EXPECT_EQ(event.who.replica, 0);
    EXPECT_NE(std::string(event.who.text).find(why), std::string::npos) << event.who.text;
    EXPECT_EQ(ftarStepBegin(job, nullptr, nullptr), FTAR_ERR_EVICTED);
  }
  ftarOp_t op = nullptr;
  EXPECT_EQ(ftarBarrier(group_, &op), FTAR_ERR_EVICTED);
  EXPECT_EQ(ftarJobLeave(other, kLongNs), FTAR_ERR_EVICTED);
  EXPECT_EQ(ftarJobDestroy(other), FTAR_OK);
}

// It waited for a reader, and for room, as long as there was none.
TEST_F(OneMember, ADumpIntoAPipeWaitsForNobody) {
  const std::string path = testing::TempDir() + "/ftar_pipe_" + std::to_string(getpid());
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  EXPECT_EQ(ftarJobDump(job_, path.c_str()), FTAR_ERR_SYSTEM);
  const int reader = open(path.c_str(), O_RDONLY | O_NONBLOCK);
  ASSERT_GE(reader, 0);
  EXPECT_EQ(ftarJobDump(job_, path.c_str()), FTAR_OK) << LastError().text;
  while (ftarJobDump(job_, path.c_str()) == FTAR_OK) continue;
  EXPECT_EQ(LastError().code, FTAR_ERR_SYSTEM);
  std::string first(1, ' ');
  EXPECT_EQ(read(reader, first.data(), 1), 1);
  EXPECT_EQ(first, "{");
  close(reader);
  EXPECT_EQ(unlink(path.c_str()), 0);
}

TEST_F(OneMember, ADumpThatIsTooLargeIsAnErrorAndNoEnd) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit small{100, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const std::string path = testing::TempDir() + "/ftar_large_" + std::to_string(getpid());
  const ftarResult_t result = ftarJobDump(job_, path.c_str());
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  EXPECT_EQ(result, FTAR_ERR_SYSTEM);
  EXPECT_EQ(unlink(path.c_str()), 0);
}

TEST_F(OneMember, TheEventDescriptorPolls) {
  int fd = -1;
  ASSERT_EQ(ftarJobEventFd(job_, &fd), FTAR_OK);
  pollfd watch{fd, POLLIN, 0};
  EXPECT_EQ(poll(&watch, 1, 10'000), 1) << "the first view's event waits";
  EXPECT_EQ(watch.revents, POLLIN);
  ftarEvent event = FTAR_EVENT_INIT;
  while (ftarJobNextEvent(job_, &event, 0) == FTAR_OK) {
  }
  EXPECT_EQ(poll(&watch, 1, 0), 0) << "nothing to fetch, nothing to read";
  EXPECT_EQ(ftarJobNextEvent(job_, &event, 1'000'000), FTAR_TIMEOUT);
}

// No other call brings it.
TEST(Events, TheFirstViewOfAJobOfOneIsTold) {
  ftarJob_t job = nullptr;
  ASSERT_EQ(ftarJobJoin(nullptr, &job), FTAR_OK) << LastError().text;
  ftarEvent event = FTAR_EVENT_INIT;
  EXPECT_EQ(ftarJobNextEvent(job, &event, kLongNs), FTAR_OK);
  EXPECT_EQ(event.type, FTAR_EVENT_VIEW);
  EXPECT_EQ(std::string(event.who.text),
            "view " + std::to_string(event.epoch >> 16) + " is installed");
  EXPECT_EQ(ftarJobDestroy(job), FTAR_OK);
}

// However long it was to wait: its time is not over.
TEST(Events, WhoWaitsForOneHearsThatTheJobIsDestroyed) {
  ftarJob_t job = nullptr;
  ASSERT_EQ(ftarJobJoin(nullptr, &job), FTAR_OK) << LastError().text;
  std::atomic<bool> waits{false};
  std::thread waiter([&] {
    ftarEvent event = FTAR_EVENT_INIT;
    ftarResult_t ended = FTAR_OK;
    waits = true;
    while (ended == FTAR_OK) ended = ftarJobNextEvent(job, &event, kLongNs);
    // Who comes too late to wait finds no job.
    EXPECT_TRUE(ended == FTAR_ERR_STATE || ended == FTAR_ERR_HANDLE) << ended;
  });
  while (!waits) std::this_thread::yield();
  usleep(50'000);
  EXPECT_EQ(ftarJobDestroy(job), FTAR_OK);
  waiter.join();
}

TEST(Environment, UnknownVariablesAndBadValuesAreNamed) {
  ftarJob_t job = nullptr;
  ASSERT_EQ(setenv("FTAR_TIMEUOT", "3s", 1), 0);
  EXPECT_EQ(ftarJobJoin(nullptr, &job), FTAR_ERR_CONFIG);
  EXPECT_NE(std::string(LastError().text).find("FTAR_TIMEUOT"), std::string::npos)
      << LastError().text;
  ASSERT_EQ(unsetenv("FTAR_TIMEUOT"), 0);
  ASSERT_EQ(setenv("FTAR_TIMEOUT", "soon", 1), 0);
  EXPECT_EQ(ftarJobJoin(nullptr, &job), FTAR_ERR_CONFIG);
  EXPECT_NE(std::string(LastError().text).find("FTAR_TIMEOUT"), std::string::npos)
      << LastError().text;
  ASSERT_EQ(unsetenv("FTAR_TIMEOUT"), 0);
  EXPECT_EQ(job, nullptr);
}

TEST(Environment, AHeartbeatThatIsTooSeldomIsRefused) {
  const ftarJobConfig config = FTAR_JOB_CONFIG_INIT;
  ftarJob_t job = nullptr;
  EXPECT_EQ(Join(config, {{"timeout", "10s"}, {"heartbeat", "10s"}}, &job), FTAR_ERR_CONFIG);
  EXPECT_STREQ(LastError().argument, "heartbeat");
  for (const char* said : {"heartbeat is 10s", "timeout, 10s", "2500ms at most"})
    EXPECT_NE(std::string(LastError().text).find(said), std::string::npos) << LastError().text;
  EXPECT_EQ(job, nullptr);
}

TEST(Environment, ARingThatHoldsNoChunkIsRefused) {
  ftarJobConfig config = FTAR_JOB_CONFIG_INIT;
  ftarJob_t job = nullptr;
  EXPECT_EQ(Join(config, {{"shm_ring", "256K"}}, &job), FTAR_ERR_CONFIG);
  EXPECT_NE(std::string(LastError().text).find("ring of 262144"), std::string::npos)
      << LastError().text;
  EXPECT_EQ(job, nullptr);
  EXPECT_EQ(Join(config, {{"shm_ring", "512K"}, {"chunk", "16K"}}, &job), FTAR_OK)
      << LastError().text;
  EXPECT_EQ(ftarJobDestroy(job), FTAR_OK);
}

TEST(Abort, EndsTheMemberAndNothingElse) {
  ftarJob_t job = nullptr, other = nullptr;
  ftarGroup_t group = nullptr;
  ASSERT_EQ(ftarJobJoin(nullptr, &job), FTAR_OK);
  ASSERT_EQ(ftarJobJoin(nullptr, &other), FTAR_OK) << "several jobs live in one process";
  ASSERT_EQ(ftarGroupOpen(job, nullptr, &group), FTAR_OK);
  EXPECT_EQ(ftarJobAbort(job, "the test says so"), FTAR_OK);
  ftarOp_t op = nullptr;
  EXPECT_EQ(ftarBarrier(group, &op), FTAR_ERR_ABORTED);
  EXPECT_EQ(ftarStepBegin(job, nullptr, nullptr), FTAR_ERR_ABORTED);
  EXPECT_EQ(ftarJobDestroy(job), FTAR_OK);
  EXPECT_EQ(ftarGroupClose(group), FTAR_OK);
  ASSERT_EQ(ftarGroupOpen(other, nullptr, &group), FTAR_OK);
  ASSERT_EQ(ftarBarrier(group, &op), FTAR_OK) << LastError().text;
  EXPECT_EQ(ftarOpWait(op, kLongNs, nullptr), FTAR_OK);
  EXPECT_EQ(ftarOpRelease(op), FTAR_OK);
  EXPECT_EQ(ftarGroupClose(group), FTAR_OK);
  EXPECT_EQ(ftarJobDestroy(other), FTAR_OK);
}

}  // namespace
}  // namespace process
