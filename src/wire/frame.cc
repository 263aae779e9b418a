#include "wire/frame.h"

#include <string>

namespace ftar::wire {

Status ValidateHeader(const FrameHeader& header) {
  if (header.magic != kFrameMagic)
    return {Code::kPeer, "frame does not begin with libftar's magic"};
  if (header.version != kWireVersion) {
    return {Code::kVersion, "peer speaks wire version " + std::to_string(header.version) +
                                ", this member " + std::to_string(kWireVersion)};
  }
  if (header.kind < FrameKind::kControl || header.kind > FrameKind::kFinal) {
    return {Code::kPeer, "unknown frame kind " + std::to_string(static_cast<int>(header.kind))};
  }
  if (header.ext_bytes > kExtBytesMax) return {Code::kPeer, "frame extension is too long"};
  if (header.payload_bytes > kPayloadBytesMax) return {Code::kPeer, "frame payload is too long"};
  return {};
}

}  // namespace ftar::wire
