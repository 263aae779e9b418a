// Goal: a GPU's blocks are cut from pieces that grow, so that a gigabyte takes a few calls of the
// driver, small jobs take little, and a GPU that is nearly full gives what it has.
#include <gtest/gtest.h>

#include <cstdint>
#include <iterator>
#include <map>
#include <utility>
#include <vector>

#include "runtime/accelerator.h"

namespace ftar::runtime {
namespace {

constexpr size_t kMiB = size_t{1} << 20;

// Gives out addresses that nobody may follow, as far as its memory goes.
class CountingGpu final : public device::Gpu {
 public:
  std::vector<size_t> pieces;
  size_t free_bytes = SIZE_MAX;

  const device::Facts& facts() const override { return facts_; }
  device::PointerFacts Identify(const void*) const override { return {}; }
  bool Holds(const void*, size_t) const override { return true; }
  Expected<device::SharedBlock> AllocateShared(size_t bytes) override {
    const Expected<void*> address = Allocate(bytes);
    if (!address.ok()) return address.status();
    return device::SharedBlock{.address = *address, .bytes = bytes};
  }
  Status FreeShared(void*) override { return Status::Ok(); }
  Expected<void*> Import(int, size_t) override { return Missing(); }
  Status Unmap(void*) override { return Missing(); }
  Expected<void*> AllocatePinned(size_t bytes) override { return Allocate(bytes); }
  Status FreePinned(void*) override { return Status::Ok(); }
  Status EnqueueGate(device::StreamHandle, device::Gate*, void*) override { return Missing(); }
  Expected<bool> Captures(device::StreamHandle) override { return false; }
  Status LoadKernels() override { return Status::Ok(); }
  Status Launch(const kernels::Batch&, uint64_t*, uint64_t) override { return Missing(); }
  Status LaunchResident(void*, int) override { return Missing(); }
  Status Health() override { return Status::Ok(); }

 private:
  static Status Missing() { return Status(Code::kUnsupported, "not in these tests"); }
  Expected<void*> Allocate(size_t bytes) {
    if (bytes > free_bytes) return Status(Code::kMemory, "full");
    free_bytes -= bytes;
    pieces.push_back(bytes);
    return reinterpret_cast<void*>(std::exchange(next_, next_ + bytes));
  }
  device::Facts facts_;
  uintptr_t next_ = uintptr_t{1} << 40;
};

size_t Sum(const std::vector<size_t>& pieces) {
  size_t sum = 0;
  for (const size_t bytes : pieces) sum += bytes;
  return sum;
}

// So many blocks, none of which touches another.
void ExpectApart(GpuBlocks* blocks, size_t count, size_t bytes) {
  std::map<std::byte*, size_t> all;
  for (size_t i = 0; i < count; ++i) {
    std::byte* const block = blocks->Allocate(bytes);
    ASSERT_NE(block, nullptr);
    all[block] = bytes;
  }
  ASSERT_EQ(all.size(), count);
  for (auto at = all.begin(); std::next(at) != all.end(); ++at) {
    EXPECT_LE(at->first + at->second, std::next(at)->first);
  }
}

TEST(GpuBlocks, AGigabyteTakesFewCallsOfTheDriver) {
  for (const size_t bytes : {kMiB / 2, 2 * kMiB}) {
    CountingGpu gpu;
    GpuBlocks blocks(&gpu, Home::kDevice);
    ExpectApart(&blocks, 1024 * kMiB / bytes, bytes);
    EXPECT_LE(gpu.pieces.size(), 30u);
    EXPECT_LE(Sum(gpu.pieces), 1024 * kMiB + 64 * kMiB);
    blocks.FreeAll();
  }
}

TEST(GpuBlocks, WhoTakesLittleHoldsLittle) {
  CountingGpu gpu;
  GpuBlocks blocks(&gpu, Home::kDevice);
  ExpectApart(&blocks, 1, 4096);
  EXPECT_EQ(Sum(gpu.pieces), 2 * kMiB);
  ExpectApart(&blocks, 10, kMiB);
  EXPECT_LE(Sum(gpu.pieces), 2 * 11 * kMiB);
}

// What is pinned is cleared, and all of a large piece would be at once.
TEST(GpuBlocks, PinnedPiecesStaySmall) {
  CountingGpu gpu;
  GpuBlocks blocks(&gpu, Home::kPinned);
  ExpectApart(&blocks, 64, kMiB);
  EXPECT_EQ(gpu.pieces, std::vector<size_t>(32, 2 * kMiB));
}

TEST(GpuBlocks, AGpuThatIsNearlyFullGivesWhatItHas) {
  CountingGpu gpu;
  gpu.free_bytes = 41 * kMiB;
  GpuBlocks blocks(&gpu, Home::kDevice);
  ExpectApart(&blocks, 38, kMiB);
  EXPECT_EQ(blocks.Allocate(4 * kMiB), nullptr);
  EXPECT_NE(blocks.Allocate(kMiB), nullptr);
}

// What is left of a piece is not lost to a block that does not fit into it.
TEST(GpuBlocks, TheRestOfAPieceIsKept) {
  CountingGpu gpu;
  GpuBlocks blocks(&gpu, Home::kDevice);
  ASSERT_NE(blocks.Allocate(4096), nullptr);
  ASSERT_NE(blocks.Allocate(16 * kMiB), nullptr);
  ASSERT_NE(blocks.Allocate(kMiB), nullptr);
  EXPECT_EQ(gpu.pieces, (std::vector<size_t>{2 * kMiB, 16 * kMiB}));
}

}  // namespace
}  // namespace ftar::runtime
