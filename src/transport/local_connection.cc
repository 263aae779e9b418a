#include "transport/local_connection.h"

#include <sys/socket.h>
#include <algorithm>

#include <cerrno>
#include <cstring>

namespace ftar::transport {

LocalExchange::Connection::Connection(const DeviceConfig& config, AuthPurpose purpose,
                                      bool is_dialler, UniqueFd socket)
    : fd(std::move(socket)),
      dialler(is_dialler),
      auth_(is_dialler ? Authenticator::Role::kDialler : Authenticator::Role::kAcceptor, purpose,
            config.token, {config.job, config.self}, config.wire_version) {}

void LocalExchange::Connection::OnReady() {
  if (state == State::kAuth) RunAuth();
  if (state == State::kMessage) ReadMessage();
}

void LocalExchange::Connection::Fail(Status why) {
  if (state == State::kFailed) return;
  state = State::kFailed;
  status = std::move(why);
}

void LocalExchange::Connection::Hangup(int error) {
  rejected_after_proof = state == State::kAuth && dialler && auth_.proof_sent();
  if (rejected_after_proof) {
    return Fail(
        {Code::kAuth, "the peer hung up on our proof: it has another token, or died just then"});
  }
  Fail({Code::kLink, error == 0 ? "the peer closed the local connection"
                                : Status::System("local connection", error).text()});
}

bool LocalExchange::Connection::SendBytes(const std::vector<std::byte>& bytes) {
  if (bytes.empty()) return true;
  // A fresh local socket takes a few hundred bytes at once or is of no use.
  const ssize_t sent = ::send(fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  if (sent == static_cast<ssize_t>(bytes.size())) return true;
  Hangup(sent < 0 ? errno : EAGAIN);
  return false;
}

// Looks first and takes only what belongs to the exchange: descriptors that come with the bytes
// behind it would be lost.
void LocalExchange::Connection::RunAuth() {
  while (state == State::kAuth) {
    if (!SendBytes(auth_.TakeOutput())) return;
    std::byte buffer[512];
    const ssize_t seen = ::recv(fd.get(), buffer, sizeof buffer, MSG_PEEK);
    if (seen < 0 && errno == EINTR) continue;
    if (seen < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
    if (seen <= 0) return Hangup(seen == 0 ? 0 : errno);
    const size_t taken = auth_.Feed({buffer, static_cast<size_t>(seen)});
    if (taken > 0 && ::recv(fd.get(), buffer, taken, 0) != static_cast<ssize_t>(taken))
      return Hangup(EIO);
    if (!SendBytes(auth_.TakeOutput())) return;
    if (auth_.state() == Authenticator::State::kFailed) {
      final_failure = true;
      return Fail(auth_.status());
    }
    if (auth_.state() != Authenticator::State::kDone) continue;
    if (dialler && auth_.peer().member != peer) {
      return Fail({Code::kPeer, "member " + ToString(auth_.peer().member) +
                                    " answers at the address of " + ToString(peer)});
    }
    peer = auth_.peer().member;
    state = State::kMessage;
    if (dialler && !SendMessage(own, {})) return Hangup(errno);
    own = Message{};
  }
}

void LocalExchange::Connection::ReadMessage() {
  while (state == State::kMessage) {
    std::byte buffer[sizeof(Header) + kMessageBytesMax];
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * (kMessageFdsMax + 1))];
    iovec iov{buffer, sizeof buffer};
    msghdr message{};
    message.msg_iov = &iov;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    const ssize_t got = ::recvmsg(fd.get(), &message, MSG_CMSG_CLOEXEC);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
    if (got <= 0) return Hangup(got == 0 ? 0 : errno);
    for (cmsghdr* c = CMSG_FIRSTHDR(&message); c != nullptr; c = CMSG_NXTHDR(&message, c)) {
      if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
      const size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
      for (size_t i = 0; i < count; ++i) {
        int received;
        std::memcpy(&received, CMSG_DATA(c) + i * sizeof(int), sizeof received);
        theirs.fds.emplace_back(received);
      }
    }
    if ((message.msg_flags & MSG_CTRUNC) != 0 || theirs.fds.size() > kMessageFdsMax) {
      return Fail(
          {Code::kSystem, "descriptors of the peer were lost: this process has too many open"});
    }
    input_.insert(input_.end(), buffer, buffer + got);
    if (TakeMessage()) return;
  }
}

// True when the message is whole, or wrong.
bool LocalExchange::Connection::TakeMessage() {
  Header header;
  if (input_.size() < sizeof header) return false;
  std::memcpy(&header, input_.data(), sizeof header);
  if (header.magic != Header::kMagic || header.bytes > kMessageBytesMax) {
    Fail({Code::kPeer, "the peer's local message is malformed"});
    return true;
  }
  if (input_.size() < sizeof header + header.bytes) return false;
  if (input_.size() > sizeof header + header.bytes || header.fds != theirs.fds.size()) {
    Fail({Code::kPeer, "the peer's local message is malformed"});
    return true;
  }
  theirs.bytes.assign(input_.begin() + sizeof header, input_.end());
  if (header.refused != 0) {
    std::string text(reinterpret_cast<const char*>(theirs.bytes.data()), theirs.bytes.size());
    for (char& c : text) c = c < 0x20 || c > 0x7e ? '?' : c;
    final_failure = true;
    Fail({Code::kPeer, "the peer refuses: " + text});
    return true;
  }
  state = dialler ? State::kDone : State::kOffered;
  return true;
}

void LocalExchange::Connection::Answer(Expected<Message> answer) {
  if (!answer.ok()) {
    SendMessage(Message{}, answer.status());
    return Fail(answer.status());
  }
  answered = true;
  if (!SendMessage(*answer, {})) return Hangup(errno);
  state = State::kDone;
}

bool LocalExchange::Connection::SendMessage(const Message& message, const Status& refusal) {
  Header header;
  std::vector<std::byte> bytes = message.bytes;
  if (!refusal.ok()) {
    header.refused = 1;
    const std::string text = refusal.text().substr(0, 200);
    bytes.resize(text.size());
    std::memcpy(bytes.data(), text.data(), text.size());
  }
  header.bytes = static_cast<uint32_t>(bytes.size());
  header.fds = static_cast<uint16_t>(message.fds.size());
  iovec iov[2] = {{&header, sizeof header}, {bytes.data(), bytes.size()}};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * kMessageFdsMax)] = {};
  msghdr out{};
  out.msg_iov = iov;
  out.msg_iovlen = 2;
  if (!message.fds.empty()) {
    out.msg_control = control;
    out.msg_controllen = CMSG_SPACE(sizeof(int) * message.fds.size());
    cmsghdr* c = CMSG_FIRSTHDR(&out);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(int) * message.fds.size());
    int passed[kMessageFdsMax] = {};
    const size_t count = std::min<size_t>(message.fds.size(), kMessageFdsMax);
    for (size_t i = 0; i < count; ++i) passed[i] = message.fds[i].get();
    std::memcpy(CMSG_DATA(c), passed, count * sizeof(int));
  }
  return ::sendmsg(fd.get(), &out, MSG_NOSIGNAL) ==
         static_cast<ssize_t>(sizeof header + bytes.size());
}

}  // namespace ftar::transport
