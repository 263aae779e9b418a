// Memory as weak as the language of the device and of the host allow: a load may return any older
// value of its word that its thread is not bound to have passed.
//
// Each word keeps all values that were stored to it, in order. A thread's view says, for each word,
// the oldest value that it may still read; its own loads and stores move it on. A release store
// carries the storing thread's view along, and an acquire load that reads it takes the view over;
// a barrier joins the views of those who meet. That is what release and acquire promise and no
// more, so code that rests on more is found out.
#ifndef FTAR_TESTS_DEVICE_SIM_WEAK_MEMORY_H_
#define FTAR_TESTS_DEVICE_SIM_WEAK_MEMORY_H_

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "tests/sim/random.h"

namespace ftar::device_sim {

struct Value {
  uint64_t low = 0;
  uint64_t high = 0;
};

// By a word's number; what is missing is 0.
using View = std::vector<uint32_t>;
void Join(View* view, const View& other);

class WeakMemory {
 public:
  explicit WeakMemory(sim::Random* random) : random_(random) {}
  // Forgets everything. `staleness`: how often a load looks back at all.
  void Reset(double staleness);

  Value Load(View* view, uintptr_t address, bool acquires);
  void Store(View* view, uintptr_t address, Value value, bool releases);
  // The value that was stored last, and whether a thread with this view can read no other.
  Value Last(uintptr_t address);
  bool MustSeeLast(const View& view, uintptr_t address);

 private:
  struct Message {
    Value value;
    std::shared_ptr<const View> view;  // of a release
  };
  struct Word {
    std::vector<Message> messages;
  };
  uint32_t WordOf(uintptr_t address);

  sim::Random* const random_;
  double staleness_ = 0;
  std::unordered_map<uintptr_t, uint32_t> numbers_;
  std::vector<Word> words_;
};

}  // namespace ftar::device_sim

#endif  // FTAR_TESTS_DEVICE_SIM_WEAK_MEMORY_H_
