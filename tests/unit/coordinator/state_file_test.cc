// Goal: what was written is read by the next start, whatever happened in between; a file that
// cannot be used is named and never taken for an empty one.
#include "coordinator/state_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace ftar::coordinator {
namespace {

using membership::CoordinatorRecord;
using testing::HasSubstr;

class StateFile : public testing::Test {
 protected:
  void SetUp() override {
    char folder[] = "/tmp/ftar_state_XXXXXX";
    ASSERT_NE(mkdtemp(folder), nullptr);
    folder_ = folder;
    path_ = folder_ + "/state";
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  void Put(const std::string& text) const { std::ofstream(path_) << text; }
  std::string WhyNot(const std::string& job = "job") const {
    const Expected<CoordinatorRecord> read = ReadState(path_, job);
    if (read.ok()) return "";
    EXPECT_EQ(read.status().code(), Code::kConfig);
    EXPECT_EQ(read.status().argument(), "state");
    EXPECT_THAT(read.status().text(), HasSubstr(path_));
    return read.status().text();
  }

  std::string folder_, path_;
};

TEST_F(StateFile, NoneIsAnEmptyRecord) {
  const Expected<CoordinatorRecord> read = ReadState(path_, "job");
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(read->job, "job");
  EXPECT_EQ(read->epoch, 0u);
  EXPECT_FALSE(read->view);
}

TEST_F(StateFile, TheLastOneCounts) {
  for (uint64_t counter : {3, 4}) {
    const CoordinatorRecord record{"job", MakeEpoch(counter, 1), wire::View{}};
    ASSERT_TRUE(WriteState(path_, record).ok());
    const Expected<CoordinatorRecord> read = ReadState(path_, "job");
    ASSERT_TRUE(read.ok()) << read.status().ToString();
    EXPECT_EQ(read->epoch, record.epoch);
    EXPECT_TRUE(read->view);
    EXPECT_FALSE(std::filesystem::exists(path_ + ".tmp"));
  }
}

TEST_F(StateFile, WhatIsNoRecordIsNamed) {
  Put("");
  EXPECT_THAT(WhyNot(), HasSubstr("cut off"));
  Put("no record, but long enough to be one");
  EXPECT_THAT(WhyNot(), HasSubstr("no coordinator's state"));
  ASSERT_TRUE(WriteState(path_, {"job", MakeEpoch(3, 1), wire::View{}}).ok());
  std::filesystem::resize_file(path_, std::filesystem::file_size(path_) - 1);
  EXPECT_THAT(WhyNot(), HasSubstr("cut off"));
  std::filesystem::remove(path_);
  std::filesystem::create_directory(path_);
  EXPECT_THAT(WhyNot(), HasSubstr("cannot read"));
}

TEST_F(StateFile, APipeIsNotWaitedFor) {
  ASSERT_EQ(mkfifo(path_.c_str(), S_IRUSR | S_IWUSR), 0);
  EXPECT_NE(WhyNot(), "");
}

TEST_F(StateFile, AnotherJobsIsNotUsed) {
  ASSERT_TRUE(WriteState(path_, {"yours", MakeEpoch(3, 1), wire::View{}}).ok());
  EXPECT_THAT(WhyNot("mine"), HasSubstr("is of job 'yours', this is job 'mine'"));
  EXPECT_EQ(WhyNot("yours"), "");
  EXPECT_EQ(WhyNot(""), "") << "any";
}

TEST_F(StateFile, AFullDiskLeavesTheOldOne) {
  const CoordinatorRecord old{"job", MakeEpoch(3, 1), wire::View{}};
  ASSERT_TRUE(WriteState(path_, old).ok());
  ASSERT_EQ(symlink("/dev/full", (path_ + ".tmp").c_str()), 0);
  const Status status = WriteState(path_, {"job", MakeEpoch(4, 1), wire::View{}});
  EXPECT_THAT(status.text(), HasSubstr("No space left"));
  EXPECT_THAT(status.text(), HasSubstr(path_));
  EXPECT_EQ(ReadState(path_, "job")->epoch, old.epoch);
}

TEST_F(StateFile, LinksAreFollowedToWhatTheyName) {
  std::filesystem::create_directory(folder_ + "/disk");
  std::filesystem::create_symlink("disk/second", folder_ + "/first");  // nothing is there yet
  std::filesystem::create_symlink(folder_ + "/state", folder_ + "/disk/second");
  EXPECT_EQ(FollowStateLinks(folder_ + "/first").value(), path_);
  EXPECT_EQ(FollowStateLinks(path_).value(), path_);
  EXPECT_EQ(FollowStateLinks("no/such/file").value(), "no/such/file");
  std::filesystem::create_symlink("circle", folder_ + "/circle");
  const auto circle = FollowStateLinks(folder_ + "/circle");
  ASSERT_FALSE(circle.ok());
  EXPECT_THAT(circle.status().text(), HasSubstr(folder_ + "/circle"));
}

TEST_F(StateFile, ANameWithoutAFolder) {
  const std::filesystem::path here = std::filesystem::current_path();
  std::filesystem::current_path(folder_);
  EXPECT_TRUE(WriteState("state", {}).ok());
  std::filesystem::current_path(here);
  EXPECT_TRUE(std::filesystem::exists(path_));
}

}  // namespace
}  // namespace ftar::coordinator
