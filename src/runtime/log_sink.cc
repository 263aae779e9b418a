#include "runtime/log_sink.h"

#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <memory>
#include <mutex>

namespace ftar::runtime {
namespace {

struct Handler {
  std::recursive_mutex mutex;  // a handler may itself cause a line
  void (*call)(int32_t, const char*, void*) = nullptr;
  void* user = nullptr;
};

Handler& TheHandler() {
  // Never destroyed: a thread of a job may log while the process ends.
  static Handler* const handler = new Handler;
  return *handler;
}

// Owns the log file's descriptor as long as any logger uses it.
struct File {
  int fd = -1;
  ~File() {
    if (fd >= 0) close(fd);
  }
};

std::shared_ptr<File> OpenFile(std::string path) {
  auto file = std::make_shared<File>();
  if (path.empty()) return file;
  if (const size_t at = path.find("%p"); at != std::string::npos) {
    path.replace(at, 2, std::to_string(getpid()));
  }
  file->fd = open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (file->fd < 0) {
    const std::string text =
        "ftar: log_file " + path + " cannot be opened: " + strerror(errno) + "\n";
    [[maybe_unused]] const ssize_t done = write(STDERR_FILENO, text.data(), text.size());
  }
  return file;
}

int64_t WallClockNs() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
}

}  // namespace

void SetLogHandler(void (*handler)(int32_t, const char*, void*), void* user) {
  Handler& the = TheHandler();
  const std::lock_guard<std::recursive_mutex> lock(the.mutex);
  the.call = handler;
  the.user = user;
}

Logger MakeLogger(const Config& config, const std::string& who) {
  const LogLevel level = ParseLogLevel(config.text(KnobId::kLog));
  std::shared_ptr<File> file = OpenFile(config.text(KnobId::kLogFile));
  return Logger(level, who, WallClockNs, [file](LogLevel line_level, const std::string& line) {
    Handler& the = TheHandler();
    const std::lock_guard<std::recursive_mutex> lock(the.mutex);
    if (the.call != nullptr) {
      the.call(static_cast<int32_t>(line_level), line.c_str(), the.user);
      return;
    }
    // One write a line, so that lines of several processes do not mix.
    const std::string whole = line + "\n";
    const int fd = file->fd >= 0 ? file->fd : STDERR_FILENO;
    [[maybe_unused]] const ssize_t done = write(fd, whole.data(), whole.size());
  });
}

}  // namespace ftar::runtime
