// Where a newcomer's first operation is moved, or what it has heard of it is void.
#include <gtest/gtest.h>

#include "collective/group_machine.h"

namespace ftar::collective {
namespace {

constexpr MemberId kOther{1, 1}, kSelf{2, 2};
constexpr GroupKey kGroup = 7;

ViewPtr ViewWith(Epoch epoch, bool planned, Seq boundary) {
  auto view = std::make_shared<wire::View>();
  view->epoch = epoch;
  view->era = planned ? 1 : epoch;
  view->planned = planned;
  view->entries.resize(2);
  view->entries[0].card.id = kOther;
  view->entries[1].card.id = kSelf;
  view->entries[1].card.replica = 1;
  view->entries[0].first.kind = wire::Bound::Kind::kAlways;
  view->entries[1].first = {wire::Bound::Kind::kSeq, 0, boundary, {}};
  return view;
}

GroupConfig Config() {
  GroupConfig config;
  config.self = kSelf;
  config.key = kGroup;
  return config;
}

// J1: the root that announced the plan is lost, and nobody else has heard of it.
TEST(Beginning, ANewcomerThatHasCalledNothingBeginsWhereItIsMovedTo) {
  GroupMachine group(Config());
  group.SetPlannedView(1, ViewWith(2, true, 40), ViewWith(1, false, 40));
  ASSERT_TRUE(group.knows_first());
  EXPECT_EQ(group.next_seq(), 40);
  group.Freeze(2);
  group.InstallEra(3, ViewWith(3, false, 60), nullptr, {});
  EXPECT_EQ(group.next_seq(), 60);
}

TEST(Beginning, WhereItHasBegunItStays) {
  GroupMachine group(Config());
  group.SetPlannedView(1, ViewWith(2, true, 40), ViewWith(1, false, 40));
  group.Call(2, OpSpec{}, 0);
  group.ForgetFirst();
  EXPECT_TRUE(group.knows_first());
  EXPECT_EQ(group.next_seq(), 41);
}

}  // namespace
}  // namespace ftar::collective
