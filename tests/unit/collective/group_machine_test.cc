// What scripts and stories of whole jobs do not single out: where a newcomer begins, and failures.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <utility>

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

// On the view of the epoch before.
ViewPtr Planned(Epoch epoch, Seq boundary) {
  wire::View view = *ViewWith(epoch, true, 0);
  view.base = epoch - 1;
  view.boundary = {wire::Bound::Kind::kSeq, 0, boundary, {}};
  return std::make_shared<const wire::View>(std::move(view));
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

// J3: who is far behind in its calls is asked for a boundary, while others' failed operations lie
// further ahead than it would take by itself. Newcomers know nothing of them.
TEST(Beginning, ABoundaryLiesBehindWhatHasFailedAhead) {
  GroupMachine group(Config());
  ViewPtr view = ViewWith(3, false, 0);
  wire::GroupVerdicts verdicts{kGroup, 101, 101, {}};
  verdicts.verdicts.resize(1);
  verdicts.verdicts[0].seq = 100;
  verdicts.verdicts[0].kind = wire::VerdictKind::kFail;
  verdicts.verdicts[0].code = Code::kMismatch;
  group.InstallEra(3, view, &verdicts, {});
  EXPECT_GT(group.ReserveBoundary(), 100);
}

// J3: a group that was opened when the boundary was reserved already holds nothing back for it.
TEST(Beginning, ABoundaryThatOthersMayHavePassedIsNotKept) {
  GroupConfig config = Config();
  config.window = 4;
  GroupMachine group(config);
  group.InstallEra(1, ViewWith(1, false, 0), nullptr, {});
  const wire::Bound boundary{wire::Bound::Kind::kSeq, 0, 4, {}};
  EXPECT_TRUE(group.KeepsBoundary(boundary));
  group.Call(2, OpSpec{}, 0);  // whoever hears of its end begins operation 4
  EXPECT_FALSE(group.KeepsBoundary(boundary));
  group.HoldAcksFor(group.ReserveBoundary());
  EXPECT_TRUE(group.KeepsBoundary(boundary));
}

// J1: the root has passed the boundary in the groups that it calls in, and may be behind in one
// that only others have called in. These have begun in the view before both plans.
TEST(Beginning, WhatLiesBeforeTwoBoundariesBelongsToTheViewBeforeBoth) {
  GroupMachine group(Config());
  const ViewPtr first = ViewWith(1, false, 0), second = Planned(2, 32), third = Planned(3, 64);
  group.InstallEra(1, first, nullptr, {});
  group.SetPlannedView(2, second, first);
  group.SetPlannedView(3, third, second);
  EXPECT_EQ(group.ViewFor(0, 0), first);
  EXPECT_EQ(group.ViewFor(32, 0), second);
  EXPECT_EQ(group.ViewFor(64, 0), third);
}

// A frame takes 8,192 weights beside its bytes, and a column has more members.
TEST(Weights, InALargeColumnWhatIsCopiedTellsOfItsOwnerAlone) {
  constexpr uint64_t kMembers = 10'000;
  wire::View view = *ViewWith(1, false, 0);
  view.entries.resize(kMembers);
  for (uint64_t i = 2; i < kMembers; ++i) {
    view.entries[i].card.id = {3, i};
    view.entries[i].card.replica = static_cast<int32_t>(i);
    view.entries[i].first.kind = wire::Bound::Kind::kAlways;
  }
  GroupMachine group(Config());
  group.InstallEra(1, std::make_shared<const wire::View>(view), nullptr, {});
  group.OnCredit(2, kOther, {});
  OpSpec broadcast;
  broadcast.kind = plan::Kind::kBroadcast;
  broadcast.root = kSelf;
  OpSpec gather;
  gather.kind = plan::Kind::kAllGather;
  gather.layout_members = {kOther, kSelf};
  for (OpSpec spec : {broadcast, gather}) {
    spec.plan = plan::PlanKind::kDirect;
    spec.count = 1;
    spec.weight = 2;
    group.Call(3, spec, 0);
  }
  size_t finals = 0;
  std::vector<GroupTodo> todo;
  group.TakeTodo(4, &todo);
  for (size_t i = 0; i < todo.size(); ++i) {
    const Todo one = todo[i].todo;
    if (one.kind == Todo::Kind::kWork && one.work().id != 0) group.OnWorkDone(5, one.work().id);
    if (i + 1 == todo.size()) group.TakeTodo(6, &todo);
    if (one.kind != Todo::Kind::kSend) continue;
    if (one.frame().header.kind != wire::FrameKind::kFinal) continue;
    EXPECT_EQ(one.frame().ext.size(), sizeof(double));
    ++finals;
  }
  EXPECT_EQ(finals, 2u);
}

// An elastic job has one after the other, and may never see a failure.
TEST(Views, ThoseBeforeManyPlannedOnesAreForgotten) {
  GroupMachine group(Config());
  ViewPtr before = ViewWith(1, false, 0);
  const std::weak_ptr<const wire::View> first = before;
  group.InstallEra(1, before, nullptr, {});
  group.OnCredit(1, kOther, {});
  ASSERT_EQ(group.Call(2, OpSpec{}, 0), 0);  // it may have to be begun anew in it
  for (Epoch epoch = 2; epoch < 200; ++epoch) {
    const ViewPtr next = Planned(epoch, 32 * epoch);
    group.SetPlannedView(epoch, next, std::exchange(before, next));
  }
  EXPECT_FALSE(first.expired());
  group.Freeze(200);
  group.InstallEra(201, ViewWith(201, false, 0), nullptr, {});
  for (Epoch epoch = 202; epoch < 400; ++epoch) {
    const ViewPtr next = Planned(epoch, 32 * epoch);
    group.SetPlannedView(epoch, next, std::exchange(before, next));
  }
  EXPECT_TRUE(first.expired());
}

// V5: it is delivered when all who take part in it hold the verdict.
TEST(Failure, IsDeliveredWhenAllHaveGrantedCredit) {
  GroupMachine group(Config());
  const ViewPtr view = ViewWith(1, false, 0);
  group.InstallEra(1, view, nullptr, {});
  ASSERT_EQ(group.Call(2, OpSpec{}, 0), 0);
  group.Freeze(3);
  wire::GroupVerdicts verdicts{kGroup, 1, 1, {}};
  verdicts.verdicts.resize(1);
  verdicts.verdicts[0].kind = wire::VerdictKind::kFail;
  verdicts.verdicts[0].code = Code::kMismatch;
  group.InstallEra(4, ViewWith(2, false, 0), &verdicts, {});
  EXPECT_EQ(group.delivered_end(), 0);
  group.OnCredit(5, kOther, {});
  std::vector<GroupTodo> todo;
  group.TakeTodo(5, &todo);
  EXPECT_EQ(group.delivered_end(), 1);
}

// Nothing is to be made: of a sum without weights, and of an input that lies where its result does.
TEST(Outcome, SaysWhenWhatTakesNoWorkWasComplete) {
  OpSpec weightless, in_place;
  weightless.weight = 0;
  in_place.kind = plan::Kind::kBroadcast;
  in_place.root = kSelf;
  in_place.in_place = true;
  for (const OpSpec& spec : {weightless, in_place}) {
    wire::View alone = *ViewWith(1, false, 0);
    alone.entries.erase(alone.entries.begin());
    GroupMachine group(Config());
    group.InstallEra(1, std::make_shared<const wire::View>(alone), nullptr, {});
    ASSERT_EQ(group.Call(20, spec, 0), 0);
    std::vector<GroupTodo> todo;
    group.TakeTodo(30, &todo);
    ASSERT_EQ(group.delivered_end(), 1);
    const auto delivered = std::ranges::find_if(
        todo, [](const GroupTodo& one) { return one.todo.kind == Todo::Kind::kDeliver; });
    ASSERT_NE(delivered, todo.end());
    EXPECT_EQ(delivered->todo.outcome().complete_ns, 20u);
  }
}

// Q7: what has waited behind another has its turn to be overdue when it is the oldest.
TEST(Deadline, OfWhatComesBehindIsNotUsedUpByTheOldest) {
  GroupMachine group(Config());
  group.InstallEra(1, ViewWith(1, false, 0), nullptr, {});
  group.OnCredit(1, kOther, {});
  OpSpec spec;
  spec.kind = plan::Kind::kBarrier;
  spec.timeout_ns = 10;
  ASSERT_EQ(group.Call(2, spec, 0), 0);
  ASSERT_EQ(group.Call(2, spec, 0), 1);
  EXPECT_EQ(group.TakeOverdue(12).lacks, std::vector<MemberId>{kOther});
  EXPECT_FALSE(group.NextOpDeadline());
  std::vector<GroupTodo> todo;
  group.TakeTodo(13, &todo);
  InboundFrame frame;
  frame.from = kOther;
  for (const GroupTodo& one : todo) {
    const bool raw = one.todo.kind == Todo::Kind::kSend &&
                     one.todo.frame().header.kind == wire::FrameKind::kRaw;
    if (raw && one.todo.frame().header.seq == 0) frame.header = one.todo.frame().header;
  }
  frame.header.complete_end = 1;
  group.OnFrame(14, frame);
  todo.clear();
  group.TakeTodo(15, &todo);
  for (const GroupTodo& one : todo) {
    if (one.todo.kind == Todo::Kind::kWork) group.OnWorkDone(16, one.todo.work().id);
  }
  ASSERT_EQ(group.delivered_end(), 1);
  EXPECT_EQ(group.TakeOverdue(17).lacks, std::vector<MemberId>{kOther});
  EXPECT_TRUE(group.TakeOverdue(18).lacks.empty());
  group.ReportOverdueAgain();
  EXPECT_EQ(group.TakeOverdue(19).lacks, std::vector<MemberId>{kOther});
}

}  // namespace
}  // namespace ftar::collective
