// Small operations in one pass through shared memory (docs/protocol.md 10): two members of one job
// in this process, each with a thread that calls one after the other.
#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "ftar/ftar.h"
#include "tests/process/api/jobs.h"
#include "tests/process/harness.h"

namespace process {
namespace {

class Fast : public testing::Test {
 protected:
  struct Member {
    ftarJob_t job = nullptr;
    ftarGroup_t group = nullptr;
    std::vector<float> send, recv;
    int number = 0;

    ftarResult_t Call(const ftarOpDesc& desc) {
      ftarOp_t op = nullptr;
      const ftarResult_t started = ftarOpStart(group, &desc, &op);
      if (started != FTAR_OK) return started;
      const ftarResult_t ended = ftarOpWait(op, kLongNs, nullptr);
      ftarOpRelease(op);
      return ended;
    }
    ftarOpDesc Sum(size_t count, bool in_place) {
      ftarOpDesc desc = FTAR_OP_DESC_INIT;
      send.assign(count, static_cast<float>(number + 1));
      recv.assign(count, -1);
      desc.recv = in_place ? send.data() : recv.data();
      desc.send = send.data();
      desc.count = count;
      return desc;
    }
    const std::vector<float>& ResultOf(const ftarOpDesc& desc) const {
      return desc.recv == desc.send ? send : recv;
    }
    bool HasOutcome(uint64_t seq) const {
      ftarOutcome outcome = FTAR_OUTCOME_INIT;
      return ftarGroupOutcome(group, seq, &outcome) == FTAR_OK;
    }
    uint64_t Counter(const char* name) const {
      uint64_t value = 0;
      EXPECT_EQ(ftarJobGetCounter(job, name, &value), FTAR_OK);
      return value;
    }
  };

  void SetUp() override {
    for (int i = 0; i < 2; ++i) {
      ftarJobConfig config = FTAR_JOB_CONFIG_INIT;
      config.replica = members_[i].number = i;
      config.replicas = 2;
      config.coordinator = coordinator_.address().c_str();
      config.flags = FTAR_JOB_NONBLOCKING;
      ASSERT_EQ(Join(config, Settings(), &members_[i].job), FTAR_IN_PROGRESS) << LastError().text;
    }
    for (Member& member : members_) {
      ASSERT_EQ(ftarJobWaitReady(member.job, kLongNs), FTAR_OK) << LastError().text;
      ASSERT_EQ(ftarGroupOpen(member.job, nullptr, &member.group), FTAR_OK) << LastError().text;
    }
  }
  void TearDown() override {
    for (Member& member : members_) {
      ftarGroupClose(member.group);
      ftarJobDestroy(member.job);
    }
  }
  virtual Knobs Settings() const { return {}; }
  template <typename Body>
  void BothRun(Body body) {
    std::thread other([&] { body(members_[1]); });
    body(members_[0]);
    other.join();
  }

  Coordinator coordinator_;
  std::array<Member, 2> members_;
};

TEST_F(Fast, SumsOfAnySizeInPlaceAndNot) {
  // Until some have gone that way, which threads that are not scheduled together may never do.
  for (int round = 0; round < 50 && members_[0].Counter("fast") == 0; ++round) {
    BothRun([](Member& member) {
      for (size_t i = 0; i < 400; ++i) {
        const ftarOpDesc desc = member.Sum(i * 7 % 3000, i % 2 == 0);
        ASSERT_EQ(member.Call(desc), FTAR_OK) << LastError().text;
        ASSERT_EQ(member.ResultOf(desc), std::vector<float>(desc.count, 3)) << "operation " << i;
      }
    });
  }
  EXPECT_GT(members_[0].Counter("fast") + members_[1].Counter("fast"), 0u);
}

// Some of them through the lane in pieces, some by frames, as it happens.
TEST_F(Fast, LongSumsInPlaceAndNot) {
  for (int round = 0; round < 20; ++round) {
    BothRun([](Member& member) {
      for (size_t i = 0; i < 60; ++i) {
        const ftarOpDesc desc = member.Sum(i % 5 == 4 ? i : 4001 + i * 4099, i % 3 == 0);
        for (size_t k = 0; k < desc.count; ++k) member.send[k] += static_cast<float>(k % 1000);
        ASSERT_EQ(member.Call(desc), FTAR_OK) << LastError().text;
        const std::vector<float>& sum = member.ResultOf(desc);
        for (size_t k = 0; k < desc.count; ++k)
          ASSERT_EQ(sum[k], static_cast<float>(3 + 2 * (k % 1000))) << "operation " << i;
      }
    });
  }
  EXPECT_GT(members_[0].Counter("fast") + members_[1].Counter("fast"), 0u);
}

// Bytes of the members' lanes.
uint64_t LaneBytes() {
  uint64_t bytes = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    struct stat info = {};
    const std::string name = std::filesystem::read_symlink(entry.path(), gone).string();
    if (name.find("memfd:ftar-lane") != std::string::npos && stat(entry.path().c_str(), &info) == 0)
      bytes += static_cast<uint64_t>(info.st_blocks) * 512;
  }
  return bytes;
}

// 4 MiB for each group and member were taken for areas that no operation would ever use.
TEST_F(Fast, WhatIsNotSharedTakesNoMemoryForThat) {
  const auto run = [this](const char* plan) {
    const uint64_t before = LaneBytes();
    BothRun([plan](Member& member) {
      for (int i = 0; i < 100; ++i) {
        ftarOpDesc desc = member.Sum(10'000, i % 2 == 0);
        desc.plan = plan;
        ASSERT_EQ(member.Call(desc), FTAR_OK) << LastError().text;
        ASSERT_EQ(member.ResultOf(desc), std::vector<float>(desc.count, 3)) << "operation " << i;
      }
    });
    return LaneBytes() - before;
  };
  EXPECT_EQ(run("ring"), 0u);
  EXPECT_EQ(run("oneshot"), 0u);
  EXPECT_GE(run("direct"), 4u << 20);
}

TEST_F(Fast, WeightsOperatorsAndBarriers) {
  BothRun([](Member& member) {
    for (int i = 0; i < 600; ++i) {
      ftarOpDesc desc = member.Sum(16, i % 3 == 0);
      float wanted = 3;
      if (i % 5 == 1) desc.redop = FTAR_AVG, wanted = 1.5f;
      if (i % 5 == 2) desc.redop = FTAR_MAX, wanted = 2;
      if (i % 5 == 3)
        desc.redop = FTAR_WAVG, desc.weight = member.number == 0 ? 3 : 1, wanted = 1.25f;
      if (i % 5 == 4) desc.weight = member.number, wanted = 2;  // member 0 does not take part
      ASSERT_EQ(member.Call(desc), FTAR_OK) << LastError().text;
      ASSERT_EQ(member.ResultOf(desc), std::vector<float>(16, wanted)) << "operation " << i;
      ftarOpDesc barrier = FTAR_OP_DESC_INIT;
      barrier.kind = FTAR_BARRIER;
      ASSERT_EQ(member.Call(barrier), FTAR_OK) << LastError().text;
    }
  });
}

// What is called again as it was (api/again.h), by the fast path and where there is none.
class Again : public Fast, public testing::WithParamInterface<const char*> {
  Knobs Settings() const override { return {{"transport", GetParam()}}; }
};

INSTANTIATE_TEST_SUITE_P(Transports, Again, testing::Values("shm", "tcp"),
                         [](const auto& info) { return std::string(info.param); });

// Other buffers, other bits, other places.
TEST_P(Again, TheSameCallAgainAndAgain) {
  for (int round = 0; round < 50 && members_[0].Counter("again") == 0; ++round) {
    BothRun([round](Member& member) {
      std::array<std::array<float, 24>, 8> places;
      ftarOpDesc desc = FTAR_OP_DESC_INIT;
      desc.count = 11;
      uint64_t seq = 0;
      for (int i = 0; i < 2000; ++i) {
        auto& place = places[static_cast<size_t>(i) % places.size()];
        const auto value = static_cast<float>(i % 100 + member.number + round);
        for (size_t k = 0; k < 11; ++k) place[k] = value + static_cast<float>(k);
        desc.send = place.data();
        desc.recv = i % 3 == 0 ? place.data() : place.data() + 12;
        ftarOp_t op = nullptr;
        ftarOutcome outcome = FTAR_OUTCOME_INIT;
        ASSERT_EQ(ftarOpStart(member.group, &desc, &op), FTAR_OK) << LastError().text;
        ASSERT_EQ(ftarOpWait(op, kLongNs, &outcome), FTAR_OK) << LastError().text;
        ftarOpRelease(op);
        const auto* sum = static_cast<const float*>(desc.recv);
        for (size_t k = 0; k < 11; ++k)
          ASSERT_EQ(sum[k], static_cast<float>(2 * (i % 100 + round + static_cast<int>(k)) + 1));
        if (i > 0) {
          ASSERT_EQ(outcome.seq, seq + 1);
        }
        seq = outcome.seq;
        ASSERT_EQ(outcome.participants, 2);
        ASSERT_EQ(outcome.weight_sum, 2);
        ASSERT_GE(outcome.complete_ns, outcome.start_ns);
        ASSERT_GE(outcome.delivered_ns, outcome.complete_ns);
        ftarOutcome later = FTAR_OUTCOME_INIT;
        ASSERT_EQ(ftarGroupOutcome(member.group, seq, &later), FTAR_OK);
        ASSERT_EQ(later.start_ns, outcome.start_ns);
        ASSERT_EQ(later.delivered_ns, outcome.delivered_ns);
      }
    });
  }
  EXPECT_GT(members_[0].Counter("again") + members_[1].Counter("again"), 0u);
}

// Where nothing else is called in between the next one is not looked at again; a step with another
// weight and other places in memory are seen all the same.
TEST_P(Again, TheSameCallWithLittleInBetween) {
  BothRun([](Member& member) {
    std::array<float, 4> send, recv;
    ftarOpDesc desc = FTAR_OP_DESC_INIT;
    desc.redop = FTAR_WAVG;
    desc.count = send.size();
    float weight = 1;  // of member 0; the other's is 1
    for (int i = 0; i < 4000; ++i) {
      if (i % 400 == 320) {
        weight = weight == 1 ? 3 : 1;
        ftarStepConfig step = FTAR_STEP_CONFIG_INIT;
        step.weight = member.number == 0 ? weight : 1;
        ASSERT_EQ(ftarStepBegin(member.job, &step, nullptr), FTAR_OK) << LastError().text;
      }
      const auto own = [i](int number) { return static_cast<float>(4 * (i % 64) + 8 * number); };
      const bool in_place = i / 50 % 2 == 1;
      send.fill(own(member.number));
      recv.fill(-1);
      desc.send = send.data();
      desc.recv = in_place ? send.data() : recv.data();
      ASSERT_EQ(member.Call(desc), FTAR_OK) << LastError().text;
      const float wanted = (weight * own(0) + own(1)) / (weight + 1);
      for (const float mean : in_place ? send : recv) ASSERT_EQ(mean, wanted) << "call " << i;
    }
  });
  EXPECT_GT(members_[0].Counter("again") + members_[1].Counter("again"), 0u);
}

// Several threads of a process with the same call in the same group: each gets its own result.
TEST_P(Again, TheSameCallByTwoThreads) {
  BothRun([](Member& member) {
    std::array<std::thread, 2> threads;
    for (std::thread& thread : threads) {
      thread = std::thread([&member] {
        std::array<float, 4> send, recv;
        ftarOpDesc desc = FTAR_OP_DESC_INIT;
        desc.send = send.data();
        desc.recv = recv.data();
        desc.count = send.size();
        for (int i = 0; i < 1000; ++i) {
          send.fill(static_cast<float>(member.number + 1));
          recv.fill(-1);
          ASSERT_EQ(member.Call(desc), FTAR_OK) << LastError().text;
          for (const float sum : recv) ASSERT_EQ(sum, 3);
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
  });
}

// What is called again is called outside of what keeps other calls whole, and memory that others
// have not seen yet is shown to them by a system call.
TEST_P(Again, AThreadThatIsCancelledFinishesWhatItCallsAgain) {
  constexpr size_t kCount = 16 * 1024, kBlocks = 100, kWarm = 200;
  BothRun([](Member& member) {
    ftarOpDesc desc = FTAR_OP_DESC_INIT;
    desc.count = kCount;
    std::vector<float*> blocks;
    for (size_t i = 0; i < kBlocks; ++i) {
      void* block = nullptr;
      ASSERT_EQ(ftarMemAlloc(member.job, 2 * kCount * sizeof(float), nullptr, &block), FTAR_OK);
      blocks.push_back(static_cast<float*>(block));
    }
    for (size_t i = 0; i < kWarm + kBlocks; ++i) {
      if (i == kWarm && member.number == 1) pthread_cancel(pthread_self());
      float* const block = blocks[i < kWarm ? 0 : i - kWarm];
      std::fill_n(block, kCount, static_cast<float>(member.number + 1));
      desc.send = block;
      desc.recv = block + kCount;
      ASSERT_EQ(member.Call(desc), FTAR_OK) << LastError().text;
      ASSERT_EQ(block[2 * kCount - 1], 3);
    }
    int before = 0;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
    for (float* const block : blocks) ASSERT_EQ(ftarMemFree(member.job, block), FTAR_OK);
  });
  EXPECT_GT(members_[1].Counter("again"), 0u);
}

TEST_F(Fast, ADisagreementIsAMismatchForBothAndTheNextOneGoes) {
  BothRun([](Member& member) {
    for (int i = 0; i < 60; ++i) {
      const bool wrong = i % 20 == 10;
      const ftarOpDesc desc = member.Sum(wrong && member.number == 1 ? 9 : 8, true);
      ASSERT_EQ(member.Call(desc), wrong ? FTAR_ERR_MISMATCH : FTAR_OK) << i << LastError().text;
      const float left = wrong ? static_cast<float>(member.number + 1) : 3;
      ASSERT_EQ(member.send[0], left) << "operation " << i;
    }
  });
}

TEST_F(Fast, WhoNeverWaitsIsServedAllTheSame) {
  BothRun([](Member& member) {
    for (uint64_t i = 0; i < 30; ++i) {
      const ftarOpDesc desc = member.Sum(8, true);
      ASSERT_EQ(ftarOpStart(member.group, &desc, nullptr), FTAR_OK) << LastError().text;
      for (int look = 0; look < 100'000 && !member.HasOutcome(i); ++look)
        std::this_thread::yield();
      ASSERT_EQ(member.send[0], 3) << "operation " << i;
    }
  });
}

// Long enough for the progress thread to look after all by itself.
constexpr auto kPause = std::chrono::milliseconds(10);

// A training step computes between its collectives: what comes then is as fast as in a loop.
TEST_F(Fast, AfterAPauseToo) {
  for (int round = 0; round < 20 && members_[0].Counter("fast") == 0; ++round) {
    BothRun([](Member& member) {
      for (size_t i = 0; i < 20; ++i) {
        std::this_thread::sleep_for(kPause);
        const ftarOpDesc desc = member.Sum(i % 4 == 3 ? 50'000 : 8, i % 2 == 0);
        ASSERT_EQ(member.Call(desc), FTAR_OK) << LastError().text;
        ASSERT_EQ(member.ResultOf(desc), std::vector<float>(desc.count, 3)) << "operation " << i;
      }
    });
  }
  EXPECT_GT(members_[0].Counter("fast") + members_[1].Counter("fast"), 0u);
}

// Nothing else wakes a progress thread: no beat is due before a test is over.
class FastWithoutBeats : public Fast {
  Knobs Settings() const override { return {{"timeout", "240s"}, {"heartbeat", "60s"}}; }
};

// Called while its progress thread sleeps, and left to it: one has to hear that the other, who
// comes later by more than it is waited for, has called. No call before the first one keeps anybody
// up.
TEST_F(FastWithoutBeats, AfterAPauseWhoNeverWaitsIsServedAllTheSame) {
  BothRun([](Member& member) {
    for (uint64_t i = 0; i < 24; ++i) {
      const bool late = i % 2 == static_cast<uint64_t>(member.number);
      std::this_thread::sleep_for(late ? 4 * kPause : kPause);
      const ftarOpDesc desc = member.Sum(i % 3 == 2 ? 50'000 : 8, i % 4 < 2);
      ASSERT_EQ(ftarOpStart(member.group, &desc, nullptr), FTAR_OK) << LastError().text;
      for (int look = 0; look < 10'000 && !member.HasOutcome(i); ++look)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      ASSERT_EQ(member.ResultOf(desc), std::vector<float>(desc.count, 3)) << "operation " << i;
    }
  });
}

}  // namespace
}  // namespace process
