// Every crash point of a shared operation (protocol.md 10): one of three dies, or stands still, or
// is told that it is out, after every single message, look and block; on the fast path, and where a
// second call has stopped that before. Whose memory is given back is written over at once. Whatever
// the point, the survivors deliver, agree, and hold exactly the participants' contributions.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "lab.h"

namespace ftar::lab {
namespace {

constexpr int kMembers = 3;
constexpr uint32_t kSecondMember = 1 << 2, kAll = 1 << 1 | kSecondMember | 1 << 3;

enum class Fate {
  kDies,
  kDiesUnseen,   // what it has stored last is seen by nobody
  kStandsStill,  // goes on when the others have long gone on without it
  kToldFirst,    // hears that it is out, and gives its memory back, before the others freeze
};

struct Case {
  Fate fate;
  bool in_place = false;
  bool in_area = false;
  bool all_sum = false;
  bool mixed = false;  // one has its input in its slot, as in one pass
  uint32_t keep_aside = 0;
};

constexpr const char* kFates[] = {"Dies", "DiesUnseen", "StandsStill", "ToldFirst"};

class SharedCrash : public testing::TestWithParam<Case> {
 protected:
  static LabOptions Options() {
    LabOptions options;
    options.members = kMembers;
    options.plan = GetParam().mixed ? plan::PlanKind::kOneShot : plan::PlanKind::kDirect;
    options.lanes = true;
    options.in_place = GetParam().in_place;
    options.keep_aside = GetParam().keep_aside;
    // Two chunks more than there are members, the last one shorter: some have two.
    options.count = GetParam().in_area ? 19 : 18;
    options.all_sum = GetParam().all_sum ? kMembers : 0;
    options.block = 3;  // so that some have half of a chunk
    return options;
  }

  static void CallAll(Lab& lab) {
    for (int name = 1; name <= kMembers; ++name) {
      if (InSlot(name)) {
        lab.Call(name);
      } else {
        lab.CallFast(name);
      }
    }
  }

  static bool InSlot(int name) { return GetParam().mixed && name == 2; }

  static bool DeliverSome(Lab& lab, int messages) {
    for (int i = 0; i < messages; ++i) {
      if (!lab.DeliverAny()) return false;
    }
    return true;
  }

  // Whether an operation alone takes so many.
  static bool Reaches(int messages) {
    Lab lab(Options());
    lab.Form();
    CallAll(lab);
    return DeliverSome(lab, messages);
  }

  static void Strike(Lab& lab, int victim) {
    const Fate fate = GetParam().fate;
    if (fate == Fate::kStandsStill) return lab.StandStill(victim);
    if (fate == Fate::kToldFirst) {
      lab.TellEvicted(victim);
      return lab.DeliverAll();
    }
    lab.Kill(victim);
    while (fate == Fate::kDiesUnseen && lab.Drop(victim, victim)) {
    }
  }

  // The survivors end what they have called, and one operation more.
  static void Recover(Lab& lab, int victim, size_t calls) {
    std::vector<int> survivors;
    for (int name = 1; name <= kMembers; ++name) {
      if (name != victim) survivors.push_back(name);
    }
    lab.Recover(survivors);
    for (const int name : survivors) lab.CallFast(name);
    lab.DeliverAll();
    if (GetParam().fate == Fate::kStandsStill) lab.GoOn(victim);
    lab.DeliverAll();
    ASSERT_EQ(lab.failure(), "");
    for (const int name : survivors) ASSERT_EQ(lab.outcomes(name).size(), calls + 1) << name;
  }
};

TEST_P(SharedCrash, OnTheFastPath) {
  for (int victim = 1; victim <= kMembers; ++victim) {
    for (int point = 0;; ++point) {
      SCOPED_TRACE("victim " + std::to_string(victim) + " after " + std::to_string(point));
      Lab lab(Options());
      lab.Form();
      CallAll(lab);
      for (int name = 1; name <= kMembers; ++name) {
        if (InSlot(name)) continue;
        ASSERT_EQ(lab.engine(name).fast_room(), collective::LaneRoom::kShared);
      }
      if (!DeliverSome(lab, point)) break;
      Strike(lab, victim);
      Recover(lab, victim, 1);
      if (HasFatalFailure()) return;
    }
  }
}

// The second call finds some of the first one made and written over.
TEST_P(SharedCrash, OffTheFastPath) {
  for (int victim = 1; victim <= kMembers; ++victim) {
    for (int second = 0; Reaches(second); second += 2) {
      for (int point = 0;; ++point) {
        SCOPED_TRACE("victim " + std::to_string(victim) + " after " + std::to_string(point) +
                     ", second call after " + std::to_string(second));
        Lab lab(Options());
        lab.Form();
        CallAll(lab);
        DeliverSome(lab, second);
        CallAll(lab);
        if (!DeliverSome(lab, point)) break;
        Strike(lab, victim);
        Recover(lab, victim, 2);
        if (HasFatalFailure()) return;
      }
    }
  }
}

std::vector<Case> Cases() {
  std::vector<Case> cases;
  for (const Fate fate : {Fate::kDies, Fate::kDiesUnseen, Fate::kStandsStill, Fate::kToldFirst}) {
    for (const bool in_place : {false, true}) {
      for (const bool in_area : {false, true}) cases.push_back({fate, in_place, in_area});
    }
    cases.push_back({.fate = fate, .in_place = true, .keep_aside = kAll});
    cases.push_back({.fate = fate, .in_place = true, .keep_aside = kAll & ~kSecondMember});
    cases.push_back({fate, false, false, /*all_sum=*/true});
    cases.push_back({fate, false, false, /*all_sum=*/true, /*mixed=*/true});
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Fates, SharedCrash, testing::ValuesIn(Cases()), [](const auto& info) {
  return std::string(kFates[static_cast<int>(info.param.fate)]) +
         (info.param.in_place ? "InPlace" : "") + (info.param.in_area ? "InArea" : "") +
         (info.param.keep_aside == kAll ? "Aside" : info.param.keep_aside != 0 ? "SomeAside" : "") +
         (info.param.all_sum ? "AllSum" : "") + (info.param.mixed ? "Mixed" : "");
});

}  // namespace
}  // namespace ftar::lab
