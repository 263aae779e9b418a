// Goal: a log_file of any kind keeps nobody waiting, and where it cannot be written that is said.
#include "runtime/logger.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <string>

#include "runtime/log_sink.h"

namespace ftar::runtime {
namespace {

Logger LoggerTo(const std::string& path) {
  Config config;
  EXPECT_TRUE(config.Set(Config::Layer::kProgram, "log_file", path).ok());
  return MakeLogger(config, "test");
}

// What the process's sink hears meanwhile.
class Heard {
 public:
  Heard() {
    SetLogHandler([](int32_t, const char* line, void* user) { Text(user) += line; }, &text_);
  }
  ~Heard() { SetLogHandler(nullptr, nullptr); }
  const std::string& text() const { return text_; }

 private:
  static std::string& Text(void* user) { return *static_cast<std::string*>(user); }
  std::string text_;
};

class LogFile : public testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(mkfifo(pipe_.c_str(), 0600), 0); }
  void TearDown() override { EXPECT_EQ(unlink(pipe_.c_str()), 0); }
  const std::string pipe_ = testing::TempDir() + "ftar_log_pipe_" + std::to_string(getpid());
};

// Without it: a hang, here until the test's time is over.
TEST_F(LogFile, APipeThatNobodyReadsIsAnErrorAndNoWait) {
  const Heard heard;
  LoggerTo(pipe_).Error("test", "a line");
  EXPECT_NE(heard.text().find("log_file " + pipe_ + " cannot be opened"), std::string::npos);
  EXPECT_NE(heard.text().find("nobody reads it"), std::string::npos) << heard.text();
  EXPECT_NE(heard.text().find("test: a line"), std::string::npos) << "not lost";
}

TEST_F(LogFile, APipeThatIsReadGetsTheLines) {
  const int reader = open(pipe_.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  ASSERT_GE(reader, 0);
  LoggerTo(pipe_).Error("test", "a line");
  std::array<char, 200> read_back;
  const ssize_t got = read(reader, read_back.data(), read_back.size());
  close(reader);
  ASSERT_GT(got, 0);
  EXPECT_NE(std::string(read_back.data(), static_cast<size_t>(got)).find("test: a line"),
            std::string::npos);
}

TEST(LogFileOfAnotherKind, DevicesGoOnWorking) {
  const Heard heard;
  LoggerTo("/dev/null");
  EXPECT_EQ(heard.text(), "");
}

}  // namespace
}  // namespace ftar::runtime
