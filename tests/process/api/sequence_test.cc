// Random calls, legal and illegal, in random order, on two members of one job in this process: with
// handles that are alive, given back, of another kind, or no handles at all. Every call returns a
// known result in time, nothing crashes, and a job beside them does not notice.
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cmath>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "ftar/ftar.h"
#include "tests/process/api/jobs.h"
#include "tests/process/harness.h"

namespace process {
namespace {

constexpr int kCalls = 600;
constexpr size_t kBytes = 1 << 16;

class Abuser {
 public:
  explicit Abuser(unsigned seed) : random_(seed), coordinator_(), arena_(kBytes) {
    for (int32_t replica = 0; replica < 2; ++replica) Join(replica);
    for (void* job : jobs_) {
      EXPECT_EQ(ftarJobWaitReady(static_cast<ftarJob_t>(job), kLongNs), FTAR_OK);
      OpenGroup(static_cast<ftarJob_t>(job));
    }
  }

  void Call() {
    const size_t choice = Below(calls_.size());
    const auto begin = std::chrono::steady_clock::now();
    const ftarResult_t result = calls_[choice]();
    const auto spent = std::chrono::steady_clock::now() - begin;
    EXPECT_LT(spent, std::chrono::seconds(10)) << "call " << choice;
    EXPECT_STRNE(ftarResultString(result), "unknown result") << "call " << choice;
    EXPECT_NE(result, FTAR_ERR_INTERNAL) << "call " << choice << ": " << LastError().text;
  }

  // Everything that is alive must be able to end, whatever has been done to it.
  void End() {
    for (void* job : jobs_) {
      const ftarResult_t result = ftarJobDestroy(static_cast<ftarJob_t>(job));
      EXPECT_TRUE(result == FTAR_OK || result == FTAR_ERR_HANDLE) << result;
    }
    for (void* op : ops_) {
      ftarOutcome outcome = FTAR_OUTCOME_INIT;
      const ftarResult_t result = ftarOpWait(static_cast<ftarOp_t>(op), kLongNs, &outcome);
      EXPECT_NE(result, FTAR_TIMEOUT) << "its job is gone";
      EXPECT_NE(result, FTAR_IN_PROGRESS);
      ftarOpRelease(static_cast<ftarOp_t>(op));
    }
    for (void* group : groups_) ftarGroupClose(static_cast<ftarGroup_t>(group));
    for (void* view : views_) ftarViewRelease(static_cast<ftarView_t>(view));
    for (void* config : configs_) ftarConfigDestroy(static_cast<ftarConfig_t>(config));
    for (void* mem : mems_) ftarMemDeregister(static_cast<ftarMem_t>(mem));
  }

 private:
  using Handles = std::vector<void*>;  // alive or given back: nobody cleans up

  size_t Below(size_t end) { return std::uniform_int_distribution<size_t>(0, end - 1)(random_); }
  bool OneIn(size_t n) { return Below(n) == 0; }

  template <typename T>
  T Pick(const Handles& own) {
    if (OneIn(20)) return nullptr;
    const std::array<const Handles*, 6> all = {&jobs_, &groups_, &ops_, &views_, &configs_, &mems_};
    const Handles& from = OneIn(20) ? *all[Below(all.size())] : own;
    return from.empty() ? nullptr : static_cast<T>(from[from.size() - 1 - Below(from.size())]);
  }
  template <typename T>
  ftarResult_t Keep(Handles* handles, const std::function<ftarResult_t(T*)>& make) {
    if (jobs_.size() >= 2 && OneIn(30)) return make(nullptr);
    T made = nullptr;
    const ftarResult_t result = make(&made);
    if (made != nullptr) handles->push_back(made);
    return result;
  }
  int64_t Wait() { return OneIn(3) ? 0 : static_cast<int64_t>(Below(3'000'000)); }
  // Never more than there is: the library looks whether what it does not know is 0.
  size_t Size(size_t known) { return OneIn(10) ? Below(known) : known; }
  void* At() { return OneIn(20) ? nullptr : arena_.data() + Below(kBytes / 2); }
  uint64_t Count() { return OneIn(20) ? UINT64_MAX / (1 + Below(9)) : Below(2000); }
  int32_t Small() { return static_cast<int32_t>(Below(14)) - 1; }
  const char* Text() {
    static constexpr const char* kTexts[] = {
        "", "default", "timeout", "1s", "plan", "direct", "no such thing", "links_opened", nullptr};
    return kTexts[Below(std::size(kTexts))];
  }

  ftarResult_t Join(int32_t replica) {
    ftarJobConfig config = FTAR_JOB_CONFIG_INIT;
    config.size = jobs_.size() >= 2 ? Size(sizeof config) : sizeof config;
    config.replica = replica;
    config.replicas = 2;
    config.coordinator = coordinator_.address().c_str();
    config.timeout_ns = 2 * kSecondNs;
    config.flags = FTAR_JOB_NONBLOCKING;
    return Keep<ftarJob_t>(&jobs_, [&](ftarJob_t* job) { return ftarJobJoin(&config, job); });
  }
  ftarResult_t Rejoin() {
    return jobs_.size() > 6 ? FTAR_OK : Join(static_cast<int32_t>(Below(3)));
  }
  ftarResult_t OpenGroup(ftarJob_t job) {
    return Keep<ftarGroup_t>(
        &groups_, [&](ftarGroup_t* group) { return ftarGroupOpen(job, nullptr, group); });
  }
  ftarResult_t OpenNamedGroup() {
    ftarGroupConfig config = FTAR_GROUP_CONFIG_INIT;
    config.size = Size(sizeof config);
    config.name = Text();
    config.window = Small();
    return Keep<ftarGroup_t>(&groups_, [&](ftarGroup_t* group) {
      return ftarGroupOpen(Pick<ftarJob_t>(jobs_), &config, group);
    });
  }
  ftarOpDesc Descriptor() {
    ftarOpDesc desc = FTAR_OP_DESC_INIT;
    desc.size = Size(sizeof desc);
    desc.kind = static_cast<int32_t>(Below(6));
    desc.dtype = Small();
    desc.redop = static_cast<int32_t>(Below(7));
    desc.send = At();
    desc.recv = OneIn(2) ? const_cast<void*>(desc.send) : At();
    desc.count = Count();
    desc.root = Small();
    desc.weight = OneIn(3) ? 0 : OneIn(5) ? -1 : 2;
    desc.scale = OneIn(9) ? NAN : 1;
    desc.plan = OneIn(3) ? Text() : nullptr;
    desc.timeout_ns = OneIn(3) ? Wait() : 0;
    return desc;
  }
  ftarResult_t Start() {
    const ftarOpDesc desc = Descriptor();
    return Keep<ftarOp_t>(&ops_, [&](ftarOp_t* op) {
      return ftarOpStart(Pick<ftarGroup_t>(groups_), OneIn(30) ? nullptr : &desc, op);
    });
  }
  ftarResult_t StartMany() {
    std::array<ftarOpDesc, 4> descs = {Descriptor(), Descriptor(), Descriptor(), Descriptor()};
    std::array<ftarOp_t, 4> ops{};
    const ftarResult_t result = ftarOpStartMany(Pick<ftarGroup_t>(groups_), descs.data(),
                                                Size(sizeof descs[0]), Below(5), ops.data());
    for (ftarOp_t op : ops) {
      if (op != nullptr) ops_.push_back(op);
    }
    return result;
  }
  // What all members of a group call alike gets through, unless somebody's call differs.
  ftarResult_t StartGood() {
    return Keep<ftarOp_t>(&ops_, [&](ftarOp_t* op) {
      return ftarAllReduce(arena_.data() + 1024 * Below(16), arena_.data() + kBytes / 2, 10,
                           FTAR_F32, FTAR_SUM, Pick<ftarGroup_t>(groups_), op);
    });
  }
  ftarResult_t WaitOp() {
    ftarOutcome outcome = FTAR_OUTCOME_INIT;
    outcome.size = Size(sizeof outcome);
    return ftarOpWait(Pick<ftarOp_t>(ops_), Wait(), OneIn(4) ? nullptr : &outcome);
  }
  ftarResult_t Participants() {
    std::array<ftarMemberInfo, 3> members;
    size_t n = 0;
    return ftarOpParticipants(Pick<ftarOp_t>(ops_), members.data(), sizeof members[0], Below(4),
                              OneIn(9) ? nullptr : &n);
  }
  ftarResult_t Evict() {
    ftarId id{Below(2), Below(2)};
    return ftarJobEvict(Pick<ftarJob_t>(jobs_), id, Text());
  }
  ftarResult_t NextEvent() {
    ftarEvent event = FTAR_EVENT_INIT;
    event.size = Size(sizeof event);
    return ftarJobNextEvent(Pick<ftarJob_t>(jobs_), OneIn(9) ? nullptr : &event, Wait());
  }
  ftarResult_t ViewMember() {
    ftarMemberInfo info = FTAR_MEMBER_INFO_INIT;
    info.size = Size(sizeof info);
    return ftarViewGetMember(Pick<ftarView_t>(views_), Small(), &info);
  }
  ftarResult_t GetView() {
    return Keep<ftarView_t>(&views_, [&](ftarView_t* view) {
      return OneIn(2) ? ftarJobGetView(Pick<ftarJob_t>(jobs_), view)
                      : ftarGroupGetView(Pick<ftarGroup_t>(groups_), view);
    });
  }
  ftarResult_t Seldom(size_t n, const std::function<ftarResult_t()>& call) {
    return OneIn(n) ? call() : FTAR_OK;
  }

  std::mt19937 random_;
  Coordinator coordinator_;
  std::vector<char> arena_;
  Handles jobs_, groups_, ops_, views_, configs_, mems_;
  void* memory_ = nullptr;
  const std::vector<std::function<ftarResult_t()>> calls_ = {
      [this] { return StartGood(); },
      [this] { return StartGood(); },
      [this] { return Start(); },
      [this] { return StartMany(); },
      [this] { return WaitOp(); },
      [this] { return WaitOp(); },
      [this] { return ftarOpTest(Pick<ftarOp_t>(ops_), nullptr); },
      [this] { return ftarOpRelease(Pick<ftarOp_t>(ops_)); },
      [this] { return Participants(); },
      [this] { return OpenNamedGroup(); },
      [this] { return Seldom(4, [this] { return ftarGroupClose(Pick<ftarGroup_t>(groups_)); }); },
      [this] {
        ftarGroupInfo info = FTAR_GROUP_INFO_INIT;
        return ftarGroupGetInfo(Pick<ftarGroup_t>(groups_), OneIn(9) ? nullptr : &info);
      },
      [this] {
        ftarOutcome outcome = FTAR_OUTCOME_INIT;
        return ftarGroupOutcome(Pick<ftarGroup_t>(groups_), Below(40), &outcome);
      },
      [this] { return ftarBarrier(Pick<ftarGroup_t>(groups_), nullptr); },
      [this] { return GetView(); },
      [this] { return ViewMember(); },
      [this] { return ftarViewRelease(Pick<ftarView_t>(views_)); },
      [this] { return NextEvent(); },
      [this] { return ftarJobWaitReady(Pick<ftarJob_t>(jobs_), Wait()); },
      [this] {
        uint64_t value = 0;
        return ftarJobGetCounter(Pick<ftarJob_t>(jobs_), Text(), OneIn(9) ? nullptr : &value);
      },
      [this] { return ftarJobDump(Pick<ftarJob_t>(jobs_), "/dev/null"); },
      // No ftarStepBegin: it may wait for others, and nobody else calls here.
      [this] { return Seldom(5, [this] { return Evict(); }); },
      [this] { return Seldom(20, [this] { return Rejoin(); }); },
      [this] {
        return Seldom(40, [this] { return ftarJobLeave(Pick<ftarJob_t>(jobs_), Wait()); });
      },
      [this] {
        return Seldom(60, [this] { return ftarJobAbort(Pick<ftarJob_t>(jobs_), Text()); });
      },
      [this] {
        return Seldom(60, [this] {
          return ftarJobReport(Pick<ftarJob_t>(jobs_), OneIn(2) ? FTAR_OK : FTAR_ERR_DEVICE,
                               Text());
        });
      },
      [this] { return Seldom(60, [this] { return ftarJobDestroy(Pick<ftarJob_t>(jobs_)); }); },
      [this] {
        return Keep<ftarConfig_t>(&configs_, [](ftarConfig_t* c) { return ftarConfigCreate(c); });
      },
      [this] { return ftarConfigSet(Pick<ftarConfig_t>(configs_), Text(), Text()); },
      [this] { return ftarConfigDestroy(Pick<ftarConfig_t>(configs_)); },
      [this] {
        return ftarMemAlloc(Pick<ftarJob_t>(jobs_), Below(10000), nullptr,
                            OneIn(9) ? nullptr : &memory_);
      },
      [this] {
        return ftarMemFree(Pick<ftarJob_t>(jobs_),
                           OneIn(4) ? At() : std::exchange(memory_, nullptr));
      },
      [this] {
        return Keep<ftarMem_t>(&mems_, [&](ftarMem_t* mem) {
          return ftarMemRegister(Pick<ftarJob_t>(jobs_), At(), Below(1000), nullptr, mem);
        });
      },
      [this] { return ftarMemDeregister(Pick<ftarMem_t>(mems_)); },
  };
};

class Sequence : public testing::TestWithParam<unsigned> {};

TEST_P(Sequence, NothingBreaks) {
  // A bystander: a job of its own in the same process.
  ftarJobConfig alone = FTAR_JOB_CONFIG_INIT;
  ftarJob_t job = nullptr;
  ftarGroup_t group = nullptr;
  ASSERT_EQ(ftarJobJoin(&alone, &job), FTAR_OK) << LastError().text;
  ASSERT_EQ(ftarGroupOpen(job, nullptr, &group), FTAR_OK);
  Abuser abuser(GetParam());
  for (int call = 0; call < kCalls && !HasFailure(); ++call) {
    abuser.Call();
    if (call % 50 != 0) continue;
    float data[4] = {1, 2, 3, 4};
    ftarOp_t op = nullptr;
    ASSERT_EQ(ftarAllReduce(data, data, 4, FTAR_F32, FTAR_SUM, group, &op), FTAR_OK);
    EXPECT_EQ(ftarOpWait(op, kLongNs, nullptr), FTAR_OK) << LastError().text;
    EXPECT_EQ(ftarOpRelease(op), FTAR_OK);
    EXPECT_EQ(data[3], 4);
  }
  abuser.End();
  EXPECT_EQ(ftarGroupClose(group), FTAR_OK);
  EXPECT_EQ(ftarJobDestroy(job), FTAR_OK);
}

INSTANTIATE_TEST_SUITE_P(Seeds, Sequence, testing::Range(1u, 25u));

}  // namespace
}  // namespace process
