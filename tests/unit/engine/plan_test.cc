// Goal: an operation belongs to one view for all, also in a group that is called in late (J1, J3).
#include <gtest/gtest.h>

#include <algorithm>

#include "engine/engine.h"
#include "tests/unit/engine/cards.h"

namespace ftar::engine {
namespace {

constexpr GroupKey kLate = 7;  // opened when the view has changed, or is about to
constexpr Seq kWindow = 16;

class Plan : public testing::Test {
 protected:
  Plan() : engine_(MakeConfig()) {}
  static Config MakeConfig() {
    Config config = ConfigOf("plan", 3);
    config.group.window = kWindow;
    return config;
  }
  void Step(const Event& event) {
    engine_.Step(++now_, event);
    said_ = engine_.TakeReady().to_coordinator;
  }
  // The first view: of these, the root first.
  void Begin(const std::vector<uint64_t>& numbers) {
    std::vector<wire::ViewEntry> entries;
    for (const uint64_t number : numbers) entries.push_back(EntryOf(number));
    Begin(entries);
  }
  void Begin(const std::vector<wire::ViewEntry>& entries) {
    wire::Prepare prepare;
    wire::Install install;
    prepare.epoch = install.view.epoch = install.view.era = MakeEpoch(1, 1);
    prepare.members = install.view.entries = entries;
    std::ranges::sort(prepare.members, {}, [](const wire::ViewEntry& entry) {
      return entry.card.id == CardOf(1).id;  // another one leads
    });
    Step(CoordinatorUp{});
    Step(FromCoordinator{prepare});
    Step(FromPeer{CardOf(2).id, wire::ColumnVerdicts{prepare.epoch, 0, {}, {}, {}}});
    Step(FromCoordinator{install});
    ASSERT_NE(engine_.view(), nullptr);
  }
  static wire::ViewEntry EntryOf(uint64_t number) {
    wire::ViewEntry entry;
    entry.card = CardOf(number);
    entry.joined_epoch = MakeEpoch(1, 1);
    return entry;
  }
  // The one behind `before`, from operation `boundary` of every group on.
  static wire::View After(wire::View before, Seq boundary) {
    before.base = before.epoch;
    before.epoch = MakeEpoch(EpochCounter(before.epoch) + 1, 1);
    before.planned = true;
    before.boundary = {wire::Bound::Kind::kSeq, 0, boundary, {}};
    return before;
  }
  bool Announced() const {
    return std::ranges::any_of(said_, [](const wire::Message& message) {
      return std::holds_alternative<wire::Announced>(message);
    });
  }

  // The step that the root reserves for a plan with these; 0: none.
  uint64_t Reserves(const wire::View& plan) {
    Step(FromCoordinator{wire::Propose{plan}});
    for (const wire::Message& message : said_) {
      if (const auto* reserved = std::get_if<wire::Reserved>(&message))
        return reserved->earliest.step;
    }
    return 0;
  }

  Engine engine_;
  TimeNs now_ = 0;
  std::vector<wire::Message> said_;
};

TEST_F(Plan, IsAnnouncedWhereNobodyHasPassedItsBoundary) {
  Begin({1, 2});
  const wire::View next = After(*engine_.view(), kWindow);
  Step(FromCoordinator{wire::Propose{next}});
  Step(OpenGroup{kLate});
  Step(FromCoordinator{wire::Announce{next}});
  EXPECT_TRUE(Announced());
  EXPECT_EQ(engine_.view()->epoch, next.epoch);
}

// Nothing is held back for it in that group: whoever hears of the end of operation 0 begins 16.
TEST_F(Plan, IsNotWhereAGroupThatIsNewSinceMayHavePassedIt) {
  Begin({1, 2});
  const wire::View next = After(*engine_.view(), kWindow);
  Step(FromCoordinator{wire::Propose{next}});
  Step(OpenGroup{kLate});
  Step(StartOp{kLate, {}, 1});
  Step(FromCoordinator{wire::Announce{next}});
  EXPECT_FALSE(Announced());
  EXPECT_EQ(engine_.view()->epoch, next.base);
}

// J4: who is new in a step has its last ranks. Ends need not wait for that.
TEST_F(Plan, NobodyEntersBeforeWhoIsToCome) {
  wire::ViewEntry to_come = EntryOf(2);
  to_come.first = {wire::Bound::Kind::kStep, 50, 0, {}};
  Begin(std::vector<wire::ViewEntry>{EntryOf(1), to_come});
  Step(BeginStep{});
  wire::View plan = After(*engine_.view(), 0);
  const uint64_t end = Reserves(plan);
  EXPECT_GT(end, 0u);
  EXPECT_LT(end, 50u);
  plan.entries.push_back(EntryOf(3));
  EXPECT_EQ(Reserves(plan), 50u);
}

// Others have called operation 0 there before all three changes, with the one that has left.
TEST_F(Plan, AGroupThatIsOpenedLateGoesByTheViewsBefore) {
  Begin({2, 1, 3});
  wire::View leaving = After(*engine_.view(), kWindow);
  leaving.entries.back().last = leaving.boundary;
  wire::View left = After(leaving, 2 * kWindow);
  left.entries.pop_back();
  for (const wire::View& view : {leaving, left, After(left, 3 * kWindow)})
    Step(FromPeer{CardOf(2).id, wire::Announce{view}});
  ASSERT_EQ(EpochCounter(engine_.view()->epoch), 4u);
  Step(OpenGroup{kLate});
  EXPECT_NE(engine_.group_view(kLate)->Find(CardOf(3).id), nullptr);
}

}  // namespace
}  // namespace ftar::engine
