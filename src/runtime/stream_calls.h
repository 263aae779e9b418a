// What is known of calls on users' streams while they wait for each other: how many calls are held
// until their stream comes to them, which streams wait for operations, and how often somebody
// looks. Under the job's lock.
#ifndef FTAR_RUNTIME_STREAM_CALLS_H_
#define FTAR_RUNTIME_STREAM_CALLS_H_

#include <algorithm>
#include <cstddef>
#include <map>

#include "base/ids.h"
#include "device/gpu.h"

namespace ftar::runtime {

// Calls that their streams have not come to, in all groups, and those that are being put there.
class StreamCalls {
 public:
  void Hold(TimeNs now) {
    ++held_;
    came_ns_ = look_ns_ = now;
  }
  void HoldReady() { ++held_; }  // its stream is there
  void LetGo(size_t calls) { held_ -= calls; }
  bool holds() const { return held_ > 0; }

  void Enter() { ++entering_; }
  bool LeaveAsLast() { return --entering_ == 0; }

  // Streams have come to all calls that were made on them.
  bool arrived() const { return held_ == 0 && entering_ == 0; }

  // When somebody looks next whether a stream has come: more rarely the longer none has.
  TimeNs look_ns() const { return look_ns_; }
  void LookAt(TimeNs when) { look_ns_ = when; }
  void Looked(TimeNs now, bool came) {
    if (came) came_ns_ = now;
    look_ns_ = now + std::clamp((now - came_ns_) / 16, kLookMinNs, kLookMaxNs);
  }

 private:
  static constexpr TimeNs kLookMinNs = 10 * kMicrosecond;
  static constexpr TimeNs kLookMaxNs = 500 * kMicrosecond;

  size_t held_ = 0, entering_ = 0;
  TimeNs came_ns_ = 0;
  TimeNs look_ns_ = kNever;
};

// Streams that wait for operations, and for how many.
class ClosedGates {
 public:
  bool none() const { return gates_.empty(); }
  size_t streams() const { return gates_.size(); }
  size_t On(device::StreamHandle stream) const {
    const auto closed = gates_.find(stream);
    return closed == gates_.end() ? 0 : closed->second;
  }
  void Close(device::StreamHandle stream) { ++gates_[stream]; }
  void Open(device::StreamHandle stream) {
    const auto closed = gates_.find(stream);
    if (--closed->second == 0) gates_.erase(closed);
  }

 private:
  std::map<device::StreamHandle, size_t> gates_;
};

}  // namespace ftar::runtime

#endif  // FTAR_RUNTIME_STREAM_CALLS_H_
