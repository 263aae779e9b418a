// What a job tells its user, kept until it is fetched: a bounded queue with a descriptor that is
// readable while it is not empty. Synchronised by itself; any thread. When nobody fetches, the
// oldest event makes room and is counted.
#ifndef FTAR_RUNTIME_EVENTS_H_
#define FTAR_RUNTIME_EVENTS_H_

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>

#include "base/bounded_queue.h"
#include "base/ids.h"
#include "base/status.h"
#include "runtime/job.h"

namespace ftar::runtime {

// Make an eventfd readable, and no longer readable. Its counter never blocks us: a full one is
// readable already, an empty one is what Lower wants.
void Raise(int event_fd);
void Lower(int event_fd);

class EventQueue {
 public:
  EventQueue() : queue_(kCapacity) {}
  ~EventQueue();
  EventQueue(const EventQueue&) = delete;
  EventQueue& operator=(const EventQueue&) = delete;

  void Push(const JobEvent& event);
  std::optional<JobEvent> Pop();
  // Waits up to `timeout_ns` (-1 for ever, 0 not at all), or until Close.
  std::optional<JobEvent> Wait(int64_t timeout_ns);
  // The descriptor is made on the first call; it stays the queue's.
  Expected<int> Descriptor();
  // Wakes all waiters; what is queued can still be fetched.
  void Close();
  bool closed() const;
  uint64_t dropped() const;
  // In a forked child; async-signal-safe.
  void CloseInForkedChild();

 private:
  static constexpr size_t kCapacity = 1024;
  std::optional<JobEvent> PopLocked();

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  BoundedQueue<JobEvent> queue_;
  int fd_ = -1;
  bool closed_ = false;
};

}  // namespace ftar::runtime

#endif  // FTAR_RUNTIME_EVENTS_H_
