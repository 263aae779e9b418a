// Goal: strangers cost the coordinator a bounded number of descriptors for a bounded time, and
// members get in all the while; what it may not listen on it says.
#include "coordinator/server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <atomic>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "wire/frame.h"

namespace ftar::coordinator {
namespace {

using testing::HasSubstr;
using transport::UniqueFd;
using State = MessageStream::State;

// Polls until it is so; false after ten seconds.
bool Eventually(const std::function<bool()>& so) {
  for (int tries = 0; tries < 2000; ++tries) {
    if (so()) return true;
    poll(nullptr, 0, 5);
  }
  return false;
}

bool ClosedByPeer(const UniqueFd& fd) {
  char byte = 0;
  return recv(fd.get(), &byte, 1, MSG_DONTWAIT | MSG_PEEK) == 0;
}

class RunningServer {
 public:
  explicit RunningServer(ServerSettings settings) {
    Expected<std::unique_ptr<Server>> opened = Server::Open(settings, Logger());
    EXPECT_TRUE(opened.ok()) << opened.status().ToString();
    server_ = std::move(*opened);
    thread_ = std::thread([this] {
      server_->Run();
      done_ = true;
    });
  }
  ~RunningServer() {
    server_->Stop();
    thread_.join();
  }
  UniqueFd Connect() const {
    Expected<UniqueFd> fd = StartConnecting(server_->address());
    EXPECT_TRUE(fd.ok()) << fd.status().ToString();
    return fd.ok() ? std::move(*fd) : UniqueFd();
  }
  bool done() const { return done_; }

 private:
  std::unique_ptr<Server> server_;
  std::thread thread_;
  std::atomic<bool> done_{false};
};

// A member that says Hello; what it is told is kept.
class Member {
 public:
  Member(const RunningServer& server, MemberId id, const std::string& token = "")
      : id_(id),
        stream_(server.Connect(), transport::Authenticator::Role::kDialler, token, id, 0) {}
  void SayHello(MemberId as) {
    wire::Hello hello;
    hello.wire_version = wire::kWireVersion;
    hello.job = "job";
    hello.card.id = as;
    hello.replicas = hello.shards = hello.min_replicas = 1;
    stream_.Send(hello);
  }
  void SayHello() { SayHello(id_); }
  void Say(const wire::Message& message) { stream_.Send(message); }
  void Poll() { stream_.Poll(0, &told_); }
  bool Open() { return Poll(), stream_.state() == State::kOpen; }
  bool Closed() { return Poll(), stream_.state() == State::kClosed; }
  const Status& status() const { return stream_.status(); }
  bool Heard() { return Poll(), !told_.empty(); }

 private:
  MemberId id_;
  MessageStream stream_;
  std::vector<wire::Message> told_;
};

TEST(Server, AThousandIdleStrangersKeepNobodyOut) {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
  constexpr size_t kStrangers = 1000, kKept = 16;
  ServerSettings settings;
  settings.unauthenticated_max = kKept;
  settings.handshake_timeout_ns = 1000 * kSecond;
  const RunningServer server(settings);
  std::vector<UniqueFd> strangers;
  for (size_t i = 0; i < kStrangers; ++i) strangers.push_back(server.Connect());
  // The newest are kept, one more pushes the oldest out.
  EXPECT_TRUE(Eventually([&] {
    for (size_t i = 0; i + kKept < kStrangers; ++i) {
      if (!ClosedByPeer(strangers[i])) return false;
    }
    return true;
  }));
  for (size_t i = kStrangers - kKept; i < kStrangers; ++i)
    EXPECT_FALSE(ClosedByPeer(strangers[i])) << i;
  Member member(server, MemberId{1, 1});
  member.SayHello();
  EXPECT_TRUE(Eventually([&] { return member.Heard(); })) << member.status().ToString();
  // Who has proved the token is none of them: more strangers do not push it out.
  for (size_t i = 0; i < 2 * kKept; ++i) strangers.push_back(server.Connect());
  EXPECT_TRUE(Eventually([&] { return ClosedByPeer(strangers[kStrangers]); }));
  EXPECT_TRUE(member.Open()) << member.status().ToString();
}

TEST(Server, AHandshakeHasItsTime) {
  ServerSettings settings;
  settings.handshake_timeout_ns = 500 * kMillisecond;
  const RunningServer server(settings);
  const UniqueFd silent = server.Connect(), half = server.Connect();
  send(half.get(), "F", 1, MSG_NOSIGNAL);
  Member member(server, MemberId{1, 1});
  member.SayHello();
  ASSERT_TRUE(Eventually([&] { return member.Heard(); }));
  EXPECT_TRUE(Eventually([&] { return ClosedByPeer(silent) && ClosedByPeer(half); }));
  EXPECT_TRUE(member.Open()) << member.status().ToString();
}

TEST(Server, GarbageIsClosedAtOnce) {
  ServerSettings settings;
  settings.handshake_timeout_ns = 1000 * kSecond;
  const RunningServer server(settings);
  const UniqueFd stranger = server.Connect();
  const std::string noise(10000, 'x');
  ASSERT_TRUE(Eventually(
      [&] { return send(stranger.get(), noise.data(), noise.size(), MSG_NOSIGNAL) > 0; }));
  char byte = 0;
  EXPECT_TRUE(Eventually([&] {
    const ssize_t got = recv(stranger.get(), &byte, 1, MSG_DONTWAIT);
    return got == 0 || (got < 0 && errno == ECONNRESET);
  }));
}

TEST(Server, TheFirstMessageIsAHelloOfItsOwn) {
  const RunningServer server(ServerSettings{});
  Member other(server, MemberId{1, 1}), early(server, MemberId{2, 2}), good(server, MemberId{3, 3});
  other.SayHello(MemberId{9, 9});
  early.Say(wire::Installed{1});
  good.SayHello();
  EXPECT_TRUE(Eventually([&] { return other.Closed(); })) << "somebody else's name";
  EXPECT_TRUE(Eventually([&] { return early.Closed(); })) << "no name at all";
  EXPECT_TRUE(Eventually([&] { return good.Heard(); })) << good.status().ToString();
}

TEST(Server, AWrongTokenIsRefused) {
  ServerSettings settings;
  settings.token = "secret";
  const RunningServer server(settings);
  Member wrong(server, MemberId{1, 1}, "guess"), right(server, MemberId{2, 2}, "secret");
  wrong.SayHello();
  right.SayHello();
  EXPECT_TRUE(Eventually([&] { return wrong.Closed(); }));
  EXPECT_EQ(wrong.status().code(), Code::kAuth);
  EXPECT_TRUE(Eventually([&] { return right.Heard(); })) << right.status().ToString();
}

TEST(Server, EndsWhenItHasBeenEmptyForLong) {
  ServerSettings settings;
  settings.exit_when_empty_ns = 20 * kMillisecond;
  const RunningServer server(settings);
  EXPECT_TRUE(Eventually([&] { return server.done(); }));
}

TEST(Server, SaysWhatItMayNotListenOn) {
  ServerSettings settings;
  settings.host = "0.0.0.0";
  settings.token = "secret";
  Expected<std::unique_ptr<Server>> server = Server::Open(settings, Logger());
  ASSERT_FALSE(server.ok());
  EXPECT_EQ(server.status().code(), Code::kConfig);
  EXPECT_THAT(server.status().text(), HasSubstr("wildcard"));
  settings.allow_wildcard = true;
  EXPECT_TRUE(Server::Open(settings, Logger()).ok());
  settings.token = "";
  server = Server::Open(settings, Logger());
  ASSERT_FALSE(server.ok());
  EXPECT_EQ(server.status().argument(), "token");
  settings.host = "no.such.host.invalid";
  server = Server::Open(settings, Logger());
  ASSERT_FALSE(server.ok());
  EXPECT_EQ(server.status().code(), Code::kConfig);
  EXPECT_THAT(server.status().text(), HasSubstr("no.such.host.invalid"));
}

TEST(Server, AnAddressInUseIsNamed) {
  const auto first = Server::Open(ServerSettings{}, Logger());
  ASSERT_TRUE(first.ok());
  ServerSettings settings;
  const std::string address = (*first)->address();
  settings.port = static_cast<uint16_t>(std::stoi(address.substr(address.rfind(':') + 1)));
  const auto second = Server::Open(settings, Logger());
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.status().code(), Code::kSystem);
  EXPECT_THAT(second.status().text(), HasSubstr(address));
}

}  // namespace
}  // namespace ftar::coordinator
