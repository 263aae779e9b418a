// The part of the device that lets connections in: accepting, limits, and which link a proven
// peer's stream belongs to.
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

#include "transport/tcp/device.h"

namespace ftar::transport::tcp {
namespace {

constexpr int kAcceptsMax = 64;
constexpr int kConnectsMax = 8;  // a handshake takes as long as so many connects, at most

}  // namespace

void TcpDevice::AcceptAll(TimeNs now) {
  for (int i = 0; i < kAcceptsMax; ++i) {
    SocketAddress peer;
    peer.bytes = sizeof peer.storage;
    UniqueFd fd(::accept4(listener_.fd.get(), reinterpret_cast<sockaddr*>(&peer.storage),
                          &peer.bytes, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!fd.valid()) {
      if (errno == EINTR || errno == ECONNABORTED) continue;
      if (errno == EMFILE || errno == ENFILE) return RefuseOne(now);
      if (errno == ENOMEM || errno == ENOBUFS) door_.Pause(now);
      return;
    }
    // Without a token nothing can be proved; only this host is trusted then.
    if (config_.token.empty() && !peer.loopback()) {
      ++counters_.peers_refused;
      continue;
    }
    auto handshake = std::make_unique<Handshake>(config_, std::move(fd));
    handshake->deadline = now + config_.handshake_timeout_ns;
    AddHandshake(std::move(handshake), now);
    LimitUnauthenticated();
  }
}

// Descriptors have run out: whoever waits longest unproven makes room; if nobody does, the newcomer
// goes.
void TcpDevice::RefuseOne(TimeNs now) {
  ++counters_.peers_refused;
  for (const auto& [id, handshake] : handshakes_) {
    if (handshake->dialler() || handshake->authenticated()) continue;
    return RemoveHandshake(id);
  }
  door_.Refuse(now);
}

// The oldest gives way, not the newest: an honest member needs a millisecond, so idle strangers
// cannot keep it out.
void TcpDevice::LimitUnauthenticated() {
  int waiting = 0;
  uint64_t oldest = 0;
  for (const auto& [id, handshake] : handshakes_) {
    if (handshake->dialler() || handshake->authenticated()) continue;
    if (waiting++ == 0) oldest = id;
  }
  if (waiting <= std::max(1, config_.unauthenticated_max)) return;
  ++counters_.peers_refused;
  RemoveHandshake(oldest);
}

void TcpDevice::AddHandshake(std::unique_ptr<Handshake> handshake, TimeNs now) {
  const uint64_t id = next_key_++;
  handshake->id = id;
  handshake->interest = EPOLLIN | (handshake->wants_write() ? static_cast<uint32_t>(EPOLLOUT) : 0u);
  const bool added = EpollAdd(handshake->fd(), handshake->interest, id);
  Handshake* raw = handshake.get();
  handshakes_.emplace(id, std::move(handshake));
  if (!added) {
    raw->Fail(Status::System("epoll_ctl", errno));
    FinishHandshake(id, now);
  }
}

void TcpDevice::RemoveHandshake(uint64_t id) {
  const auto it = handshakes_.find(id);
  if (it == handshakes_.end()) return;
  if (it->second->fd() >= 0) ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, it->second->fd(), nullptr);
  handshakes_.erase(it);
}

void TcpDevice::DriveHandshake(uint64_t id, TimeNs now) {
  Handshake* handshake = handshakes_.at(id).get();
  const bool connecting = handshake->state() == Handshake::State::kConnecting;
  handshake->OnReady();
  // The way there and back has been measured now, and the greetings go it several times more.
  if (connecting && handshake->state() != Handshake::State::kConnecting) {
    const TimeNs needed = std::min(kConnectsMax * (now - handshake->begun),
                                   config_.handshake_timeout_ns);
    handshake->deadline = std::max(handshake->deadline, handshake->begun + needed);
  }
  switch (handshake->state()) {
    case Handshake::State::kGreeted: return OnGreeted(handshake, now);
    case Handshake::State::kDone:
    case Handshake::State::kFailed: return FinishHandshake(id, now);
    default: UpdateInterest(handshake);
  }
}

void TcpDevice::UpdateInterest(Handshake* handshake) {
  const uint32_t wanted =
      EPOLLIN | (handshake->wants_write() ? static_cast<uint32_t>(EPOLLOUT) : 0u);
  if (wanted == handshake->interest) return;
  handshake->interest = wanted;
  ChangeInterest(handshake->id, handshake->fd(), wanted);
}

void TcpDevice::OnGreeted(Handshake* handshake, TimeNs now) {
  TcpLink* link = nullptr;
  const Verdict verdict = Judge(handshake, now, &link);
  if (verdict == Verdict::kRevoked || verdict == Verdict::kUnknown) ++counters_.peers_refused;
  handshake->Answer(verdict, link == nullptr ? 0 : link->received());
  const uint64_t id = handshake->id;
  if (handshake->state() != Handshake::State::kDone || link == nullptr) return RemoveHandshake(id);
  const LinkHello hello = handshake->hello();
  const std::vector<std::byte> leftover = handshake->leftover();
  UniqueFd fd = std::move(handshake->fd_owner());
  RemoveHandshake(id);
  link->Attach(hello.stream, std::move(fd), hello.received, leftover, now);
}

// Which link a proven dialler's stream belongs to, if any.
Verdict TcpDevice::Judge(Handshake* handshake, TimeNs now, TcpLink** link) {
  const MemberId peer = handshake->peer();
  const LinkHello& hello = handshake->hello();
  if (revoked_.Contains(peer) || peer == config_.self) return Verdict::kRevoked;
  // It goes on with a link that has ended here and is forgotten.
  if (hello.fresh == 0 && !links_.contains(peer)) return Verdict::kUnknown;
  auto& entry = links_[peer];
  if (entry == nullptr) entry = std::make_unique<TcpLink>(this, peer);
  TcpLink* known = entry.get();
  const auto state = known->state();
  const bool alive = state != TcpLink::State::kIdle && state != TcpLink::State::kDead;
  if (alive && known->link_id() == hello.link_id) {
    if (hello.stream >= known->slots().size()) return Verdict::kUnknown;
    // Both mend the link: the dialler's own attempt goes on, and what the acceptor began before
    // that came through is given up there. Keys grow, so they tell which is older.
    const TcpLink::Slot& slot = known->slots()[hello.stream];
    if (known->dialler() && (slot.handshake != 0 || handshake->id < slot.epoll_key))
      return Verdict::kCollision;
    *link = known;
    return Verdict::kWelcome;
  }
  if (hello.fresh == 0) return Verdict::kUnknown;
  if (alive && known->dialler()) {
    // Both dialled. While neither is up the lower id's dial goes on; one that is up stays.
    if (state == TcpLink::State::kUp ||
        (state == TcpLink::State::kOpening && config_.self < peer)) {
      return Verdict::kCollision;
    }
    known->Yield();
  }
  if (state == TcpLink::State::kUp || state == TcpLink::State::kBroken) {
    known->Fail({Code::kLink, "the peer began the link anew"});
  }
  known->Reopen(hello.link_id, hello.streams, now);
  if (auto address = ParseAddress(handshake->peer_address()); address.ok())
    known->set_peer_address(*address);
  *link = known;
  return Verdict::kWelcome;
}

void TcpDevice::FinishHandshake(uint64_t id, TimeNs now) {
  Handshake* handshake = handshakes_.at(id).get();
  if (!handshake->dialler()) {
    ++counters_.peers_refused;
    return RemoveHandshake(id);
  }
  const auto it = links_.find(handshake->peer());
  if (it == links_.end()) return RemoveHandshake(id);
  TcpLink* link = it->second.get();
  const int slot = handshake->own_hello().stream;
  if (slot >= static_cast<int>(link->slots().size()) || link->slots()[slot].handshake != id)
    return RemoveHandshake(id);
  if (handshake->state() == Handshake::State::kDone) return OnDialDone(handshake, link, now);
  const Status why = handshake->status();
  const bool refused = handshake->refused(), final_failure = handshake->final_failure();
  link->slots()[slot].handshake = 0;
  RemoveHandshake(id);
  link->OnDialFailed(slot, why, refused, final_failure, now);
}

void TcpDevice::OnDialDone(Handshake* handshake, TcpLink* link, TimeNs now) {
  const LinkHello hello = handshake->hello();
  const int slot = handshake->own_hello().stream;
  const std::vector<std::byte> leftover = handshake->leftover();
  const bool for_this = hello.link_id == link->link_id() && hello.stream == slot;
  const auto verdict = static_cast<Verdict>(hello.verdict);
  UniqueFd fd;
  if (for_this && verdict == Verdict::kWelcome) fd = std::move(handshake->fd_owner());
  link->slots()[slot].handshake = 0;
  RemoveHandshake(handshake->id);
  if (!for_this) return link->Fail({Code::kPeer, "the peer answered for another link"});
  switch (verdict) {
    case Verdict::kWelcome: return link->Attach(slot, std::move(fd), hello.received, leftover, now);
    case Verdict::kCollision: return link->OnCollision(slot, now);
    case Verdict::kRevoked: return link->Fail({Code::kPeer, "the peer has dropped this member"});
    case Verdict::kUnknown: return link->Fail({Code::kLink, "the peer has given this link up"});
  }
  link->Fail({Code::kPeer, "the peer answered with an unknown verdict"});
}

}  // namespace ftar::transport::tcp
