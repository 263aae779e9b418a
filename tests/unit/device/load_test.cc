// Goal: a library that is not there, or is none of ours, is a reason and not a crash.
#include "device/load.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ftar::device {
namespace {

using testing::HasSubstr;

TEST(LoadTest, SaysWhichLibraryIsMissing) {
  const auto gpu = OpenGpu("/nowhere/libftar-cuda.so", 0);
  ASSERT_FALSE(gpu.ok());
  EXPECT_EQ(gpu.status().code(), Code::kDevice);
  EXPECT_THAT(gpu.status().text(), HasSubstr("/nowhere/libftar-cuda.so"));
}

TEST(LoadTest, RefusesALibraryThatIsNotOurs) {
  const auto gpu = OpenGpu("libc.so.6", 0);
  ASSERT_FALSE(gpu.ok());
  EXPECT_EQ(gpu.status().code(), Code::kDevice);
  EXPECT_THAT(gpu.status().text(), HasSubstr("libc.so.6"));
}

}  // namespace
}  // namespace ftar::device
