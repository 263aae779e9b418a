// The fixed header in front of everything that travels on a link between two members.
//
// Layout is the wire format (little endian, 96 bytes, no padding). Rule F2 and contract 9: every
// frame names the era it was made in and, for data, the attempt it belongs to; a receiver drops
// what is older than its own era and holds what is newer.
#ifndef FTAR_WIRE_FRAME_H_
#define FTAR_WIRE_FRAME_H_

#include <cstdint>
#include <span>
#include <type_traits>

#include "base/ids.h"
#include "base/status.h"

namespace ftar::wire {

inline constexpr uint16_t kWireVersion = 8;
inline constexpr uint16_t kFrameMagic = 0x7446;
inline constexpr uint32_t kExtBytesMax = 64 * 1024;
inline constexpr uint64_t kPayloadBytesMax = 64ull << 20;

enum class FrameKind : uint8_t {
  kControl = 1,  // payload: an encoded wire::Message, or its piece from `offset` on
  kAck = 2,      // nothing but the header: complete_end
  kRaw = 3,      // one chunk of the sender's input
  kPartial = 4,  // one chunk of a partial sum, in the accumulator's type (ring)
  kFinal = 5,    // one chunk of the result
};

struct FrameHeader {
  uint16_t magic = kFrameMagic;
  uint16_t version = kWireVersion;
  FrameKind kind = FrameKind::kControl;
  uint8_t flags = 0;
  uint16_t reserved = 0;
  uint32_t group = 0;
  uint32_t chunk = 0;
  uint64_t era = 0;      // the sender's era when the frame was made
  uint64_t attempt = 0;  // data: the epoch of the attempt the bytes belong to
  uint64_t seq = 0;
  uint64_t complete_end =
      0;  // all of this group's operations below it are complete at the sender, in `era` (rule V1)
  uint64_t signature = 0;  // digest of the call (rule V5)
  uint64_t offset =
      0;  // of the chunk's first byte in the operation's buffer; checked, never trusted
  uint32_t ext_bytes = 0;  // call signature and weights, behind the header
  uint32_t payload_bytes = 0;
  // Filled by the transport, CRC32C: of ext, then of the payload if kFrameHasCrc; and of the header
  // with this field zero, so that its lengths are believed or not before anything is waited for.
  uint32_t body_crc = 0;
  uint32_t header_crc = 0;
  uint64_t link_seq = 0;  // filled by the transport: number of this frame on its link
  uint64_t link_ack = 0;  // filled by the transport: frames received so far in the other direction
};
static_assert(sizeof(FrameHeader) == 96 && std::is_trivially_copyable_v<FrameHeader>);

inline constexpr uint8_t kFrameHasCrc = 1;  // of the payload, too
inline constexpr uint8_t kFrameAbsent =
    2;  // kFinal: the weights sum to 0, there is no result (rule V5)
inline constexpr uint8_t kFrameWeightless = 4;  // kRaw: weight 0, no payload follows (rule V7)

inline constexpr uint8_t kFrameStreamed =
    8;  // on one host: the payload was written past its writer's caches
inline constexpr uint8_t kFrameMore = 16;  // kControl: the message goes on in the next one

// Checks everything that can be checked without knowing the receiver's state: magic, version, kind,
// lengths.
Status ValidateHeader(const FrameHeader& header);

}  // namespace ftar::wire

#endif  // FTAR_WIRE_FRAME_H_
