// Messages to bytes and back. FlatBuffers inside (messages.fbs), run through its verifier before
// anything is read; sizes of strings and vectors are bounded. Pure; any thread. A decode error is
// Code::kPeer with a text that says what is wrong.
#ifndef FTAR_WIRE_CODEC_H_
#define FTAR_WIRE_CODEC_H_

#include <cstddef>
#include <span>
#include <vector>

#include "base/status.h"
#include "wire/messages.h"

namespace ftar::wire {

inline constexpr size_t kMessageBytesMax = 16u << 20;

std::vector<std::byte> Encode(const Message& message);
Expected<Message> Decode(std::span<const std::byte> bytes);
const char* MessageName(const Message& message);

}  // namespace ftar::wire

#endif  // FTAR_WIRE_CODEC_H_
