#include "runtime/log_sink.h"

#include <unistd.h>

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
  // One write, so that lines of several processes on one terminal do not mix. What cannot be
  // written is lost: there is no better place to say so.
  const std::string text = line + "\n";
  const ssize_t ignored = write(STDERR_FILENO, text.data(), text.size());
  static_cast<void>(ignored);
}

}  // namespace ftar::runtime
