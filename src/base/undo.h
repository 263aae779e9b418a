// What is done unless it is kept: for what a call has half made when it ends early, be it by an
// exception.
#ifndef FTAR_BASE_UNDO_H_
#define FTAR_BASE_UNDO_H_

#include <utility>

namespace ftar {

template <typename Act>
class Undo {
 public:
  explicit Undo(Act act) : act_(std::move(act)) {}
  ~Undo() {
    if (!kept_) act_();
  }
  Undo(const Undo&) = delete;
  Undo& operator=(const Undo&) = delete;
  void Keep() { kept_ = true; }

 private:
  Act act_;
  bool kept_ = false;
};

}  // namespace ftar

#endif  // FTAR_BASE_UNDO_H_
