#include "transport/shm/device.h"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <bit>
#include <cerrno>

#include "transport/hand_out.h"
#include "transport/lane_memory.h"
#include "transport/steady_clock.h"
#include "wire/addresses.h"

namespace ftar::transport::shm {
namespace {

constexpr uint64_t kExchangeKey = 0;
constexpr uint64_t kWatchKey = 1;
constexpr uint64_t kFirstLinkKey = 2;
constexpr int kEventsMax = 64;
// Eight frames of the largest chunk, so that a reader who holds some does not stop its writer.
constexpr size_t kRingBytesDefault = size_t{4} << 20;
constexpr TimeNs kCheckNs = 20 * kMicrosecond;
constexpr TimeNs kBackoffMinNs = kMillisecond;
constexpr TimeNs kBackoffMaxNs = 50 * kMillisecond;
constexpr TimeNs kCloseNsMax = 100 * kMillisecond;

size_t RingBytes(size_t wanted) {
  if (wanted == 0) return kRingBytesDefault;
  return std::bit_ceil(std::clamp(wanted, kRingBytesMin, kRingBytesMax));
}

}  // namespace

ShmDevice::ShmDevice(const DeviceConfig& config)
    : config_(config), ring_bytes_(RingBytes(config.shm_ring_bytes)) {}

ShmDevice::~ShmDevice() = default;

bool ShmDevice::RingHolds(size_t shm_ring_bytes, size_t payload_bytes) {
  return RecordBytes(wire::kExtBytesMax, payload_bytes) <=
         RecordBytesMax(RingBytes(shm_ring_bytes));
}

Expected<std::unique_ptr<Device>> ShmDevice::Open(const DeviceConfig& config) {
  std::unique_ptr<ShmDevice> device(new ShmDevice(config));
  if (const Status status = device->Start(); !status.ok()) return status;
  return std::unique_ptr<Device>(std::move(device));
}

Status ShmDevice::Start() {
  auto exchange = LocalExchange::Open(config_, AuthPurpose::kSegment);
  if (!exchange.ok()) return exchange.status();
  exchange_ = std::move(*exchange);
  auto watch = ProcessWatch::Create();
  if (!watch.ok()) return watch.status();
  watch_ = std::move(*watch);
  epoll_ = UniqueFd(::epoll_create1(EPOLL_CLOEXEC));
  next_key_ = kFirstLinkKey;
  if (!epoll_.valid() || !EpollAdd(exchange_->wait_fd(), kExchangeKey) ||
      !EpollAdd(watch_->event_fd(), kWatchKey)) {
    return Status::System("epoll", errno);
  }
  return {};
}

bool ShmDevice::EpollAdd(int fd, uint64_t key) {
  epoll_event event{};
  event.events = EPOLLIN | EPOLLRDHUP;
  event.data.u64 = key;
  return ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0;
}

bool ShmDevice::Reaches(const wire::MemberCard& card) const {
  return card.host_key == config_.host_key && !wire::FindAddress(card.addresses, "shm").empty();
}

// ---- the runtime's calls

Link* ShmDevice::Connect(const wire::MemberCard& peer, TimeNs now) {
  auto& entry = links_[peer.id];
  if (entry == nullptr) entry = std::make_unique<ShmLink>(this, peer.id);
  ShmLink* link = entry.get();
  link->wants_up = true;
  if (link->state() == ShmLink::State::kOpening || link->state() == ShmLink::State::kUp)
    return link;
  link->Open(true, wire::FindAddress(peer.addresses, "shm"),
             now + std::max(config_.path_retry_ns, config_.handshake_timeout_ns));
  if (revoked_.Contains(peer.id)) {
    link->Fail({Code::kPeer, "member " + ToString(peer.id) + " was dropped here for good"});
  } else {
    link->dial_at = kNever;
    Dial(link, now);
  }
  check_descriptors_ = true;
  return link;
}

void ShmDevice::Revoke(MemberId peer) {
  revoked_.Add(peer);
  Remove(peer);
}

void ShmDevice::Forget(MemberId peer) {
  const auto it = links_.find(peer);
  if (it != links_.end() && it->second->down()) Remove(peer);
}

void ShmDevice::Remove(MemberId peer) {
  std::erase_if(events_, [&](const Completion& completion) { return completion.peer == peer; });
  const auto it = links_.find(peer);
  if (it == links_.end()) return;
  if (it->second->state() == ShmLink::State::kUp) ++counters_.links_closed;
  Detach(it->second.get());
  links_.erase(it);  // unmaps; the own segment is never used again
}

Link* ShmDevice::Find(MemberId peer) {
  const auto it = links_.find(peer);
  return it == links_.end() ? nullptr : it->second.get();
}

bool ShmDevice::Poll(TimeNs now, size_t budget_bytes, std::vector<Completion>* out) {
  if (closed_) return false;
  now_ = now;
  bool any = false;
  const size_t links = up_.size();
  for (size_t i = 0; i < up_.size() && budget_bytes > 0; ++i) {
    ShmLink* link = up_[(first_link_ + i) % up_.size()];
    const size_t bytes = link->Receive(budget_bytes);
    budget_bytes -= std::min(budget_bytes, bytes);
    any = any || bytes > 0;
    if (link->busy() && link->Flush()) any = true;
    if (link->CollectLoans()) any = true;
    if (up_.size() != links) break;  // one failed; the others have their turn at the next call
  }
  // Another link begins next time, so that one busy peer cannot use up every budget.
  if (++first_link_ >= up_.size()) first_link_ = 0;
  CheckWatch();
  if (check_descriptors_ || now >= check_at_) {
    check_descriptors_ = false;
    check_at_ = now + kCheckNs;
    CheckDescriptors(now);
    RunTimers(now);
  }
  return HandOut(&events_, out) || any;
}

bool ShmDevice::PrepareSleep() {
  check_descriptors_ = true;
  for (ShmLink* link : up_) link->Nap();
  if (!events_.empty()) return false;
  return std::none_of(up_.begin(), up_.end(), [](const ShmLink* link) { return link->HasWork(); });
}

void ShmDevice::FinishSleep() {
  for (ShmLink* link : up_) link->channel()->Awake();
}

TimeNs ShmDevice::next_deadline() const {
  TimeNs deadline = exchange_->next_deadline();
  for (const auto& [peer, link] : links_)
    deadline = std::min({deadline, link->dial_at, link->give_up_at});
  return deadline;
}

Device::Counters ShmDevice::counters() const {
  Counters counters = counters_;
  counters.peers_refused += exchange_->refused_count();
  counters.bytes_kept = pool_.kept_bytes();
  return counters;
}

void ShmDevice::CloseInForkedChild() {
  for (auto& [peer, link] : links_) link->CloseInForkedChild();
  exchange_->CloseInForkedChild();
  if (watch_ != nullptr) watch_->CloseInForkedChild();
  if (config_.lanes != nullptr) config_.lanes->CloseInForkedChild();
  epoll_.Reset();
  closed_ = true;
}

void ShmDevice::Close() {
  if (closed_) return;
  const TimeNs end = SteadyNow() + kCloseNsMax;
  const auto waiting = [this] {
    return std::any_of(up_.begin(), up_.end(), [](const ShmLink* link) { return link->busy(); });
  };
  std::vector<Completion> dropped;
  for (TimeNs now = SteadyNow(); waiting() && now < end; now = SteadyNow()) {
    Poll(now, SIZE_MAX, &dropped);
    for (const Completion& completion : dropped) {
      if (completion.kind == Completion::Kind::kReceived)
        completion.link->Release(completion.token);
    }
    dropped.clear();
    if (PrepareSleep()) {
      pollfd ready{epoll_.get(), POLLIN, 0};
      ::poll(&ready, 1, 5);
    }
    FinishSleep();
  }
  for (auto& [peer, link] : links_) link->Fail({Code::kLeft, "this member closed the link"});
  events_.clear();
  exchange_->CloseInForkedChild();  // nobody is told anything
  watch_.reset();
  closed_ = true;
}

// ---- opening links

int ShmDevice::lane_fd() const { return config_.lanes != nullptr ? config_.lanes->fd() : -1; }

void ShmDevice::Dial(ShmLink* link, TimeNs now) {
  auto channel = Channel::Create(ring_bytes_);
  if (!channel.ok()) return link->Fail(channel.status());
  auto offer = (*channel)->MakeOffer(watch_->fd(), watch_->Assign(link->peer()), lane_fd());
  if (!offer.ok()) return link->Fail(offer.status());
  link->offered = std::move(*channel);
  link->ticket = exchange_->Dial(link->peer(), link->address, std::move(*offer), now);
}

// A proven peer dials us.
Expected<LocalExchange::Message> ShmDevice::Answer(MemberId peer, LocalExchange::Message message) {
  if (revoked_.Contains(peer) || peer == config_.self)
    return Status(Code::kPeer, "this member was dropped");
  auto offer = Channel::ParseOffer(message);
  if (!offer.ok()) return offer.status();
  auto& entry = links_[peer];
  if (entry == nullptr) entry = std::make_unique<ShmLink>(this, peer);
  ShmLink* link = entry.get();
  if (const auto verdict = Judge(link, peer); verdict != Channel::Verdict::kWelcome)
    return Channel::MakeVerdict(verdict);
  auto channel = Channel::Create(ring_bytes_);
  if (!channel.ok()) return channel.status();
  auto answer = (*channel)->MakeOffer(watch_->fd(), watch_->Assign(peer), lane_fd());
  if (!answer.ok()) return answer.status();
  FTAR_RETURN_IF_ERROR(Join(link, std::move(*channel), *offer, &message, UniqueFd()));
  return answer;
}

Channel::Verdict ShmDevice::Judge(ShmLink* link, MemberId peer) {
  // Both dialled: the lower id's dial goes on.
  if (link->state() == ShmLink::State::kOpening && link->dialler && config_.self < peer)
    return Channel::Verdict::kCollision;
  // The peer begins anew before we have noticed that it ended: we shall, in a moment.
  if (link->state() == ShmLink::State::kUp) return Channel::Verdict::kTryAgain;
  return Channel::Verdict::kWelcome;
}

void ShmDevice::OnResult(LocalExchange::Result result, TimeNs now) {
  const auto it = links_.find(result.peer);
  if (it == links_.end()) return;
  ShmLink* link = it->second.get();
  if (result.ticket == 0) {
    // Our answer is out and the link up since then; from now on the socket's end is the link's.
    if (link->state() != ShmLink::State::kUp || link->dialler || link->channel()->socket() >= 0)
      return;
    if (!result.status.ok()) return link->Fail(result.status);
    link->channel()->set_socket(std::move(result.socket));
    return ListenTo(link);
  }
  if (link->state() != ShmLink::State::kOpening || link->ticket != result.ticket) return;
  link->ticket = 0;
  if (!result.status.ok()) return OnDialFailed(link, result, now);
  auto offer = Channel::ParseOffer(result.message);
  if (!offer.ok()) return link->Fail(offer.status());
  if (offer->verdict == Channel::Verdict::kCollision) {
    link->dialler = false;  // the peer's dial is on its way
    return;
  }
  if (offer->verdict == Channel::Verdict::kTryAgain) {
    result.status = Status(Code::kLink, "the peer has not noticed yet that the old link is gone");
    return OnDialFailed(link, result, now);
  }
  if (const Status status =
          Join(link, link->offered, *offer, &result.message, std::move(result.socket));
      !status.ok()) {
    return link->Fail(status);
  }
  ListenTo(link);
}

void ShmDevice::OnDialFailed(ShmLink* link, const LocalExchange::Result& result, TimeNs now) {
  link->last_trouble = result.status.text();
  if (result.final_failure) return link->Fail(result.status);
  if (result.refused)
    return link->Fail(
        {Code::kPeer, "nobody listens at " + link->address + ": the process is gone"});
  // One hang-up may be the peer's death; two are an opinion about our token.
  if (result.rejected_after_proof && ++link->auth_rejections >= 2) return link->Fail(result.status);
  link->dial_at = now + link->backoff_ns;
  link->backoff_ns = std::clamp(link->backoff_ns * 2, kBackoffMinNs, kBackoffMaxNs);
}

Status ShmDevice::Join(ShmLink* link, std::shared_ptr<Channel> channel, const Channel::Offer& offer,
                       LocalExchange::Message* message, UniqueFd socket) {
  const bool accepted = !socket.valid();
  FTAR_RETURN_IF_ERROR(channel->Attach(offer, message, std::move(socket), config_.exports));
  FTAR_RETURN_IF_ERROR(watch_->Add(link->peer(), std::move(message->fds[2]), offer.watch_index));
  const uint64_t doorbell_key = next_key_++;
  if (!EpollAdd(channel->doorbell(), doorbell_key)) return Status::System("epoll_ctl", errno);
  // Without its lane there are the frames.
  if (offer.has_lane != 0 && config_.lanes != nullptr)
    static_cast<void>(config_.lanes->Map(link->peer(), message->fds[3]));
  if (accepted) {
    if (link->ticket != 0) exchange_->Abandon(std::exchange(link->ticket, 0));
    link->Open(false, "", kNever);
  }
  link->doorbell_key = doorbell_key;
  link->socket_key = next_key_++;
  sources_[link->doorbell_key] = Source{link, true};
  up_.push_back(link);
  link->Attach(std::move(channel));
  return {};
}

void ShmDevice::ListenTo(ShmLink* link) {
  if (link->state() != ShmLink::State::kUp) return;
  if (!EpollAdd(link->channel()->socket(), link->socket_key))
    return link->Fail(Status::System("epoll_ctl", errno));
  sources_[link->socket_key] = Source{link, false};
  link->BeginToBorrow();
}

void ShmDevice::Detach(ShmLink* link) {
  std::erase(up_, link);
  if (link->ticket != 0) exchange_->Abandon(std::exchange(link->ticket, 0));
  if (watch_ != nullptr) watch_->Remove(link->peer());
  sources_.erase(link->doorbell_key);
  sources_.erase(link->socket_key);
  if (link->channel() == nullptr) return;
  for (const int fd : {link->channel()->doorbell(), link->channel()->socket()}) {
    if (fd >= 0) ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
  }
}

// ---- events

void ShmDevice::CheckWatch() {
  exited_.clear();
  watch_->Poll(&exited_);
  for (const MemberId peer : exited_) {
    const auto it = links_.find(peer);
    if (it != links_.end())
      it->second->OnPeerGone(true, {Code::kPeer, "the peer's process has exited"});
  }
}

void ShmDevice::LoseAll(const Status& why) {
  for (const auto& [peer, link] : links_) link->Fail(why);
}

void ShmDevice::CheckDescriptors(TimeNs now) {
  epoll_event events[kEventsMax];
  const int count = ::epoll_wait(epoll_.get(), events, kEventsMax, 0);
  if (count < 0 && errno != EINTR) LoseAll(Status::System("epoll_wait", errno));
  bool exchange = exchange_->next_deadline() <= now;
  for (int i = 0; i < count; ++i) {
    const uint64_t key = events[i].data.u64;
    if (key == kExchangeKey) exchange = true;
    const auto it = sources_.find(key);
    if (it == sources_.end()) continue;
    ShmLink* link = it->second.link;
    if (it->second.doorbell) {
      link->channel()->ClearDoorbell();
      continue;
    }
    const Borrower::Socket socket = link->ListenForBlocks();
    if (socket == Borrower::Socket::kOpen) continue;
    if (socket == Borrower::Socket::kCorrupt) {
      link->Fail({Code::kCorrupt, "the peer's word about its memory makes no sense"});
      continue;
    }
    // Closed. If the process is dead its lock word says so by now.
    CheckWatch();
    if (sources_.contains(key)) link->OnPeerGone(false, {Code::kPeer, "the peer closed the link"});
  }
  if (!exchange) return;
  std::vector<LocalExchange::Result> results;
  exchange_->Poll(
      now,
      [this](MemberId peer, LocalExchange::Message message) {
        return Answer(peer, std::move(message));
      },
      &results);
  for (LocalExchange::Result& result : results) OnResult(std::move(result), now);
}

void ShmDevice::RunTimers(TimeNs now) {
  for (auto& [peer, link] : links_) {
    if (link->state() != ShmLink::State::kOpening) continue;
    if (now >= link->give_up_at) {
      link->Fail(
          {Code::kLink, "no answer at " + link->address +
                            (link->last_trouble.empty() ? "" : "; last: " + link->last_trouble)});
    } else if (now >= link->dial_at) {
      link->dial_at = kNever;
      Dial(link.get(), now);
    }
  }
  pool_.Trim(now);
}

}  // namespace ftar::transport::shm
