// What a member behind a relay makes of a coordinator that is away.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "engine/engine.h"

namespace ftar::engine {
namespace {

class Away : public testing::Test {
 protected:
  Away() : engine_(MakeConfig()) {}
  static Config MakeConfig() {
    Config config;
    config.job = "away";
    config.self.id = {1, 1};
    config.heartbeat_ns = kMillisecond;
    return config;
  }
  void Step(const Event& event) {
    engine_.Step(now_ += kMillisecond, event);
    Ready ready = engine_.TakeReady();
    notices_.clear();
    for (const Notice& notice : ready.notices) notices_.push_back(notice.kind);
    said_ = std::move(ready.to_coordinator);
  }
  void Enter() {
    wire::ViewEntry entry;
    entry.card.id = {1, 1};
    wire::Prepare prepare;
    wire::Install install;
    install.view.epoch = install.view.era = prepare.epoch = MakeEpoch(1, 1);
    install.view.entries = prepare.members = {entry};
    prepare.survivors = {entry.card.id};
    Step(CoordinatorUp{});
    Step(FromCoordinator{prepare});
    Step(FromCoordinator{install});
    ASSERT_NE(engine_.view(), nullptr);
  }
  void HearBeat(bool away) { Step(FromCoordinator{wire::CoordinatorBeat{0, away}}); }
  bool Beats() const {
    return std::ranges::any_of(
        said_, [](const auto& one) { return std::holds_alternative<wire::Heartbeat>(one); });
  }

  using Kind = Notice::Kind;
  Engine engine_;
  TimeNs now_ = 0;
  std::vector<Kind> notices_;
  std::vector<wire::Message> said_;
};

TEST_F(Away, ARelayWithoutOneIsNoneButIsToldAll) {
  Enter();
  HearBeat(false);
  EXPECT_TRUE(engine_.coordinator_up());
  EXPECT_TRUE(notices_.empty());
  HearBeat(true);
  EXPECT_FALSE(engine_.coordinator_up());
  EXPECT_EQ(notices_, std::vector{Kind::kCoordinatorDown});
  EXPECT_TRUE(Beats());
  HearBeat(true);
  EXPECT_TRUE(notices_.empty());
  EXPECT_TRUE(Beats());
  HearBeat(false);
  EXPECT_TRUE(engine_.coordinator_up());
  EXPECT_EQ(notices_, std::vector{Kind::kCoordinatorUp});
}

TEST_F(Away, ThatTheRelayIsLostTooIsNoNews) {
  Enter();
  HearBeat(true);
  Step(CoordinatorDown{});
  EXPECT_TRUE(notices_.empty());
  EXPECT_FALSE(engine_.coordinator_up());
  Step(CoordinatorUp{});
  EXPECT_EQ(notices_, std::vector{Kind::kCoordinatorUp});
}

}  // namespace
}  // namespace ftar::engine
