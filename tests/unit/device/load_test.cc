// Goal: a library that is not there, or is none of ours, is a reason and not a crash.
#include "device/load.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>

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

TEST(LoadTest, LibftarCudaOpensOrSaysWhyNot) {
#ifdef FTAR_CUDA_LIBRARY
  const auto gpu = OpenGpu(FTAR_CUDA_LIBRARY, -1);
  if (gpu.ok()) {
    EXPECT_FALSE((*gpu)->facts().name.empty());
    return;
  }
  EXPECT_EQ(gpu.status().code(), Code::kDevice);
  // The driver's words, not the dynamic linker's: the library itself needs nothing that is missing.
  EXPECT_THAT(gpu.status().text(), testing::AnyOf(HasSubstr("driver"), HasSubstr("device")));
  std::printf("no GPU: %s\n", gpu.status().text().c_str());
#else
  GTEST_SKIP() << "built without nvcc, so there is no libftar-cuda.so";
#endif
}

}  // namespace
}  // namespace ftar::device
