// Goal: a step's sum is of its operations that ended well, in whatever order they are asked for,
// and who failed stays to be told.
#include "runtime/step_record.h"

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <utility>
#include <vector>

namespace ftar::runtime {
namespace {

OpPtr Ended(int participants, double weight, Status status = Status::Ok()) {
  auto op = std::make_shared<Op>();
  op->request.spec.kind = plan::Kind::kAllReduce;
  op->outcome.participants = participants;
  op->outcome.weight_sum = weight;
  op->status = std::move(status);
  op->done = true;
  return op;
}

engine::StepBegun Begun() {
  engine::StepBegun step;
  step.step = 3;
  step.participants = 4;
  return step;
}

TEST(StepRecord, KeepsNothingBeforeTheFirstStep) {
  StepRecord record;
  record.Add(std::vector{Ended(4, 4)});
  record.MakePlace();
  record.TakePlace(Ended(4, 4));
  EXPECT_TRUE(record.ops().empty());
  EXPECT_EQ(record.weight(), 1);
}

TEST(StepRecord, IsTheLeastOfItsOperations) {
  StepRecord record;
  record.Begin(Begun(), std::nan(""));
  EXPECT_EQ(record.weight(), 1);
  const OpPtr open = std::make_shared<Op>();
  record.Add(std::vector{Ended(3, 2.5), open, Ended(2, 2.0)});
  record.SumUp();
  EXPECT_EQ(record.ops().size(), 2u) << "what ended behind one that has not stays";
  const StepResult sum = record.SumUpEnded();
  EXPECT_EQ(sum.participants, 2);
  EXPECT_EQ(sum.weight_sum, 2.0);
  EXPECT_EQ(sum.failed, nullptr);
  EXPECT_EQ(record.ops().size(), 1u) << "another thread's, which goes on";
}

TEST(StepRecord, WhatFailedIsToldHoweverOftenItIsAsked) {
  StepRecord record;
  record.Begin(Begun(), 2);
  const OpPtr failed = Ended(0, 0, Status(Code::kAbsent, "absent"));
  record.Add(std::vector{failed, Ended(4, 8)});
  record.SumUp();
  for (int times = 0; times < 2; ++times) EXPECT_EQ(record.SumUpEnded().failed, failed);
}

TEST(StepRecord, WithoutAnOperationAllCountOne) {
  StepRecord record;
  record.Begin(Begun(), 2);
  EXPECT_EQ(record.SumUpEnded().weight_sum, 4);
}

}  // namespace
}  // namespace ftar::runtime
