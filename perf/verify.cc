#include "perf/verify.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "perf/numbers.h"
#include "perf/types.h"

namespace ftar::perf {
namespace {

uint64_t Mix(uint64_t x) {
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ x >> 27) * 0x94d049bb133111ebULL;
  return x ^ x >> 31;
}

uint64_t RandomBits(int32_t replica, uint64_t round, uint64_t index) {
  return Mix(Mix(round * 0x9e3779b97f4a7c15ULL + static_cast<uint64_t>(replica) + 1) + index);
}

// Integers for a float type: a sum of 16 of them, times a weight, is still exact where the
// significand allows it, else it is rounded once like the library's.
double FloatValue(const TypeInfo& type, ftarRedop_t redop, int32_t replica, uint64_t bits) {
  if (redop == FTAR_PROD) {
    // Even replicas double, odd ones halve, so that no product leaves the range of 8 bits.
    const double scale = replica % 2 == 0 ? 2 : 0.5;
    const double values[] = {1, -1, scale, -scale};
    return values[bits % 4];
  }
  const int magnitude_bits = std::clamp(type.significant_bits - 5, 1, 30);
  const auto range = int64_t{1} << magnitude_bits;
  return static_cast<double>(static_cast<int64_t>(bits % (2 * range)) - range / 2);
}

uint64_t IntegerValue(const TypeInfo& type, ftarRedop_t redop, uint64_t bits) {
  // Each even factor shifts a bit out: of a dozen members nothing but zeros would be left.
  if (redop == FTAR_PROD) return bits | 1;
  // An average divides a 64-bit sum, which must not wrap; everything else wraps in its own type.
  if (redop != FTAR_AVG || type.bytes < 8) return bits;
  return type.number_class == NumberClass::kSigned
             ? static_cast<uint64_t>(static_cast<int64_t>(bits) >> 16)
             : bits >> 16;
}

// Numbers between 1/2 and 2 of either sign, with all bits of the significand in use.
double RoundingValue(uint64_t bits) {
  const double size = 0.5 + 1.5 * static_cast<double>(bits >> 12) * 0x1p-52;
  return (bits & 1) != 0 ? -size : size;
}

void PutValue(const TypeInfo& type, ftarRedop_t redop, int32_t replica, uint64_t bits,
              Values values, std::byte* element) {
  if (type.number_class == NumberClass::kFloat && values == Values::kRounding) {
    EncodeFloat(type.dtype, RoundingValue(bits), element);
    return;
  }
  if (type.number_class == NumberClass::kFloat) {
    EncodeFloat(type.dtype, FloatValue(type, redop, replica, bits), element);
  } else {
    EncodeInteger(type.dtype, IntegerValue(type, redop, bits), element);
  }
}

template <typename Value>
Value Combine(ftarRedop_t redop, Value left, Value right) {
  switch (redop) {
    case FTAR_PROD: return left * right;
    case FTAR_MIN: return std::min(left, right);
    case FTAR_MAX: return std::max(left, right);
    default: return left + right;
  }
}

// Accumulates and divides in the accumulator's type: f32 for f32 and everything narrower.
template <typename Real>
double ReduceFloats(const TypeInfo& type, ftarRedop_t redop, std::span<const Participant> members,
                    std::span<const Tile> tiles, size_t offset) {
  Real total = 0, weights = 0;
  bool first = true;
  for (size_t m = 0; m < members.size(); ++m) {
    if (members[m].weight == 0) continue;
    auto value = static_cast<Real>(DecodeFloat(type.dtype, tiles[m].bytes.data() + offset));
    const auto weight = redop == FTAR_WAVG ? static_cast<Real>(members[m].weight) : Real{1};
    if (redop == FTAR_WAVG) value *= weight;
    weights += weight;
    total = first ? value : Combine(redop, total, value);
    first = false;
  }
  if (redop == FTAR_AVG || redop == FTAR_WAVG) total /= weights;
  return total;
}

uint64_t ReduceIntegers(const TypeInfo& type, ftarRedop_t redop,
                        std::span<const Participant> members, std::span<const Tile> tiles,
                        size_t offset) {
  const bool is_signed = type.number_class == NumberClass::kSigned;
  uint64_t total = 0, count = 0;
  for (size_t m = 0; m < members.size(); ++m) {
    if (members[m].weight == 0) continue;
    const uint64_t value = DecodeInteger(type.dtype, tiles[m].bytes.data() + offset);
    if (count++ == 0) {
      total = value;
    } else if (is_signed && (redop == FTAR_MIN || redop == FTAR_MAX)) {
      total = static_cast<uint64_t>(
          Combine(redop, static_cast<int64_t>(total), static_cast<int64_t>(value)));
    } else {
      total = Combine(redop, total, value);
    }
  }
  if (redop != FTAR_AVG || count == 0) return total;
  if (is_signed)
    return static_cast<uint64_t>(static_cast<int64_t>(total) / static_cast<int64_t>(count));
  return total / count;
}

void PutExpected(const TypeInfo& type, ftarRedop_t redop, std::span<const Participant> members,
                 std::span<const Tile> tiles, size_t offset, std::byte* element) {
  if (type.number_class != NumberClass::kFloat) {
    EncodeInteger(type.dtype, ReduceIntegers(type, redop, members, tiles, offset), element);
  } else if (type.dtype == FTAR_F64) {
    EncodeFloat(type.dtype, ReduceFloats<double>(type, redop, members, tiles, offset), element);
  } else {
    EncodeFloat(type.dtype, ReduceFloats<float>(type, redop, members, tiles, offset), element);
  }
}

}  // namespace

double WeightOf(int32_t replica) { return 1 + replica % 3; }

Tile InputTile(ftarDtype_t dtype, ftarRedop_t redop, int32_t replica, uint64_t round,
               Values values) {
  const TypeInfo& type = TypeOf(dtype);
  Tile tile{type.bytes, std::vector<std::byte>(kPeriod * type.bytes)};
  for (size_t i = 0; i < kPeriod; ++i) {
    PutValue(type, redop, replica, RandomBits(replica, round, i), values,
             tile.bytes.data() + i * type.bytes);
  }
  return tile;
}

Tile ExpectedTile(ftarDtype_t dtype, ftarRedop_t redop, std::span<const Participant> participants,
                  uint64_t round, Values values) {
  const TypeInfo& type = TypeOf(dtype);
  std::vector<Tile> tiles;
  for (const Participant& participant : participants) {
    tiles.push_back(InputTile(dtype, redop, participant.replica, round, values));
  }
  Tile expected{type.bytes, std::vector<std::byte>(kPeriod * type.bytes)};
  for (size_t i = 0; i < kPeriod; ++i) {
    const size_t offset = i * type.bytes;
    PutExpected(type, redop, participants, tiles, offset, expected.bytes.data() + offset);
  }
  return expected;
}

void FillTiled(const Tile& tile, uint64_t first, uint64_t count, void* buffer) {
  auto* out = static_cast<std::byte*>(buffer);
  while (count > 0) {
    const uint64_t begin = first % kPeriod;
    const uint64_t n = std::min<uint64_t>(count, kPeriod - begin);
    std::memcpy(out, tile.bytes.data() + begin * tile.element_bytes, n * tile.element_bytes);
    out += n * tile.element_bytes;
    first += n;
    count -= n;
  }
}

uint64_t CountWrong(const Tile& tile, uint64_t first, uint64_t count, const void* buffer) {
  const auto* in = static_cast<const std::byte*>(buffer);
  const size_t width = tile.element_bytes;
  uint64_t wrong = 0;
  while (count > 0) {
    const uint64_t begin = first % kPeriod;
    const uint64_t n = std::min<uint64_t>(count, kPeriod - begin);
    const std::byte* expected = tile.bytes.data() + begin * width;
    if (std::memcmp(in, expected, n * width) != 0) {
      for (uint64_t i = 0; i < n; ++i) {
        wrong += std::memcmp(in + i * width, expected + i * width, width) != 0 ? 1 : 0;
      }
    }
    in += n * width;
    first += n;
    count -= n;
  }
  return wrong;
}

}  // namespace ftar::perf
