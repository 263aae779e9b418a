#include "coordinator/server.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>

#include "coordinator/state_file.h"
#include "transport/tcp/socket.h"
#include "wire/codec.h"

namespace ftar::coordinator {
namespace {

using membership::ConnId;
using State = MessageStream::State;

// epoll's data: listeners and the stop descriptor are told from connections by the top bits.
constexpr uint64_t kListenerMark = uint64_t{1} << 63;
constexpr uint64_t kStopMark = uint64_t{1} << 62;
constexpr int kRecordAgainMs = 100;
constexpr TimeNs kLingerNs = 1 * kSecond;  // for last messages to somebody who is turned away

TimeNs MonotonicNow() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<TimeNs>(now.tv_sec) * kSecond + now.tv_nsec;
}

}  // namespace

Server::Server(const ServerSettings& settings, Logger log)
    : settings_(settings), log_(std::move(log)) {}

Server::~Server() = default;

Expected<std::unique_ptr<Server>> Server::Open(const ServerSettings& settings, Logger log) {
  std::unique_ptr<Server> server(new Server(settings, std::move(log)));
  FTAR_RETURN_IF_ERROR(server->Bind());
  FTAR_RETURN_IF_ERROR(server->Restore());
  return server;
}

// Behind Bind: whoever served the address before writes no more by then.
Status Server::Restore() {
  if (settings_.hosted) return Status::Ok();
  membership::CoordinatorConfig config = settings_.machine;
  membership::CoordinatorRecord record;
  if (!settings_.state.empty()) {
    Expected<membership::CoordinatorRecord> read = ReadState(settings_.state, config.job);
    if (!read.ok()) return read.status();
    record = std::move(*read);
    if (config.job.empty()) config.job = record.job;
    // That it cannot be written is better known now.
    FTAR_RETURN_IF_ERROR(WriteState(settings_.state, record));
  }
  if (record.view) {
    log_.Info("coordinator", "view " + std::to_string(EpochCounter(record.epoch)) + " of " +
                                 std::to_string(record.view->entries.size()) +
                                 " members is recorded in " + settings_.state);
  }
  machine_.emplace(std::move(config), std::move(record));
  return Status::Ok();
}

Status Server::ListenAt(const std::string& address) {
  Expected<transport::tcp::SocketAddress> parsed = transport::tcp::ParseAddress(address, true);
  if (!parsed.ok()) return parsed.status();
  if (parsed->wildcard() && !settings_.allow_wildcard) {
    return Status(Code::kConfig, "listen",
                  address + " is a wildcard address; name one, or set allow_wildcard");
  }
  if (settings_.token.empty() && !parsed->loopback()) {
    return Status(Code::kConfig, "token",
                  "without a token only loopback is served, not " + address);
  }
  transport::UniqueFd fd(socket(parsed->family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.valid()) return Status::System("socket", errno);
  const int one = 1;
  // A restart at the same address works at once, whatever connections of the last one still linger.
  setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  if (bind(fd.get(), parsed->raw(), parsed->bytes) != 0 || listen(fd.get(), 1024) != 0) {
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

Status Server::Bind() {
  epoll_.Reset(epoll_create1(EPOLL_CLOEXEC));
  stop_.Reset(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  spare_.Reset(open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (!epoll_.valid() || !stop_.valid()) return Status::System("epoll", errno);
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = kStopMark;
  epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, stop_.get(), &event);
  const Expected<std::vector<std::string>> addresses = ResolveHost(settings_.host, settings_.port);
  if (!addresses.ok()) return Status(Code::kConfig, "listen", addresses.status().text());
  Status last;
  for (const std::string& address : *addresses) {
    // A name may stand for IPv4 and IPv6; one port for both, so "any" takes the first only.
    if (settings_.port == 0 && !listeners_.empty()) break;
    Status status = ListenAt(address);
    if (!status.ok()) last = std::move(status);
  }
  return listeners_.empty() ? last : Status::Ok();
}

void Server::Stop() {
  stop_asked_.store(true, std::memory_order_release);
  Wake();
}

void Server::Wake() {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t done = write(stop_.get(), &one, sizeof one);
}

Server::Connection* Server::Find(ConnId id) {
  const auto found = connections_.find(id);
  return found == connections_.end() ? nullptr : &found->second;
}

// ---- connections

void Server::Accept(int listener, TimeNs now) {
  for (int i = 0; i < 64; ++i) {
    transport::UniqueFd fd(accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (fd.valid()) {
      AcceptOne(std::move(fd), now);
      continue;
    }
    if (errno == EINTR || errno == ECONNABORTED) continue;
    if (errno == EMFILE || errno == ENFILE) {
      // Out of descriptors: give up the spare one to take the connection and close it, or it would
      // wake us for ever.
      spare_.Reset();
      transport::UniqueFd refused(accept4(listener, nullptr, nullptr, SOCK_CLOEXEC));
      refused.Reset();
      spare_.Reset(open("/dev/null", O_RDONLY | O_CLOEXEC));
      if (!unauthenticated_.empty()) Drop(unauthenticated_.front(), now, "out of descriptors");
      log_.Warn("coordinator", "out of file descriptors: a connection was refused");
    }
    return;
  }
}

void Server::AcceptOne(transport::UniqueFd fd, TimeNs now) {
  if (unauthenticated_.size() >= settings_.unauthenticated_max) {
    Drop(unauthenticated_.front(), now, "too many unauthenticated connections");
  }
  if (connections_.size() >= settings_.connections_max) return;
  const ConnId id = next_id_++;
  const int raw = fd.get();
  Connection& connection = connections_[id];
  connection.id = id;
  connection.stream = std::make_unique<MessageStream>(
      std::move(fd), transport::Authenticator::Role::kAcceptor, settings_.token, MemberId{}, now);
  connection.waiting = unauthenticated_.insert(unauthenticated_.end(), id);
  connection.in_waiting = true;
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = id;
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, raw, &event) != 0) {
    return Drop(id, now, "epoll_ctl failed");
  }
  Serve(id, now);
}

void Server::Authenticated(Connection& connection) {
  if (!connection.in_waiting) return;
  connection.in_waiting = false;
  unauthenticated_.erase(connection.waiting);
}

void Server::Drop(ConnId id, TimeNs now, const std::string& why) {
  const auto found = connections_.find(id);
  if (found == connections_.end()) return;
  Authenticated(found->second);
  const bool introduced = found->second.introduced;
  connections_.erase(found);
  if (!introduced) return;
  if (--introduced_ == 0) empty_since_ns_ = now;
  StepMachine(now, membership::Disconnected{id, why});
}

// The first word on every connection that a member's server has accepted.
void Server::Greet(Connection& connection, TimeNs now) {
  wire::Redirect greeting = known_;
  greeting.here = machine_.has_value();
  connection.stream->Send(greeting);
  if (!greeting.here) LetGo(connection, now);
}

// When it has been told the last.
void Server::LetGo(Connection& connection, TimeNs now) {
  connection.closing = true;
  connection.close_by_ns = connection.stream->drained() ? now : now + kLingerNs;
}

// Asks for a wake-up when there is room to write, only while something waits.
void Server::ArmWrite(Connection& connection) {
  const bool wanted = connection.stream->wants_write();
  if (wanted == connection.write_armed || connection.stream->fd() < 0) return;
  connection.write_armed = wanted;
  epoll_event event{};
  event.events = wanted ? EPOLLIN | EPOLLOUT : EPOLLIN;
  event.data.u64 = connection.id;
  epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, connection.stream->fd(), &event);
}

void Server::Serve(ConnId id, TimeNs now) {
  Connection* connection = Find(id);
  if (connection == nullptr) return;
  messages_.clear();
  connection->stream->Poll(now, &messages_);
  if (connection->stream->state() == State::kOpen && connection->in_waiting) {
    Authenticated(*connection);
    if (settings_.hosted) Greet(*connection, now);
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
    if (!connection->introduced && !connection->closing)
      log_.Info("coordinator", "a connection was refused: " + why.text());
    return Drop(id, now, why.text());
  }
  ArmWrite(*connection);
}

void Server::OnMessage(Connection& connection, wire::Message message, TimeNs now) {
  const ConnId id = connection.id;
  wire::Hello* const hello = std::get_if<wire::Hello>(&message);
  if (connection.introduced) {
    StepMachine(now, membership::Received{id, std::move(message)});
  } else if (!machine_) {
    LetGo(connection, now);  // it has stood down since that one was told that it coordinates
  } else if (hello != nullptr && hello->card.id == connection.stream->peer()) {
    connection.introduced = true;
    ++introduced_;
    StepMachine(now, membership::Connected{id, std::move(*hello)});
  } else {
    Drop(id, now, "the first message is no Hello of its own");
  }
}

// ---- the machine

void Server::StepMachine(TimeNs now, const membership::CoordinatorEvent& event) {
  if (!machine_) return;
  machine_->Step(now, event);
  Carry(now);
}

void Server::Carry(TimeNs now) {
  membership::CoordinatorReady ready = machine_->TakeReady();
  if (ready.record && !settings_.state.empty() && !Record(*ready.record)) return;
  machine_deadline_ns_ = ready.next_deadline;
  for (const membership::Note& note : ready.notes) log_.Log(note.level, "coordinator", note.text);
  for (const membership::Outgoing& outgoing : ready.messages) {
    const std::vector<std::byte> bytes = wire::Encode(outgoing.message);
    for (const ConnId id : outgoing.to) {
      Connection* const connection = Find(id);
      if (connection == nullptr) continue;
      connection->stream->SendEncoded(bytes);
      // Dropping it now would step the machine inside of its own Ready.
      if (connection->stream->state() == State::kClosed) broken_.push_back(id);
      ArmWrite(*connection);
    }
  }
  for (const ConnId id : ready.close) {
    Connection* const connection = Find(id);
    if (connection != nullptr) LetGo(*connection, now);
  }
  if (ready.stand_down) GoDormant(now);
}

// The members look for another one; what it has told them last is still written.
void Server::GoDormant(TimeNs now) {
  machine_.reset();
  machine_deadline_ns_ = kNever;
  introduced_ = 0;
  coordinating_.store(false, std::memory_order_release);
  for (auto& [id, connection] : connections_) {
    if (!std::exchange(connection.introduced, false)) continue;
    LetGo(connection, now);
  }
  dormant_.notify_all();
}

void Server::Host(membership::CoordinatorConfig config) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (machine_) return;
  machine_.emplace(std::move(config), membership::CoordinatorRecord{});
  coordinating_.store(true, std::memory_order_release);
  StepMachine(MonotonicNow(), membership::Timer{});
  Wake();
}

void Server::Know(wire::Redirect redirect) {
  const std::lock_guard<std::mutex> lock(mutex_);
  known_ = std::move(redirect);
}

void Server::Retire() {
  const std::lock_guard<std::mutex> lock(mutex_);
  StepMachine(MonotonicNow(), membership::Retire{});
  Wake();
}

bool Server::WaitDormant(TimeNs timeout_ns) {
  std::unique_lock<std::mutex> lock(mutex_);
  return dormant_.wait_for(lock, std::chrono::nanoseconds(timeout_ns),
                           [this] { return !machine_; });
}

void Server::CloseInForkedChild() {
  for (auto& [id, connection] : connections_) connection.stream->CloseInForkedChild();
  for (transport::UniqueFd& listener : listeners_) listener.Reset();
  for (transport::UniqueFd* fd : {&epoll_, &stop_, &spare_}) fd->Reset();
  mutex_.unlock();
}

// False if it is to stop before the record could be written: what waits for that is never told.
bool Server::Record(const membership::CoordinatorRecord& record) {
  Status last;
  while (!stopping_) {
    Status status = WriteState(settings_.state, record);
    if (status.ok()) {
      if (!last.ok()) log_.Info("coordinator", settings_.state + " can be written again");
      return true;
    }
    if (last.ok())
      log_.Error("coordinator", status.text() + "; nobody is told anything until then");
    last = std::move(status);
    pollfd stop{stop_.get(), POLLIN, 0};
    stopping_ = poll(&stop, 1, kRecordAgainMs) > 0;
  }
  return false;
}

void Server::Expire(TimeNs now) {
  while (!unauthenticated_.empty()) {
    const Connection* oldest = Find(unauthenticated_.front());
    if (now - oldest->stream->created_ns() < settings_.handshake_timeout_ns) break;
    Drop(unauthenticated_.front(), now, "handshake timeout");
  }
  std::vector<ConnId> gone = std::exchange(broken_, {});
  for (const auto& [id, connection] : connections_) {
    if (connection.closing && (connection.stream->drained() || now >= connection.close_by_ns)) {
      gone.push_back(id);
    }
  }
  for (const ConnId id : gone) Drop(id, now, "closed");
  if (now >= machine_deadline_ns_) StepMachine(now, membership::Timer{});
  if (introduced_ == 0 && settings_.exit_when_empty_ns != kNever &&
      now - empty_since_ns_ >= settings_.exit_when_empty_ns) {
    log_.Info("coordinator", "no members for a while: done");
    stopping_ = true;
  }
}

TimeNs Server::NextDeadline() const {
  TimeNs first = machine_deadline_ns_;
  if (!unauthenticated_.empty()) {
    const auto oldest = connections_.find(unauthenticated_.front());
    first = std::min(first, oldest->second.stream->created_ns() + settings_.handshake_timeout_ns);
  }
  for (const auto& [id, connection] : connections_) {
    if (connection.closing) first = std::min(first, connection.close_by_ns);
  }
  if (introduced_ == 0 && settings_.exit_when_empty_ns != kNever) {
    first = std::min(first, empty_since_ns_ + settings_.exit_when_empty_ns);
  }
  return broken_.empty() ? first : 0;
}

void Server::Turn(TimeNs now, int count) {
  for (int i = 0; i < count; ++i) {
    const uint64_t mark = events_[i].data.u64;
    if ((mark & kListenerMark) != 0) {
      Accept(static_cast<int>(mark & ~kListenerMark), now);
    } else if (mark == kStopMark) {
      uint64_t times = 0;
      [[maybe_unused]] const ssize_t done = read(stop_.get(), &times, sizeof times);
      stopping_ = stopping_ || stop_asked_.load(std::memory_order_acquire);
    } else {
      Serve(mark, now);
    }
  }
  Expire(now);
}

void Server::Run() {
  std::unique_lock<std::mutex> lock(mutex_);
  TimeNs now = MonotonicNow();
  empty_since_ns_ = now;
  StepMachine(now, membership::Timer{});
  while (!stopping_) {
    const TimeNs deadline = NextDeadline();
    now = MonotonicNow();
    int timeout_ms = -1;
    if (deadline != kNever) {
      const TimeNs left = std::max<TimeNs>(0, deadline - now);
      timeout_ms =
          static_cast<int>(std::min<TimeNs>((left + kMillisecond - 1) / kMillisecond, 60'000));
    }
    lock.unlock();
    const int count = epoll_wait(epoll_.get(), events_, 128, timeout_ms);
    lock.lock();
    Turn(MonotonicNow(), count);
  }
}

}  // namespace ftar::coordinator
