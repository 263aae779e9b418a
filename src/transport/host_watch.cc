#include "transport/host_watch.h"

#include <fcntl.h>
#include <sys/epoll.h>

#include <cerrno>
#include <cstring>

namespace ftar::transport {
namespace {

bool EpollAdd(int epoll, int fd) {
  epoll_event event{};
  event.events = EPOLLIN;
  return ::epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0;
}

}  // namespace

Expected<std::unique_ptr<HostWatch>> HostWatch::Open(const DeviceConfig& config) {
  std::unique_ptr<HostWatch> watch(new HostWatch);
  auto exchange = LocalExchange::Open(config, AuthPurpose::kWatch);
  if (!exchange.ok()) return exchange.status();
  watch->exchange_ = std::move(*exchange);
  watch->epoll_ = UniqueFd(::epoll_create1(EPOLL_CLOEXEC));
  if (!watch->epoll_.valid() || !EpollAdd(watch->epoll_.get(), watch->exchange_->wait_fd())) {
    return Status::System("epoll", errno);
  }
  return watch;
}

Status HostWatch::Ensure() {
  if (watch_ != nullptr) return {};
  auto watch = ProcessWatch::Create();
  if (!watch.ok()) return watch.status();
  if (!EpollAdd(epoll_.get(), (*watch)->event_fd())) return Status::System("epoll_ctl", errno);
  watch_ = std::move(*watch);
  return {};
}

void HostWatch::Watch(MemberId peer, const std::string& name, TimeNs now) {
  if (Watches(peer) || forgotten_.Contains(peer)) return;
  auto offer = MakeOffer(peer);
  if (offer.ok()) exchange_->Dial(peer, name, std::move(*offer), now);
}

void HostWatch::Forget(MemberId peer) {
  forgotten_.Add(peer);
  Remove(peer);
}

void HostWatch::Remove(MemberId peer) {
  if (watch_ != nullptr) watch_->Remove(peer);
}

void HostWatch::Poll(TimeNs now, bool ready, std::vector<MemberId>* exited) {
  if (ready || now >= exchange_->next_deadline()) {
    std::vector<LocalExchange::Result> results;
    const auto answer = [this](MemberId peer,
                               LocalExchange::Message message) -> Expected<LocalExchange::Message> {
      if (forgotten_.Contains(peer)) return Status(Code::kPeer, "this member was dropped");
      FTAR_RETURN_IF_ERROR(Ensure());
      FTAR_RETURN_IF_ERROR(Take(peer, std::move(message)));
      return MakeOffer(peer);
    };
    exchange_->Poll(now, answer, &results);
    for (LocalExchange::Result& result : results) {
      if (result.ticket == 0 || !result.status.ok() || forgotten_.Contains(result.peer)) continue;
      // Without a proper answer there is no proof of this peer's death, as with a peer on another
      // host.
      static_cast<void>(Take(result.peer, std::move(result.message)));
    }
  }
  if (watch_ != nullptr) watch_->Poll(exited);
}

Expected<LocalExchange::Message> HostWatch::MakeOffer(MemberId peer) {
  FTAR_RETURN_IF_ERROR(Ensure());
  Offer offer;
  offer.index = watch_->Assign(peer);
  LocalExchange::Message message;
  message.bytes.resize(sizeof offer);
  std::memcpy(message.bytes.data(), &offer, sizeof offer);
  message.fds.emplace_back(::fcntl(watch_->fd(), F_DUPFD_CLOEXEC, 0));
  if (!message.fds.back().valid()) return Status::System("duplicating a descriptor", errno);
  return message;
}

Status HostWatch::Take(MemberId peer, LocalExchange::Message message) {
  Offer offer;
  if (message.bytes.size() != sizeof offer || message.fds.size() != 1)
    return {Code::kPeer, "malformed watch offer"};
  std::memcpy(&offer, message.bytes.data(), sizeof offer);
  if (offer.magic != Offer::kMagic) return {Code::kPeer, "malformed watch offer"};
  return watch_->Add(peer, std::move(message.fds[0]), offer.index);
}

void HostWatch::CloseInForkedChild() {
  exchange_->CloseInForkedChild();
  if (watch_ != nullptr) watch_->CloseInForkedChild();
  epoll_.Reset();
}

}  // namespace ftar::transport
