// What kernels cost everybody else on the GPU: blocks times the time for which they are there, as
// the host sees it.
//
// Pure; time comes in with every call and never falls. Kernels that are launched run one after the
// other, so the time from one's end to the next one's end is the next one's; several that have
// ended between two looks share what has passed.
#ifndef FTAR_DEVICE_METER_H_
#define FTAR_DEVICE_METER_H_

#include <algorithm>
#include <cstdint>
#include <deque>

#include "base/ids.h"

namespace ftar::device {

class Meter {
 public:
  void Launch(uint64_t number, int blocks, TimeNs now) {
    if (running_.empty()) since_ = now;
    running_.push_back({number, blocks});
  }

  void Done(uint64_t through, TimeNs now) {
    int64_t blocks = 0, ended = 0;
    for (; !running_.empty() && running_.front().number <= through; running_.pop_front()) {
      blocks += running_.front().blocks;
      ++ended;
    }
    if (ended == 0) return;
    block_ns_ += (now - since_) * blocks / ended;
    since_ = now;
  }

  // The resident kernel has so many blocks now; nobody may have looked for long, and it may have
  // left `stays_ns` after the last look.
  void Resident(int blocks, TimeNs stays_ns, TimeNs now) {
    block_ns_ += resident_ * std::min(now - looked_, stays_ns);
    resident_ = blocks;
    looked_ = now;
  }

  int64_t block_ns() const { return block_ns_; }

 private:
  struct Running {
    uint64_t number = 0;
    int blocks = 0;
  };
  std::deque<Running> running_;
  TimeNs since_ = 0, looked_ = 0;
  int resident_ = 0;
  int64_t block_ns_ = 0;
};

}  // namespace ftar::device

#endif  // FTAR_DEVICE_METER_H_
