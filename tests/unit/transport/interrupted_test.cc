// Goal: where every signal interrupts a long system call, as some kernels do with fallocate, and
// signals come all the time, shared memory is made all the same.
//
// Not every kernel does that: this program's own fallocate and ftruncate do, unless signals are
// kept away, and once even then, as after a stop.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include <cerrno>
#include <thread>

#include "base/signals_os.h"
#include "transport/lane_memory.h"
#include "transport/sealed_memory.h"

namespace {

bool signals_come = false;
int stops = 0;

bool Interrupted() {
  sigset_t mask;
  pthread_sigmask(SIG_BLOCK, nullptr, &mask);
  if (!signals_come || (sigismember(&mask, SIGPROF) != 0 && stops-- <= 0)) return false;
  errno = EINTR;
  return true;
}

}  // namespace

extern "C" {

int fallocate(int fd, int mode, off_t offset, off_t bytes) {
  return Interrupted() ? -1 : static_cast<int>(syscall(SYS_fallocate, fd, mode, offset, bytes));
}

int ftruncate(int fd, off_t bytes) noexcept {
  return Interrupted() ? -1 : static_cast<int>(syscall(SYS_ftruncate, fd, bytes));
}

}  // extern "C"

namespace ftar::transport {
namespace {

class SignalsAllTheTime : public testing::Test {
 protected:
  void SetUp() override {
    signals_come = true;
    stops = 1;
  }
  void TearDown() override { signals_come = false; }
};

TEST_F(SignalsAllTheTime, SharedMemoryIsMade) {
  const auto sealed = CreateSealedMemory("test", 1 << 20, Pages::kNow);
  EXPECT_TRUE(sealed.ok()) << sealed.status().text();
  EXPECT_LE(stops, 0) << "no try has been interrupted";
}

TEST_F(SignalsAllTheTime, TheLaneIsMade) {
  const auto lane = LaneMemory::Create(MemberId{1, 1});
  ASSERT_TRUE(lane.ok()) << lane.status().text();
  EXPECT_TRUE((*lane)->MakeRoom(7));
  EXPECT_TRUE((*lane)->MakeArea(7));
}

// By the real ones, a hundred in the time of one call.
TEST(Uninterrupted, ByATimersSignals) {
  struct sigaction before {
  }, count{};
  static volatile sig_atomic_t signals;
  signals = 0;
  count.sa_handler = [](int) { signals = signals + 1; };
  ASSERT_EQ(sigaction(SIGALRM, &count, &before), 0);
  const itimerval often{{0, 1000}, {0, 1000}}, never{};
  setitimer(ITIMER_REAL, &often, nullptr);
  int tries = 0;
  const int result = Uninterrupted([&] { return ++tries, poll(nullptr, 0, 100); });
  EXPECT_GT(signals, 0) << "held back, not lost";
  setitimer(ITIMER_REAL, &never, nullptr);
  sigaction(SIGALRM, &before, nullptr);
  EXPECT_EQ(result, 0);
  EXPECT_EQ(tries, 1);
}

// A call that holds the job's lock does so, and a destructor must not end.
TEST(SignalWithheld, IsNoPlaceWhereACancelledThreadEnds) {
  bool went_on = false;
  std::thread([&went_on] {
    pthread_cancel(pthread_self());
    { const SignalWithheld limit(SIGXFSZ); }
    int state = 0;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
    EXPECT_EQ(state, PTHREAD_CANCEL_ENABLE) << "as it was";
    went_on = true;
  }).join();
  EXPECT_TRUE(went_on);
}

}  // namespace
}  // namespace ftar::transport
