// What may arrive in its place before all of it is here: the awaited result of this attempt, from
// its owner, and nothing else.
#include <gtest/gtest.h>

#include "lab.h"

namespace ftar::lab {
namespace {

// Member 1 has made chunk 0 and its result is on the way to 2, which waits for it.
class Landing : public testing::Test {
 protected:
  void Begin(LabOptions options) {
    lab_ = std::make_unique<Lab>(options);
    lab_->Form();
    for (int member = 1; member <= options.members; ++member) lab_->Call(member);
    for (int turn = 0; turn < 100 && !lab_->WaitingFinal(1, 2); ++turn) {
      for (int from = 2; from <= options.members; ++from) lab_->Deliver(from, 1);
    }
    const auto header = lab_->WaitingFinal(1, 2);
    ASSERT_TRUE(header);
    header_ = *header;
  }
  bool Lands(int from = 1) { return LandingOf(header_, from).has_value(); }
  std::optional<collective::BufferRef> LandingOf(const wire::FrameHeader& header, int from = 1) {
    const auto number = static_cast<uint64_t>(from);
    return lab_->engine(2).LandingOf({number << 60, number}, header);
  }

  std::unique_ptr<Lab> lab_;
  wire::FrameHeader header_;
};

TEST_F(Landing, TheAwaitedResultFromItsOwner) {
  Begin({});
  const auto place = LandingOf(header_);
  ASSERT_TRUE(place);
  EXPECT_EQ(place->kind, collective::BufferRef::Kind::kRecv);
  EXPECT_EQ(place->id, header_.seq);
  EXPECT_EQ(place->bytes, header_.payload_bytes);
  EXPECT_FALSE(Lands(3));
}

TEST_F(Landing, NothingThatIsNotJustThat) {
  Begin({});
  const auto refused = [this](auto change) {
    wire::FrameHeader header = header_;
    change(header);
    return !LandingOf(header);
  };
  EXPECT_TRUE(refused([](auto& h) { h.kind = wire::FrameKind::kRaw; }));
  EXPECT_TRUE(refused([](auto& h) { ++h.group; }));
  EXPECT_TRUE(refused([](auto& h) { ++h.seq; }));
  EXPECT_TRUE(refused([](auto& h) { ++h.era; }));
  EXPECT_TRUE(refused([](auto& h) { --h.era; }));
  EXPECT_TRUE(refused([](auto& h) { ++h.attempt; }));
  EXPECT_TRUE(refused([](auto& h) { ++h.signature; }));
  EXPECT_TRUE(refused([](auto& h) { ++h.chunk; }));  // of another owner
  EXPECT_TRUE(refused([](auto& h) { h.chunk = 1000; }));
  EXPECT_TRUE(refused([](auto& h) { ++h.offset; }));
  EXPECT_TRUE(refused([](auto& h) { ++h.payload_bytes; }));
  EXPECT_TRUE(refused([](auto& h) { h.payload_bytes = 0; }));
}

TEST_F(Landing, NothingInPlaceWhereTheInputMustBeSavedFirst) {
  LabOptions options;
  options.in_place = true;
  Begin(options);
  EXPECT_FALSE(Lands());
}

TEST_F(Landing, NotTwice) {
  Begin({});
  while (lab_->WaitingFinal(1, 2)) lab_->Deliver(1, 2);
  EXPECT_FALSE(Lands());
}

TEST_F(Landing, NothingWhileFrozenAndNothingOfTheEraBefore) {
  Begin({});
  lab_->Kill(3);
  lab_->Prepare({1, 2});
  while (lab_->Deliver(0, 2)) {
  }
  EXPECT_FALSE(Lands());
  lab_->DeliverAll();
  ASSERT_TRUE(lab_->Install());
  EXPECT_FALSE(Lands());
  lab_->DeliverAll();
  EXPECT_EQ(lab_->outcomes(2).size(), 1u);
  EXPECT_EQ(lab_->failure(), "");
}

}  // namespace
}  // namespace ftar::lab
