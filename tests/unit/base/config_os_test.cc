// Reading real files: layers, and errors that name the file.
#include "base/config_os.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>

namespace ftar {
namespace {

using testing::HasSubstr;

std::string WriteFile(const char* name, const std::string& text) {
  const std::string path = testing::TempDir() + name;
  std::ofstream(path) << text;
  return path;
}

TEST(LoadConfig, EnvironmentWinsOverTheFileItNames) {
  const std::string path = WriteFile("ftar_load.conf", "window = 3\nplan = ring\n");
  Config config;
  ASSERT_TRUE(LoadConfig({"FTAR_CONF=" + path, "FTAR_PLAN=direct"}, &config).ok());
  EXPECT_EQ(config.integer(KnobId::kWindow), 3);
  EXPECT_EQ(config.text(KnobId::kPlan), "direct");
  EXPECT_EQ(config.Origin(KnobId::kWindow), "ftar.conf " + path + ":1");
}

TEST(LoadConfig, MissingNamedFileIsAnError) {
  Config config;
  const Status status = LoadConfig({"FTAR_CONF=/nonexistent/ftar.conf"}, &config);
  EXPECT_EQ(status.code(), Code::kConfig);
  EXPECT_EQ(status.argument(), "FTAR_CONF");
  EXPECT_THAT(status.text(), HasSubstr("FTAR_CONF: cannot open /nonexistent/ftar.conf"));
}

TEST(ReadToken, TakesTheFirstLineOfTheFileUnlessGiven) {
  const std::string path = WriteFile("ftar_token", "open sesame\r\nignored\n");
  Config config;
  EXPECT_EQ(*ReadToken(config), "");
  ASSERT_TRUE(config.Set(Config::Layer::kProgram, "token_file", path).ok());
  EXPECT_EQ(*ReadToken(config), "open sesame");
  ASSERT_TRUE(config.Set(Config::Layer::kProgram, "token", "direct").ok());
  EXPECT_EQ(*ReadToken(config), "direct");
}

// What somebody says on a command line is not undone by what a launcher has set for all.
TEST(ReadToken, TakesTheFileThatIsNamedNearer) {
  const std::string path = WriteFile("ftar_near_token", "open sesame\n");
  Config config;
  ASSERT_TRUE(LoadConfig({"FTAR_TOKEN=of the launcher"}, &config).ok());
  EXPECT_EQ(*ReadToken(config), "of the launcher");
  ASSERT_TRUE(config.Set(Config::Layer::kProgram, "token_file", path).ok());
  EXPECT_EQ(*ReadToken(config), "open sesame");
  ASSERT_TRUE(config.Set(Config::Layer::kProgram, "token_file", "").ok());
  EXPECT_EQ(*ReadToken(config), "of the launcher");
}

// Nobody may ever write into it: whoever waits for that hangs, here until the test's time is over.
TEST(LoadConfig, WhatIsNoFileIsAnErrorAndNoWait) {
  const std::string pipe = testing::TempDir() + "ftar_pipe_" + std::to_string(getpid());
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  for (const auto& [path, what] : {std::pair(pipe, "a pipe"), {testing::TempDir(), "a folder"}}) {
    Config config;
    const Status status = LoadConfig({"FTAR_CONF=" + path}, &config);
    EXPECT_EQ(status.code(), Code::kConfig);
    EXPECT_THAT(status.text(), HasSubstr(path + " is " + what));
    ASSERT_TRUE(config.Set(Config::Layer::kProgram, "token_file", path).ok());
    EXPECT_EQ(ReadToken(config).status().argument(), "token_file");
    EXPECT_THAT(ReadToken(config).status().text(),
                HasSubstr("token_file: " + path + " is " + what));
  }
  EXPECT_EQ(unlink(pipe.c_str()), 0);
  Config config;
  EXPECT_TRUE(LoadConfig({"FTAR_CONF=/dev/null"}, &config).ok()) << "not even /etc/ftar.conf";
}

TEST(ReadToken, EmptyFileIsAnError) {
  Config config;
  ASSERT_TRUE(
      config.Set(Config::Layer::kProgram, "token_file", WriteFile("ftar_no_token", "\n")).ok());
  EXPECT_EQ(ReadToken(config).status().argument(), "token_file");
}

TEST(ReadEnvironment, SeesThisProcess) {
  const std::vector<std::string> environment = ReadEnvironment();
  EXPECT_FALSE(environment.empty());
  EXPECT_EQ(FindVariable({"AB=1", "A=2"}, "A"), "2");
  EXPECT_EQ(FindVariable({"AB=1"}, "A"), "");
}

}  // namespace
}  // namespace ftar
