// Goal: a control connection carries messages whatever the cuts, and whoever does not keep to the
// protocol is closed with the reason, having cost little.
#include "coordinator/message_stream.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <string>
#include <vector>

#include "base/crc32c.h"
#include "wire/codec.h"
#include "wire/frame.h"

namespace ftar::coordinator {
namespace {

using testing::HasSubstr;
using transport::Authenticator;
using transport::AuthPurpose;
using transport::UniqueFd;
using Role = Authenticator::Role;
using State = MessageStream::State;

const MemberId kDialler{1, 2}, kServer{3, 4};

std::pair<UniqueFd, UniqueFd> Connected() {
  int ends[2] = {-1, -1};
  EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
  return {UniqueFd(ends[0]), UniqueFd(ends[1])};
}

wire::Message Installed(Epoch epoch) { return wire::Installed{epoch}; }

Epoch EpochOf(const wire::Message& message) {
  const auto* installed = std::get_if<wire::Installed>(&message);
  return installed == nullptr ? 0 : installed->epoch;
}

// A peer that says exactly what the test writes; the handshake it can do honestly.
class RawPeer {
 public:
  explicit RawPeer(UniqueFd fd, uint16_t version = wire::kWireVersion,
                   AuthPurpose purpose = AuthPurpose::kControl)
      : fd_(std::move(fd)), auth_(Role::kDialler, purpose, "token", {"", kDialler}, version) {}

  void Say(const void* data, size_t bytes) {
    EXPECT_EQ(send(fd_.get(), data, bytes, MSG_NOSIGNAL), static_cast<ssize_t>(bytes));
  }
  void SayMessage(uint32_t size, const std::string& body) {
    SayPrefix(size, body.data(), body.size());
    if (!body.empty()) Say(body.data(), body.size());
  }
  void SayPrefix(uint32_t size, const void* body, size_t bytes) {
    const auto prefix = PrefixOf(size, body, bytes);
    Say(prefix.data(), sizeof prefix);
  }
  static std::array<uint32_t, 3> PrefixOf(uint32_t size, const void* body, size_t bytes) {
    return {size, Crc32c(0, &size, sizeof size), Crc32c(0, body, bytes)};
  }
  // Goes on with the handshake as far as it comes.
  void Shake(MessageStream* stream) {
    for (int round = 0; round < 10; ++round) {
      const std::vector<std::byte> out = auth_.TakeOutput();
      if (!out.empty()) Say(out.data(), out.size());
      stream->Poll(0, &got_);
      std::byte in[512];
      const ssize_t bytes = recv(fd_.get(), in, sizeof in, MSG_DONTWAIT);
      if (bytes > 0) auth_.Feed({in, static_cast<size_t>(bytes)});
    }
  }
  size_t HeardBytes() const {
    std::byte in[512];
    const ssize_t bytes = recv(fd_.get(), in, sizeof in, MSG_DONTWAIT);
    return bytes > 0 ? static_cast<size_t>(bytes) : 0;
  }
  int fd() const { return fd_.get(); }
  void Close() { fd_.Reset(); }

 private:
  UniqueFd fd_;
  Authenticator auth_;
  std::vector<wire::Message> got_;
};

class Stream : public testing::Test {
 protected:
  // One end is ours, with the token "token"; the other a RawPeer.
  void OpenRaw(uint16_t version = wire::kWireVersion, AuthPurpose purpose = AuthPurpose::kControl) {
    auto [mine, theirs] = Connected();
    stream_ =
        std::make_unique<MessageStream>(std::move(mine), Role::kAcceptor, "token", kServer, 0);
    peer_ = std::make_unique<RawPeer>(std::move(theirs), version, purpose);
  }
  void OpenShaken() {
    OpenRaw();
    peer_->Shake(stream_.get());
    ASSERT_EQ(stream_->state(), State::kOpen) << stream_->status().ToString();
  }
  void ExpectClosed(Code code, const std::string& why) {
    EXPECT_EQ(stream_->state(), State::kClosed);
    EXPECT_EQ(stream_->status().code(), code);
    EXPECT_THAT(stream_->status().text(), HasSubstr(why));
    EXPECT_LT(stream_->fd(), 0);
    EXPECT_TRUE(got_.empty());
    EXPECT_FALSE(stream_->Poll(0, &got_)) << "nothing more comes of it";
  }

  std::unique_ptr<MessageStream> stream_;
  std::unique_ptr<RawPeer> peer_;
  std::vector<wire::Message> got_;
};

TEST_F(Stream, CarriesMessagesBothWaysAlsoThoseFromBeforeTheHandshake) {
  auto [a, b] = Connected();
  MessageStream dialler(std::move(a), Role::kDialler, "token", kDialler, 5);
  MessageStream server(std::move(b), Role::kAcceptor, "token", kServer, 5);
  dialler.Send(Installed(7));
  std::vector<wire::Message> at_dialler, at_server;
  for (int round = 0; round < 10; ++round) {
    server.Poll(8, &at_server);
    dialler.Poll(9, &at_dialler);
  }
  ASSERT_EQ(server.state(), State::kOpen) << server.status().ToString();
  EXPECT_EQ(server.peer(), kDialler);
  EXPECT_EQ(dialler.peer(), kServer);
  ASSERT_EQ(at_server.size(), 1u);
  EXPECT_EQ(EpochOf(at_server[0]), 7u);
  for (Epoch epoch = 10; epoch < 300; ++epoch) server.Send(Installed(epoch));
  for (int round = 0; round < 10; ++round) {
    dialler.Poll(20, &at_dialler);
    server.Poll(20, &at_server);
  }
  ASSERT_EQ(at_dialler.size(), 290u);
  for (size_t i = 0; i < at_dialler.size(); ++i) EXPECT_EQ(EpochOf(at_dialler[i]), 10 + i);
  EXPECT_EQ(dialler.heard_ns(), 20);
  EXPECT_EQ(dialler.created_ns(), 5);
  EXPECT_TRUE(server.drained());
}

TEST_F(Stream, HalfAMessageIsNoMessage) {
  OpenShaken();
  const std::vector<std::byte> body = wire::Encode(Installed(9));
  const auto size = static_cast<uint32_t>(body.size());
  const auto prefix = RawPeer::PrefixOf(size, body.data(), size);
  std::vector<std::byte> bytes(sizeof prefix);
  std::memcpy(bytes.data(), prefix.data(), sizeof prefix);
  bytes.insert(bytes.end(), body.begin(), body.end());
  for (size_t i = 0; i < bytes.size(); ++i) {
    EXPECT_TRUE(got_.empty()) << i << " of " << bytes.size() << " bytes";
    peer_->Say(&bytes[i], 1);
    EXPECT_TRUE(stream_->Poll(0, &got_));
  }
  ASSERT_EQ(got_.size(), 1u);
  EXPECT_EQ(EpochOf(got_[0]), 9u);
  EXPECT_EQ(stream_->state(), State::kOpen);
}

TEST_F(Stream, AMessageThatEndsWithItsConnectionIsLost) {
  OpenShaken();
  peer_->SayMessage(100, "only the beginning");
  peer_->Close();
  while (stream_->Poll(0, &got_)) {
  }
  ExpectClosed(Code::kLink, "closed the connection");
}

TEST_F(Stream, AnOversizeMessageIsRefusedAtItsLength) {
  OpenShaken();
  peer_->SayMessage(wire::kMessageBytesMax + 1, "");
  stream_->Poll(0, &got_);
  ExpectClosed(Code::kPeer, "too long");
}

TEST_F(Stream, GarbageAfterTheHandshakeCloses) {
  for (const std::string& body : {std::string(), std::string(64, '\xff'), std::string(64, '\0')}) {
    OpenShaken();
    peer_->SayMessage(static_cast<uint32_t>(body.size()), body);
    stream_->Poll(0, &got_);
    ExpectClosed(Code::kPeer, "not well formed");
  }
}

// Nor waited for.
TEST_F(Stream, ASizeWithAWrongBitIsNotBelieved) {
  for (int bit = 0; bit < 32; ++bit) {
    auto prefix = RawPeer::PrefixOf(100, "", 0);
    prefix[0] ^= uint32_t{1} << bit;
    OpenShaken();
    peer_->Say(prefix.data(), sizeof prefix);
    stream_->Poll(0, &got_);
    ExpectClosed(Code::kCorrupt, "came damaged");
  }
}

TEST_F(Stream, AMessageWithAWrongByteIsNotBelieved) {
  wire::View view;
  view.epoch = view.era = 9;
  view.entries.resize(3);
  const std::vector<std::byte> body = wire::Encode(wire::Install{view, {}});
  const auto size = static_cast<uint32_t>(body.size());
  for (size_t at = 0; at < body.size(); ++at) {
    std::vector<std::byte> damaged = body;
    damaged[at] ^= std::byte{0x54};
    OpenShaken();
    peer_->SayPrefix(size, body.data(), body.size());
    peer_->Say(damaged.data(), damaged.size());
    stream_->Poll(0, &got_);
    EXPECT_TRUE(got_.empty());
    ExpectClosed(Code::kCorrupt, "came damaged");
  }
}

TEST_F(Stream, AStrangerLearnsNothingAndIsClosed) {
  OpenRaw();
  const std::string noise = "GET / HTTP/1.1\r\nHost: here\r\nUser-Agent: somebody\r\n\r\n";
  peer_->Say(noise.data(), noise.size());
  stream_->Poll(0, &got_);
  ExpectClosed(Code::kPeer, "does not speak");
  EXPECT_EQ(peer_->HeardBytes(), 0u);
}

TEST_F(Stream, AMessageBeforeTheProofIsNotRead) {
  OpenRaw();
  const std::vector<std::byte> body = wire::Encode(Installed(9));
  peer_->SayMessage(static_cast<uint32_t>(body.size()),
                    std::string(reinterpret_cast<const char*>(body.data()), body.size()));
  stream_->Poll(0, &got_);
  EXPECT_TRUE(got_.empty());
  EXPECT_NE(stream_->state(), State::kOpen);
}

TEST_F(Stream, AnotherWireVersionIsNamed) {
  OpenRaw(wire::kWireVersion + 1);
  peer_->Shake(stream_.get());
  ExpectClosed(Code::kVersion, "wire version " + std::to_string(wire::kWireVersion + 1));
}

TEST_F(Stream, ALinkIsNoControlConnection) {
  OpenRaw(wire::kWireVersion, AuthPurpose::kLink);
  peer_->Shake(stream_.get());
  ExpectClosed(Code::kPeer, "reached a");
}

TEST_F(Stream, DifferentTokensAreSaidOnBothSides) {
  auto [a, b] = Connected();
  MessageStream dialler(std::move(a), Role::kDialler, "one", kDialler, 0);
  MessageStream server(std::move(b), Role::kAcceptor, "two", kServer, 0);
  for (int round = 0; round < 10; ++round) {
    server.Poll(0, &got_);
    dialler.Poll(0, &got_);
  }
  EXPECT_EQ(server.status().code(), Code::kAuth) << server.status().ToString();
  EXPECT_EQ(dialler.status().code(), Code::kAuth) << dialler.status().ToString();
}

TEST_F(Stream, WhoDoesNotReadIsClosedBeforeItCostsMuch) {
  OpenShaken();
  wire::Rejected large;
  large.text.assign(1u << 20, 'x');
  size_t sent = 0;
  while (stream_->state() == State::kOpen && sent < 2 * kQueuedBytesMax) {
    stream_->Send(large);
    sent += large.text.size();
  }
  ExpectClosed(Code::kPeer, "reads too slowly");
  EXPECT_GE(sent, kQueuedBytesMax);
  stream_->Send(large);  // dropped
}

TEST_F(Stream, ClosingKeepsTheFirstReason) {
  OpenShaken();
  stream_->Close(Status(Code::kAborted, "the first"));
  stream_->Close(Status(Code::kLink, "the second"));
  ExpectClosed(Code::kAborted, "the first");
}

}  // namespace
}  // namespace ftar::coordinator
