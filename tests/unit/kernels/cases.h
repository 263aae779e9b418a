// Random reductions and copies for the kernels, their whole memory as one image, and what the image
// must be afterwards. The same cases run on the host grid and on a device.
//
// Without GoogleTest. A case owns its images; not thread-safe.
#ifndef FTAR_TESTS_UNIT_KERNELS_CASES_H_
#define FTAR_TESTS_UNIT_KERNELS_CASES_H_

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "kernels/plan.h"

namespace ftar::kernels {

using Image = std::vector<unsigned char>;

// How the buffers of a case lie.
enum class Placement { kAligned, kSameOffset, kOwnOffsets, kOddBytes };

struct CaseOptions {
  reduce::Dtype dtype = reduce::Dtype::kF32;
  reduce::Redop redop = reduce::Redop::kSum;
  int sources = 2;
  int destinations = 1;
  size_t count = 0;
  Placement placement = Placement::kAligned;
  bool copy = false;         // Bytes from the first source; `count` of them.
  bool partial_mix = false;  // Some sources are partial results, where the type has them.
  bool to_partial = false;
  bool wide = false;
  bool in_place = false;  // The first destination is the first source, where formats allow.
  bool checksum = true;
  double scale = 1.0;
  Shape shape = {};
};

CaseOptions RandomOptions(std::mt19937_64* random, size_t max_count);
// A case for that kernel.
CaseOptions OptionsFor(const Id& id);
std::string NameOf(const CaseOptions& options);

class Case {
 public:
  Case(const CaseOptions& options, uint64_t seed);

  // Memory as it is before the launch; its first byte must lie at a multiple of 256 wherever it is
  // copied to.
  const Image& before() const { return before_; }
  // The launch, for an image that begins at `base`.
  Expected<Plan> PlanAt(unsigned char* base) const;
  // Empty if `after` is what the launch must leave: every element of every destination with the
  // bits of the host kernels (of a float64 sum where they have none), the checksum, and not a byte
  // else.
  std::string Compare(const Image& after) const;

 private:
  struct Area {
    size_t at = 0;
    reduce::Dtype format = reduce::Dtype::kU8;
    double weight = 1.0;
  };
  void Place(uint64_t seed);
  Area NewArea(reduce::Dtype format, std::mt19937_64* random);
  void Fill(std::mt19937_64* random);
  void Expect();
  std::vector<unsigned char> ExpectedResult() const;
  reduce::Dtype ResultFormat() const;
  double Divisor() const;

  CaseOptions options_;
  size_t same_offset_ = 0;
  size_t end_ = 0;
  std::vector<Area> sources_;
  std::vector<Area> destinations_;
  Image before_;
  Image expected_;
};

// `other`, of the first one's kernel if its places and grid leave it that.
CaseOptions AsKernelOf(const CaseOptions& first, const CaseOptions& other);

// An image at a multiple of 256.
class Placed {
 public:
  explicit Placed(const Image& image) : bytes_(image.size() + 256), size_(image.size()) {
    const auto address = reinterpret_cast<uintptr_t>(bytes_.data());
    base_ = bytes_.data() + (256 - address % 256) % 256;
    std::copy(image.begin(), image.end(), base_);
  }
  unsigned char* base() { return base_; }
  Image image() const { return {base_, base_ + size_}; }

 private:
  std::vector<unsigned char> bytes_;
  unsigned char* base_ = nullptr;
  size_t size_;
};

// Bytes as 32-bit little-endian words, the last one padded with zeros, added up modulo 2^32.
uint32_t WordSum(const unsigned char* bytes, size_t count);

}  // namespace ftar::kernels

#endif  // FTAR_TESTS_UNIT_KERNELS_CASES_H_
