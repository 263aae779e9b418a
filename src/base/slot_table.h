// Values under numbers that are not used twice: a number says place and generation, so that a stale
// one finds nothing. Places are used again, so that a table in steady use asks for no memory. Not
// synchronised.
#ifndef FTAR_BASE_SLOT_TABLE_H_
#define FTAR_BASE_SLOT_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace ftar {

template <typename T>
class SlotTable {
 public:
  // Never 0. Addresses of values are valid until the next Add.
  uint64_t Add(T value) {
    if (free_.empty()) {
      free_.reserve(slots_.size() + 1);  // so that Remove cannot fail
      slots_.emplace_back();
      free_.push_back(static_cast<uint32_t>(slots_.size() - 1));
    }
    const uint32_t place = free_.back();
    Slot& slot = slots_[place];
    slot.value = std::move(value);
    slot.used = true;
    free_.pop_back();
    return uint64_t{slot.generation} << 32 | (uint64_t{place} + 1);
  }

  // Null if there is none.
  T* Find(uint64_t number) {
    const uint64_t place = (number & UINT32_MAX) - 1;
    if (place >= slots_.size()) return nullptr;
    Slot& slot = slots_[place];
    return slot.used && slot.generation == number >> 32 ? &slot.value : nullptr;
  }

  void Remove(uint64_t number) {
    if (Find(number) == nullptr) return;
    const auto place = static_cast<uint32_t>((number & UINT32_MAX) - 1);
    slots_[place].value = T();
    slots_[place].used = false;
    ++slots_[place].generation;
    free_.push_back(place);
  }

  template <typename Act>
  void ForEach(Act act) {
    for (Slot& slot : slots_) {
      if (slot.used) act(slot.value);
    }
  }

  void Clear() {
    slots_.clear();
    free_.clear();
  }
  size_t size() const { return slots_.size() - free_.size(); }

 private:
  struct Slot {
    T value{};
    uint32_t generation = 0;
    bool used = false;
  };
  std::vector<Slot> slots_;
  std::vector<uint32_t> free_;
};

}  // namespace ftar

#endif  // FTAR_BASE_SLOT_TABLE_H_
