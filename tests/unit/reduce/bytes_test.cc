// Goal: Copy moves exactly its bytes in both modes; every way of computing CRC32C gives the same
// value.
#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <vector>

#include "reduce/copy.h"
#include "reduce/crc32c.h"

namespace ftar::reduce {
namespace {

std::vector<unsigned char> RandomBytes(size_t count) {
  std::mt19937 random(5);
  std::vector<unsigned char> bytes(count);
  for (unsigned char& byte : bytes) byte = static_cast<unsigned char>(random());
  return bytes;
}

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
  for (CopyMode mode : {CopyMode::kCached, CopyMode::kStream}) {
    for (size_t bytes : {size_t{0}, size_t{1}, size_t{4097}, kStreamMinBytes - 1}) {
      ExpectCopied(mode, bytes, 3, 5);
    }
    for (size_t offset : {0, 1, 15, 16, 33, 63}) {
      ExpectCopied(mode, kStreamMinBytes, offset, 0);
      ExpectCopied(mode, kStreamMinBytes + 77, 7, offset);
    }
  }
  Copy(nullptr, nullptr, 0, CopyMode::kStream);
}

TEST(Crc32cTest, KnownValues) {
  EXPECT_EQ(Crc32c(0, "123456789", 9), 0xe3069283u);
  EXPECT_EQ(Crc32c(0, nullptr, 0), 0u);
  // RFC 3720, B.4.
  const std::vector<unsigned char> zeros(32, 0);
  EXPECT_EQ(Crc32c(0, zeros.data(), 32), 0x8a9136aau);
  const std::vector<unsigned char> ones(32, 0xff);
  EXPECT_EQ(Crc32c(0, ones.data(), 32), 0x62a8ab43u);
}

TEST(Crc32cTest, AllWaysAgreeAndCanBeContinued) {
  const std::vector<unsigned char> bytes = RandomBytes(3000);
  const internal::Crc32cFunction ways[] = {internal::Crc32cOfIsal(), internal::Crc32cOfSse42(),
                                           internal::Crc32cOfTable(), Crc32c};
  for (size_t offset : {0, 1, 5}) {
    for (size_t count = 0; count + offset <= bytes.size(); count += count < 300 ? 1 : 211) {
      const uint32_t expected = internal::Crc32cOfTable()(0, bytes.data() + offset, count);
      for (internal::Crc32cFunction way : ways) {
        if (way == nullptr) continue;
        ASSERT_EQ(way(0, bytes.data() + offset, count), expected);
        const size_t half = count / 2;
        const uint32_t first = way(0, bytes.data() + offset, half);
        ASSERT_EQ(way(first, bytes.data() + offset + half, count - half), expected);
      }
    }
  }
}

}  // namespace
}  // namespace ftar::reduce
