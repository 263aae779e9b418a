// Goal: every memory space moves and reduces alike, and the fake device catches whoever would
// follow an address of a device, reads what was never written, or leaves an allocation.
#include "reduce/space.h"

#include <gtest/gtest.h>

#include "reduce/fake_device.h"
#include "tests/unit/reduce/support.h"

namespace ftar::reduce {
namespace {

constexpr size_t kCapacity = size_t{16} << 20;
constexpr size_t kCount = 257;

class SpaceTest : public testing::TestWithParam<MemoryKind> {
 protected:
  void SetUp() override {
    if (GetParam() == MemoryKind::kDevice) {
      space_ = std::make_unique<FakeDevice>(kCapacity);
    } else {
      space_ = std::make_unique<HostSpace>();
    }
  }
  // Memory of the space with these bytes, freed at the end.
  void* Put(const void* host, size_t bytes) {
    const Expected<void*> place = space_->Allocate(bytes);
    EXPECT_TRUE(place.ok()) << place.status().ToString();
    EXPECT_TRUE(space_->CopyIn(place.value(), host, bytes).ok());
    owned_.push_back(place.value());
    return place.value();
  }
  void TearDown() override {
    for (void* place : owned_) EXPECT_TRUE(space_->Free(place).ok());
  }
  std::unique_ptr<Space> space_;
  std::vector<void*> owned_;
};

TEST_P(SpaceTest, ReducesAsTheHostDoes) {
  std::mt19937_64 random(23);
  for (Dtype dtype : AllDtypes()) {
    for (Redop redop : AllRedops()) {
      if (!Supports(dtype, redop)) continue;
      const auto inputs = RandomInputs(dtype, 3, kCount, &random);
      Placed placed(dtype, inputs, kCount, 0);
      std::vector<Source> sources = placed.sources;
      for (Source& source : sources) source.data = Put(source.data, kCount * ElementBytes(dtype));
      Elements out(dtype, kCount, 0);
      void* dst = Put(out.data(), kCount * ElementBytes(dtype));
      const double divisor = DivisorOf(redop, inputs);
      ASSERT_TRUE(space_
                      ->Reduce({.dtype = dtype,
                                .redop = redop,
                                .sources = sources,
                                .divisor = divisor,
                                .dst = dst,
                                .count = kCount})
                      .ok());
      ASSERT_TRUE(space_->CopyOut(out.data(), dst, kCount * ElementBytes(dtype)).ok());
      for (size_t i = 0; i < kCount; ++i) {
        ASSERT_EQ(out.Get(i), reference::Reduce(dtype, redop, inputs, i, divisor, 1.0))
            << NameOf(dtype) << " " << NameOf(redop) << " " << i;
      }
    }
  }
}

TEST_P(SpaceTest, CopiesWithin) {
  const std::string text = "sixteen bytes is what a pack has";
  void* from = Put(text.data(), text.size());
  void* to = Put(std::string(text.size(), '-').data(), text.size());
  ASSERT_TRUE(space_->Copy(to, from, text.size()).ok());
  std::string back(text.size(), ' ');
  ASSERT_TRUE(space_->CopyOut(back.data(), to, back.size()).ok());
  EXPECT_EQ(back, text);
}

TEST_P(SpaceTest, RefusesCallsThatReduceForbids) {
  EXPECT_EQ(space_->Reduce({.count = 1}).code(), Code::kArg);
  const float one = 1;
  const Source source{.data = &one, .format = Dtype::kI32, .weight = 1.0};
  EXPECT_EQ(space_->Reduce({.sources = {&source, 1}, .count = 1}).code(), Code::kArg);
}

INSTANTIATE_TEST_SUITE_P(Spaces, SpaceTest, testing::Values(MemoryKind::kHost, MemoryKind::kDevice),
                         [](const auto& param) {
                           return param.param == MemoryKind::kHost ? "Host" : "FakeDevice";
                         });

TEST(FakeDeviceTest, NewMemoryIsPoisoned) {
  FakeDevice device(kCapacity);
  void* place = device.Allocate(100).value();
  std::vector<unsigned char> back(100);
  ASSERT_TRUE(device.CopyOut(back.data(), place, back.size()).ok());
  EXPECT_EQ(back, std::vector<unsigned char>(100, FakeDevice::kPoison));
  EXPECT_EQ(reinterpret_cast<uintptr_t>(place) % 256, 0u);
  EXPECT_EQ(device.allocations(), 1u);
  EXPECT_TRUE(device.Free(place).ok());
  EXPECT_EQ(device.allocations(), 0u);
}

TEST(FakeDeviceTest, NothingLeavesAnAllocation) {
  FakeDevice device(kCapacity);
  auto* a = static_cast<unsigned char*>(device.Allocate(100).value());
  auto* b = static_cast<unsigned char*>(device.Allocate(100).value());
  unsigned char bytes[101] = {};
  EXPECT_TRUE(device.CopyIn(a, bytes, 100).ok());
  EXPECT_EQ(device.CopyIn(a, bytes, 101).code(), Code::kArg);
  EXPECT_EQ(device.CopyIn(a + 100, bytes, 1).code(), Code::kArg);
  EXPECT_EQ(device.CopyOut(bytes, a - 1, 1).code(), Code::kArg);
  EXPECT_EQ(device.Copy(b + 1, a, 100).code(), Code::kArg);
  EXPECT_EQ(device.CopyOut(bytes, bytes, 1).code(), Code::kArg);
  const Source source{.data = a, .format = Dtype::kF32, .weight = 1.0};
  EXPECT_EQ(device.Reduce({.sources = {&source, 1}, .dst = b, .count = 26}).code(), Code::kArg);
  EXPECT_TRUE(device.Reduce({.sources = {&source, 1}, .dst = b, .count = 25}).ok());
}

TEST(FakeDeviceTest, FreedMemoryIsGone) {
  FakeDevice device(kCapacity);
  void* a = device.Allocate(100).value();
  ASSERT_TRUE(device.Free(a).ok());
  unsigned char byte = 0;
  EXPECT_EQ(device.CopyIn(a, &byte, 1).code(), Code::kArg);
  EXPECT_EQ(device.Free(a).code(), Code::kArg);
  EXPECT_NE(device.Allocate(100).value(), a);
}

TEST(FakeDeviceTest, RunsOutOfMemory) {
  FakeDevice device(1 << 20);
  EXPECT_EQ(device.Allocate(2 << 20).status().code(), Code::kMemory);
  EXPECT_EQ(device.Allocate(SIZE_MAX).status().code(), Code::kMemory);
  EXPECT_TRUE(device.Allocate(1 << 18).ok());
}

TEST(FakeDeviceDeathTest, TheHostCannotFollowItsAddresses) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  FakeDevice device(kCapacity);
  auto* place = static_cast<volatile unsigned char*>(device.Allocate(100).value());
  EXPECT_DEATH({ *place = 1; }, "");
  EXPECT_DEATH({ static_cast<void>(*place); }, "");
}

}  // namespace
}  // namespace ftar::reduce
