#include "membership/verdict.h"

#include <gtest/gtest.h>

namespace ftar::membership {
namespace {

using wire::Bound;
using wire::VerdictKind;

constexpr MemberId kFirst{1, 1}, kSecond{2, 2};
constexpr uint8_t kBroadcast = 3;

wire::ViewEntry Entry(MemberId id, int32_t replica) {
  wire::ViewEntry entry;
  entry.card.id = id;
  entry.card.replica = replica;
  entry.joined_epoch = 1;
  entry.first.kind = Bound::Kind::kAlways;
  return entry;
}

// Both have all of a broadcast that they want: each from `root`, or from a root of its own.
Decision DecideBroadcast(MemberId root_of_first, MemberId root_of_second) {
  wire::Prepare prepare;
  prepare.epoch = 2;
  prepare.members = {Entry(kFirst, 0), Entry(kSecond, 1)};
  prepare.survivors = {kFirst, kSecond};
  wire::View view;
  view.epoch = view.era = 1;
  view.entries = prepare.members;
  StatusMap statuses;
  for (const auto& [id, root] : {std::pair{kFirst, root_of_first}, {kSecond, root_of_second}}) {
    wire::ColumnStatus& status = statuses[id];
    status.epoch = 2;
    status.report.installed = 1;
    status.report.installed_view = view;
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
  EXPECT_TRUE(decision.violations.empty());
}

}  // namespace
}  // namespace ftar::membership
