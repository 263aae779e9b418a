// Where an operation is carried out, as far as plans and pieces depend on it. Plain value.
#ifndef FTAR_PLAN_GROUND_H_
#define FTAR_PLAN_GROUND_H_

#include <cstdint>

namespace ftar::plan {

// What a message costs its sender and its receiver on a wire, whatever it carries. Of this library
// and the kernel's TCP, on cores of today; what differs from place to place is measured.
inline constexpr uint64_t kMessageNs = 3000;

struct Ground {
  int members = 1;
  bool crowded = false;  // there are more members than cores somewhere
  bool wired = false;    // what is sent is copied, and nobody reads it where it lies
  bool lane = false;     // what is longer than a line's input is shared in a lane
  bool shared = false;   // this operation is, where it is alone
  // Of the wires; 0: not known.
  uint32_t round_ns = 0, byte_ps = 0;
};

}  // namespace ftar::plan

#endif  // FTAR_PLAN_GROUND_H_
