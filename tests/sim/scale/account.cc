#include "scale/account.h"

#include <ctime>

#include <algorithm>
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

// Small pieces are given out again as they are: a job makes and forgets hundreds of millions, and
// malloc would spend half of the time on joining and cutting them.
constexpr size_t kSmall = 1024, kSlab = 256 * 1024;
union Piece {
  Piece* next;
  Mark mark;
};
Piece* spare[kSmall / sizeof(Piece) + 1];  // by size
std::byte *slab, *slab_end;

size_t ClassOf(size_t bytes) { return (bytes + 2 * sizeof(Mark) - 1) / sizeof(Piece); }

Mark* Small(size_t size) {
  if (Piece* const piece = spare[size]) {
    spare[size] = piece->next;
    return &piece->mark;
  }
  if (static_cast<size_t>(slab_end - slab) < size * sizeof(Piece)) {
    slab = static_cast<std::byte*>(std::malloc(kSlab));
    slab_end = slab == nullptr ? slab : slab + kSlab;
    if (slab == nullptr) return nullptr;
  }
  slab += size * sizeof(Piece);
  return reinterpret_cast<Mark*>(slab - size * sizeof(Piece));
}

void* Allocate(size_t bytes) {
  const bool small = bytes + sizeof(Mark) <= kSmall;
  Mark* const mark =
      small ? Small(ClassOf(bytes)) : static_cast<Mark*>(std::malloc(bytes + sizeof(Mark)));
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
  if (mark->bytes + sizeof(Mark) > kSmall) return std::free(mark);
  Piece** const list = &spare[ClassOf(mark->bytes)];
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
