#include "runtime/log_sink.h"

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
  WriteLineTo(STDERR_FILENO, line);
}

void WriteLineTo(int fd, const std::string& line) {
  // Whoever reads standard error may be gone, and a file be as large as it may; that must not end
  // the program.
  const SignalWithheld pipe(SIGPIPE), full(SIGXFSZ);
  const std::string text = line + "\n";
  static_cast<void>(!write(fd, text.data(), text.size()));
}

}  // namespace ftar::runtime
