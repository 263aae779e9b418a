// Goal: Copy moves exactly its bytes in all modes.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <vector>

#include "base/copy.h"
#include "tests/unit/random_bytes.h"

namespace ftar {
namespace {

using CopyBytes = std::function<void(void* dst, const void* src, size_t bytes)>;

void ExpectCopied(const CopyBytes& copy, size_t bytes, size_t from_offset, size_t to_offset) {
  constexpr size_t kGuard = 64;
  const std::vector<unsigned char> from = RandomBytes(bytes + 2 * kGuard);
  std::vector<unsigned char> expected(bytes + 3 * kGuard, 0xa5);
  std::copy_n(from.begin() + static_cast<ptrdiff_t>(from_offset), bytes,
              expected.begin() + static_cast<ptrdiff_t>(kGuard + to_offset));
  std::vector<unsigned char> to(expected.size(), 0xa5);
  copy(to.data() + kGuard + to_offset, from.data() + from_offset, bytes);
  EXPECT_TRUE(to == expected) << bytes << " bytes from +" << from_offset << " to +" << to_offset;
}

TEST(CopyTest, CopiesAnyCountAndAlignment) {
  for (CopyMode mode : {CopyMode::kCached, CopyMode::kStream, CopyMode::kHandOver}) {
    const auto copy = [mode](void* dst, const void* src, size_t bytes) {
      Copy(dst, src, bytes, mode);
    };
    for (size_t bytes :
         {size_t{0}, size_t{1}, size_t{4097}, kHandOverMinBytes + 5, kStreamMinBytes - 1}) {
      ExpectCopied(copy, bytes, 3, 5);
    }
    for (size_t offset : {0, 1, 15, 16, 33, 63}) {
      ExpectCopied(copy, kStreamMinBytes, offset, 0);
      ExpectCopied(copy, kStreamMinBytes + 77, 7, offset);
    }
  }
  Copy(nullptr, nullptr, 0, CopyMode::kStream);
}

TEST(CopyTest, ShortOfAnyCountAndAlignment) {
  for (size_t bytes = 0; bytes <= 70; ++bytes) {
    for (size_t offset : {0, 1, 5}) ExpectCopied(CopyShort, bytes, offset, 3 * offset);
  }
  CopyShort(nullptr, nullptr, 0);
}

TEST(CopyTest, PastTheCachesWithAndWithoutWideLines) {
  for (bool wide : {false, HasWideLines()}) {
    const auto copy = [wide](void* dst, const void* src, size_t bytes) {
      CopyPastCaches(dst, src, bytes, wide);
    };
    for (size_t bytes : {0, 1, 63, 64, 65, 255, 256, 257, 64 * 7, 4096, 5001}) {
      for (size_t offset : {0, 1, 33, 63}) {
        ExpectCopied(copy, bytes, 0, offset);
        ExpectCopied(copy, bytes, offset, 5);
      }
    }
  }
}

}  // namespace
}  // namespace ftar
