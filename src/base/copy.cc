#include "base/copy.h"

#include <cstdint>
#include <cstring>

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

namespace ftar {
namespace {

#if defined(__x86_64__)
constexpr size_t kLineBytes = 64;

// Whole lines of the destination are written at once, so that the write-combining buffers never
// flush a part of one.
void StreamCopy(unsigned char* dst, const unsigned char* src, size_t bytes) {
  const size_t head = (kLineBytes - reinterpret_cast<uintptr_t>(dst) % kLineBytes) % kLineBytes;
  std::memcpy(dst, src, head);
  size_t i = head;
  for (; bytes - i >= kLineBytes; i += kLineBytes) {
    __m128i part[4];
    for (int k = 0; k < 4; ++k)
      part[k] = _mm_loadu_si128(reinterpret_cast<const __m128i*>(src + i) + k);
    for (int k = 0; k < 4; ++k) _mm_stream_si128(reinterpret_cast<__m128i*>(dst + i) + k, part[k]);
  }
  std::memcpy(dst + i, src + i, bytes - i);
  _mm_sfence();
}
#endif

}  // namespace

void Copy(void* dst, const void* src, size_t bytes, CopyMode mode) {
  if (dst == src || bytes == 0) return;
#if defined(__x86_64__)
  if ((mode == CopyMode::kStream && bytes >= kStreamMinBytes) ||
      (mode == CopyMode::kHandOver && bytes >= kHandOverMinBytes)) {
    StreamCopy(static_cast<unsigned char*>(dst), static_cast<const unsigned char*>(src), bytes);
    return;
  }
#endif
  static_cast<void>(mode);
  std::memcpy(dst, src, bytes);
}

}  // namespace ftar
