#include "api/mapped.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>

namespace ftar::api {

bool IsMapped(const void* data, uint64_t bytes) {
  if (bytes == 0) return true;
  static const uintptr_t page_bytes = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<uintptr_t>(data);
  const uintptr_t first_page = begin & ~(page_bytes - 1);
  // MS_ASYNC writes nothing back on Linux; it walks the mappings and says ENOMEM where one is
  // missing.
  const int result = msync(reinterpret_cast<void*>(first_page),
                           static_cast<size_t>(begin - first_page + bytes), MS_ASYNC);
  return result == 0 || errno != ENOMEM;
}

}  // namespace ftar::api
