// Goal: strangers cost the coordinator a bounded number of descriptors for a bounded time, and
// members get in all the while; what it may not listen on it says.
#include "coordinator/server.h"

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netdb.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "coordinator/host_port.h"
#include "coordinator/state_file.h"
#include "tests/unit/descriptors_left.h"
#include "wire/frame.h"

// The resolver knows a name that stands for two addresses, the first of them twice.
extern "C" int getaddrinfo(const char* node, const char* service, const addrinfo* hints,
                           addrinfo** list) {
  using Function = int(const char*, const char*, const addrinfo*, addrinfo**);
  static auto* const next = reinterpret_cast<Function*>(dlsym(RTLD_NEXT, "getaddrinfo"));
  if (node == nullptr || std::strcmp(node, "two.invalid") != 0)
    return next(node, service, hints, list);
  addrinfo** end = list;
  for (const char* const address : {"127.0.0.1", "127.0.0.1", "127.0.0.2"}) {
    if (const int error = next(address, service, hints, end); error != 0) return error;
    while (*end != nullptr) end = &(*end)->ai_next;
  }
  return 0;
}

namespace {
std::atomic<int> watches_refused{0};
}

// The system may watch no more for a while.
extern "C" int epoll_ctl(int epoll, int op, int fd, epoll_event* event) noexcept {
  using Function = int(int, int, int, epoll_event*);
  static auto* const next = reinterpret_cast<Function*>(dlsym(RTLD_NEXT, "epoll_ctl"));
  if (op != EPOLL_CTL_ADD || watches_refused == 0) return next(epoll, op, fd, event);
  --watches_refused;
  errno = ENOSPC;
  return -1;
}

namespace ftar::coordinator {
namespace {

using testing::Contains;
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

// What a server warns of, on its own thread.
class Warnings {
 public:
  Logger logger() {
    return Logger(LogLevel::kWarn, "test", {}, [this](LogLevel, const std::string& line) {
      const std::lock_guard<std::mutex> lock(mutex_);
      said_.push_back(line);
    });
  }
  std::vector<std::string> said() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return said_;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<std::string> said_;
};

class RunningServer {
 public:
  explicit RunningServer(ServerSettings settings, Logger log = Logger()) {
    Expected<std::unique_ptr<Server>> opened = Server::Open(settings, std::move(log));
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
  Server& server() { return *server_; }

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
  void SayHello(MemberId as, std::optional<wire::View> view = {}) {
    wire::Hello hello;
    hello.wire_version = wire::kWireVersion;
    hello.job = "job";
    hello.card.id = as;
    hello.replicas = hello.shards = hello.min_replicas = 1;
    hello.report.installed_view = std::move(view);
    stream_.Send(hello);
  }
  void SayHello() { SayHello(id_); }
  void Say(const wire::Message& message) { stream_.Send(message); }
  void Poll() { stream_.Poll(0, &told_); }
  bool Open() { return Poll(), stream_.state() == State::kOpen; }
  bool Closed() { return Poll(), stream_.state() == State::kClosed; }
  const Status& status() const { return stream_.status(); }
  bool Heard() { return Poll(), !told_.empty(); }
  // The epoch of the view that it was told of; a job of one forms it as soon as it has promised.
  Epoch Installed() {
    Poll();
    for (const wire::Message& message : std::exchange(told_, {})) {
      if (const auto* prepare = std::get_if<wire::Prepare>(&message)) {
        wire::BoundOf bound;
        bound.member = id_;
        bound.first.kind = wire::Bound::Kind::kAlways;
        Say(wire::Decided{prepare->epoch, 0, {bound}});
      } else if (const auto* install = std::get_if<wire::Install>(&message)) {
        installed_ = install->view.epoch;
      } else if (std::holds_alternative<wire::Evicted>(message)) {
        evicted_ = true;
      }
    }
    return installed_;
  }
  bool Evicted() { return Installed(), evicted_; }
  // On which views those are based that it was sent.
  std::vector<Epoch> Prepares() {
    Poll();
    std::vector<Epoch> bases;
    for (const wire::Message& message : std::exchange(told_, {})) {
      if (const auto* prepare = std::get_if<wire::Prepare>(&message))
        bases.push_back(prepare->base);
    }
    return bases;
  }
  // What a member's server has said first, once it has.
  std::optional<wire::Redirect> Greeting() {
    Poll();
    if (told_.empty()) return {};
    const auto* greeting = std::get_if<wire::Redirect>(&told_.front());
    return greeting ? std::optional(*greeting) : std::nullopt;
  }
  template <typename T>
  bool HasHeard() {
    Poll();
    return std::any_of(told_.begin(), told_.end(),
                       [](const auto& message) { return std::holds_alternative<T>(message); });
  }

 private:
  MemberId id_;
  MessageStream stream_;
  std::vector<wire::Message> told_;
  Epoch installed_ = 0;
  bool evicted_ = false;
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

// Who has proved the token and hangs before it has said Hello.
TEST(Server, WhoSaysNothingGoesInTime) {
  ServerSettings settings;
  settings.handshake_timeout_ns = 200 * kMillisecond;
  const RunningServer server(settings);
  Member member(server, MemberId{1, 1}), mute(server, MemberId{2, 2});
  ASSERT_TRUE(Eventually([&] { return member.Open() && mute.Open(); }));
  member.SayHello();
  EXPECT_TRUE(Eventually([&] { return member.Heard(); }));
  EXPECT_TRUE(Eventually([&] { return mute.Closed(); }));
  EXPECT_FALSE(member.Closed());
}

ServerSettings OfAMember() {
  ServerSettings settings;
  settings.hosted = true;
  return settings;
}

TEST(Server, ADormantOneSaysWhoCoordinates) {
  RunningServer server(OfAMember());
  server.server().Know({7, MemberId{3, 3}, "coordinator=10.0.0.3:1", false, false});
  Member member(server, MemberId{1, 1});
  ASSERT_TRUE(Eventually([&] { return member.Greeting().has_value(); }));
  const wire::Redirect greeting = *member.Greeting();
  EXPECT_EQ(greeting.epoch, 7u);
  EXPECT_EQ(greeting.host, (MemberId{3, 3}));
  EXPECT_EQ(greeting.address, "coordinator=10.0.0.3:1");
  EXPECT_FALSE(greeting.here);
  EXPECT_TRUE(Eventually([&] { return member.Closed(); }));
  EXPECT_FALSE(server.server().coordinating());
  EXPECT_TRUE(server.server().WaitDormant(0));
}

TEST(Server, WokenItCoordinatesUntilItsMemberGoes) {
  RunningServer server(OfAMember());
  const MemberId self{1, 1};
  server.server().Know({0, self, "", false, false});
  membership::CoordinatorConfig config;
  config.hosted = true;
  config.self = self;
  config.settle_ns = 0;
  server.server().Host(config);
  EXPECT_TRUE(server.server().coordinating());
  Member member(server, self);
  ASSERT_TRUE(Eventually([&] { return member.Greeting().has_value(); }));
  EXPECT_TRUE(member.Greeting()->here);
  member.SayHello();
  ASSERT_TRUE(Eventually([&] { return member.HasHeard<wire::Prepare>(); }));
  EXPECT_FALSE(server.server().WaitDormant(0));
  // Nobody holds a view yet: there is nothing to hand over.
  server.server().Retire();
  EXPECT_TRUE(server.server().WaitDormant(10 * kSecond));
  EXPECT_TRUE(Eventually([&] { return member.Closed(); }));
  Member late(server, MemberId{2, 2});
  ASSERT_TRUE(Eventually([&] { return late.Greeting().has_value(); }));
  EXPECT_FALSE(late.Greeting()->here);
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

// To hang up on them would look as if they had the wrong token.
TEST(Server, NewcomersWaitWhereNoDescriptorsAreLeft) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "UBSan needs descriptors to tell a good object from a bad one";
#endif
  Warnings warnings;
  const RunningServer server(ServerSettings{}, warnings.logger());
  Member early(server, MemberId{1, 1});
  early.SayHello();
  ASSERT_TRUE(Eventually([&] { return early.Heard(); })) << early.status().ToString();
  std::optional<DescriptorsLeft> shortage(1);
  Member late(server, MemberId{2, 2});
  late.SayHello();
  for (int i = 0; i < 50; ++i) {
    EXPECT_FALSE(late.Closed()) << late.status().ToString();
    EXPECT_FALSE(late.Open());
    EXPECT_TRUE(early.Open());
    poll(nullptr, 0, 10);
  }
  shortage.reset();
  EXPECT_TRUE(Eventually([&] { return late.Open(); })) << late.status().ToString();
  EXPECT_THAT(warnings.said(), Contains(HasSubstr("Too many open files (its limit is ")).Times(1))
      << "not at each try";
}

TEST(Server, NewcomersComeInWhenTheyCanBeWatchedAgain) {
  Warnings warnings;
  const RunningServer server(ServerSettings{}, warnings.logger());
  watches_refused = 1;
  Member early(server, MemberId{2, 2}), late(server, MemberId{3, 3});
  EXPECT_TRUE(Eventually([&] { return early.Closed(); }));
  EXPECT_TRUE(Eventually([&] { return late.Open(); })) << late.status().ToString();
  EXPECT_THAT(warnings.said(),
              Contains(HasSubstr("newcomers, who wait: No space left on device")).Times(1));
}

// They make room for who does not idle, and a record is written all the while.
TEST(Server, StrangersThatIdleTakeNoDescriptorFromMembers) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "UBSan needs descriptors to tell a good object from a bad one";
#endif
  ServerSettings settings;
  settings.handshake_timeout_ns = 1000 * kSecond;
  settings.state = testing::TempDir() + "/ftar_shortage_" + std::to_string(getpid());
  const RunningServer server(settings);
  std::vector<UniqueFd> strangers;
  for (int i = 0; i < 8; ++i) strangers.push_back(server.Connect());
  Member early(server, MemberId{1, 1});
  ASSERT_TRUE(Eventually([&] { return early.Open(); })) << "they have been accepted before";
  {
    const DescriptorsLeft shortage(1);
    Member late(server, MemberId{2, 2});
    late.SayHello();
    EXPECT_TRUE(Eventually([&] { return late.Installed() != 0; })) << late.status().ToString();
    EXPECT_TRUE(ClosedByPeer(strangers[0]));
    EXPECT_FALSE(ClosedByPeer(strangers[7])) << "no more than are needed";
  }
  std::filesystem::remove(settings.state);
}

// A stranger must not fill the log.
TEST(Server, WhoCannotProveTheTokenIsNamedOnce) {
  Warnings warnings;
  ServerSettings settings;
  settings.token = "secret";
  const RunningServer server(settings, warnings.logger());
  for (int times = 0; times < 3; ++times) {
    Member wrong(server, MemberId{1, 1}, "guess");
    ASSERT_TRUE(Eventually([&] { return wrong.Closed(); }));
  }
  Member right(server, MemberId{2, 2}, "secret");
  ASSERT_TRUE(Eventually([&] { return right.Open(); })) << right.status().ToString();
  ASSERT_EQ(warnings.said().size(), 1u);
  EXPECT_THAT(warnings.said()[0], HasSubstr("from 127.0.0.1:"));
  EXPECT_THAT(warnings.said()[0], HasSubstr("does not know the job's token"));
}

TEST(Server, EndsWhenItHasBeenEmptyForLong) {
  ServerSettings settings;
  settings.exit_when_empty_ns = 20 * kMillisecond;
  const RunningServer server(settings);
  EXPECT_TRUE(Eventually([&] { return server.done(); }));
}

TEST(Server, SaysThatItsAddressIsTaken) {
  ServerSettings settings;
  bool taken = true;
  const Expected<std::unique_ptr<Server>> first = Server::Open(settings, Logger(), &taken);
  ASSERT_TRUE(first.ok());
  EXPECT_FALSE(taken);
  settings.port = ParseHostPort((*first)->address(), "test")->port;
  EXPECT_FALSE(Server::Open(settings, Logger(), &taken).ok());
  EXPECT_TRUE(taken);
  settings.host = "0.0.0.0";
  EXPECT_FALSE(Server::Open(settings, Logger(), &taken).ok());
  EXPECT_FALSE(taken);
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
  EXPECT_THAT(server.status().text(), HasSubstr("--token-file"));
  settings.host = "no.such.host.invalid";
  server = Server::Open(settings, Logger());
  ASSERT_FALSE(server.ok());
  EXPECT_EQ(server.status().code(), Code::kConfig);
  EXPECT_THAT(server.status().text(), HasSubstr("no.such.host.invalid"));
}

class ServerState : public testing::Test {
 protected:
  void SetUp() override {
    char folder[] = "/tmp/ftar_server_XXXXXX";
    ASSERT_NE(mkdtemp(folder), nullptr);
    folder_ = folder;
    settings_.state = folder_ + "/state";
    settings_.machine.settle_ns = 0;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  Epoch Recorded() const { return ReadState(settings_.state, "").value().epoch; }

  std::string folder_;
  ServerSettings settings_;
};

TEST_F(ServerState, IsKeptForTheNextStart) {
  Epoch epoch = 0;
  {
    const RunningServer server(settings_);
    Member member(server, MemberId{1, 1});
    member.SayHello();
    ASSERT_TRUE(Eventually([&] { return (epoch = member.Installed()) != 0; }));
    EXPECT_EQ(Recorded(), epoch);
  }
  EXPECT_GE(Recorded(), epoch) << "by the end of the job at the latest";
  const RunningServer server(settings_);
  Member stale(server, MemberId{2, 2});
  wire::View view;
  view.epoch = epoch;
  stale.SayHello(MemberId{2, 2}, view);
  EXPECT_TRUE(Eventually([&] { return stale.Evicted(); }));
}

TEST_F(ServerState, IsKeptWhereALinkLeads) {
  const std::string link = folder_ + "/link";
  std::filesystem::create_symlink("state", link);
  ServerSettings settings = settings_;
  settings.state = link;
  ASSERT_TRUE(Server::Open(settings, Logger()).ok());
  EXPECT_TRUE(std::filesystem::is_symlink(link));
  EXPECT_TRUE(std::filesystem::is_regular_file(settings_.state));
}

TEST_F(ServerState, NothingIsToldWhileTheDiskIsFull) {
  const RunningServer server(settings_);
  const std::string fresh = settings_.state + ".tmp";
  ASSERT_EQ(symlink("/dev/full", fresh.c_str()), 0);
  Member member(server, MemberId{1, 1});
  member.SayHello();
  for (int i = 0; i < 60; ++i) {
    EXPECT_EQ(member.Installed(), 0u);
    poll(nullptr, 0, 5);
  }
  EXPECT_EQ(Recorded(), 0u);
  std::filesystem::remove(fresh);
  EXPECT_TRUE(Eventually([&] { return member.Installed() != 0; }));
  EXPECT_EQ(Recorded(), member.Installed());
}

TEST_F(ServerState, AFullDiskDoesNotKeepItFromStopping) {
  const RunningServer server(settings_);
  ASSERT_EQ(symlink("/dev/full", (settings_.state + ".tmp").c_str()), 0);
  Member member(server, MemberId{1, 1});
  member.SayHello();
  for (int i = 0; i < 20; ++i) {
    member.Installed();
    poll(nullptr, 0, 5);
  }
}

// All that it says is there at once: so the server reads on in the turn in which it is stopped.
TEST_F(ServerState, StoppedOnAFullDiskItTellsNothingMore) {
  std::optional<RunningServer> server(settings_);
  ASSERT_EQ(symlink("/dev/full", (settings_.state + ".tmp").c_str()), 0);
  Member member(*server, MemberId{1, 1});
  const Epoch first = MakeEpoch(1, settings_.machine.incarnation);
  wire::BoundOf bound;
  bound.member = MemberId{1, 1};
  bound.first.kind = wire::Bound::Kind::kAlways;
  member.SayHello();
  member.Say(wire::Decided{first, 0, {bound}});
  member.Say(wire::AskPrepare{first, 0, 1});
  std::vector<Epoch> bases;
  for (int i = 0; i < 40; ++i) {
    for (const Epoch base : member.Prepares()) bases.push_back(base);
    poll(nullptr, 0, 5);
  }
  server.reset();
  ASSERT_TRUE(Eventually([&] {
    for (const Epoch base : member.Prepares()) bases.push_back(base);
    return member.Closed();
  }));
  EXPECT_THAT(bases, testing::ElementsAre(0u)) << "one that goes by the view that is not recorded";
}

TEST_F(ServerState, AFileThatCannotBeUsedIsNamedAtTheStart) {
  std::ofstream(settings_.state) << "something else";
  const auto foreign = Server::Open(settings_, Logger());
  ASSERT_FALSE(foreign.ok());
  EXPECT_EQ(foreign.status().code(), Code::kConfig);
  EXPECT_THAT(foreign.status().text(), HasSubstr(settings_.state));
  settings_.state = folder_ + "/no/such/folder";
  const auto nowhere = Server::Open(settings_, Logger());
  ASSERT_FALSE(nowhere.ok());
  EXPECT_THAT(nowhere.status().text(), HasSubstr(settings_.state));
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

// Members that dial the name would find the one or the other.
TEST(Server, ANameIsServedAtAllOfItsAddressesOrNotAtAll) {
  ServerSettings settings;
  settings.host = "127.0.0.2";
  std::optional<RunningServer> other(settings);
  const std::string address = other->server().address();
  settings.port = static_cast<uint16_t>(std::stoi(address.substr(address.rfind(':') + 1)));
  settings.host = "two.invalid";
  const auto half = Server::Open(settings, Logger());
  ASSERT_FALSE(half.ok());
  EXPECT_THAT(half.status().text(), HasSubstr(address));
  other.reset();
  const RunningServer whole(settings);
  settings.host = "127.0.0.2";
  EXPECT_FALSE(Server::Open(settings, Logger()).ok());
}

}  // namespace
}  // namespace ftar::coordinator
