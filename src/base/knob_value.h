// Text to value and back for one knob. Pure; any thread.
#ifndef FTAR_BASE_KNOB_VALUE_H_
#define FTAR_BASE_KNOB_VALUE_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "base/knobs.h"
#include "base/status.h"

namespace ftar {

struct KnobValue {
  int64_t number = 0;     // ns, bytes, integer, 0/1 of a flag, index of an enum's word, first port
  int64_t last_port = 0;  // port ranges only
  bool word = false;      // the knob's extra word ("auto", "off") was given: `number` is 0
  std::string text;       // canonical: equal values have equal texts ("1000ms" becomes "1s")
};

// The error is Code::kConfig with the knob's name as argument and says what would be accepted.
Expected<KnobValue> ParseKnob(const Knob& knob, std::string_view text);

// "10s", "250ms", "1.5s" and so on; the largest unit that is exact.
std::string FormatDuration(int64_t ns);
std::string FormatBytes(int64_t bytes);

}  // namespace ftar

#endif  // FTAR_BASE_KNOB_VALUE_H_
