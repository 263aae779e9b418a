#include "wire/codec.h"

#include <cstdint>
#include <cstring>
#include <string>

#include "wire/pack.h"

namespace ftar::wire {
namespace {

// Structs take more memory than their tables, at most this factor (an honest message stays below
// 5).
constexpr size_t kExpansionMax = 16;
constexpr size_t kExpansionSlackBytes = 64 * 1024;

constexpr size_t kAlignment = 16;  // of the strictest scalar that the generated code reads in place

Expected<Message> DecodeAligned(const uint8_t* data, size_t size) {
  flatbuffers::Verifier verifier(data, size);
  if (!fb::VerifyEnvelopeBuffer(verifier)) {
    return Status(Code::kPeer, "message of " + std::to_string(size) + " bytes is not well formed");
  }
  return UnpackEnvelope(*fb::GetEnvelope(data), kExpansionMax * size + kExpansionSlackBytes);
}

}  // namespace

std::vector<std::byte> Encode(const Message& message) {
  flatbuffers::FlatBufferBuilder builder(256);
  PackEnvelope(builder, message);
  const auto* data = reinterpret_cast<const std::byte*>(builder.GetBufferPointer());
  return {data, data + builder.GetSize()};
}

Expected<Message> Decode(std::span<const std::byte> bytes) {
  if (bytes.size() > kMessageBytesMax) {
    return Status(Code::kPeer, "message of " + std::to_string(bytes.size()) + " bytes is too long");
  }
  const auto* data = reinterpret_cast<const uint8_t*>(bytes.data());
  if (reinterpret_cast<uintptr_t>(data) % kAlignment == 0) return DecodeAligned(data, bytes.size());
  struct alignas(kAlignment) Unit {
    uint8_t bytes[kAlignment];
  };
  std::vector<Unit> aligned(bytes.size() / kAlignment + 1);
  std::memcpy(aligned.data(), data, bytes.size());
  return DecodeAligned(reinterpret_cast<const uint8_t*>(aligned.data()), bytes.size());
}

const char* MessageName(const Message& message) {
  return fb::EnumNameBody(static_cast<fb::Body>(message.index() + 1));
}

}  // namespace ftar::wire
