// Goal: events come in order, wake who waits, and make their descriptor readable exactly while
// there are some; the oldest make room.
#include "runtime/events.h"

#include <gtest/gtest.h>
#include <poll.h>

#include <atomic>
#include <thread>
#include <vector>

namespace ftar::runtime {
namespace {

JobEvent Event(Seq seq) {
  JobEvent event;
  event.seq = seq;
  return event;
}

bool Readable(int fd) {
  pollfd watch{fd, POLLIN, 0};
  return poll(&watch, 1, 0) == 1;
}

TEST(EventQueue, KeepsTheOrder) {
  EventQueue queue;
  EXPECT_FALSE(queue.Pop().has_value());
  for (Seq i = 0; i < 3; ++i) queue.Push(Event(i));
  for (Seq i = 0; i < 3; ++i) EXPECT_EQ(queue.Pop()->seq, i);
  EXPECT_FALSE(queue.Wait(0).has_value());
}

TEST(EventQueue, TheOldestMakeRoomAndAreCounted) {
  EventQueue queue;
  for (Seq i = 0; i < 1024 + 5; ++i) queue.Push(Event(i));
  EXPECT_EQ(queue.dropped(), 5u);
  EXPECT_EQ(queue.Pop()->seq, 5u);
}

TEST(EventQueue, TheDescriptorIsReadableExactlyWhileEventsWait) {
  EventQueue queue;
  queue.Push(Event(0));
  const Expected<int> fd = queue.Descriptor();
  ASSERT_TRUE(fd.ok());
  EXPECT_EQ(*queue.Descriptor(), *fd) << "one for all calls";
  EXPECT_TRUE(Readable(*fd)) << "what waited before it was made counts";
  queue.Push(Event(1));
  queue.Pop();
  EXPECT_TRUE(Readable(*fd));
  queue.Pop();
  EXPECT_FALSE(Readable(*fd));
  for (Seq i = 0; i < 2000; ++i) queue.Push(Event(i));
  EXPECT_TRUE(Readable(*fd));
  while (queue.Pop()) {
  }
  EXPECT_FALSE(Readable(*fd));
}

TEST(EventQueue, AWaitEndsByItsTimeByAnEventOrByTheEnd) {
  EventQueue queue;
  EXPECT_FALSE(queue.Wait(2 * kMillisecond).has_value());
  std::atomic<int> got{0}, none{0};
  std::vector<std::thread> waiters;
  for (int i = 0; i < 3; ++i) {
    waiters.emplace_back([&] { ++(queue.Wait(-1) ? got : none); });
  }
  queue.Push(Event(7));
  while (got + none < 1) std::this_thread::yield();
  EXPECT_EQ(got, 1) << "one event wakes one waiter";
  EXPECT_FALSE(queue.closed());
  queue.Close();
  EXPECT_TRUE(queue.closed());
  for (std::thread& waiter : waiters) waiter.join();
  EXPECT_EQ(none, 2);
  queue.Push(Event(8));
  EXPECT_EQ(queue.Wait(-1)->seq, 8u) << "what is queued can be fetched after the end";
  EXPECT_FALSE(queue.Wait(-1).has_value()) << "and nobody waits any more";
}

TEST(EventQueue, ATimeBeyondTheClocksEndIsForEver) {
  EventQueue queue;
  std::atomic<bool> begun{false}, ended{false};
  std::thread waiter([&] {
    begun = true;
    EXPECT_TRUE(queue.Wait(INT64_MAX).has_value());
    ended = true;
  });
  while (!begun) std::this_thread::yield();
  for (int i = 0; i < 10'000; ++i) std::this_thread::yield();
  EXPECT_FALSE(ended);
  queue.Push(Event(1));
  waiter.join();
}

}  // namespace
}  // namespace ftar::runtime
