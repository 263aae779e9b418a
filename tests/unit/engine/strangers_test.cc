// Whose links' remains go: those of members that none here knows.
#include <gtest/gtest.h>

#include "engine/engine.h"
#include "tests/unit/engine/cards.h"

namespace ftar::engine {
namespace {

class Strangers : public testing::Test {
 protected:
  Strangers() : engine_(ConfigOf("strangers", 3)) {}
  void Step(const Event& event) { engine_.Step(++now_, event); }
  std::vector<MemberId> Forgotten() { return engine_.TakeReady().forget; }

  const MemberId other_ = CardOf(2).id;
  Engine engine_;
  TimeNs now_ = 0;
};

TEST_F(Strangers, OneWhoseLinkHasEndedIsForgotten) {
  Step(LinkIsUp{other_});
  EXPECT_TRUE(Forgotten().empty());
  Step(LinkIsDown{other_, Code::kLink, "closed"});
  EXPECT_EQ(Forgotten(), std::vector<MemberId>{other_});
  EXPECT_TRUE(Forgotten().empty());
}

TEST_F(Strangers, OneThatIsBackAtOnceIsNot) {
  Step(LinkIsUp{other_});
  Step(LinkIsDown{other_, Code::kLink, "it begins anew"});
  Step(LinkIsUp{other_});
  EXPECT_TRUE(Forgotten().empty());
}

TEST_F(Strangers, WhomTheCoordinatorNamesIsNone) {
  wire::Connect connect;
  connect.peers.push_back(CardOf(2));
  Step(CoordinatorUp{});
  Step(FromCoordinator{connect});
  Step(LinkIsDown{other_, Code::kLink, "refused"});
  EXPECT_TRUE(Forgotten().empty());
}

TEST_F(Strangers, WhoIsOfAChangeIsForgottenWhenItComesToNothing) {
  const auto prepare = [](uint64_t counter, std::initializer_list<uint64_t> members) {
    wire::Prepare message;
    message.epoch = MakeEpoch(counter, 1);
    for (const uint64_t number : members) {
      wire::ViewEntry entry;
      entry.card = CardOf(number);
      message.members.push_back(entry);
    }
    return FromCoordinator{message};
  };
  Step(CoordinatorUp{});
  Step(LinkIsUp{other_});
  Step(prepare(1, {1, 2}));
  Step(LinkIsDown{other_, Code::kLink, "closed"});
  EXPECT_TRUE(Forgotten().empty());
  Step(prepare(2, {1, 3}));
  EXPECT_EQ(Forgotten(), std::vector<MemberId>{other_});
}

}  // namespace
}  // namespace ftar::engine
