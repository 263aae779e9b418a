// How much a link writes before it is the peer's turn to be read.
//
// Where both cores share a cache little is better: what is written far ahead has left the caches
// when it is read, and the kernel takes cold memory for it. Where they share none much is better:
// memory that comes back soon is still in the other core's cache, and writing that takes three
// times as long. A virtual machine's cores may go from one to the other while it runs. So it is
// little as long as writing little goes fast, and that is tried again now and then. Both ends have
// to find the same, hence no comparison of what either way costs here. Plain arithmetic; one thread
// at a time.
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
    if (!far_ && in_stretch_ > kStretchBytes / 2) NoteNear(static_cast<double>(spent) / bytes);
    if (in_stretch_ < kStretchBytes) return;
    in_stretch_ = 0;
    ++stretches_;
    far_ = near_ > kDear && stretches_ % kTryEvery != 0;
  }

 private:
  static constexpr size_t kStretchBytes = 8u << 20;
  static constexpr uint64_t kTryEvery = 8;
  // Nanoseconds a byte: with a cache in common 0.10 to 0.16 were seen, without 0.22 to 0.5.
  static constexpr double kDear = 0.2;
  static constexpr double kNewest = 0.125;  // its weight in the mean
  static constexpr double kOddMost = 2;     // a thread that did not run says nothing of memory

  void NoteNear(double now) {
    near_ = near_ == 0 ? now : near_ + kNewest * (std::min(now, kOddMost * near_) - near_);
  }

  double near_ = 0;  // what a byte costs that is written little ahead
  bool far_ = false;
  size_t in_stretch_ = 0;
  uint64_t stretches_ = 0;
};

}  // namespace ftar::transport::tcp

#endif  // FTAR_TRANSPORT_TCP_AHEAD_H_
