// Whose frame goes first where frames wait.
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "transport/out_frame.h"

namespace ftar::transport {
namespace {

using wire::FrameKind;

constexpr uint32_t kBulk = 1, kUrgent = 2, kLast = 3, kPlain = 4;

class Queue : public testing::Test {
 protected:
  Queue() {
    priorities_.Set(kUrgent, 10);
    priorities_.Set(kLast, -5);
  }

  void Add(FrameKind kind, uint32_t group, uint64_t seq, const Priorities* priorities) {
    auto frame = std::make_unique<OutFrame>();
    frame->header.kind = kind;
    frame->header.group = group;
    frame->header.seq = seq;
    Enqueue(std::move(frame), priorities, &queue_);
  }
  void Data(uint32_t group, uint64_t seq) { Add(FrameKind::kRaw, group, seq, &priorities_); }
  void Word(uint64_t seq) { Add(FrameKind::kControl, 0, seq, &priorities_); }
  void Ack(uint32_t group, uint64_t seq) { Add(FrameKind::kAck, group, seq, &priorities_); }

  // "2.7": operation 7 of group 2; "w7", "a7": a word, an ack.
  std::string Order() const {
    std::string out;
    for (const auto& frame : queue_) {
      const wire::FrameHeader& header = frame->header;
      out += out.empty() ? "" : " ";
      if (header.kind == FrameKind::kControl) out += "w";
      if (header.kind == FrameKind::kAck) out += "a";
      if (IsData(header)) out += std::to_string(header.group) + ".";
      out += std::to_string(header.seq);
    }
    return out;
  }

  Priorities priorities_;
  OutQueue queue_;
};

TEST_F(Queue, UrgentDataPassesLessUrgent) {
  Data(kLast, 1);
  Data(kBulk, 2);
  Data(kUrgent, 3);
  Data(kPlain, 4);
  Data(kLast, 5);
  EXPECT_EQ(Order(), "2.3 1.2 4.4 3.1 3.5");
}

TEST_F(Queue, EqualsKeepTheirOrder) {
  for (uint64_t seq = 1; seq <= 3; ++seq) {
    Data(kUrgent, seq);
    Data(seq == 2 ? kPlain : kBulk, seq);
  }
  EXPECT_EQ(Order(), "2.1 2.2 2.3 1.1 4.2 1.3");
}

TEST_F(Queue, NoDataPassesAWordOrAnAck) {
  Data(kBulk, 1);
  Word(2);
  Data(kBulk, 3);
  Data(kUrgent, 4);
  EXPECT_EQ(Order(), "1.1 w2 2.4 1.3");
  Ack(kUrgent, 5);
  Data(kUrgent, 6);
  EXPECT_EQ(Order(), "1.1 w2 a5 2.4 2.6 1.3");
}

TEST_F(Queue, WordsAndAcksKeepTheirOrder) {
  Ack(kBulk, 1);
  Word(2);
  Ack(kUrgent, 3);
  Word(4);
  EXPECT_EQ(Order(), "a1 w2 a3 w4");
}

TEST_F(Queue, AGroupKeepsItsOrderWhenItsPriorityChanges) {
  Data(kPlain, 1);
  Data(kBulk, 2);
  priorities_.Set(kPlain, 50);
  Data(kPlain, 3);
  EXPECT_EQ(Order(), "4.1 4.3 1.2");
  priorities_.Set(kPlain, -50);
  Data(kPlain, 4);
  EXPECT_EQ(Order(), "4.1 4.3 1.2 4.4");
}

TEST_F(Queue, WithoutPrioritiesAllIsAlike) {
  for (const uint32_t group : {kUrgent, kLast}) priorities_.Set(group, 0);
  EXPECT_FALSE(priorities_.any());
  Data(kBulk, 1);
  Data(kUrgent, 2);
  Add(FrameKind::kFinal, kUrgent, 3, nullptr);
  EXPECT_EQ(Order(), "1.1 2.2 2.3");
}

TEST(Priorities, TheHighestIsAtLeastThatOfGroupsWithoutOne) {
  Priorities priorities;
  EXPECT_EQ(priorities.highest(), 0);
  priorities.Set(kLast, -5);
  EXPECT_EQ(priorities.highest(), 0);
  priorities.Set(kUrgent, 7);
  EXPECT_EQ(priorities.highest(), 7);
  EXPECT_EQ(priorities.Of(kUrgent), 7);
  EXPECT_EQ(priorities.Of(kBulk), 0);
}

}  // namespace
}  // namespace ftar::transport
