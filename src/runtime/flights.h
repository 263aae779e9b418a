// Sends whose payload is read where it lies, until they are over. Whoever looks for those of an
// operation, or of a peer, looks through those that are under way, however many there once were.
// Not synchronised.
#ifndef FTAR_RUNTIME_FLIGHTS_H_
#define FTAR_RUNTIME_FLIGHTS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/ids.h"
#include "base/slot_table.h"
#include "collective/types.h"

namespace ftar::runtime {

struct Flight {
  MemberId to;
  GroupKey group = 0;
  Seq seq = 0;
  collective::BufferRef payload;

  bool belongs_to(GroupKey of, Seq number) const { return group == of && seq == number; }
};

class Flights {
 public:
  // Names it; never 0.
  uint64_t Start(const Flight& flight) {
    const uint64_t cookie = places_.Add(live_.size());
    live_.push_back({flight, cookie});
    return cookie;
  }

  // Nothing: it is over already. A send that was cancelled may still be said to have left.
  std::optional<Flight> End(uint64_t cookie) {
    const size_t* const place = places_.Find(cookie);
    if (place == nullptr) return {};
    return EndAt(*place);
  }

  // From place `*at` on, one that is wanted; to be asked again until there is none.
  template <typename Wanted>
  std::optional<Flight> EndNext(size_t* at, const Wanted& wanted) {
    for (; *at < live_.size(); ++*at) {
      if (wanted(live_[*at].flight)) return EndAt(*at);
    }
    return {};
  }

  bool empty() const { return live_.empty(); }
  bool Has(GroupKey group, Seq seq) const {
    return std::any_of(live_.begin(), live_.end(),
                       [&](const Live& live) { return live.flight.belongs_to(group, seq); });
  }

 private:
  struct Live {
    Flight flight;
    uint64_t cookie = 0;
  };

  // The last one takes its place.
  Flight EndAt(size_t place) {
    places_.Remove(live_[place].cookie);
    const Flight over = live_[place].flight;
    live_[place] = live_.back();
    if (place + 1 < live_.size()) *places_.Find(live_[place].cookie) = place;
    live_.pop_back();
    return over;
  }

  std::vector<Live> live_;
  SlotTable<size_t> places_;
};

}  // namespace ftar::runtime

#endif  // FTAR_RUNTIME_FLIGHTS_H_
