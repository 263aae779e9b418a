// How much a link writes before it is the peer's turn to be read.
//
// Where both cores share a cache little is better: what is written far ahead has left the caches
// when it is read, and the kernel takes cold memory for it. Where they share none much is better:
// memory that comes back soon is still in the other core's cache, and writing that takes three
// times as long. A virtual machine's cores may go from one to the other while it runs. So what
// writing costs is measured both ways, and the way that does not seem better is tried again now
// and then. Plain arithmetic; one thread at a time.
#ifndef FTAR_TRANSPORT_TCP_AHEAD_H_
#define FTAR_TRANSPORT_TCP_AHEAD_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/ids.h"

namespace ftar::transport::tcp {

class Ahead {
 public:
  static constexpr size_t kNearBytes = 512u << 10, kFarBytes = 4u << 20;
  // What is written at least, for it to say anything of memory.
  static constexpr size_t kTellingBytes = 64u << 10;

  size_t bytes() const { return far_ ? kFarBytes : kNearBytes; }

  // Of a write behind which more waits: all others are the same either way.
  void Note(size_t bytes, TimeNs spent) {
    if (bytes < kTellingBytes) return;
    in_stretch_ += bytes;
    // At first what is measured is the memory that the other way has left behind.
    if (in_stretch_ > kStretchBytes / 2) NoteCost(static_cast<double>(spent) / bytes);
    if (in_stretch_ < kStretchBytes) return;
    in_stretch_ = 0;
    ++stretches_;
    const bool better = cost_[1] > 0 && cost_[1] < kWorth * cost_[0];
    far_ = stretches_ % kTryEvery == 1 ? !better : better;
  }

 private:
  static constexpr size_t kStretchBytes = 16u << 20;
  static constexpr uint64_t kTryEvery = 16;
  static constexpr double kWorth = 0.7;     // what it must spare, as reading takes longer then
  static constexpr double kNewest = 0.125;  // its weight in the mean
  static constexpr double kOddMost = 8;     // a thread that did not run says nothing of memory

  void NoteCost(double now) {
    double& mean = cost_[far_ ? 1 : 0];
    mean = mean == 0 ? now : mean + kNewest * (std::min(now, kOddMost * mean) - mean);
  }

  double cost_[2] = {};  // nanoseconds a byte; near, far
  bool far_ = false;
  size_t in_stretch_ = 0;
  uint64_t stretches_ = 0;
};

}  // namespace ftar::transport::tcp

#endif  // FTAR_TRANSPORT_TCP_AHEAD_H_
