#include "runtime/log_sink.h"

#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <mutex>

#include "base/signals_os.h"

namespace ftar::runtime {
namespace {

struct Target {
  LogHandler handler = nullptr;
  void* user = nullptr;
};

std::mutex& TargetMutex() {
  static std::mutex mutex;
  return mutex;
}
Target& Current() {
  static Target target;
  return target;
}

constexpr size_t kLineMax = 4096;  // a pipe that has room has room for so much

mode_t TypeOf(int fd) {
  struct stat status;
  return fstat(fd, &status) == 0 ? status.st_mode & S_IFMT : 0;
}

const bool g_errors_go_to_a_socket = TypeOf(STDERR_FILENO) == S_IFSOCK;

// Where a program has closed its standard error, one of our own sockets may have that number now.
bool IsStandardError() {
  const mode_t type = TypeOf(STDERR_FILENO);
  return type == S_IFCHR || type == S_IFIFO || type == S_IFREG ||
         (type == S_IFSOCK && g_errors_go_to_a_socket);
}

}  // namespace

void SetLogHandler(LogHandler handler, void* user) {
  std::lock_guard<std::mutex> guard(TargetMutex());
  Current() = Target{handler, user};
}

bool HasLogHandler() {
  std::lock_guard<std::mutex> guard(TargetMutex());
  return Current().handler != nullptr;
}

void WriteLogLine(LogLevel level, const std::string& line) {
  Target target;
  {
    // The handler is called without the lock, so that a slow one does not hold up other threads,
    // nor itself when it logs.
    std::lock_guard<std::mutex> guard(TargetMutex());
    target = Current();
  }
  if (target.handler != nullptr) {
    target.handler(static_cast<int32_t>(level), line.c_str(), target.user);
    return;
  }
  if (IsStandardError()) WriteLineTo(STDERR_FILENO, line);
}

void WriteLineTo(int fd, const std::string& line) {
  // Whoever reads standard error may be gone, and a file be as large as it may; that must not end
  // the program.
  const SignalWithheld pipe(SIGPIPE), full(SIGXFSZ);
  // Or stand still: the caller holds locks that others wait for.
  pollfd look{fd, POLLOUT, 0};
  if (poll(&look, 1, 0) != 1 || (look.revents & POLLOUT) == 0) return;
  const std::string text = line.substr(0, kLineMax - 1) + "\n";
  static_cast<void>(!write(fd, text.data(), text.size()));
}

}  // namespace ftar::runtime
