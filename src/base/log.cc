#include "base/log.h"

#include <chrono>
#include <cstdio>
#include <utility>

namespace ftar {
namespace {

// "2026-11-20T08:15:30.123456Z". Calendar arithmetic only, so it needs no time zone data.
std::string FormatTime(int64_t wall_ns) {
  using std::chrono::days;
  const std::chrono::sys_time<std::chrono::nanoseconds> time{std::chrono::nanoseconds(wall_ns)};
  const auto day = std::chrono::floor<days>(time);
  const std::chrono::year_month_day date(day);
  const std::chrono::hh_mm_ss clock(std::chrono::floor<std::chrono::microseconds>(time - day));
  char out[64];
  snprintf(out, sizeof out, "%04d-%02u-%02uT%02d:%02d:%02d.%06dZ", static_cast<int>(date.year()),
           static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
           static_cast<int>(clock.hours().count()), static_cast<int>(clock.minutes().count()),
           static_cast<int>(clock.seconds().count()), static_cast<int>(clock.subseconds().count()));
  return out;
}

}  // namespace

const char* LogLevelName(LogLevel level) {
  switch (level) {
    case LogLevel::kOff: return "OFF";
    case LogLevel::kError: return "ERROR";
    case LogLevel::kWarn: return "WARN";
    case LogLevel::kInfo: return "INFO";
    case LogLevel::kDebug: return "DEBUG";
    case LogLevel::kTrace: return "TRACE";
  }
  return "?";
}

LogLevel ParseLogLevel(std::string_view word) {
  if (word == "off") return LogLevel::kOff;
  if (word == "error") return LogLevel::kError;
  if (word == "info") return LogLevel::kInfo;
  if (word == "debug") return LogLevel::kDebug;
  if (word == "trace") return LogLevel::kTrace;
  return LogLevel::kWarn;
}

std::string FormatLogLine(LogLevel level, int64_t wall_ns, std::string_view who,
                          std::string_view room, std::string_view text) {
  std::string line = "ftar ";
  line += LogLevelName(level);
  line += ' ';
  line += FormatTime(wall_ns);
  line += ' ';
  line += who;
  line += ' ';
  line += room;
  line += ": ";
  line += text;
  for (char& c : line) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = ' ';
  }
  return line;
}

Logger::Logger(LogLevel level, std::string who, WallClock clock, Sink sink)
    : level_(level), who_(std::move(who)), clock_(std::move(clock)), sink_(std::move(sink)) {}

void Logger::Log(LogLevel level, std::string_view room, std::string_view text) const {
  if (!enabled(level)) return;
  sink_(level, FormatLogLine(level, clock_ ? clock_() : 0, who_, room, text));
}

}  // namespace ftar
