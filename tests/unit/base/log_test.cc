#include "base/log.h"

#include <gtest/gtest.h>

#include <vector>

namespace ftar {
namespace {

constexpr int64_t kSomeTimeNs = 1'795'163'730'123'456'789;

TEST(FormatLogLine, HasLevelTimeWhoRoomText) {
  EXPECT_EQ(FormatLogLine(LogLevel::kWarn, kSomeTimeNs, "train/12ab34cd", "membership",
                          "replica 3 is late"),
            "ftar WARN 2026-11-20T08:35:30.123456Z train/12ab34cd membership: replica 3 is late");
  EXPECT_EQ(FormatLogLine(LogLevel::kInfo, 0, "j/m", "api", ""),
            "ftar INFO 1970-01-01T00:00:00.000000Z j/m api: ");
}

// A peer's text must not be able to forge a second line or drive the terminal.
TEST(FormatLogLine, IsOneLineWithoutControlCharacters) {
  const std::string line =
      FormatLogLine(LogLevel::kError, 0, "j\n/m", "tcp", "refused\r\nftar ERROR forged\x1b[2J");
  for (const char c : line) EXPECT_GE(static_cast<unsigned char>(c), 0x20);
}

TEST(Logger, FiltersByLevelAndUsesTheGivenClock) {
  std::vector<std::string> lines;
  const Logger logger(
      LogLevel::kInfo, "j/m", [] { return kSomeTimeNs; },
      [&](LogLevel, const std::string& line) { lines.push_back(line); });
  EXPECT_TRUE(logger.enabled(LogLevel::kError));
  EXPECT_FALSE(logger.enabled(LogLevel::kDebug));
  logger.Debug("runtime", "hidden");
  logger.Info("runtime", "shown");
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(lines[0], FormatLogLine(LogLevel::kInfo, kSomeTimeNs, "j/m", "runtime", "shown"));
}

TEST(Logger, DefaultAndOffAreSilent) {
  EXPECT_FALSE(Logger().enabled(LogLevel::kError));
  Logger().Error("api", "nobody listens");
  int calls = 0;
  const Logger off(LogLevel::kOff, "j/m", nullptr, [&](LogLevel, const std::string&) { ++calls; });
  off.Error("api", "off");
  EXPECT_EQ(calls, 0);
}

TEST(LogLevel, WordsAndNamesMatch) {
  EXPECT_EQ(ParseLogLevel("off"), LogLevel::kOff);
  EXPECT_EQ(ParseLogLevel("error"), LogLevel::kError);
  EXPECT_EQ(ParseLogLevel("warn"), LogLevel::kWarn);
  EXPECT_EQ(ParseLogLevel("info"), LogLevel::kInfo);
  EXPECT_EQ(ParseLogLevel("debug"), LogLevel::kDebug);
  EXPECT_EQ(ParseLogLevel("trace"), LogLevel::kTrace);
  EXPECT_STREQ(LogLevelName(LogLevel::kTrace), "TRACE");
}

}  // namespace
}  // namespace ftar
