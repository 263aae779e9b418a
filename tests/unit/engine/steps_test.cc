// What a member that is far behind in its steps makes of what the root has told of them.
#include <gtest/gtest.h>

#include <vector>

#include "engine/engine.h"

namespace ftar::engine {
namespace {

constexpr uint64_t kAhead = 100;  // steps, many more than the window
constexpr Epoch kEpoch = MakeEpoch(1, 1);

wire::ViewEntry EntryOf(uint64_t number) {
  wire::ViewEntry entry;
  entry.card.id = {1, number};
  entry.card.replica = static_cast<int32_t>(number) - 1;
  return entry;
}

class Steps : public testing::Test {
 protected:
  Steps() : engine_(MakeConfig()) {
    wire::Prepare prepare;
    wire::Install install;
    wire::ColumnVerdicts verdicts;
    install.view.epoch = install.view.era = prepare.epoch = verdicts.epoch = kEpoch;
    install.view.entries = prepare.members = {EntryOf(1), EntryOf(2)};
    Step(CoordinatorUp{});
    Step(FromCoordinator{prepare});
    Step(FromPeer{root_, verdicts});
    Step(FromCoordinator{install});
  }
  static Config MakeConfig() {
    Config config;
    config.job = "steps";
    config.self = EntryOf(2).card;
    config.replicas = 2;
    return config;
  }
  void Step(const Event& event) { engine_.Step(++now_, event); }

  const MemberId root_{1, 1};
  Engine engine_;
  TimeNs now_ = 0;
};

// J4: users call more where somebody joins, so what the first one has heard of a step holds for
// all.
TEST_F(Steps, OneThatIsFarBehindBeginsEachAsTheRootHasToldIt) {
  ASSERT_NE(engine_.view(), nullptr);
  for (uint64_t step = 1; step <= kAhead; ++step) {
    wire::StepMark mark{kEpoch, step, {}, static_cast<int32_t>(step), {}, kEpoch};
    Step(FromPeer{root_, mark});
  }
  for (uint64_t step = 1; step <= kAhead; ++step) {
    engine_.TakeReady();
    Step(BeginStep{});
    const Ready ready = engine_.TakeReady();
    ASSERT_TRUE(ready.step.has_value());
    EXPECT_EQ(ready.step->joined, static_cast<int32_t>(step));
  }
}

// Users count steps in int64_t: the one behind the last was INT64_MIN.
TEST_F(Steps, NoneFollowsTheLastOneThereIs) {
  constexpr int64_t kLast = INT64_MAX - 1;
  Step(BeginStep{.step = kLast});
  Ready ready = engine_.TakeReady();
  ASSERT_TRUE(ready.step.has_value());
  EXPECT_EQ(ready.step->status, Code::kOk);
  EXPECT_EQ(ready.step->step, kLast);
  Step(FromPeer{root_, wire::StepMark{kEpoch, kLast + 1, {}, 0, {}, kEpoch}});
  for (const int64_t step : {int64_t{-1}, INT64_MAX}) {
    engine_.TakeReady();
    Step(BeginStep{.step = step});
    ready = engine_.TakeReady();
    ASSERT_TRUE(ready.step.has_value());
    EXPECT_EQ(ready.step->status, Code::kArg) << step << ": began " << ready.step->step;
  }
}

// Nobody is more than one step ahead of the root: whoever waits for it says so, and when, once.
TEST_F(Steps, WhoWaitsForTheRootTellsOfItOnce) {
  const TimeNs timeout = MakeConfig().timeout_ns;
  Step(BeginStep{});
  ASSERT_TRUE(engine_.TakeReady().step.has_value());
  Step(BeginStep{});
  engine_.TakeReady();
  const TimeNs begun = now_;
  const auto told = [this](TimeNs when) {
    now_ = when - 1;
    Step(Tick{});
    Ready ready = engine_.TakeReady();
    EXPECT_FALSE(ready.step.has_value());
    std::erase_if(ready.notices, [](const Notice& one) { return one.kind != Notice::Kind::kLate; });
    return ready.notices;
  };
  EXPECT_TRUE(told(begun + timeout / 2).empty());
  Step(WithdrawStep{});  // taken up again it is the same wait
  engine_.TakeReady();
  Step(BeginStep{});
  EXPECT_TRUE(told(begun + timeout - 1).empty());
  const std::vector<Notice> late = told(begun + timeout);
  ASSERT_EQ(late.size(), 1u);
  EXPECT_EQ(late[0].late.member, root_);
  EXPECT_EQ(late[0].late.seq, kNoSeq);
  EXPECT_EQ(late[0].late.since_ns, timeout);
  EXPECT_TRUE(told(begun + 3 * timeout).empty());
  Step(FromPeer{root_, wire::StepMark{kEpoch, 1, {}, 0, {}, kEpoch}});
  EXPECT_TRUE(engine_.TakeReady().step.has_value());
}

}  // namespace
}  // namespace ftar::engine
