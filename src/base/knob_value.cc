#include "base/knob_value.h"

#include <charconv>

#include "base/ids.h"

namespace ftar {
namespace {

struct Unit {
  std::string_view name;
  int64_t size;
};
// Largest first, as formatting wants it; several names for one unit are accepted, the first is
// written.
constexpr Unit kDurations[] = {{"h", 3600 * kSecond},
                               {"min", 60 * kSecond},
                               {"m", 60 * kSecond},
                               {"s", kSecond},
                               {"ms", kMillisecond},
                               {"us", kMicrosecond},
                               {"ns", 1}};
constexpr Unit kByteUnits[] = {{"GiB", 1 << 30}, {"G", 1 << 30}, {"MiB", 1 << 20}, {"M", 1 << 20},
                               {"KiB", 1 << 10}, {"K", 1 << 10}, {"B", 1}};

template <size_t N>
std::string FormatUnits(const Unit (&units)[N], int64_t value, std::string_view zero) {
  if (value == 0) return std::string(zero);
  for (const Unit& unit : units) {
    if (value % unit.size == 0) return std::to_string(value / unit.size) + std::string(unit.name);
  }
  return std::to_string(value);
}

// Splits "1.5s" into a number and a unit and multiplies. False if the text is no such thing or too
// large.
template <size_t N>
bool ParseUnits(const Unit (&units)[N], std::string_view text, bool bare_allowed, int64_t* out) {
  double number = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number, std::chars_format::fixed);
  if (error != std::errc() || !(number >= 0)) return false;
  const std::string_view name(rest, static_cast<size_t>(end - rest));
  int64_t size = 0;
  if (name.empty()) size = bare_allowed || number == 0 ? 1 : 0;
  for (const Unit& unit : units) {
    if (name == unit.name) size = unit.size;
  }
  if (size == 0 || number * static_cast<double>(size) >= 9e18) return false;
  *out = static_cast<int64_t>(number * static_cast<double>(size) + 0.5);
  return true;
}

bool ParseInteger(std::string_view text, int64_t* out) {
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, *out);
  return error == std::errc() && rest == end;
}

// The place of `text` among "a|b|c", or -1.
int IndexOfWord(std::string_view words, std::string_view text) {
  for (int index = 0;; ++index) {
    const size_t bar = words.find('|');
    if (!text.empty() && words.substr(0, bar) == text) return index;
    if (bar == std::string_view::npos) return -1;
    words.remove_prefix(bar + 1);
  }
}

std::string Accepted(const Knob& knob) {
  const std::string extra = *knob.words ? std::string(", or ") + knob.words : std::string();
  switch (knob.type) {
    case KnobType::kDuration:
      return "a duration with a unit like 10s, 250ms or 5min, from " + FormatDuration(knob.min) +
             " to " + FormatDuration(knob.max) + extra;
    case KnobType::kBytes:
      return "a size like 65536, 64KiB or 1MiB, from " + FormatBytes(knob.min) + " to " +
             FormatBytes(knob.max) + extra;
    case KnobType::kInteger:
      return "a whole number from " + std::to_string(knob.min) + " to " + std::to_string(knob.max) +
             extra;
    case KnobType::kEnum: return std::string("one of ") + knob.words;
    case KnobType::kFlag: return "on or off";
    case KnobType::kPortRange: return "a port or a range like 4000-4100";
    case KnobType::kString: return "text without control characters";
  }
  return "?";
}

bool ParsePorts(const Knob& knob, std::string_view text, KnobValue* value) {
  if (text.empty()) return true;
  const size_t dash = text.find('-');
  if (!ParseInteger(text.substr(0, dash), &value->number)) return false;
  value->last_port = value->number;
  if (dash != std::string_view::npos && !ParseInteger(text.substr(dash + 1), &value->last_port))
    return false;
  value->text = std::to_string(value->number) + "-" + std::to_string(value->last_port);
  return value->number >= knob.min && value->last_port <= knob.max &&
         value->number <= value->last_port;
}

bool ParseFlag(std::string_view text, KnobValue* value) {
  const bool on = text == "on" || text == "1" || text == "true" || text == "yes";
  if (!on && text != "off" && text != "0" && text != "false" && text != "no") return false;
  value->number = on;
  value->text = on ? "on" : "off";
  return true;
}

bool ParseText(std::string_view text, KnobValue* value) {
  for (const char c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) return false;
  }
  value->text = text;
  return true;
}

bool ParseNumber(const Knob& knob, std::string_view text, KnobValue* value) {
  bool good = false;
  if (knob.type == KnobType::kDuration) {
    good = ParseUnits(kDurations, text, false, &value->number);
    value->text = FormatDuration(value->number);
  } else if (knob.type == KnobType::kBytes) {
    good = ParseUnits(kByteUnits, text, true, &value->number);
    value->text = FormatBytes(value->number);
  } else {
    good = ParseInteger(text, &value->number);
    value->text = std::to_string(value->number);
  }
  return good && value->number >= knob.min && value->number <= knob.max;
}

bool ParseEnum(const Knob& knob, std::string_view text, KnobValue* value) {
  value->number = IndexOfWord(knob.words, text);
  value->text = text;
  return value->number >= 0;
}

bool Parse(const Knob& knob, std::string_view text, KnobValue* value) {
  if (knob.type != KnobType::kEnum && IndexOfWord(knob.words, text) >= 0) {
    value->word = true;
    value->text = text;
    return true;
  }
  switch (knob.type) {
    case KnobType::kEnum: return ParseEnum(knob, text, value);
    case KnobType::kFlag: return ParseFlag(text, value);
    case KnobType::kString: return ParseText(text, value);
    case KnobType::kPortRange: return ParsePorts(knob, text, value);
    default: return ParseNumber(knob, text, value);
  }
}

}  // namespace

Expected<KnobValue> ParseKnob(const Knob& knob, std::string_view text) {
  KnobValue value;
  if (Parse(knob, text, &value)) return value;
  const std::string shown = knob.secret ? "(hidden)" : "'" + std::string(text.substr(0, 64)) + "'";
  return Status(Code::kConfig, knob.name,
                std::string(knob.name) + " is " + shown + "; it must be " + Accepted(knob));
}

std::string FormatDuration(int64_t ns) { return FormatUnits(kDurations, ns, "0s"); }

std::string FormatBytes(int64_t bytes) { return FormatUnits(kByteUnits, bytes, "0B"); }

}  // namespace ftar
