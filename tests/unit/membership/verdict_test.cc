#include "membership/verdict.h"

#include <gtest/gtest.h>

namespace ftar::membership {
namespace {

using wire::Bound;
using wire::VerdictKind;

constexpr MemberId kFirst{1, 1}, kSecond{2, 2}, kLost{3, 3};
constexpr uint8_t kBroadcast = 3;

wire::ViewEntry Entry(MemberId id, int32_t replica) {
  wire::ViewEntry entry;
  entry.card.id = id;
  entry.card.replica = replica;
  entry.joined_epoch = 1;
  entry.first.kind = Bound::Kind::kAlways;
  return entry;
}

wire::Prepare PrepareBoth() {
  wire::Prepare prepare;
  prepare.epoch = 2;
  prepare.members = {Entry(kFirst, 0), Entry(kSecond, 1)};
  prepare.survivors = {kFirst, kSecond};
  return prepare;
}

wire::ColumnStatus OfTheFirstView(const wire::Prepare& prepare) {
  wire::ColumnStatus status;
  status.epoch = prepare.epoch;
  status.report.installed = 1;
  status.report.installed_view.emplace();
  status.report.installed_view->epoch = status.report.installed_view->era = 1;
  status.report.installed_view->entries = prepare.members;
  return status;
}

// Both have all of a broadcast that they want: each from `root`, or from a root of its own.
Decision DecideBroadcast(MemberId root_of_first, MemberId root_of_second) {
  const wire::Prepare prepare = PrepareBoth();
  StatusMap statuses;
  for (const auto& [id, root] : {std::pair{kFirst, root_of_first}, {kSecond, root_of_second}}) {
    wire::ColumnStatus& status = statuses[id] = OfTheFirstView(prepare);
    status.report.installed_view->entries.push_back(Entry(kLost, 2));
    wire::OpStatus op;
    op.attempt = 1;
    op.complete = true;
    op.chunks = 1;
    op.final_chunks = {1};
    op.signature.kind = kBroadcast;
    op.signature.root = root;
    status.groups = {{1, 1, 0, 0, 1, {op}, {}}};
  }
  return Decide(prepare, 0, statuses);
}

TEST(Verdict, WhatAllHaveIsCommitted) {
  const Decision decision = DecideBroadcast(kFirst, kFirst);
  ASSERT_EQ(decision.verdicts.groups.size(), 1u);
  ASSERT_EQ(decision.verdicts.groups[0].verdicts.size(), 1u);
  EXPECT_EQ(decision.verdicts.groups[0].verdicts[0].kind, VerdictKind::kCommit);
}

// V5: the others, who had asked for a verdict, are lost.
TEST(Verdict, WhatEachHasFromARootOfItsOwnIsAMismatch) {
  const Decision decision = DecideBroadcast(kFirst, kSecond);
  ASSERT_EQ(decision.verdicts.groups.size(), 1u);
  ASSERT_EQ(decision.verdicts.groups[0].verdicts.size(), 1u);
  EXPECT_EQ(decision.verdicts.groups[0].verdicts[0].kind, VerdictKind::kFail);
  EXPECT_EQ(decision.verdicts.groups[0].verdicts[0].code, Code::kMismatch);
  const std::string first = "replica 0 (" + ToString(kFirst) + ")";
  const std::string second = "replica 1 (" + ToString(kSecond) + ")";
  EXPECT_EQ(decision.verdicts.groups[0].verdicts[0].text,
            "operation 0: " + first + " and " + second + " disagree: root " + first + " against " +
                second);
  EXPECT_TRUE(decision.violations.empty());
}

// One began the step when its source was alive, the other when that was lost.
TEST(Verdict, WhereOneNamesALostRootAndAnotherALivingOneTheRootIsGone) {
  for (const auto& [first, second] : {std::pair{kLost, kFirst}, {kSecond, kLost}}) {
    const Decision decision = DecideBroadcast(first, second);
    ASSERT_EQ(decision.verdicts.groups.size(), 1u);
    ASSERT_EQ(decision.verdicts.groups[0].verdicts.size(), 1u);
    EXPECT_EQ(decision.verdicts.groups[0].verdicts[0].kind, VerdictKind::kFail);
    EXPECT_EQ(decision.verdicts.groups[0].verdicts[0].code, Code::kAbsent);
    EXPECT_EQ(decision.verdicts.groups[0].verdicts[0].culprit, kLost);
    EXPECT_EQ(decision.verdicts.groups[0].verdicts[0].text,
              "operation 0: the broadcast's root, replica 2 (" + ToString(kLost) + "), is gone");
  }
}

// V6: it may be in any of them. The others have called on, also a lost one, whose calls it has
// heard of.
TEST(Verdict, WhoDoesNotKnowWhereItBeginsIsToldOfFailuresThatAreDelivered) {
  for (const bool knows : {false, true}) {
    const wire::Prepare prepare = PrepareBoth();
    StatusMap statuses;
    for (const MemberId id : {kFirst, kSecond}) {
      statuses[id] = OfTheFirstView(prepare);
      statuses[id].groups = {{1, 20, 0, 20, 20, {}, {}}};
    }
    wire::Verdict failed;
    failed.seq = 15;
    failed.kind = VerdictKind::kFail;
    statuses[kFirst].groups[0].failed = {failed};
    if (!knows) statuses[kSecond].groups[0].queued_end = kNoSeq;
    const Decision decision = Decide(prepare, 0, statuses);
    ASSERT_EQ(decision.verdicts.groups.size(), 1u);
    EXPECT_EQ(decision.verdicts.groups[0].verdicts.size(), knows ? 0u : 1u);
  }
}

// Each lacks a part of the first operation, and has all of the second one.
std::vector<VerdictKind> KindsOfTwo(uint8_t flags, uint64_t second_step, uint8_t second_kind) {
  const wire::Prepare prepare = PrepareBoth();
  StatusMap statuses;
  for (const MemberId id : {kFirst, kSecond}) {
    wire::OpStatus op;
    op.attempt = 1;
    op.chunks = 1;
    op.final_chunks = {0};
    op.signature.flags = flags;
    op.signature.step = 1;
    std::vector<wire::OpStatus> ops = {op, op};
    ops[1].seq = 1;
    ops[1].complete = true;
    ops[1].final_chunks = {1};
    ops[1].signature.kind = second_kind;
    ops[1].signature.root = kLost;
    ops[1].signature.step = second_step;
    statuses[id] = OfTheFirstView(prepare);
    statuses[id].groups = {{1, 2, 0, 0, 2, ops, {}}};
  }
  const Decision decision = Decide(prepare, 0, statuses);
  std::vector<VerdictKind> kinds;
  for (const wire::Verdict& verdict : decision.verdicts.groups.at(0).verdicts)
    kinds.push_back(verdict.kind);
  return kinds;
}

// V8: nobody can have delivered what is complete behind an operation that is not. In a strict step
// it would have the lost one among its participants, and that operation not.
TEST(Verdict, WhatIsCompleteBehindARetryOfItsStrictStepIsBegunAnewWithIt) {
  constexpr uint8_t kAllReduce = 0, kStrict = wire::kSignatureStrict;
  using Kinds = std::vector<VerdictKind>;
  const Kinds mixed{VerdictKind::kRetry, VerdictKind::kCommit};
  EXPECT_EQ(KindsOfTwo(kStrict, 1, kAllReduce), (Kinds{VerdictKind::kRetry, VerdictKind::kRetry}));
  EXPECT_EQ(KindsOfTwo(kStrict, 2, kAllReduce), mixed);
  EXPECT_EQ(KindsOfTwo(0, 1, kAllReduce), mixed);
  EXPECT_EQ(KindsOfTwo(kStrict, 1, kBroadcast), mixed);  // of a lost root: it could only fail
}

// Who was not there may hold the word of a root that is lost, and that of a step nobody had begun.
TEST(Marks, TheLaterErasWordCountsAndTheOtherOneOfGroupsThatItDoesNotKnow) {
  const wire::StepMark earlier{1, 6, {{7, 10}, {9, 4}}, 0, kFirst};
  const wire::StepMark later{3, 6, {{7, 12}}, 2, kSecond};
  const wire::StepMark unsaid{5, 6, {{7, 20}, {8, 1}}, -1, {}};
  for (const auto& [first, second] : {std::pair{earlier, later}, {later, earlier}}) {
    wire::StepMark mark = first;
    TakeMark(second, &mark);
    TakeMark(unsaid, &mark);
    EXPECT_EQ(mark.joined, 2);
    EXPECT_EQ(mark.source, kSecond);
    EXPECT_EQ(mark.era, 3u);
    EXPECT_EQ(mark.starts, (std::vector<wire::SeqBound>{{7, 12}, {9, 4}, {8, 1}}));
  }
}

wire::ColumnStatus StatusOf(const wire::View& installed, Seq first, Seq called) {
  wire::ColumnStatus status;
  status.epoch = 3;
  status.report.installed = installed.epoch;
  status.report.installed_view = installed;
  status.groups = {{1, called, first, first, called, {}, {}}};
  return status;
}

// J1: a newcomer has confirmed a plan, and nobody announced it. The leaver has called beyond the
// end that it gives. With the newcomer's own call the plan counts.
TEST(Bounds, AnEndThatOnlyAPlanGivesIsVoid) {
  constexpr MemberId kThird{3, 3};
  wire::View installed;
  installed.epoch = installed.era = 1;
  installed.entries = {Entry(kFirst, 0), Entry(kSecond, 1)};
  wire::View plan = installed;
  plan.epoch = 2;
  plan.planned = true;
  const Bound boundary{Bound::Kind::kSeq, 0, 7, {}};
  plan.entries[1].last = boundary;
  plan.entries.push_back(Entry(kThird, 2));
  plan.entries[2].first = boundary;
  plan.entries[2].joined_epoch = 2;
  wire::Prepare prepare;
  prepare.epoch = 3;
  prepare.members = plan.entries;
  prepare.members[1].last.kind = Bound::Kind::kAlways;
  prepare.survivors = {kFirst, kSecond};
  StatusMap statuses{{kFirst, StatusOf(installed, 0, 8)},
                     {kSecond, StatusOf(installed, 0, 8)},
                     {kThird, StatusOf(plan, 7, 7)}};
  const auto end_of_second = [&] { return DecideBounds(prepare, 0, statuses)[1]; };
  EXPECT_TRUE(end_of_second().fresh_last);
  EXPECT_EQ(end_of_second().last, (Bound{Bound::Kind::kSeq, 0, 0, {{1, 8}}}));
  statuses[kThird] = StatusOf(plan, 7, 8);
  EXPECT_FALSE(end_of_second().fresh_last);
  EXPECT_EQ(end_of_second().last, boundary);
}

// A plan has named the step in which one newcomer begins, and a change takes in another one. Ranks
// follow the list: whoever looks for those who were here before looks at the first ones.
TEST(Bounds, ANewcomerBeginsNoEarlierThanOneThatIsToCome) {
  constexpr MemberId kPlanned{3, 3}, kNext{4, 4};
  wire::View installed;
  installed.epoch = installed.era = 2;
  installed.entries = {Entry(kFirst, 0), Entry(kSecond, 1), Entry(kPlanned, 2)};
  installed.entries[2].first = Bound{Bound::Kind::kStep, 9, 0, {}};
  installed.entries[2].joined_epoch = 2;
  wire::Prepare prepare;
  prepare.epoch = 3;
  prepare.members = installed.entries;
  prepare.members.push_back(Entry(kNext, 3));
  prepare.survivors = {kFirst, kSecond, kPlanned};
  StatusMap statuses;
  for (const MemberId id : {kFirst, kSecond, kPlanned}) {
    statuses[id] = StatusOf(installed, 0, 0);
    statuses[id].steps_marked = true;
    statuses[id].step = id == kPlanned ? 0 : 6;
  }
  statuses[kNext].epoch = 3;
  const auto bounds = [&] { return DecideBounds(prepare, 0, statuses); };
  EXPECT_EQ(bounds()[2].first, installed.entries[2].first);
  EXPECT_TRUE(bounds()[3].fresh_first);
  EXPECT_EQ(bounds()[3].first, installed.entries[2].first);
  statuses[kFirst].step = 12;
  EXPECT_EQ(bounds()[3].first, (Bound{Bound::Kind::kStep, 13, 0, {}}));
}

}  // namespace
}  // namespace ftar::membership
