#include "base/ids.h"

namespace ftar {

std::string ToString(MemberId id) { return ToFullString(id).substr(0, 8); }

std::string ToFullString(MemberId id) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string out;
  for (const uint64_t half : {id.hi, id.lo}) {
    for (int shift = 60; shift >= 0; shift -= 4) out += kDigits[half >> shift & 15];
  }
  return out;
}

}  // namespace ftar
