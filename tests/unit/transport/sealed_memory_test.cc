// Goal: shared memory is made where the kernel refuses memory that might be executed, as some do
// with vm.memfd_noexec=2, and where it does not know that one can ask for another kind.
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include "transport/sealed_memory.h"

namespace {

constexpr unsigned kNoExecSeal = 8, kKnownBefore = 7;
enum class MemoryKernel { kThis, kRefusesExecutable, kOld };
MemoryKernel memory_kernel = MemoryKernel::kThis;

}  // namespace

extern "C" int memfd_create(const char* name, unsigned flags) noexcept {
  const bool refused =
      memory_kernel == MemoryKernel::kRefusesExecutable && (flags & kNoExecSeal) == 0;
  const bool unknown = memory_kernel == MemoryKernel::kOld && (flags & ~kKnownBefore) != 0;
  if (refused || unknown) {
    errno = refused ? EACCES : EINVAL;
    return -1;
  }
  if (memory_kernel == MemoryKernel::kRefusesExecutable) flags &= kKnownBefore;  // this may be old
  return static_cast<int>(syscall(SYS_memfd_create, name, flags));
}

namespace ftar::transport {
namespace {

class SealedMemoryOn : public testing::TestWithParam<MemoryKernel> {
 protected:
  void SetUp() override { memory_kernel = GetParam(); }
  void TearDown() override { memory_kernel = MemoryKernel::kThis; }
};

TEST_P(SealedMemoryOn, IsMadeAndMapped) {
  const auto sealed = CreateSealedMemory("test", 4096, Pages::kNow);
  ASSERT_TRUE(sealed.ok()) << sealed.status().text();
  const auto mapped = MapSealedMemory(sealed->fd, 4096, 4096);
  EXPECT_TRUE(mapped.ok()) << mapped.status().text();
}

INSTANTIATE_TEST_SUITE_P(Kernels, SealedMemoryOn,
                         testing::Values(MemoryKernel::kThis, MemoryKernel::kRefusesExecutable,
                                         MemoryKernel::kOld));

}  // namespace
}  // namespace ftar::transport
