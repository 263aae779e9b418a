#include "runtime/inline_mutex.h"

#include <gtest/gtest.h>

#include <mutex>
#include <thread>
#include <vector>

namespace ftar::runtime {
namespace {

TEST(InlineMutexTest, IsNobodysUntilItIsLockedAndAfterItIsUnlocked) {
  InlineMutex mutex;
  ASSERT_TRUE(mutex.try_lock());
  EXPECT_FALSE(mutex.try_lock());
  mutex.unlock();
  mutex.lock();
  EXPECT_FALSE(mutex.try_lock());
  mutex.unlock();
  EXPECT_TRUE(mutex.try_lock());
}

TEST(InlineMutexTest, OneAtATimeHasItAndNobodySleepsForEver) {
  constexpr int kThreads = 4, kTimes = 20'000;
  InlineMutex mutex;
  int count = 0, inside = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      for (int time = 0; time < kTimes; ++time) {
        const std::lock_guard<InlineMutex> guard(mutex);
        ++inside;
        // Long enough that the others come to sleep, sometimes.
        if (time % 100 == 0) std::this_thread::yield();
        count += inside;
        --inside;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(count, kThreads * kTimes);
}

}  // namespace
}  // namespace ftar::runtime
