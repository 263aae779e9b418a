// Which memory a plan reads and writes, and whether two plans may run at the same time.
//
// Pure functions; addresses are numbers here.
#ifndef FTAR_DEVICE_RANGES_H_
#define FTAR_DEVICE_RANGES_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "kernels/plan.h"

namespace ftar::device {

struct Range {
  uintptr_t begin = 0;
  uintptr_t end = 0;
};

class Touched {
 public:
  Touched() = default;
  // What a kernel of this plan touches: its sources, its destinations, its checksum.
  explicit Touched(const kernels::Plan& plan);

  // True if one of them writes what the other one reads or writes.
  bool Conflicts(const Touched& other) const;

 private:
  void Add(const void* address, size_t bytes);
  bool WritesInto(const Touched& other) const;

  static constexpr size_t kMax = kernels::kMaxSources + kernels::kMaxDestinations + 1;
  std::array<Range, kMax> ranges_ = {};  // what is written, then what is only read
  size_t written_ = 0;
  size_t count_ = 0;
  Range all_;
};

}  // namespace ftar::device

#endif  // FTAR_DEVICE_RANGES_H_
