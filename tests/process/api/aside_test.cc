// Long sums in place, which wait in the library's memory until all is done (docs/protocol.md 10,
// Sums aside): that they do, and that another call may come before that, with memory and without,
// upon which they are saved and land. There one thread drives both members, so that they go step by
// step. And what is saved of short ones: nothing of an operation that did not write anything.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "ftar/ftar.h"
#include "tests/process/api/jobs.h"
#include "tests/process/harness.h"

namespace process {
namespace {

// The first is saved in a smaller block of the library's, and both wait in the same one.
constexpr size_t kFirst = 400'000, kLong = 900'000;

class Aside : public testing::Test {
 protected:
  struct Member {
    ftarJob_t job = nullptr;
    ftarGroup_t group = nullptr;
    ftarOp_t op = nullptr;
    float* data = nullptr;
    float own = 0;

    void Start(size_t count) {
      ftarOpDesc desc = FTAR_OP_DESC_INIT;
      desc.send = desc.recv = data;
      desc.count = count;
      started = ftarOpStart(group, &desc, &op);
    }
    ftarResult_t Look() const {
      return started == FTAR_OK ? ftarOpTest(op, nullptr) : started;
    }
    // Then the result is there, or the input.
    bool HoldsAll(ftarResult_t result, size_t count, float sum) const {
      const float expected = result == FTAR_OK ? sum : own;
      return std::count(data, data + count, expected) == static_cast<int64_t>(count);
    }
    ftarResult_t started = FTAR_OK;
  };

  // `blocks`: so many of the library's own the first member gets; negative: all that it wants.
  void Open(int blocks, int replicas = 2) {
    members_.resize(replicas);
    for (int i = 0; i < replicas; ++i) {
      ftarJobConfig config = FTAR_JOB_CONFIG_INIT;
      config.replica = i;
      config.replicas = replicas;
      config.coordinator = coordinator_.address().c_str();
      config.timeout_ns = 2 * kSecondNs;
      config.flags = FTAR_JOB_NONBLOCKING;
      if (i == 0 && blocks >= 0) setenv("FTAR_TEST_MALLOC", std::to_string(blocks).c_str(), 1);
      ASSERT_EQ(Join(config, {}, &members_[i].job), FTAR_IN_PROGRESS) << LastError().text;
      unsetenv("FTAR_TEST_MALLOC");
      members_[i].own = static_cast<float>(i + 1);
    }
    for (Member& member : members_) {
      ASSERT_EQ(ftarJobWaitReady(member.job, kLongNs), FTAR_OK) << LastError().text;
      ASSERT_EQ(ftarGroupOpen(member.job, nullptr, &member.group), FTAR_OK) << LastError().text;
      void* data = nullptr;
      ASSERT_EQ(ftarMemAlloc(member.job, kLong * sizeof(float), nullptr, &data), FTAR_OK);
      member.data = static_cast<float*>(data);
    }
  }
  void Close() {
    for (Member& member : members_) {
      ftarOpRelease(member.op);
      ftarGroupClose(member.group);
      ftarMemFree(member.job, member.data);
      ftarJobDestroy(member.job);
      member = {};
    }
  }

  // Right after each other, so that both are on the fast path, where the first finds the other.
  void StartBoth(size_t count) {
    for (const Member& member : members_) std::fill_n(member.data, count, member.own);
    members_[1].Start(count);
    members_[0].Start(count);
  }
  // Both to the end. False: one has failed.
  bool Finish() {
    for (const int turn : {0, 1, 0}) {
      const Member& member = members_[turn];
      if (member.started == FTAR_OK) ftarOpWait(member.op, kLongNs, nullptr);
    }
    return members_[0].Look() == FTAR_OK && members_[1].Look() == FTAR_OK;
  }
  void StartAll(size_t count) {
    for (Member& member : members_) {
      std::fill_n(member.data, count, member.own);
      member.Start(count);
    }
  }
  // The first failure.
  ftarResult_t WaitAll() {
    ftarResult_t first = FTAR_OK;
    for (Member& member : members_) {
      ftarResult_t result = member.started;
      if (result == FTAR_OK) result = ftarOpWait(member.op, kLongNs, nullptr);
      if (first == FTAR_OK) first = result;
      ftarOpRelease(std::exchange(member.op, nullptr));
    }
    return first;
  }
  ftarResult_t CallAll(size_t count) {
    StartAll(count);
    return WaitAll();
  }
  // As everybody who lives has seen.
  void AwaitLinkDown() const {
    for (const Member& member : members_) {
      ftarEvent event = FTAR_EVENT_INIT;
      do {
        ASSERT_EQ(ftarJobNextEvent(member.job, &event, kLongNs), FTAR_OK);
      } while (event.type != FTAR_EVENT_LINK_DOWN);
    }
  }
  // Until all have mapped what is theirs. False: no memory.
  bool WarmUp() {
    for (int i = 0; i < 12; ++i) {
      StartBoth(kFirst);
      if (!Finish()) return false;
      for (Member& member : members_) ftarOpRelease(std::exchange(member.op, nullptr));
    }
    return true;
  }
  // Both are called, and the first member looks at its operation so often (its first look is the
  // last one on the fast path); then the other looks; and then both make another call.
  // What is to be seen of it.
  ftarResult_t Disturb(int looks, const std::string& where) {
    ftarOp_t other[2] = {};
    float small[2] = {1, 2};
    std::this_thread::sleep_for(std::chrono::milliseconds(10));  // no progress thread is up
    StartBoth(kLong);
    for (int i = 0; i < looks; ++i) members_[0].Look();
    for (int i = 0; i < 100; ++i) members_[1].Look();
    for (int i = 0; i < 2; ++i) {
      ftarOpDesc desc = FTAR_OP_DESC_INIT;
      desc.send = desc.recv = &small[i];
      desc.count = 1;
      if (ftarOpStart(members_[i].group, &desc, &other[i]) != FTAR_OK) other[i] = nullptr;
    }
    Finish();
    for (const ftarOp_t op : other) {
      if (op != nullptr) ftarOpWait(op, kLongNs, nullptr);
      ftarOpRelease(op);
    }
    const ftarResult_t result = members_[0].Look();
    why_ = result == FTAR_OK ? "" : LastError().text;
    EXPECT_TRUE(members_[0].HoldsAll(result, kLong, 3)) << where << ftarResultString(result);
    EXPECT_EQ(members_[1].Look(), FTAR_OK) << where;
    // The first one has its part in it, or is out.
    const bool both = members_[1].HoldsAll(FTAR_OK, kLong, 3);
    EXPECT_TRUE(both || (result != FTAR_OK && members_[1].HoldsAll(FTAR_OK, kLong, 2))) << where;
    return result;
  }

  static constexpr int kLooks = 8;
  std::string why_;  // the first member has failed
  Coordinator coordinator_;
  std::vector<Member> members_;
};

// With what is saved it would be 4.5 bytes for each.
TEST_F(Aside, NothingIsSaved) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "with a sanitizer so long a sum takes longer than anybody is waited for";
#endif
  Open(-1);
  constexpr uint64_t kBytes = kFirst * sizeof(float);
  const auto counter = [this](const char* name) {
    uint64_t value = 0;
    EXPECT_EQ(ftarJobGetCounter(members_[0].job, name, &value), FTAR_OK);
    return value;
  };
  const auto call = [](Member& member) {
    std::fill_n(member.data, kFirst, member.own);
    member.Start(kFirst);
    EXPECT_EQ(member.started, FTAR_OK);
    EXPECT_EQ(ftarOpWait(member.op, kLongNs, nullptr), FTAR_OK);
    EXPECT_TRUE(member.HoldsAll(FTAR_OK, kFirst, 3));
    ftarOpRelease(std::exchange(member.op, nullptr));
  };
  // The first ones are saved still, and some leave the fast path.
  uint64_t least = ~uint64_t{0};
  for (int round = 0; round < 500 && least > 7 * kBytes / 2; ++round) {
    const uint64_t fast = counter("fast"), before = counter("bytes_moved");
    std::thread other([&] { call(members_[1]); });
    call(members_[0]);
    other.join();
    if (counter("fast") > fast) least = std::min(least, counter("bytes_moved") - before);
  }
  EXPECT_EQ(least, 7 * kBytes / 2);
  Close();
}

TEST_F(Aside, AnotherCallMayComeAtAnyLook) {
  for (int looks = 0; looks < kLooks; ++looks) {
    Open(-1);
    ASSERT_TRUE(WarmUp());
    const std::string where = "after " + std::to_string(looks) + " looks ";
    EXPECT_EQ(Disturb(looks, where), FTAR_OK) << where;
    Close();
  }
}

// Whoever leaves the fast path has to save what was made, and cannot.
TEST_F(Aside, AndThereMayBeNoMemoryThen) {
  int failed = 0;
  for (int blocks = 1; blocks < 6 && failed == 0; ++blocks) {
    for (int looks = 0; looks < kLooks; ++looks) {
      Open(blocks);
      const bool warm = WarmUp();
      const std::string where =
          std::to_string(blocks) + " blocks, after " + std::to_string(looks) + " looks ";
      // Not for want of staging as off the fast path, which names its bytes.
      if (warm && Disturb(looks, where) != FTAR_OK && why_ == "no memory left") ++failed;
      Close();
    }
  }
  EXPECT_GT(failed, 0) << "there was memory each time";
}

// Where the coordinator stands still nobody hears of a view without the one that has died, whose
// input is still shown. Whether that is met depends on who looks first, hence three jobs.
TEST_F(Aside, NothingIsSavedOfWhatWasNotBegun) {
  constexpr size_t kShort = 100'000;
  for (int job = 0; job < 3; ++job) {
    Open(-1, 3);
    for (int i = 0; i < 20; ++i) ASSERT_EQ(CallAll(kShort), FTAR_OK) << LastError().text;
    coordinator_.process().Signal(SIGSTOP);
    Member& dead = members_.back();
    std::fill_n(dead.data, kShort, dead.own);
    dead.Start(kShort);
    ftarJobAbort(dead.job, "its turn to go");
    ftarOpRelease(dead.op);
    ftarGroupClose(dead.group);
    ftarJobDestroy(dead.job);
    members_.pop_back();
    ASSERT_NO_FATAL_FAILURE(AwaitLinkDown());
    StartAll(kShort);
    for (int looks = 0; looks < 100; ++looks) {
      for (const Member& member : members_) member.Look();
    }
    coordinator_.process().Signal(SIGCONT);
    EXPECT_EQ(WaitAll(), FTAR_OK) << LastError().text;
    for (int i = 0; i < 20; ++i) EXPECT_EQ(CallAll(2 * kShort), FTAR_OK) << LastError().text;
    Close();
  }
}

}  // namespace
}  // namespace process
