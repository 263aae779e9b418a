#include "api/mapped.h"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace ftar::api {
namespace {

// Small buffers of one program often lie near each other, with nothing unmapped between them.
constexpr uintptr_t kNearBytes = 1 << 20;

}  // namespace

bool IsMapped(const void* data, uint64_t bytes) {
  if (bytes == 0) return true;
  static const uintptr_t page_bytes = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<uintptr_t>(data);
  const uintptr_t first_page = begin & ~(page_bytes - 1);
  // MS_ASYNC writes nothing back on Linux; it walks the mappings and says ENOMEM where one is
  // missing.
  // Not by msync(), where a thread that is cancelled ends.
  const long result =
      syscall(SYS_msync, first_page, static_cast<size_t>(begin - first_page + bytes), MS_ASYNC);
  return result == 0 || errno != ENOMEM;
}

bool MappedTogether(const void* one, uint64_t one_bytes, const void* other, uint64_t other_bytes) {
  const auto a = reinterpret_cast<uintptr_t>(one), b = reinterpret_cast<uintptr_t>(other);
  const uintptr_t begin = std::min(a, b), end = std::max(a + one_bytes, b + other_bytes);
  return end - begin <= kNearBytes && IsMapped(reinterpret_cast<void*>(begin), end - begin);
}

}  // namespace ftar::api
