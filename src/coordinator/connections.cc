#include "coordinator/connections.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "coordinator/clock.h"
#include "transport/tcp/socket.h"
#include "wire/codec.h"

namespace ftar::coordinator {
namespace {

using State = MessageStream::State;

// epoll's data: listeners and wake-ups are told from connections by the top bits.
constexpr uint64_t kListenerMark = uint64_t{1} << 63;
constexpr uint64_t kWakeMark = uint64_t{1} << 62;
constexpr TimeNs kLingerNs = 1 * kSecond;     // for last messages to somebody who is turned away
constexpr TimeNs kWarningsNs = 60 * kSecond;  // between two of a kind, whoever knocks
constexpr TimeNs kAcceptAgainNs = 100 * kMillisecond;
constexpr TimeNs kIdleNs = 1 * kSecond;
constexpr size_t kDescriptorsLeft = 4;

bool SomebodyWaits(int listener) {
  pollfd look{listener, POLLIN, 0};
  return poll(&look, 1, 0) > 0;
}

}  // namespace

Connections::Connections(Settings settings, std::string name, User* user, const Logger* log)
    : settings_(std::move(settings)), name_(std::move(name)), user_(user), log_(log) {}

Connections::~Connections() = default;

Status Connections::ListenAt(const std::string& address) {
  Expected<transport::tcp::SocketAddress> parsed = transport::tcp::ParseAddress(address, true);
  if (!parsed.ok()) return parsed.status();
  if (parsed->wildcard() && !settings_.allow_wildcard) {
    return Status(Code::kConfig, "listen",
                  address + " is a wildcard address; name one, or set FTAR_ALLOW_WILDCARD=on");
  }
  if (settings_.token.empty() && !parsed->loopback()) {
    return Status(Code::kConfig, "token",
                  "without a token only loopback is served, not " + address +
                      "; give ftar-coordinator --token-file, or set FTAR_TOKEN or FTAR_TOKEN_FILE");
  }
  transport::UniqueFd fd(socket(parsed->family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.valid()) return Status::System("socket", errno);
  const int one = 1;
  // A restart at the same address works at once, whatever connections of the last one still linger.
  setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  if (bind(fd.get(), parsed->raw(), parsed->bytes) != 0 || listen(fd.get(), 1024) != 0) {
    taken_ = errno == EADDRINUSE;
    return Status::System("cannot listen on " + address, errno);
  }
  socklen_t size = sizeof parsed->storage;
  getsockname(fd.get(), reinterpret_cast<sockaddr*>(&parsed->storage), &size);
  parsed->bytes = size;
  if (address_.empty()) address_ = parsed->Text();
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = kListenerMark | static_cast<uint64_t>(fd.get());
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd.get(), &event) != 0) {
    return Status::System("epoll_ctl", errno);
  }
  listeners_.push_back(std::move(fd));
  return Status::Ok();
}

Status Connections::Open() {
  epoll_.Reset(epoll_create1(EPOLL_CLOEXEC));
  wake_.Reset(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!epoll_.valid() || !wake_.valid()) return Status::System("epoll", errno);
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = kWakeMark;
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, wake_.get(), &event) != 0)
    return Status::System("epoll_ctl", errno);
  empty_since_ns_ = Now();
  const Expected<std::vector<std::string>> addresses = ResolveHost(settings_.host, settings_.port);
  if (!addresses.ok()) return Status(Code::kConfig, "listen", addresses.status().text());
  std::vector<Status> failures;
  for (const std::string& address : *addresses) {
    // A name may stand for IPv4 and IPv6; one port for both, so "any" takes the first only.
    if (settings_.port == 0 && !listeners_.empty()) break;
    Status status = ListenAt(address);
    // Two that each served some addresses of a name would both be found by it: two coordinators.
    if (taken_) return status;
    if (!status.ok()) failures.push_back(std::move(status));
  }
  if (listeners_.empty()) return failures.empty() ? Status::Ok() : failures.back();
  for (const Status& failure : failures) {
    // A host may name itself by a kind of address that it does not have.
    const LogLevel level = failure.code() == Code::kConfig ? LogLevel::kWarn : LogLevel::kInfo;
    log_->Log(level, name_,
              failure.text() + "; whoever dials " + settings_.host + " there finds nobody");
  }
  return Status::Ok();
}

Connections::Connection* Connections::Find(ConnId id) {
  const auto found = connections_.find(id);
  return found == connections_.end() ? nullptr : &found->second;
}

// ---- accepting

// Never the last descriptors: without one no record is written, and no name looked up.
transport::UniqueFd Connections::TakeNext(int listener, transport::tcp::SocketAddress* from) {
  const auto left = transport::Duplicates(wake_.get(), kDescriptorsLeft);
  if (left.empty()) return {};
  from->bytes = sizeof from->storage;
  return transport::UniqueFd(accept4(listener, reinterpret_cast<sockaddr*>(&from->storage),
                                     &from->bytes, SOCK_CLOEXEC | SOCK_NONBLOCK));
}

void Connections::Accept(int listener, TimeNs now) {
  for (int i = 0; i < 64; ++i) {
    transport::tcp::SocketAddress from;
    transport::UniqueFd fd = TakeNext(listener, &from);
    if (fd.valid()) {
      if (!AcceptOne(std::move(fd), from.Text(), now)) return;
      continue;
    }
    if (errno == EINTR || errno == ECONNABORTED) continue;
    const bool scarce = errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM;
    // It says so also where nobody waits: it takes a descriptor before it looks.
    if (const int error = errno; scarce && SomebodyWaits(listener)) PauseAccepting(error, now);
    return;
  }
}

// Whoever knocks stays in the listener's queue: who is hung up on takes that for an answer to its
// proof. One that says nothing makes room; an honest member needs a millisecond.
void Connections::PauseAccepting(int error, TimeNs now) {
  ListenFor(0);
  accept_again_ns_ = now + kAcceptAgainNs;
  if (!unauthenticated_.empty()) {
    const Connection* const oldest = Find(unauthenticated_.front());
    if (now - oldest->stream->created_ns() >= kIdleNs)
      Drop(oldest->id, now, "it says nothing, and no descriptors are left");
  }
  if (now < next_shortage_ns_) return;
  next_shortage_ns_ = now + kWarningsNs;
  std::string text = Status::System("cannot accept newcomers, who wait", error).text();
  rlimit limit{};
  if (error == EMFILE && getrlimit(RLIMIT_NOFILE, &limit) == 0)
    text += " (its limit is " + std::to_string(limit.rlim_cur) + ": raise ulimit -n)";
  log_->Warn(name_, text);
}

// EPOLLIN, or 0: they are left alone.
void Connections::ListenFor(uint32_t events) {
  for (const transport::UniqueFd& listener : listeners_) {
    epoll_event event{};
    event.events = events;
    event.data.u64 = kListenerMark | static_cast<uint64_t>(listener.get());
    epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, listener.get(), &event);
  }
}

void Connections::AcceptAgain() {
  accept_again_ns_ = kNever;
  ListenFor(EPOLLIN);
}

// False: no more can be watched; that one has to dial again.
bool Connections::AcceptOne(transport::UniqueFd fd, std::string from, TimeNs now) {
  if (unauthenticated_.size() >= settings_.unauthenticated_max) {
    Drop(unauthenticated_.front(), now, "too many unauthenticated connections");
  }
  if (connections_.size() >= settings_.connections_max) return true;
  const ConnId id = next_id_++;
  const int raw = fd.get();
  Connection& connection = connections_[id];
  connection.id = id;
  connection.from = std::move(from);
  connection.stream = std::make_unique<MessageStream>(
      std::move(fd), transport::Authenticator::Role::kAcceptor, settings_.token, MemberId{}, now);
  connection.waiting = unauthenticated_.insert(unauthenticated_.end(), id);
  connection.in_waiting = true;
  passing_.insert(id);
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = id;
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, raw, &event) != 0) {
    const int error = errno;
    Drop(id, now, "it cannot be watched");
    PauseAccepting(error, now);
    return false;
  }
  Serve(id, now);
  return true;
}

void Connections::Authenticated(Connection& connection) {
  if (!connection.in_waiting) return;
  connection.in_waiting = false;
  unauthenticated_.erase(connection.waiting);
}

void Connections::Drop(ConnId id, TimeNs now, const std::string& why) {
  const auto found = connections_.find(id);
  if (found == connections_.end()) return;
  Authenticated(found->second);
  const bool introduced = found->second.introduced;
  const membership::Disconnected event{id, why, found->second.stream->reset()};
  connections_.erase(found);
  passing_.erase(id);
  if (accept_again_ns_ != kNever) accept_again_ns_ = now;  // its descriptor is free
  if (!introduced) return;
  if (--introduced_ == 0) empty_since_ns_ = now;
  user_->OnGone(event, now);
}

// When it has been told the last.
void Connections::LetGo(Connection& connection, TimeNs now) {
  connection.closing = true;
  passing_.insert(connection.id);
  connection.close_by_ns = connection.stream->drained() ? now : now + kLingerNs;
}

// Asks for a wake-up when there is room to write, only while something waits.
void Connections::ArmWrite(Connection& connection) {
  const bool wanted = connection.stream->wants_write();
  if (wanted == connection.write_armed || connection.stream->fd() < 0) return;
  connection.write_armed = wanted;
  epoll_event event{};
  event.events = wanted ? EPOLLIN | EPOLLOUT : EPOLLIN;
  event.data.u64 = connection.id;
  epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, connection.stream->fd(), &event);
}

void Connections::Serve(ConnId id, TimeNs now) {
  Connection* connection = Find(id);
  if (connection == nullptr) return;
  messages_.clear();
  connection->stream->Poll(now, &messages_);
  if (connection->stream->state() == State::kOpen && connection->in_waiting) {
    Authenticated(*connection);
    user_->OnOpen(id, now);
  }
  std::vector<wire::Message> messages = std::move(messages_);
  for (wire::Message& message : messages) {
    connection = Find(id);
    if (connection == nullptr || connection->closing) return;
    OnMessage(*connection, std::move(message), now);
  }
  connection = Find(id);
  if (connection == nullptr) return;
  if (connection->stream->state() == State::kClosed) {
    const Status why = connection->stream->status();
    if (!connection->introduced && !connection->closing) TellRefused(connection->from, why, now);
    return Drop(id, now, why.text());
  }
  ArmWrite(*connection);
}

// Who cannot prove the token is a member that lacks it, or a stranger, who must not fill the log.
void Connections::TellRefused(const std::string& from, const Status& why, TimeNs now) {
  const std::string text = "a connection from " + from + " was refused: " + why.text();
  if (why.code() != Code::kAuth && why.code() != Code::kVersion) return log_->Info(name_, text);
  if (now < next_refusal_ns_) {
    ++refusals_untold_;
    return log_->Info(name_, text);
  }
  next_refusal_ns_ = now + kWarningsNs;
  const uint64_t more = std::exchange(refusals_untold_, 0);
  log_->Warn(name_, more == 0 ? text : text + "; " + std::to_string(more) + " more since the last");
}

void Connections::OnMessage(Connection& connection, wire::Message message, TimeNs now) {
  const ConnId id = connection.id;
  wire::Hello* const hello = std::get_if<wire::Hello>(&message);
  if (connection.introduced) {
    user_->OnMessage(id, std::move(message), now);
  } else if (hello != nullptr && hello->card.id == connection.stream->peer()) {
    connection.introduced = true;
    passing_.erase(id);
    ++introduced_;
    user_->OnHello(id, std::move(*hello), now);
  } else {
    Drop(id, now, "the first message is no Hello of its own");
  }
}

// ---- what the user says

void Connections::Send(ConnId id, const wire::Message& message) {
  Connection* const connection = Find(id);
  if (connection != nullptr) SendEncoded(*connection, wire::Encode(message));
}

void Connections::Send(const std::vector<membership::Outgoing>& messages) {
  for (const membership::Outgoing& outgoing : messages) {
    const std::vector<std::byte> bytes = wire::Encode(outgoing.message);
    for (const ConnId id : outgoing.to) {
      Connection* const connection = Find(id);
      if (connection != nullptr) SendEncoded(*connection, bytes);
    }
  }
}

void Connections::SendEncoded(Connection& connection, const std::vector<std::byte>& bytes) {
  connection.stream->SendEncoded(bytes);
  // Dropping it now would step the user's machine inside of its own Ready.
  if (connection.stream->state() == State::kClosed) broken_.push_back(connection.id);
  ArmWrite(connection);
}

void Connections::LetGo(ConnId id, TimeNs now) {
  Connection* const connection = Find(id);
  if (connection != nullptr) LetGo(*connection, now);
}

void Connections::LetGoAll(TimeNs now) {
  introduced_ = 0;
  empty_since_ns_ = now;
  for (auto& [id, connection] : connections_) {
    if (std::exchange(connection.introduced, false)) LetGo(connection, now);
  }
}

void Connections::CloseInForkedChild() {
  for (auto& [id, connection] : connections_) connection.stream->CloseInForkedChild();
  for (transport::UniqueFd& listener : listeners_) listener.Reset();
  for (transport::UniqueFd* fd : {&epoll_, &wake_}) fd->Reset();
}

// ---- the loop

// Who has proved the token says Hello at once. Who hangs there, or is gone without a word, would
// keep a descriptor for good.
TimeNs Connections::SpeaksBy(const Connection& connection) const {
  if (connection.introduced || connection.closing || connection.in_waiting) return kNever;
  return connection.stream->created_ns() + settings_.handshake_timeout_ns;
}

void Connections::Expire(TimeNs now) {
  while (!unauthenticated_.empty()) {
    const Connection* oldest = Find(unauthenticated_.front());
    if (now - oldest->stream->created_ns() < settings_.handshake_timeout_ns) break;
    Drop(unauthenticated_.front(), now, "handshake timeout");
  }
  std::vector<ConnId> gone = std::exchange(broken_, {});
  for (const ConnId id : passing_) {
    const Connection& connection = connections_.at(id);
    if (now >= SpeaksBy(connection)) gone.push_back(id);
    if (connection.closing && (connection.stream->drained() || now >= connection.close_by_ns)) {
      gone.push_back(id);
    }
  }
  for (const ConnId id : gone) Drop(id, now, "closed");
}

TimeNs Connections::NextDeadline() const {
  TimeNs first = std::min(DesertedAt(), accept_again_ns_);
  if (!unauthenticated_.empty()) {
    const auto oldest = connections_.find(unauthenticated_.front());
    first = std::min(first, oldest->second.stream->created_ns() + settings_.handshake_timeout_ns);
  }
  for (const ConnId id : passing_) {
    const Connection& connection = connections_.at(id);
    first = std::min(first, SpeaksBy(connection));
    if (connection.closing) first = std::min(first, connection.close_by_ns);
  }
  return broken_.empty() ? first : 0;
}

void Connections::Turn(TimeNs now) {
  if (now >= accept_again_ns_) AcceptAgain();
  const int count = epoll_wait(epoll_.get(), events_, 128, 0);
  for (int i = 0; i < count; ++i) {
    const uint64_t mark = events_[i].data.u64;
    if ((mark & kListenerMark) != 0) {
      Accept(static_cast<int>(mark & ~kListenerMark), now);
    } else if (mark == kWakeMark) {
      uint64_t times = 0;
      [[maybe_unused]] const ssize_t done = read(wake_.get(), &times, sizeof times);
    } else {
      Serve(mark, now);
    }
  }
  Expire(now);
}

void Connections::Wake() {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t done = write(wake_.get(), &one, sizeof one);
}

TimeNs Connections::DesertedAt() const {
  const bool counts = introduced_ == 0 && settings_.exit_when_empty_ns != kNever;
  return counts ? empty_since_ns_ + settings_.exit_when_empty_ns : kNever;
}

}  // namespace ftar::coordinator
