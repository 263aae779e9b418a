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
    EXPECT_FALSE(table.Rest(HandleKind::kJob, value)) << value;
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

TEST(Handles, WhatRecursComesBackUnderAnotherHandle) {
  HandleTable table;
  auto object = std::make_shared<int>(1);
  const uintptr_t first = *table.Add(HandleKind::kOp, object);
  EXPECT_FALSE(table.Rest(HandleKind::kOp, first));  // it does not recur
  table.LetRecur(first);
  EXPECT_EQ(table.Claim(first), nullptr);  // its handle is alive
  EXPECT_FALSE(table.Rest(HandleKind::kView, first));
  ASSERT_TRUE(table.Rest(HandleKind::kOp, first));
  EXPECT_FALSE(table.Rest(HandleKind::kOp, first));
  EXPECT_EQ(table.Find(HandleKind::kOp, first).get(), nullptr);
  EXPECT_EQ(table.Remove(HandleKind::kOp, first).get(), nullptr);
  ASSERT_EQ(table.Claim(first), object.get());
  EXPECT_EQ(table.Claim(first), nullptr);  // somebody has it
  const uintptr_t second = table.Revive(first, /*answered=*/false);
  EXPECT_NE(second, first);
  EXPECT_EQ(table.Find(HandleKind::kOp, first).get(), nullptr);
  EXPECT_EQ(table.Find(HandleKind::kOp, second).get(), object.get());
  ASSERT_TRUE(table.Rest(HandleKind::kOp, second));
  ASSERT_EQ(table.Claim(first), object.get());
  table.RestAgain(first);
  EXPECT_EQ(table.Find(HandleKind::kOp, second).get(), nullptr);
  table.EndRecurrence(first);
  EXPECT_EQ(object.use_count(), 1);
  EXPECT_EQ(table.Claim(first), nullptr);
}

TEST(Handles, WhatSomebodyUsesDoesNotRest) {
  HandleTable table;
  const uintptr_t handle = *table.Add(HandleKind::kOp, std::make_shared<int>(1));
  table.LetRecur(handle);
  {
    const HandleTable::Use in_use = table.Find(HandleKind::kOp, handle);
    EXPECT_FALSE(table.Rest(HandleKind::kOp, handle));
  }
  EXPECT_TRUE(table.Rest(HandleKind::kOp, handle));
}

TEST(Handles, ARecurrenceMayEndAtAnyTime) {
  HandleTable table;
  auto object = std::make_shared<int>(1);
  const auto add = [&] {
    const uintptr_t handle = *table.Add(HandleKind::kOp, object);
    table.LetRecur(handle);
    return handle;
  };
  const uintptr_t alive = add();
  table.EndRecurrence(alive);
  EXPECT_EQ(table.Find(HandleKind::kOp, alive).get(), object.get());
  EXPECT_FALSE(table.Rest(HandleKind::kOp, alive));
  EXPECT_NE(table.Remove(HandleKind::kOp, alive).get(), nullptr);
  const uintptr_t claimed = add();
  ASSERT_TRUE(table.Rest(HandleKind::kOp, claimed));
  ASSERT_NE(table.Claim(claimed), nullptr);
  table.EndRecurrence(claimed);
  EXPECT_EQ(object.use_count(), 2);
  table.RestAgain(claimed);
  EXPECT_EQ(object.use_count(), 1);
}

TEST(Handles, AnAnswerIsThatOfItsHandle) {
  HandleTable table;
  uintptr_t handle = *table.Add(HandleKind::kOp, std::make_shared<int>(1));
  table.LetRecur(handle);
  EXPECT_EQ(table.FindAnswer(HandleKind::kOp, handle), nullptr);
  table.Rest(HandleKind::kOp, handle);
  table.Claim(handle);
  table.AnswerOf(handle)->seq = 7;
  const uintptr_t answered = table.Revive(handle, /*answered=*/true);
  EXPECT_EQ(table.FindAnswer(HandleKind::kOp, handle), nullptr);
  EXPECT_EQ(table.FindAnswer(HandleKind::kJob, answered), nullptr);
  EXPECT_EQ(table.FindAnswer(HandleKind::kOp, answered + 1), nullptr);
  ASSERT_NE(table.FindAnswer(HandleKind::kOp, answered), nullptr);
  EXPECT_EQ(table.FindAnswer(HandleKind::kOp, answered)->seq, 7u);
  EXPECT_NE(table.Find(HandleKind::kOp, answered).get(), nullptr);
  EXPECT_TRUE(table.Rest(HandleKind::kOp, answered));
  EXPECT_EQ(table.FindAnswer(HandleKind::kOp, answered), nullptr);
}

TEST(Handles, AWornOutSlotIsNotClaimed) {
  HandleTable table;
  uintptr_t handle = *table.Add(HandleKind::kOp, std::make_shared<int>(1));
  table.LetRecur(handle);
  int lives = 1;
  for (table.Rest(HandleKind::kOp, handle); table.Claim(handle) != nullptr; ++lives) {
    handle = table.Revive(handle, /*answered=*/false);
    ASSERT_TRUE(table.Rest(HandleKind::kOp, handle));
  }
  EXPECT_EQ(lives, (1 << 24) - 1);
  table.EndRecurrence(handle);
  EXPECT_NE(*table.Add(HandleKind::kOp, std::make_shared<int>(2)) & 0xfffff, handle & 0xfffff);
}

TEST(Handles, AWordBesideLivesWithItsHandle) {
  HandleTable table;
  const uintptr_t handle = *table.Add(HandleKind::kGroup, std::make_shared<int>(1));
  EXPECT_EQ(table.WordBeside(HandleKind::kOp, handle), nullptr);
  std::atomic<uintptr_t>* const word = table.WordBeside(HandleKind::kGroup, handle);
  ASSERT_NE(word, nullptr);
  EXPECT_EQ(word->exchange(5), 0u);
  table.Remove(HandleKind::kGroup, handle);
  EXPECT_EQ(table.WordBeside(HandleKind::kGroup, handle), nullptr);
  const uintptr_t next = *table.Add(HandleKind::kGroup, std::make_shared<int>(1));
  ASSERT_EQ(table.WordBeside(HandleKind::kGroup, next), word);
  EXPECT_EQ(word->load(), 0u);
}

// Of one who lets it rest and one who ends the recurrence one frees it, and not both.
TEST(Handles, RestingAndEndingMeet) {
  HandleTable table;
  for (int round = 0; round < 300; ++round) {
    auto object = std::make_shared<int>(1);
    const uintptr_t handle = *table.Add(HandleKind::kOp, object);
    table.LetRecur(handle);
    std::thread ends([&] { table.EndRecurrence(handle); });
    if (!table.Rest(HandleKind::kOp, handle)) table.Remove(HandleKind::kOp, handle);
    ends.join();
    ASSERT_EQ(object.use_count(), 1);
  }
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
