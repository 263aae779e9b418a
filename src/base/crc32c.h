// CRC32C (Castagnoli), the checksum of frames and chunks.
//
// A pure function of its arguments, any thread. ISA-L's code, the processor's CRC instruction or a
// table give the same value; which one runs depends on the build, the machine and the length.
#ifndef FTAR_BASE_CRC32C_H_
#define FTAR_BASE_CRC32C_H_

#include <cstddef>
#include <cstdint>

namespace ftar {

// The CRC32C of `bytes` bytes at `data`. `seed` is 0, or the value of the bytes before these:
// Crc32c(Crc32c(0, a), b) is that of a followed by b. Crc32c(0, "123456789", 9) is 0xe3069283, as
// in RFC 3720.
uint32_t Crc32c(uint32_t seed, const void* data, size_t bytes);

namespace internal {

// The ways there are, for tests; null where the build or the machine lacks one. Same arguments and
// values as Crc32c.
using Crc32cFunction = uint32_t (*)(uint32_t seed, const void* data, size_t bytes);
Crc32cFunction Crc32cOfIsal();
Crc32cFunction Crc32cOfSse42();
Crc32cFunction Crc32cOfTable();

}  // namespace internal
}  // namespace ftar

#endif  // FTAR_BASE_CRC32C_H_
