// Something to do later. Like std::function, but it moves only and keeps what it captures in place:
// a simulated job makes hundreds of thousands of them.
#ifndef FTAR_TESTS_SIM_ACTION_H_
#define FTAR_TESTS_SIM_ACTION_H_

#include <cstddef>
#include <new>
#include <type_traits>
#include <utility>

namespace ftar::sim {

class Action {
 public:
  Action() = default;
  template <typename F>
  requires(!std::is_same_v<std::decay_t<F>, Action>)
      Action(F&& run) {  // NOLINT: converts, as std::function does
    using Held = std::decay_t<F>;
    static_assert(sizeof(Held) <= sizeof room_ && alignof(Held) <= alignof(std::max_align_t));
    static_assert(std::is_nothrow_move_constructible_v<Held>);
    new (room_) Held(std::forward<F>(run));
    run_ = [](void* held) { (*static_cast<Held*>(held))(); };
    move_ = [](void* from, void* to) {
      Held* held = static_cast<Held*>(from);
      if (to != nullptr) new (to) Held(std::move(*held));
      held->~Held();
    };
  }
  Action(Action&& other) noexcept { Take(other); }
  Action& operator=(Action&& other) noexcept {
    if (this != &other) {
      Clear();
      Take(other);
    }
    return *this;
  }
  ~Action() { Clear(); }

  void operator()() { run_(room_); }

 private:
  void Clear() {
    if (move_ != nullptr) move_(room_, nullptr);
    move_ = nullptr;
  }
  void Take(Action& other) {
    run_ = other.run_;
    move_ = std::exchange(other.move_, nullptr);
    if (move_ != nullptr) move_(other.room_, room_);
  }

  void (*run_)(void*) = nullptr;
  void (*move_)(void* from, void* to) = nullptr;  // destroys `from`
  alignas(std::max_align_t) std::byte room_[240];
};

}  // namespace ftar::sim

#endif  // FTAR_TESTS_SIM_ACTION_H_
