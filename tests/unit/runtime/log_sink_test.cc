// Goal: a line of the log is lost where it would have to wait, and goes to no descriptor but the
// one that it is meant for.
#include "runtime/log_sink.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <string>

namespace ftar::runtime {
namespace {

TEST(LogSink, APipeThatNobodyReadsKeepsNobody) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  ASSERT_EQ(fcntl(ends[1], F_SETFL, O_NONBLOCK), 0);
  const std::array<char, 4096> some{};
  while (write(ends[1], some.data(), some.size()) > 0) continue;
  ASSERT_EQ(fcntl(ends[1], F_SETFL, 0), 0);
  WriteLineTo(ends[1], "a line");  // returns
  std::array<char, 4096> read_back;
  ASSERT_EQ(read(ends[0], read_back.data(), read_back.size()), 4096);
  WriteLineTo(ends[1], std::string(10'000, 'x'));  // no more than there is room for
  close(ends[0]);
  close(ends[1]);
}

TEST(LogSink, ASocketThatHasTheNumberOfStandardErrorIsNone) {
  struct stat at_start;
  if (fstat(STDERR_FILENO, &at_start) != 0 || S_ISSOCK(at_start.st_mode))
    GTEST_SKIP() << "standard error is closed, or a socket itself";
  const int errors = dup(STDERR_FILENO);
  close(STDERR_FILENO);
  int ends[2];
  const int made = socketpair(AF_UNIX, SOCK_STREAM, 0, ends);
  const bool reused = made == 0 && (ends[0] == STDERR_FILENO || ends[1] == STDERR_FILENO);
  if (made == 0) WriteLogLine(LogLevel::kError, "a line");
  pollfd other{ends[ends[0] == STDERR_FILENO ? 1 : 0], POLLIN, 0};
  const int heard = poll(&other, 1, 0);
  close(other.fd);
  dup2(errors, STDERR_FILENO);
  close(errors);
  ASSERT_TRUE(reused);
  EXPECT_EQ(heard, 0);
}

}  // namespace
}  // namespace ftar::runtime
