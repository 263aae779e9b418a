// Goal: every way of computing CRC32C gives the value of RFC 3720, at once or continued.
#include "base/crc32c.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "tests/unit/random_bytes.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

namespace ftar {
namespace {

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

#if defined(__x86_64__)
// Of a processor that tells which registers are in use (XGETBV of 1).
bool TellsWhatIsInUse() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  constexpr unsigned kXgetbvOfOne = 1U << 2;
  return __builtin_cpu_supports("avx") != 0 && __get_cpuid_count(0xd, 1, &eax, &ebx, &ecx, &edx) &&
         (eax & kXgetbvOfOne) != 0;
}

[[gnu::target("avx")]] void ZeroUpperHalves() { _mm256_zeroupper(); }

[[gnu::target("xsave")]] bool UpperHalvesAreInUse() {
  constexpr unsigned long long kUpperHalves = 1 << 2;
  return (_xgetbv(1) & kUpperHalves) != 0;
}

// On Intel's processors all code for SSE, here and in the caller, is slower until they are not.
TEST(Crc32cTest, LeavesNoUpperHalvesInUse) {
  if (!TellsWhatIsInUse()) GTEST_SKIP() << "this processor does not tell";
  ZeroUpperHalves();
  if (UpperHalvesAreInUse()) GTEST_SKIP() << "this processor always says so";
  const std::vector<unsigned char> bytes = RandomBytes(100000);
  for (size_t count : {100, 256, 4096, 100000}) {
    ZeroUpperHalves();
    const uint32_t crc = Crc32c(0, bytes.data(), count);
    const bool in_use = UpperHalvesAreInUse();
    EXPECT_FALSE(in_use) << count;
    EXPECT_EQ(crc, internal::Crc32cOfTable()(0, bytes.data(), count));
  }
}
#endif

}  // namespace
}  // namespace ftar
