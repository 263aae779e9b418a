#include "base/ids.h"

namespace ftar {

std::string ToString(MemberId id) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string out(8, '0');
  for (int i = 0; i < 8; ++i) out[i] = kDigits[id.hi >> (60 - 4 * i) & 15];
  return out;
}

}  // namespace ftar
