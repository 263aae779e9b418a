// Payload in exported memory is read where it lies: whole, until its owner wants it back, and what
// is read after that is known to be nothing.
#include <poll.h>

#include <cstring>

#include "tests/conform/harness.h"
#include "transport/exported_memory.h"

namespace ftar::conform {
namespace {

using Kind = Completion::Kind;
using transport::ExportedMemory;

constexpr size_t kBlockBytes = 1 << 20;
constexpr size_t kPayloadBytes = 100'000;
constexpr uint32_t kGroup = 3;

class LendingTest : public ConformTest {
 protected:
  // A node whose memory is exported, and the block of it that frames are taken from.
  struct Owner {
    explicit Owner(uint64_t member)
        : exports(std::make_shared<ExportedMemory>()), node(GetParam(), Config(member, exports)) {
      const auto made = exports->Allocate(kBlockBytes);
      if (made.ok()) block = *made;
    }
    static DeviceConfig Config(uint64_t member, std::shared_ptr<ExportedMemory> exports) {
      DeviceConfig config = BaseConfig(GetParam(), member);
      config.exports = std::move(exports);
      return config;
    }
    std::shared_ptr<ExportedMemory> exports;
    Node node;
    std::byte* block = nullptr;
  };

  // Sends frame `number` of operation `seq` from the block.
  static void Send(Owner* from, const Node& to, uint64_t number, uint64_t seq, uint64_t cookie) {
    TestFrame frame = MakeFrame(number, kPayloadBytes);
    frame.header.kind = wire::FrameKind::kFinal;
    frame.header.group = kGroup;
    frame.header.seq = seq;
    std::byte* const place = from->block + seq * kPayloadBytes;
    std::memcpy(place, frame.payload.data(), kPayloadBytes);
    from->node.device->Find(to.card.id)
        ->Send(frame.header, {}, {place, kPayloadBytes}, false, cookie);
  }
  // The first frames are copied, until the peer has mapped the block.
  static const Completion* Lend(Owner* from, Node* to, uint64_t number, uint64_t seq,
                                uint64_t cookie) {
    for (int i = 0; i < 100; ++i) {
      to->ReleaseAll();
      to->log.clear();
      Send(from, *to, number, seq, cookie);
      if (!PumpUntil({&from->node, to}, [&] { return to->Count(Kind::kReceived) == 1; })) break;
      if (to->Last(Kind::kReceived)->lent != nullptr) return to->Last(Kind::kReceived);
      PumpFor({&from->node, to}, kMillisecond);
    }
    return nullptr;
  }
};
INSTANTIATE_TEST_SUITE_P(Shm, LendingTest,
                         testing::Values(Variant{"shm", "shm", 1, ""},
                                         Variant{"shm_one_mapping", "shm", 1, "", true},
                                         Variant{"faulty_shm", "faulty+shm", 1, ""}),
                         VariantName);

TEST_P(LendingTest, APayloadIsReadWhereItLiesAndGivenBack) {
  Owner a(1);
  Node b(GetParam(), 2);
  ASSERT_NO_FATAL_FAILURE(Join(&a.node, &b));
  const Completion* got = Lend(&a, &b, 5, 0, 50);
  ASSERT_NE(got, nullptr);
  EXPECT_EQ(std::memcmp(got->payload.data(), a.block, kPayloadBytes), 0);
  EXPECT_EQ(got->header.payload_bytes, kPayloadBytes);
  // Not a copy: what its owner writes is seen.
  a.block[17] ^= std::byte{0xff};
  EXPECT_EQ(got->payload[17], a.block[17]);
  EXPECT_TRUE(got->link->Intact(got->token));
  a.node.log.clear();
  PumpFor({&a.node, &b}, 2 * kMillisecond);
  EXPECT_EQ(a.node.Count(Kind::kSent), 0) << "it is still lent";
  b.ReleaseAll();
  EXPECT_TRUE(PumpUntil({&a.node, &b}, [&] { return a.node.Count(Kind::kSent) == 1; }));
  EXPECT_EQ(a.node.Last(Kind::kSent)->cookie, 50u);
}

TEST_P(LendingTest, CancelledItIsNotIntact) {
  Owner a(1);
  Node b(GetParam(), 2);
  ASSERT_NO_FATAL_FAILURE(Join(&a.node, &b));
  const Completion* got = Lend(&a, &b, 5, 1, 50);
  ASSERT_NE(got, nullptr);
  Link* const link = a.node.device->Find(b.card.id);
  link->CancelOp(kGroup, 2);
  EXPECT_TRUE(got->link->Intact(got->token)) << "another operation's";
  link->CancelOp(kGroup, 1);
  EXPECT_FALSE(got->link->Intact(got->token));
  b.ReleaseAll();
  a.node.log.clear();
  PumpFor({&a.node, &b}, 2 * kMillisecond);
  EXPECT_EQ(a.node.Count(Kind::kSent), 0);
  // The loan's place is used again; that the old one was given back says nothing about the new one.
  got = Lend(&a, &b, 6, 2, 60);
  ASSERT_NE(got, nullptr);
  EXPECT_TRUE(got->link->Intact(got->token));
  b.ReleaseAll();
  EXPECT_TRUE(PumpUntil({&a.node, &b}, [&] { return a.node.Count(Kind::kSent) == 1; }));
  EXPECT_EQ(a.node.Last(Kind::kSent)->cookie, 60u);
}

// By a lender that has no memory to say so: the link goes on.
TEST_P(LendingTest, TakenBackItIsNotIntact) {
  Owner a(1);
  Node b(GetParam(), 2);
  ASSERT_NO_FATAL_FAILURE(Join(&a.node, &b));
  const Completion* got = Lend(&a, &b, 5, 1, 50);
  ASSERT_NE(got, nullptr);
  a.node.device->Find(b.card.id)->TakeBack();
  EXPECT_FALSE(got->link->Intact(got->token));
  b.ReleaseAll();
  got = Lend(&a, &b, 6, 2, 60);
  ASSERT_NE(got, nullptr);
  EXPECT_TRUE(got->link->Intact(got->token));
}

// Whoever is done with a peer gives its memory to others at once, and the peer may not know yet.
TEST_P(LendingTest, RevokedOrClosedItIsNotIntact) {
  for (const bool close : {false, true}) {
    Owner a(1);
    Node b(GetParam(), 2);
    ASSERT_NO_FATAL_FAILURE(Join(&a.node, &b));
    const Completion* got = Lend(&a, &b, 5, 1, 50);
    ASSERT_NE(got, nullptr);
    const std::shared_ptr<const void> kept = got->lent;
    if (close) {
      a.node.device->Close();
    } else {
      a.node.device->Revoke(b.card.id);
    }
    EXPECT_FALSE(got->link->Intact(got->token)) << close;
    EXPECT_EQ(std::memcmp(got->payload.data(), a.block + kPayloadBytes, kPayloadBytes), 0)
        << "mapped all the same";
  }
}

TEST_P(LendingTest, MemoryMayGoWhileItIsLent) {
  Owner a(1);
  Node b(GetParam(), 2);
  ASSERT_NO_FATAL_FAILURE(Join(&a.node, &b));
  const Completion* got = Lend(&a, &b, 5, 1, 50);
  ASSERT_NE(got, nullptr);
  const TestFrame frame = MakeFrame(5, kPayloadBytes);
  a.node.device->Find(b.card.id)->CancelOp(kGroup, 1);
  ASSERT_TRUE(a.exports->Free(a.block));
  PumpFor({&a.node, &b}, 2 * kMillisecond);
  EXPECT_EQ(std::memcmp(got->payload.data(), frame.payload.data(), kPayloadBytes), 0);
  // A frame that was lent from there and not fetched is only its header by now.
  const auto made = a.exports->Allocate(kBlockBytes);
  ASSERT_TRUE(made.ok());
  a.block = *made;
  EXPECT_NE(Lend(&a, &b, 6, 2, 60), nullptr);
}

// Without fault tolerance an operation is over when all that it has lent is back: whoever sleeps
// until then is woken, whichever comes first.
TEST_P(LendingTest, AReturnThatIsAwaitedWakesTheLender) {
  Owner a(1);
  Node b(GetParam(), 2);
  ASSERT_NO_FATAL_FAILURE(Join(&a.node, &b));
  for (const bool asleep_first : {false, true}) {
    ASSERT_NE(Lend(&a, &b, 5, 1, 50), nullptr);
    a.node.device->Find(b.card.id)->FinishOp(kGroup, 1);
    EXPECT_TRUE(a.node.device->Find(b.card.id)->busy()) << "a sleeper is told by that";
    PumpFor({&a.node, &b}, 2 * kMillisecond);
    if (!asleep_first) b.ReleaseAll();
    EXPECT_EQ(a.node.device->PrepareSleep(), asleep_first);
    if (asleep_first) b.ReleaseAll();
    pollfd ready{a.node.device->wait_fd(), POLLIN, 0};
    if (asleep_first) {
      EXPECT_EQ(::poll(&ready, 1, 1000), 1);
    }
    a.node.device->FinishSleep();
    a.node.log.clear();
    EXPECT_TRUE(PumpUntil({&a.node, &b}, [&] { return a.node.Count(Kind::kSent) == 1; }));
  }
}

TEST_P(LendingTest, MoreThanCanBeLentIsCopied) {
  Owner a(1);
  Node b(GetParam(), 2);
  ASSERT_NO_FATAL_FAILURE(Join(&a.node, &b));
  ASSERT_NE(Lend(&a, &b, 5, 0, 50), nullptr);
  b.ReleaseAll();
  b.log.clear();
  constexpr int kFrames = 2100;
  TestFrame frame = MakeFrame(5, 4096);
  frame.header.kind = wire::FrameKind::kRaw;
  std::memcpy(a.block, frame.payload.data(), 4096);
  Link* const link = a.node.device->Find(b.card.id);
  int lent = 0, copied = 0;
  b.filter = [&](Completion& c) {
    if (c.kind != Kind::kReceived) return true;
    EXPECT_EQ(std::memcmp(c.payload.data(), frame.payload.data(), 4096), 0);
    ++(c.lent != nullptr ? lent : copied);
    if (c.lent == nullptr) c.link->Release(c.token);
    return c.lent != nullptr;
  };
  for (int i = 0; i < kFrames; ++i) link->Send(frame.header, {}, {a.block, 4096}, false, 0);
  EXPECT_TRUE(PumpUntil({&a.node, &b}, [&] { return lent + copied == kFrames; }));
  EXPECT_GT(lent, 2000);
  EXPECT_GT(copied, 0);
  b.ReleaseAll();
}

TEST_P(LendingTest, ACopyIsNotLent) {
  Owner a(1);
  Node b(GetParam(), 2);
  ASSERT_NO_FATAL_FAILURE(Join(&a.node, &b));
  ASSERT_NE(Lend(&a, &b, 5, 0, 50), nullptr);
  b.ReleaseAll();
  b.log.clear();
  const TestFrame frame = MakeFrame(6, kPayloadBytes);
  std::memcpy(a.block, frame.payload.data(), kPayloadBytes);
  a.node.device->Find(b.card.id)->Send(frame.header, {}, {a.block, kPayloadBytes}, true, 0);
  std::memset(a.block, 0, kPayloadBytes);
  ASSERT_TRUE(PumpUntil({&a.node, &b}, [&] { return b.Count(Kind::kReceived) == 1; }));
  EXPECT_EQ(b.Last(Kind::kReceived)->lent, nullptr);
  EXPECT_EQ(Difference(*b.Last(Kind::kReceived), 6, kPayloadBytes), "");
  b.ReleaseAll();
}

TEST_P(LendingTest, MemoryThatIsNotExportedIsCopied) {
  Node a(GetParam(), 1), b(GetParam(), 2);
  ASSERT_NO_FATAL_FAILURE(Join(&a, &b));
  const TestFrame frame = MakeFrame(6, kPayloadBytes);
  for (int i = 0; i < 3; ++i) {
    a.device->Find(b.card.id)->Send(frame.header, {}, frame.payload, false, 7);
    ASSERT_TRUE(PumpUntil({&a, &b}, [&] { return b.Count(Kind::kReceived) == i + 1; }));
    EXPECT_EQ(b.Last(Kind::kReceived)->lent, nullptr);
    PumpFor({&a, &b}, kMillisecond);
  }
  EXPECT_EQ(a.Count(Kind::kSent), 3);
  b.ReleaseAll();
}

}  // namespace
}  // namespace ftar::conform
