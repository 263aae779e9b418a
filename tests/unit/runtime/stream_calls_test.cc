// Goal: a stream that is late is looked at more and more rarely, and often again when one comes;
// gates are counted for each stream.
#include "runtime/stream_calls.h"

#include <gtest/gtest.h>

namespace ftar::runtime {
namespace {

TEST(StreamCalls, IsLookedAtMoreRarelyTheLongerNoneComes) {
  StreamCalls calls;
  EXPECT_EQ(calls.look_ns(), kNever);
  TimeNs now = kSecond;
  calls.Hold(now);
  EXPECT_EQ(calls.look_ns(), now);
  TimeNs last = 0;
  for (int looks = 0; looks < 1000; ++looks) {
    calls.Looked(now, false);
    EXPECT_GE(calls.look_ns() - now, last);
    last = calls.look_ns() - now;
    now = calls.look_ns();
  }
  EXPECT_EQ(last, 500 * kMicrosecond);
  calls.Looked(now, true);
  EXPECT_EQ(calls.look_ns() - now, 10 * kMicrosecond);
}

TEST(StreamCalls, HaveArrivedWhenNoneIsHeldOrOnItsWay) {
  StreamCalls calls;
  EXPECT_TRUE(calls.arrived());
  calls.Enter();
  calls.Enter();
  calls.Hold(0);
  EXPECT_FALSE(calls.LeaveAsLast());
  EXPECT_TRUE(calls.LeaveAsLast());
  EXPECT_FALSE(calls.arrived());
  calls.LetGo(1);
  EXPECT_TRUE(calls.arrived());
}

TEST(ClosedGates, AreCountedForEachStream) {
  ClosedGates gates;
  int a = 0, b = 0;
  gates.Close(&a);
  gates.Close(&a);
  gates.Close(&b);
  EXPECT_EQ(gates.On(&a), 2u);
  EXPECT_EQ(gates.streams(), 2u);
  gates.Open(&b);
  EXPECT_EQ(gates.On(&b), 0u);
  EXPECT_EQ(gates.streams(), 1u);
  gates.Open(&a);
  gates.Open(&a);
  EXPECT_TRUE(gates.none());
}

}  // namespace
}  // namespace ftar::runtime
