#include "scale/account.h"

#include <malloc.h>

#include <ctime>

#include <algorithm>
#include <climits>
#include <cstdlib>
#include <new>

namespace ftar::sim {
namespace {

Account accounts[kRoles];
Role at_work = Role::kOther;

// In front of every allocation.
struct alignas(16) Mark {
  size_t bytes;
  Role role;
};
static_assert(sizeof(Mark) == 16);

// Pieces are given out again as they are: a job makes and forgets hundreds of millions, and malloc
// would spend half of the time on joining and cutting them.
constexpr size_t kSmall = 1024, kMiddle = 16 * 1024, kStep = 256;
constexpr size_t kSlab = 1 << 20;
union Piece {
  Piece* next;
  Mark mark;
};
constexpr size_t kClasses = kSmall / sizeof(Piece) + (kMiddle - kSmall) / kStep + 1;
Piece* spare[kClasses];
std::byte *slab, *slab_end;

// Of a piece with its mark: to 16 bytes, and larger ones to 256.
size_t ClassOf(size_t bytes) {
  if (bytes <= kSmall) return (bytes + sizeof(Piece) - 1) / sizeof(Piece);
  return kSmall / sizeof(Piece) + (bytes - kSmall + kStep - 1) / kStep;
}
size_t BytesOf(size_t size) {
  constexpr size_t kLast = kSmall / sizeof(Piece);
  return size <= kLast ? size * sizeof(Piece) : kSmall + (size - kLast) * kStep;
}

// The few large ones malloc keeps; else it would have them cleared every time.
[[maybe_unused]] const bool kept =
    mallopt(M_MMAP_THRESHOLD, 1 << 30) && mallopt(M_TRIM_THRESHOLD, INT_MAX);

Mark* Small(size_t size) {
  if (Piece* const piece = spare[size]) {
    spare[size] = piece->next;
    __builtin_prefetch(piece->next, /*rw=*/1);  // it was given back long ago
    return &piece->mark;
  }
  const size_t bytes = BytesOf(size);
  if (static_cast<size_t>(slab_end - slab) < bytes) {
    slab = static_cast<std::byte*>(std::malloc(kSlab));
    slab_end = slab == nullptr ? slab : slab + kSlab;
    if (slab == nullptr) return nullptr;
  }
  slab += bytes;
  return reinterpret_cast<Mark*>(slab - bytes);
}

void* Allocate(size_t bytes) {
  const size_t all = bytes + sizeof(Mark);
  Mark* const mark = all <= kMiddle ? Small(ClassOf(all)) : static_cast<Mark*>(std::malloc(all));
  if (mark == nullptr) throw std::bad_alloc();
  *mark = {bytes, at_work};
  Account& account = accounts[static_cast<int>(at_work)];
  account.live_bytes += bytes;
  account.peak_bytes = std::max(account.peak_bytes, account.live_bytes);
  return mark + 1;
}

void Free(void* memory) {
  if (memory == nullptr) return;
  Mark* const mark = static_cast<Mark*>(memory) - 1;
  accounts[static_cast<int>(mark->role)].live_bytes -= mark->bytes;
  const size_t all = mark->bytes + sizeof(Mark);
  if (all > kMiddle) return std::free(mark);
  Piece** const list = &spare[ClassOf(all)];
  auto* const piece = reinterpret_cast<Piece*>(mark);
  piece->next = *list;
  *list = piece;
}

}  // namespace

int64_t CpuNow() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

Account& AccountOf(Role role) { return accounts[static_cast<int>(role)]; }

Owner::Owner(Role role) : before_(at_work) { at_work = role; }
Owner::~Owner() { at_work = before_; }

AtWork::AtWork(Role role) : owner_(role), role_(role), began_ns_(CpuNow()) {}
AtWork::~AtWork() { accounts[static_cast<int>(role_)].cpu_ns += CpuNow() - began_ns_; }

}  // namespace ftar::sim

void* operator new(size_t bytes) { return ftar::sim::Allocate(bytes); }
void* operator new[](size_t bytes) { return ftar::sim::Allocate(bytes); }
void operator delete(void* memory) noexcept { ftar::sim::Free(memory); }
void operator delete[](void* memory) noexcept { ftar::sim::Free(memory); }
void operator delete(void* memory, size_t) noexcept { ftar::sim::Free(memory); }
void operator delete[](void* memory, size_t) noexcept { ftar::sim::Free(memory); }
