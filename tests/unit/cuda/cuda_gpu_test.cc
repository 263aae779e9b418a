// Goal: a Gpu by CUDA keeps to the driver's rules, whatever its user's threads are at, gives back
// what it takes, and does without what a machine does not let it do.
#include "cuda_gpu.h"

#include <gtest/gtest.h>

#include <fcntl.h>
#include <unistd.h>

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
    EXPECT_EQ(strict_driver::OpenDescriptors(), 0u);
    EXPECT_EQ(strict_driver::CurrentContexts(), 0u) << "the user's thread finds its own again";
    EXPECT_EQ(strict_driver::ModeOfThread(), CU_STREAM_CAPTURE_MODE_GLOBAL);
    EXPECT_FALSE(strict_driver::CaptureIsBroken());
  }
  static std::unique_ptr<Gpu> Open() {
    auto gpu = CudaGpu::Open(0);
    EXPECT_TRUE(gpu.ok()) << gpu.status().text();
    return std::move(*gpu);
  }
  // Memory that is this process's alone serves as well as any other.
  static void ExpectUnshared(Gpu* gpu) {
    const auto block = gpu->AllocateShared(kBytes);
    ASSERT_TRUE(block.ok()) << block.status().text();
    EXPECT_EQ(block->descriptor, -1);
    EXPECT_EQ(gpu->Identify(block->address).kind, PointerKind::kDevice);
    EXPECT_TRUE(gpu->Holds(block->address, kBytes));
    EXPECT_TRUE(gpu->FreeShared(block->address).ok());
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
  EXPECT_EQ(close(block->descriptor), 0) << "the caller's alone";
  EXPECT_TRUE(gpu->Holds(*imported, block->bytes));
  EXPECT_TRUE(gpu->Unmap(*imported).ok());
}

TEST_F(CudaGpuTest, WhereNothingCanBeSharedThereIsMemoryAllTheSame) {
  TheMachine().has_descriptors = false;
  const auto gpu = Open();
  EXPECT_FALSE(gpu->facts().shares_memory);
  ExpectUnshared(gpu.get());
  EXPECT_EQ(gpu->Import(0, 2 << 20).status().code(), Code::kUnsupported);
}

// As in a sandbox that lets no descriptor out of the driver.
TEST_F(CudaGpuTest, WhatIsNotExportedIsMemoryAllTheSame) {
  TheMachine().refuses_to_export = true;
  ExpectUnshared(Open().get());
}

TEST_F(CudaGpuTest, WhatCouldBeExportedIsNotMadeInASandbox) {
  TheMachine().refuses_shared = true;
  ExpectUnshared(Open().get());
}

TEST_F(CudaGpuTest, AnImportMayHaveToBeMappedForWriting) {
  TheMachine().maps_read_only = false;
  const auto gpu = Open();
  const auto block = gpu->AllocateShared(kBytes);
  ASSERT_TRUE(block.ok()) << block.status().text();
  const auto imported = gpu->Import(block->descriptor, block->bytes);
  ASSERT_TRUE(imported.ok()) << imported.status().text();
  EXPECT_TRUE(gpu->Holds(*imported, block->bytes));
  EXPECT_TRUE(gpu->Unmap(*imported).ok());
  EXPECT_TRUE(gpu->FreeShared(block->address).ok());
  close(block->descriptor);
}

// No kernel of ours reaches it, and one that tried would break the primary context.
TEST_F(CudaGpuTest, MemoryOfAContextOfTheProgramsOwnIsKnown) {
  const auto gpu = Open();
  const auto block = gpu->AllocateShared(kBytes);
  ASSERT_TRUE(block.ok()) << block.status().text();
  close(block->descriptor);
  for (const CUcontext ours : {CUcontext{}, strict_driver::PrimaryContext()}) {
    TheMachine().owner = ours;
    EXPECT_EQ(gpu->Identify(block->address).kind, PointerKind::kDevice);
  }
  TheMachine().owner = strict_driver::UsersContext();
  EXPECT_EQ(gpu->Identify(block->address).kind, PointerKind::kForeign);
  TheMachine().is_green = true;
  EXPECT_EQ(gpu->Identify(block->address).kind, PointerKind::kDevice);
  EXPECT_TRUE(gpu->FreeShared(block->address).ok());
}

TEST_F(CudaGpuTest, StreamsOfAContextOfTheProgramsOwnAreRefused) {
  const auto gpu = Open();
  const auto driver = Driver::Load();
  const auto stream = reinterpret_cast<StreamHandle>(0x3000);
  EXPECT_TRUE(gpu->Captures(stream).ok());
  EXPECT_TRUE(gpu->Captures(nullptr).ok()) << "of a thread without a context";
  TheMachine().streams_owner = strict_driver::UsersContext();
  EXPECT_EQ(gpu->Captures(stream).status().code(), Code::kArg);
  {
    const CurrentContext users(**driver, strict_driver::UsersContext());
    EXPECT_EQ(gpu->Captures(nullptr).status().code(), Code::kArg);
  }
  const CurrentContext primary(**driver, strict_driver::PrimaryContext());
  EXPECT_TRUE(gpu->Captures(nullptr).ok());
  TheMachine().is_green = true;
  EXPECT_TRUE(gpu->Captures(stream).ok());
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
  EXPECT_TRUE(gpu->Captures(stream).ok());
  EXPECT_TRUE(gpu->Captures(nullptr).ok());
  const auto driver = Driver::Load();
  ASSERT_TRUE(driver.ok());
  EXPECT_EQ(DeviceOfStream(**driver, stream), 0);
  EXPECT_TRUE(gpu->EnqueueGate(stream, static_cast<Gate*>(*pinned), block->address).ok());
  EXPECT_TRUE(gpu->LoadKernels().ok());
  EXPECT_TRUE(gpu->Launch({}, static_cast<uint64_t*>(*pinned), 1).ok());
  EXPECT_TRUE(gpu->LaunchResident(*pinned, 1).ok());
  EXPECT_TRUE(gpu->Health().ok());
  EXPECT_TRUE(gpu->FreePinned(*pinned).ok());
  EXPECT_TRUE(gpu->FreeShared(block->address).ok());
  close(block->descriptor);
}

TEST_F(CudaGpuTest, AContextThatIsBrokenIsNoHostMemory) {
  const auto driver = Driver::Load();
  ASSERT_TRUE(driver.ok());
  int host = 0;
  EXPECT_EQ(IdentifyPointer(**driver, &host).kind, PointerKind::kHost);
  TheMachine().is_broken = true;
  EXPECT_EQ(IdentifyPointer(**driver, &host).kind, PointerKind::kUnknown);
}

}  // namespace
}  // namespace ftar::device
