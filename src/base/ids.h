// Identifiers and units that every room shares. Plain values, no behaviour beyond order and text.
#ifndef FTAR_BASE_IDS_H_
#define FTAR_BASE_IDS_H_

#include <compare>
#include <cstdint>
#include <functional>
#include <string>

namespace ftar {

// Monotonic nanoseconds from an arbitrary start. Pure rooms receive it as an argument and never ask
// a clock.
using TimeNs = int64_t;
inline constexpr TimeNs kNever = INT64_MAX;
inline constexpr TimeNs kMicrosecond = 1'000;
inline constexpr TimeNs kMillisecond = 1'000'000;
inline constexpr TimeNs kSecond = 1'000'000'000;

// When `span` (0 at least) is over; a span for ever may be any large number.
constexpr TimeNs After(TimeNs now, TimeNs span) {
  return span > kNever - now ? kNever : now + span;
}

// A member's incarnation: random, new at every start, never reused.
struct MemberId {
  uint64_t hi = 0;
  uint64_t lo = 0;
  auto operator<=>(const MemberId&) const = default;
  bool valid() const { return hi != 0 || lo != 0; }
};
std::string ToString(MemberId id);      // the first 8 hex digits, enough for a log
std::string ToFullString(MemberId id);  // all 32, of one that nobody here knows

// An epoch id orders views: the coordinator's counter above, its incarnation in the low 16 bits
// (rule Q1). 0 is "none".
using Epoch = uint64_t;
constexpr Epoch MakeEpoch(uint64_t counter, uint16_t incarnation) {
  return counter << 16 | incarnation;
}
constexpr uint64_t EpochCounter(Epoch e) { return e >> 16; }
constexpr uint16_t EpochIncarnation(Epoch e) { return static_cast<uint16_t>(e); }

using Seq = uint64_t;
inline constexpr Seq kNoSeq = UINT64_MAX;

// A named group of one column. Derived from the name alone, so that all columns use the same key
// for the same name.
using GroupKey = uint32_t;

}  // namespace ftar

template <>
struct std::hash<ftar::MemberId> {
  size_t operator()(const ftar::MemberId& id) const noexcept {
    return id.hi ^ (id.lo * 0x9e3779b97f4a7c15ULL);
  }
};

#endif  // FTAR_BASE_IDS_H_
