#include "device/meter.h"

#include <gtest/gtest.h>

namespace ftar::device {
namespace {

TEST(Meter, AKernelCostsItsBlocksFromItsLaunchToItsEnd) {
  Meter meter;
  meter.Launch(1, 2, 100);
  meter.Done(0, 200);
  EXPECT_EQ(meter.block_ns(), 0);
  meter.Done(1, 300);
  EXPECT_EQ(meter.block_ns(), 2 * 200);
  // Nothing runs meanwhile.
  meter.Launch(2, 4, 1000);
  meter.Done(2, 1010);
  EXPECT_EQ(meter.block_ns(), 400 + 4 * 10);
}

TEST(Meter, KernelsRunOneAfterTheOther) {
  Meter meter;
  meter.Launch(1, 2, 0);
  meter.Launch(2, 6, 0);
  meter.Done(1, 10);
  meter.Done(2, 30);
  EXPECT_EQ(meter.block_ns(), 2 * 10 + 6 * 20);
  // Ended between the same two looks: they share the time.
  meter.Launch(3, 2, 100);
  meter.Launch(4, 6, 105);
  meter.Done(4, 110);
  EXPECT_EQ(meter.block_ns(), 140 + 4 * 10);
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
