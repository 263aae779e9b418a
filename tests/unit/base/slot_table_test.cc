#include "base/slot_table.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

namespace ftar {
namespace {

TEST(SlotTable, FindsWhatIsThereAndNothingElse) {
  SlotTable<std::string> table;
  const uint64_t one = table.Add("one"), two = table.Add("two");
  EXPECT_NE(one, 0u);
  ASSERT_NE(table.Find(one), nullptr);
  EXPECT_EQ(*table.Find(one), "one");
  EXPECT_EQ(*table.Find(two), "two");
  EXPECT_EQ(table.Find(0), nullptr);
  EXPECT_EQ(table.Find(one + 7), nullptr);
  EXPECT_EQ(table.Find(UINT64_MAX), nullptr);
  EXPECT_EQ(table.size(), 2u);
}

TEST(SlotTable, AStaleNumberFindsNothingInAPlaceThatIsUsedAgain) {
  SlotTable<int> table;
  const uint64_t old = table.Add(1);
  table.Remove(old);
  EXPECT_EQ(table.Find(old), nullptr);
  const uint64_t fresh = table.Add(2);
  EXPECT_NE(fresh, old);
  EXPECT_EQ(table.Find(old), nullptr);
  table.Remove(old);  // of no effect
  EXPECT_EQ(*table.Find(fresh), 2);
}

TEST(SlotTable, LetsGoOfWhatIsRemoved) {
  SlotTable<std::shared_ptr<int>> table;
  const auto held = std::make_shared<int>(3);
  const uint64_t number = table.Add(held);
  EXPECT_EQ(held.use_count(), 2);
  table.Remove(number);
  EXPECT_EQ(held.use_count(), 1);
}

TEST(SlotTable, VisitsWhatIsThere) {
  SlotTable<int> table;
  const uint64_t one = table.Add(1);
  table.Add(2);
  table.Add(4);
  table.Remove(one);
  int sum = 0;
  table.ForEach([&sum](int value) { sum += value; });
  EXPECT_EQ(sum, 6);
  table.Clear();
  EXPECT_EQ(table.size(), 0u);
}

}  // namespace
}  // namespace ftar
