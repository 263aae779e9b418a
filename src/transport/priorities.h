// How urgent groups are: whose data goes first where data of several groups waits, in a link and
// above it. One table a job, which its devices read. Guarded by whoever drives them.
#ifndef FTAR_TRANSPORT_PRIORITIES_H_
#define FTAR_TRANSPORT_PRIORITIES_H_

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <vector>

#include "wire/frame.h"

namespace ftar::transport {

class Priorities {
 public:
  // False: all groups are alike, and nobody need ask for each.
  bool any() const { return !groups_.empty(); }

  // 0 unless it was set. Larger is more urgent.
  int32_t Of(uint32_t group) const {
    for (const Entry& entry : groups_) {
      if (entry.group == group) return entry.priority;
    }
    return 0;
  }

  // Of all groups, those without an entry included.
  int32_t highest() const {
    int32_t highest = 0;
    for (const Entry& entry : groups_) highest = std::max(highest, entry.priority);
    return highest;
  }

  // Holds for what waits already as well, so that a group's own data keeps its order.
  void Set(uint32_t group, int32_t priority) {
    std::erase_if(groups_, [group](const Entry& entry) { return entry.group == group; });
    if (priority != 0) groups_.push_back({group, priority});
  }

 private:
  struct Entry {
    uint32_t group = 0;
    int32_t priority = 0;
  };
  std::vector<Entry> groups_;  // few
};

inline bool IsData(const wire::FrameHeader& header) {
  return header.kind != wire::FrameKind::kControl && header.kind != wire::FrameKind::kAck;
}

// Before what of `queue` a frame goes that comes to it. An ack passes the data that waits: whoever
// waits for it would wait for a later operation's bytes as well. Acks and control frames keep their
// order among themselves. Data passes data of less urgent groups, up to the last word: what that
// announces comes first (rule J3). `priorities`: null for none.
template <typename Queue, typename HeaderOf>
auto PlaceInQueue(const wire::FrameHeader& header, const Priorities* priorities, Queue& queue,
                  HeaderOf header_of) {
  auto at = queue.end();
  const auto behind_data = [&] { return at != queue.begin() && IsData(header_of(*std::prev(at))); };
  if (header.kind == wire::FrameKind::kAck) {
    while (behind_data()) --at;
  } else if (priorities != nullptr && priorities->any() && IsData(header)) {
    const int32_t priority = priorities->Of(header.group);
    while (behind_data() && priorities->Of(header_of(*std::prev(at)).group) < priority) --at;
  }
  return at;
}

}  // namespace ftar::transport

#endif  // FTAR_TRANSPORT_PRIORITIES_H_
