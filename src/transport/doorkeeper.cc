#include "transport/doorkeeper.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <cerrno>

namespace ftar::transport {
namespace {

constexpr TimeNs kAgainNs = 100 * kMillisecond;

}  // namespace

void Doorkeeper::Open(int epoll, int listener, uint64_t key) {
  epoll_ = epoll;
  listener_ = listener;
  key_ = key;
  spare_.Reset(::fcntl(listener_, F_DUPFD_CLOEXEC, 0));
}

void Doorkeeper::Refuse(TimeNs now) {
  spare_.Reset();
  bool refused = false;
  {
    const UniqueFd fd(::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC));
    refused = fd.valid() || errno == EAGAIN;
  }
  spare_.Reset(::fcntl(listener_, F_DUPFD_CLOEXEC, 0));
  // Another thread has taken the spare one, or the limit is below what is open.
  if (!refused) Pause(now);
}

// What cannot even be refused would keep the owner up for as long as that lasts.
void Doorkeeper::Pause(TimeNs now) {
  ListenFor(0);
  again_ns_ = now + kAgainNs;
}

void Doorkeeper::ListenAgain() {
  again_ns_ = kNever;
  if (!spare_.valid()) spare_.Reset(::fcntl(listener_, F_DUPFD_CLOEXEC, 0));
  ListenFor(EPOLLIN);
}

void Doorkeeper::ListenFor(uint32_t events) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = key_;
  ::epoll_ctl(epoll_, EPOLL_CTL_MOD, listener_, &event);
}

}  // namespace ftar::transport
