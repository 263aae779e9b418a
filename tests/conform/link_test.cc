// A link carries frames in order, each once, whole, and gives memory back as its contract says.
#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <thread>

#include "tests/conform/harness.h"

namespace ftar::conform {
namespace {

using Kind = Completion::Kind;

INSTANTIATE_TEST_SUITE_P(All, ConformTest, testing::ValuesIn(AllVariants()), VariantName);

void SendFrame(Link* link, const TestFrame& frame, bool copy = true, uint64_t cookie = 0) {
  link->Send(frame.header, frame.ext, frame.payload, copy, cookie);
}

TEST_P(ConformTest, CarriesEverySizeInOrder) {
  Node a(GetParam(), 1), b(GetParam(), 2);
  ASSERT_NO_FATAL_FAILURE(Join(&a, &b));
  const std::array<size_t, 14> sizes = {0,  1,  2,    63,    64,     65,     95,
                                        96, 97, 4095, 65537, 262147, 524287, 524288};
  const std::array<size_t, 4> exts = {0, 1, 64, 1000};
  uint64_t number = 0;
  for (const size_t size : sizes) {
    for (const size_t ext : exts)
      SendFrame(a.device->Find(b.card.id), MakeFrame(number++, size, ext));
  }
  uint64_t next = 0;
  b.filter = [&](Completion& c) {
    if (c.kind != Kind::kReceived) return true;
    EXPECT_EQ(Difference(c, next, sizes[next / exts.size()], exts[next % exts.size()]), "");
    ++next;
    c.link->Release(c.token);
    return false;
  };
  EXPECT_TRUE(PumpUntil({&a, &b}, [&] { return next == number; })) << next;
}

TEST_P(ConformTest, CarriesOddlyAlignedPayloadByReference) {
  Node a(GetParam(), 1), b(GetParam(), 2);
  ASSERT_NO_FATAL_FAILURE(Join(&a, &b));
  std::vector<TestFrame> frames;
  std::vector<std::vector<std::byte>> memory;
  for (uint64_t i = 0; i < 16; ++i) {
    frames.push_back(MakeFrame(i, 10'000 + i));
    memory.emplace_back(20'000);
    std::copy(frames[i].payload.begin(), frames[i].payload.end(),
              memory[i].begin() + static_cast<ptrdiff_t>(i + 1));
  }
  Link* link = a.device->Find(b.card.id);
  for (uint64_t i = 0; i < 16; ++i)
    link->Send(frames[i].header, {}, {memory[i].data() + i + 1, 10'000 + i}, false, i + 1);
  ASSERT_TRUE(
      PumpUntil({&a, &b}, [&] { return b.Received().size() == 16 && a.Count(Kind::kSent) == 16; }));
  for (uint64_t i = 0; i < 16; ++i) EXPECT_EQ(Difference(b.Received()[i], i, 10'000 + i), "");
  b.ReleaseAll();
}

TEST_P(ConformTest, CarriesManySmallFramesBothWays) {
  Node a(GetParam(), 1), b(GetParam(), 2);
  ASSERT_NO_FATAL_FAILURE(Join(&a, &b));
  constexpr uint64_t kFrames = 20'000;
  std::array<uint64_t, 2> next{};
  const auto check = [&](size_t side) {
    return [&next, side](Completion& c) {
      if (c.kind != Kind::kReceived) return true;
      EXPECT_EQ(c.header.seq, next[side]++);
      c.link->Release(c.token);
      return false;
    };
  };
  a.filter = check(0);
  b.filter = check(1);
  for (uint64_t i = 0; i < kFrames; ++i) {
    SendFrame(a.device->Find(b.card.id), MakeFrame(i, i % 100));
    SendFrame(b.device->Find(a.card.id), MakeFrame(i, i % 77));
  }
  EXPECT_TRUE(PumpUntil({&a, &b}, [&] { return next[0] == kFrames && next[1] == kFrames; }));
}

// However busy one link is, all others are looked at.
TEST_P(ConformTest, WhoComesIsHeardWhileSmallFramesGoToAndFro) {
  Node a(GetParam(), 1), b(GetParam(), 2), c(GetParam(), 3);
  ASSERT_NO_FATAL_FAILURE(Join(&a, &b));
  uint64_t times = 0;
  const auto answer = [&](Completion& completion) {
    if (completion.kind != Kind::kReceived) return true;
    completion.link->Release(completion.token);
    SendFrame(completion.link, MakeFrame(++times, 8));
    return false;
  };
  a.filter = b.filter = answer;
  SendFrame(a.device->Find(b.card.id), MakeFrame(0, 8));
  ASSERT_TRUE(PumpUntil({&a, &b}, [&] { return times >= 1000; }));
  a.log.clear();
  c.Connect(a);
  EXPECT_TRUE(PumpUntil({&a, &b, &c}, [&] { return a.Up() && c.Up(); }));
  const uint64_t before = times;
  EXPECT_TRUE(PumpUntil({&a, &b, &c}, [&] { return times >= before + 1000; }));
}

// Of what comes, which is given back at once.
void NoteOrder(Node* node, std::vector<uint64_t>* order) {
  node->filter = [order](Completion& c) {
    if (c.kind != Kind::kReceived) return true;
    order->push_back(c.header.seq);
    c.link->Release(c.token);
    return false;
  };
}

// Whatever stream a frame was given to: what is written comes, in order, before more is written.
TEST_P(ConformTest, LeavesNothingBehindThatItHasBegunToWrite) {
  if (!GetParam().tcp()) GTEST_SKIP() << "streams are tcp's";
  Node a(GetParam(), 1), b(GetParam(), 2);
  ASSERT_NO_FATAL_FAILURE(Join(&a, &b));
  constexpr uint64_t kFrames = 192;
  constexpr size_t kBytes = 512u << 10;
  std::vector<uint64_t> order;
  NoteOrder(&b, &order);
  const std::vector<std::byte> payload(kBytes);
  for (uint64_t i = 0; i < kFrames; ++i) {
    wire::FrameHeader header = MakeFrame(i, 0).header;
    header.payload_bytes = kBytes;
    a.device->Find(b.card.id)->Send(header, {}, payload, false, i + 1);
  }
  for (int i = 0; i < 100; ++i) a.PollOnce();  // until each stream holds a part of a frame
  uint64_t behind_most = 0;
  const auto done = [&] {
    while (b.PollOnce()) {
    }
    behind_most = std::max(behind_most, a.device->counters().frames_sent - order.size());
    return order.size() == kFrames;
  };
  EXPECT_TRUE(PumpUntil({&a}, done)) << order.size();
  EXPECT_TRUE(std::is_sorted(order.begin(), order.end()));
  // What the kernel holds of each stream, and what each was given besides.
  EXPECT_LE(behind_most, 32u);
}

// Where the peer reads what this process writes, it may be asked to write past its caches, and says
// what writing took: whoever asks compares the two.
TEST_P(ConformTest, SaysWhatHandingOverTook) {
  Node a(GetParam(), 1), b(GetParam(), 2);
  ASSERT_NO_FATAL_FAILURE(Join(&a, &b));
  Link* link = a.device->Find(b.card.id);
  const TestFrame frame = MakeFrame(3, 100'001);
  for (const uint8_t flags : {uint8_t{0}, wire::kFrameStreamed}) {
    wire::FrameHeader header = frame.header;
    header.flags |= flags;
    link->Send(header, frame.ext, frame.payload, false, 1 + flags);
  }
  std::vector<Completion> sent;
  a.filter = [&](Completion& c) {
    if (c.kind == Kind::kSent) sent.push_back(c);
    return c.kind != Kind::kSent;
  };
  size_t received = 0;
  b.filter = [&](Completion& c) {
    if (c.kind != Kind::kReceived) return true;
    EXPECT_TRUE(std::ranges::equal(c.payload, frame.payload));
    const uint8_t streamed = received++ == 0 ? 0 : wire::kFrameStreamed;
    EXPECT_EQ(c.header.flags & wire::kFrameStreamed, streamed);
    c.link->Release(c.token);
    return false;
  };
  ASSERT_TRUE(PumpUntil({&a, &b}, [&] { return received == 2 && sent.size() == 2; }));
  for (const Completion& c : sent) EXPECT_EQ(c.spent_ns > 0, link->shares_memory());
}

TEST_P(ConformTest, StallsTheSenderAndGoesOn) {
  Node a(GetParam(), 1), b(GetParam(), 2);
  ASSERT_NO_FATAL_FAILURE(Join(&a, &b));
  Link* link = a.device->Find(b.card.id);
  constexpr size_t kBytes = 256 * 1024;
  const uint64_t frames = 3 * b.device->Find(a.card.id)->hold_bytes_max() / kBytes + 4;
  const TestFrame payload = MakeFrame(0, kBytes);
  for (uint64_t i = 0; i < frames; ++i) {
    TestFrame frame;
    frame.header = MakeFrame(i, 0).header;
    link->Send(frame.header, {}, payload.payload, false, 0);
  }
  // The receiver keeps everything: the sender must come to a stop with frames left.
  PumpUntil(
      {&a, &b}, [&] { return b.Received().size() == frames; }, 500 * kMillisecond);
  EXPECT_LT(b.Received().size(), frames);
  EXPECT_TRUE(link->busy());
  // Then it lets go, and the rest comes.
  uint64_t next = 0;
  const auto take = [&](Completion& c) {
    if (c.kind != Kind::kReceived) return true;
    EXPECT_EQ(c.header.seq, next++);
    c.link->Release(c.token);
    return false;
  };
  for (Completion& c : b.log) take(c);
  b.log.clear();
  b.filter = take;
  EXPECT_TRUE(PumpUntil({&a, &b}, [&] { return next == frames; }));
  EXPECT_TRUE(PumpUntil({&a, &b}, [&] { return !link->busy(); }));
}

// Who waits for an ack would wait for all the data in front of it as well.
TEST_P(ConformTest, AnAckPassesDataThatWaits) {
  Node a(GetParam(), 1), b(GetParam(), 2);
  ASSERT_NO_FATAL_FAILURE(Join(&a, &b));
  Link* link = a.device->Find(b.card.id);
  constexpr size_t kBytes = 256 * 1024;
  const uint64_t frames = 4 * b.device->Find(a.card.id)->hold_bytes_max() / kBytes + 4;
  const TestFrame data = MakeFrame(0, kBytes);
  for (uint64_t i = 0; i < frames; ++i)
    link->Send(MakeFrame(i, 0).header, {}, data.payload, false, 0);
  for (uint64_t i = frames; i < frames + 2; ++i) {
    wire::FrameHeader ack = MakeFrame(i, 0).header;
    ack.kind = wire::FrameKind::kAck;
    link->Send(ack, {}, {}, false, 0);
  }
  std::vector<uint64_t> order;
  NoteOrder(&b, &order);
  ASSERT_TRUE(PumpUntil({&a, &b}, [&] { return order.size() == frames + 2; }));
  const auto first = std::find(order.begin(), order.end(), frames);
  const auto second = std::find(order.begin(), order.end(), frames + 1);
  EXPECT_LT(first, second) << "acks keep their order";
  EXPECT_LT(second - order.begin(), static_cast<ptrdiff_t>(frames * 3 / 4)) << "both pass the data";
  order.erase(second);
  order.erase(first);
  EXPECT_TRUE(std::is_sorted(order.begin(), order.end())) << "and the data keeps its own";
}

// Data of an urgent group passes others' that waits, but no word and no data of its like.
TEST_P(ConformTest, UrgentDataPassesDataThatWaits) {
  constexpr uint32_t kUrgent = 70;
  constexpr size_t kBytes = 256 * 1024;
  const auto priorities = std::make_shared<transport::Priorities>();
  priorities->Set(kUrgent, 1);
  DeviceConfig a_config = BaseConfig(GetParam(), 1), b_config = BaseConfig(GetParam(), 2);
  a_config.priorities = b_config.priorities = priorities;
  Node a(GetParam(), a_config), b(GetParam(), b_config);
  ASSERT_NO_FATAL_FAILURE(Join(&a, &b));
  Link* link = a.device->Find(b.card.id);
  const uint64_t frames = 4 * b.device->Find(a.card.id)->hold_bytes_max() / kBytes + 4;
  const uint64_t word = frames, urgent = frames + 1, end = frames + 4;
  const TestFrame data = MakeFrame(0, kBytes);
  const auto send_bulk = [&](uint64_t begin, uint64_t last) {
    for (uint64_t i = begin; i < last; ++i)
      link->Send(MakeFrame(i, 0).header, {}, data.payload, false, 0);
  };
  send_bulk(0, frames / 4);
  wire::FrameHeader header = MakeFrame(word, 0).header;
  header.kind = wire::FrameKind::kControl;
  link->Send(header, {}, {}, false, 0);
  send_bulk(frames / 4, frames);
  for (uint64_t i = urgent; i < end; ++i) {
    header = MakeFrame(i, 0).header;
    header.group = kUrgent;
    link->Send(header, {}, {data.payload.data(), 1000}, true, 0);
  }
  std::vector<uint64_t> order;
  NoteOrder(&b, &order);
  ASSERT_TRUE(PumpUntil({&a, &b}, [&] { return order.size() == end; }));
  const auto place = [&](uint64_t seq) { return std::ranges::find(order, seq) - order.begin(); };
  EXPECT_EQ(place(word), static_cast<ptrdiff_t>(frames / 4)) << "the word keeps its place";
  EXPECT_LT(place(word), place(urgent)) << "nothing passes it";
  EXPECT_LT(place(end - 1), static_cast<ptrdiff_t>(frames * 3 / 4))
      << "urgent data passes the rest";
  EXPECT_LT(place(urgent), place(urgent + 1)) << "and keeps its order";
  EXPECT_LT(place(urgent + 1), place(urgent + 2));
  std::erase_if(order, [&](uint64_t seq) { return seq == word || seq >= urgent; });
  EXPECT_TRUE(std::ranges::is_sorted(order)) << "so does what is passed";
}

// As a caller does whose operation comes late: the oldest frame is detached when the link's fill of
// frames lies behind it, and not before. Long frames, as pieces of operations are.
TEST_P(ConformTest, GoesOnWhileNobodyTakesWhatHasCome) {
  Node a(GetParam(), 1), b(GetParam(), 2);
  ASSERT_NO_FATAL_FAILURE(Join(&a, &b));
  const Link* from = b.device->Find(a.card.id);
  constexpr size_t kBytes = 512 * 1024;
  const uint64_t frames = 3 * from->hold_bytes_max() / kBytes + 4;
  std::deque<std::pair<uint64_t, uint64_t>> resting;  // token, bytes until then
  uint64_t received = 0, detached = 0;
  b.filter = [&](Completion& c) {
    if (c.kind != Kind::kReceived) return true;
    received += c.payload.size();
    resting.emplace_back(c.token, received);
    for (; received - resting.front().second >= from->hold_bytes_max(); resting.pop_front()) {
      c.link->Detach(resting.front().first);
      ++detached;
    }
    return false;
  };
  const TestFrame data = MakeFrame(0, kBytes);
  for (uint64_t i = 0; i < frames; ++i)
    a.device->Find(b.card.id)->Send(MakeFrame(i, 0).header, {}, data.payload, false, 0);
  EXPECT_TRUE(PumpUntil({&a, &b}, [&] { return resting.size() + detached == frames; }))
      << resting.size() + detached << " of " << frames << " frames";
  EXPECT_GT(detached, 0u);
}

TEST_P(ConformTest, DetachedFramesDoNotStall) {
  Node a(GetParam(), 1), b(GetParam(), 2);
  ASSERT_NO_FATAL_FAILURE(Join(&a, &b));
  constexpr size_t kBytes = 300'000;
  const uint64_t frames = 2 * b.device->Find(a.card.id)->hold_bytes_max() / kBytes + 2;
  std::vector<Completion> kept;
  b.filter = [&](Completion& c) {
    if (c.kind != Kind::kReceived) return true;
    const Link::Detached moved = c.link->Detach(c.token);
    c.payload = moved.payload;
    c.ext = moved.ext;
    kept.push_back(c);
    return false;
  };
  for (uint64_t i = 0; i < frames; ++i)
    SendFrame(a.device->Find(b.card.id), MakeFrame(i, kBytes, 10));
  ASSERT_TRUE(PumpUntil({&a, &b}, [&] { return kept.size() == frames; }));
  for (uint64_t i = 0; i < frames; ++i) ASSERT_EQ(Difference(kept[i], i, kBytes, 10), "");
  for (const Completion& c : kept) c.link->Release(c.token);
}

TEST_P(ConformTest, ReleasesInAnyOrder) {
  Node a(GetParam(), 1), b(GetParam(), 2);
  ASSERT_NO_FATAL_FAILURE(Join(&a, &b));
  constexpr size_t kBytes = 100'000;
  constexpr uint64_t kFrames = 400;
  std::deque<Completion> held;
  uint64_t next = 0;
  b.filter = [&](Completion& c) {
    if (c.kind != Kind::kReceived) return true;
    EXPECT_EQ(Difference(c, next++, kBytes), "");
    held.push_back(c);
    // Up to six are held; the youngest or one from the middle goes first, the oldest waits.
    if (held.size() == 6) {
      const size_t at = c.header.seq % 3 == 0 ? 5 : c.header.seq % 5 == 0 ? 0 : 2;
      EXPECT_EQ(Difference(held[at], held[at].header.seq, kBytes), "");
      c.link->Release(held[at].token);
      held.erase(held.begin() + static_cast<ptrdiff_t>(at));
    }
    return false;
  };
  for (uint64_t i = 0; i < kFrames; ++i) SendFrame(a.device->Find(b.card.id), MakeFrame(i, kBytes));
  EXPECT_TRUE(PumpUntil({&a, &b}, [&] { return next == kFrames; })) << next;
}

TEST_P(ConformTest, CancelledOperationsLeaveTheirMemoryAlone) {
  Node a(GetParam(), 1), b(GetParam(), 2);
  ASSERT_NO_FATAL_FAILURE(Join(&a, &b));
  Link* link = a.device->Find(b.card.id);
  constexpr size_t kBytes = 400'000;
  constexpr uint64_t kFrames = 300;  // far more than fits anywhere on the way
  std::vector<std::byte> memory = MakeFrame(0, kBytes).payload;
  for (uint64_t i = 0; i < kFrames; ++i) {
    wire::FrameHeader header = MakeFrame(i, 0).header;
    header.seq = i % 2;  // two operations, interleaved
    header.chunk = static_cast<uint32_t>(i);
    link->Send(header, {}, memory, false, i + 1);
  }
  for (int i = 0; i < 3; ++i) a.PollOnce();
  a.log.clear();
  link->CancelOp(7, 0);
  link->CancelOp(7, 1);
  // From here on the memory may change; what still arrives must be old, whole content.
  std::fill(memory.begin(), memory.end(), std::byte{0xee});
  const TestFrame last = MakeFrame(5, 1000);
  SendFrame(link, last);
  bool last_seen = false;
  b.filter = [&](Completion& c) {
    if (c.kind != Kind::kReceived) return true;
    if (c.header.seq == 5) {
      EXPECT_EQ(Difference(c, 5, 1000), "");
      last_seen = true;
    } else {
      EXPECT_EQ(std::memcmp(c.payload.data(), MakeFrame(0, kBytes).payload.data(), kBytes), 0);
    }
    c.link->Release(c.token);
    return false;
  };
  EXPECT_TRUE(PumpUntil({&a, &b}, [&] { return last_seen; }));
  PumpFor({&a, &b}, 20 * kMillisecond);
  EXPECT_EQ(a.Count(Kind::kSent), 0) << "kSent of a cancelled frame";
}

TEST_P(ConformTest, FinishedOperationsGiveTheirMemoryBackWhenWritten) {
  Node a(GetParam(), 1), b(GetParam(), 2);
  ASSERT_NO_FATAL_FAILURE(Join(&a, &b));
  Link* link = a.device->Find(b.card.id);
  constexpr size_t kBytes = 400'000;
  constexpr uint64_t kFrames = 60;
  std::vector<TestFrame> frames;
  for (uint64_t i = 0; i < kFrames; ++i) frames.push_back(MakeFrame(i, kBytes));
  for (uint64_t i = 0; i < kFrames; ++i)
    link->Send(frames[i].header, {}, frames[i].payload, false, i + 1);
  uint64_t sent = 0;
  a.filter = [&](Completion& c) {
    if (c.kind != Kind::kSent) return true;
    ++sent;
    std::vector<std::byte>& payload = frames.at(c.cookie - 1).payload;
    std::fill(payload.begin(), payload.end(), std::byte{0xee});
    return false;
  };
  a.PollOnce();
  for (const TestFrame& frame : frames) link->FinishOp(7, frame.header.seq);
  uint64_t next = 0;
  b.filter = [&](Completion& c) {
    if (c.kind != Kind::kReceived) return true;
    EXPECT_EQ(Difference(c, next++, kBytes), "");
    c.link->Release(c.token);
    return false;
  };
  EXPECT_TRUE(PumpUntil({&a, &b}, [&] { return next == kFrames && sent == kFrames; }));
}

// A peer that has all it needs may not look at its links again for long.
TEST_P(ConformTest, WhatFinishesNeedsNoWordOfThePeer) {
  Node a(GetParam(), 1), b(GetParam(), 2);
  ASSERT_NO_FATAL_FAILURE(Join(&a, &b));
  Link* link = a.device->Find(b.card.id);
  const TestFrame frame = MakeFrame(0, 100'000);
  link->Send(frame.header, {}, frame.payload, false, 1);
  link->FinishOp(7, frame.header.seq);
  EXPECT_TRUE(PumpUntil({&a}, [&] { return a.Count(Kind::kSent) == 1; }));
}

TEST_P(ConformTest, RevokedPeersAreGone) {
  Node a(GetParam(), 1), b(GetParam(), 2);
  ASSERT_NO_FATAL_FAILURE(Join(&a, &b));
  for (uint64_t i = 0; i < 50; ++i) SendFrame(a.device->Find(b.card.id), MakeFrame(i, 100'000));
  ASSERT_TRUE(PumpUntil({&a, &b}, [&] { return b.Received().size() >= 3; }));
  b.log.clear();
  b.device->Revoke(a.card.id);
  EXPECT_EQ(b.device->Find(a.card.id), nullptr);
  // The evicted side learns that it is unwanted; nothing of it reaches the other any more, new
  // dials included.
  EXPECT_TRUE(PumpUntil({&a, &b}, [&] { return a.Down(); }));
  a.Connect(b);
  PumpFor({&a, &b}, 50 * kMillisecond);
  EXPECT_TRUE(b.log.empty());
}

TEST_P(ConformTest, OneThatIsForgottenMayComeAgain) {
  Node b(GetParam(), 2);
  {
    Node a(GetParam(), 1);
    ASSERT_NO_FATAL_FAILURE(Join(&a, &b));
    SendFrame(a.device->Find(b.card.id), MakeFrame(1, 1000));
    ASSERT_TRUE(PumpUntil({&a, &b}, [&] { return b.Received().size() == 1; }));
    b.ReleaseAll();
    b.device->Forget(a.card.id);  // not while its link is up
    SendFrame(a.device->Find(b.card.id), MakeFrame(2, 1000));
    ASSERT_TRUE(PumpUntil({&a, &b}, [&] { return b.Received().size() == 1; }));
    b.ReleaseAll();
    a.device->Revoke(b.card.id);
  }
  ASSERT_TRUE(PumpUntil({&b}, [&] { return b.Down(); }));
  const MemberId gone = Member(1);
  ASSERT_NE(b.device->Find(gone), nullptr);
  b.device->Forget(gone);
  EXPECT_EQ(b.device->Find(gone), nullptr);
  b.log.clear();
  Node again(GetParam(), 1);
  ASSERT_NO_FATAL_FAILURE(Join(&again, &b));
  SendFrame(again.device->Find(b.card.id), MakeFrame(3, 100'000));
  ASSERT_TRUE(PumpUntil({&again, &b}, [&] { return b.Received().size() == 1; }));
  EXPECT_EQ(Difference(b.Received()[0], 3, 100'000), "");
}

TEST_P(ConformTest, BothSidesMayDial) {
  for (int i = 0; i < 10; ++i) {
    Node a(GetParam(), 1), b(GetParam(), 2);
    a.Connect(b);
    b.Connect(a);
    ASSERT_TRUE(
        PumpUntil({&a, &b}, [&] { return a.Count(Kind::kUp) > 0 && b.Count(Kind::kUp) > 0; }));
    SendFrame(a.device->Find(b.card.id), MakeFrame(1, 1000));
    SendFrame(b.device->Find(a.card.id), MakeFrame(2, 1000));
    ASSERT_TRUE(
        PumpUntil({&a, &b}, [&] { return a.Received().size() == 1 && b.Received().size() == 1; }));
    EXPECT_FALSE(a.Down() || b.Down());
  }
}

// A wire's price is known when the link is, on both ends; memory has none. What is told counts.
TEST_P(ConformTest, ALinkThatIsUpSaysWhatAWireCosts) {
  DeviceConfig told = BaseConfig(GetParam(), 2);
  told.wire = {4'711, 42};
  Node a(GetParam(), 1), b(GetParam(), told);
  ASSERT_NO_FATAL_FAILURE(Join(&a, &b));
  const wire::WireCosts measured = a.device->Find(b.card.id)->wire_costs();
  const wire::WireCosts as_told = b.device->Find(a.card.id)->wire_costs();
  EXPECT_EQ(measured.round_ns > 0, GetParam().tcp());
  EXPECT_EQ(as_told, GetParam().tcp() ? told.wire : wire::WireCosts());
}

// Loopback states no speed, so it is the least of connections.
TEST_P(ConformTest, WithoutANumberOfStreamsTheCardsSpeedSaysHowMany) {
  if (!GetParam().tcp()) GTEST_SKIP() << "it has no streams";
  DeviceConfig config = BaseConfig(GetParam(), 1);
  config.tcp_streams = 0;
  Node a(GetParam(), config), b(GetParam(), 2);
  ASSERT_NO_FATAL_FAILURE(Join(&a, &b));
  const std::string text = a.device->Find(b.card.id)->Describe();
  EXPECT_NE(text.find(" of 2 paths"), std::string::npos) << text;
}

TEST_P(ConformTest, FramesQueuedBeforeTheLinkIsUpArrive) {
  Node a(GetParam(), 1), b(GetParam(), 2);
  Link* link = a.Connect(b);
  for (uint64_t i = 0; i < 10; ++i) SendFrame(link, MakeFrame(i, 5000));
  ASSERT_TRUE(PumpUntil({&a, &b}, [&] { return b.Received().size() == 10; }));
  for (uint64_t i = 0; i < 10; ++i) EXPECT_EQ(Difference(b.Received()[i], i, 5000), "");
}

// Each end on a thread of its own, as in two processes. With one mapping for both this is what
// ThreadSanitizer judges.
TEST_P(ConformTest, EndsRunOnTheirOwnThreads) {
  Node a(GetParam(), 1), b(GetParam(), 2);
  ASSERT_NO_FATAL_FAILURE(Join(&a, &b));
  constexpr uint64_t kFrames = 2'000;
  const auto bytes = [](uint64_t i) { return i % 50 == 0 ? size_t{300'000} : i * 37 % 3'000; };
  const auto live = [&](Node* self, const Node& peer) {
    uint64_t sent = 0, next = 0;
    self->filter = [&](Completion& c) {
      if (c.kind != Kind::kReceived) return true;
      if (const std::string wrong = Difference(c, next, bytes(next)); !wrong.empty())
        ADD_FAILURE() << wrong;
      ++next;
      c.link->Release(c.token);
      return false;
    };
    Link* link = self->device->Find(peer.card.id);
    const bool done = PumpUntil({self}, [&] {
      for (int i = 0; i < 20 && sent < kFrames && !link->busy(); ++i, ++sent)
        SendFrame(link, MakeFrame(sent, bytes(sent)));
      return sent == kFrames && next == kFrames && !link->busy();
    });
    EXPECT_TRUE(done) << sent << " sent, " << next << " received";
    self->filter = nullptr;
  };
  std::thread other([&] { live(&b, a); });
  live(&a, b);
  other.join();
}

TEST_P(ConformTest, ClosingTellsThePeerAndDeliversWhatWasSent) {
  Node a(GetParam(), 1), b(GetParam(), 2);
  ASSERT_NO_FATAL_FAILURE(Join(&a, &b));
  for (uint64_t i = 0; i < 5; ++i) SendFrame(a.device->Find(b.card.id), MakeFrame(i, 2000));
  a.PollOnce();
  a.device->Close();
  EXPECT_TRUE(PumpUntil({&b}, [&] { return b.Down(); }));
  EXPECT_EQ(b.Received().size(), 5u);
}

}  // namespace
}  // namespace ftar::conform
