// Whoever knocks at a listener while descriptors have run out. A connection that stays in the queue
// would keep the listener, and so its owner, ready for ever: it is taken and closed through a spare
// descriptor, or, where even that cannot be had, left alone for a while.
#ifndef FTAR_TRANSPORT_DOORKEEPER_H_
#define FTAR_TRANSPORT_DOORKEEPER_H_

#include <cstdint>

#include "base/ids.h"
#include "transport/fd.h"

namespace ftar::transport {

class Doorkeeper {
 public:
  // The listener is in the epoll set, under that key; both stay the owner's.
  void Open(int epoll, int listener, uint64_t key);
  // Also in a forked child. The spare one may stand for the listener.
  void Close() { spare_.Reset(); }

  void Refuse(TimeNs now);
  void Pause(TimeNs now);
  void Poll(TimeNs now) {
    if (now >= again_ns_) ListenAgain();
  }
  TimeNs next_deadline() const { return again_ns_; }

 private:
  void ListenAgain();
  void ListenFor(uint32_t events);

  int epoll_ = -1, listener_ = -1;
  uint64_t key_ = 0;
  UniqueFd spare_;
  TimeNs again_ns_ = kNever;
};

}  // namespace ftar::transport

#endif  // FTAR_TRANSPORT_DOORKEEPER_H_
