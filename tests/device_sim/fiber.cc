#include "fiber.h"

#include <cstdint>
#include <utility>

namespace ftar::device_sim {

Fiber::Fiber() : stack_(new char[kStackBytes]) {}

void Fiber::Start(std::function<void()> body) {
  body_ = std::move(body);
  begun_ = ended_ = false;
}

void Fiber::Enter(unsigned low, unsigned high) {
  auto* fiber = reinterpret_cast<Fiber*>(static_cast<uintptr_t>(high) << 32 | low);
  fiber->body_();
  fiber->ended_ = true;
  _longjmp(fiber->outside_, 1);
}

// Stacks are changed by setcontext once and by jumps from then on, which call no system.
void Fiber::Resume() {
  if (_setjmp(outside_) != 0) return;
  if (begun_) _longjmp(inside_, 1);
  begun_ = true;
  getcontext(&context_);
  context_.uc_stack.ss_sp = stack_.get();
  context_.uc_stack.ss_size = kStackBytes;
  context_.uc_link = nullptr;
  const auto self = reinterpret_cast<uintptr_t>(this);
  makecontext(&context_, reinterpret_cast<void (*)()>(&Fiber::Enter), 2,
              static_cast<unsigned>(self), static_cast<unsigned>(self >> 32));
  setcontext(&context_);
}

void Fiber::HandBack() {
  if (_setjmp(inside_) == 0) _longjmp(outside_, 1);
}

}  // namespace ftar::device_sim
