// Goal: a process watch that has told what it knows lets its owner sleep.
//
// This program's own write stops a thread that writes while a test wants to be first.
#include "transport/watch.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>

namespace {

std::atomic<int> stops_at{-1};  // a descriptor
std::atomic<bool> stopped{false};

bool WaitUntil(const auto& done) {
  for (int i = 0; i < 5000 && !done(); ++i) ::poll(nullptr, 0, 1);
  return done();
}

}  // namespace

extern "C" ssize_t write(int fd, const void* data, size_t bytes) {
  if (fd == stops_at.load()) {
    stopped = true;
    WaitUntil([] { return stops_at.load() < 0; });
  }
  return syscall(SYS_write, fd, data, bytes);
}

namespace ftar::transport {
namespace {

TEST(ProcessWatch, WhatIsPolledWhileItIsToldKeepsNobodyAwake) {
  const MemberId peer{1, 2};
  auto watch = ProcessWatch::Create(), other = ProcessWatch::Create();
  ASSERT_TRUE(watch.ok() && other.ok());
  UniqueFd segment(::fcntl((*other)->fd(), F_DUPFD_CLOEXEC, 0));
  ASSERT_TRUE((*watch)->Add(peer, std::move(segment), (*other)->Assign({1, 1})).ok());
  const int told = (*watch)->event_fd();
  stops_at = told;
  other->reset();  // in order, which is told like a death
  ASSERT_TRUE(WaitUntil([] { return stopped.load(); }));
  std::vector<MemberId> exited;
  (*watch)->Poll(&exited);
  EXPECT_FALSE((*watch)->Watches(peer));
  stops_at = -1;
  const auto is_quiet = [&] {
    (*watch)->Poll(&exited);
    pollfd ready{told, POLLIN, 0};
    return ::poll(&ready, 1, 0) == 0;
  };
  ::poll(nullptr, 0, 20);  // for what is written late
  EXPECT_TRUE(WaitUntil(is_quiet)) << "whoever sleeps on it is up at once, for ever";
  EXPECT_TRUE(exited.empty());
}

}  // namespace
}  // namespace ftar::transport
