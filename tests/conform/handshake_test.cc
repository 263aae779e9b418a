// Who may come in, and what strangers can do: nothing, at little cost.
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cstddef>
#include <cstring>

#include "tests/conform/harness.h"
#include "transport/fd.h"
#include "transport/local_exchange.h"
#include "transport/shm/segment.h"
#include "transport/tcp/socket.h"
#include "wire/addresses.h"

namespace ftar::conform {
namespace {

using Kind = Completion::Kind;
using wire::FindAddress;
using transport::UniqueFd;

class HandshakeTest : public ConformTest {};
INSTANTIATE_TEST_SUITE_P(All, HandshakeTest, testing::ValuesIn(AllVariants()), VariantName);

// A plain connection to the node's listener, as a stranger makes it.
UniqueFd ConnectRaw(const Node& node) {
  if (const std::string tcp = FindAddress(node.card.addresses, "tcp"); !tcp.empty()) {
    const auto address = transport::tcp::ParseAddress(tcp);
    UniqueFd fd(::socket(address->family(), SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (::connect(fd.get(), address->raw(), address->bytes) != 0) fd.Reset();
    return fd;
  }
  const std::string name = FindAddress(node.card.addresses, "shm");
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, name.data() + 1, name.size() - 1);
  UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const auto bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size());
  if (::connect(fd.get(), reinterpret_cast<sockaddr*>(&address), bytes) != 0) fd.Reset();
  return fd;
}

// Expects that b refuses a, with this code at a, and that b's user hears nothing of it.
void ExpectRefused(Node* a, Node* b, Code code) {
  a->Connect(*b);
  ASSERT_TRUE(PumpUntil({a, b}, [&] { return a->Down(); }));
  EXPECT_EQ(a->Last(Kind::kDown)->status.code(), code) << a->Last(Kind::kDown)->status.ToString();
  EXPECT_FALSE(a->Up());
  PumpFor({a, b}, 5 * kMillisecond);
  EXPECT_TRUE(b->log.empty());
  EXPECT_GT(b->device->counters().peers_refused, 0u);
}

TEST_P(HandshakeTest, RefusesAnotherToken) {
  DeviceConfig config = BaseConfig(GetParam(), 1);
  config.token = "another secret";
  Node a(GetParam(), config), b(GetParam(), 2);
  ExpectRefused(&a, &b, Code::kAuth);
}

TEST_P(HandshakeTest, RefusesAnAbsentToken) {
  DeviceConfig config = BaseConfig(GetParam(), 1);
  config.token = "";
  Node a(GetParam(), config), b(GetParam(), 2);
  ExpectRefused(&a, &b, Code::kAuth);
}

TEST_P(HandshakeTest, RefusesAnotherJobAndSaysWhich) {
  DeviceConfig config = BaseConfig(GetParam(), 1);
  config.job = "other job";
  Node a(GetParam(), config), b(GetParam(), 2);
  ExpectRefused(&a, &b, Code::kAuth);
  EXPECT_NE(a.Last(Kind::kDown)->status.text().find("'conform'"), std::string::npos);
}

TEST_P(HandshakeTest, RefusesAnotherWireVersionAndSaysBoth) {
  DeviceConfig config = BaseConfig(GetParam(), 1);
  config.wire_version = wire::kWireVersion + 1;
  Node a(GetParam(), config), b(GetParam(), 2);
  ExpectRefused(&a, &b, Code::kVersion);
  EXPECT_NE(a.Last(Kind::kDown)->status.text().find(std::to_string(config.wire_version)),
            std::string::npos);
}

TEST_P(HandshakeTest, ServesLoopbackWithoutAnyToken) {
  DeviceConfig first = BaseConfig(GetParam(), 1), second = BaseConfig(GetParam(), 2);
  first.token = second.token = "";
  Node a(GetParam(), first), b(GetParam(), second);
  Join(&a, &b);
}

TEST_P(HandshakeTest, RefusesAWrongMemberAtAnAddress) {
  Node a(GetParam(), 1), b(GetParam(), 2);
  wire::MemberCard card = b.card;
  card.id = Member(3);
  DeviceConfig config = BaseConfig(GetParam(), 4);
  config.path_retry_ns = 50 * kMillisecond;
  config.handshake_timeout_ns = 50 * kMillisecond;
  Node c(GetParam(), config);
  c.device->Connect(card, Now());
  EXPECT_TRUE(PumpUntil({&b, &c}, [&] { return c.Down(); }));
}

TEST_P(HandshakeTest, SaysNothingToStrangersAndSurvivesGarbage) {
  DeviceConfig config = BaseConfig(GetParam(), 2);
  config.handshake_timeout_ns = 100 * kMillisecond;
  Node a(GetParam(), 1), b(GetParam(), config);
  std::vector<UniqueFd> strangers;
  for (size_t bytes : {1u, 3u, 17u, 40u, 41u, 500u, 5000u}) {
    strangers.push_back(ConnectRaw(b));
    std::vector<char> garbage(bytes);
    for (size_t i = 0; i < bytes; ++i) garbage[i] = static_cast<char>(i * 37 + bytes);
    static_cast<void>(::send(strangers.back().get(), garbage.data(), bytes, MSG_NOSIGNAL));
  }
  // Half a message that looks right, then silence: closed when the handshake's time is over.
  strangers.push_back(ConnectRaw(b));
  ASSERT_EQ(::send(strangers.back().get(), "FTARa1\x01\x00", 8, MSG_NOSIGNAL), 8);
  ASSERT_NO_FATAL_FAILURE(Join(&a, &b));
  for (const UniqueFd& stranger : strangers) {
    char buffer[256];
    ssize_t got = -1;
    EXPECT_TRUE(PumpUntil({&a, &b}, [&] {
      got = ::recv(stranger.get(), buffer, sizeof buffer, MSG_DONTWAIT);
      return got >= 0 || errno == ECONNRESET;
    }));
    EXPECT_LE(got, 0) << "a stranger was told " << got << " bytes";
  }
  EXPECT_FALSE(b.Down());
}

TEST_P(HandshakeTest, AThousandIdleStrangersKeepNobodyOut) {
  DeviceConfig config = BaseConfig(GetParam(), 2);
  config.unauthenticated_max = 64;
  Node a(GetParam(), 1), b(GetParam(), config);
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  const int count = limit.rlim_cur > 3000 ? 1000 : 300;
  std::vector<UniqueFd> strangers;
  for (int i = 0; i < count; ++i) {
    strangers.push_back(ConnectRaw(b));
    b.PollOnce();
  }
  const TimeNs begin = Now();
  ASSERT_NO_FATAL_FAILURE(Join(&a, &b));
  EXPECT_LT(Now() - begin, 2 * kSecond);
  EXPECT_GE(b.device->counters().peers_refused, static_cast<uint64_t>(count - 64 - 1));
}

TEST_P(HandshakeTest, RunningOutOfDescriptorsDoesNotHurtWhatIsThere) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "UBSan needs descriptors to tell a good object from a bad one";
#endif
  Node a(GetParam(), 1), b(GetParam(), 2), c(GetParam(), 3);
  ASSERT_NO_FATAL_FAILURE(Join(&a, &b));
  // Both ends live in this process: strangers connect first, then the descriptors are used up
  // before they are accepted.
  std::vector<UniqueFd> strangers, fillers;
  for (int i = 0; i < 20; ++i) strangers.push_back(ConnectRaw(b));
  rlimit before{};
  ::getrlimit(RLIMIT_NOFILE, &before);
  rlimit low = before;
  low.rlim_cur = static_cast<rlim_t>(UniqueFd(::dup(0)).get()) + 2;
  ::setrlimit(RLIMIT_NOFILE, &low);
  for (int fd = ::dup(0); fd >= 0; fd = ::dup(0)) fillers.emplace_back(fd);
  a.device->Find(b.card.id)->Send(MakeFrame(0, 5000).header, {}, MakeFrame(0, 5000).payload, true,
                                  0);
  c.Connect(b);
  EXPECT_TRUE(PumpUntil({&a, &b, &c}, [&] { return b.Received().size() == 1; }));
  PumpFor({&a, &b, &c}, 20 * kMillisecond);
  fillers.clear();
  ::setrlimit(RLIMIT_NOFILE, &before);
  EXPECT_FALSE(a.Down() || b.Down());
  // Once there are descriptors again, new members come in.
  if (c.Down()) {
    c.log.clear();
    c.Connect(b);
  }
  EXPECT_TRUE(PumpUntil({&a, &b, &c}, [&] { return c.Up(); }));
}

TEST_P(HandshakeTest, ReportsRefusedDials) {
  Node a(GetParam(), 1);
  wire::MemberCard gone;
  {
    Node b(GetParam(), 2);
    gone = b.card;
  }
  a.device->Connect(gone, Now());
  ASSERT_TRUE(PumpUntil(
      {&a}, [&] { return a.Down(); }, kSecond));
  EXPECT_EQ(a.Last(Kind::kDown)->status.code(), Code::kPeer);
}

// Listens, and nobody is there to answer.
UniqueFd ListenSilently(wire::MemberCard* card) {
  UniqueFd silent(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t bytes = sizeof address;
  auto* const raw = reinterpret_cast<sockaddr*>(&address);
  EXPECT_EQ(::bind(silent.get(), raw, bytes), 0);
  EXPECT_EQ(::listen(silent.get(), 16), 0);
  EXPECT_EQ(::getsockname(silent.get(), raw, &bytes), 0);
  card->id = Member(2);
  card->addresses = "tcp=127.0.0.1:" + std::to_string(ntohs(address.sin_port));
  return silent;
}

// An attempt that has come through is not given up before answers can have come from so far away.
TEST(TcpDial, TakesItsTimeWhereTheOtherIsFarAway) {
  Variant variant;
  variant.name = variant.transport = "tcp";
  DeviceConfig config = BaseConfig(variant, 1);
  config.handshake_timeout_ns = config.path_retry_ns = kSecond;
  Node a(variant, config);
  wire::MemberCard card = a.card;
  const UniqueFd silent = ListenSilently(&card);
  const TimeNs begin = Now();
  std::vector<Completion> batch;
  a.device->Connect(card, begin);
  a.device->Poll(begin, 1, &batch);
  // By the clock that the device is given the connections come up late, and nothing else comes.
  std::vector<UniqueFd> dialled;
  for (int ms = 130; ms < 900; ms += 10) {
    a.device->Poll(begin + ms * kMillisecond, 1, &batch);
    UniqueFd fd(::accept4(silent.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (fd.valid()) dialled.push_back(std::move(fd));
  }
  EXPECT_EQ(dialled.size(), static_cast<size_t>(config.tcp_streams));
}

// As where the first packets are lost.
TEST(TcpDial, IsRepeatedWhereNothingAnswers) {
  Variant variant;
  variant.name = variant.transport = "tcp";
  DeviceConfig config = BaseConfig(variant, 1);
  config.handshake_timeout_ns = config.path_retry_ns = 200 * kMillisecond;
  Node a(variant, config);
  wire::MemberCard card = a.card;
  const UniqueFd silent = ListenSilently(&card);
  a.device->Connect(card, Now());
  std::vector<UniqueFd> dialled;
  ASSERT_TRUE(PumpUntil({&a}, [&] {
    UniqueFd fd(::accept4(silent.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (fd.valid()) dialled.push_back(std::move(fd));
    return a.Down();
  }));
  EXPECT_GT(dialled.size(), static_cast<size_t>(config.tcp_streams));
}

// A proven peer whose memory is not what it says: refused, without touching it.
TEST(ShmOffer, RefusesMemoryThatCouldShrink) {
  const Variant variant{"shm", "shm", 1, ""};
  Node b(variant, 2);
  auto dialler =
      transport::LocalExchange::Open(BaseConfig(variant, 1), transport::AuthPurpose::kSegment);
  ASSERT_TRUE(dialler.ok());
  for (const bool truncated : {true, false}) {
    auto honest = transport::shm::Channel::Create(1 << 20);
    auto message = (*honest)->MakeOffer(0, 0, -1);
    ASSERT_TRUE(message.ok());
    UniqueFd memory(::memfd_create("evil", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    ASSERT_EQ(::ftruncate(memory.get(), truncated ? 4096 : 4096 + (1 << 20)), 0);
    if (truncated)
      ::fcntl(memory.get(), F_ADD_SEALS,
              F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL);
    message->fds[0] = std::move(memory);
    (*dialler)->Dial(Member(2), FindAddress(b.card.addresses, "shm"), std::move(*message), Now());
    std::vector<transport::LocalExchange::Result> results;
    ASSERT_TRUE(PumpUntil({&b}, [&] {
      (*dialler)->Poll(Now(), nullptr, &results);
      return !results.empty();
    }));
    EXPECT_EQ(results[0].status.code(), Code::kPeer);
    EXPECT_NE(results[0].status.text().find(truncated ? "bytes" : "not sealed"), std::string::npos)
        << results[0].status.text();
  }
  EXPECT_TRUE(b.log.empty());
}

TEST(Registry, NamesWhatThereIs) {
  const auto device = transport::OpenDevice("carrier-pigeon", BaseConfig({"", "", 1, ""}, 1));
  ASSERT_FALSE(device.ok());
  EXPECT_EQ(device.status().code(), Code::kConfig);
  EXPECT_NE(device.status().text().find("shm, tcp"), std::string::npos);
}

TEST(TcpConfig, RefusesWhatItCannotListenOn) {
  const auto open = [](const std::string& interface_name, const std::string& ports,
                       const std::string& congestion) {
    DeviceConfig config = BaseConfig({"", "tcp", 1, interface_name}, 1);
    config.ports = ports;
    config.tcp_congestion = congestion;
    const auto device = transport::OpenDevice("tcp", config);
    return device.ok() ? std::string("opened at ") + (*device)->address()
                       : device.status().argument();
  };
  EXPECT_EQ(open("0.0.0.0", "", ""), "interface");
  EXPECT_EQ(open("::", "", ""), "interface");
  EXPECT_EQ(open("no-such-interface", "", ""), "interface");
  EXPECT_EQ(open("203.0.113.7", "", ""), "interface");
  EXPECT_EQ(open("10.1.2.3/99", "", ""), "interface");
  EXPECT_EQ(open("203.0.113.0/24", "", ""), "interface");
  EXPECT_EQ(open("127.0.0.1", "9-3", ""), "ports");
  EXPECT_EQ(open("127.0.0.1", "x", ""), "ports");
  EXPECT_EQ(open("127.0.0.1", "", "no-such-control"), "tcp_congestion");
  EXPECT_NE(open("lo", "", "auto").find("tcp=127.0.0.1:"), std::string::npos);
  EXPECT_NE(open("127.0.0.0/8", "", "system").find("tcp=127.0.0.1:"), std::string::npos);
  EXPECT_NE(open("", "", "").find("tcp=127.0.0.1:"), std::string::npos);
}

TEST(TcpConfig, KeepsToItsPorts) {
  DeviceConfig config = BaseConfig({"", "tcp", 1, "127.0.0.1"}, 1);
  auto any = transport::tcp::Listen(*transport::tcp::ParseAddress("127.0.0.1:0", true), "", "");
  ASSERT_TRUE(any.ok());
  const int port = any->address.port();
  config.ports = std::to_string(port);
  const auto busy = transport::OpenDevice("tcp", config);
  ASSERT_FALSE(busy.ok());
  EXPECT_EQ(busy.status().argument(), "ports");
  any->fd.Reset();
  const auto free = transport::OpenDevice("tcp", config);
  ASSERT_TRUE(free.ok());
  EXPECT_NE((*free)->address().find(":" + std::to_string(port)), std::string::npos);
}

std::string CongestionOf(int fd) {
  char name[16] = "";
  socklen_t bytes = sizeof name;
  return ::getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, &bytes) == 0 ? name : "";
}

// Those that this machine lets anybody choose; there is one at least.
std::vector<std::string> CongestionControls() {
  const auto local = transport::tcp::ParseAddress("127.0.0.1:0", true);
  std::vector<std::string> controls = {"reno"};
  if (transport::tcp::Listen(*local, "", "cubic").ok()) controls.emplace_back("cubic");
  return controls;
}

// Chosen later it would not take back what the machine's own has begun with: bbr's pacing, above
// all.
TEST(TcpConfig, ConnectionsBeginWithTheirCongestionControl) {
  const auto local = transport::tcp::ParseAddress("127.0.0.1:0", true);
  for (const std::string& control : CongestionControls()) {
    const auto listener = transport::tcp::Listen(*local, "", control);
    ASSERT_TRUE(listener.ok()) << listener.status().text();
    int error = 0;
    const UniqueFd dialled = transport::tcp::Dial(listener->address, *local, control, &error);
    ASSERT_EQ(error, 0);
    EXPECT_EQ(CongestionOf(dialled.get()), control);
    pollfd waits{listener->fd.get(), POLLIN, 0};
    ASSERT_EQ(::poll(&waits, 1, 5000), 1);
    const UniqueFd accepted(::accept(listener->fd.get(), nullptr, nullptr));
    EXPECT_EQ(CongestionOf(accepted.get()), control);
  }
}

TEST(TcpConfig, LinksHaveTheirCongestionControlAtBothEnds) {
  const Variant variant{"", "tcp", 1, "127.0.0.1"};
  for (const std::string& control : CongestionControls()) {
    DeviceConfig first = BaseConfig(variant, 1), second = BaseConfig(variant, 2);
    first.tcp_congestion = second.tcp_congestion = control;
    Node a(variant, first), b(variant, second);
    Join(&a, &b);
    int connections = 0;
    for (int fd = 0; fd < 256; ++fd) {
      sockaddr_in peer{};
      socklen_t bytes = sizeof peer;
      if (::getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &bytes) != 0 ||
          peer.sin_family != AF_INET)
        continue;
      ++connections;
      EXPECT_EQ(CongestionOf(fd), control);
    }
    EXPECT_EQ(connections, 2);
  }
}

}  // namespace
}  // namespace ftar::conform
