// What kernels cost everybody else on the GPU: blocks times the time for which they are there, as
// the host sees it.
//
// Pure; time comes in with every call and never falls. Kernels that are launched run one after the
// other, so the time from one's end to the next one's end is the next one's; several that have
// ended between two looks share what has passed. Several may go out as one launch, of more blocks:
// who asks says how many they were in the end.
#ifndef FTAR_DEVICE_METER_H_
#define FTAR_DEVICE_METER_H_

#include <algorithm>
#include <cstdint>

#include "base/ids.h"

namespace ftar::device {

class Meter {
 public:
  // Numbers follow each other, from 1.
  void Launch(uint64_t number, TimeNs now) {
    if (ended_ == launched_) since_ = now;
    launched_ = number;
  }

  // `blocks_of(number)`: of the launch that it went out with.
  template <typename BlocksOf>
  void Done(uint64_t through, const BlocksOf& blocks_of, TimeNs now) {
    int64_t blocks = 0, ended = 0;
    for (; ended_ < std::min(through, launched_); ++ended) blocks += blocks_of(++ended_);
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
  uint64_t launched_ = 0, ended_ = 0;  // through these numbers
  TimeNs since_ = 0, looked_ = 0;
  int resident_ = 0;
  int64_t block_ns_ = 0;
};

}  // namespace ftar::device

#endif  // FTAR_DEVICE_METER_H_
