// Goal: people are told once of each late member, of some; and a verdict's culprit is the one that
// it names, also when it is in no view any more.
#include "runtime/culprits.h"

#include <gtest/gtest.h>

#include <initializer_list>
#include <memory>
#include <string>

namespace ftar::runtime {
namespace {

constexpr GroupKey kGroup = 7;

ViewPtr ViewOf(Epoch epoch, std::initializer_list<MemberId> members) {
  wire::View view;
  view.epoch = epoch;
  for (const MemberId id : members) {
    wire::ViewEntry entry;
    entry.card.id = id;
    entry.card.replica = static_cast<int32_t>(id.lo);
    entry.card.host = "h" + std::to_string(id.lo);
    view.entries.push_back(entry);
  }
  return std::make_shared<const wire::View>(view);
}

Culprit Late(uint64_t member, Seq seq) {
  Culprit who;
  who.member = MemberId{1, member};
  who.replica = static_cast<int32_t>(member);
  who.seq = seq;
  who.text = "late";
  return who;
}

OpPtr OpAt(Seq seq) {
  auto op = std::make_shared<Op>();
  op->group = kGroup;
  op->seq = seq;
  return op;
}

TEST(Culprits, EachLateMemberIsToldOnceAnOperation) {
  Culprits culprits;
  EXPECT_TRUE(culprits.NoteLate(kGroup, Late(1, 5)));
  EXPECT_FALSE(culprits.NoteLate(kGroup, Late(1, 5)));
  EXPECT_TRUE(culprits.NoteLate(kGroup, Late(1, 6)));
  EXPECT_FALSE(culprits.NoteLate(kGroup, Late(2, 5))) << "that one is over";
}

TEST(Culprits, OfManyLateMembersEightAreNamed) {
  Culprits culprits;
  int lines = 0;
  for (uint64_t member = 1; member <= 12; ++member)
    lines += culprits.NoteLate(kGroup, Late(member, 5)) ? 1 : 0;
  EXPECT_EQ(lines, 9) << "and one line for the rest";
  EXPECT_NE(culprits.LateText(*OpAt(5)).find("and more have not entered it"), std::string::npos);
  EXPECT_EQ(culprits.LateText(*OpAt(6)), "");
}

TEST(Culprits, AWaitThatWasTooShortNamesWhoAloneIsLate) {
  Culprits culprits;
  culprits.NoteLate(kGroup, Late(1, 5));
  EXPECT_EQ(culprits.Of(*OpAt(5), Code::kTimeout).replica, 1);
  EXPECT_EQ(culprits.Of(*OpAt(5), Code::kPeer).replica, -1) << "that has nothing to do with it";
  culprits.NoteLate(kGroup, Late(2, 5));
  EXPECT_EQ(culprits.Of(*OpAt(5), Code::kTimeout).replica, -1) << "two are";
}

TEST(Culprits, AMemberIsKnownByTheLastTwoViews) {
  Culprits culprits;
  wire::Loss loss;
  loss.member = MemberId{1, 2};
  culprits.ViewChanged(ViewOf(1, {{1, 1}, {1, 2}}));
  culprits.ViewChanged(ViewOf(2, {{1, 1}}));
  EXPECT_EQ(culprits.Of(loss, 2).host, "h2");
  EXPECT_EQ(culprits.Of(loss, 2).rank, 1);
  culprits.ViewChanged(ViewOf(3, {{1, 1}}));
  EXPECT_EQ(culprits.Of(loss, 3).replica, -1);
}

TEST(Culprits, OfAnOlderViewIsWhomPeopleWereToldOf) {
  Culprits culprits;
  culprits.Blame(Late(2, 5));
  const OpPtr op = OpAt(5);
  op->done = true;
  op->outcome.culprit = MemberId{1, 2};
  EXPECT_EQ(culprits.Of(*op, Code::kAbsent).replica, 2);
  op->outcome.culprit = MemberId{1, 3};
  EXPECT_EQ(culprits.Of(*op, Code::kAbsent).replica, -1);
}

}  // namespace
}  // namespace ftar::runtime
