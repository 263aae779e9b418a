#include "runtime/job_lock.h"

#include <gtest/gtest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>
#include <utility>

namespace ftar::runtime {
namespace {

// Who relies on having been alone (JobMutex::times) hears of everybody else, however that one came
// to the lock.
TEST(JobLockTest, EveryWayToTheLockIsCounted) FTAR_NO_THREAD_SAFETY_ANALYSIS {
  JobMutex mutex;
  uint64_t times = 0;
  const auto counted = [&] { return std::exchange(times, mutex.times()) != mutex.times(); };
  mutex.Lock();
  EXPECT_TRUE(counted()) << "quietly";
  EXPECT_FALSE(counted()) << "nobody else came";
  mutex.Unlock();
  const JobLock lock(mutex);
  EXPECT_TRUE(counted()) << "for a scope";
  { const JobUnlock unlock(mutex); }
  EXPECT_TRUE(counted()) << "back from a scope without it";
  { const JobUnlock unlock(mutex, JobUnlock::Back::kAsking); }
  EXPECT_TRUE(counted()) << "back, asking";
  mutex.LetOthersRun();
  EXPECT_TRUE(counted()) << "others have run";
  JobCondition condition;
  condition.WaitUntil(mutex, 0);
  EXPECT_TRUE(counted()) << "after a wait";
}

// Each waits for the other's turn, which nobody tells it of but by the condition.
TEST(JobLockTest, WhoWaitsIsWokenByANotice) FTAR_NO_THREAD_SAFETY_ANALYSIS {
  JobMutex mutex;
  JobCondition changed;
  int turn = 0;
  const auto play = [&](int mine) {
    for (int i = 0; i < 1'000; ++i) {
      const JobLock lock(mutex);
      while (turn % 2 != mine) changed.WaitUntil(mutex, kNever);
      ++turn;
      i % 2 == 0 ? changed.NotifyOne() : changed.NotifyAll();
    }
  };
  std::thread other(play, 1);
  play(0);
  other.join();
  EXPECT_EQ(turn, 2'000);
}

// What a thread that is about to wait has of the condition is nobody's in the child.
TEST(JobLockTest, AChildForkedWhileOthersWaitMayNotify) FTAR_NO_THREAD_SAFETY_ANALYSIS {
  JobMutex mutex;
  JobCondition changed;
  std::atomic<bool> over{false};
  std::thread waits([&] {
    while (!over.load()) {
      const JobLock lock(mutex);
      changed.WaitUntil(mutex, 0);
    }
  });
  for (int i = 0; i < 200; ++i) {
    mutex.Lock();
    const pid_t child = fork();
    if (child == 0) {
      alarm(10);
      changed.NotifyAll();
      mutex.Unlock();
      _exit(0);
    }
    mutex.Unlock();
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFEXITED(status)) << "it hung";
  }
  over = true;
  waits.join();
}

}  // namespace
}  // namespace ftar::runtime
