#include "runtime/logger.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <memory>

#include "runtime/log_sink.h"

namespace ftar::runtime {
namespace {

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
  // A pipe without a reader is an error instead of a wait for one.
  constexpr int kFlags = O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
  file->fd = open(path.c_str(), kFlags, 0644);
  if (file->fd < 0) {
    const bool no_reader = errno == ENXIO;
    const Status reason = Status::System("log_file " + path + " cannot be opened", errno);
    WriteLogLine(LogLevel::kError,
                 "ftar ERROR " + reason.text() + (no_reader ? "; if a pipe, nobody reads it" : ""));
  }
  return file;
}

int64_t WallClockNs() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
}

}  // namespace

Logger MakeLogger(const Config& config, const std::string& who) {
  const std::shared_ptr<File> file = OpenFile(config.text(KnobId::kLogFile));
  return Logger(ParseLogLevel(config.text(KnobId::kLog)), who, WallClockNs,
                [file](LogLevel level, const std::string& line) {
                  if (file->fd < 0 || HasLogHandler()) return WriteLogLine(level, line);
                  WriteLineTo(file->fd, line);
                });
}

}  // namespace ftar::runtime
