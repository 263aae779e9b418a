// Threads that are no threads: each runs until it hands back, and who runs next is decided
// elsewhere.
//
// One thread of the process owns all fibers and resumes them. A fiber that has not ended may be
// abandoned: its stack is used again, and what lay on it is forgotten without being destroyed.
#ifndef FTAR_TESTS_DEVICE_SIM_FIBER_H_
#define FTAR_TESTS_DEVICE_SIM_FIBER_H_

#include <setjmp.h>
#include <ucontext.h>

#include <cstddef>
#include <functional>
#include <memory>

namespace ftar::device_sim {

class Fiber {
 public:
  Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // Anew, whatever it did before.
  void Start(std::function<void()> body);
  // Runs it until it hands back or ends.
  void Resume();
  // From inside.
  void HandBack();
  bool ended() const { return ended_; }

 private:
  static constexpr size_t kStackBytes = 128 << 10;
  static void Enter(unsigned low, unsigned high);

  std::unique_ptr<char[]> stack_;
  std::function<void()> body_;
  ucontext_t context_ = {};
  jmp_buf inside_;
  jmp_buf outside_;
  bool begun_ = false;
  bool ended_ = true;
};

}  // namespace ftar::device_sim

#endif  // FTAR_TESTS_DEVICE_SIM_FIBER_H_
