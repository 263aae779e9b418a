// The first operations of a young job: one member of three aborts itself or leaves at every point
// from its first view on, while any one wire is slow: the coordinator's to a member and the end of
// a member's own works included. So the next Prepare may come before the verdicts of the first
// view, frames before the view they belong to, and some have called while others have not entered.
// Whatever the point, all who stay finish both operations.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "lab.h"

namespace ftar::lab {
namespace {

constexpr int kMembers = 3;

enum class End { kAborts, kLeaves };

struct Case {
  plan::PlanKind plan;
  bool in_place;
  End end;
};

class EarlyEnd : public testing::TestWithParam<Case> {
 protected:
  // Coordinator and users in one: installs what is decided, and calls where a view is new.
  bool Move(Lab& lab) {
    if (!installed_ && lab.decided()) installed_ = lab.Install();
    for (int name = 1; name <= kMembers; ++name) {
      if (name != late_ || ++moves_ > late_moves_) CallTwo(lab, name);
    }
    return lab.DeliverAny() || (late_ != 0 && CallTwo(lab, late_));
  }

  // False if it has called already, or cannot.
  bool CallTwo(Lab& lab, int name) {
    const bool in = lab.engine(name).phase() == engine::Phase::kMember && called_[name] == 0;
    for (; in && called_[name] < 2; ++called_[name]) lab.Call(name);
    return in;
  }

  // False when the run was over before the point.
  bool RunToPoint(Lab& lab, int point) {
    installed_ = false;
    moves_ = 0;
    called_.assign(kMembers + 1, 0);
    lab.Connect();
    lab.Prepare({}, {1, 2, 3});
    while (!lab.decided()) {
      if (!lab.DeliverAny()) return false;
    }
    installed_ = lab.Install();
    for (int i = 0; i < point; ++i) {
      if (!Move(lab)) return false;
    }
    return true;
  }

  void EndOne(Lab& lab, int victim) {
    std::vector<int> survivors;
    for (int name = 1; name <= kMembers; ++name) {
      if (name != victim || GetParam().end == End::kLeaves) survivors.push_back(name);
    }
    if (GetParam().end == End::kAborts) {
      lab.Kill(victim);
      lab.Prepare(survivors);
    } else {
      lab.Leave(victim);
      lab.Prepare(survivors, {}, {victim});
    }
    installed_ = false;
    for (int i = 0; i < 10000 && lab.failure().empty() && Move(lab); ++i) {
    }
  }

  void ExpectFinished(Lab& lab, int victim) {
    ASSERT_EQ(lab.failure(), "");
    for (int name = 1; name <= kMembers; ++name) {
      if (name == victim) continue;
      ASSERT_EQ(lab.outcomes(name).size(), 2u) << "member " << name;
    }
    if (GetParam().end != End::kLeaves) return;
    ASSERT_EQ(lab.engine(victim).phase(), engine::Phase::kLeft);
  }

 protected:
  int late_ = 0, late_moves_ = 0;  // this member calls only after so many moves

 private:
  bool installed_ = false;
  int moves_ = 0;
  std::vector<int> called_;
};

TEST_P(EarlyEnd, WhoStaysFinishes) {
  for (int from = 0; from <= kMembers; ++from) {
    for (int to = 1; to <= kMembers; ++to) {
      for (int victim = 1; victim <= kMembers; ++victim) {
        int point = 0;
        for (;; ++point) {
          Lab lab({kMembers, 4, GetParam().plan, GetParam().in_place, 12, true});
          lab.SlowDown(from, to);
          if (!RunToPoint(lab, point)) break;
          EndOne(lab, victim);
          SCOPED_TRACE("member " + std::to_string(victim) + " after " + std::to_string(point) +
                       " messages, slow from " + std::to_string(from) + " to " +
                       std::to_string(to));
          ExpectFinished(lab, victim);
          if (HasFatalFailure()) return;
        }
        ASSERT_GT(point, 30) << "two operations take more messages than that";
      }
    }
  }
}

// A group opened between Prepare and Install is frozen, too: what it did in the old era would be
// taken for the new one's.
TEST_P(EarlyEnd, WhoOpensTheGroupLateFinishesToo) {
  constexpr int kVictim = 3;
  for (late_ = 1; late_ < kVictim; ++late_) {
    for (int point = 0; point < 40; ++point) {
      for (late_moves_ = point; late_moves_ < point + 25; ++late_moves_) {
        Lab lab({kMembers, 4, GetParam().plan, GetParam().in_place, 12, true, true, false});
        if (!RunToPoint(lab, point)) break;
        EndOne(lab, kVictim);
        SCOPED_TRACE("member " + std::to_string(late_) + " calls after " +
                     std::to_string(late_moves_) + " moves, the end comes after " +
                     std::to_string(point));
        ExpectFinished(lab, kVictim);
        if (HasFatalFailure()) return;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Plans, EarlyEnd,
                         testing::Values(Case{plan::PlanKind::kOneShot, false, End::kAborts},
                                         Case{plan::PlanKind::kDirect, false, End::kAborts},
                                         Case{plan::PlanKind::kDirect, true, End::kAborts},
                                         Case{plan::PlanKind::kRing, false, End::kAborts},
                                         Case{plan::PlanKind::kRing, true, End::kAborts},
                                         Case{plan::PlanKind::kOneShot, false, End::kLeaves},
                                         Case{plan::PlanKind::kDirect, true, End::kLeaves},
                                         Case{plan::PlanKind::kRing, false, End::kLeaves},
                                         Case{plan::PlanKind::kRing, true, End::kLeaves}),
                         [](const auto& info) {
                           return std::string(plan::PlanName(info.param.plan)) +
                                  (info.param.in_place ? "InPlace" : "") +
                                  (info.param.end == End::kAborts ? "Aborts" : "Leaves");
                         });

}  // namespace
}  // namespace ftar::lab
