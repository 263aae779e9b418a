// Calls that are like the last one of their group (api/again.h), over a scripted runtime.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstring>
#include <functional>

#include "ftar/ftar.h"
#include "tests/unit/api/fake_job.h"

namespace ftar {
namespace {

using runtime::World;

class Again : public testing::Test {
 protected:
  void SetUp() override {
    runtime::ResetWorld();
    World().again = true;
    ASSERT_EQ(ftarJobJoin(nullptr, &job_), FTAR_OK);
    ASSERT_EQ(ftarGroupOpen(job_, nullptr, &group_), FTAR_OK);
    desc_.send = one_.data();
    desc_.recv = two_.data();
    desc_.count = one_.size();
  }
  void TearDown() override {
    ftarGroupClose(group_);
    ftarJobDestroy(job_);
  }
  ftarOp_t Start() {
    ftarOp_t op = nullptr;
    EXPECT_EQ(ftarOpStart(group_, &desc_, &op), FTAR_OK);
    return op;
  }
  // Started, waited for and released: the next one like it may use its memory again.
  ftarOp_t Run() {
    const ftarOp_t op = Start();
    ftarOutcome outcome = FTAR_OUTCOME_INIT;
    EXPECT_EQ(ftarOpWait(op, -1, &outcome), FTAR_OK);
    EXPECT_EQ(ftarOpRelease(op), FTAR_OK);
    return op;
  }
  // How many of the calls in `body` were made again.
  static size_t MadeAgain(const std::function<void()>& body) {
    const size_t before = World().again_with.size();
    body();
    return World().again_with.size() - before;
  }

  ftarJob_t job_ = nullptr;
  ftarGroup_t group_ = nullptr;
  std::array<float, 16> one_{}, two_{};
  ftarOpDesc desc_ = FTAR_OP_DESC_INIT;
};

TEST_F(Again, TheSecondCallIsWithItsOwnBuffersAndTag) {
  Run();
  ASSERT_EQ(World().requests.size(), 1u);
  desc_.send = desc_.recv = two_.data();
  desc_.tag = 7;
  EXPECT_EQ(MadeAgain([this] { Run(); }), 1u);
  EXPECT_EQ(World().requests.size(), 1u);
  EXPECT_EQ(World().again_with.back().send, two_.data());
  EXPECT_EQ(World().again_with.back().recv, two_.data());
  EXPECT_EQ(World().again_with.back().tag, 7u);
}

// Of outcomes that are alike only the moment is told anew.
TEST_F(Again, EachHasItsOwnOutcome) {
  World().ops_done = true;
  Run();
  const auto run = [this](uint64_t alike, Seq seq, int32_t participants) {
    collective::Outcome& told = World().outcome;
    told.alike = alike;
    told.participants = participants;
    told.Set({seq, 0, TimeNs(seq + 1), TimeNs(seq + 2), TimeNs(seq + 3)});
    const ftarOp_t op = Start();
    ftarOutcome outcome = FTAR_OUTCOME_INIT;
    EXPECT_EQ(ftarOpWait(op, -1, &outcome), FTAR_OK);
    EXPECT_EQ(ftarOpRelease(op), FTAR_OK);
    EXPECT_EQ(outcome.participants, participants);
    EXPECT_EQ(outcome.seq, seq);
    EXPECT_EQ(outcome.start_ns, TimeNs(seq + 1));
    EXPECT_EQ(outcome.complete_ns, TimeNs(seq + 2));
    EXPECT_EQ(outcome.delivered_ns, TimeNs(seq + 3));
  };
  Seq seq = 10;
  for (const int32_t alike : {0, 0, 3, 3, 3, 4, 4, 0, 5}) {
    seq += 10;
    run(static_cast<uint64_t>(alike), seq, alike == 0 ? static_cast<int32_t>(seq) : alike);
  }
}

TEST_F(Again, ABarrierHasNoBuffers) {
  desc_ = FTAR_OP_DESC_INIT;
  desc_.kind = FTAR_BARRIER;
  Run();
  desc_.send = one_.data();  // not looked at
  EXPECT_EQ(MadeAgain([this] { Run(); }), 1u);
  EXPECT_EQ(World().again_with.back().send, nullptr);
}

TEST_F(Again, HandlesAreNewEachTime) {
  const ftarOp_t first = Run();
  const ftarOp_t second = Start();
  EXPECT_NE(first, second);
  EXPECT_EQ(ftarOpWait(first, -1, nullptr), FTAR_ERR_HANDLE);
  EXPECT_EQ(ftarOpRelease(first), FTAR_ERR_HANDLE);
  EXPECT_EQ(ftarOpWait(second, -1, nullptr), FTAR_OK);
  EXPECT_EQ(ftarOpRelease(second), FTAR_OK);
  EXPECT_EQ(ftarOpRelease(second), FTAR_ERR_HANDLE);
}

TEST_F(Again, AnythingElseInTheCallMakesItANewOne) {
  static int user = 0;
  const std::function<void()> changes[] = {
      [this] { desc_.count = 8; },       [this] { desc_.dtype = FTAR_I32; },
      [this] { desc_.redop = FTAR_MAX; }, [this] { desc_.weight = 2; },
      [this] { desc_.scale = 2; },       [this] { desc_.timeout_ns = 5; },
      [this] { desc_.plan = "ring"; },   [this] { desc_.user = &user; },
      [this] {
        desc_.kind = FTAR_BROADCAST;
        desc_.scale = 1;  // of what is only copied there is none
      },
  };
  for (const auto& change : changes) {
    Run();
    change();
    EXPECT_EQ(MadeAgain([this] { Run(); }), 0u);
  }
}

TEST_F(Again, WhatMayChangeMeanwhileIsLookedAtEachTime) {
  const std::function<void()> wants[] = {
      [this] { desc_.plan = "direct"; },
      [this] { desc_.on_done = [](const ftarOutcome*, void*) {}; },
      [this] { desc_.kind = FTAR_BROADCAST; },
  };
  for (const auto& want : wants) {
    want();
    Run();
    EXPECT_EQ(MadeAgain([this] { Run(); }), 0u);
    desc_.plan = nullptr;
    desc_.on_done = nullptr;
  }
}

TEST_F(Again, BadBuffersAreRefusedAsEver) {
  Run();
  desc_.send = nullptr;
  ftarOp_t op = nullptr;
  EXPECT_EQ(ftarOpStart(group_, &desc_, &op), FTAR_ERR_ARG);
  desc_.send = one_.data() + 1;
  desc_.recv = one_.data();
  EXPECT_EQ(ftarOpStart(group_, &desc_, &op), FTAR_ERR_ARG);
  desc_.send = reinterpret_cast<const void*>(4096);
  EXPECT_EQ(ftarOpStart(group_, &desc_, &op), FTAR_ERR_ARG);
  EXPECT_EQ(op, nullptr);
  EXPECT_TRUE(World().again_with.empty());
}

// Written for an older header: its memory ends where its size says.
TEST_F(Again, AShorterDescriptorIsNotReadBeyondItsEnd) {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  void* const memory =
      mmap(nullptr, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  ASSERT_EQ(mprotect(static_cast<char*>(memory) + page, page, PROT_NONE), 0);
  desc_.size = offsetof(ftarOpDesc, tag);
  auto* const at =
      reinterpret_cast<ftarOpDesc*>(static_cast<char*>(memory) + page - desc_.size);
  std::memcpy(static_cast<void*>(at), &desc_, desc_.size);
  for (int i = 0; i < 2; ++i) {
    ftarOp_t op = nullptr;
    ASSERT_EQ(ftarOpStart(group_, at, &op), FTAR_OK);
    EXPECT_EQ(ftarOpRelease(op), FTAR_OK);
  }
  EXPECT_TRUE(World().again_with.empty());
  munmap(memory, 2 * page);
}

TEST_F(Again, WhatCannotBeStartedAgainIsStartedAnew) {
  Run();
  World().again = false;
  Run();
  EXPECT_EQ(World().requests.size(), 2u);
  World().again = true;
  EXPECT_EQ(MadeAgain([this] { Run(); }), 1u);
  World().throw_bad_alloc = true;
  ftarOp_t op = nullptr;
  EXPECT_EQ(ftarOpStart(group_, &desc_, &op), FTAR_ERR_MEMORY);
  EXPECT_EQ(op, nullptr);
  World().throw_bad_alloc = false;
  EXPECT_EQ(MadeAgain([this] { Run(); }), 1u);
}

TEST_F(Again, OneThatIsNotReleasedIsNotUsedAgain) {
  const ftarOp_t first = Start();
  EXPECT_EQ(MadeAgain([this] { ftarOpRelease(Start()); }), 0u);
  EXPECT_EQ(MadeAgain([this] { ftarOpRelease(Start()); }), 1u);
  EXPECT_EQ(ftarOpWait(first, -1, nullptr), FTAR_OK);
  EXPECT_EQ(ftarOpRelease(first), FTAR_OK);
}

TEST_F(Again, OneThatHasNotEndedWellIsNotUsedAgain) {
  World().outcome.status = Code::kMismatch;
  ftarOp_t op = Start();
  EXPECT_EQ(ftarOpWait(op, -1, nullptr), FTAR_ERR_MISMATCH);
  EXPECT_EQ(ftarOpRelease(op), FTAR_OK);
  const size_t started = World().requests.size();
  op = Start();  // the last one's outcome is looked at, and is everybody's in this runtime
  EXPECT_EQ(World().requests.size(), started + 1);
  EXPECT_TRUE(World().again_with.empty());
  EXPECT_EQ(ftarOpWait(op, -1, nullptr), FTAR_ERR_MISMATCH);
  EXPECT_EQ(ftarOpRelease(op), FTAR_OK);
  World().outcome.status = Code::kOk;
  EXPECT_EQ(MadeAgain([this] { Run(); }), 1u);
}

TEST_F(Again, AGroupThatIsClosedTakesNoMore) {
  Run();
  const ftarOp_t op = Start();
  EXPECT_EQ(ftarGroupClose(group_), FTAR_OK);
  EXPECT_EQ(ftarOpWait(op, -1, nullptr), FTAR_OK);
  EXPECT_EQ(ftarOpRelease(op), FTAR_OK);  // the last one that uses the group
  ftarOp_t next = nullptr;
  EXPECT_EQ(ftarOpStart(group_, &desc_, &next), FTAR_ERR_HANDLE);
  ASSERT_EQ(ftarGroupOpen(job_, nullptr, &group_), FTAR_OK);
  EXPECT_EQ(MadeAgain([this] { Run(); }), 0u);
}

TEST_F(Again, ADestroyedJobTakesNoMore) {
  Run();
  EXPECT_EQ(ftarJobDestroy(job_), FTAR_OK);
  job_ = nullptr;
  ftarOp_t op = nullptr;
  EXPECT_EQ(ftarOpStart(group_, &desc_, &op), FTAR_ERR_STATE);
}

TEST_F(Again, CallbacksGoTheLongWay) {
  Run();
  runtime::AsCallback([this] {
    ftarOp_t op = nullptr;
    EXPECT_EQ(ftarOpStart(group_, &desc_, &op), FTAR_ERR_STATE);
  });
}

// What the host can read is no memory of a GPU that nobody has opened.
TEST_F(Again, TheHostsBuffersGoAgainBesideAGpuThatIsNotOpen) {
  World().uses_gpu = true;
  Run();
  EXPECT_EQ(MadeAgain([this] { Run(); }), 1u);
}

}  // namespace
}  // namespace ftar
