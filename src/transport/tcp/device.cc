#include "transport/tcp/device.h"

#include <openssl/rand.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

#include "transport/hand_out.h"
#include "transport/steady_clock.h"
#include "transport/tcp/costs.h"
#include "wire/addresses.h"

namespace ftar::transport::tcp {
namespace {

constexpr int kEventsMax = 64;
constexpr TimeNs kCloseNsMax = 100 * kMillisecond;
constexpr int kFirstDialPart = 4;  // of a handshake's time
// Payload that a stream brings at once while operations are small. Of larger ones a read that comes
// too early takes a little, and keeps the kernel from adding more meanwhile: there asking pays.
constexpr size_t kHotBytesMax = 20 * 1024;
// While nothing comes by the hot stream another one's turn has come, most likely.
constexpr int kReadsWithoutAsking = 64, kVainReadsWithoutAsking = 8;
// Who has no links only waits for some.
constexpr TimeNs kAskNs = 20 * kMicrosecond;

uint64_t RandomId() {
  uint64_t id = 0;
  if (RAND_bytes(reinterpret_cast<unsigned char*>(&id), sizeof id) != 1) id = 0;
  return id;
}

}  // namespace

TcpDevice::TcpDevice(const DeviceConfig& config) : config_(config) {
  config_.tcp_streams = std::clamp(config_.tcp_streams, 0, kStreamsMax);
}

TcpDevice::~TcpDevice() {
  // Links speak to the device while they go.
  links_.clear();
}

Expected<std::unique_ptr<Device>> TcpDevice::Open(const DeviceConfig& config) {
  std::unique_ptr<TcpDevice> device(new TcpDevice(config));
  if (const Status status = device->Start(); !status.ok()) return status;
  return std::unique_ptr<Device>(std::move(device));
}

Status TcpDevice::Start() {
  auto local = ResolveInterface(config_.interface_name, config_.routes_to, config_.allow_wildcard);
  if (!local.ok()) return local.status();
  auto listener = Listen(*local, config_.ports, config_.tcp_congestion);
  if (!listener.ok()) return listener.status();
  listener_ = std::move(*listener);
  SocketAddress advertised = listener_.address;
  if (advertised.wildcard()) {
    // Peers need an address that they can dial: the one from which the coordinator is reached.
    auto reachable = ResolveInterface("", config_.routes_to, false);
    if (!reachable.ok()) return reachable.status();
    advertised = *reachable;
    advertised.set_port(listener_.address.port());
  }
  advertised_ = advertised.Text();
  if (config_.wire.byte_ps == 0) config_.wire.byte_ps = BytePs(advertised);
  if (config_.tcp_streams == 0) config_.tcp_streams = StreamsFor(config_.wire.byte_ps);
  epoll_ = UniqueFd(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll_.valid()) return Status::System("epoll_create1", errno);
  door_.Open(epoll_.get(), listener_.fd.get(), kListenerKey);
  if (!EpollAdd(listener_.fd.get(), EPOLLIN, kListenerKey))
    return Status::System("epoll_ctl", errno);
  // Without it a host-mate's death is seen by its connections only, as any other's.
  if (auto watch = HostWatch::Open(config_);
      watch.ok() && EpollAdd((*watch)->wait_fd(), EPOLLIN, kWatchKey)) {
    host_watch_ = std::move(*watch);
  }
  return {};
}

std::string TcpDevice::address() const {
  return "tcp=" + advertised_ + (host_watch_ == nullptr ? "" : ";" + host_watch_->address());
}

bool TcpDevice::Reaches(const wire::MemberCard& card) const {
  return !wire::FindAddress(card.addresses, "tcp").empty();
}

bool TcpDevice::EpollAdd(int fd, uint32_t interest, uint64_t key) {
  epoll_event event{};
  event.events = interest;
  event.data.u64 = key;
  return ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0;
}

// ---- the runtime's calls

Link* TcpDevice::Connect(const wire::MemberCard& peer, TimeNs now) {
  auto& entry = links_[peer.id];
  if (entry == nullptr) entry = std::make_unique<TcpLink>(this, peer.id);
  TcpLink* link = entry.get();
  const auto state = link->state();
  link->WantUp();
  if (state != TcpLink::State::kIdle && state != TcpLink::State::kDead) return link;
  link->Open(true, RandomId(), config_.tcp_streams, now);
  deadline_ = now;  // the first dials
  auto address = ParseAddress(wire::FindAddress(peer.addresses, "tcp"));
  if (revoked_.Contains(peer.id)) {
    link->Fail({Code::kPeer, "member " + ToString(peer.id) + " was dropped here for good"});
  } else if (!address.ok()) {
    link->Fail(address.status());
  } else {
    link->set_peer_address(*address);
    link->set_watch_name(wire::FindAddress(peer.addresses, "watch"));
    if (config_.token.empty() && !address->loopback()) {
      link->Fail(
          {Code::kAuth, "token",
           "without a token only members on this host are connected to, not " + address->Text()});
    }
  }
  return link;
}

void TcpDevice::Revoke(MemberId peer) {
  revoked_.Add(peer);
  if (host_watch_ != nullptr) host_watch_->Forget(peer);
  std::vector<uint64_t> handshakes;
  for (const auto& [id, handshake] : handshakes_) {
    if (handshake->peer() == peer) handshakes.push_back(id);
  }
  for (const uint64_t id : handshakes) RemoveHandshake(id);
  Remove(peer);
}

void TcpDevice::Forget(MemberId peer) {
  const auto it = links_.find(peer);
  if (it == links_.end() || !it->second->down()) return;
  if (host_watch_ != nullptr) host_watch_->Remove(peer);
  Remove(peer);
}

void TcpDevice::Remove(MemberId peer) {
  std::erase_if(events_, [&](const Completion& completion) { return completion.peer == peer; });
  const auto it = links_.find(peer);
  if (it == links_.end()) return;
  TcpLink* link = it->second.get();
  if (link->state() == TcpLink::State::kUp || link->state() == TcpLink::State::kBroken)
    ++counters_.links_closed;
  std::erase(dirty_, link);
  link->CloseStreams();
  links_.erase(it);
}

Link* TcpDevice::Find(MemberId peer) {
  const auto it = links_.find(peer);
  return it == links_.end() ? nullptr : it->second.get();
}

bool TcpDevice::Poll(TimeNs now, size_t budget_bytes, std::vector<Completion>* out) {
  if (closed_) return false;
  ++turn_;
  bool any = !dirty_.empty();
  if (any) FlushDirty(now);
  const bool asks = MustAsk(now);
  if (!asks) ReadHotStream(now, &any);
  // Where there is more than one frame the rest comes in the same turn, so that one frame answers.
  if (asks || hot_key_ == 0) HandleEvents(now, budget_bytes, &any);
  if (asks) CheckWatch(now, false);  // not at every turn, which is half a microsecond
  if (now >= deadline_) {
    RunTimers(now);
    any = true;
  }
  if (!dirty_.empty()) FlushDirty(now);
  if (any) deadline_ = ComputeDeadline();
  return HandOut(&events_, out) || any;
}

void TcpDevice::Flush(TimeNs now) {
  const auto light = [](const TcpLink* link) { return link->LightlyLoaded(); };
  if (std::all_of(dirty_.begin(), dirty_.end(), light)) FlushDirty(now);
}

bool TcpDevice::PrepareSleep() {
  hot_key_ = 0;  // whatever wakes, all are asked
  ask_at_ = 0;
  return dirty_.empty() && events_.empty();
}

// What Flush met with, if it was not called by Poll, is told by the next Poll.
TimeNs TcpDevice::next_deadline() const { return events_.empty() ? deadline_ : 0; }

Device::Counters TcpDevice::counters() const {
  Counters counters = counters_;
  counters.bytes_kept = pool_.kept_bytes();
  return counters;
}

TimeNs TcpDevice::ComputeDeadline() const {
  TimeNs deadline = std::min(pool_.next_trim(), door_.next_deadline());
  for (const auto& [peer, link] : links_) deadline = std::min(deadline, link->next_deadline());
  for (const auto& [id, handshake] : handshakes_)
    deadline = std::min(deadline, handshake->deadline);
  if (host_watch_ != nullptr) deadline = std::min(deadline, host_watch_->next_deadline());
  return deadline;
}

bool TcpDevice::Disturb(MemberId peer, Disturbance what, TimeNs /*delay_ns*/) {
  bool any = false;
  for (auto& [id, link] : links_) {
    if (!peer.valid() || id == peer) any = link->Disturb(what, SteadyNow()) || any;
  }
  deadline_ = 0;  // a reset path is dialled again
  return any;
}

void TcpDevice::CloseInForkedChild() {
  for (auto& [peer, link] : links_) link->CloseInForkedChild();
  for (auto& [id, handshake] : handshakes_) handshake->fd_owner().Reset();
  if (host_watch_ != nullptr) host_watch_->CloseInForkedChild();
  listener_.fd.Reset();
  door_.Close();
  epoll_.Reset();
  closed_ = true;
}

void TcpDevice::Close() {
  if (closed_) return;
  placer_ = nullptr;
  for (auto& [peer, link] : links_) link->PlaceNothing();
  // Peers should get what was sent, if they take it soon.
  const TimeNs end = SteadyNow() + kCloseNsMax;
  const auto undelivered = [this] {
    return std::any_of(links_.begin(), links_.end(), [](const auto& entry) {
      return entry.second->state() == TcpLink::State::kUp && !entry.second->drained();
    });
  };
  std::vector<Completion> dropped;
  for (TimeNs now = SteadyNow(); undelivered() && now < end; now = SteadyNow()) {
    if (!Poll(now, 1u << 20, &dropped)) {
      pollfd ready{epoll_.get(), POLLIN, 0};
      ::poll(&ready, 1, 5);
    }
    for (const Completion& completion : dropped) {
      if (completion.kind == Completion::Kind::kReceived)
        completion.link->Release(completion.token);
    }
    dropped.clear();
  }
  for (auto& [peer, link] : links_) {
    if (link->state() != TcpLink::State::kDead)
      link->Fail({Code::kLeft, "this member closed the link"});
  }
  handshakes_.clear();
  host_watch_.reset();
  listener_.fd.Reset();
  door_.Close();
  events_.clear();
  dirty_.clear();
  closed_ = true;
}

// ---- what links ask for

void TcpDevice::Dial(TcpLink* link, int slot, TimeNs now) {
  int error = 0;
  UniqueFd fd = tcp::Dial(link->peer_address(), listener_.address, config_.tcp_congestion, &error);
  if (!fd.valid()) {
    return link->OnDialFailed(
        slot,
        {Code::kLink, Status::System("dialling " + link->peer_address().Text(), error).text()},
        error == ECONNREFUSED, false, now);
  }
  LinkHello hello;
  hello.stream = static_cast<uint16_t>(slot);
  hello.streams = static_cast<uint16_t>(link->slots().size());
  hello.fresh = link->was_up() ? 0 : 1;
  hello.link_id = link->link_id();
  hello.received = link->received();
  auto handshake =
      std::make_unique<Handshake>(config_, std::move(fd), link->peer(), hello, advertised_);
  link->slots()[slot].handshake = next_key_;
  // The network sends a lost first packet again after a second, when the link has been given up.
  const bool first = link->slots()[slot].backoff_ns == 0;
  handshake->begun = now;
  handshake->deadline = now + config_.handshake_timeout_ns / (first ? kFirstDialPart : 1);
  AddHandshake(std::move(handshake), now);
}

void TcpDevice::AbandonHandshake(uint64_t id) { RemoveHandshake(id); }

// Its handshake's place in the epoll set is the stream's: to leave it and come back could fail, and
// the peer has it for a path by now.
uint64_t TcpDevice::WatchStream(TcpLink* link, int slot, int fd) {
  const uint64_t key = next_key_++;
  sources_[key] = Source{link, slot};
  ChangeInterest(key, fd, EPOLLIN);
  return key;
}

void TcpDevice::ChangeInterest(uint64_t key, int fd, uint32_t interest) {
  epoll_event event{};
  event.events = interest;
  event.data.u64 = key;
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, fd, &event);
}

void TcpDevice::ForgetStream(uint64_t key, int fd) {
  sources_.erase(key);
  // Closing would not do if a forked child still holds the descriptor.
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
}

// ---- events and timers

void TcpDevice::FlushDirty(TimeNs now) {
  // Links that are not done put themselves in again.
  flushing_.swap(dirty_);
  for (TcpLink* link : flushing_) {
    link->dirty = false;
    link->Flush(now);
  }
  flushing_.clear();
}

bool TcpDevice::MustAsk(TimeNs now) {
  if (hot_key_ != 0)
    return ++reads_without_asking_ >= kReadsWithoutAsking || vain_reads_ >= kVainReadsWithoutAsking;
  return !links_.empty() || !handshakes_.empty() || now >= ask_at_;
}

void TcpDevice::ReadHotStream(TimeNs now, bool* any) {
  const auto source = sources_.find(hot_key_);
  if (source == sources_.end() || !source->second.link->OnlyReads(source->second.slot)) {
    hot_key_ = 0;
    return;
  }
  const size_t events = events_.size();
  const auto [link, slot, unused] = source->second;
  const size_t bytes = link->OnReadable(slot, kHotBytesMax, now);
  if (bytes >= kHotBytesMax || !link->OnlyReads(slot)) hot_key_ = 0;
  const bool vain = events_.size() == events;
  vain_reads_ = vain ? vain_reads_ + 1 : 0;
  *any = *any || !vain;
}

// Who closes descriptors that are not its own makes this member deaf. The others are to hear of it,
// and do where it cannot be reached.
void TcpDevice::LoseAll(const Status& why) {
  for (const auto& [id, link] : links_) {
    if (link->state() != TcpLink::State::kDead) link->Fail(why);
  }
}

void TcpDevice::HandleEvents(TimeNs now, size_t budget_bytes, bool* any) {
  epoll_event events[kEventsMax];
  const int count = ::epoll_wait(epoll_.get(), events, kEventsMax, 0);
  if (count < 0 && errno != EINTR) LoseAll(Status::System("epoll_wait", errno));
  reads_without_asking_ = vain_reads_ = 0;
  ask_at_ = now + kAskNs;
  if (count > 0) hot_key_ = 0;
  for (int i = 0; i < count; ++i) {
    *any = true;
    const uint64_t key = events[i].data.u64;
    const uint32_t ready = events[i].events;
    if (key == kListenerKey) {
      AcceptAll(now);
    } else if (key == kWatchKey) {
      CheckWatch(now, true);
    } else if (const auto source = sources_.find(key); source != sources_.end()) {
      const auto [link, slot, unused] = source->second;
      if ((ready & EPOLLOUT) != 0) link->OnWritable(slot, now);
      if ((ready & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0 && sources_.contains(key) &&
          budget_bytes > 0) {
        const size_t bytes = link->OnReadable(slot, budget_bytes, now);
        budget_bytes -= std::min(budget_bytes, bytes);
        // With several peers it is another one's turn, most likely.
        const bool little = links_.size() == 1 && bytes < kHotBytesMax && link->OnlyReads(slot);
        if (count == 1 && ready == EPOLLIN && little) hot_key_ = key;
      }
    } else if (handshakes_.contains(key)) {
      DriveHandshake(key, now);
    }
  }
}

void TcpDevice::CheckWatch(TimeNs now, bool ready) {
  if (host_watch_ == nullptr) return;
  exited_.clear();
  host_watch_->Poll(now, ready, &exited_);
  for (const MemberId peer : exited_) {
    const auto it = links_.find(peer);
    if (it != links_.end()) it->second->OnPeerExited(now);
  }
}

void TcpDevice::WatchProcess(MemberId peer, const std::string& name, TimeNs now) {
  if (host_watch_ != nullptr && !name.empty()) host_watch_->Watch(peer, name, now);
}

void TcpDevice::RunTimers(TimeNs now) {
  door_.Poll(now);
  std::vector<uint64_t> late;
  for (const auto& [id, handshake] : handshakes_) {
    if (now >= handshake->deadline) late.push_back(id);
  }
  for (const uint64_t id : late) {
    const auto it = handshakes_.find(id);
    if (it == handshakes_.end()) continue;
    // A Hello that was lost would come later than the next attempt's, and take its place.
    if (it->second->dialler()) ResetAtClose(it->second->fd());
    it->second->Fail({Code::kLink, "no answer within the handshake's time"});
    FinishHandshake(id, now);
  }
  for (const auto& [peer, link] : links_) link->OnTimer(now);
  pool_.Trim(now);
}

}  // namespace ftar::transport::tcp
