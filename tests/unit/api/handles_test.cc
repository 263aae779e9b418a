#include "api/handles.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

namespace ftar::api {
namespace {

TEST(Handles, FindsWhatWasAdded) {
  HandleTable table;
  auto object = std::make_shared<int>(5);
  const uintptr_t handle = *table.Add(HandleKind::kView, object);
  EXPECT_EQ(table.Find(HandleKind::kView, handle).get(), object.get());
}

TEST(Handles, AnotherKindIsNotFound) {
  HandleTable table;
  const uintptr_t handle = *table.Add(HandleKind::kView, std::make_shared<int>(5));
  EXPECT_EQ(table.Find(HandleKind::kOp, handle).get(), nullptr);
  EXPECT_EQ(table.Remove(HandleKind::kOp, handle).get(), nullptr);
  EXPECT_NE(table.Find(HandleKind::kView, handle).get(), nullptr);
}

TEST(Handles, ForeignValuesAreNotFound) {
  HandleTable table;
  const uintptr_t handle = *table.Add(HandleKind::kJob, std::make_shared<int>(5));
  int local = 0;
  const uintptr_t foreign[] = {0,
                               1,
                               SIZE_MAX,
                               reinterpret_cast<uintptr_t>(&local),
                               handle + 1,
                               handle + (uintptr_t{1} << 20),
                               handle ^ (uintptr_t{1} << 63)};
  for (uintptr_t value : foreign) {
    EXPECT_EQ(table.Find(HandleKind::kJob, value).get(), nullptr) << value;
    EXPECT_EQ(table.Retire(HandleKind::kJob, value), nullptr) << value;
  }
}

TEST(Handles, FreedHandleStaysDeadWhenItsSlotIsUsedAgain) {
  HandleTable table;
  const uintptr_t first = *table.Add(HandleKind::kOp, std::make_shared<int>(1));
  EXPECT_NE(table.Remove(HandleKind::kOp, first).get(), nullptr);
  EXPECT_EQ(table.Remove(HandleKind::kOp, first).get(), nullptr);
  for (int i = 0; i < 1000; ++i) {
    const uintptr_t next = *table.Add(HandleKind::kOp, std::make_shared<int>(2));
    EXPECT_NE(next, first);
    EXPECT_EQ(table.Find(HandleKind::kOp, first).get(), nullptr);
    EXPECT_NE(table.Remove(HandleKind::kOp, next).get(), nullptr);
  }
}

TEST(Handles, AnObjectOutlivesItsHandleWhileItIsUsed) {
  HandleTable table;
  std::weak_ptr<int> watch;
  uintptr_t handle = 0;
  {
    auto object = std::make_shared<int>(1);
    watch = object;
    handle = *table.Add(HandleKind::kOp, object);
  }
  {
    const HandleTable::Use in_use = table.Find(HandleKind::kOp, handle);
    EXPECT_NE(table.Remove(HandleKind::kOp, handle).get(), nullptr);
    EXPECT_FALSE(watch.expired());
    EXPECT_EQ(table.Find(HandleKind::kOp, handle).get(), nullptr);
  }
  EXPECT_TRUE(watch.expired());
}

TEST(Handles, SlotsAreUsedAgainTheOldestFirst) {
  HandleTable table;
  std::vector<uintptr_t> handles;
  for (int i = 0; i < 3000; ++i)  // more than one chunk
    handles.push_back(*table.Add(HandleKind::kOp, std::make_shared<int>(i)));
  for (const int i : {7, 2, 2999}) table.Remove(HandleKind::kOp, handles[static_cast<size_t>(i)]);
  for (const int i : {7, 2, 2999}) {
    const uintptr_t next = *table.Add(HandleKind::kOp, std::make_shared<int>(i));
    EXPECT_EQ(next & 0xfffff, handles[static_cast<size_t>(i)] & 0xfffff);
    EXPECT_NE(next, handles[static_cast<size_t>(i)]);
  }
}

TEST(Handles, ARetiredObjectComesBackUnderAnotherHandle) {
  HandleTable table;
  auto object = std::make_shared<int>(1);
  const uintptr_t first = *table.Add(HandleKind::kOp, object);
  EXPECT_EQ(table.Retire(HandleKind::kView, first), nullptr);
  ASSERT_EQ(table.Retire(HandleKind::kOp, first), object.get());
  EXPECT_EQ(table.Retire(HandleKind::kOp, first), nullptr);
  EXPECT_EQ(table.Find(HandleKind::kOp, first).get(), nullptr);
  EXPECT_EQ(table.Remove(HandleKind::kOp, first).get(), nullptr);
  ASSERT_TRUE(table.CanRevive(first));
  const uintptr_t second = table.Revive(first);
  EXPECT_NE(second, first);
  EXPECT_EQ(table.Find(HandleKind::kOp, first).get(), nullptr);
  EXPECT_EQ(table.Find(HandleKind::kOp, second).get(), object.get());
  ASSERT_NE(table.Retire(HandleKind::kOp, second), nullptr);
  table.Discard(second);
  EXPECT_EQ(object.use_count(), 1);
  EXPECT_EQ(table.Find(HandleKind::kOp, second).get(), nullptr);
}

TEST(Handles, WhatSomebodyUsesIsNotRetired) {
  HandleTable table;
  const uintptr_t handle = *table.Add(HandleKind::kOp, std::make_shared<int>(1));
  {
    const HandleTable::Use in_use = table.Find(HandleKind::kOp, handle);
    EXPECT_EQ(table.Retire(HandleKind::kOp, handle), nullptr);
  }
  EXPECT_NE(table.Retire(HandleKind::kOp, handle), nullptr);
}

TEST(Handles, AWornOutSlotIsNotRevived) {
  HandleTable table;
  uintptr_t handle = *table.Add(HandleKind::kOp, std::make_shared<int>(1));
  int lives = 1;
  for (; table.CanRevive(handle); ++lives) {
    ASSERT_NE(table.Retire(HandleKind::kOp, handle), nullptr);
    handle = table.Revive(handle);
  }
  EXPECT_EQ(lives, (1 << 24) - 1);
  table.Retire(HandleKind::kOp, handle);
  table.Discard(handle);
  EXPECT_NE(*table.Add(HandleKind::kOp, std::make_shared<int>(2)) & 0xfffff, handle & 0xfffff);
}

TEST(Handles, OfManyThreadsExactlyOneRemoves) {
  HandleTable table;
  for (int round = 0; round < 100; ++round) {
    const uintptr_t handle = *table.Add(HandleKind::kOp, std::make_shared<int>(1));
    std::atomic<int> removed{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&] {
        removed += table.Remove(HandleKind::kOp, handle).get() != nullptr;
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(removed, 1);
  }
}

}  // namespace
}  // namespace ftar::api
