// A mutex of one word, inlined as long as nobody else has it or waits for it. A small operation
// takes the job's lock once, and by std::mutex, two calls into another library, that is a twentieth
// of its time (docs/performance.md).
//
// Lockable as std::scoped_lock has it. Whoever waits sleeps, and who unlocks wakes one of them;
// whoever comes first has it.
#ifndef FTAR_RUNTIME_INLINE_MUTEX_H_
#define FTAR_RUNTIME_INLINE_MUTEX_H_

#include <atomic>

namespace ftar::runtime {

class InlineMutex {
 public:
  bool try_lock() {
    int free = kFree;
    return state_.compare_exchange_strong(free, kHeld, std::memory_order_acquire,
                                          std::memory_order_relaxed);
  }
  void lock() {
    if (!try_lock()) LockSlowly();
  }
  void unlock() {
    // In one order with the look whether somebody sleeps (std::atomic::notify_one).
    if (state_.exchange(kFree, std::memory_order_seq_cst) == kAwaited) Wake();
  }

 private:
  static constexpr int kFree = 0, kHeld = 1, kAwaited = 2;

  // Who has slept cannot know whether others still do: whoever unlocks after it looks.
  [[gnu::noinline, gnu::cold]] void LockSlowly() {
    while (state_.exchange(kAwaited, std::memory_order_acquire) != kFree) state_.wait(kAwaited);
  }
  // The mutex may be gone by now: only its address is asked for.
  [[gnu::noinline, gnu::cold]] void Wake() { state_.notify_one(); }

  std::atomic<int> state_{kFree};
};

}  // namespace ftar::runtime

#endif  // FTAR_RUNTIME_INLINE_MUTEX_H_
