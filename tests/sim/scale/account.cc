#include "scale/account.h"

#include <ctime>

#include <algorithm>
#include <cstdlib>
#include <new>

namespace ftar::sim {
namespace {

Account accounts[kRoles];
Role at_work = Role::kOther;

int64_t CpuNow() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

// In front of every allocation.
struct alignas(16) Mark {
  size_t bytes;
  Role role;
};
static_assert(sizeof(Mark) == 16);

void* Allocate(size_t bytes) {
  auto* const mark = static_cast<Mark*>(std::malloc(bytes + sizeof(Mark)));
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
  std::free(mark);
}

}  // namespace

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
