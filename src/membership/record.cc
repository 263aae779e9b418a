#include "membership/record.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

#include "base/crc32c.h"
#include "wire/frame.h"
#include "wire/messages.h"

namespace ftar::membership {
namespace {

constexpr char kMagic[8] = {'F', 'T', 'A', 'R', 'V', 'I', 'E', 'W'};
constexpr uint16_t kRecordVersion = 1;

struct Header {
  char magic[8];
  uint16_t version, wire_version;
  uint32_t bytes;  // that follow
  uint32_t crc;    // of the header before it and of what follows
};
static_assert(sizeof(Header) == kRecordHeaderBytes);
constexpr size_t kCheckedBytes = offsetof(Header, crc);

uint32_t Checksum(const Header& header, std::span<const std::byte> body) {
  return Crc32c(Crc32c(0, &header, kCheckedBytes), body.data(), body.size());
}

Status Unusable(std::string why) { return Status(Code::kConfig, "state", std::move(why)); }

}  // namespace

// The body is the Hello with which a coordinator would report to its successor, as members do.
std::vector<std::byte> EncodeRecord(const CoordinatorRecord& record) {
  wire::Hello hello;
  hello.wire_version = wire::kWireVersion;
  hello.job = record.job;
  hello.report.promised = record.epoch;
  hello.report.installed_view = record.view;
  const std::vector<std::byte> body = wire::Encode(hello);
  Header header{};
  std::memcpy(header.magic, kMagic, sizeof kMagic);
  header.version = kRecordVersion;
  header.wire_version = wire::kWireVersion;
  header.bytes = static_cast<uint32_t>(body.size());
  header.crc = Checksum(header, body);
  std::vector<std::byte> out(sizeof header + body.size());
  std::memcpy(out.data(), &header, sizeof header);
  std::copy(body.begin(), body.end(), out.begin() + sizeof header);
  return out;
}

Expected<CoordinatorRecord> DecodeRecord(std::span<const std::byte> bytes) {
  Header header{};
  if (bytes.size() < sizeof header) return Unusable("it is cut off, or no coordinator's state");
  std::memcpy(&header, bytes.data(), sizeof header);
  if (std::memcmp(header.magic, kMagic, sizeof kMagic) != 0)
    return Unusable("it is no coordinator's state");
  if (header.version != kRecordVersion || header.wire_version != wire::kWireVersion) {
    return Unusable("it is of version " + std::to_string(header.version) + "." +
                    std::to_string(header.wire_version) + ", this coordinator's of " +
                    std::to_string(kRecordVersion) + "." + std::to_string(wire::kWireVersion));
  }
  const std::span<const std::byte> body = bytes.subspan(sizeof header);
  if (body.size() != header.bytes) return Unusable("it is cut off, or has something behind it");
  if (Checksum(header, body) != header.crc) return Unusable("it is corrupt: its checksum differs");
  Expected<wire::Message> message = wire::Decode(body);
  if (!message.ok()) return Unusable("it is corrupt: " + message.status().text());
  auto* const hello = std::get_if<wire::Hello>(&*message);
  if (hello == nullptr) return Unusable("it is corrupt: what it holds is no report");
  return CoordinatorRecord{std::move(hello->job), hello->report.promised,
                           std::move(hello->report.installed_view)};
}

}  // namespace ftar::membership
