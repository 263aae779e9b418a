// What the reduction tests share: names, random elements, buffers at odd addresses with guards.
//
// Header only; each test owns what it makes. Not thread-safe.
#ifndef FTAR_TESTS_UNIT_REDUCE_SUPPORT_H_
#define FTAR_TESTS_UNIT_REDUCE_SUPPORT_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "reduce/isa.h"
#include "reduce/reduce.h"
#include "tests/unit/reduce/elements.h"
#include "tests/unit/reduce/reference.h"

namespace ftar::reduce {

// `count` elements at an address that is `offset` past a multiple of 64, with guards on both sides.
class Elements {
 public:
  Elements(Dtype dtype, size_t count, size_t offset)
      : element_bytes_(ElementBytes(dtype)),
        count_(count),
        memory_(3 * kGuard + count * element_bytes_, kMark) {
    const auto address = reinterpret_cast<uintptr_t>(memory_.data());
    start_ = kGuard + (kGuard - address % kGuard) % kGuard + offset % kGuard;
    memory_.resize(start_ + count * element_bytes_ + kGuard, kMark);
  }

  void* data() { return memory_.data() + start_; }
  const void* data() const { return memory_.data() + start_; }

  void Set(size_t i, reference::Bits bits) {
    std::memcpy(memory_.data() + start_ + i * element_bytes_, &bits, element_bytes_);
  }
  reference::Bits Get(size_t i) const {
    reference::Bits bits = 0;
    std::memcpy(&bits, memory_.data() + start_ + i * element_bytes_, element_bytes_);
    return bits;
  }
  // True while nothing outside of the elements has been written.
  bool GuardsIntact() const {
    for (size_t i = 0; i < memory_.size(); ++i) {
      const bool inside = i >= start_ && i < start_ + count_ * element_bytes_;
      if (!inside && memory_[i] != kMark) return false;
    }
    return true;
  }

 private:
  static constexpr size_t kGuard = 64;
  static constexpr unsigned char kMark = 0xa5;
  size_t element_bytes_;
  size_t count_;
  size_t start_ = 0;
  // Reserved for the worst alignment, so that the resize in the constructor moves nothing.
  std::vector<unsigned char> memory_;
};

inline std::vector<reference::Input> RandomInputs(Dtype dtype, size_t inputs, size_t count,
                                                  std::mt19937_64* random) {
  static constexpr double kWeights[] = {1.0, 0.1, 3.0, 1e-3, 7.25, 1.0 / 3.0};
  std::vector<reference::Input> all(inputs);
  for (size_t s = 0; s < inputs; ++s) {
    all[s].weight = kWeights[s % 6];
    for (size_t i = 0; i < count; ++i) all[s].elements.push_back(RandomElement(dtype, random));
  }
  return all;
}

inline double DivisorOf(Redop redop, const std::vector<reference::Input>& inputs) {
  if (redop == Redop::kAvg) return static_cast<double>(inputs.size());
  if (redop != Redop::kWavg) return 1.0;
  double sum = 0;
  for (const reference::Input& input : inputs) sum += input.weight;
  return sum;
}

// The first `count` elements of each input at odd addresses that differ, and the sources that name
// them.
struct Placed {
  Placed(Dtype dtype, const std::vector<reference::Input>& inputs, size_t count, size_t offset) {
    for (size_t s = 0; s < inputs.size(); ++s) {
      Elements elements(dtype, count, offset + s * (offset % 7));
      for (size_t i = 0; i < count; ++i) elements.Set(i, inputs[s].elements[i]);
      buffers.push_back(std::move(elements));
    }
    for (size_t s = 0; s < inputs.size(); ++s) {
      sources.push_back({.data = buffers[s].data(), .format = dtype, .weight = inputs[s].weight});
    }
  }
  std::vector<Elements> buffers;
  std::vector<Source> sources;
};

// Runs a body once for each instruction set of this machine, and goes back to the best one.
template <typename Body>
void ForEachIsa(const Body& body) {
  for (std::string_view isa : AvailableIsas()) {
    SCOPED_TRACE(std::string(isa));
    ASSERT_TRUE(SetIsa(isa).ok());
    body();
    if (testing::Test::HasFailure()) break;
  }
  ASSERT_TRUE(SetIsa("auto").ok());
}

}  // namespace ftar::reduce

#endif  // FTAR_TESTS_UNIT_REDUCE_SUPPORT_H_
