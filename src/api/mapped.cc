#include "api/mapped.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>

namespace ftar::api {
namespace {

// Small buffers of one program often lie near each other, with nothing unmapped between them.
constexpr uintptr_t kNearBytes = 1 << 20;
constexpr uintptr_t kAroundBytes = 1 << 18;

std::atomic<uint64_t> g_unmapped{1};  // grows with what the library itself unmaps

// What a thread found mapped when it last looked there. A look is a system call, and a training
// loop calls with the same buffers again and again.
class Memory {
 public:
  bool Holds(uintptr_t begin, uintptr_t end) {
    if (calls_left_-- == 0 || since_ != g_unmapped.load(std::memory_order_relaxed)) Forget();
    for (const Range& range : ranges_) {
      if (range.begin <= begin && end <= range.end) return true;
    }
    return false;
  }
  // To the last byte. What lies side by side becomes one range, since many buffers of one block of
  // memory are more than there are ranges.
  void Add(uintptr_t begin, uintptr_t end) {
    for (Range& range : ranges_) {
      if (range.end == 0 || begin > range.end + 1 || range.begin > end + 1) continue;
      range = {std::min(range.begin, begin), std::max(range.end, end)};
      return;
    }
    ranges_[next_] = {begin, end};
    next_ = (next_ + 1) % ranges_.size();
  }

 private:
  struct Range {
    uintptr_t begin = 0, end = 0;
  };
  void Forget() {
    ranges_ = {};
    calls_left_ = kRememberedCalls - 1;
    since_ = g_unmapped.load(std::memory_order_relaxed);
  }

  std::array<Range, 4> ranges_;
  size_t next_ = 0;
  int calls_left_ = 0;
  uint64_t since_ = 0;
};

// Asked for in every call. Not of the initial-exec model, which would spare a function: the room
// for that is small, and shared by all libraries that a process loads later.
thread_local Memory t_memory;

bool Ask(uintptr_t begin, uintptr_t end) {
  // MS_ASYNC writes nothing back on Linux; it walks the mappings and says ENOMEM where one is
  // missing.
  // Not by msync(), where a thread that is cancelled ends.
  const long result = syscall(SYS_msync, begin, static_cast<size_t>(end - begin), MS_ASYNC);
  return result == 0 || errno != ENOMEM;
}

// `memory`: where the answer is worth remembering.
bool AskAround(uintptr_t begin, uintptr_t end, Memory* memory) {
  static const uintptr_t page_bytes = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  // The next call's buffers are likely to lie near: whole surroundings first.
  uintptr_t unit = memory != nullptr ? kAroundBytes : page_bytes;
  for (;; unit = std::max(unit / 8, page_bytes)) {
    // To the last byte of one, not the one behind, as there may be none.
    const uintptr_t first = begin & ~(unit - 1), last = (end - 1) | (unit - 1);
    const bool there = Ask(first, last);
    if (there && memory != nullptr) memory->Add(first, last);
    if (there || unit == page_bytes) return there;
  }
}

// `is_small`: what is asked for is worth remembering, and worth looking up.
[[gnu::hot]] bool Look(uintptr_t begin, uintptr_t end, bool is_small) {
  if (begin == end) return true;
  if (!is_small) return AskAround(begin, end, nullptr);
  // Where that is, is a call, of which the compiler would make one for each use.
  Memory* memory = &t_memory;
  asm("" : "+r"(memory));
  return memory->Holds(begin, end - 1) || AskAround(begin, end, memory);
}

}  // namespace

bool IsMapped(const void* data, uint64_t bytes) {
  const auto begin = reinterpret_cast<uintptr_t>(data);
  return bytes == 0 || Look(begin, begin + bytes, bytes <= kRememberedBytes);
}

// The kernel reads a set of signals before it finds that nothing can be done with it in this way.
bool IsReadable(const void* data) {
  constexpr uintptr_t kSetBytes = 8;
  constexpr int kNoWay = -1;
  const uintptr_t set = reinterpret_cast<uintptr_t>(data) & ~(kSetBytes - 1);
  return syscall(SYS_rt_sigprocmask, kNoWay, set, nullptr, kSetBytes) != 0 && errno != EFAULT;
}

bool MappedTogether(const void* one, uint64_t one_bytes, const void* other, uint64_t other_bytes) {
  const auto a = reinterpret_cast<uintptr_t>(one), b = reinterpret_cast<uintptr_t>(other);
  const uintptr_t begin = std::min(a, b), end = std::max(a + one_bytes, b + other_bytes);
  return end - begin <= kNearBytes && Look(begin, end, one_bytes + other_bytes <= kRememberedBytes);
}

void NoteUnmapped() { g_unmapped.fetch_add(1, std::memory_order_relaxed); }

}  // namespace ftar::api
