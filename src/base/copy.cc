#include "base/copy.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace ftar {
namespace {

#if defined(__x86_64__)
constexpr size_t kLineBytes = 64;

// Whole lines, of which each is written at once: the write-combining buffers never flush a part of
// one.
void StreamLines(unsigned char* dst, const unsigned char* src, size_t lines) {
  for (; lines > 0; --lines, dst += kLineBytes, src += kLineBytes) {
    const auto* const from = reinterpret_cast<const __m128i*>(src);
    auto* const to = reinterpret_cast<__m128i*>(dst);
    __m128i part[4];
    for (int k = 0; k < 4; ++k) part[k] = _mm_loadu_si128(from + k);
    for (int k = 0; k < 4; ++k) _mm_stream_si128(to + k, part[k]);
  }
}

// A line by one instruction, and four lines at a time as far as they go.
[[gnu::target("avx512f")]] void StreamWideLines(unsigned char* dst, const unsigned char* src,
                                                size_t lines) {
  constexpr size_t kAtATime = 4;
  for (; lines >= kAtATime; lines -= kAtATime) {
    __m512i line[kAtATime];
    for (__m512i& each : line) {
      each = _mm512_loadu_si512(src);
      src += kLineBytes;
    }
    for (const __m512i& each : line) {
      _mm512_stream_si512(reinterpret_cast<__m512i*>(dst), each);
      dst += kLineBytes;
    }
  }
  for (; lines > 0; --lines, dst += kLineBytes, src += kLineBytes)
    _mm512_stream_si512(reinterpret_cast<__m512i*>(dst), _mm512_loadu_si512(src));
}
#endif

}  // namespace

bool HasWideLines() {
#if defined(__x86_64__)
  static const bool has = __builtin_cpu_supports("avx512f");
  return has;
#else
  return false;
#endif
}

void CopyPastCaches(void* dst, const void* src, size_t bytes, bool wide) {
#if defined(__x86_64__)
  auto* const to = static_cast<unsigned char*>(dst);
  const auto* const from = static_cast<const unsigned char*>(src);
  const size_t before = (kLineBytes - reinterpret_cast<uintptr_t>(to) % kLineBytes) % kLineBytes;
  const size_t head = std::min(before, bytes);
  const size_t lines = (bytes - head) / kLineBytes, tail = head + lines * kLineBytes;
  std::memcpy(to, from, head);
  (wide ? StreamWideLines : StreamLines)(to + head, from + head, lines);
  std::memcpy(to + tail, from + tail, bytes - tail);
  _mm_sfence();
#else
  static_cast<void>(wide);
  std::memcpy(dst, src, bytes);
#endif
}

void Copy(void* dst, const void* src, size_t bytes, CopyMode mode) {
  if (dst == src) return;
  const bool past = (mode == CopyMode::kStream && bytes >= kStreamMinBytes) ||
                    (mode == CopyMode::kHandOver && bytes >= kHandOverMinBytes);
  if (past) return CopyPastCaches(dst, src, bytes, HasWideLines());
  CopyShort(dst, src, bytes);
}

}  // namespace ftar
