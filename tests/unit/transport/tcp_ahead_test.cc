#include "transport/tcp/ahead.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace ftar::transport::tcp {
namespace {

constexpr size_t kWrite = 512u << 10;

// Writes `bytes` where a byte takes so many picoseconds either way; returns how many were written
// far ahead.
size_t Write(Ahead* ahead, size_t bytes, int64_t near_ps, int64_t far_ps) {
  size_t far = 0;
  for (size_t done = 0; done < bytes; done += kWrite) {
    const bool is_far = ahead->bytes() == Ahead::kFarBytes;
    if (is_far) far += kWrite;
    ahead->Note(kWrite, static_cast<int64_t>(kWrite) * (is_far ? far_ps : near_ps) / 1000);
  }
  return far;
}

constexpr size_t kMuch = 2048u << 20;

TEST(Ahead, IsNearWhereThatGoesFast) {
  Ahead ahead;
  EXPECT_EQ(ahead.bytes(), Ahead::kNearBytes);
  EXPECT_EQ(Write(&ahead, kMuch, 150, 50), 0u);
}

TEST(Ahead, FollowsTheProcessorsWhereverTheyGo) {
  Ahead ahead;
  for (int i = 0; i < 3; ++i) {
    Write(&ahead, kMuch / 4, 230, 230);  // until it has noticed
    EXPECT_GT(Write(&ahead, kMuch, 230, 230), kMuch * 3 / 4);
    Write(&ahead, kMuch / 4, 120, 180);
    EXPECT_EQ(Write(&ahead, kMuch, 120, 180), 0u);
  }
}

TEST(Ahead, LearnsNothingFromLittle) {
  Ahead ahead;
  for (int i = 0; i < 100'000; ++i) ahead.Note(Ahead::kTellingBytes - 1, kSecond);
  EXPECT_EQ(ahead.bytes(), Ahead::kNearBytes);
}

}  // namespace
}  // namespace ftar::transport::tcp
