// Log lines: levels, format, and a Logger that hands finished lines to a sink. Nothing here prints,
// opens or asks a clock: the runtime gives the sink and the time. The line is
//   ftar <LEVEL> <UTC time> <job/member> <room>: text
// and always one line: control characters of the text, which may come from a peer, are replaced.
// Log and enabled may be called from any thread if the sink and the clock may; setting up is for
// one thread.
#ifndef FTAR_BASE_LOG_H_
#define FTAR_BASE_LOG_H_

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace ftar {

// The public levels of ftarSetLogHandler; lower is graver.
enum class LogLevel : int32_t {
  kOff = 0,
  kError = 1,
  kWarn = 2,
  kInfo = 3,
  kDebug = 4,
  kTrace = 5
};

const char* LogLevelName(LogLevel level);
// Of the words of knob `log`; kWarn for anything else.
LogLevel ParseLogLevel(std::string_view word);

// `wall_ns` is since 1970. `who` is "job/member".
std::string FormatLogLine(LogLevel level, int64_t wall_ns, std::string_view who,
                          std::string_view room, std::string_view text);

class Logger {
 public:
  using Sink = std::function<void(LogLevel level, const std::string& line)>;
  using WallClock = std::function<int64_t()>;  // ns since 1970

  Logger() = default;  // silent
  Logger(LogLevel level, std::string who, WallClock clock, Sink sink);

  // Ask before building an expensive text.
  bool enabled(LogLevel level) const { return sink_ != nullptr && level <= level_; }
  void Log(LogLevel level, std::string_view room, std::string_view text) const;

  void Error(std::string_view room, std::string_view text) const {
    Log(LogLevel::kError, room, text);
  }
  void Warn(std::string_view room, std::string_view text) const {
    Log(LogLevel::kWarn, room, text);
  }
  void Info(std::string_view room, std::string_view text) const {
    Log(LogLevel::kInfo, room, text);
  }
  void Debug(std::string_view room, std::string_view text) const {
    Log(LogLevel::kDebug, room, text);
  }

 private:
  LogLevel level_ = LogLevel::kOff;
  std::string who_;
  WallClock clock_;
  Sink sink_;
};

}  // namespace ftar

#endif  // FTAR_BASE_LOG_H_
