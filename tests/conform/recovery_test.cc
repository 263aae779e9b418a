// What breaks under a living peer: paths come back, frames arrive exactly once, silence is silence.
#include <dirent.h>
#include <linux/filter.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "tests/conform/harness.h"
#include "transport/faulty/device.h"

namespace ftar::conform {
namespace {

using Kind = Completion::Kind;
using Disturbance = Device::Disturbance;

// Only tcp has paths that can be lost while the peer lives.
class PathTest : public ConformTest {};
INSTANTIATE_TEST_SUITE_P(All, PathTest, testing::ValuesIn(TcpVariants()), VariantName);

// Streams frames from a to b, disturbing either end now and then; every frame must come once, in
// order, whole.
void StreamThrough(Node* a, Node* b, uint64_t frames, size_t bytes,
                   const std::function<void(uint64_t)>& at_frame) {
  uint64_t next = 0;
  uint64_t echoes = 0;
  b->filter = [&](Completion& c) {
    if (c.kind != Kind::kReceived) return true;
    EXPECT_EQ(Difference(c, next, bytes), "");
    ++next;
    // Traffic the other way, so that both directions have something to repeat.
    const TestFrame echo = MakeFrame(c.header.seq, 100);
    c.link->Send(echo.header, {}, echo.payload, true, 0);
    c.link->Release(c.token);
    return false;
  };
  a->filter = [&](Completion& c) {
    if (c.kind != Kind::kReceived) return true;
    EXPECT_EQ(Difference(c, echoes++, 100), "");
    c.link->Release(c.token);
    return false;
  };
  for (uint64_t i = 0; i < frames; ++i) {
    const TestFrame frame = MakeFrame(i, bytes);
    a->device->Find(b->card.id)->Send(frame.header, {}, frame.payload, true, i + 1);
    at_frame(i);
    if (i % 8 == 7) {
      a->PollOnce();
      b->PollOnce();
    }
  }
  EXPECT_TRUE(PumpUntil({a, b}, [&] { return next == frames && echoes == frames; }))
      << next << " " << echoes;
  EXPECT_TRUE(PumpUntil({a, b}, [&] { return a->Count(Kind::kSent) == static_cast<int>(frames); }));
  EXPECT_FALSE(a->Down() || b->Down());
}

TEST_P(PathTest, ResetsLoseAndRepeatNothing) {
  Node a(GetParam(), 1), b(GetParam(), 2);
  ASSERT_NO_FATAL_FAILURE(Join(&a, &b));
  StreamThrough(&a, &b, 200, 50'000, [&](uint64_t i) {
    if (i == 20 || i == 120) a.device->Disturb(b.card.id, Disturbance::kResetPaths);
    if (i == 70 || i == 121) b.device->Disturb(a.card.id, Disturbance::kResetPaths);
  });
  EXPECT_GE(a.Count(Kind::kPathLost), 3);
  EXPECT_GE(a.Count(Kind::kUp), 2);  // and again after a path came back
  EXPECT_GT(a.device->counters().bytes_resent + b.device->counters().bytes_resent, 0u);
  EXPECT_EQ(a.device->counters().links_opened, 1u);
  EXPECT_EQ(a.device->counters().links_closed, 0u);
  EXPECT_GT(b.device->counters().bytes_kept, 0u) << "of what has been taken in and given back";
}

TEST_P(PathTest, CorruptFramesAreSentAgain) {
  Node a(GetParam(), 1), b(GetParam(), 2);
  ASSERT_NO_FATAL_FAILURE(Join(&a, &b));
  StreamThrough(&a, &b, 60, 30'000, [&](uint64_t i) {
    if (i % 20 != 10) return;
    // All must have come before: of two damages in one socket only the first is ever read.
    const int sent = static_cast<int>(i) + 1;
    ASSERT_TRUE(PumpUntil({&a, &b}, [&] { return a.Count(Kind::kSent) == sent; }));
    a.device->Disturb(b.card.id, Disturbance::kCorruptNextFrame);
  });
  EXPECT_EQ(b.device->counters().frames_corrupt, 3u);
  EXPECT_GE(a.device->counters().bytes_resent, 3u * 30'000);
}

TEST_P(PathTest, ASmallCreditOnlyBoundsWhatIsOnTheWay) {
  DeviceConfig sender = BaseConfig(GetParam(), 1), receiver = BaseConfig(GetParam(), 2);
  sender.credit_bytes = receiver.credit_bytes = 65'536;  // less than two frames
  Node a(GetParam(), sender), b(GetParam(), receiver);
  ASSERT_NO_FATAL_FAILURE(Join(&a, &b));
  StreamThrough(&a, &b, 100, 50'000, [](uint64_t) {});
}

// Who waits longest gives way to those who come; it is no stranger for that.
TEST_P(PathTest, ACrowdIsNotRefused) {
  DeviceConfig config = BaseConfig(GetParam(), 1);
  config.unauthenticated_max = 4;
  Node b(GetParam(), config);
  std::vector<std::unique_ptr<Node>> crowd;
  for (uint64_t i = 2; i < 18; ++i) crowd.push_back(std::make_unique<Node>(GetParam(), i));
  for (const auto& node : crowd) node->Connect(b);
  const auto all = [&](const auto& is) { return std::all_of(crowd.begin(), crowd.end(), is); };
  const TimeNs end = Now() + 4 * kSecond;
  while (Now() < end && !all([](const auto& node) { return node->Up(); })) {
    for (const auto& node : crowd) node->PollOnce();
    for (int i = 0; i < 10; ++i) b.PollOnce();  // it is quicker than they are
  }
  EXPECT_TRUE(all([](const auto& node) { return node->Up() && !node->Down(); }));
}

// The peer may have it in memory of its own, behind what a slower path still brings.
TEST_P(PathTest, WhatIsFinishedCountsUntilItIsAcknowledged) {
  constexpr size_t kCredit = 400'000, kBytes = 100'000;
  constexpr uint64_t kFrames = 60;
  std::vector<TestFrame> frames;
  for (uint64_t i = 0; i < kFrames; ++i) frames.push_back(MakeFrame(i, kBytes));
  DeviceConfig config = BaseConfig(GetParam(), 1);
  config.credit_bytes = kCredit;
  Node a(GetParam(), config), b(GetParam(), 2);
  ASSERT_NO_FATAL_FAILURE(Join(&a, &b));
  Link* link = a.device->Find(b.card.id);
  const auto send = [&](uint64_t i) {
    link->Send(frames[i].header, {}, frames[i].payload, false, i + 1);
  };
  for (uint64_t i = 0; i + 1 < kFrames; ++i) send(i);
  a.PollOnce();
  for (const TestFrame& frame : frames) link->FinishOp(7, frame.header.seq);
  send(kFrames - 1);  // so that the link looks at what waits
  PumpFor({&a}, 20 * kMillisecond);
  EXPECT_LE(a.device->counters().bytes_sent, kCredit + kBytes);
  EXPECT_TRUE(PumpUntil({&a, &b}, [&] { return b.Received().size() == kFrames; }));
  EXPECT_FALSE(a.Down() || b.Down());
}

TEST_P(PathTest, AnAcknowledgementThatCannotBeSentKeepsNobodyUp) {
  Node a(GetParam(), 1), b(GetParam(), 2);
  ASSERT_NO_FATAL_FAILURE(Join(&a, &b));
  const TestFrame frame = MakeFrame(0, 1000);
  b.device->Find(a.card.id)->Send(frame.header, {}, frame.payload, true, 0);
  ASSERT_TRUE(PumpUntil({&a, &b}, [&] { return a.Count(Kind::kReceived) == 1; }));
  a.device->Disturb(b.card.id, Disturbance::kResetPaths);  // sooner than it would go by itself
  PumpFor({&a}, 20 * kMillisecond);  // b does not answer
  a.PollOnce();
  EXPECT_GT(a.device->next_deadline(), Now());
  EXPECT_TRUE(PumpUntil({&a, &b}, [&] { return a.Count(Kind::kUp) + b.Count(Kind::kUp) > 1; }));
}

TEST_P(PathTest, ManyResetsInARow) {
  Node a(GetParam(), 1), b(GetParam(), 2);
  ASSERT_NO_FATAL_FAILURE(Join(&a, &b));
  StreamThrough(&a, &b, 300, 3'000, [&](uint64_t i) {
    if (i % 15 == 3) (i % 2 == 0 ? a : b).device->Disturb({}, Disturbance::kResetPaths);
  });
}

TEST_P(PathTest, CancelledFramesStayCancelledOverAReset) {
  Node a(GetParam(), 1), b(GetParam(), 2);
  ASSERT_NO_FATAL_FAILURE(Join(&a, &b));
  Link* link = a.device->Find(b.card.id);
  std::vector<std::byte> memory = MakeFrame(0, 200'000).payload;
  for (uint64_t i = 0; i < 100; ++i) {
    wire::FrameHeader header = MakeFrame(0, 0).header;
    link->Send(header, {}, memory, false, 0);
  }
  a.PollOnce();
  link->CancelOp(7, 0);
  std::fill(memory.begin(), memory.end(), std::byte{0xee});
  a.device->Disturb(b.card.id, Disturbance::kResetPaths);
  const TestFrame last = MakeFrame(1, 100);
  link->Send(last.header, {}, last.payload, true, 0);
  bool seen = false;
  b.filter = [&](Completion& c) {
    if (c.kind != Kind::kReceived) return true;
    if (c.header.seq == 1) {
      seen = true;
    } else {
      EXPECT_EQ(std::memcmp(c.payload.data(), MakeFrame(0, 200'000).payload.data(), 200'000), 0);
    }
    c.link->Release(c.token);
    return false;
  };
  EXPECT_TRUE(PumpUntil({&a, &b}, [&] { return seen; }));
  EXPECT_FALSE(a.Down() || b.Down());
}

std::vector<int> OpenDescriptors() {
  std::vector<int> all;
  DIR* const folder = opendir("/proc/self/fd");
  while (const dirent* entry = readdir(folder)) all.push_back(std::atoi(entry->d_name));
  closedir(folder);
  return all;
}

// Drops what comes in on every connection of this process to that port, acknowledgements included.
int DropPacketsFrom(uint16_t port) {
  int dropped = 0;
  for (const int fd : OpenDescriptors()) {
    sockaddr_storage peer{};
    socklen_t size = sizeof peer;
    if (getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &size) != 0) continue;
    if (peer.ss_family != AF_INET && peer.ss_family != AF_INET6) continue;
    // The port stands at the same place in both.
    if (ntohs(reinterpret_cast<sockaddr_in*>(&peer)->sin_port) != port) continue;
    sock_filter nothing = BPF_STMT(BPF_RET | BPF_K, 0);
    const sock_fprog program = {1, &nothing};
    if (setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program) == 0) ++dropped;
  }
  return dropped;
}

// The way to every socket of this process takes less than its ends believe: longer packets vanish,
// and who sends is not told. Connections that are accepted have it from their listener.
void DropLongPackets(uint32_t bytes_max) {
  sock_filter short_ones[] = {BPF_STMT(BPF_LD | BPF_W | BPF_LEN, 0),
                              BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, bytes_max, 0, 1),
                              BPF_STMT(BPF_RET | BPF_K, 0),
                              BPF_STMT(BPF_RET | BPF_K, UINT32_MAX)};
  const sock_fprog program = {4, short_ones};
  for (const int fd : OpenDescriptors()) {
    int family = 0;
    socklen_t size = sizeof family;
    getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &family, &size);
    if (family == AF_INET || family == AF_INET6)
      setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program);
  }
}

uint16_t PortOf(const Node& node) {
  const std::string& address = node.card.addresses;
  return static_cast<uint16_t>(std::stoi(address.substr(address.rfind(':') + 1)));
}

// While it lives, nobody of this process listens any more: who dials is refused.
class Refusal {
 public:
  Refusal() {
    for (const int fd : OpenDescriptors()) {
      int listens = 0, family = 0;
      socklen_t size = sizeof listens;
      if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) != 0 || listens == 0) continue;
      getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &family, &size);
      if (family != AF_INET && family != AF_INET6) continue;
      Listener listener{fd, {}, sizeof(sockaddr_storage)};
      getsockname(fd, reinterpret_cast<sockaddr*>(&listener.address), &listener.size);
      if (shutdown(fd, SHUT_RD) == 0) listeners_.push_back(listener);
    }
  }
  // A port that the system chose is given back by a shutdown.
  ~Refusal() {
    for (const Listener& l : listeners_) {
      bind(l.fd, reinterpret_cast<const sockaddr*>(&l.address), l.size);
      EXPECT_EQ(listen(l.fd, 128), 0);
    }
  }
  size_t listeners() const { return listeners_.size(); }

 private:
  struct Listener {
    int fd;
    sockaddr_storage address;
    socklen_t size;
  };
  std::vector<Listener> listeners_;
};

// Only the side that sends can notice that packets vanish. Here it is not the dialler.
TEST_P(PathTest, TheAcceptorMendsALinkWhoseDiallerNoticesNothing) {
  DeviceConfig config = BaseConfig(GetParam(), 2);
  config.path_silence_ns = 200 * kMillisecond;
  Node a(GetParam(), 1), b(GetParam(), config);
  ASSERT_NO_FATAL_FAILURE(Join(&a, &b));
  ASSERT_GT(DropPacketsFrom(PortOf(b)), 0);
  const TestFrame frame = MakeFrame(0, 1000);
  b.device->Find(a.card.id)->Send(frame.header, {}, frame.payload, true, 0);
  EXPECT_TRUE(PumpUntil({&a, &b}, [&] { return a.Count(Kind::kReceived) == 1; }));
  EXPECT_GE(b.Count(Kind::kPathLost), 1);
  EXPECT_FALSE(a.Down() || b.Down());
}

int ListenerAt(uint16_t port) {
  for (const int fd : OpenDescriptors()) {
    int listens = 0;
    sockaddr_storage own{};
    socklen_t size = sizeof listens, own_size = sizeof own;
    if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) != 0 || listens == 0) continue;
    getsockname(fd, reinterpret_cast<sockaddr*>(&own), &own_size);
    if (ntohs(reinterpret_cast<sockaddr_in*>(&own)->sin_port) == port) return fd;
  }
  return -1;
}

TEST_P(PathTest, AGreetingThatComesDamagedIsNotTheLast) {
  Node a(GetParam(), 1), b(GetParam(), 2);
  ASSERT_NO_FATAL_FAILURE(Join(&a, &b));
  const int listener = ListenerAt(PortOf(b));
  const std::vector<std::byte> damaged(200, std::byte{0x5a});
  std::vector<int> answered;
  a.device->Disturb(b.card.id, Disturbance::kResetPaths);
  for (int i = 0; i < 1000 && answered.size() < static_cast<size_t>(GetParam().streams); ++i) {
    a.PollOnce();  // b takes none of its dials
    const int fd = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0) continue;
    answered.push_back(fd);
    ASSERT_EQ(send(fd, damaged.data(), damaged.size(), 0), 200);
  }
  EXPECT_EQ(answered.size(), static_cast<size_t>(GetParam().streams));
  const TestFrame frame = MakeFrame(0, 1000);
  a.device->Find(b.card.id)->Send(frame.header, {}, frame.payload, true, 0);
  EXPECT_TRUE(PumpUntil({&a, &b}, [&] { return b.Count(Kind::kReceived) == 1; }));
  EXPECT_FALSE(a.Down() || b.Down());
  for (const int fd : answered) close(fd);
}

TEST_P(PathTest, ALinkThatComesBackAndCarriesNothingIsDown) {
  DeviceConfig config = BaseConfig(GetParam(), 1);
  config.path_silence_ns = config.path_retry_ns = 200 * kMillisecond;
  Node a(GetParam(), config), b(GetParam(), 2);
  ASSERT_NO_FATAL_FAILURE(Join(&a, &b));
  DropLongPackets(600);
  const TestFrame frame = MakeFrame(0, 2000);
  a.device->Find(b.card.id)->Send(frame.header, {}, frame.payload, true, 0);
  ASSERT_TRUE(PumpUntil({&a, &b}, [&] {
    DropLongPackets(600);  // before a connection that is being made carries anything
    return a.Down();
  }));
  EXPECT_NE(a.Last(Kind::kDown)->text.find("gets through"), std::string::npos);
  EXPECT_EQ(b.Count(Kind::kReceived), 0);
}

// As where a network resets whatever goes to a host for a moment.
TEST_P(PathTest, APeerThatRefusesForAMomentIsNotGone) {
  Node a(GetParam(), 1), b(GetParam(), 2);
  ASSERT_NO_FATAL_FAILURE(Join(&a, &b));
  {
    const Refusal refusal;
    ASSERT_EQ(refusal.listeners(), 2u);
    a.device->Disturb(b.card.id, Disturbance::kResetPaths);
    b.device->Disturb(a.card.id, Disturbance::kResetPaths);
    PumpFor({&a, &b}, 20 * kMillisecond);
  }
  const TestFrame frame = MakeFrame(0, 1000);
  a.device->Find(b.card.id)->Send(frame.header, {}, frame.payload, true, 0);
  EXPECT_TRUE(PumpUntil({&a, &b}, [&] { return b.Count(Kind::kReceived) == 1; }));
  EXPECT_FALSE(a.Down() || b.Down());
}

TEST_P(PathTest, APeerThatIsGoneIsReportedBeforeItsTimeIsOver) {
  Node a(GetParam(), 1);
  auto b = std::make_unique<Node>(GetParam(), 2);
  auto c = std::make_unique<Node>(GetParam(), 3);
  ASSERT_NO_FATAL_FAILURE(Join(&a, b.get()));
  ASSERT_NO_FATAL_FAILURE(Join(c.get(), &a));  // here the other side is the dialler
  // Dropped without a word, as by a death seen from another host.
  const TimeNs begin = Now();
  b.reset();
  c.reset();
  EXPECT_TRUE(PumpUntil({&a}, [&] { return a.Count(Kind::kDown) == 2; }));
  EXPECT_LT(Now() - begin, kSecond);  // path_retry is two
}

// The decorator, over every transport.
class FaultyTest : public ConformTest {};
INSTANTIATE_TEST_SUITE_P(All, FaultyTest,
                         testing::Values(Variant{"faulty_tcp", "faulty+tcp", 2, "127.0.0.1"},
                                         Variant{"faulty_shm", "faulty+shm", 1, ""}),
                         VariantName);

TEST_P(FaultyTest, SilenceIsSilentForGood) {
  Node a(GetParam(), 1), b(GetParam(), 2);
  ASSERT_NO_FATAL_FAILURE(Join(&a, &b));
  EXPECT_TRUE(b.device->Disturb(a.card.id, Disturbance::kSilence));
  a.log.clear();
  b.log.clear();
  for (uint64_t i = 0; i < 10; ++i) {
    const TestFrame frame = MakeFrame(i, 1000);
    a.device->Find(b.card.id)->Send(frame.header, {}, frame.payload, true, 0);
    b.device->Find(a.card.id)->Send(frame.header, {}, frame.payload, true, 0);
  }
  PumpFor({&a, &b}, 30 * kMillisecond);
  EXPECT_TRUE(a.log.empty());
  EXPECT_TRUE(b.log.empty());
}

TEST_P(FaultyTest, OneWaySilenceLeavesTheOtherWay) {
  Node a(GetParam(), 1), b(GetParam(), 2);
  ASSERT_NO_FATAL_FAILURE(Join(&a, &b));
  b.device->Disturb({}, Disturbance::kSilenceOutgoing);
  const TestFrame frame = MakeFrame(1, 1000);
  b.device->Find(a.card.id)->Send(frame.header, {}, frame.payload, true, 0);
  a.device->Find(b.card.id)->Send(frame.header, {}, frame.payload, true, 0);
  EXPECT_TRUE(PumpUntil({&a, &b}, [&] { return b.Received().size() == 1; }));
  PumpFor({&a, &b}, 10 * kMillisecond);
  EXPECT_TRUE(a.Received().empty());
}

TEST_P(FaultyTest, DelayKeepsOrder) {
  Node a(GetParam(), 1), b(GetParam(), 2);
  ASSERT_NO_FATAL_FAILURE(Join(&a, &b));
  a.device->Disturb(b.card.id, Disturbance::kDelay, 20 * kMillisecond);
  const TimeNs begin = Now();
  for (uint64_t i = 0; i < 5; ++i) {
    const TestFrame frame = MakeFrame(i, 100);
    a.device->Find(b.card.id)->Send(frame.header, {}, frame.payload, true, 0);
  }
  ASSERT_TRUE(PumpUntil({&a, &b}, [&] { return b.Received().size() == 5; }));
  EXPECT_GE(Now() - begin, 20 * kMillisecond);
  for (uint64_t i = 0; i < 5; ++i) EXPECT_EQ(Difference(b.Received()[i], i, 100), "");
}

TEST_P(FaultyTest, RulesFireAtTheirFrame) {
  const Variant inner{"", GetParam().transport.substr(7), GetParam().streams,
                      GetParam().interface_name};
  transport::faulty::FaultPlan plan;
  plan.rules.push_back({Disturbance::kSilence, {}, 3, 0});
  auto device = OpenVariant(inner, BaseConfig(inner, 1));
  ASSERT_TRUE(device.ok());
  Node a(inner, 1), b(GetParam(), 2);
  a.device = std::make_unique<transport::faulty::FaultyDevice>(std::move(*device), plan);
  a.card.addresses = a.device->address();
  ASSERT_NO_FATAL_FAILURE(Join(&a, &b));
  for (uint64_t i = 0; i < 6; ++i) {
    const TestFrame frame = MakeFrame(i, 100);
    a.device->Find(b.card.id)->Send(frame.header, {}, frame.payload, true, 0);
  }
  EXPECT_TRUE(PumpUntil({&a, &b}, [&] { return b.Received().size() == 3; }));
  PumpFor({&a, &b}, 10 * kMillisecond);
  EXPECT_EQ(b.Received().size(), 3u);
}

TEST_P(FaultyTest, RefusedConnectsAreDown) {
  const Variant inner{"", GetParam().transport.substr(7), GetParam().streams,
                      GetParam().interface_name};
  transport::faulty::FaultPlan plan;
  plan.refuse_connects = true;
  auto device = OpenVariant(inner, BaseConfig(inner, 1));
  ASSERT_TRUE(device.ok());
  Node a(inner, 1), b(GetParam(), 2);
  a.device = std::make_unique<transport::faulty::FaultyDevice>(std::move(*device), plan);
  a.Connect(b);
  EXPECT_TRUE(PumpUntil({&a, &b}, [&] { return a.Down(); }));
}

}  // namespace
}  // namespace ftar::conform
