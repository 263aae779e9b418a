// However a member hears that it is out: what has landed on its inputs in place is taken back.
#include <gtest/gtest.h>

#include <algorithm>

#include "lab.h"

namespace ftar::lab {
namespace {

constexpr int kVictim = 2;

// Copies from what was saved, of an operation that is half made: one chunk has landed.
size_t InputsThatComeBack(const engine::Event& end) {
  Lab lab({3, 4, plan::PlanKind::kDirect, /*in_place=*/true});
  lab.Form();
  for (int member = 1; member <= 3; ++member) lab.Call(member);
  while (!lab.WaitingFinal(1, kVictim)) {
    if (!lab.DeliverAny()) return 0;
  }
  while (lab.WaitingFinal(1, kVictim)) lab.Deliver(1, kVictim);
  lab.engine(kVictim).Step(kSecond, end);
  const engine::Ready ready = lab.engine(kVictim).TakeReady();
  EXPECT_NE(lab.engine(kVictim).phase(), engine::Phase::kMember);
  return static_cast<size_t>(std::ranges::count_if(ready.todo, [](const engine::GroupTodo& one) {
    if (one.todo.kind != collective::Todo::Kind::kWork) return false;
    const collective::Work& work = one.todo.work();
    return work.kind == collective::Work::Kind::kCopy &&
           work.sources[0].buffer.kind == collective::BufferRef::Kind::kStaging &&
           work.dst.kind == collective::BufferRef::Kind::kRecv;
  }));
}

TEST(PutOut, ByTheOthers) {
  EXPECT_GT(InputsThatComeBack(engine::FromCoordinator{wire::Evicted{}}), 0u);
}

TEST(PutOut, ByItself) {
  EXPECT_GT(InputsThatComeBack(engine::AbortSelf{Code::kAborted, "tired"}), 0u);
}

// Its connection was lost, and who coordinates now is another job's, or of another version.
TEST(PutOut, ByACoordinatorThatRefusesIt) {
  const wire::Rejected refusal{Code::kConfig, "job", "this is another job"};
  EXPECT_GT(InputsThatComeBack(engine::FromCoordinator{refusal}), 0u);
}

}  // namespace
}  // namespace ftar::lab
