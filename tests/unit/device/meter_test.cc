#include "device/meter.h"

#include <gtest/gtest.h>

#include <vector>

namespace ftar::device {
namespace {

// Of a plan's launch, by its number.
auto Blocks(std::vector<int> blocks) {
  return [blocks](uint64_t number) { return blocks.at(number - 1); };
}

TEST(Meter, AKernelCostsItsBlocksFromItsLaunchToItsEnd) {
  Meter meter;
  const auto blocks = Blocks({2, 4});
  meter.Launch(1, 100);
  meter.Done(0, blocks, 200);
  EXPECT_EQ(meter.block_ns(), 0);
  meter.Done(1, blocks, 300);
  EXPECT_EQ(meter.block_ns(), 2 * 200);
  // Nothing runs meanwhile.
  meter.Launch(2, 1000);
  meter.Done(2, blocks, 1010);
  EXPECT_EQ(meter.block_ns(), 400 + 4 * 10);
}

TEST(Meter, KernelsRunOneAfterTheOther) {
  Meter meter;
  const auto blocks = Blocks({2, 6, 2, 6});
  meter.Launch(1, 0);
  meter.Launch(2, 0);
  meter.Done(1, blocks, 10);
  meter.Done(2, blocks, 30);
  EXPECT_EQ(meter.block_ns(), 2 * 10 + 6 * 20);
  // Ended between the same two looks: they share the time.
  meter.Launch(3, 100);
  meter.Launch(4, 105);
  meter.Done(4, blocks, 110);
  EXPECT_EQ(meter.block_ns(), 140 + 4 * 10);
}

TEST(Meter, PlansThatWentOutAsOneLaunchCostItsBlocksOnce) {
  Meter meter;
  const auto blocks = Blocks({2, 16, 16, 16});
  for (uint64_t number = 1; number <= 4; ++number) meter.Launch(number, 0);
  meter.Done(1, blocks, 10);
  meter.Done(4, blocks, 40);
  EXPECT_EQ(meter.block_ns(), 2 * 10 + 16 * 30);
}

TEST(Meter, TheResidentKernelCostsWhileItIsThere) {
  Meter meter;
  meter.Resident(0, 50, 1000);
  EXPECT_EQ(meter.block_ns(), 0);
  meter.Resident(3, 50, 1010);
  meter.Resident(3, 50, 1030);
  EXPECT_EQ(meter.block_ns(), 3 * 20);
  // It has left some time after the last look, and stays so long at most.
  meter.Resident(0, 50, 9000);
  EXPECT_EQ(meter.block_ns(), 60 + 3 * 50);
  meter.Resident(0, 50, 9900);
  EXPECT_EQ(meter.block_ns(), 210);
}

}  // namespace
}  // namespace ftar::device
