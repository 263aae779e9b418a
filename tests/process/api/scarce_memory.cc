#include "tests/process/api/scarce_memory.h"

#include <cstdlib>
#include <new>

namespace process {

std::atomic<int64_t> left{kPlenty};
std::atomic<bool> only_one{false};
thread_local int64_t mine_left = kPlenty;

}  // namespace process

namespace {

using process::left;
using process::mine_left;
using process::only_one;

void* Give(size_t bytes, size_t alignment) {
  if (mine_left-- == 0) return nullptr;
  const int64_t before = left.fetch_sub(1, std::memory_order_relaxed);
  if (before == 0 || (before < 0 && !only_one)) return nullptr;
  return alignment == 0 ? std::malloc(bytes) : std::aligned_alloc(alignment, bytes);
}

void* GiveOrThrow(size_t bytes, size_t alignment) {
  if (void* const block = Give(bytes, alignment)) return block;
  throw std::bad_alloc();
}

size_t Rounded(size_t bytes, std::align_val_t alignment) {
  const auto unit = static_cast<size_t>(alignment);
  return (bytes + unit - 1) / unit * unit;
}

}  // namespace

// The library's and its own: a program's operator new is everybody's. None is inlined, since a
// compiler that sees only half of a pair takes it for mismatched.
[[gnu::noinline]] void* operator new(size_t bytes) { return GiveOrThrow(bytes, 0); }
[[gnu::noinline]] void* operator new[](size_t bytes) { return GiveOrThrow(bytes, 0); }
[[gnu::noinline]] void* operator new(size_t bytes, const std::nothrow_t&) noexcept {
  return Give(bytes, 0);
}
[[gnu::noinline]] void* operator new[](size_t bytes, const std::nothrow_t&) noexcept {
  return Give(bytes, 0);
}
[[gnu::noinline]] void* operator new(size_t bytes, std::align_val_t alignment) {
  return GiveOrThrow(Rounded(bytes, alignment), static_cast<size_t>(alignment));
}
[[gnu::noinline]] void* operator new[](size_t bytes, std::align_val_t alignment) {
  return GiveOrThrow(Rounded(bytes, alignment), static_cast<size_t>(alignment));
}
[[gnu::noinline]] void operator delete(void* block) noexcept { std::free(block); }
[[gnu::noinline]] void operator delete[](void* block) noexcept { std::free(block); }
[[gnu::noinline]] void operator delete(void* block, size_t) noexcept { std::free(block); }
[[gnu::noinline]] void operator delete[](void* block, size_t) noexcept { std::free(block); }
[[gnu::noinline]] void operator delete(void* block, std::align_val_t) noexcept { std::free(block); }
[[gnu::noinline]] void operator delete[](void* block, std::align_val_t) noexcept {
  std::free(block);
}
[[gnu::noinline]] void operator delete(void* block, size_t, std::align_val_t) noexcept {
  std::free(block);
}
[[gnu::noinline]] void operator delete[](void* block, size_t, std::align_val_t) noexcept {
  std::free(block);
}
