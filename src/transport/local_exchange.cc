#include "transport/local_exchange.h"

#include <openssl/rand.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>

#include "transport/local_connection.h"

namespace ftar::transport {
namespace {

constexpr uint64_t kListenerKey = 0;
constexpr int kEventsMax = 32;
constexpr int kAcceptsMax = 64;
constexpr int kBacklog = 512;

// "@name" is an abstract address: a zero byte and the name.
bool MakeAddress(const std::string& name, sockaddr_un* address, socklen_t* bytes) {
  if (name.size() < 2 || name[0] != '@' || name.size() > sizeof address->sun_path) return false;
  *address = {};
  address->sun_family = AF_UNIX;
  std::memcpy(address->sun_path + 1, name.data() + 1, name.size() - 1);
  *bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size());
  return true;
}

bool SameUser(int fd) {
  ucred peer{};
  socklen_t bytes = sizeof peer;
  return ::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) == 0 && peer.uid == ::geteuid();
}

}  // namespace

Expected<std::unique_ptr<LocalExchange>> LocalExchange::Open(const DeviceConfig& config,
                                                             AuthPurpose purpose) {
  std::unique_ptr<LocalExchange> exchange(new LocalExchange(config, purpose));
  if (const Status status = exchange->Start(); !status.ok()) return status;
  return exchange;
}

LocalExchange::LocalExchange(const DeviceConfig& config, AuthPurpose purpose)
    : config_(config), purpose_(purpose) {}

LocalExchange::~LocalExchange() = default;

Status LocalExchange::Start() {
  uint64_t random = 0;
  if (RAND_bytes(reinterpret_cast<unsigned char*>(&random), sizeof random) != 1) {
    return {Code::kSystem, "the system gives no random numbers"};
  }
  char text[40];
  std::snprintf(text, sizeof text, "@ftar-%016llx", static_cast<unsigned long long>(random));
  name_ = text;
  sockaddr_un address;
  socklen_t bytes = 0;
  MakeAddress(name_, &address, &bytes);
  listener_ = UniqueFd(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  epoll_ = UniqueFd(::epoll_create1(EPOLL_CLOEXEC));
  if (!listener_.valid() || !epoll_.valid()) return Status::System("local socket", errno);
  if (::bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), bytes) != 0 ||
      ::listen(listener_.get(), kBacklog) != 0) {
    return Status::System("local socket " + name_, errno);
  }
  door_.Open(epoll_.get(), listener_.get(), kListenerKey);
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = kListenerKey;
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, listener_.get(), &event) != 0)
    return Status::System("epoll_ctl", errno);
  return {};
}

uint64_t LocalExchange::Dial(MemberId peer, const std::string& name, Message offer, TimeNs now) {
  const uint64_t key = next_key_++;
  Result failed;
  failed.peer = peer;
  failed.ticket = key;
  sockaddr_un address;
  socklen_t bytes = 0;
  UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!MakeAddress(name, &address, &bytes)) {
    failed.status = Status(Code::kPeer, "'" + name.substr(0, 80) + "' is not a local address");
    failed.final_failure = true;
  } else if (!fd.valid() ||
             ::connect(fd.get(), reinterpret_cast<sockaddr*>(&address), bytes) != 0) {
    failed.refused = fd.valid() && errno == ECONNREFUSED;
    failed.status = Status(Code::kLink, Status::System("dialling " + name, errno).text());
  } else if (config_.token.empty() && !SameUser(fd.get())) {
    // It would hang up, see AcceptAll, as one that dies does.
    failed.status = Status(Code::kAuth, "token",
                           "member " + ToString(peer) +
                               " is another user's process, and there is no token that both could "
                               "prove to know: set FTAR_TOKEN or FTAR_TOKEN_FILE");
    failed.final_failure = true;
  } else {
    auto connection = std::make_unique<Connection>(config_, purpose_, true, std::move(fd));
    connection->peer = peer;
    connection->own = std::move(offer);
    if (Add(key, std::move(connection), now)) return key;
    failed.status = Status::System("epoll_ctl", errno);
  }
  ready_.push_back(std::move(failed));
  return key;
}

void LocalExchange::Abandon(uint64_t ticket) {
  connections_.erase(ticket);
  std::erase_if(ready_, [ticket](const Result& result) { return result.ticket == ticket; });
}

bool LocalExchange::Add(uint64_t key, std::unique_ptr<Connection> connection, TimeNs now) {
  connection->deadline = now + config_.handshake_timeout_ns;
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = key;
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, connection->fd.get(), &event) != 0) return false;
  Connection* raw = connection.get();
  connections_.emplace(key, std::move(connection));
  if (raw->dialler) raw->OnReady();  // sends the greeting; what comes of it shows at the next Poll
  return true;
}

void LocalExchange::Poll(TimeNs now, const Answerer& answer, std::vector<Result>* results) {
  door_.Poll(now);
  epoll_event events[kEventsMax];
  const int count = ::epoll_wait(epoll_.get(), events, kEventsMax, 0);
  for (int i = 0; i < count; ++i) {
    if (events[i].data.u64 == kListenerKey) {
      AcceptAll(now);
    } else {
      Drive(events[i].data.u64, answer, results);
    }
  }
  // A dial to a quick peer may be over before Dial has returned; no descriptor says so any more.
  std::vector<uint64_t> over;
  for (const auto& [key, connection] : connections_) {
    if (now >= connection->deadline && !connection->over()) {
      connection->Fail({Code::kLink, "no answer within the handshake's time"});
    }
    if (connection->over()) over.push_back(key);
  }
  for (const uint64_t key : over) Finish(key, results);
  std::move(ready_.begin(), ready_.end(), std::back_inserter(*results));
  ready_.clear();
}

TimeNs LocalExchange::next_deadline() const {
  TimeNs deadline = ready_.empty() ? door_.next_deadline() : 0;
  for (const auto& [key, connection] : connections_) {
    deadline = std::min(deadline, connection->over() ? 0 : connection->deadline);
  }
  return deadline;
}

void LocalExchange::AcceptAll(TimeNs now) {
  for (int i = 0; i < kAcceptsMax; ++i) {
    UniqueFd fd(::accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!fd.valid()) {
      if (errno == EINTR || errno == ECONNABORTED) continue;
      if (errno == EMFILE || errno == ENFILE) {
        ++refused_count_;
        door_.Refuse(now);
      } else if (errno == ENOMEM || errno == ENOBUFS) {
        door_.Pause(now);
      }
      return;
    }
    // Without a token only the same user's processes can be meant.
    if (config_.token.empty() && !SameUser(fd.get())) {
      ++refused_count_;
      continue;
    }
    Add(next_key_++, std::make_unique<Connection>(config_, purpose_, false, std::move(fd)), now);
    MakeRoom();
  }
}

// The oldest unproven connection gives way: an honest member needs a millisecond, so idle strangers
// cannot keep it out.
void LocalExchange::MakeRoom() {
  int waiting = 0;
  uint64_t oldest = 0;
  for (const auto& [key, connection] : connections_) {
    if (connection->dialler || connection->authenticated()) continue;
    if (waiting++ == 0) oldest = key;
  }
  if (waiting <= std::max(1, config_.unauthenticated_max)) return;
  ++refused_count_;
  connections_.erase(oldest);
}

void LocalExchange::Drive(uint64_t key, const Answerer& answer, std::vector<Result>* results) {
  const auto it = connections_.find(key);
  if (it == connections_.end()) return;
  Connection* connection = it->second.get();
  connection->OnReady();
  if (connection->state == Connection::State::kOffered) {
    connection->Answer(answer(connection->peer, std::move(connection->theirs)));
    connection->theirs = Message{};
  }
  if (connection->over()) Finish(key, results);
}

void LocalExchange::Finish(uint64_t key, std::vector<Result>* results) {
  const auto it = connections_.find(key);
  const std::unique_ptr<Connection> connection = std::move(it->second);
  connections_.erase(it);
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, connection->fd.get(), nullptr);
  const bool failed = connection->state == Connection::State::kFailed;
  if (failed && !connection->dialler && !connection->answered) {
    ++refused_count_;
    return;
  }
  Result result;
  result.peer = connection->peer;
  result.ticket = connection->dialler ? key : 0;
  result.status = connection->status;
  result.final_failure = connection->final_failure;
  result.rejected_after_proof = connection->rejected_after_proof;
  if (!failed) {
    result.message = std::move(connection->theirs);
    result.socket = std::move(connection->fd);
  }
  results->push_back(std::move(result));
}

void LocalExchange::CloseInForkedChild() {
  for (auto& [key, connection] : connections_) connection->fd.Reset();
  listener_.Reset();
  door_.Close();
  epoll_.Reset();
}

}  // namespace ftar::transport
