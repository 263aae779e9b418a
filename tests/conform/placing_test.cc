// Payload arrives where a Placer wants it, and not a byte of it there once the operation is
// cancelled.
#include <fcntl.h>
#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "tests/conform/harness.h"

namespace ftar::conform {
namespace {

using Kind = Completion::Kind;

constexpr uint32_t kMadeGroup = 7;  // of MakeFrame
constexpr size_t kBytes = 8u << 20;

class OnePlace : public transport::Placer {
 public:
  explicit OnePlace(size_t bytes) : memory(bytes, std::byte{0xee}) {}
  std::byte* PlaceFor(MemberId from, const wire::FrameHeader& header) override {
    ++asked;
    last_from = from;
    return header.payload_bytes == memory.size() ? memory.data() : nullptr;
  }
  bool touched() const {
    return std::any_of(memory.begin(), memory.end(),
                       [](std::byte b) { return b != std::byte{0xee}; });
  }

  std::vector<std::byte> memory;
  int asked = 0;
  MemberId last_from;
};

class PlacingTest : public ConformTest {
 protected:
  // Until some of the payload has come and not all.
  static bool Begin(Node* a, Node* b, OnePlace* place, const TestFrame& frame) {
    b->device->SetPlacer(place);
    a->device->Find(b->card.id)->Send(frame.header, {}, frame.payload, true, 0);
    for (int turn = 0; turn < 100000 && !place->touched(); ++turn) {
      a->PollOnce();
      b->PollOnce(1);
    }
    return place->touched() && b->Received().empty();
  }
};

// Who reads from its peers' memory has no use for a place.
INSTANTIATE_TEST_SUITE_P(All, PlacingTest, testing::ValuesIn(TcpVariants()), VariantName);

TEST_P(PlacingTest, APayloadArrivesInItsPlace) {
  Node a(GetParam(), 1), b(GetParam(), 2);
  ASSERT_NO_FATAL_FAILURE(Join(&a, &b));
  OnePlace place(kBytes);
  b.device->SetPlacer(&place);
  const TestFrame frame = MakeFrame(0, kBytes);
  a.device->Find(b.card.id)->Send(frame.header, {}, frame.payload, true, 0);
  ASSERT_TRUE(PumpUntil({&a, &b}, [&] { return !b.Received().empty(); }));
  EXPECT_EQ(place.last_from, a.card.id);
  EXPECT_EQ(b.Received()[0].payload.data(), place.memory.data());
  EXPECT_EQ(Difference(b.Received()[0], 0, kBytes), "");
  b.ReleaseAll();
}

TEST_P(PlacingTest, WhatHasBytesBeforeItsPayloadIsNotPlaced) {
  Node a(GetParam(), 1), b(GetParam(), 2);
  ASSERT_NO_FATAL_FAILURE(Join(&a, &b));
  OnePlace place(kBytes);
  b.device->SetPlacer(&place);
  const TestFrame frame = MakeFrame(0, kBytes, 16);
  a.device->Find(b.card.id)->Send(frame.header, frame.ext, frame.payload, true, 0);
  ASSERT_TRUE(PumpUntil({&a, &b}, [&] { return !b.Received().empty(); }));
  EXPECT_FALSE(place.touched());
  EXPECT_EQ(Difference(b.Received()[0], 0, kBytes, 16), "");
  b.ReleaseAll();
}

TEST_P(PlacingTest, NothingArrivesThereAfterCancelOp) {
  Node a(GetParam(), 1), b(GetParam(), 2);
  ASSERT_NO_FATAL_FAILURE(Join(&a, &b));
  OnePlace place(kBytes);
  const TestFrame frame = MakeFrame(0, kBytes);
  ASSERT_TRUE(Begin(&a, &b, &place, frame));
  b.device->Find(a.card.id)->CancelOp(kMadeGroup, frame.header.seq + 1);  // another one's
  b.device->Find(a.card.id)->CancelOp(kMadeGroup, frame.header.seq);
  std::fill(place.memory.begin(), place.memory.end(), std::byte{0xee});
  b.device->SetPlacer(nullptr);
  const TestFrame next = MakeFrame(1, 100'000);
  a.device->Find(b.card.id)->Send(next.header, {}, next.payload, true, 0);
  ASSERT_TRUE(PumpUntil({&a, &b}, [&] { return b.Received().size() == 2; }));
  EXPECT_FALSE(place.touched());
  EXPECT_EQ(Difference(b.Received()[1], 1, 100'000), "");  // and the link is as good as before
  b.ReleaseAll();
}

// Another descriptor of the socket that holds the most that its peer has not read; -1: of none.
int SocketThatIsBlocked() {
  int blocked = -1, most = 0;
  for (int fd = 3; fd < 1024; ++fd) {
    int waiting = 0;
    if (ioctl(fd, SIOCOUTQ, &waiting) != 0 || waiting <= most) continue;
    most = waiting;
    blocked = fd;
  }
  return blocked < 0 ? -1 : fcntl(blocked, F_DUPFD_CLOEXEC, 0);
}

// The sender alone thinks a path lost, in the middle of a frame, and sends that one again by
// another. What the old path still brings is not what was sent, say.
TEST_P(PlacingTest, NothingArrivesThereThatHasComeByAnotherPath) {
  if (GetParam().streams < 2) GTEST_SKIP();
  Node a(GetParam(), 1), b(GetParam(), 2);
  ASSERT_NO_FATAL_FAILURE(Join(&b, &a));  // so that who loses the path is not who dials it anew
  PumpFor({&a, &b}, 20 * kMillisecond);   // all paths
  OnePlace place(4 * kBytes);
  const TestFrame frame = MakeFrame(0, 4 * kBytes);
  ASSERT_TRUE(Begin(&a, &b, &place, frame));
  const int old_path = SocketThatIsBlocked();
  ASSERT_GE(old_path, 0);
  ASSERT_EQ(shutdown(old_path, SHUT_RD), 0);
  ASSERT_TRUE(PumpUntil({&a, &b}, [&] { return b.Received().size() == 1; }));
  const transport::Completion received = b.Received()[0];
  EXPECT_EQ(Difference(received, 0, 4 * kBytes), "");
  std::fill(place.memory.begin(), place.memory.end(), std::byte{0xee});
  const std::vector<std::byte> garbage(100'000, std::byte{0x54});
  EXPECT_GT(send(old_path, garbage.data(), garbage.size(), MSG_NOSIGNAL | MSG_DONTWAIT), 0);
  PumpFor({&a, &b}, 20 * kMillisecond);
  EXPECT_FALSE(place.touched());
  close(old_path);
  b.ReleaseAll();
}

TEST_P(PlacingTest, NothingArrivesThereWhileTheDeviceCloses) {
  Node a(GetParam(), 1), b(GetParam(), 2);
  ASSERT_NO_FATAL_FAILURE(Join(&a, &b));
  OnePlace place(kBytes);
  ASSERT_TRUE(Begin(&a, &b, &place, MakeFrame(0, kBytes)));
  std::fill(place.memory.begin(), place.memory.end(), std::byte{0xee});
  const TestFrame undelivered = MakeFrame(0, 100'000);  // so that it goes on polling for a while
  b.device->Find(a.card.id)->Send(undelivered.header, {}, undelivered.payload, true, 0);
  b.device->Close();
  EXPECT_FALSE(place.touched());
}

TEST_P(PlacingTest, NothingArrivesThereFromWhoIsRevoked) {
  Node a(GetParam(), 1), b(GetParam(), 2);
  ASSERT_NO_FATAL_FAILURE(Join(&a, &b));
  OnePlace place(kBytes);
  ASSERT_TRUE(Begin(&a, &b, &place, MakeFrame(0, kBytes)));
  b.device->Revoke(a.card.id);
  std::fill(place.memory.begin(), place.memory.end(), std::byte{0xee});
  PumpFor({&a, &b}, 20 * kMillisecond);
  EXPECT_FALSE(place.touched());
}

}  // namespace
}  // namespace ftar::conform
