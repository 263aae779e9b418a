// Goal: a link whose descriptors cannot be watched, since the kernel gives no more of that, is no
// link: it comes up watched, or ends with a word that says why. And who cannot take in those that
// knock sleeps meanwhile.
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include "tests/conform/harness.h"

namespace {

int adds = 0;
int refused_add = -1;
int accepts = 0;
int accept_fails = 0;  // with this error

}  // namespace

extern "C" int epoll_ctl(int epoll, int op, int fd, epoll_event* event) noexcept {
  if (op == EPOLL_CTL_ADD && adds++ == refused_add) {
    errno = ENOSPC;
    return -1;
  }
  return static_cast<int>(syscall(SYS_epoll_ctl, epoll, op, fd, event));
}

extern "C" int accept4(int listener, sockaddr* peer, socklen_t* bytes, int flags) {
  ++accepts;
  if (accept_fails == 0)
    return static_cast<int>(syscall(SYS_accept4, listener, peer, bytes, flags));
  errno = accept_fails;
  return -1;
}

namespace ftar::conform {
namespace {

using Kind = Completion::Kind;

class WatchingTest : public ConformTest {
 protected:
  void TearDown() override {
    refused_add = -1;
    accept_fails = 0;
  }
};
INSTANTIATE_TEST_SUITE_P(All, WatchingTest, testing::ValuesIn(AllVariants()), VariantName);

bool Named(const Node& node) {
  const Completion* down = node.Last(Kind::kDown);
  return down != nullptr && down->status.text().find("epoll_ctl") != std::string::npos;
}

// One of the frames that each sends may find the link down.
void ExpectHeardOrNamed(Node* a, Node* b) {
  const TestFrame frame = MakeFrame(1, 1000);
  for (Node* node : {a, b}) {
    Link* link = node->device->Find((node == a ? b : a)->card.id);
    if (link != nullptr) link->Send(frame.header, {}, frame.payload, true, 0);
  }
  const auto heard = [&] { return a->Received().size() == 1 && b->Received().size() == 1; };
  const auto ended = [&] { return a->Down() || b->Down(); };
  EXPECT_TRUE(PumpUntil({a, b}, [&] { return heard() || ended(); })) << "nothing is heard";
  if (ended()) {
    EXPECT_TRUE(Named(*a) || Named(*b));
  }
}

// True: that was not the last thing that has to be watched.
bool TryWithout(const Variant& variant, int add, bool dialler_closes) {
  refused_add = -1;
  Node a(variant, 1), b(variant, 2);
  adds = 0;
  refused_add = add;
  a.Connect(b);
  PumpUntil({&a, &b}, [&] { return (a.Up() && b.Up()) || a.Down() || b.Down(); });
  ExpectHeardOrNamed(&a, &b);
  PumpFor({&a, &b}, 2 * kMillisecond);  // a second path
  Node* const closes = dialler_closes ? &a : &b;
  Node* const stays = dialler_closes ? &b : &a;
  closes->ReleaseAll();
  closes->device.reset();
  const auto noticed = [&] { return stays->Count(Kind::kPathLost) > 0 || stays->Down(); };
  EXPECT_TRUE(PumpUntil({stays}, [&] { return noticed() || !stays->Up(); }))
      << "the end of the peer is not noticed";
  stays->ReleaseAll();
  return adds > add;
}

TEST_P(WatchingTest, WhatCannotBeWatchedIsNoLink) {
  for (const bool dialler_closes : {true, false}) {
    int add = 0;
    while (TryWithout(GetParam(), add, dialler_closes) && !HasFailure()) ++add;
    EXPECT_FALSE(HasFailure()) << "add " << add;
    EXPECT_GT(add, 2);
  }
}

// The spare descriptor does not help where another thread takes it first, or memory lacks.
TEST_P(WatchingTest, WhoCannotAcceptSleepsMeanwhile) {
  for (const int error : {EMFILE, ENOMEM}) {
    Node a(GetParam(), 1), b(GetParam(), 2);
    accept_fails = error;
    accepts = 0;
    a.Connect(b);
    PumpFor({&a, &b}, 30 * kMillisecond);
    EXPECT_GT(accepts, 0);
    EXPECT_LE(accepts, 10) << "it is kept up";
    accept_fails = 0;
    EXPECT_TRUE(PumpUntil({&a, &b}, [&] { return a.Up() && b.Up(); }));
  }
}

// As by a program that closes descriptors that are not its own.
TEST_P(WatchingTest, WhoCannotAskAnyMoreHasNoLinks) {
  Node a(GetParam(), 1), b(GetParam(), 2);
  a.Connect(b);
  ASSERT_TRUE(PumpUntil({&a, &b}, [&] { return a.Up() && b.Up(); }));
  const int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
  ASSERT_GE(dup3(nothing, a.device->wait_fd(), O_CLOEXEC), 0);
  close(nothing);
  EXPECT_TRUE(PumpUntil({&a, &b}, [&] { return a.Down(); })) << "it is deaf, without a word";
  const Completion* down = a.Last(Kind::kDown);
  ASSERT_NE(down, nullptr);
  EXPECT_NE(down->status.text().find("epoll_wait"), std::string::npos) << down->status.text();
}

}  // namespace
}  // namespace ftar::conform
