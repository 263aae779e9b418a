#include "coordinator/message_stream.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/crc32c.h"
#include "transport/tcp/socket.h"
#include "wire/codec.h"
#include "wire/frame.h"

namespace ftar::coordinator {
namespace {

constexpr size_t kReadBytes = 16 * 1024;     // on the stack of a user's thread
constexpr int kReadsMax = 64;                // bounds one Poll to 1 MiB
constexpr size_t kSentBytesMax = 64 * 1024;  // that are kept in front of what is to be sent
// Before each message. A view with a wrong byte in it may be well formed all the same, and TCP's
// own sum lets some through. Whoever believed a wrong size would take for its message whatever
// comes.
struct Prefix {
  uint32_t size = 0;
  uint32_t size_crc = 0;
  uint32_t message_crc = 0;
};

uint32_t CrcOf(uint32_t size) { return Crc32c(0, &size, sizeof size); }
uint32_t CrcOf(std::span<const std::byte> message) {
  return Crc32c(0, message.data(), message.size());
}

void AppendPrefixed(const std::vector<std::byte>& bytes, std::vector<std::byte>* out) {
  Prefix prefix;
  prefix.size = static_cast<uint32_t>(bytes.size());
  prefix.size_crc = CrcOf(prefix.size);
  prefix.message_crc = CrcOf(bytes);
  const size_t at = out->size();
  out->resize(at + sizeof prefix + bytes.size());
  std::memcpy(out->data() + at, &prefix, sizeof prefix);
  std::copy(bytes.begin(), bytes.end(), out->begin() + at + sizeof prefix);
}

}  // namespace

MessageStream::MessageStream(transport::UniqueFd fd, transport::Authenticator::Role role,
                             const std::string& token, MemberId self, TimeNs now)
    : fd_(std::move(fd)),
      authenticator_(role, transport::AuthPurpose::kControl, token, {"", self}, wire::kWireVersion),
      has_token_(!token.empty()),
      created_ns_(now),
      heard_ns_(now) {
  const int one = 1;
  // Messages are small and answered; waiting for more bytes to send along would only delay them.
  setsockopt(fd_.get(), IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
}

void MessageStream::Close(Status status) {
  if (state_ == State::kClosed) return;
  state_ = State::kClosed;
  status_ = std::move(status);
  fd_.Reset();
}

bool MessageStream::FinishConnecting() {
  pollfd entry{fd_.get(), POLLOUT, 0};
  if (poll(&entry, 1, 0) <= 0 || entry.revents == 0) return false;
  int error = 0;
  socklen_t size = sizeof error;
  getsockopt(fd_.get(), SOL_SOCKET, SO_ERROR, &error, &size);
  if (error != 0) {
    Close(Status(Code::kLink, Status::System("connect", error).text()));
    return false;
  }
  state_ = State::kHandshake;
  const std::vector<std::byte> greeting = authenticator_.TakeOutput();
  output_.insert(output_.end(), greeting.begin(), greeting.end());
  return true;
}

bool MessageStream::Poll(TimeNs now, std::vector<wire::Message>* out) {
  if (state_ == State::kClosed) return false;
  if (state_ == State::kConnecting && !FinishConnecting()) return state_ == State::kClosed;
  bool any = Write();
  if (state_ != State::kClosed) any |= Read(now, out);
  if (state_ != State::kClosed) any |= Write();
  if (state_ != State::kClosed && !broken_.ok()) Close(broken_);
  return any;
}

void MessageStream::Send(const wire::Message& message) {
  if (state_ != State::kClosed) SendEncoded(wire::Encode(message));
}

void MessageStream::SendEncoded(const std::vector<std::byte>& bytes) {
  if (state_ == State::kClosed || !broken_.ok()) return;
  std::vector<std::byte>& queue = state_ == State::kOpen ? output_ : waiting_;
  AppendPrefixed(bytes, &queue);
  if (queue.size() - (state_ == State::kOpen ? output_sent_ : 0) > kQueuedBytesMax) {
    return Close(Status(Code::kPeer, "the peer reads too slowly: too much is waiting for it"));
  }
  if (state_ == State::kOpen) Write();
}

bool MessageStream::Write() {
  bool any = false;
  while (output_sent_ < output_.size()) {
    const ssize_t sent = send(fd_.get(), output_.data() + output_sent_,
                              output_.size() - output_sent_, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) break;
    if (sent < 0) {
      // The peer has closed, and may have said why before that: it is read first, see Poll.
      reset_ = errno == ECONNRESET;
      broken_ = Status(Code::kLink, Status::System("send", errno).text());
      output_.clear();
      output_sent_ = 0;
      return true;
    }
    output_sent_ += static_cast<size_t>(sent);
    any = true;
  }
  if (output_sent_ == output_.size()) {
    output_.clear();
    output_sent_ = 0;
  } else if (output_sent_ > kSentBytesMax) {
    output_.erase(output_.begin(), output_.begin() + static_cast<ptrdiff_t>(output_sent_));
    output_sent_ = 0;
  }
  return any;
}

size_t MessageStream::FeedHandshake(std::span<const std::byte> bytes) {
  using AuthState = transport::Authenticator::State;
  const size_t taken = authenticator_.Feed(bytes);
  const std::vector<std::byte> reply = authenticator_.TakeOutput();
  output_.insert(output_.end(), reply.begin(), reply.end());
  if (authenticator_.state() == AuthState::kFailed) {
    Write();
    Close(authenticator_.status());
  } else if (authenticator_.state() == AuthState::kDone) {
    state_ = State::kOpen;
    output_.insert(output_.end(), waiting_.begin(), waiting_.end());
    waiting_.clear();
  }
  return taken;
}

bool MessageStream::Read(TimeNs now, std::vector<wire::Message>* out) {
  std::byte buffer[kReadBytes];
  bool any = false;
  for (int i = 0; i < kReadsMax && state_ != State::kClosed; ++i) {
    const ssize_t got = recv(fd_.get(), buffer, sizeof buffer, MSG_DONTWAIT);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) break;
    if (got <= 0) {
      reset_ = reset_ || (got < 0 && errno == ECONNRESET);
      const bool refused = state_ == State::kHandshake && authenticator_.proof_sent();
      const char* const why = has_token_
                                  ? "the tokens differ, or the peer has none"
                                  : "this process has no token: set FTAR_TOKEN or FTAR_TOKEN_FILE";
      Close(
          refused
              ? Status(Code::kAuth,
                       std::string("the peer closed the connection after seeing our proof: ") + why)
              : Status(Code::kLink, got == 0 ? "the peer closed the connection"
                                             : Status::System("recv", errno).text()));
      return true;
    }
    any = true;
    heard_ns_ = now;
    std::span<const std::byte> bytes(buffer, static_cast<size_t>(got));
    if (state_ == State::kHandshake) bytes = bytes.subspan(FeedHandshake(bytes));
    if (state_ == State::kClosed) return true;
    input_.insert(input_.end(), bytes.begin(), bytes.end());
    if (!TakeMessages(out)) return true;
    if (static_cast<size_t>(got) < sizeof buffer) break;
  }
  return any;
}

bool MessageStream::TakeMessages(std::vector<wire::Message>* out) {
  if (state_ != State::kOpen) return true;
  Prefix prefix;
  while (input_.size() - input_taken_ >= sizeof prefix) {
    std::memcpy(&prefix, input_.data() + input_taken_, sizeof prefix);
    const uint32_t size = prefix.size;
    if (CrcOf(size) != prefix.size_crc) {
      Close(Status(Code::kCorrupt, "the size of a message came damaged"));
      return false;
    }
    if (size > wire::kMessageBytesMax) {
      Close(Status(Code::kPeer, "a message of " + std::to_string(size) + " bytes is too long"));
      return false;
    }
    if (input_.size() - input_taken_ - sizeof prefix < size) break;
    const std::byte* const begin = input_.data() + input_taken_ + sizeof prefix;
    if (CrcOf({begin, size}) != prefix.message_crc) {
      Close(Status(Code::kCorrupt, "a message of " + std::to_string(size) + " bytes came damaged"));
      return false;
    }
    Expected<wire::Message> message = wire::Decode({begin, size});
    if (!message.ok()) {
      Close(message.status());
      return false;
    }
    out->push_back(std::move(message.value()));
    input_taken_ += sizeof prefix + size;
  }
  input_.erase(input_.begin(), input_.begin() + static_cast<ptrdiff_t>(input_taken_));
  input_taken_ = 0;
  return true;
}

Expected<transport::UniqueFd> StartConnecting(const std::string& address) {
  const Expected<transport::tcp::SocketAddress> parsed = transport::tcp::ParseAddress(address);
  if (!parsed.ok()) return parsed.status();
  transport::UniqueFd fd(socket(parsed->family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.valid()) return Status::System("socket", errno);
  if (connect(fd.get(), parsed->raw(), parsed->bytes) != 0 && errno != EINPROGRESS) {
    return Status::System("connect to " + address, errno);
  }
  return fd;
}

Expected<std::vector<std::string>> ResolveHost(const std::string& host, uint16_t port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  const int error = getaddrinfo(host.c_str(), nullptr, &hints, &list);
  if (error != 0) {
    return Status(Code::kCoordinator, "coordinator",
                  "coordinator host " + host + " is unknown: " + gai_strerror(error));
  }
  std::vector<std::string> out;
  for (const addrinfo* entry = list; entry != nullptr; entry = entry->ai_next) {
    transport::tcp::SocketAddress address;
    if (entry->ai_addrlen > sizeof address.storage) continue;
    std::memcpy(&address.storage, entry->ai_addr, entry->ai_addrlen);
    address.bytes = entry->ai_addrlen;
    address.set_port(port);
    // One that stands in the system's files twice is here twice.
    std::string text = address.Text();
    if (std::find(out.begin(), out.end(), text) == out.end()) out.push_back(std::move(text));
  }
  freeaddrinfo(list);
  return out;
}

}  // namespace ftar::coordinator
