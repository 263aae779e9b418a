// What a member has said to a coordinator it says to the next one as well, and what it has heard of
// one it forgets.
#include <gtest/gtest.h>

#include <algorithm>

#include "engine/engine.h"
#include "tests/unit/engine/cards.h"

namespace ftar::engine {
namespace {

class ToldAgain : public testing::Test {
 protected:
  ToldAgain() : engine_(ConfigOf("again", 2)) {}
  void Step(const Event& event) {
    engine_.Step(++now_, event);
    Ready ready = engine_.TakeReady();
    said_ = std::move(ready.to_coordinator);
    to_peers_ = std::move(ready.to_peers);
  }
  static wire::Prepare PrepareOf(uint64_t counter, std::initializer_list<uint64_t> members) {
    wire::Prepare prepare;
    prepare.epoch = MakeEpoch(counter, 1);
    for (const uint64_t number : members) {
      prepare.members.emplace_back().card = CardOf(number);
      prepare.survivors.push_back(CardOf(number).id);
    }
    return prepare;
  }
  // It leads: its own number is the first.
  void Enter(uint64_t counter, std::initializer_list<uint64_t> members) {
    const wire::Prepare prepare = PrepareOf(counter, members);
    Step(FromCoordinator{prepare});
    for (const uint64_t number : members) {
      if (number == 1) continue;
      wire::ColumnStatus status;
      status.epoch = prepare.epoch;
      Step(FromPeer{CardOf(number).id, status});
    }
    wire::Install install;
    install.view.epoch = install.view.era = prepare.epoch;
    install.view.entries = prepare.members;
    Step(FromCoordinator{install});
    ASSERT_NE(engine_.view(), nullptr);
    ASSERT_EQ(engine_.view()->epoch, prepare.epoch);
  }
  void LoseCoordinator() {
    Step(CoordinatorDown{});
    Step(CoordinatorUp{});
  }
  bool Says(wire::EvidenceKind kind) const {
    return std::ranges::any_of(said_, [kind](const wire::Message& message) {
      const auto* evidence = std::get_if<wire::Evidence>(&message);
      return evidence && evidence->kind == kind;
    });
  }

  Engine engine_;
  TimeNs now_ = 0;
  std::vector<wire::Message> said_;
  std::vector<PeerMessage> to_peers_;
};

// All of them each time would be bytes by the third power of the members.
TEST_F(ToldAgain, OfItsLinksEachOnce) {
  using Ids = std::vector<MemberId>;
  const auto told = [this]() -> Ids {
    const auto* up = said_.size() == 1 ? std::get_if<wire::LinksUp>(&said_[0]) : nullptr;
    EXPECT_NE(up, nullptr);
    return up ? up->peers : Ids{};
  };
  const wire::Welcome welcome{{CardOf(2), CardOf(3)}};
  Step(CoordinatorUp{});
  Step(LinkIsUp{CardOf(2).id});
  EXPECT_TRUE(said_.empty());
  Step(FromCoordinator{welcome});
  EXPECT_EQ(told(), Ids{CardOf(2).id});
  Step(LinkIsUp{CardOf(3).id});
  EXPECT_EQ(told(), Ids{CardOf(3).id});
  Step(LinkIsUp{CardOf(4).id});  // dialled us: what its wire costs is news
  EXPECT_EQ(told(), Ids{});
  Step(FromCoordinator{wire::Connect{{CardOf(4), CardOf(5)}}});
  EXPECT_EQ(told(), Ids{CardOf(4).id});
  LoseCoordinator();
  Step(FromCoordinator{welcome});
  EXPECT_EQ(told(), (Ids{CardOf(2).id, CardOf(3).id, CardOf(4).id}));
}

TEST_F(ToldAgain, WhatItsUserSays) {
  Step(CoordinatorUp{});
  Enter(1, {1, 2});
  Step(CoordinatorDown{});
  Step(ReportSelf{Code::kDevice, "broken"});
  Step(EvictPeer{CardOf(2).id, "drained"});
  for (int i = 0; i < 2; ++i) {
    LoseCoordinator();
    EXPECT_TRUE(Says(wire::EvidenceKind::kSelfReport));
    EXPECT_TRUE(Says(wire::EvidenceKind::kOperator));
  }
  Enter(2, {1});
  LoseCoordinator();
  EXPECT_TRUE(Says(wire::EvidenceKind::kSelfReport));
  EXPECT_FALSE(Says(wire::EvidenceKind::kOperator));
}

// The next one may have one; if not it says so.
TEST_F(ToldAgain, ThatThereIsNoQuorum) {
  Step(CoordinatorUp{});
  Enter(1, {1, 2});
  Step(FromCoordinator{wire::NoQuorum{"too few"}});
  EXPECT_TRUE(engine_.quorum_lost());
  LoseCoordinator();
  EXPECT_FALSE(engine_.quorum_lost());
  Step(FromCoordinator{wire::NoQuorum{"too few"}});
  EXPECT_TRUE(engine_.quorum_lost());
}

// Of a change that has not come here others may tell for hours. The last word of each counts.
TEST_F(ToldAgain, OfAChangeThatIsStillToCome) {
  Step(CoordinatorUp{});
  Enter(1, {1, 2});
  wire::ColumnStatus status;
  status.epoch = MakeEpoch(2, 1);
  for (status.step = 9; status.step > 5; --status.step) Step(FromPeer{CardOf(2).id, status});
  Step(FromCoordinator{PrepareOf(2, {1, 2})});
  ASSERT_EQ(to_peers_.size(), 1u);
  const auto* verdicts = std::get_if<wire::ColumnVerdicts>(&to_peers_[0].message);
  ASSERT_NE(verdicts, nullptr);
  EXPECT_EQ(verdicts->step, 6u);
}

}  // namespace
}  // namespace ftar::engine
