#include "runtime/asides.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

namespace ftar::runtime {
namespace {

constexpr uint64_t kUsual = 3 << 20;

class AsidesTest : public testing::Test {
 protected:
  std::shared_ptr<std::byte> Take(GroupKey group, uint64_t bytes, Epoch view) {
    return asides_.Take(now_, group, bytes, view);
  }
  bool IsShown(const std::shared_ptr<std::byte>& data, uint64_t bytes) {
    return exports_->Find(data.get(), bytes) != nullptr;
  }

  const std::shared_ptr<transport::ExportedMemory> exports_ =
      std::make_shared<transport::ExportedMemory>();
  Asides asides_{exports_};
  TimeNs now_ = 100 * kSecond;
};

TEST_F(AsidesTest, AGroupKeepsItsBlockWhileTheViewLasts) {
  const auto first = Take(1, kUsual, 5);
  ASSERT_NE(first, nullptr);
  std::memset(first.get(), 1, kUsual);
  EXPECT_TRUE(IsShown(first, kUsual));
  EXPECT_EQ(Take(1, kUsual / 2, 5), first);
  EXPECT_NE(Take(2, kUsual, 5), first) << "another group's may be read still";
  EXPECT_EQ(Take(1, kUsual, 5), first);
}

// Whoever was a member then may read it still.
TEST_F(AsidesTest, InAnotherViewItIsAnotherBlock) {
  const auto first = Take(1, kUsual, 5);
  ASSERT_NE(first, nullptr);
  const auto second = Take(1, kUsual, 6);
  EXPECT_NE(second, first);
  EXPECT_TRUE(IsShown(second, kUsual));
  EXPECT_FALSE(IsShown(first, kUsual));
  std::memset(first.get(), 1, kUsual);  // an operation that is under way still
}

TEST_F(AsidesTest, ItGrows) {
  const auto first = Take(1, kUsual, 5);
  ASSERT_NE(first, nullptr);
  const auto longer = Take(1, 5 * kUsual, 5);
  EXPECT_TRUE(IsShown(longer, 5 * kUsual));
  EXPECT_EQ(Take(1, kUsual, 5), longer);
}

TEST_F(AsidesTest, WhatNobodyAsksForIsFreed) {
  const auto first = Take(1, kUsual, 5);
  now_ += kSecond;
  const auto other = Take(2, kUsual, 5);
  now_ += kSecond;
  asides_.Trim(now_, 2 * kSecond);
  EXPECT_FALSE(IsShown(first, kUsual));
  EXPECT_TRUE(IsShown(other, kUsual));
}

// Of blocks that others see there is a limited number, which a user's count among.
TEST_F(AsidesTest, WithoutSuchMemoryThereIsNone) {
  std::vector<std::byte*> all;
  while (true) {
    const auto one = exports_->Allocate(4096);
    if (!one.ok()) break;
    all.push_back(*one);
  }
  EXPECT_EQ(Take(1, kUsual, 5), nullptr);
  ASSERT_TRUE(exports_->Free(all.back()));
  EXPECT_NE(Take(1, kUsual, 5), nullptr);
}

}  // namespace
}  // namespace ftar::runtime
