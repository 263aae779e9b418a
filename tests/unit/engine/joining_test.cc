// Goal: whoever loses the coordinator while its first view is on its way is lost to nobody.
#include <gtest/gtest.h>

#include <algorithm>

#include "engine/engine.h"
#include "tests/unit/engine/cards.h"

namespace ftar::engine {
namespace {

class Joining : public testing::Test {
 protected:
  Joining() : engine_(ConfigOf("joining", 2)) {}
  void Step(const Event& event) {
    engine_.Step(++now_, event);
    said_ = engine_.TakeReady().to_coordinator;
  }
  // Of a view of the two of epoch 1, on `base`.
  static wire::Prepare PrepareOf(uint64_t counter, Epoch base) {
    wire::Prepare prepare;
    prepare.epoch = MakeEpoch(counter, 1);
    prepare.base = base;
    for (const uint64_t number : {2, 1}) {  // the first leads
      wire::ViewEntry entry;
      entry.card = CardOf(number);
      entry.joined_epoch = MakeEpoch(1, 1);
      prepare.members.push_back(entry);
      if (base != 0) prepare.survivors.push_back(entry.card.id);
    }
    return prepare;
  }
  // With a link to make.
  void Arrive() {
    wire::Welcome welcome;
    welcome.peers = {CardOf(2)};
    Step(CoordinatorUp{});
    Step(FromCoordinator{welcome});
  }
  void Promise(const wire::Prepare& prepare) {
    Step(FromCoordinator{prepare});
    Step(FromPeer{CardOf(2).id, wire::ColumnVerdicts{prepare.epoch, 0, {}, {}, {}}});
  }
  void Enter(const wire::Prepare& prepare) {
    wire::Install install;
    install.view.epoch = install.view.era = prepare.epoch;
    install.view.entries = prepare.members;
    Step(FromCoordinator{install});
    ASSERT_NE(engine_.view(), nullptr);
  }
  bool TellsOf(uint64_t number) const {
    return std::ranges::any_of(said_, [&](const wire::Message& message) {
      const auto* up = std::get_if<wire::LinksUp>(&message);
      return up && std::ranges::find(up->peers, CardOf(number).id) != up->peers.end();
    });
  }

  Engine engine_;
  TimeNs now_ = 0;
  std::vector<wire::Message> said_;
};

// A newcomer may wait for that link, whose own end is asked for nothing.
TEST_F(Joining, ALinkThatComesUpWithoutACoordinatorIsToldWithTheView) {
  const wire::Prepare prepare = PrepareOf(1, 0);
  Arrive();
  Promise(prepare);
  Step(CoordinatorDown{});
  Step(LinkIsUp{CardOf(2).id});
  Step(CoordinatorUp{});  // which knows it for a member, and does not welcome it again
  EXPECT_FALSE(TellsOf(2));
  Enter(prepare);
  EXPECT_TRUE(TellsOf(2));
}

TEST_F(Joining, WhoWasWelcomedHasToldItsLinks) {
  const wire::Prepare prepare = PrepareOf(1, 0);
  Arrive();
  Step(LinkIsUp{CardOf(2).id});
  EXPECT_TRUE(TellsOf(2));
  Promise(prepare);
  Enter(prepare);
  EXPECT_FALSE(TellsOf(2));
}

// Rule Q5: all whom the change keeps, itself among them, though it has not heard the view.
TEST_F(Joining, WhoWaitsWithoutAViewIsASuccessorOfTheChangeItHasPromised) {
  const auto is_successor = [this](uint64_t number) {
    return std::ranges::any_of(engine_.successors(), [&](const wire::MemberCard& card) {
      return card.id == CardOf(number).id;
    });
  };
  Step(CoordinatorUp{});
  wire::Prepare prepare = PrepareOf(2, MakeEpoch(1, 1));
  Step(FromCoordinator{prepare});
  EXPECT_TRUE(is_successor(1) && is_successor(2));
  prepare = PrepareOf(3, MakeEpoch(1, 1));
  prepare.members[1].joined_epoch = prepare.epoch;  // it is new, and has nothing to go on with
  Step(FromCoordinator{prepare});
  EXPECT_TRUE(!is_successor(1) && is_successor(2));
}

// Whoever is tired of waiting asks what it has waited for, and need not wait for that.
TEST_F(Joining, GivesUpWithAnAnswerOrWithout) {
  Arrive();
  Step(AbortSelf{Code::kTimeout, "tired"});
  ASSERT_EQ(said_.size(), 1u);
  EXPECT_EQ(std::get<wire::Goodbye>(said_[0]).code, Code::kTimeout);
  EXPECT_EQ(engine_.phase(), Phase::kJoining);
  Step(AbortSelf{Code::kTimeout, "tired"});
  EXPECT_EQ(engine_.phase(), Phase::kAborted);
  EXPECT_EQ(engine_.phase_status().code(), Code::kTimeout);
}

}  // namespace
}  // namespace ftar::engine
