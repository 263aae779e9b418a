// Goal: Copy moves exactly its bytes in all modes.
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "base/copy.h"
#include "tests/unit/random_bytes.h"

namespace ftar {
namespace {

void ExpectCopied(CopyMode mode, size_t bytes, size_t from_offset, size_t to_offset) {
  constexpr size_t kGuard = 64;
  const std::vector<unsigned char> from = RandomBytes(bytes + 2 * kGuard);
  std::vector<unsigned char> expected(bytes + 3 * kGuard, 0xa5);
  std::copy_n(from.begin() + static_cast<ptrdiff_t>(from_offset), bytes,
              expected.begin() + static_cast<ptrdiff_t>(kGuard + to_offset));
  std::vector<unsigned char> to(expected.size(), 0xa5);
  Copy(to.data() + kGuard + to_offset, from.data() + from_offset, bytes, mode);
  EXPECT_TRUE(to == expected) << bytes << " bytes from +" << from_offset << " to +" << to_offset;
}

TEST(CopyTest, CopiesAnyCountAndAlignment) {
  for (CopyMode mode : {CopyMode::kCached, CopyMode::kStream, CopyMode::kHandOver}) {
    for (size_t bytes :
         {size_t{0}, size_t{1}, size_t{4097}, kHandOverMinBytes + 5, kStreamMinBytes - 1}) {
      ExpectCopied(mode, bytes, 3, 5);
    }
    for (size_t offset : {0, 1, 15, 16, 33, 63}) {
      ExpectCopied(mode, kStreamMinBytes, offset, 0);
      ExpectCopied(mode, kStreamMinBytes + 77, 7, offset);
    }
  }
  Copy(nullptr, nullptr, 0, CopyMode::kStream);
}

}  // namespace
}  // namespace ftar
