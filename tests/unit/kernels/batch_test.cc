// Goal: plans that go out as one launch give what each gives alone, whatever their sizes, places
// and grids: every element written, nothing else; they stop together; and a batch takes what it
// should.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>

#include "kernels/host_grid.h"
#include "tests/unit/kernels/cases.h"

namespace ftar::kernels {
namespace {

using reduce::Dtype;

constexpr uint64_t kBatchSeed = 20261124;

// Cases with their memory, and the launch that takes them all.
class Together {
 public:
  // False if the batch has no place for it.
  bool Add(const CaseOptions& options, uint64_t seed) {
    auto own = std::make_unique<Own>(options, seed);
    const Expected<Plan> plan = own->test.PlanAt(own->placed.base());
    EXPECT_TRUE(plan.ok()) << NameOf(options) << ": " << plan.status().ToString();
    if (!plan.ok() || !batch_.Add(*plan)) return false;
    owned_.push_back(std::move(own));
    return true;
  }
  // Empty, or what is wrong.
  std::string Run() {
    const Status ran = RunOnHost(batch_);
    if (!ran.ok()) return ran.ToString();
    for (const auto& own : owned_) {
      const std::string wrong = own->test.Compare(own->placed.image());
      if (!wrong.empty()) return wrong;
    }
    return "";
  }
  const Batch& batch() const { return batch_; }

 private:
  struct Own {
    Own(const CaseOptions& options, uint64_t seed) : test(options, seed), placed(test.before()) {}
    Case test;
    Placed placed;
  };
  std::vector<std::unique_ptr<Own>> owned_;
  Batch batch_;
};

TEST(BatchTest, EveryKernelTakesSeveral) {
  for (const Id& id : AllIds()) {
    Together together;
    CaseOptions o = OptionsFor(id);
    o.shape.blocks = 3;
    o.shape.threads = 64;
    o.shape.chunk_bytes = 1;
    for (size_t count : {4321, 1, 0, 700}) {
      o.count = count;
      o.placement = static_cast<Placement>(count % 4);
      ASSERT_TRUE(together.Add(o, kBatchSeed + count)) << NameOf(o);
    }
    ASSERT_EQ(together.batch().id, id);
    ASSERT_EQ(together.batch().jobs.count, 3u);  // one had nothing to do
    ASSERT_EQ(together.Run(), "");
  }
}

TEST(BatchTest, RandomCases) {
  std::mt19937_64 random(kBatchSeed);
  uint32_t jobs = 0, most = 0;
  for (int i = 0; i < 500; ++i) {
    Together together;
    const CaseOptions first = RandomOptions(&random, 2000);
    for (uint64_t left = 1 + random() % kMaxJobs; left > 0; --left) {
      together.Add(AsKernelOf(first, RandomOptions(&random, 2000)), random());
    }
    ASSERT_EQ(together.Run(), "") << i;
    jobs += together.batch().jobs.count;
    most = std::max(most, together.batch().jobs.count);
  }
  EXPECT_GT(jobs, 1000u);
  EXPECT_EQ(most, kMaxJobs);
}

Plan CopyPlan(const unsigned char* from, unsigned char* to, size_t bytes,
              const Control& control = {}, int blocks = 3) {
  void* destination = to;
  return PlanCopy(from, {&destination, 1}, bytes, control,
                  {.blocks = blocks, .threads = 32, .unroll = 0, .chunk_bytes = 1})
      .value();
}

TEST(BatchTest, HasAsManyBlocksAsAllItsChunksNeed) {
  std::vector<unsigned char> bytes(1 << 20);
  Batch batch;
  EXPECT_EQ(batch.blocks, 0);
  const Plan one = CopyPlan(bytes.data(), bytes.data() + 65536, 1000, {}, 5);
  EXPECT_EQ(one.blocks, 1);
  for (int blocks : {1, 2, 3, 4, 5, 5}) {
    ASSERT_TRUE(batch.Add(one));
    EXPECT_EQ(batch.blocks, blocks);
  }
  batch.Clear();
  EXPECT_EQ(batch.blocks, 0);
  EXPECT_TRUE(batch.Add(CopyPlan(bytes.data(), bytes.data() + 65536, 50000)));
  EXPECT_EQ(batch.blocks, 3);
}

TEST(BatchTest, RefusesOtherKernelsTooManyAndTooMuch) {
  std::vector<unsigned char> bytes(16);
  unsigned char* const far = bytes.data() + (1 << 20);
  const Plan one = CopyPlan(bytes.data(), far, 1000);
  Batch batch(one);
  Plan other = one;
  other.id.unroll = 1;
  EXPECT_FALSE(batch.Add(other));
  EXPECT_TRUE(batch.Add(Plan{}));  // nothing to do
  // So much that launches of their own keep up; alone it goes all the same.
  EXPECT_FALSE(batch.Add(CopyPlan(bytes.data(), far, 3 * kBatchBytesOfBlock)));
  EXPECT_TRUE(batch.Add(CopyPlan(bytes.data(), far, 2 * kBatchBytesOfBlock)));
  EXPECT_EQ(Batch(CopyPlan(bytes.data(), far, 3 * kBatchBytesOfBlock)).jobs.count, 1u);
  for (uint32_t jobs = 2; jobs < kMaxJobs; ++jobs) EXPECT_TRUE(batch.Add(one));
  EXPECT_FALSE(batch.Add(one));
  EXPECT_EQ(batch.jobs.count, kMaxJobs);
}

uint32_t batch_abort_word = 0;
size_t chunks_left = 0;

// Chunks are dealt out as if they were all of one job, and each block stops before its next one.
TEST(BatchTest, StopsBeforeTheNextChunkOfWhicheverJob) {
  constexpr size_t kBytes = 20000, kJobs = 4, kChunkBytes = 2048, kChunks = 10;
  for (size_t after = 0; after < 30; ++after) {
    std::vector<unsigned char> from(kJobs * kBytes, 1), to(kJobs * kBytes, 0), expected = to;
    uint32_t stopped = 0;
    const Control control{.abort_word = &batch_abort_word, .epoch = 7, .stopped = &stopped};
    Batch batch;
    for (size_t at = 0; at < to.size(); at += kBytes) {
      ASSERT_TRUE(batch.Add(CopyPlan(from.data() + at, to.data() + at, kBytes, control)));
    }
    ASSERT_EQ(batch.jobs.job[0].chunks, kChunks);
    batch_abort_word = 7;
    chunks_left = after;
    ASSERT_TRUE(RunOnHost(batch, [](uint64_t) {
                  if (chunks_left-- == 0) batch_abort_word = 8;
                }).ok());
    EXPECT_EQ(stopped, 1u);
    // The host's blocks run one after the other.
    size_t done = 0;
    for (size_t block = 0; block < 3; ++block) {
      for (size_t chunk = block; chunk < kJobs * kChunks && done < after; chunk += 3, ++done) {
        const size_t begin = chunk % kChunks * kChunkBytes;
        const size_t bytes = std::min(kChunkBytes, kBytes - begin);
        std::fill_n(expected.data() + chunk / kChunks * kBytes + begin, bytes, 1);
      }
    }
    EXPECT_EQ(to, expected) << after;
  }
}

}  // namespace
}  // namespace ftar::kernels
