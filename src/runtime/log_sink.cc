#include "runtime/log_sink.h"

#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <mutex>

namespace ftar::runtime {
namespace {

struct Target {
  LogHandler handler = nullptr;
  void* user = nullptr;
};

std::mutex& Lock() {
  static std::mutex lock;
  return lock;
}
Target& Current() {
  static Target target;
  return target;
}

}  // namespace

void SetLogHandler(LogHandler handler, void* user) {
  std::lock_guard<std::mutex> guard(Lock());
  Current() = Target{handler, user};
}

bool HasLogHandler() {
  std::lock_guard<std::mutex> guard(Lock());
  return Current().handler != nullptr;
}

void WriteLogLine(LogLevel level, const std::string& line) {
  Target target;
  {
    // The handler is called without the lock, so that a slow one does not hold up other threads,
    // nor itself when it logs.
    std::lock_guard<std::mutex> guard(Lock());
    target = Current();
  }
  if (target.handler != nullptr) {
    target.handler(static_cast<int32_t>(level), line.c_str(), target.user);
    return;
  }
  WriteLineTo(STDERR_FILENO, line);
}

void WriteLineTo(int fd, const std::string& line) {
  // Whoever reads standard error may be gone; that must not end the program, so SIGPIPE is held
  // back, and taken away if it is ours.
  sigset_t pipe, before, pending;
  sigemptyset(&pipe);
  sigaddset(&pipe, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &pipe, &before);
  sigpending(&pending);
  const std::string text = line + "\n";
  const ssize_t done = write(fd, text.data(), text.size());
  if (done < 0 && errno == EPIPE && sigismember(&pending, SIGPIPE) == 0) {
    const timespec now{};
    while (sigtimedwait(&pipe, nullptr, &now) < 0 && errno == EINTR) {
    }
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

}  // namespace ftar::runtime
