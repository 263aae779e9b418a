#include "perf/kernels.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace ftar::perf {
namespace {

constexpr uint64_t kUsualCache = 32 << 20;

// Sixteen floats in as many registers as the function around it may use.
typedef float Floats __attribute__((vector_size(64), aligned(4), may_alias));

[[gnu::always_inline]] inline void SumBody(float* out, const float* const* in, int sources,
                                           size_t count) {
  constexpr size_t kWide = 16, kUnroll = 4;
  size_t i = 0;
  for (; i + kWide * kUnroll <= count; i += kWide * kUnroll) {
    Floats sums[kUnroll];
#pragma GCC unroll 4
    for (size_t k = 0; k < kUnroll; ++k)
      sums[k] = *reinterpret_cast<const Floats*>(in[0] + i + kWide * k);
    for (int s = 1; s < sources; ++s) {
#pragma GCC unroll 4
      for (size_t k = 0; k < kUnroll; ++k)
        sums[k] += *reinterpret_cast<const Floats*>(in[s] + i + kWide * k);
    }
#pragma GCC unroll 4
    for (size_t k = 0; k < kUnroll; ++k) *reinterpret_cast<Floats*>(out + i + kWide * k) = sums[k];
  }
  for (; i < count; ++i) {
    float sum = in[0][i];
    for (int s = 1; s < sources; ++s) sum += in[s][i];
    out[i] = sum;
  }
}

// Two sources, the common case, without a loop over them.
[[gnu::always_inline]] inline void SumAny(float* out, const float* const* in, int sources,
                                          size_t count) {
  if (sources == 2) return SumBody(out, in, 2, count);
  SumBody(out, in, sources, count);
}

void SumBase(float* out, const float* const* in, int sources, size_t count) {
  SumAny(out, in, sources, count);
}

#if defined(__x86_64__)
[[gnu::target("avx512f,avx512vl,avx512dq")]] void SumAvx512(float* out, const float* const* in,
                                                            int sources, size_t count) {
  SumAny(out, in, sources, count);
}

[[gnu::target("avx2")]] void SumAvx2(float* out, const float* const* in, int sources,
                                     size_t count) {
  SumAny(out, in, sources, count);
}

[[gnu::target("avx512f")]] void StreamAvx512(char* to, const char* from, size_t bytes) {
  for (size_t i = 0; i + 256 <= bytes; i += 256) {
    const __m512i a = _mm512_loadu_si512(from + i), b = _mm512_loadu_si512(from + i + 64);
    const __m512i c = _mm512_loadu_si512(from + i + 128), d = _mm512_loadu_si512(from + i + 192);
    _mm512_stream_si512(reinterpret_cast<__m512i*>(to + i), a);
    _mm512_stream_si512(reinterpret_cast<__m512i*>(to + i + 64), b);
    _mm512_stream_si512(reinterpret_cast<__m512i*>(to + i + 128), c);
    _mm512_stream_si512(reinterpret_cast<__m512i*>(to + i + 192), d);
  }
}

void StreamSse2(char* to, const char* from, size_t bytes) {
  for (size_t i = 0; i + 16 <= bytes; i += 16) {
    const __m128i a = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i));
    _mm_stream_si128(reinterpret_cast<__m128i*>(to + i), a);
  }
}
#endif

using SumLoop = void (*)(float*, const float* const*, int, size_t);

SumLoop BestSum() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq")) return SumAvx512;
  if (__builtin_cpu_supports("avx2")) return SumAvx2;
#endif
  return SumBase;
}

}  // namespace

void SumFloats(float* out, const float* const* in, int sources, size_t count) {
  static const SumLoop loop = BestSum();
  loop(out, in, sources, count);
}

void StreamCopy(void* to, const void* from, size_t bytes) {
  auto* out = static_cast<char*>(to);
  const auto* in = static_cast<const char*>(from);
#if defined(__x86_64__)
  const size_t head = std::min<size_t>((64 - reinterpret_cast<uintptr_t>(out) % 64) % 64, bytes);
  std::memcpy(out, in, head);
  const size_t body = (bytes - head) / 256 * 256;
  if (__builtin_cpu_supports("avx512f")) {
    StreamAvx512(out + head, in + head, body);
  } else {
    StreamSse2(out + head, in + head, body);
  }
  _mm_sfence();  // what goes past the caches keeps no order by itself
  const size_t done = head + body;
  std::memcpy(out + done, in + done, bytes - done);
#else
  std::memcpy(out, in, bytes);
#endif
}

uint64_t ReadAll(const void* from, size_t bytes) {
  const auto* in = static_cast<const char*>(from);
  uint64_t all = 0, word = 0;
  size_t i = 0;
  for (; i + sizeof word <= bytes; i += sizeof word) {
    std::memcpy(&word, in + i, sizeof word);
    all ^= word;
  }
  for (; i < bytes; ++i) all ^= static_cast<unsigned char>(in[i]);
  return all;
}

uint64_t CacheBytes() {
  uint64_t bytes = 0;
#if defined(_SC_LEVEL3_CACHE_SIZE)
  for (int level : {_SC_LEVEL2_CACHE_SIZE, _SC_LEVEL3_CACHE_SIZE}) {
    bytes = std::max<uint64_t>(bytes, std::max(0L, sysconf(level)));
  }
#endif
  return bytes > 0 ? bytes : kUsualCache;
}

}  // namespace ftar::perf
