// In which order the groups of a member get what they want.
#include <gtest/gtest.h>

#include <vector>

#include "engine/engine.h"

namespace ftar::engine {
namespace {

class Order : public testing::Test {
 protected:
  Order() : engine_(MakeConfig()) {}
  static Config MakeConfig() {
    Config config;
    config.job = "order";
    config.self.id = {1, 1};
    config.solo = true;
    return config;
  }
  void Open(GroupKey group, int32_t priority) { Step(OpenGroup{group, 0, priority}); }
  void Call(GroupKey group) {
    collective::OpSpec spec;
    spec.element_bytes = spec.accumulator_bytes = 4;
    spec.count = 8;
    Step(StartOp{group, spec, 1});
  }
  void Step(const Event& event) { engine_.Step(++now_, event); }
  // The groups of what is to be done, repetitions left out.
  std::vector<GroupKey> Groups() {
    std::vector<GroupKey> out;
    for (const GroupTodo& todo : engine_.TakeReady().todo) {
      if (out.empty() || out.back() != todo.group) out.push_back(todo.group);
    }
    return out;
  }

  Engine engine_;
  TimeNs now_ = 0;
};

TEST_F(Order, TheMostUrgentGroupComesFirst) {
  Open(1, -3);
  Open(2, 0);
  Open(3, 7);
  Open(4, 0);
  for (const GroupKey group : {1, 2, 3, 4}) Call(group);
  EXPECT_EQ(Groups(), (std::vector<GroupKey>{3, 2, 4, 1}));
}

TEST_F(Order, TheLastOpenDecides) {
  Open(1, 0);
  Open(2, 5);
  Open(2, -5);
  for (const GroupKey group : {2, 1}) Call(group);
  EXPECT_EQ(Groups(), (std::vector<GroupKey>{1, 2}));
}

}  // namespace
}  // namespace ftar::engine
