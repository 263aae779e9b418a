// The C ABI over a runtime that does what the test says: handles, bad input, callbacks, forks,
// exceptions and last errors, without a job that runs.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <functional>
#include <string>
#include <thread>

#include "ftar/ftar.h"
#include "tests/unit/api/fake_job.h"

extern "C" int CheckHeaderAsC(void);

namespace ftar {
namespace {

using runtime::World;

ftarErrorInfo LastError() {
  ftarErrorInfo info = FTAR_ERROR_INFO_INIT;
  EXPECT_EQ(ftarGetLastError(&info), FTAR_OK);
  return info;
}

class Abi : public testing::Test {
 protected:
  void SetUp() override {
    runtime::ResetWorld();
    ASSERT_EQ(ftarJobJoin(nullptr, &job_), FTAR_OK);
    ASSERT_EQ(ftarGroupOpen(job_, nullptr, &group_), FTAR_OK);
    desc_.send = desc_.recv = data_.data();
    desc_.count = data_.size();
  }
  void TearDown() override {
    ftarGroupClose(group_);
    ftarJobDestroy(job_);
  }
  ftarOp_t Start() {
    ftarOp_t op = nullptr;
    EXPECT_EQ(ftarOpStart(group_, &desc_, &op), FTAR_OK) << LastError().text;
    return op;
  }

  ftarJob_t job_ = nullptr;
  ftarGroup_t group_ = nullptr;
  std::array<float, 16> data_{};
  ftarOpDesc desc_ = FTAR_OP_DESC_INIT;
};

TEST(AbiLibrary, HeaderIsC99AndItsInitialisersHold) { EXPECT_TRUE(CheckHeaderAsC()); }

TEST(AbiLibrary, VersionAndNames) {
  EXPECT_EQ(ftarGetVersion(), static_cast<uint32_t>(FTAR_VERSION));
  EXPECT_STREQ(ftarResultString(FTAR_ERR_PEER), "FTAR_ERR_PEER");
  EXPECT_STREQ(ftarResultString(FTAR_ERR_INTERNAL), "FTAR_ERR_INTERNAL");
  EXPECT_STREQ(ftarResultString(12345), "unknown result");
  EXPECT_STREQ(ftarResultString(-1), "unknown result");
}

TEST(AbiLibrary, LastErrorWantsAStruct) {
  EXPECT_EQ(ftarGetLastError(nullptr), FTAR_ERR_ARG);
  ftarErrorInfo info = FTAR_ERROR_INFO_INIT;
  info.size = 0;
  EXPECT_EQ(ftarGetLastError(&info), FTAR_ERR_ARG);
}

TEST(AbiConfig, ChecksNamesAndValuesAtOnce) {
  ftarConfig_t config = nullptr;
  ASSERT_EQ(ftarConfigCreate(&config), FTAR_OK);
  EXPECT_EQ(ftarConfigSet(config, "timeout", "30s"), FTAR_OK);
  EXPECT_EQ(ftarConfigSet(config, "timeuot", "30s"), FTAR_ERR_CONFIG);
  EXPECT_NE(std::string(LastError().text).find("timeuot"), std::string::npos);
  EXPECT_EQ(ftarConfigSet(config, "timeout", "soon"), FTAR_ERR_CONFIG);
  EXPECT_EQ(ftarConfigSet(config, nullptr, "30s"), FTAR_ERR_ARG);
  EXPECT_EQ(ftarConfigSet(config, "timeout", nullptr), FTAR_ERR_ARG);
  std::string timeout;
  auto visit = [](const char* name, const char* value, const char*, const char* help, void* user) {
    EXPECT_NE(help, nullptr);
    if (std::strcmp(name, "timeout") == 0) *static_cast<std::string*>(user) = value;
  };
  EXPECT_EQ(ftarConfigEach(config, visit, &timeout), FTAR_OK);
  EXPECT_EQ(timeout, "30s");
  EXPECT_EQ(ftarConfigEach(config, nullptr, nullptr), FTAR_ERR_ARG);
  EXPECT_STREQ(LastError().argument, "visitor");
  EXPECT_EQ(ftarConfigDestroy(config), FTAR_OK);
  EXPECT_EQ(ftarConfigDestroy(config), FTAR_ERR_HANDLE);
  EXPECT_EQ(ftarConfigSet(config, "timeout", "30s"), FTAR_ERR_HANDLE);
  EXPECT_EQ(ftarConfigDestroy(nullptr), FTAR_OK);
  EXPECT_EQ(ftarConfigCreate(nullptr), FTAR_ERR_ARG);
}

TEST(AbiJoin, BadConfigurationsAreNamed) {
  runtime::ResetWorld();
  struct Case {
    std::function<void(ftarJobConfig*)> spoil;
    ftarResult_t code;
    const char* argument;
  };
  const std::string long_text(300, 'x');
  const Case cases[] = {
      {[](auto* c) { c->size = 0; }, FTAR_ERR_ARG, "config.size"},
      {[](auto* c) { c->flags = 2; }, FTAR_ERR_UNSUPPORTED, "config.flags"},
      {[](auto* c) { c->replica = -2; }, FTAR_ERR_ARG, "config.replica"},
      {[](auto* c) { c->replica = 65536; }, FTAR_ERR_ARG, "config.replica"},
      {[](auto* c) { c->shard = -2; }, FTAR_ERR_ARG, "config.shard"},
      {[](auto* c) { c->shard = 2, c->shards = 2; }, FTAR_ERR_ARG, "config.shard"},
      {[](auto* c) { c->replicas = 0; }, FTAR_ERR_ARG, "config.replicas"},
      {[](auto* c) { c->min_replicas = 0; }, FTAR_ERR_ARG, "config.min_replicas"},
      {[](auto* c) { c->timeout_ns = -1; }, FTAR_ERR_ARG, "config.timeout_ns"},
      {[&](auto* c) { c->name = long_text.c_str(); }, FTAR_ERR_ARG, "config.name"},
      {[](auto* c) { c->config = reinterpret_cast<ftarConfig_t>(c); }, FTAR_ERR_HANDLE, "config"},
  };
  for (const Case& bad : cases) {
    ftarJobConfig config = FTAR_JOB_CONFIG_INIT;
    bad.spoil(&config);
    ftarJob_t job = reinterpret_cast<ftarJob_t>(1);
    EXPECT_EQ(ftarJobJoin(&config, &job), bad.code) << bad.argument;
    EXPECT_STREQ(LastError().argument, bad.argument);
    EXPECT_EQ(job, nullptr) << "an error sets the handle to null";
  }
  EXPECT_EQ(ftarJobJoin(nullptr, nullptr), FTAR_ERR_ARG);
}

TEST(AbiJoin, HandsOverWhatWasSaid) {
  runtime::ResetWorld();
  ftarConfig_t knobs = nullptr;
  ASSERT_EQ(ftarConfigCreate(&knobs), FTAR_OK);
  ASSERT_EQ(ftarConfigSet(knobs, "window", "4"), FTAR_OK);
  ftarJobConfig config = FTAR_JOB_CONFIG_INIT;
  config.replica = 3;
  config.replicas = 4;
  config.name = "job";
  config.coordinator = "h:1";
  config.timeout_ns = 5;
  config.config = knobs;
  std::string host;
  config.user = &host;
  config.on_event = [](const ftarEvent* event, void* user) {
    EXPECT_EQ(event->type, FTAR_EVENT_MEMBER_LOST);
    EXPECT_EQ(event->who.replica, 2);
    *static_cast<std::string*>(user) = event->who.host;
  };
  ftarJob_t job = nullptr;
  ASSERT_EQ(ftarJobJoin(&config, &job), FTAR_OK);
  EXPECT_EQ(ftarConfigDestroy(knobs), FTAR_OK);
  const runtime::JobOptions& options = World().options;
  EXPECT_EQ(options.replica, 3);
  EXPECT_EQ(options.shard, -1);
  EXPECT_EQ(options.replicas, 4);
  EXPECT_EQ(options.name, "job");
  EXPECT_EQ(options.coordinator, "h:1");
  EXPECT_EQ(options.timeout_ns, 5);
  ASSERT_EQ(options.knobs.size(), 1u);
  EXPECT_EQ(options.knobs[0].second, "4");
  runtime::JobEvent event;
  event.type = runtime::EventType::kMemberLost;
  event.who.replica = 2;
  event.who.host = "away";
  World().on_event(event);
  EXPECT_EQ(host, "away");
  EXPECT_EQ(ftarJobDestroy(job), FTAR_OK);
}

TEST(AbiJoin, FailureNamesTheHolderAndLeavesNothing) {
  runtime::ResetWorld();
  World().wait_ready = Status(Code::kPeer, "replica", "place 3 is held by a1b2");
  World().culprit.code = Code::kPeer;
  World().culprit.replica = 3;
  World().culprit.host = "node7";
  ftarJob_t job = nullptr;
  EXPECT_EQ(ftarJobJoin(nullptr, &job), FTAR_ERR_PEER);
  EXPECT_EQ(job, nullptr);
  EXPECT_EQ(World().destroyed, 1);
  EXPECT_EQ(LastError().replica, 3);
  EXPECT_STREQ(LastError().host, "node7");
  EXPECT_STREQ(LastError().text, "place 3 is held by a1b2");
}

TEST(AbiJoin, NonBlockingReturnsAtOnce) {
  runtime::ResetWorld();
  World().wait_ready = Status(Code::kTimeout, "not ready");
  ftarJobConfig config = FTAR_JOB_CONFIG_INIT;
  config.flags = FTAR_JOB_NONBLOCKING;
  ftarJob_t job = nullptr;
  EXPECT_EQ(ftarJobJoin(&config, &job), FTAR_IN_PROGRESS);
  ASSERT_NE(job, nullptr);
  EXPECT_EQ(ftarJobWaitReady(job, 0), FTAR_TIMEOUT);
  EXPECT_EQ(ftarJobWaitReady(job, -2), FTAR_ERR_ARG);
  EXPECT_EQ(ftarJobDestroy(job), FTAR_OK);
}

TEST_F(Abi, NullPointersAreNamedAndNothingHappens) {
  ftarOp_t op = Start();
  const size_t started = World().requests.size();
  const struct {
    ftarResult_t code;
    const char* call;
  } calls[] = {
      {ftarGroupOpen(job_, nullptr, nullptr), "ftarGroupOpen"},
      {ftarGroupGetInfo(group_, nullptr), "ftarGroupGetInfo"},
      {ftarGroupGetView(group_, nullptr), "ftarGroupGetView"},
      {ftarGroupOutcome(group_, 0, nullptr), "ftarGroupOutcome"},
      {ftarJobGetView(job_, nullptr), "ftarJobGetView"},
      {ftarJobNextEvent(job_, nullptr, 0), "ftarJobNextEvent"},
      {ftarJobEventFd(job_, nullptr), "ftarJobEventFd"},
      {ftarJobConfigEach(job_, nullptr, nullptr), "ftarJobConfigEach"},
      {ftarJobGetCounter(job_, nullptr, nullptr), "ftarJobGetCounter"},
      {ftarJobGetCounter(job_, "ops", nullptr), "ftarJobGetCounter"},
      {ftarJobDump(job_, nullptr), "ftarJobDump"},
      {ftarMemAlloc(job_, 8, nullptr, nullptr), "ftarMemAlloc"},
      {ftarMemRegister(job_, nullptr, 8, nullptr, nullptr), "ftarMemRegister"},
      {ftarOpStart(group_, nullptr, nullptr), "ftarOpStart"},
      {ftarOpStartMany(group_, nullptr, sizeof(ftarOpDesc), 1, nullptr), "ftarOpStartMany"},
      {ftarOpParticipants(op, nullptr, sizeof(ftarMemberInfo), 1, nullptr), "ftarOpParticipants"},
      {ftarAllReduce(nullptr, nullptr, 1, FTAR_F32, FTAR_SUM, group_, nullptr), "ftarAllReduce"},
  };
  for (const auto& call : calls) EXPECT_EQ(call.code, FTAR_ERR_ARG) << call.call;
  EXPECT_EQ(World().requests.size(), started);
  EXPECT_EQ(ftarOpRelease(op), FTAR_OK);
}

TEST_F(Abi, NullHandlesAreErrorsButForTheirEnd) {
  EXPECT_EQ(ftarJobWaitReady(nullptr, 0), FTAR_ERR_HANDLE);
  EXPECT_EQ(ftarGroupGetInfo(nullptr, nullptr), FTAR_ERR_HANDLE);
  EXPECT_EQ(ftarOpWait(nullptr, 0, nullptr), FTAR_ERR_HANDLE);
  EXPECT_EQ(ftarViewGetInfo(nullptr, nullptr), FTAR_ERR_HANDLE);
  EXPECT_EQ(ftarStepBegin(nullptr, nullptr, nullptr), FTAR_ERR_HANDLE);
  EXPECT_EQ(ftarBarrier(nullptr, nullptr), FTAR_ERR_HANDLE);
  EXPECT_EQ(ftarJobDestroy(nullptr), FTAR_OK);
  EXPECT_EQ(ftarGroupClose(nullptr), FTAR_OK);
  EXPECT_EQ(ftarViewRelease(nullptr), FTAR_OK);
  EXPECT_EQ(ftarOpRelease(nullptr), FTAR_OK);
  EXPECT_EQ(ftarMemDeregister(nullptr), FTAR_OK);
  EXPECT_EQ(ftarMemFree(job_, nullptr), FTAR_OK);
}

TEST_F(Abi, FreedAndForeignHandlesAreRecognised) {
  ftarOp_t op = Start();
  EXPECT_EQ(ftarOpRelease(op), FTAR_OK);
  EXPECT_EQ(ftarOpRelease(op), FTAR_ERR_HANDLE);
  EXPECT_EQ(ftarOpWait(op, -1, nullptr), FTAR_ERR_HANDLE);
  EXPECT_EQ(LastError().code, FTAR_ERR_HANDLE);
  EXPECT_STREQ(LastError().argument, "op");
  EXPECT_EQ(ftarOpWait(reinterpret_cast<ftarOp_t>(job_), -1, nullptr), FTAR_ERR_HANDLE);
  EXPECT_EQ(ftarOpWait(reinterpret_cast<ftarOp_t>(&op), -1, nullptr), FTAR_ERR_HANDLE);
  EXPECT_EQ(ftarJobDestroy(reinterpret_cast<ftarJob_t>(group_)), FTAR_ERR_HANDLE);
}

TEST_F(Abi, AStartTranslatesAndItsWaitReturnsTheOutcome) {
  desc_.tag = 9;
  ftarOp_t op = Start();
  ASSERT_EQ(World().requests.size(), 1u);
  EXPECT_EQ(World().requests[0].spec.tag, 9u);
  World().outcome.seq = 4;
  World().outcome.participants = 2;
  ftarOutcome outcome = FTAR_OUTCOME_INIT;
  EXPECT_EQ(ftarOpWait(op, -1, &outcome), FTAR_OK);
  EXPECT_EQ(outcome.seq, 4u);
  EXPECT_EQ(outcome.participants, 2);
  EXPECT_EQ(ftarOpWait(op, -2, &outcome), FTAR_ERR_ARG);
  outcome.size = 0;
  EXPECT_EQ(ftarOpWait(op, -1, &outcome), FTAR_ERR_ARG);
  EXPECT_EQ(ftarOpRelease(op), FTAR_OK);
}

TEST_F(Abi, AnEarlyEndOfAWaitLeavesTheOutcomeAlone) {
  ftarOp_t op = Start();
  World().ops_done = false;
  ftarOutcome outcome = FTAR_OUTCOME_INIT;
  outcome.seq = 77;
  World().culprit.seq = 5;
  for (Code code : {Code::kTimeout, Code::kQuorum, Code::kCoordinator}) {
    World().wait = Status(code, "not yet");
    EXPECT_EQ(ftarOpWait(op, 5, &outcome), static_cast<ftarResult_t>(code));
    EXPECT_EQ(LastError().code, static_cast<ftarResult_t>(code));
    EXPECT_EQ(LastError().seq, 5u);
  }
  World().wait = Status(Code::kTimeout, "not yet");
  EXPECT_EQ(ftarOpTest(op, &outcome), FTAR_IN_PROGRESS) << "a poll that finds nothing is no error";
  EXPECT_EQ(outcome.seq, 77u);
  EXPECT_EQ(ftarOpParticipants(op, nullptr, 0, 0, &outcome.size), FTAR_IN_PROGRESS);
  EXPECT_EQ(ftarOpRelease(op), FTAR_OK);
}

TEST_F(Abi, AVerdictNamesItsCulprit) {
  ftarOp_t op = Start();
  World().outcome.status = Code::kMismatch;
  World().outcome.text = "replica 0 calls it with 16 elements, replica 1 with 17";
  World().outcome.seq = 3;
  World().outcome.culprit = MemberId{1, 2};
  World().culprit.replica = 1;
  World().culprit.seq = 3;
  ftarOutcome outcome = FTAR_OUTCOME_INIT;
  EXPECT_EQ(ftarOpWait(op, -1, &outcome), FTAR_ERR_MISMATCH);
  EXPECT_EQ(outcome.status, FTAR_ERR_MISMATCH);
  EXPECT_EQ(outcome.culprit.lo, 2u);
  const ftarErrorInfo info = LastError();
  EXPECT_EQ(info.code, FTAR_ERR_MISMATCH);
  EXPECT_EQ(info.replica, 1);
  EXPECT_EQ(info.seq, 3u);
  EXPECT_NE(std::string(info.text).find("17"), std::string::npos);
  EXPECT_EQ(ftarOpRelease(op), FTAR_OK);
}

TEST_F(Abi, StartManyIsAllOrNone) {
  std::array<ftarOpDesc, 3> many = {desc_, desc_, desc_};
  std::array<ftarOp_t, 3> ops{};
  many[2].scale = 0;
  EXPECT_EQ(ftarOpStartMany(group_, many.data(), sizeof(ftarOpDesc), 3, ops.data()), FTAR_ERR_ARG);
  EXPECT_STREQ(LastError().argument, "desc[2].scale");
  EXPECT_TRUE(World().requests.empty());
  EXPECT_EQ(ops[0], nullptr);
  many[2].scale = 1;
  EXPECT_EQ(ftarOpStartMany(group_, many.data(), 12, 3, ops.data()), FTAR_ERR_ARG);
  EXPECT_STREQ(LastError().argument, "stride");
  EXPECT_EQ(ftarOpStartMany(group_, many.data(), sizeof(ftarOpDesc) - 8, 3, ops.data()),
            FTAR_ERR_ARG);
  EXPECT_EQ(ftarOpStartMany(group_, many.data(), sizeof(ftarOpDesc), 3, ops.data()), FTAR_OK);
  EXPECT_EQ(World().requests.size(), 3u);
  for (ftarOp_t op : ops) EXPECT_EQ(ftarOpRelease(op), FTAR_OK);
  EXPECT_EQ(ftarOpStartMany(group_, nullptr, sizeof(ftarOpDesc), 0, nullptr), FTAR_OK);
}

// The coordinator is away, and somebody had died before.
TEST_F(Abi, WhoeverWasLostEarlierIsNotNamed) {
  World().culprit.code = Code::kPeer;
  World().culprit.replica = 3;
  World().culprit.host = "node7";
  World().wait_ready = Status(Code::kCoordinator, "coordinator", "no coordinator");
  EXPECT_EQ(ftarJobWaitReady(job_, 5), FTAR_ERR_COORDINATOR);
  EXPECT_EQ(LastError().replica, -1);
  EXPECT_STREQ(LastError().host, "");
}

TEST_F(Abi, WhomACallbackHasHeardOfIsNotNamedByTheWaitThatRunsIt) {
  ftarOp_t op = Start();
  World().outcome.status = Code::kMismatch;
  World().culprit.replica = 3;
  World().leave = Status(Code::kTimeout, "leaving takes longer");
  World().in_leave = [op] {
    EXPECT_EQ(ftarOpTest(op, nullptr), FTAR_ERR_MISMATCH);
    EXPECT_EQ(LastError().replica, 3);
  };
  EXPECT_EQ(ftarJobLeave(job_, 5), FTAR_TIMEOUT);
  EXPECT_EQ(LastError().code, FTAR_TIMEOUT);
  EXPECT_EQ(LastError().replica, -1);
  EXPECT_EQ(ftarOpRelease(op), FTAR_OK);
}

TEST_F(Abi, ARefusedStartHasNoHandle) {
  World().start = Status(Code::kEvicted, "evicted: silent for 1 s");
  World().culprit.code = Code::kEvicted;
  World().culprit.host = "here";
  ftarOp_t op = reinterpret_cast<ftarOp_t>(1);
  EXPECT_EQ(ftarOpStart(group_, &desc_, &op), FTAR_ERR_EVICTED);
  EXPECT_EQ(op, nullptr);
  EXPECT_STREQ(LastError().host, "here");
  op = reinterpret_cast<ftarOp_t>(1);
  EXPECT_EQ(ftarOpStart(nullptr, &desc_, &op), FTAR_ERR_HANDLE);
  EXPECT_EQ(op, nullptr);
}

// Whoever is out has no ranks that a root could be looked up in.
TEST_F(Abi, ABroadcastOfAMemberThatIsOutSaysThatItIsOut) {
  World().start = Status(Code::kLeft, "this member has left");
  ftarOpDesc desc = desc_;
  desc.kind = FTAR_BROADCAST;
  desc.root = 1000;
  ftarOp_t op = nullptr;
  EXPECT_EQ(ftarOpStart(group_, &desc, &op), FTAR_ERR_LEFT);
  EXPECT_EQ(ftarOpStartMany(group_, &desc, sizeof(desc), 1, &op), FTAR_ERR_LEFT);
  World().start = Status::Ok();
  EXPECT_EQ(ftarOpStart(group_, &desc, &op), FTAR_ERR_ARG);
}

TEST_F(Abi, ParticipantsFillTheCallersStride) {
  ftarOp_t op = Start();
  World().outcome.members = {{MemberId{1, 1}, 0, 0, 0, 1}, {MemberId{1, 2}, 1, 1, 0, 0}};
  size_t n = 0;
  EXPECT_EQ(ftarOpParticipants(op, nullptr, 0, 0, &n), FTAR_OK);
  EXPECT_EQ(n, 2u);
  struct Newer {
    ftarMemberInfo info;
    uint64_t more;
  };
  std::array<Newer, 2> wide{};
  wide[0].more = wide[1].more = 5;
  EXPECT_EQ(ftarOpParticipants(op, &wide[0].info, sizeof(Newer), 2, &n), FTAR_OK);
  EXPECT_EQ(wide[1].info.replica, 1);
  EXPECT_EQ(wide[1].info.weight, 0);
  EXPECT_EQ(wide[1].info.size, sizeof(ftarMemberInfo));
  EXPECT_EQ(wide[1].more, 5u);
  std::array<ftarMemberInfo, 1> few{};
  EXPECT_EQ(ftarOpParticipants(op, few.data(), sizeof(ftarMemberInfo), 1, &n), FTAR_OK);
  EXPECT_EQ(n, 2u) << "how many there are, not how many fitted";
  EXPECT_EQ(ftarOpParticipants(op, few.data(), 12, 1, &n), FTAR_ERR_ARG);
  EXPECT_EQ(ftarOpRelease(op), FTAR_OK);
}

TEST_F(Abi, OutcomesBySeq) {
  World().outcome.participants = 2;
  ftarOutcome outcome = FTAR_OUTCOME_INIT;
  EXPECT_EQ(ftarGroupOutcome(group_, 0, &outcome), FTAR_OK);
  EXPECT_EQ(outcome.participants, 2);
  EXPECT_EQ(ftarGroupOutcome(group_, 1, &outcome), FTAR_ERR_ARG);
  World().outcome.status = Code::kAbsent;
  EXPECT_EQ(ftarGroupOutcome(group_, 0, &outcome), FTAR_OK) << "the status is in the outcome";
  EXPECT_EQ(outcome.status, FTAR_ERR_ABSENT);
}

TEST_F(Abi, WaitsAndStartsAreRefusedInCallbacks) {
  World().ops_done = false;
  World().wait = Status(Code::kTimeout, "");
  ftarOp_t op = Start();
  ftarOp_t second = nullptr;
  ftarJob_t job = nullptr;
  runtime::AsCallback([&] {
    EXPECT_EQ(ftarOpStart(group_, &desc_, &second), FTAR_ERR_STATE);
    EXPECT_NE(std::string(LastError().text).find("ftarOpStart"), std::string::npos);
    EXPECT_EQ(ftarAllReduce(nullptr, nullptr, 0, FTAR_F32, FTAR_SUM, group_, &second),
              FTAR_ERR_STATE);
    EXPECT_EQ(ftarOpWait(op, -1, nullptr), FTAR_ERR_STATE);
    EXPECT_EQ(ftarJobJoin(nullptr, &job), FTAR_ERR_STATE);
    EXPECT_EQ(ftarJobWaitReady(job_, 0), FTAR_ERR_STATE);
    EXPECT_EQ(ftarJobLeave(job_, 0), FTAR_ERR_STATE);
    EXPECT_EQ(ftarJobDestroy(job_), FTAR_ERR_STATE);
    EXPECT_EQ(ftarGroupClose(group_), FTAR_ERR_STATE);
    EXPECT_EQ(ftarStepBegin(job_, nullptr, nullptr), FTAR_ERR_STATE);
    EXPECT_EQ(ftarStepEnd(job_, -1, nullptr), FTAR_ERR_STATE);
    // Looking, reporting and leaving at once are allowed.
    EXPECT_EQ(ftarOpTest(op, nullptr), FTAR_IN_PROGRESS);
    ftarView_t view = nullptr;
    EXPECT_EQ(ftarJobGetView(job_, &view), FTAR_OK);
    EXPECT_EQ(ftarViewRelease(view), FTAR_OK);
    EXPECT_EQ(ftarJobReport(job_, FTAR_ERR_DEVICE, "ECC"), FTAR_OK);
    EXPECT_EQ(ftarJobEvict(job_, ftarId{1, 2}, nullptr), FTAR_OK);
    EXPECT_EQ(ftarJobAbort(job_, "enough"), FTAR_OK);
  });
  EXPECT_EQ(World().requests.size(), 1u);
  EXPECT_EQ(ftarOpRelease(op), FTAR_OK);
}

TEST_F(Abi, OnDoneGetsTheOutcome) {
  int32_t participants = 0;
  World().outcome.participants = 2;
  desc_.user = &participants;
  desc_.on_done = [](const ftarOutcome* outcome, void* user) {
    *static_cast<int32_t*>(user) = outcome->participants;
  };
  EXPECT_EQ(ftarOpStart(group_, &desc_, nullptr), FTAR_OK);
  EXPECT_EQ(participants, 2);
}

TEST_F(Abi, DestroyWithOpsInFlightLeavesTheirHandlesToWaitOn) {
  World().ops_done = false;
  ftarOp_t op = Start();
  EXPECT_EQ(ftarJobDestroy(job_), FTAR_OK);
  EXPECT_EQ(World().destroyed, 1);
  EXPECT_EQ(ftarJobDestroy(job_), FTAR_ERR_HANDLE);
  World().ops_done = true;
  World().outcome.status = Code::kAborted;
  ftarOutcome outcome = FTAR_OUTCOME_INIT;
  EXPECT_EQ(ftarOpWait(op, -1, &outcome), FTAR_ERR_ABORTED);
  EXPECT_EQ(outcome.status, FTAR_ERR_ABORTED);
  ftarOp_t later = nullptr;
  EXPECT_EQ(ftarOpStart(group_, &desc_, &later), FTAR_ERR_STATE);
  EXPECT_EQ(ftarOpRelease(op), FTAR_OK);
  EXPECT_EQ(ftarGroupClose(group_), FTAR_OK);
}

TEST_F(Abi, AGroupThatCannotCloseStaysOpen) {
  World().close_group = Status(Code::kState, "operations are in flight");
  EXPECT_EQ(ftarGroupClose(group_), FTAR_ERR_STATE);
  World().close_group = Status::Ok();
  EXPECT_EQ(ftarGroupClose(group_), FTAR_OK);
  EXPECT_EQ(ftarGroupClose(group_), FTAR_ERR_HANDLE);
}

TEST_F(Abi, ExceptionsBecomeResults) {
  World().throw_bad_alloc = true;
  EXPECT_EQ(ftarOpStart(group_, &desc_, nullptr), FTAR_ERR_MEMORY);
  World().throw_bad_alloc = false;
  World().throw_other = true;
  EXPECT_EQ(ftarOpStart(group_, &desc_, nullptr), FTAR_ERR_INTERNAL);
  EXPECT_STREQ(LastError().text, "broken");
}

TEST_F(Abi, GroupConfigurations) {
  const std::string long_name(300, 'n');
  const struct {
    std::function<void(ftarGroupConfig*)> spoil;
    ftarResult_t code;
  } cases[] = {
      {[](auto* c) { c->size = 0; }, FTAR_ERR_ARG},
      {[](auto* c) { c->name = ""; }, FTAR_ERR_ARG},
      {[&](auto* c) { c->name = long_name.c_str(); }, FTAR_ERR_ARG},
      {[](auto* c) { c->window = -1; }, FTAR_ERR_ARG},
      {[](auto* c) { c->window = 1025; }, FTAR_ERR_ARG},
      {[](auto* c) { c->shard = -2; }, FTAR_ERR_ARG},
      {[](auto* c) { c->shard = 1; }, FTAR_ERR_UNSUPPORTED},
      {[](auto* c) { c->priority = 101; }, FTAR_ERR_ARG},
      {[](auto* c) { c->priority = -101; }, FTAR_ERR_ARG},
      {[](auto* c) { c->flags = 1; }, FTAR_ERR_UNSUPPORTED},
  };
  for (const auto& bad : cases) {
    ftarGroupConfig config = FTAR_GROUP_CONFIG_INIT;
    bad.spoil(&config);
    ftarGroup_t group = nullptr;
    World().group_priority = -1;
    EXPECT_EQ(ftarGroupOpen(job_, &config, &group), bad.code) << LastError().text;
    EXPECT_EQ(group, nullptr);
    EXPECT_EQ(World().group_priority, -1) << "what is refused decides nothing";
  }
}

TEST_F(Abi, GroupsHavePriorities) {
  for (const int32_t priority : {-100, 0, 100}) {
    ftarGroupConfig config = FTAR_GROUP_CONFIG_INIT;
    config.priority = priority;
    ftarGroup_t group = nullptr;
    ASSERT_EQ(ftarGroupOpen(job_, &config, &group), FTAR_OK) << LastError().text;
    EXPECT_EQ(World().group_priority, priority);
    EXPECT_EQ(ftarGroupClose(group), FTAR_OK);
  }
}

TEST_F(Abi, OperationsHaveNoPriorityAndAreToldWhatHas) {
  desc_.priority = 1;
  ftarOp_t op = nullptr;
  EXPECT_EQ(ftarOpStart(group_, &desc_, &op), FTAR_ERR_UNSUPPORTED);
  EXPECT_NE(std::string(LastError().text).find("ftarGroupConfig.priority"), std::string::npos);
}

TEST_F(Abi, Steps) {
  ftarStepConfig config = FTAR_STEP_CONFIG_INIT;
  ftarStepInfo info = FTAR_STEP_INFO_INIT;
  config.flags = FTAR_STEP_STRICT;
  config.weight = 0;
  EXPECT_EQ(ftarStepBegin(job_, &config, &info), FTAR_OK);
  EXPECT_TRUE(World().step.strict);
  EXPECT_EQ(World().step.weight, 0);
  EXPECT_EQ(info.step, 5);
  EXPECT_EQ(info.source, 1);
  EXPECT_EQ(ftarStepBegin(job_, nullptr, nullptr), FTAR_OK);
  config.weight = -1;
  EXPECT_EQ(ftarStepBegin(job_, &config, &info), FTAR_ERR_ARG);
  config = FTAR_STEP_CONFIG_INIT;
  config.step = -2;
  EXPECT_EQ(ftarStepBegin(job_, &config, &info), FTAR_ERR_ARG);
  config = FTAR_STEP_CONFIG_INIT;
  config.hint_count = 1;
  EXPECT_EQ(ftarStepBegin(job_, &config, &info), FTAR_ERR_UNSUPPORTED);
  EXPECT_EQ(ftarStepEnd(job_, -2, &info), FTAR_ERR_ARG);
  info.size = 0;
  EXPECT_EQ(ftarStepEnd(job_, -1, &info), FTAR_ERR_ARG);
}

TEST_F(Abi, Views) {
  ftarView_t view = nullptr;
  ASSERT_EQ(ftarGroupGetView(group_, &view), FTAR_OK);
  ftarViewInfo info = FTAR_VIEW_INFO_INIT;
  EXPECT_EQ(ftarViewGetInfo(view, &info), FTAR_OK);
  EXPECT_EQ(info.members, 2);
  EXPECT_EQ(info.replicas, 2);
  EXPECT_EQ(info.shards, 1);
  EXPECT_EQ(info.my_rank, 0);
  EXPECT_EQ(info.my_id.lo, 1u);
  ftarMemberInfo member = FTAR_MEMBER_INFO_INIT;
  EXPECT_EQ(ftarViewGetMember(view, 1, &member), FTAR_OK);
  EXPECT_EQ(member.replica, 1);
  EXPECT_STREQ(member.host, "host1");
  EXPECT_EQ(ftarViewGetMember(view, 2, &member), FTAR_ERR_ARG);
  EXPECT_EQ(ftarViewGetMember(view, -1, &member), FTAR_ERR_ARG);
  World().view = nullptr;
  EXPECT_EQ(ftarViewGetInfo(view, &info), FTAR_OK) << "a snapshot does not change";
  ftarView_t none = nullptr;
  EXPECT_EQ(ftarJobGetView(job_, &none), FTAR_ERR_STATE);
  EXPECT_EQ(ftarViewRelease(view), FTAR_OK);
  EXPECT_EQ(ftarViewRelease(view), FTAR_ERR_HANDLE);
}

TEST_F(Abi, Memory) {
  void* memory = nullptr;
  EXPECT_EQ(ftarMemAlloc(job_, 0, nullptr, &memory), FTAR_ERR_ARG);
  EXPECT_EQ(ftarMemAlloc(job_, SIZE_MAX, nullptr, &memory), FTAR_ERR_MEMORY);
  ftarMemDesc desc = FTAR_MEM_DESC_INIT;
  desc.kind = FTAR_MEM_CUDA;
  EXPECT_EQ(ftarMemAlloc(job_, 64, &desc, &memory), FTAR_ERR_DEVICE);  // there is none
  desc.kind = 7;
  EXPECT_EQ(ftarMemAlloc(job_, 64, &desc, &memory), FTAR_ERR_ARG);
  ASSERT_EQ(ftarMemAlloc(job_, 64, nullptr, &memory), FTAR_OK);
  ftarMem_t mem = nullptr;
  EXPECT_EQ(ftarMemRegister(job_, memory, 0, nullptr, &mem), FTAR_ERR_ARG);
  EXPECT_EQ(ftarMemRegister(job_, memory, SIZE_MAX, nullptr, &mem), FTAR_ERR_ARG);
  EXPECT_EQ(ftarMemRegister(job_, memory, 64, nullptr, &mem), FTAR_OK);
  EXPECT_EQ(ftarMemDeregister(mem), FTAR_OK);
  EXPECT_EQ(ftarMemDeregister(mem), FTAR_ERR_HANDLE);
  EXPECT_EQ(ftarMemFree(job_, memory), FTAR_OK);
}

TEST_F(Abi, JobCallsCheckTheirArguments) {
  uint64_t value = 0;
  EXPECT_EQ(ftarJobGetCounter(job_, "ops", &value), FTAR_OK);
  EXPECT_EQ(value, 42u);
  EXPECT_EQ(ftarJobGetCounter(job_, "nonsense", &value), FTAR_ERR_ARG);
  EXPECT_EQ(ftarJobReport(job_, FTAR_OK, "fine"), FTAR_ERR_ARG);
  EXPECT_EQ(ftarJobReport(job_, 999, "what"), FTAR_ERR_ARG);
  EXPECT_EQ(ftarJobReport(job_, FTAR_ERR_DEVICE, nullptr), FTAR_OK);
  EXPECT_EQ(World().reported, Code::kDevice);
  const std::string long_text = "ab" + std::string(1 << 20, '\xc3');  // no text is sent whole
  EXPECT_EQ(ftarJobReport(job_, FTAR_ERR_DEVICE, long_text.c_str()), FTAR_OK);
  EXPECT_EQ(World().said, long_text.substr(0, World().said.size()));
  EXPECT_EQ(World().said.size(), sizeof(ftarErrorInfo::text) - 1);
  EXPECT_EQ(ftarJobEvict(job_, ftarId{1, 2}, long_text.c_str()), FTAR_OK);
  EXPECT_EQ(World().said.size(), sizeof(ftarErrorInfo::text) - 1);
  EXPECT_EQ(ftarJobEvict(job_, ftarId{9, 10}, "who?"), FTAR_ERR_ARG);
  EXPECT_NE(std::string(LastError().text).find("0000000000000009000000000000000a"),
            std::string::npos)
      << LastError().text;
  EXPECT_EQ(ftarJobDump(job_, ""), FTAR_ERR_ARG);
  EXPECT_EQ(ftarJobLeave(job_, -2), FTAR_ERR_ARG);
  ftarEvent event = FTAR_EVENT_INIT;
  EXPECT_EQ(ftarJobNextEvent(job_, &event, 0), FTAR_IN_PROGRESS);
  EXPECT_EQ(ftarJobNextEvent(job_, &event, 1), FTAR_TIMEOUT);
}

TEST_F(Abi, SuccessKeepsTheLastErrorAndThreadsHaveTheirOwn) {
  EXPECT_EQ(ftarJobDump(job_, ""), FTAR_ERR_ARG);
  uint64_t value = 0;
  EXPECT_EQ(ftarJobGetCounter(job_, "ops", &value), FTAR_OK);
  EXPECT_STREQ(LastError().argument, "path");
  std::thread([] { EXPECT_EQ(LastError().code, FTAR_OK); }).join();
}

TEST_F(Abi, EveryCallInAForkedChildIsRefused) {
  ftarOp_t op = Start();
  const pid_t child = fork();
  ASSERT_NE(child, -1);
  if (child == 0) {
    // What a call makes is null where it fails, whatever was there before.
    auto job = reinterpret_cast<ftarJob_t>(1);
    auto view = reinterpret_cast<ftarView_t>(1);
    auto config = reinterpret_cast<ftarConfig_t>(1);
    auto second = reinterpret_cast<ftarOp_t>(1);
    ftarErrorInfo info = FTAR_ERROR_INFO_INIT;
    const ftarResult_t results[] = {ftarJobJoin(nullptr, &job),
                                    ftarJobWaitReady(job_, 0),
                                    ftarJobLeave(job_, 0),
                                    ftarJobAbort(job_, ""),
                                    ftarJobDestroy(job_),
                                    ftarJobDestroy(nullptr),
                                    ftarJobGetView(job_, &view),
                                    ftarGroupClose(group_),
                                    ftarOpStart(group_, &desc_, &second),
                                    ftarOpWait(op, 0, nullptr),
                                    ftarOpRelease(op),
                                    ftarStepBegin(job_, nullptr, nullptr),
                                    ftarConfigCreate(&config),
                                    ftarGetLastError(&info),
                                    ftarSetLogHandler(nullptr, nullptr),
                                    ftarMemFree(job_, &info)};
    int wrong = (job != nullptr) + (view != nullptr) + (config != nullptr) + (second != nullptr);
    for (ftarResult_t result : results) wrong += result != FTAR_ERR_FORKED;
    _exit(wrong);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0) << "calls that were not refused, or made something";
  EXPECT_EQ(ftarOpWait(op, 0, nullptr), FTAR_OK) << "the parent goes on";
  EXPECT_EQ(ftarOpRelease(op), FTAR_OK);
}

}  // namespace
}  // namespace ftar
