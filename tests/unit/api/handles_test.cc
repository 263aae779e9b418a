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
  EXPECT_EQ(table.Find(HandleKind::kView, handle), object);
}

TEST(Handles, AnotherKindIsNotFound) {
  HandleTable table;
  const uintptr_t handle = *table.Add(HandleKind::kView, std::make_shared<int>(5));
  EXPECT_EQ(table.Find(HandleKind::kOp, handle), nullptr);
  EXPECT_EQ(table.Remove(HandleKind::kOp, handle), nullptr);
  EXPECT_NE(table.Find(HandleKind::kView, handle), nullptr);
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
  for (uintptr_t value : foreign) EXPECT_EQ(table.Find(HandleKind::kJob, value), nullptr) << value;
}

TEST(Handles, FreedHandleStaysDeadWhenItsSlotIsUsedAgain) {
  HandleTable table;
  const uintptr_t first = *table.Add(HandleKind::kOp, std::make_shared<int>(1));
  EXPECT_NE(table.Remove(HandleKind::kOp, first), nullptr);
  EXPECT_EQ(table.Remove(HandleKind::kOp, first), nullptr);
  for (int i = 0; i < 1000; ++i) {
    const uintptr_t next = *table.Add(HandleKind::kOp, std::make_shared<int>(2));
    EXPECT_NE(next, first);
    EXPECT_EQ(table.Find(HandleKind::kOp, first), nullptr);
    EXPECT_NE(table.Remove(HandleKind::kOp, next), nullptr);
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
  const std::shared_ptr<void> in_use = table.Find(HandleKind::kOp, handle);
  EXPECT_NE(table.Remove(HandleKind::kOp, handle), nullptr);
  EXPECT_FALSE(watch.expired());
}

TEST(Handles, OfManyThreadsExactlyOneRemoves) {
  HandleTable table;
  for (int round = 0; round < 100; ++round) {
    const uintptr_t handle = *table.Add(HandleKind::kOp, std::make_shared<int>(1));
    std::atomic<int> removed{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&] { removed += table.Remove(HandleKind::kOp, handle) != nullptr; });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(removed, 1);
  }
}

}  // namespace
}  // namespace ftar::api
