// Goal: plans that touch the same memory run in order, others together; what is outstanding is
// known; an abort drops what waits and awaits what runs; blocks may come late and leave.
#include "device/schedule.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

#include "device/ranges.h"

namespace ftar::device {
namespace {

using kernels::Plan;
using kernels::PlanCopy;
using kernels::PlanReduction;

std::byte* At(uintptr_t address) { return reinterpret_cast<std::byte*>(address); }

Plan Copy(uintptr_t from, uintptr_t to, size_t bytes, uint64_t chunk_bytes = 0) {
  void* const destination = At(to);
  return PlanCopy(At(from), {&destination, 1}, bytes, {},
                  {.threads = 32, .chunk_bytes = chunk_bytes})
      .value();
}

Schedule::Options TwoBlocks() { return {.blocks = 2, .slots = 4, .launches = 8, .stuck_ns = 100}; }

// A schedule whose blocks are all there.
class ScheduleTest : public testing::Test {
 protected:
  void Open(const Schedule::Options& options) {
    schedule_ = std::make_unique<Schedule>(options);
    if (options.blocks == 0) return;
    ASSERT_EQ(schedule_->TakeCall(), Call::kLaunch);
    for (int b = 0; b < options.blocks; ++b) schedule_->SeeBlock(b, true, false);
  }
  std::vector<Post> Take() {
    std::vector<Post> posts;
    for (Post post; schedule_->TakePost(&post);) posts.push_back(post);
    return posts;
  }
  std::unique_ptr<Schedule> schedule_;
};

TEST(RangesTest, ReadsDoNotConflictAndWritesDo) {
  const Touched a(Copy(1000, 2000, 100)), b(Copy(1000, 3000, 100)), c(Copy(2050, 4000, 10));
  const Touched d(Copy(5000, 2099, 1)), e(Copy(5000, 2100, 1)), f(Copy(7000, 1099, 8));
  EXPECT_FALSE(a.Conflicts(b));
  EXPECT_TRUE(a.Conflicts(c));
  EXPECT_TRUE(c.Conflicts(a));
  EXPECT_TRUE(a.Conflicts(d));
  EXPECT_FALSE(a.Conflicts(e));
  EXPECT_TRUE(a.Conflicts(f));
}

TEST(RangesTest, CountsBytesOfPartialResultsAndTheChecksum) {
  uint32_t* const checksum = reinterpret_cast<uint32_t*>(9000);
  const reduce::Source source{.data = At(1000), .format = reduce::Dtype::kBF16, .weight = 1};
  void* const to = At(2000);
  const Plan plan = PlanReduction({.dtype = reduce::Dtype::kBF16,
                                   .sources = {&source, 1},
                                   .destinations = {&to, 1},
                                   .count = 100,
                                   .to_partial = true},
                                  {.checksum = checksum})
                        .value();
  const Touched touched(plan);
  EXPECT_TRUE(touched.Conflicts(Touched(Copy(2399, 8000, 1))));
  EXPECT_FALSE(touched.Conflicts(Touched(Copy(2400, 8000, 1))));
  EXPECT_TRUE(touched.Conflicts(Touched(Copy(8000, 1199, 1))));
  EXPECT_FALSE(touched.Conflicts(Touched(Copy(8000, 1200, 1))));
  EXPECT_TRUE(touched.Conflicts(Touched(Copy(9003, 8000, 1))));
}

TEST_F(ScheduleTest, OneLaneTakesAllInOrder) {
  Open({.blocks = 0, .launches = 2});
  for (int i = 0; i < 3; ++i) schedule_->Submit(Copy(0x1000, 0x2000, 64), false);
  EXPECT_EQ(Take().size(), 2u);
  EXPECT_TRUE(schedule_->Acknowledge(0, 1));
  EXPECT_EQ(schedule_->done(), 1u);
  EXPECT_EQ(Take().size(), 1u);
  EXPECT_TRUE(schedule_->Acknowledge(0, 3));
  EXPECT_EQ(schedule_->done(), 3u);
  EXPECT_TRUE(schedule_->idle());
}

TEST_F(ScheduleTest, APlanIsDoneWhenAllItsBlocksAre) {
  Open(TwoBlocks());
  schedule_->Submit(Copy(0x10000, 0x20000, 8192, 2048), true);
  const auto posts = Take();
  ASSERT_EQ(posts.size(), 2u);
  EXPECT_EQ(posts[0].first, 0u);
  EXPECT_EQ(posts[1].first, 1u);
  EXPECT_EQ(posts[0].stride, 2u);
  EXPECT_TRUE(schedule_->Acknowledge(1, 1));
  EXPECT_EQ(schedule_->done(), 0u);
  EXPECT_TRUE(schedule_->Acknowledge(0, 1));
  EXPECT_EQ(schedule_->done(), 1u);
}

TEST_F(ScheduleTest, ConflictsWaitAcrossLanesAndQueueOnOne) {
  Open(TwoBlocks());
  schedule_->Submit(Copy(0x10000, 0x20000, 64), true);   // one chunk, one block
  schedule_->Submit(Copy(0x20000, 0x30000, 64), true);   // reads what it wrote: behind it
  schedule_->Submit(Copy(0x30000, 0x40000, 64), false);  // launched: has to wait
  schedule_->Submit(Copy(0x50000, 0x60000, 64), true);   // touches none of them
  const auto posts = Take();
  ASSERT_EQ(posts.size(), 3u);
  EXPECT_EQ(posts[0].lane, posts[1].lane);
  EXPECT_NE(posts[2].lane, posts[0].lane);
  EXPECT_TRUE(schedule_->Acknowledge(posts[0].lane, 2));
  const auto more = Take();
  ASSERT_EQ(more.size(), 1u);
  EXPECT_EQ(more[0].lane, schedule_->launch_lane());
  EXPECT_EQ(schedule_->done(), 2u);
}

TEST_F(ScheduleTest, AnAbortDropsWhatWaitsAndAwaitsWhatRuns) {
  Open({.blocks = 0, .launches = 1});
  schedule_->Submit(Copy(0x1000, 0x2000, 64), false);
  ASSERT_EQ(Take().size(), 1u);
  schedule_->Submit(Copy(0x2000, 0x3000, 64), false);
  const uint32_t epoch = schedule_->epoch();
  schedule_->Abort();
  EXPECT_EQ(schedule_->done(), 0u);
  EXPECT_TRUE(Take().empty());
  schedule_->Submit(Copy(0x2000, 0x3000, 64), false);
  EXPECT_TRUE(schedule_->Acknowledge(0, 1));
  EXPECT_EQ(schedule_->done(), 2u);
  const auto posts = Take();
  ASSERT_EQ(posts.size(), 1u);
  EXPECT_EQ(posts[0].epoch, epoch + 1);
}

std::vector<uint64_t> RunsOf(const std::vector<Post>& posts) {
  std::vector<uint64_t> runs;
  for (const Post& post : posts) runs.push_back(post.run - posts[0].run);
  return runs;
}

TEST_F(ScheduleTest, ARunEndsBeforeAPlanThatConflictsWithIt) {
  Open({.blocks = 0, .launches = 8});
  schedule_->Submit(Copy(0x10000, 0x20000, 64), false);
  schedule_->Submit(Copy(0x10000, 0x30000, 64), false);  // reads the same
  schedule_->Submit(Copy(0x20000, 0x40000, 64), false);  // reads what the first one writes
  schedule_->Submit(Copy(0x10000, 0x50000, 64), false);
  schedule_->Submit(Copy(0x60000, 0x10000, 64), false);  // writes what others read
  schedule_->Submit(Copy(0x60000, 0x20000, 64), false);  // conflicts with what is of older runs
  EXPECT_EQ(RunsOf(Take()), (std::vector<uint64_t>{0, 0, 1, 1, 2, 2}));
}

TEST_F(ScheduleTest, WhatIsDoneEndsNoRun) {
  Open({.blocks = 0, .launches = 8});
  schedule_->Submit(Copy(0x10000, 0x20000, 64), false);
  auto posts = Take();
  EXPECT_TRUE(schedule_->Acknowledge(0, 1));
  schedule_->Submit(Copy(0x20000, 0x30000, 64), false);
  for (const Post& post : Take()) posts.push_back(post);
  EXPECT_EQ(RunsOf(posts), (std::vector<uint64_t>{0, 0}));
}

TEST_F(ScheduleTest, ARunIsOfOneEpoch) {
  Open({.blocks = 0, .launches = 8});
  schedule_->Submit(Copy(0x10000, 0x20000, 64), false);
  auto posts = Take();
  schedule_->Abort();
  schedule_->Submit(Copy(0x30000, 0x40000, 64), false);
  for (const Post& post : Take()) posts.push_back(post);
  EXPECT_EQ(RunsOf(posts), (std::vector<uint64_t>{0, 1}));
  EXPECT_NE(posts[0].epoch, posts[1].epoch);
}

TEST_F(ScheduleTest, NobodyIsBelievedWhoSaysWhatCannotBe) {
  Open(TwoBlocks());
  schedule_->Submit(Copy(0x1000, 0x2000, 64), true);
  const auto posts = Take();
  EXPECT_FALSE(schedule_->Acknowledge(posts[0].lane, 2));
  EXPECT_TRUE(schedule_->Acknowledge(posts[0].lane, 1));
  EXPECT_FALSE(schedule_->Acknowledge(posts[0].lane, 0));
}

TEST_F(ScheduleTest, BlocksThatAreNotThereGetNothing) {
  Schedule schedule(TwoBlocks());
  EXPECT_EQ(schedule.TakeCall(), Call::kLaunch);
  EXPECT_EQ(schedule.TakeCall(), Call::kNothing);
  schedule.Submit(Copy(0x10000, 0x20000, 8192, 2048), true);
  Post post;
  EXPECT_FALSE(schedule.TakePost(&post));
  schedule.SeeBlock(1, true, false);
  ASSERT_TRUE(schedule.TakePost(&post));
  EXPECT_EQ(post.lane, 1);
  EXPECT_EQ(post.stride, 1u);
}

TEST_F(ScheduleTest, WhatAKernelLeavesUndoneIsHandedOverAgain) {
  Open(TwoBlocks());
  schedule_->Submit(Copy(0x10000, 0x20000, 8192, 2048), true);
  ASSERT_EQ(Take().size(), 2u);
  schedule_->SeeBlock(0, true, true);
  EXPECT_EQ(schedule_->TakeCall(), Call::kRecall);
  EXPECT_EQ(schedule_->TakeCall(), Call::kNothing);  // block 1 is still there
  EXPECT_TRUE(schedule_->Acknowledge(1, 1));
  schedule_->SeeBlock(1, true, true);
  EXPECT_EQ(schedule_->TakeCall(), Call::kLaunch);
  EXPECT_EQ(schedule_->generation(), 2u);
  EXPECT_EQ(schedule_->NextNumber(0), 2u);
  schedule_->SeeBlock(1, true, false);  // this time only block 1 comes
  const auto posts = Take();
  ASSERT_EQ(posts.size(), 1u);
  EXPECT_EQ(posts[0].lane, 1);
  EXPECT_EQ(posts[0].number, 2u);
  EXPECT_EQ(posts[0].first, 0u);
  EXPECT_EQ(posts[0].stride, 2u);
  EXPECT_TRUE(schedule_->Acknowledge(1, 2));
  EXPECT_EQ(schedule_->done(), 1u);
}

TEST_F(ScheduleTest, AKernelIsLaunchedAgainOnlyForWork) {
  Open(TwoBlocks());
  schedule_->SeeBlock(0, true, true);
  schedule_->SeeBlock(1, true, true);
  EXPECT_EQ(schedule_->TakeCall(), Call::kRecall);
  EXPECT_EQ(schedule_->TakeCall(), Call::kNothing);
  schedule_->Submit(Copy(0x1000, 0x2000, 64), false);
  EXPECT_EQ(schedule_->TakeCall(), Call::kNothing);
  schedule_->Submit(Copy(0x3000, 0x4000, 64), true);
  EXPECT_EQ(schedule_->TakeCall(), Call::kLaunch);
}

TEST_F(ScheduleTest, IsStuckWhenNothingMovesThoughThereIsWork) {
  Open({.blocks = 0, .launches = 4, .stuck_ns = 100});
  schedule_->Tick(1000, 0);
  schedule_->Tick(5000, 0);
  EXPECT_FALSE(schedule_->stuck());  // nothing to do
  schedule_->Submit(Copy(0x1000, 0x2000, 64), false);
  for (TimeNs now = 6000; now <= 6100; now += 20) schedule_->Tick(now, 0);
  EXPECT_FALSE(schedule_->stuck());
  for (TimeNs now = 6101; now <= 6201; now += 20) schedule_->Tick(now, 7);  // it moves
  EXPECT_FALSE(schedule_->stuck());
  schedule_->Tick(6202, 7);
  EXPECT_TRUE(schedule_->stuck());
}

TEST_F(ScheduleTest, IsNotStuckBecauseNobodyLooked) {
  Open({.blocks = 0, .launches = 4, .stuck_ns = 100});
  schedule_->Tick(1000, 0);
  schedule_->Submit(Copy(0x1000, 0x2000, 64), false);
  schedule_->Tick(1010, 0);
  schedule_->Tick(9000, 0);  // the process was stopped
  EXPECT_FALSE(schedule_->stuck());
  for (TimeNs now = 9010; now <= 9060; now += 10) schedule_->Tick(now, 0);
  EXPECT_FALSE(schedule_->stuck());
  for (TimeNs now = 9070; now <= 9120; now += 10) schedule_->Tick(now, 0);
  EXPECT_TRUE(schedule_->stuck());
}

// A naive model of lanes: who may start is judged plan by plan.
class Model {
 public:
  Model(Schedule* schedule, int blocks, uint64_t seed)
      : schedule_(schedule), blocks_(blocks), random_(seed) {}

  bool all_submitted() const { return plans_.size() == 60; }
  void Submit() {
    const auto address = [this] { return 0x10000 + random_() % 12 * 0x800; };
    const bool forth = random_() % 2 == 0;
    const uintptr_t a = address(), b = 0x100000 + address();
    Plan plan = Copy(forth ? a : b, forth ? b : a, 1 + random_() % 8192, 2048);
    plan.job.stopped = reinterpret_cast<uint32_t*>(plans_.size());
    plans_.push_back(plan);
    chunks_.emplace_back();
    const bool resident = blocks_ > 0 && random_() % 4 != 0;
    ASSERT_EQ(schedule_->Submit(plan, resident), plans_.size() - 1);
  }

  // Every chunk once; what is earlier and conflicts is done, or ahead on this lane.
  void Take(const Post& post) {
    const auto plan = reinterpret_cast<uint64_t>(post.plan->job.stopped);
    for (uint64_t c = post.first; c < post.plan->job.chunks; c += post.stride) {
      ASSERT_TRUE(chunks_[plan].insert(c).second);
    }
    for (uint64_t n = schedule_->done() + 1; n < plan; ++n) {
      if (!Touched(plans_[plan]).Conflicts(Touched(plans_[n]))) continue;
      ASSERT_EQ(chunks_[n].size(), plans_[n].job.chunks) << n << " waits, " << plan << " runs";
      for (const auto& [lane, queue] : lanes_) {
        for (const InFlight& other : queue) ASSERT_TRUE(other.plan != n || lane == post.lane);
      }
    }
    if (post.lane == blocks_) {
      for (const InFlight& other : lanes_[post.lane]) {
        ASSERT_LE(other.run, post.run);
        if (other.run < post.run) continue;
        ASSERT_FALSE(Touched(plans_[plan]).Conflicts(Touched(plans_[other.plan])));
      }
    }
    lanes_[post.lane].push_back({.plan = plan, .number = post.number, .run = post.run});
    ASSERT_LE(lanes_[post.lane].size(), post.lane == blocks_ ? 3u : 4u);
  }

  void FinishSome() {
    const int lane = static_cast<int>(random_() % static_cast<uint64_t>(blocks_ + 1));
    if (lanes_[lane].empty()) return;
    ASSERT_TRUE(schedule_->Acknowledge(lane, lanes_[lane].front().number));
    lanes_[lane].pop_front();
    for (uint64_t n = 1; n <= schedule_->done(); ++n) {
      ASSERT_EQ(chunks_[n].size(), plans_[n].job.chunks);
    }
  }

 private:
  struct InFlight {
    uint64_t plan = 0;
    uint64_t number = 0;
    uint64_t run = 0;
  };
  Schedule* const schedule_;
  const int blocks_;
  std::mt19937_64 random_;
  std::vector<Plan> plans_ = std::vector<Plan>(1);  // by number
  std::vector<std::set<uint64_t>> chunks_ = std::vector<std::set<uint64_t>>(1);
  std::map<int, std::deque<InFlight>> lanes_;
};

TEST_F(ScheduleTest, RandomPlansAgainstANaiveModelInOrder) {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    const int blocks = static_cast<int>(seed % 5);
    Open({.blocks = blocks, .slots = 4, .launches = 3});
    Model model(schedule_.get(), blocks, seed);
    for (int turn = 0; !model.all_submitted() || !schedule_->idle(); ++turn) {
      ASSERT_LT(turn, 10000) << seed;
      if (!model.all_submitted() && turn % 2 == 0) {
        ASSERT_NO_FATAL_FAILURE(model.Submit());
      }
      for (const Post& post : Take()) ASSERT_NO_FATAL_FAILURE(model.Take(post)) << seed;
      ASSERT_NO_FATAL_FAILURE(model.FinishSome()) << seed;
    }
  }
}

}  // namespace
}  // namespace ftar::device
