// A view that does not have its addressee in its place ends that member, before anything is worked
// out from it.
#include <gtest/gtest.h>

#include <functional>

#include "lab.h"

namespace ftar::lab {
namespace {

using Change = std::function<void(wire::View&)>;

// With an operation under way all have promised a change that loses nobody; then 2 is told of it.
engine::Phase AfterInstall(const Change& change) {
  Lab lab({});
  lab.Form();
  for (int member = 1; member <= 3; ++member) lab.Call(member);
  lab.Prepare({1, 2, 3});
  lab.DeliverAll();
  EXPECT_TRUE(lab.decided());
  lab.InstallAt(1);
  wire::View view = *lab.engine(1).view();
  change(view);
  lab.engine(2).Step(kSecond, engine::FromCoordinator{wire::Install{view, {}}});
  return lab.engine(2).phase();
}

// One that nobody comes or goes by.
wire::View Planned(Lab& lab) {
  wire::View view = *lab.engine(2).view();
  view.base = view.epoch;
  view.epoch += MakeEpoch(1, 0);
  view.planned = true;
  view.boundary = {wire::Bound::Kind::kSeq, 0, 100, {}};
  return view;
}

engine::Phase AfterAnnouncement(const Change& change) {
  Lab lab({});
  lab.Form();
  lab.Call(2);
  wire::View view = Planned(lab);
  change(view);
  const MemberId root = view.entries[0].card.id;
  lab.engine(2).Step(kSecond, engine::FromPeer{root, wire::Announce{view}});
  return lab.engine(2).phase();
}

// The root, which has reserved the boundary, is told to announce it.
engine::Phase AfterOrder(const Change& change) {
  Lab lab({});
  lab.Form();
  wire::View view = Planned(lab);
  lab.engine(1).Step(kSecond, engine::FromCoordinator{wire::Propose{view}});
  change(view);
  lab.engine(1).Step(kSecond, engine::FromCoordinator{wire::Announce{view}});
  return lab.engine(1).phase();
}

// With an operation under way all are told of a change.
engine::Phase AfterPrepare(const std::function<void(wire::Prepare&)>& change) {
  Lab lab({});
  lab.Form();
  lab.Call(2);
  wire::Prepare prepare;
  prepare.epoch = lab.engine(2).view()->epoch + MakeEpoch(1, 0);
  prepare.members = lab.engine(2).view()->entries;
  for (const wire::ViewEntry& entry : prepare.members) prepare.survivors.push_back(entry.card.id);
  change(prepare);
  lab.engine(2).Step(kSecond, engine::FromCoordinator{prepare});
  return lab.engine(2).phase();
}

wire::ViewEntry& Second(wire::View& view) { return view.entries[1]; }

TEST(Misplaced, AViewAsItShouldBe) {
  EXPECT_EQ(AfterInstall([](wire::View&) {}), engine::Phase::kMember);
  EXPECT_EQ(AfterAnnouncement([](wire::View&) {}), engine::Phase::kMember);
  EXPECT_EQ(AfterOrder([](wire::View&) {}), engine::Phase::kMember);
  EXPECT_EQ(AfterPrepare([](wire::Prepare&) {}), engine::Phase::kMember);
}

TEST(Misplaced, WithNobodyOfTheColumn) {
  const Change elsewhere = [](wire::View& view) {
    for (wire::ViewEntry& entry : view.entries) entry.card.shard = 0x54000001;
  };
  EXPECT_EQ(AfterInstall(elsewhere), engine::Phase::kAborted);
  EXPECT_EQ(AfterAnnouncement(elsewhere), engine::Phase::kAborted);
  EXPECT_EQ(AfterOrder(elsewhere), engine::Phase::kAborted);
}

TEST(Misplaced, InAnotherColumnOfAChange) {
  const auto elsewhere = [](wire::Prepare& prepare) {
    for (wire::ViewEntry& entry : prepare.members) entry.card.shard = 0x54000001;
  };
  EXPECT_EQ(AfterPrepare(elsewhere), engine::Phase::kAborted);
}

TEST(Misplaced, InAnotherColumn) {
  const Change elsewhere = [](wire::View& view) { Second(view).card.shard = 0x54000001; };
  EXPECT_EQ(AfterInstall(elsewhere), engine::Phase::kAborted);
  EXPECT_EQ(AfterAnnouncement(elsewhere), engine::Phase::kAborted);
}

TEST(Misplaced, UnderAnotherName) {
  const Change renamed = [](wire::View& view) { Second(view).card.id.hi ^= 0xff00; };
  EXPECT_EQ(AfterInstall(renamed), engine::Phase::kAborted);
  EXPECT_EQ(AfterAnnouncement(renamed), engine::Phase::kAborted);
}

}  // namespace
}  // namespace ftar::lab
