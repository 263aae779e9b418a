// Copying bytes between staging memory and user buffers.
//
// A pure function of its arguments, any thread.
#ifndef FTAR_BASE_COPY_H_
#define FTAR_BASE_COPY_H_

#include <cstddef>
#include <cstring>

namespace ftar {

enum class CopyMode {
  kCached,    // The destination is read again soon by this core.
  kStream,    // It is not: a large copy goes past the caches, which spares reading the old contents
              // and evicting others'.
  kHandOver,  // Another core reads it next. From the memory it comes faster than changed lines do
              // from this core's cache, where the cores share none: there that takes four times as
              // long.
};

// Streaming begins here; a smaller copy leaves most of the caches alone anyway.
inline constexpr size_t kStreamMinBytes = size_t{128} << 10;
// And what is handed over; less is a few lines, which stay in the caches whoever reads them.
inline constexpr size_t kHandOverMinBytes = size_t{4} << 10;

// Copies `bytes` from `src` to `dst`, which may be equal but not overlap otherwise. Streamed stores
// are visible to other threads in program order once the call has returned, as others are.
void Copy(void* dst, const void* src, size_t bytes, CopyMode mode = CopyMode::kCached);

// The same of what is short most of the time: a number or two need no call. Nor do 16 to 31 bytes,
// which glibc's code for AVX-512 moves so that on Intel's processors what is compiled for SSE, as
// this library is, runs slower behind it.
inline void CopyShort(void* dst, const void* src, size_t bytes) {
  constexpr size_t kHalf = 16;
  auto* const to = static_cast<std::byte*>(dst);
  const auto* const from = static_cast<const std::byte*>(src);
  if (bytes >= kHalf && bytes < 2 * kHalf) {
    std::byte first[kHalf], last[kHalf];
    std::memcpy(first, from, kHalf);
    std::memcpy(last, from + bytes - kHalf, kHalf);
    std::memcpy(to, first, kHalf);
    std::memcpy(to + bytes - kHalf, last, kHalf);
  } else if (bytes == 8) {
    std::memcpy(to, from, 8);
  } else if (bytes == 4) {
    std::memcpy(to, from, 4);
  } else if (bytes > 0) {
    std::memcpy(to, from, bytes);
  }
}

// What kStream and kHandOver do where there is enough: past the caches line by line, each by one
// instruction of AVX-512 if `wide`, which wants HasWideLines().
void CopyPastCaches(void* dst, const void* src, size_t bytes, bool wide);
bool HasWideLines();

}  // namespace ftar

#endif  // FTAR_BASE_COPY_H_
