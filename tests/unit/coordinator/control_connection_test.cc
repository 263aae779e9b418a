// Goal: the way to the coordinator is tried again soon enough, wherever what was sent got lost, and
// of several names each in its turn. Time is an argument; connections go nowhere or are refused.
#include "coordinator/control_connection.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "coordinator/message_stream.h"
#include "transport/fd.h"

namespace ftar::coordinator {
namespace {

using transport::UniqueFd;

sockaddr_in Loopback(uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  return address;
}

UniqueFd Dial(uint16_t port) {
  UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const sockaddr_in to = Loopback(port);
  connect(fd.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to);
  return fd;
}

// A listening socket of loopback. With a full queue whoever dials hears nothing, as of a host that
// is cut off.
class Listener {
 public:
  explicit Listener(bool full)
      : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) {
    sockaddr_in address = Loopback(0);
    socklen_t size = sizeof address;
    EXPECT_EQ(bind(fd_.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(listen(fd_.get(), full ? 0 : 8), 0);
    getsockname(fd_.get(), reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
    if (full) Fill();
  }
  void Fill() {
    for (int i = 0; i < 12; ++i) queued_.push_back(Dial(port_));
  }
  void Empty() {
    queued_.clear();
    while (Accept().valid()) continue;
  }
  HostPort name() const { return {"127.0.0.1", port_}; }
  UniqueFd Accept() const {
    return UniqueFd(accept4(fd_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  }

 private:
  UniqueFd fd_;
  std::vector<UniqueFd> queued_;
  uint16_t port_ = 0;
};

constexpr TimeNs kTimeout = 400 * kMillisecond;

class ControlConnectionTest : public testing::Test {
 protected:
  void Open(const std::vector<HostPort>& names, const std::string& token = "") {
    ControlConnection::Settings settings;
    settings.names = names;
    settings.token = token;
    settings.self = {1, 2};
    settings.hosted = greeting_.has_value();
    settings.SetPatience(kTimeout);
    connection_.emplace(settings, &log_);
    if (greeting_) connection_->DialAddress(now_, ShownAddress(names[0]));
  }
  // True if the other end saw the connection close.
  static bool Closed(MessageStream* acceptor, TimeNs now) {
    std::vector<wire::Message> messages;
    acceptor->Poll(now, &messages);
    return acceptor->state() == MessageStream::State::kClosed;
  }
  void Turn() {
    now_ += kMillisecond;
    if (connection_->wants_addresses(now_)) {
      const HostPort& at = moved_to_ ? *moved_to_ : connection_->name();
      connection_->SetAddresses(now_, std::vector<std::string>{ShownAddress(at)});
    }
    ControlConnection::Result result;
    connection_->Poll(now_, &result);
    renewed_ += result.renewed;
    went_down_ += result.went_down;
  }
  std::unique_ptr<MessageStream> NewAcceptor(UniqueFd fd, const std::string& token) const {
    return std::make_unique<MessageStream>(std::move(fd), transport::Authenticator::Role::kAcceptor,
                                           token, MemberId{}, now_);
  }
  std::unique_ptr<MessageStream> AwaitDial(const Listener& at, const std::string& token) {
    for (int i = 0; i < 1000; ++i) {
      Turn();
      UniqueFd fd = at.Accept();
      if (!fd.valid()) continue;
      return NewAcceptor(std::move(fd), token);
    }
    return nullptr;
  }
  // Leaves it unread.
  void AwaitProof(MessageStream* acceptor) {
    std::vector<wire::Message> messages;
    int there = 0;
    // The greeting is answered in the Poll that reads it.
    for (int i = 0; i < 1000 && !acceptor->Poll(now_, &messages); ++i) Turn();
    for (int i = 0; i < 1000 && there == 0; ++i) {
      Turn();
      ioctl(acceptor->fd(), FIONREAD, &there);
    }
    ASSERT_EQ(there, 32);
  }
  std::unique_ptr<MessageStream> ComeUp(const Listener& at) {
    std::unique_ptr<MessageStream> acceptor = AwaitDial(at, "");
    if (!acceptor) return acceptor;
    std::vector<wire::Message> messages;
    if (greeting_) acceptor->Send(*greeting_);
    for (int i = 0; i < 1000 && !connection_->up(); ++i) {
      acceptor->Poll(now_, &messages);
      Turn();
    }
    return acceptor;
  }
  // There once, and gone: from then on it is to be found again.
  void ComeUpAndLose(const Listener& at, const std::optional<wire::Message>& said = {},
                     const std::optional<wire::Message>& heard = {}) {
    std::unique_ptr<MessageStream> acceptor = ComeUp(at);
    ASSERT_TRUE(acceptor && connection_->up());
    if (said) connection_->Send(*said);
    if (heard) acceptor->Send(*heard);
    std::vector<wire::Message> messages;  // read, else nothing that was said arrives
    for (int i = 0; i < 10; ++i) {
      acceptor->Poll(now_, &messages);
      Turn();
    }
    acceptor->Close(Status(Code::kPeer, "gone"));
    for (int i = 0; i < 1000 && connection_->up(); ++i) Turn();
    ASSERT_FALSE(connection_->up());
  }
  // How long the next attempts were kept up, and to whom they went.
  std::vector<std::pair<TimeNs, HostPort>> Attempts(size_t count) {
    std::vector<std::pair<TimeNs, HostPort>> out;
    TimeNs began = -1;
    HostPort to;
    for (int i = 0; out.size() < count && i < 100'000; ++i) {
      const HostPort name = connection_->name();
      Turn();
      if (began < 0 && connection_->fd() >= 0) {
        began = now_;
        to = name;
      } else if (began >= 0 && connection_->fd() < 0) {
        out.emplace_back(now_ - std::exchange(began, -1), to);
      }
    }
    return out;
  }

  std::vector<std::string> warnings_;
  const Logger log_{LogLevel::kWarn, "test", [] { return int64_t{0}; },
                    [this](LogLevel, const std::string& line) { warnings_.push_back(line); }};
  std::optional<ControlConnection> connection_;
  std::optional<HostPort> moved_to_;  // where all names lead by now
  std::optional<wire::Redirect> greeting_;
  int renewed_ = 0, went_down_ = 0;
  TimeNs now_ = 0;
};

TEST_F(ControlConnectionTest, WhatIsSentIntoNothingIsSentAnewWithinTheTimeout) {
  const Listener there(false), nowhere(true);
  Open({there.name()});
  ASSERT_NO_FATAL_FAILURE(ComeUpAndLose(there));
  moved_to_ = nowhere.name();
  const auto attempts = Attempts(6);
  ASSERT_EQ(attempts.size(), 6u);
  for (const auto& [lasted, to] : attempts) EXPECT_LE(lasted, kTimeout + 2 * kMillisecond);
  EXPECT_GE(attempts.back().first, kTimeout / 2);  // and not in haste
}

TEST_F(ControlConnectionTest, NamesAreTriedInTurn) {
  const Listener own(false), other(true), nowhere(true);
  Open({own.name(), other.name()});
  ASSERT_NO_FATAL_FAILURE(ComeUpAndLose(own));
  moved_to_ = nowhere.name();
  const auto attempts = Attempts(4);
  ASSERT_EQ(attempts.size(), 4u);
  for (size_t i = 0; i < attempts.size(); ++i)
    EXPECT_EQ(attempts[i].second.port, (i % 2 == 0 ? own : other).name().port) << i;
  // One that is gone makes way for the next before anybody is missed.
  EXPECT_LE(attempts.front().first, kTimeout / 8 + 2 * kMillisecond);
}

TEST_F(ControlConnectionTest, ThatItIsGoneIsAWarningUnlessTheyHaveParted) {
  const Listener there(false);
  Open({there.name()});
  ASSERT_NO_FATAL_FAILURE(ComeUpAndLose(there));
  EXPECT_EQ(warnings_.size(), 1u);
  Open({there.name()});
  ASSERT_NO_FATAL_FAILURE(ComeUpAndLose(there, wire::Goodbye{Code::kLeft, "left as planned"}));
  EXPECT_EQ(warnings_.size(), 1u) << warnings_.back();
  for (const wire::Message& last_word : {wire::Message(wire::Evicted{}),
                                         wire::Message(wire::Rejected{Code::kConfig, "", "no"})}) {
    Open({there.name()});
    ASSERT_NO_FATAL_FAILURE(ComeUpAndLose(there, {}, last_word));
    EXPECT_EQ(warnings_.size(), 1u) << warnings_.back();
  }
  Open({there.name()});
  ASSERT_NO_FATAL_FAILURE(ComeUpAndLose(there, {}, wire::Welcome{}));
  EXPECT_EQ(warnings_.size(), 2u);
}

// A coordinator that dies in the middle of a handshake looks to its dialler like one that closes.
TEST_F(ControlConnectionTest, OneThatDiesOnOurProofIsDialledAgain) {
  for (const bool proof_read : {false, true}) {
    const Listener there(false);
    Open({there.name()});
    for (int death = 0; death < 2; ++death) {
      std::unique_ptr<MessageStream> dying = AwaitDial(there, "");
      ASSERT_TRUE(dying);
      ASSERT_NO_FATAL_FAILURE(AwaitProof(&*dying));
      std::byte proof[64];
      const ssize_t read = proof_read ? recv(dying->fd(), proof, sizeof proof, 0) : 32;
      EXPECT_EQ(read, 32);
      dying.reset();
      for (int i = 0; i < 1000 && connection_->fd() >= 0; ++i) Turn();
      ASSERT_LT(connection_->fd(), 0);
      EXPECT_FALSE(connection_->hopeless()) << connection_->last_error().ToString();
    }
    ASSERT_NO_FATAL_FAILURE(ComeUpAndLose(there));
  }
}

// Hang-ups in a row at that place, for some seconds, are an opinion about our token. A few at once
// may be all that a coordinator without descriptors can say.
TEST_F(ControlConnectionTest, AnotherTokenIsSaidSoon) {
  for (const auto& [token, said] : {std::pair("one", "the tokens differ, or the peer has none"),
                                    std::pair("", "no token: set FTAR_TOKEN or FTAR_TOKEN_FILE")}) {
    const Listener there(false);
    Open({there.name()}, token);
    const TimeNs begun = now_;
    int dials = 0;
    for (; !connection_->hopeless() && now_ - begun < 10 * kSecond; ++dials) {
      std::unique_ptr<MessageStream> other = AwaitDial(there, "other");
      ASSERT_TRUE(other);
      std::vector<wire::Message> messages;
      for (int i = 0; i < 1000 && connection_->fd() >= 0; ++i) {
        other->Poll(now_, &messages);
        Turn();
      }
    }
    EXPECT_TRUE(connection_->hopeless());
    EXPECT_GT(dials, 3);
    EXPECT_GE(now_ - begun, 2 * kSecond);
    EXPECT_EQ(connection_->last_error().code(), Code::kAuth);
    EXPECT_NE(connection_->last_error().text().find(said), std::string::npos)
        << connection_->last_error().text();
  }
}

TEST_F(ControlConnectionTest, WhoListensAndIsNoCoordinatorIsToldFromNobody) {
  const Listener mute(false), nowhere(true);
  for (const auto& [at, said] :
       {std::pair(&mute, "not answer as a coordinator"), std::pair(&nowhere, "no answer")}) {
    Open({at->name()});
    for (int i = 0; i < 20; ++i) Turn();
    EXPECT_TRUE(connection_->last_error().ok());
    EXPECT_NE(connection_->trouble().find(said), std::string::npos) << connection_->trouble();
    for (int i = 0; i < 6000 && connection_->last_error().ok(); ++i) Turn();
    EXPECT_FALSE(connection_->last_error().ok());
    EXPECT_NE(connection_->trouble().find(said), std::string::npos) << connection_->trouble();
  }
}

// ---- a connection that was forgotten on its way

class SpareTest : public ControlConnectionTest {
 protected:
  static constexpr TimeNs kSpareAfter = kTimeout * 2 / 5;

  void SetUp() override { ComeUpAt({there_.name()}); }
  void OpenTwo(const Listener& other) { ComeUpAt({there_.name(), other.name()}); }
  void ComeUpAt(const std::vector<HostPort>& names) {
    Open(names);
    first_ = ComeUp(there_);
    ASSERT_TRUE(first_ && connection_->up());
    ASSERT_FALSE(Closed(first_.get(), now_));  // it reads the end of the handshake
    Turn();
    heard_ = now_;
  }
  // Proves to be there. Dialled within the silence that is allowed, or nobody.
  std::unique_ptr<MessageStream> AwaitSpare() {
    for (; now_ - heard_ < kTimeout - kMillisecond; Turn()) {
      if (UniqueFd fd = there_.Accept(); fd.valid()) return NewAcceptor(std::move(fd), "");
    }
    return nullptr;
  }
  void Answer(MessageStream* spare) {
    if (greeting_) spare->Send(*greeting_);
    for (int i = 0; i < 50 && renewed_ == 0; ++i) {
      spare->Poll(now_, &heard_on_spare_);
      Turn();
    }
  }

  Listener there_{false};
  std::unique_ptr<MessageStream> first_;
  std::vector<wire::Message> heard_on_spare_;
  TimeNs heard_ = 0;
};

TEST_F(SpareTest, TakesTheSilentOnesPlaceWhenItsOtherEndIsThere) {
  std::unique_ptr<MessageStream> spare = AwaitSpare();
  ASSERT_TRUE(spare);
  EXPECT_GE(now_ - heard_, kSpareAfter - kMillisecond);
  Answer(&*spare);
  EXPECT_EQ(renewed_, 1);
  EXPECT_EQ(went_down_, 0);
  EXPECT_TRUE(heard_on_spare_.empty()) << "said before the other end was known to be there";
  connection_->Send(wire::Heartbeat{});
  for (int i = 0; i < 10; ++i) Turn();
  // Whoever saw it close before it has our word on the new one would take that for a death.
  EXPECT_FALSE(Closed(&*first_, now_));
  spare->Poll(now_, &heard_on_spare_);
  EXPECT_EQ(heard_on_spare_.size(), 1u);
  spare->Send(wire::CoordinatorBeat{});
  for (int i = 0; i < 10; ++i) Turn();
  EXPECT_TRUE(Closed(&*first_, now_));
  EXPECT_TRUE(connection_->up());
  EXPECT_EQ(warnings_.size(), 1u);
}

TEST_F(SpareTest, IsGivenUpWithoutAWordWhenTheOldOneSpeaksAgain) {
  std::unique_ptr<MessageStream> spare = AwaitSpare();
  ASSERT_TRUE(spare);
  first_->Send(wire::CoordinatorBeat{});
  for (int i = 0; i < 10; ++i) Turn();
  Answer(&*spare);
  EXPECT_EQ(renewed_, 0);
  EXPECT_TRUE(Closed(&*spare, now_));
  EXPECT_TRUE(heard_on_spare_.empty());
  EXPECT_TRUE(connection_->up());
  EXPECT_TRUE(warnings_.empty());
}

// TCP itself would try again after a second, and then after pauses that double.
TEST_F(SpareTest, IsDialledAnewWhileItsPacketsVanish) {
  there_.Fill();
  while (now_ - heard_ < kSpareAfter + kSpareAfter / 4) Turn();
  there_.Empty();
  EXPECT_TRUE(AwaitSpare());
}

TEST_F(SpareTest, IsDialledAnewWhenItFails) {
  std::vector<TimeNs> dialled;
  for (; connection_->up(); Turn()) {
    std::unique_ptr<MessageStream> spare = AwaitSpare();
    if (!spare) break;
    dialled.push_back(now_ - heard_);
    spare->Close(Status(Code::kLink, "reset"));
  }
  ASSERT_GE(dialled.size(), 2u);
  EXPECT_GE(dialled[1] - dialled[0], kSpareAfter / 2 - kMillisecond);
  for (int i = 0; i < 1000 && connection_->up(); ++i) Turn();
  EXPECT_FALSE(connection_->up()) << "silent for longer than allowed";
  EXPECT_EQ(renewed_, 0);
}

// Relays, of which the first stands still: its kernel takes connections in, and nobody answers.
TEST_F(SpareTest, OfSeveralNamesTheNextOneTakesThePlace) {
  const Listener other(false);
  ASSERT_NO_FATAL_FAILURE(OpenTwo(other));
  EXPECT_TRUE(AwaitSpare()) << "first where all its mates are";
  std::unique_ptr<MessageStream> spare = AwaitDial(other, "");
  ASSERT_TRUE(spare);
  EXPECT_LE(now_ - heard_, kSpareAfter + kTimeout / 8 + 5 * kMillisecond);
  Answer(&*spare);
  EXPECT_EQ(renewed_, 1);
  EXPECT_EQ(went_down_, 0);
  EXPECT_EQ(connection_->shown_address(), ShownAddress(other.name()));
  std::vector<wire::Message> last_words;
  first_->Poll(now_, &last_words);
  ASSERT_EQ(last_words.size(), 1u) << "it may hear, and be unheard";
  EXPECT_TRUE(std::holds_alternative<wire::Redirect>(last_words[0]));
  spare->Close(Status(Code::kPeer, "gone"));
  EXPECT_TRUE(AwaitDial(there_, "")) << "after a loss the first one again";
}

TEST_F(SpareTest, OfSeveralNamesAllAreTriedInTurn) {
  const Listener other(false);
  ASSERT_NO_FATAL_FAILURE(OpenTwo(other));
  std::string dialled;
  for (; now_ - heard_ < kTimeout - kMillisecond; Turn()) {
    if (there_.Accept().valid()) dialled += "t";
    if (other.Accept().valid()) dialled += "o";
  }
  EXPECT_EQ(dialled.substr(0, 3), "tot");
  EXPECT_EQ(renewed_, 0);
}

class HostedSpareTest : public SpareTest {
 protected:
  void SetUp() override {
    greeting_.emplace();
    greeting_->host = {7, 1};
    greeting_->here = true;
    SpareTest::SetUp();
  }
};

TEST_F(HostedSpareTest, WaitsForTheGreetingOfTheSameHost) {
  std::unique_ptr<MessageStream> spare = AwaitSpare();
  ASSERT_TRUE(spare);
  Answer(&*spare);
  EXPECT_EQ(renewed_, 1);
}

// Meeting points: who coordinates need not be at any of them.
TEST_F(HostedSpareTest, IsDialledWhereTheHostIsHoweverOften) {
  const Listener elsewhere(false);
  Open({there_.name(), elsewhere.name()});
  first_ = ComeUp(there_);
  ASSERT_TRUE(first_);
  first_->Send(*greeting_);
  while (!connection_->up()) {
    ASSERT_FALSE(Closed(first_.get(), now_));
    Turn();
  }
  heard_ = now_;
  size_t dialled = 0;
  while (now_ - heard_ < kTimeout - kMillisecond) {
    std::unique_ptr<MessageStream> spare = AwaitSpare();
    if (!spare) break;
    spare->Close(Status(Code::kLink, "reset"));
    ++dialled;
  }
  EXPECT_GE(dialled, 3u);
  EXPECT_FALSE(elsewhere.Accept().valid());
}

TEST_F(HostedSpareTest, AnotherHostIsNotTakenForIt) {
  std::unique_ptr<MessageStream> spare = AwaitSpare();
  ASSERT_TRUE(spare);
  greeting_->host = {8, 1};
  Answer(&*spare);
  EXPECT_EQ(renewed_, 0);
  EXPECT_TRUE(Closed(&*spare, now_));
}

}  // namespace
}  // namespace ftar::coordinator
