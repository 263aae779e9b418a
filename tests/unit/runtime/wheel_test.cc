// Goal: who has the wheel is the one who is woken; the progress thread keeps away from a user's
// thread that is at it all the time, and is told where that one sleeps or stays.
#include "runtime/wheel.h"

#include <gtest/gtest.h>
#include <poll.h>

namespace ftar::runtime {
namespace {

using Who = Wheel::Who;

bool Woken(int fd) {
  pollfd ready{fd, POLLIN, 0};
  const bool woken = poll(&ready, 1, 0) == 1;
  if (woken) Lower(fd);
  return woken;
}

class WheelTest : public testing::Test {
 protected:
  WheelTest() { EXPECT_TRUE(wheel_.Open().ok()); }
  Wheel wheel_;
};

TEST_F(WheelTest, OnlyWhoHasItIsWoken) {
  wheel_.Wake();
  EXPECT_FALSE(Woken(wheel_.user_wake_fd()) || Woken(wheel_.progress_wake_fd()));
  wheel_.TakeForUser();
  wheel_.Wake();
  EXPECT_TRUE(Woken(wheel_.user_wake_fd()));
  EXPECT_FALSE(Woken(wheel_.progress_wake_fd()));
}

TEST_F(WheelTest, AUserTakesItFromTheGuardWhichIsWoken) {
  wheel_.TakeForProgress();
  wheel_.FallAsleep(kNever);
  EXPECT_TRUE(wheel_.DriverSleeps());
  wheel_.TakeForUser();
  EXPECT_TRUE(Woken(wheel_.progress_wake_fd()));
  EXPECT_FALSE(wheel_.DriverSleeps()) << "the guard does, and no longer has it";
  wheel_.LeaveByProgress();
  EXPECT_EQ(wheel_.who(), Who::kUser) << "it is no more the guard's to leave";
}

TEST_F(WheelTest, AGuardIsUpBeforeItHasTheLock) {
  wheel_.TakeForProgress();
  wheel_.FallAsleep(kNever);
  wheel_.guards().store(false);
  EXPECT_FALSE(wheel_.DriverSleeps());
  EXPECT_EQ(wheel_.who(), Who::kProgress);
}

TEST_F(WheelTest, WhoDrivesOftenRingsForNobody) {
  for (int times = 0; times < 3; ++times) {
    wheel_.TakeForUser();
    EXPECT_FALSE(wheel_.AwaitUser()) << "another time than at the last look";
    wheel_.AwaitsUserNoMore();
    EXPECT_FALSE(wheel_.LeaveByUser(false));
  }
}

TEST_F(WheelTest, WhoSleepsOrStaysTellsTheProgressThreadInTheEnd) {
  wheel_.TakeForUser();
  EXPECT_FALSE(wheel_.AwaitUser());
  wheel_.AwaitsUserNoMore();
  EXPECT_TRUE(wheel_.AwaitUser()) << "it has stayed";
  EXPECT_TRUE(wheel_.LeaveByUser(false));
  wheel_.AwaitsUserNoMore();
  wheel_.TakeForUser();
  wheel_.FallAsleep(kNever);
  EXPECT_TRUE(wheel_.AwaitUser()) << "it sleeps";
}

TEST_F(WheelTest, WhatIsLeftToSendIsNotWaitedFor) {
  wheel_.TakeForUser();
  EXPECT_FALSE(wheel_.LeaveByUser(false));
  EXPECT_NE(wheel_.user_drove_ns(), 0);
  wheel_.TakeForUser();
  EXPECT_TRUE(wheel_.LeaveByUser(true));
  EXPECT_EQ(wheel_.user_drove_ns(), 0);
}

}  // namespace
}  // namespace ftar::runtime
