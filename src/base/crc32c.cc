#include "base/crc32c.h"

#include <array>
#include <bit>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif
#ifdef FTAR_HAVE_ISAL
#include <isa-l/crc.h>

#include <climits>
#endif

namespace ftar {

namespace {

constexpr uint32_t kPolynomial = 0x82f63b78;  // Bits reversed.
constexpr size_t kSlices = 8;
using Table = std::array<std::array<uint32_t, 256>, kSlices>;

// table[0] advances the register by one byte, table[k] by a byte followed by k zero bytes.
constexpr Table MakeTable() {
  Table table{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? kPolynomial : 0);
    table[0][byte] = crc;
  }
  for (size_t slice = 1; slice < kSlices; ++slice) {
    for (size_t byte = 0; byte < 256; ++byte) {
      const uint32_t before = table[slice - 1][byte];
      table[slice][byte] = (before >> 8) ^ table[0][before & 0xff];
    }
  }
  return table;
}

constexpr Table kTable = MakeTable();

uint32_t Crc32cTable(uint32_t seed, const void* data, size_t bytes) {
  const auto* p = static_cast<const unsigned char*>(data);
  uint32_t crc = ~seed;
  if constexpr (std::endian::native == std::endian::little) {
    for (; bytes >= kSlices; bytes -= kSlices, p += kSlices) {
      uint64_t word;
      std::memcpy(&word, p, sizeof(word));
      word ^= crc;
      crc = 0;
      for (size_t k = 0; k < kSlices; ++k) crc ^= kTable[kSlices - 1 - k][(word >> (8 * k)) & 0xff];
    }
  }
  for (; bytes > 0; --bytes, ++p) crc = (crc >> 8) ^ kTable[0][(crc ^ *p) & 0xff];
  return ~crc;
}

#if defined(__x86_64__)
// Compiled for SSE 4.2 whatever the file's flags; called only where the processor has it.
__attribute__((target("sse4.2"))) uint32_t Crc32cSse42(uint32_t seed, const void* data,
                                                       size_t bytes) {
  const auto* p = static_cast<const unsigned char*>(data);
  uint64_t crc = ~seed;
  for (; bytes >= 8; bytes -= 8, p += 8) {
    uint64_t word;
    std::memcpy(&word, p, sizeof(word));
    crc = _mm_crc32_u64(crc, word);
  }
  auto last = static_cast<uint32_t>(crc);
  for (; bytes > 0; --bytes, ++p) last = _mm_crc32_u8(last, *p);
  return ~last;
}
#endif

#ifdef FTAR_HAVE_ISAL
#if defined(__x86_64__)
// Compiled for AVX whatever the file's flags; called only where the processor has it.
[[gnu::target("avx")]] void ZeroUpperHalves() { _mm256_zeroupper(); }
bool HasAvx() {
  static const bool has = __builtin_cpu_supports("avx") != 0;
  return has;
}
#else
void ZeroUpperHalves() {}
bool HasAvx() { return false; }
#endif

// ISA-L takes lengths as int and leaves the inversions of the definition to its caller.
uint32_t Crc32cIsal(uint32_t seed, const void* data, size_t bytes) {
  constexpr size_t kPieceBytes = size_t{1} << 30;
  static_assert(kPieceBytes <= INT_MAX);
  auto* p = static_cast<unsigned char*>(
      const_cast<void*>(data));  // Not written; its signature predates const.
  uint32_t crc = ~seed;
  while (bytes > 0) {
    const size_t piece = bytes < kPieceBytes ? bytes : kPieceBytes;
    crc = crc32_iscsi(p, static_cast<int>(piece), crc);
    p += piece;
    bytes -= piece;
  }
  // It leaves the upper halves of the vector registers in use. Intel's processors run code for SSE
  // slower until they are not, which is all of this library and much of whoever calls it.
  if (HasAvx()) ZeroUpperHalves();
  return ~crc;
}
#endif

// Up to a header ISA-L's takes 12 to 27 cycles longer; from 256 bytes on it is ahead (newer Intel).
constexpr size_t kShortBytes = 224;

struct Ways {
  internal::Crc32cFunction of_few, of_many;
};

Ways Best() {
  const auto isal = internal::Crc32cOfIsal(), sse42 = internal::Crc32cOfSse42(),
             table = internal::Crc32cOfTable();
  if (isal != nullptr) return {sse42 != nullptr ? sse42 : isal, isal};
  return sse42 != nullptr ? Ways{sse42, sse42} : Ways{table, table};
}

}  // namespace

namespace internal {

Crc32cFunction Crc32cOfIsal() {
#ifdef FTAR_HAVE_ISAL
  return Crc32cIsal;
#else
  return nullptr;
#endif
}

Crc32cFunction Crc32cOfSse42() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("sse4.2") != 0 ? Crc32cSse42 : nullptr;
#else
  return nullptr;
#endif
}

Crc32cFunction Crc32cOfTable() { return Crc32cTable; }

}  // namespace internal

uint32_t Crc32c(uint32_t seed, const void* data, size_t bytes) {
  static const Ways kBest = Best();
  return (bytes < kShortBytes ? kBest.of_few : kBest.of_many)(seed, data, bytes);
}

}  // namespace ftar
