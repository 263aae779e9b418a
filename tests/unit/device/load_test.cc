// Goal: a library that is not there, or is none of ours, is a reason and not a crash.
#include "device/load.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>

#include <cstdio>

#include "device/aside.h"

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

// What a transport with a card of its own would register: the bytes behind the descriptor are the
// device's, at the offset.
TEST(LoadTest, DeviceMemoryHasADescriptorForANetworkCard) {
  auto opened = OpenGpu(FTAR_FAKE_GPU, 0);
  ASSERT_TRUE(opened.ok()) << opened.status().text();
  const std::shared_ptr<Gpu> gpu = CallAside(std::move(*opened), kSecond);
  const auto block = gpu->AllocateShared(3 * 4096);
  ASSERT_TRUE(block.ok());
  auto* const address = static_cast<std::byte*>(block->address) + 5000;
  const char bytes[] = "what the card reads";
  ASSERT_EQ(pwrite(block->descriptor, bytes, sizeof bytes, 5000), ssize_t{sizeof bytes});
  const auto pages = gpu->OpenDmaBuf(address, sizeof bytes);
  ASSERT_TRUE(pages.ok()) << pages.status().text();
  char seen[sizeof bytes] = {};
  EXPECT_EQ(pread(pages->descriptor, seen, sizeof seen, static_cast<off_t>(pages->offset)),
            ssize_t{sizeof seen});
  EXPECT_STREQ(seen, bytes);
  close(pages->descriptor);
  EXPECT_FALSE(gpu->OpenDmaBuf(bytes, sizeof bytes).ok()) << "the host's memory";
  EXPECT_FALSE(gpu->OpenDmaBuf(address, block->bytes).ok()) << "more than there is";
  EXPECT_TRUE(gpu->FreeShared(block->address).ok());
  close(block->descriptor);
}

}  // namespace
}  // namespace ftar::device
