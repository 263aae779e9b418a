#include "tests/chaos/heap.h"

#include <malloc.h>

#include <atomic>
#include <cerrno>
#include <cstddef>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)

int64_t chaos::HeapBytes() { return 0; }

#else

namespace {

std::atomic<int64_t> in_use{0};

int64_t SizeOf(void* memory) { return static_cast<int64_t>(malloc_usable_size(memory)); }

void* Count(void* memory) {
  in_use += SizeOf(memory);
  return memory;
}

}  // namespace

int64_t chaos::HeapBytes() { return in_use; }

// glibc's own, under the names that it keeps for those who stand before it.
extern "C" {

void* __libc_malloc(size_t bytes);
void* __libc_calloc(size_t count, size_t bytes);
void* __libc_realloc(void* memory, size_t bytes);
void* __libc_memalign(size_t alignment, size_t bytes);
void __libc_free(void* memory);

void* malloc(size_t bytes) { return Count(__libc_malloc(bytes)); }
void* calloc(size_t count, size_t bytes) { return Count(__libc_calloc(count, bytes)); }
void* memalign(size_t alignment, size_t bytes) { return Count(__libc_memalign(alignment, bytes)); }
void* aligned_alloc(size_t alignment, size_t bytes) { return memalign(alignment, bytes); }
int posix_memalign(void** out, size_t alignment, size_t bytes) {
  void* const memory = memalign(alignment, bytes);
  if (memory == nullptr) return ENOMEM;
  *out = memory;
  return 0;
}
void* realloc(void* memory, size_t bytes) {
  const int64_t before = SizeOf(memory);
  void* const moved = __libc_realloc(memory, bytes);
  if (moved != nullptr || bytes == 0) in_use += SizeOf(moved) - before;
  return moved;
}
void free(void* memory) {
  in_use -= SizeOf(memory);
  __libc_free(memory);
}

}  // extern "C"

#endif
