// When the members of an operation came to it, as one of them sees it: the first byte of each
// other's own input, and its own call. What is made of several inputs tells nothing of them.
#ifndef FTAR_COLLECTIVE_ARRIVALS_H_
#define FTAR_COLLECTIVE_ARRIVALS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/ids.h"

namespace ftar::collective {

class Arrivals {
 public:
  struct Latest {
    size_t position = 0;
    TimeNs skew_ns = 0;  // since the first one came
  };

  void Begin(size_t members) {
    came_.assign(members, false);
    others_ = 0;
  }
  void Note(size_t position, TimeNs now) {
    if (position >= came_.size() || came_[position]) return;
    came_[position] = true;
    first_ns_ = others_ == 0 ? now : std::min(first_ns_, now);
    if (others_ == 0 || now >= last_ns_) {
      last_ns_ = now;
      last_ = position;
    }
    ++others_;
  }
  // Nothing where not everybody's own input comes here: any of the others may have been last.
  std::optional<Latest> Last(size_t me, TimeNs called_ns) const {
    if (others_ == 0 || others_ + 1 < came_.size()) return {};
    const bool is_me = called_ns >= last_ns_;
    return Latest{is_me ? me : last_,
                  std::max(last_ns_, called_ns) - std::min(first_ns_, called_ns)};
  }

 private:
  std::vector<uint8_t> came_;  // by position
  size_t others_ = 0, last_ = 0;
  TimeNs first_ns_ = 0, last_ns_ = 0;
};

}  // namespace ftar::collective

#endif  // FTAR_COLLECTIVE_ARRIVALS_H_
