#include "runtime/events.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>

namespace ftar::runtime {

void Raise(int event_fd) {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(event_fd, &one, sizeof one);
}

void Lower(int event_fd) {
  uint64_t count = 0;
  [[maybe_unused]] const ssize_t got = read(event_fd, &count, sizeof count);
}

EventQueue::~EventQueue() {
  if (fd_ >= 0) close(fd_);
}

void EventQueue::Push(const JobEvent& event) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const bool was_empty = queue_.empty();
  queue_.Push(event);
  if (was_empty && fd_ >= 0) Raise(fd_);
  changed_.notify_one();
}

std::optional<JobEvent> EventQueue::PopLocked() {
  std::optional<JobEvent> out = queue_.Pop();
  if (out && queue_.empty() && fd_ >= 0) Lower(fd_);
  return out;
}

std::optional<JobEvent> EventQueue::Pop() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return PopLocked();
}

std::optional<JobEvent> EventQueue::Wait(int64_t timeout_ns) {
  std::unique_lock<std::mutex> lock(mutex_);
  const auto ready = [&] { return !queue_.empty() || closed_; };
  constexpr int64_t kLong = int64_t{365} * 86'400 * 1'000'000'000;  // and the clock has an end
  if (timeout_ns < 0 || timeout_ns > kLong) {
    changed_.wait(lock, ready);
  } else if (timeout_ns > 0) {
    changed_.wait_for(lock, std::chrono::nanoseconds(timeout_ns), ready);
  }
  return PopLocked();
}

Expected<int> EventQueue::Descriptor() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (fd_ < 0) {
    fd_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (fd_ < 0) return Status::System("eventfd", errno);
    if (!queue_.empty()) Raise(fd_);
  }
  return fd_;
}

void EventQueue::Close() {
  const std::lock_guard<std::mutex> lock(mutex_);
  closed_ = true;
  changed_.notify_all();
}

bool EventQueue::closed() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return closed_;
}

uint64_t EventQueue::dropped() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return queue_.dropped();
}

void EventQueue::CloseInForkedChild() {
  if (fd_ >= 0) close(fd_);
  fd_ = -1;
}

}  // namespace ftar::runtime
