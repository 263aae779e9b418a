// CRC32C with the processor's instruction; compiled with -msse4.2, so no library function may be
// inlined here (types.h).
#include <nmmintrin.h>

#include <cstddef>
#include <cstdint>

namespace ftar::reduce {

uint32_t Crc32cSse42(uint32_t seed, const void* data, size_t bytes) {
  const auto* p = static_cast<const unsigned char*>(data);
  uint64_t crc = ~seed;
  for (; bytes >= 8; bytes -= 8, p += 8) {
    uint64_t word;
    __builtin_memcpy(&word, p, sizeof(word));
    crc = _mm_crc32_u64(crc, word);
  }
  uint32_t last = static_cast<uint32_t>(crc);
  for (; bytes > 0; --bytes, ++p) last = _mm_crc32_u8(last, *p);
  return ~last;
}

}  // namespace ftar::reduce
