// All members leave at once, and one has operations under way that others have not called. They
// stand in for those (rule J5), and for nothing that they make up: whatever wire is slow, what was
// called ends, with who has called it.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "lab.h"

namespace ftar::lab {
namespace {

constexpr int kMembers = 3;
const std::vector<int> kAll = {1, 2, 3};

struct Case {
  plan::PlanKind plan;
  bool lanes;
};

class AllLeave : public testing::TestWithParam<Case> {
 protected:
  static LabOptions Options() {
    LabOptions options;
    options.members = kMembers;
    options.plan = GetParam().plan;
    options.lanes = GetParam().lanes;
    options.post = true;
    return options;
  }

  // `second` calls the first of two operations, too, and the third member none.
  static void LeaveWithCalls(Lab& lab, int first, int second) {
    lab.Form();
    lab.Call(first);
    lab.Call(first);
    lab.Call(second);
    for (int name : kAll) lab.Leave(name);
    lab.Prepare(kAll, {}, kAll);
    lab.DeliverAll();
    ASSERT_TRUE(lab.Install());
    lab.DeliverAll();
  }

  static void ExpectEnded(Lab& lab, int first, int second) {
    ASSERT_EQ(lab.failure(), "");
    for (int name : {first, second}) {
      const std::vector<collective::Outcome>& outcomes = lab.outcomes(name);
      ASSERT_GE(outcomes.size(), 2u) << "member " << name;
      for (size_t i = 0; i < 2; ++i) {
        ASSERT_EQ(outcomes[i].status, Code::kOk) << outcomes[i].text;
        ASSERT_EQ(outcomes[i].participants, i == 0 ? 2 : 1);
      }
    }
  }
};

TEST_P(AllLeave, WhatWasCalledEnds) {
  for (int from = 0; from <= kMembers; ++from) {
    for (int to = 1; to <= kMembers; ++to) {
      for (int first = 1; first <= kMembers; ++first) {
        const int second = first % kMembers + 1;
        SCOPED_TRACE("member " + std::to_string(first) + " calls two, slow from " +
                     std::to_string(from) + " to " + std::to_string(to));
        Lab lab(Options());
        lab.SlowDown(from, to);
        LeaveWithCalls(lab, first, second);
        ExpectEnded(lab, first, second);
        if (HasFatalFailure()) return;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Plans, AllLeave,
                         testing::Values(Case{plan::PlanKind::kOneShot, false},
                                         Case{plan::PlanKind::kOneShot, true},
                                         Case{plan::PlanKind::kDirect, false},
                                         Case{plan::PlanKind::kDirect, true},
                                         Case{plan::PlanKind::kRing, false}),
                         [](const auto& info) {
                           return std::string(plan::PlanName(info.param.plan)) +
                                  (info.param.lanes ? "Lanes" : "");
                         });

}  // namespace
}  // namespace ftar::lab
