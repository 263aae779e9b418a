// Goal: a Gpu by CUDA keeps to the driver's rules, whatever its user's threads are at, and gives
// back what it takes.
#include "cuda_gpu.h"

#include <gtest/gtest.h>

#include <fcntl.h>

#include <memory>
#include <thread>

#include "kernels/launch.h"
#include "tests/unit/cuda/strict_driver.h"

// What is launched is the driver's business, too, and nobody's here.
namespace ftar::kernels {

Status Launch(const Batch&, void*, FenceDomain) {
  return strict_driver::CurrentContexts() > 0 ? Status::Ok() : Status(Code::kDevice, "no context");
}
Status LaunchResident(void*, int, void*) { return Launch({}, nullptr, FenceDomain::kRemote); }
Status LoadAll() { return Launch({}, nullptr, FenceDomain::kRemote); }

}  // namespace ftar::kernels

namespace ftar::device {
namespace {

using strict_driver::TheMachine;

constexpr size_t kBytes = 3000;

class CudaGpuTest : public testing::Test {
 protected:
  void TearDown() override {
    TheMachine() = {};
    EXPECT_EQ(strict_driver::Allocations(), 0u);
    EXPECT_EQ(strict_driver::Reservations(), 0u);
    EXPECT_EQ(strict_driver::CurrentContexts(), 0u) << "the user's thread finds its own again";
    EXPECT_EQ(strict_driver::ModeOfThread(), CU_STREAM_CAPTURE_MODE_GLOBAL);
    EXPECT_FALSE(strict_driver::CaptureIsBroken());
  }
  static std::unique_ptr<Gpu> Open() {
    auto gpu = CudaGpu::Open(0);
    EXPECT_TRUE(gpu.ok()) << gpu.status().text();
    return std::move(*gpu);
  }
};

TEST_F(CudaGpuTest, SharedMemoryOutlivesItsExporter) {
  const auto gpu = Open();
  EXPECT_TRUE(gpu->facts().shares_memory);
  const auto block = gpu->AllocateShared(kBytes);
  ASSERT_TRUE(block.ok()) << block.status().text();
  EXPECT_EQ(fcntl(block->descriptor, F_GETFD), FD_CLOEXEC);
  const auto imported = gpu->Import(block->descriptor, block->bytes);
  ASSERT_TRUE(imported.ok()) << imported.status().text();
  EXPECT_TRUE(gpu->FreeShared(block->address).ok());
  EXPECT_EQ(fcntl(block->descriptor, F_GETFD), -1);
  EXPECT_TRUE(gpu->Holds(*imported, block->bytes));
  EXPECT_TRUE(gpu->Unmap(*imported).ok());
}

TEST_F(CudaGpuTest, NothingBreaksTheCaptureOfAGraph) {
  TheMachine().captures = true;
  const auto gpu = Open();
  const auto block = gpu->AllocateShared(kBytes);
  const auto pinned = gpu->AllocatePinned(kBytes);
  ASSERT_TRUE(block.ok()) << block.status().text();
  ASSERT_TRUE(pinned.ok()) << pinned.status().text();
  EXPECT_EQ(reinterpret_cast<uintptr_t>(*pinned) % 4096, 0u);
  const auto stream = reinterpret_cast<StreamHandle>(0x3000);
  EXPECT_TRUE(gpu->EnqueueGate(stream, static_cast<Gate*>(*pinned), block->address).ok());
  EXPECT_TRUE(gpu->LoadKernels().ok());
  EXPECT_TRUE(gpu->Launch({}, static_cast<uint64_t*>(*pinned), 1).ok());
  EXPECT_TRUE(gpu->LaunchResident(*pinned, 1).ok());
  EXPECT_TRUE(gpu->Health().ok());
  EXPECT_TRUE(gpu->FreePinned(*pinned).ok());
  EXPECT_TRUE(gpu->FreeShared(block->address).ok());
}

}  // namespace
}  // namespace ftar::device
