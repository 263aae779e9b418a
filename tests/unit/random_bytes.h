// Bytes without a pattern, the same in every run.
#ifndef FTAR_TESTS_UNIT_RANDOM_BYTES_H_
#define FTAR_TESTS_UNIT_RANDOM_BYTES_H_

#include <cstddef>
#include <random>
#include <vector>

namespace ftar {

inline std::vector<unsigned char> RandomBytes(size_t count) {
  std::mt19937 random(5);
  std::vector<unsigned char> bytes(count);
  for (unsigned char& byte : bytes) byte = static_cast<unsigned char>(random());
  return bytes;
}

}  // namespace ftar

#endif  // FTAR_TESTS_UNIT_RANDOM_BYTES_H_
