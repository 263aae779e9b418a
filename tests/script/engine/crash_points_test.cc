// Every crash point: one operation, one victim, killed after every single message; then a second
// one killed inside the change. Whatever the point, the survivors deliver, agree, and hold exactly
// the participants' contributions (rules V1 to V4).
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "lab.h"

namespace ftar::lab {
namespace {

struct Point {
  plan::PlanKind plan;
  bool in_place;
  bool lends;
  bool lanes = false;
};

class CrashPoints : public testing::TestWithParam<Point> {
 protected:
  static LabOptions Options(int members, uint64_t count) {
    LabOptions options;
    options.members = members;
    options.count = count;
    options.plan = GetParam().plan;
    options.in_place = GetParam().in_place;
    options.lends = GetParam().lends;
    options.lanes = GetParam().lanes;
    return options;
  }
};

std::vector<int> AllBut(int members, std::vector<int> gone) {
  std::vector<int> left;
  for (int name = 1; name <= members; ++name) {
    if (std::find(gone.begin(), gone.end(), name) == gone.end()) left.push_back(name);
  }
  return left;
}

// Two operations in flight. Returns false when the run was over before the crash point.
bool RunToPoint(Lab& lab, int members, int victim, int point, bool victim_silent) {
  lab.Form();
  for (int round = 0; round < 2; ++round) {
    for (int name = 1; name <= members; ++name) lab.Call(name);
  }
  for (int i = 0; i < point; ++i) {
    if (!lab.DeliverAny()) return false;
  }
  lab.Kill(victim);
  if (victim_silent) {
    for (int name = 1; name <= members;
         ++name) {  // what it had sent and nobody has read dies with it
      while (lab.Drop(victim, name)) {
      }
    }
  }
  return true;
}

void ExpectAllDelivered(Lab& lab, const std::vector<int>& survivors, const std::string& where) {
  ASSERT_EQ(lab.failure(), "") << where;
  for (int name : survivors)
    ASSERT_EQ(lab.outcomes(name).size(), 2u) << where << " member " << name;
}

TEST_P(CrashPoints, OneDiesAnywhere) {
  for (int victim = 1; victim <= 3; ++victim) {
    for (bool silent : {false, true}) {
      for (int point = 0;; ++point) {
        Lab lab(Options(3, 12));
        if (!RunToPoint(lab, 3, victim, point, silent)) break;
        const std::vector<int> survivors = AllBut(3, {victim});
        lab.Recover(survivors);
        ExpectAllDelivered(
            lab, survivors,
            "victim " + std::to_string(victim) + " after " + std::to_string(point) + " messages");
      }
    }
  }
}

TEST_P(CrashPoints, ASecondDiesInsideTheChange) {
  for (int victim = 1; victim <= 4; ++victim) {
    const int second = victim == 1 ? 2 : 1;  // the leader of the change
    for (int point = 0;; point += 3) {
      bool reached = true;
      for (int later = 0; reached; ++later) {
        Lab lab(Options(4, 8));
        if (!RunToPoint(lab, 4, victim, point, false)) {
          reached = false;
          point = -1000;
          break;
        }
        lab.Prepare(AllBut(4, {victim}));
        bool installed = false;
        int done = 0;
        for (; done < later; ++done) {
          if (!installed && lab.Install()) installed = true;
          if (!lab.DeliverAny()) break;
        }
        if (done < later) break;
        lab.Kill(second);
        const std::vector<int> survivors = AllBut(4, {victim, second});
        lab.Recover(survivors);
        ExpectAllDelivered(lab, survivors,
                           "victims " + std::to_string(victim) + " after " + std::to_string(point) +
                               ", " + std::to_string(second) + " after " + std::to_string(later));
        if (HasFatalFailure()) return;
      }
      if (!reached) break;
    }
  }
}

TEST_P(CrashPoints, FalseSuspicionAnywhere) {
  // The victim lives, is evicted and hears nothing of it: it must not deliver anything else than
  // the survivors do.
  for (int victim = 1; victim <= 3; ++victim) {
    for (int point = 0;; ++point) {
      Lab lab(Options(3, 12));
      lab.Form();
      for (int name = 1; name <= 3; ++name) lab.Call(name);
      bool reached = true;
      for (int i = 0; i < point && reached; ++i) reached = lab.DeliverAny();
      if (!reached) break;
      const std::vector<int> survivors = AllBut(3, {victim});
      lab.Recover(survivors);
      ASSERT_EQ(lab.failure(), "") << "victim " << victim << " after " << point;
      for (int name : survivors) ASSERT_EQ(lab.outcomes(name).size(), 1u);
      // What was on its way to the victim arrives when the others have long taken back what they
      // had lent.
      lab.DeliverAll();
      ASSERT_EQ(lab.failure(), "") << "victim " << victim << " after " << point << ", later";
    }
  }
}

// On the fast path, and off it wherever something comes in between; `killed`, or evicted unheard.
void DieOnTheFastPath(LabOptions options, int victim, bool killed) {
  for (int point = 0;; ++point) {
    Lab lab(options);
    lab.Form();
    for (int name = 1; name <= 3; ++name) lab.CallFast(name);
    bool reached = true;
    for (int i = 0; i < point && reached; ++i) reached = lab.DeliverAny();
    if (!reached) break;
    if (killed) lab.Kill(victim);
    const std::vector<int> survivors = AllBut(3, {victim});
    lab.Recover(survivors);
    const std::string where =
        "victim " + std::to_string(victim) + " after " + std::to_string(point) + " messages";
    for (int name : survivors) ASSERT_EQ(lab.outcomes(name).size(), 1u) << where;
    lab.DeliverAll();
    ASSERT_EQ(lab.failure(), "") << where;
  }
}

TEST(FastCrashPoints, OneDiesAnywhere) {
  for (const bool in_place : {false, true}) {
    for (int victim = 1; victim <= 3; ++victim) {
      LabOptions options;
      options.plan = plan::PlanKind::kOneShot;
      options.in_place = in_place;
      options.lanes = true;
      DieOnTheFastPath(options, victim, /*killed=*/true);
      DieOnTheFastPath(options, victim, /*killed=*/false);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Plans, CrashPoints,
                         testing::Values(Point{plan::PlanKind::kOneShot, false, false},
                                         Point{plan::PlanKind::kDirect, false, false},
                                         Point{plan::PlanKind::kDirect, true, false},
                                         Point{plan::PlanKind::kRing, false, false},
                                         Point{plan::PlanKind::kRing, true, false},
                                         Point{plan::PlanKind::kOneShot, false, true},
                                         Point{plan::PlanKind::kDirect, false, true},
                                         Point{plan::PlanKind::kDirect, true, true},
                                         Point{plan::PlanKind::kRing, true, true},
                                         Point{plan::PlanKind::kOneShot, false, false, true},
                                         Point{plan::PlanKind::kOneShot, true, false, true}),
                         [](const auto& info) {
                           return std::string(plan::PlanName(info.param.plan)) +
                                  (info.param.in_place ? "InPlace" : "") +
                                  (info.param.lends ? "Lent" : "") +
                                  (info.param.lanes ? "Lanes" : "");
                         });

}  // namespace
}  // namespace ftar::lab
