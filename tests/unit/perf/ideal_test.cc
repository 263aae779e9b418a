#include "perf/ideal.h"

#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <thread>

#include "perf/buffers.h"
#include "perf/kernels.h"
#include "perf/sampler.h"

namespace ftar::perf {
namespace {

float ValueOf(int rank, int round, size_t i) {
  return static_cast<float>((i * 7 + rank * 13 + round * 3) % 251);
}

// Runs `work(rank)` on a thread for each rank.
template <typename Work>
void OnEachRank(int ranks, const Work& work) {
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) threads.emplace_back([&work, rank] { work(rank); });
  for (std::thread& thread : threads) thread.join();
}

struct IdealCase {
  int ranks;
  bool push;
};

class IdealSums : public testing::TestWithParam<IdealCase> {};

TEST_P(IdealSums, EveryRankGetsTheSumAndWritesOnlyWhatItMay) {
  const auto [ranks, push] = GetParam();
  // Around the edges of lines, slices and blocks; empty slices where ranks outnumber lines.
  const std::vector<uint64_t> counts = {0, 1, 14, 15, 28, 29, 63, 64, 65, 127, 4099, 100'001};
  constexpr int kRounds = 2;
  const uint64_t stride = Buffers::StrideOf(counts.back() * sizeof(float));
  const auto arena = Arena::Create(ranks, Ideal::PartBytes(2 * stride));
  ASSERT_NE(arena, nullptr);
  std::atomic<int> wrong{0}, touched{0};
  OnEachRank(ranks, [&](int rank) {
    Ideal ideal(arena.get(), rank, push);
    auto* send = reinterpret_cast<float*>(ideal.buffers());
    auto* recv = reinterpret_cast<float*>(ideal.buffers() + stride);
    for (uint64_t count : counts) {
      for (int round = 0; round < kRounds; ++round) {
        for (size_t i = 0; i < count; ++i) send[i] = ValueOf(rank, round, i);
        std::fill_n(recv, count + 1, -1.0F);
        arena->Meet(rank);
        ideal.AllReduce(send, recv, count);
        for (size_t i = 0; i < count; ++i) {
          float sum = 0;
          for (int r = 0; r < ranks; ++r) sum += ValueOf(r, round, i);
          wrong += recv[i] != sum ? 1 : 0;
          touched += send[i] != ValueOf(rank, round, i) ? 1 : 0;
        }
        touched += recv[count] != -1.0F ? 1 : 0;
        arena->Meet(rank);
      }
    }
  });
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(touched, 0);
}
INSTANTIATE_TEST_SUITE_P(Kinds, IdealSums,
                         testing::Values(IdealCase{1, false}, IdealCase{2, false},
                                         IdealCase{3, false}, IdealCase{8, false},
                                         IdealCase{1, true}, IdealCase{2, true},
                                         IdealCase{5, true}),
                         [](const auto& info) {
                           return (info.param.push ? "Push" : "Pull") +
                                  std::to_string(info.param.ranks);
                         });

// A rank that is ahead must not overwrite lines that another still reads.
TEST(Ideal, ManySmallOperationsWithoutMeeting) {
  constexpr int kRanks = 3, kOps = 2'000;
  const auto arena = Arena::Create(kRanks, Ideal::PartBytes(4096));
  std::atomic<int> wrong{0};
  OnEachRank(kRanks, [&](int rank) {
    Ideal ideal(arena.get(), rank, false);
    auto* send = reinterpret_cast<float*>(ideal.buffers());
    float* recv = send + 64;
    for (int op = 0; op < kOps; ++op) {
      const int count = op % 40 + 1;
      for (int i = 0; i < count; ++i) send[i] = static_cast<float>(op % 1000 + rank + i);
      ideal.AllReduce(send, recv, count);
      for (int i = 0; i < count; ++i)
        wrong += recv[i] != static_cast<float>(3 * (op % 1000 + i) + 3) ? 1 : 0;
    }
  });
  EXPECT_EQ(wrong, 0);
}

TEST(Arena, NobodyPassesBeforeTheLastHasCome) {
  constexpr int kRanks = 4, kMeetings = 100;
  const auto arena = Arena::Create(kRanks, 1);
  std::atomic<int> arrived{0}, early{0};
  OnEachRank(kRanks, [&](int rank) {
    for (int meeting = 1; meeting <= kMeetings; ++meeting) {
      ++arrived;
      arena->Meet(rank);
      early += arrived < kRanks * meeting ? 1 : 0;
      arena->Meet(rank);
    }
  });
  EXPECT_EQ(early, 0);
}

TEST(Arena, TheTimeIsThatFromTheFirstBeginToTheLastEnd) {
  const auto arena = Arena::Create(3, 1);
  arena->Stamp(0, 200, 300);
  arena->Stamp(1, 100, 250);
  arena->Stamp(2, 150, 900);
  EXPECT_EQ(arena->Elapsed(), 800);
}

TEST(Kernels, SumAndCopyWorkAtAnyAlignment) {
  for (size_t offset : {0, 1, 5}) {
    for (size_t count : {0, 1, 63, 64, 65, 200, 1111}) {
      std::vector<float> left(count + offset), right(count + offset), out(count + offset + 1, -1);
      std::iota(left.begin(), left.end(), 1.0F);
      std::iota(right.begin(), right.end(), 1000.0F);
      const float* const in[] = {left.data() + offset, right.data() + offset};
      SumFloats(out.data() + offset, in, 2, count);
      for (size_t i = offset; i < count + offset; ++i) ASSERT_EQ(out[i], left[i] + right[i]);
      EXPECT_EQ(out[count + offset], -1);
      std::vector<char> from(count + 9), to(count + 9, 7);
      std::iota(from.begin(), from.end(), 0);
      StreamCopy(to.data() + offset, from.data() + 3, count);
      EXPECT_EQ(std::memcmp(to.data() + offset, from.data() + 3, count), 0) << count;
      EXPECT_EQ(to[count + offset], 7);
    }
  }
}

TEST(Sampler, EveryPairHasOneBlockOfEachAndTheOrderAlternates) {
  for (const auto& [iters, pairs] : {std::pair{21, 21}, {100, 7}, {5, 5}, {9, 2}, {1, 1}}) {
    int ideal = 0, blocks = 0, ours = 0;
    for (int i = 0; i < iters; ++i) {
      const PairPosition position = PositionOf(iters, pairs, i);
      // Within a pair the two blocks follow each other directly.
      if (position.ideal_before) {
        EXPECT_EQ(blocks % 2, 1) << i;
      }
      if (position.ideal_after) {
        EXPECT_EQ(blocks % 2, 0) << i;
      }
      ++ours;
      if (!position.ideal_before && !position.ideal_after) continue;
      ideal += position.block;
      ++blocks;
      if (position.ideal_after) {
        EXPECT_EQ(ours, ideal);
      }
      if (position.ideal_before) {
        EXPECT_EQ(ours - 1 + position.block, ideal);
      }
    }
    EXPECT_EQ(blocks, pairs);
    EXPECT_EQ(ideal, iters);
  }
  EXPECT_FALSE(PositionOf(10, 0, 3).ideal_before);
}

TEST(Ideal, ReadsEachInputOnceAndFetchesWhatOthersHaveSummed) {
  // Two ranks: a half of two inputs, its sum written, the other half read and written.
  EXPECT_EQ(Ideal::MovedBytes(1 << 20, 2, false), (1 << 20) * 5u / 2);
  EXPECT_EQ(Ideal::MovedBytes(1 << 20, 4, false), (1 << 20) * 11u / 4);
  EXPECT_EQ(Ideal::MovedBytes(1 << 20, 4, true), (1 << 20) * 2u);
  // In lines: into the own one, all of them, and the sum.
  EXPECT_EQ(Ideal::MovedBytes(8, 2, false), 8u * 5);
}

}  // namespace
}  // namespace ftar::perf
