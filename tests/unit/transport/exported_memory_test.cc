// Goal: a transport gets from the registry what it registers a GPU's memory by, once there is a
// GPU.
#include "transport/exported_memory.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <utility>

namespace ftar::transport {
namespace {

TEST(ExportedMemoryTest, OpensADmaBufOnceThereIsAGpu) {
  ExportedMemory exports;
  std::byte memory[64] = {};
  EXPECT_EQ(exports.OpenDmaBuf(memory, 64).status().code(), Code::kDevice);
  exports.SetDmaBufOpener(
      [&](const std::byte* data, size_t bytes) -> Expected<ExportedMemory::DmaBuf> {
        if (bytes > 32) return Status(Code::kUnsupported, "too much");
        return ExportedMemory::DmaBuf{UniqueFd(::memfd_create("pages", MFD_CLOEXEC)),
                                      static_cast<size_t>(data - memory)};
      });
  const auto pages = exports.OpenDmaBuf(memory + 8, 16);
  ASSERT_TRUE(pages.ok());
  EXPECT_TRUE(pages->fd.valid());
  EXPECT_EQ(pages->offset, 8u);
  EXPECT_EQ(exports.OpenDmaBuf(memory, 64).status().code(), Code::kUnsupported);
}

}  // namespace
}  // namespace ftar::transport
