#include "transport/tcp/handshake.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace ftar::transport::tcp {
namespace {

constexpr size_t kAddressBytesMax = 64;
constexpr size_t kReadBytes = 512;

// Linux may join a socket to itself when it dials a port of the ephemeral range on its own host
// that nobody listens on.
bool ConnectedToItself(int fd) {
  SocketAddress local, remote;
  local.bytes = remote.bytes = sizeof local.storage;
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&local.storage), &local.bytes) != 0)
    return false;
  if (::getpeername(fd, reinterpret_cast<sockaddr*>(&remote.storage), &remote.bytes) != 0)
    return false;
  return local.Text() == remote.Text();
}

}  // namespace

Handshake::Handshake(const DeviceConfig& config, UniqueFd fd, MemberId peer, LinkHello hello,
                     std::string own_address)
    : dialler_(true),
      state_(State::kConnecting),
      fd_(std::move(fd)),
      auth_(Authenticator::Role::kDialler, AuthPurpose::kLink, config.token,
            {config.job, config.self}, config.wire_version),
      peer_(peer),
      own_hello_(hello),
      own_address_(own_address.substr(0, kAddressBytesMax)) {}

Handshake::Handshake(const DeviceConfig& config, UniqueFd fd)
    : dialler_(false),
      state_(State::kAuth),
      fd_(std::move(fd)),
      auth_(Authenticator::Role::kAcceptor, AuthPurpose::kLink, config.token,
            {config.job, config.self}, config.wire_version) {}

void Handshake::OnReady() {
  if (state_ == State::kConnecting && !FinishConnect()) return;
  Digest();
  Flush();
  if (state_ == State::kAuth || state_ == State::kHello) ReadMore();
  Flush();
}

bool Handshake::FinishConnect() {
  int error = 0;
  socklen_t bytes = sizeof error;
  ::getsockopt(fd_.get(), SOL_SOCKET, SO_ERROR, &error, &bytes);
  SocketAddress remote;
  remote.bytes = sizeof remote.storage;
  if (error == 0 &&
      ::getpeername(fd_.get(), reinterpret_cast<sockaddr*>(&remote.storage), &remote.bytes) != 0) {
    if (errno == ENOTCONN) return false;  // still connecting
    error = errno;
  }
  if (error == 0 && ConnectedToItself(fd_.get())) error = ECONNREFUSED;
  if (error != 0) {
    refused_ = error == ECONNREFUSED;
    Fail({Code::kLink, Status::System("connecting", error).text()});
    return false;
  }
  state_ = State::kAuth;
  return true;
}

void Handshake::ReadMore() {
  while (state_ == State::kAuth || state_ == State::kHello) {
    std::byte buffer[kReadBytes];
    const ssize_t got = ::recv(fd_.get(), buffer, sizeof buffer, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
    if (got <= 0) {
      rejected_after_proof_ = state_ == State::kAuth && dialler_ && auth_.proof_sent();
      if (rejected_after_proof_) {
        return Fail({Code::kAuth,
                     "the peer hung up on our proof: it has another token, or died just then"});
      }
      return Fail({Code::kLink, got == 0 ? "the peer closed the connection during the handshake"
                                         : Status::System("handshake", errno).text()});
    }
    input_.insert(input_.end(), buffer, buffer + got);
    Digest();
    Flush();
  }
}

// Feeds what has been read to whoever is next.
void Handshake::Digest() {
  if (state_ == State::kAuth) {
    const size_t taken = auth_.Feed(input_);
    input_.erase(input_.begin(), input_.begin() + static_cast<ptrdiff_t>(taken));
    const auto output = auth_.TakeOutput();
    output_.insert(output_.end(), output.begin(), output.end());
    if (auth_.state() == Authenticator::State::kFailed) {
      Flush();  // the greeting tells a peer of another version why
      final_failure_ = true;
      return Fail(auth_.status());
    }
    if (auth_.state() == Authenticator::State::kDone) OnAuthenticated();
  }
  if (state_ == State::kHello) OnHello();
}

void Handshake::OnAuthenticated() {
  if (dialler_ && auth_.peer().member != peer_) {
    return Fail({Code::kPeer, "member " + ToString(auth_.peer().member) +
                                  " answers at the address of " + ToString(peer_)});
  }
  peer_ = auth_.peer().member;
  state_ = State::kHello;
  if (!dialler_) return;
  own_hello_.address_bytes = static_cast<uint16_t>(own_address_.size());
  const auto* raw = reinterpret_cast<const std::byte*>(&own_hello_);
  output_.insert(output_.end(), raw, raw + sizeof own_hello_);
  const auto* address = reinterpret_cast<const std::byte*>(own_address_.data());
  output_.insert(output_.end(), address, address + own_address_.size());
}

void Handshake::OnHello() {
  if (input_.size() < sizeof(LinkHello)) return;
  std::memcpy(&peer_hello_, input_.data(), sizeof peer_hello_);
  if (peer_hello_.magic != LinkHello::kMagic || peer_hello_.address_bytes > kAddressBytesMax ||
      peer_hello_.stream >= kStreamsMax || peer_hello_.streams > kStreamsMax ||
      peer_hello_.streams == 0 || peer_hello_.stream >= peer_hello_.streams) {
    return Fail({Code::kPeer, "the peer's link greeting is malformed"});
  }
  const size_t bytes = sizeof(LinkHello) + peer_hello_.address_bytes;
  if (input_.size() < bytes) return;
  peer_address_.assign(reinterpret_cast<const char*>(input_.data()) + sizeof(LinkHello),
                       peer_hello_.address_bytes);
  input_.erase(input_.begin(), input_.begin() + static_cast<ptrdiff_t>(bytes));
  state_ = dialler_ ? State::kDone : State::kGreeted;
}

void Handshake::Answer(Verdict verdict, uint64_t received) {
  own_hello_ = peer_hello_;
  own_hello_.verdict = static_cast<uint16_t>(verdict);
  own_hello_.received = received;
  own_hello_.address_bytes = 0;
  const auto* raw = reinterpret_cast<const std::byte*>(&own_hello_);
  output_.insert(output_.end(), raw, raw + sizeof own_hello_);
  Flush();
  if (state_ == State::kFailed) return;
  // A fresh socket takes 32 bytes; one that does not is of no use.
  if (!output_.empty())
    return Fail({Code::kLink, "the peer's socket is full during the handshake"});
  if (verdict != Verdict::kWelcome) return Fail({Code::kPeer, "refused"});
  state_ = State::kDone;
}

void Handshake::Flush() {
  while (!output_.empty() && fd_.valid() && state_ != State::kConnecting) {
    const ssize_t sent = ::send(fd_.get(), output_.data(), output_.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
    if (sent < 0) {
      if (state_ == State::kDone) return;  // the stream will find out
      rejected_after_proof_ = state_ == State::kAuth && dialler_ && auth_.proof_sent();
      return Fail({rejected_after_proof_ ? Code::kAuth : Code::kLink,
                   Status::System("handshake", errno).text()});
    }
    output_.erase(output_.begin(), output_.begin() + sent);
  }
}

void Handshake::Fail(Status status) {
  if (state_ == State::kFailed) return;
  state_ = State::kFailed;
  status_ = std::move(status);
  output_.clear();
}

}  // namespace ftar::transport::tcp
