// What a device's Poll does at its end.
#ifndef FTAR_TRANSPORT_HAND_OUT_H_
#define FTAR_TRANSPORT_HAND_OUT_H_

#include <iterator>
#include <vector>

#include "transport/transport.h"

namespace ftar::transport {

// Behind what is in `out`; `events` is empty then. True: there were any.
inline bool HandOut(std::vector<Completion>* events, std::vector<Completion>* out) {
  if (events->empty()) return false;
  if (out->empty()) {
    out->swap(*events);
  } else {
    out->insert(out->end(), std::make_move_iterator(events->begin()),
                std::make_move_iterator(events->end()));
  }
  events->clear();
  return true;
}

}  // namespace ftar::transport

#endif  // FTAR_TRANSPORT_HAND_OUT_H_
