// Fuzz target for the reader of a shared-memory ring: the peer's whole segment is the input. Frames
// that come out lie inside the segment; anything else is an error.
#include <memory>
#include <new>

#include "tests/fuzz/input.h"
#include "transport/shm/ring.h"

namespace {

using ftar::fuzz::Require;
using ftar::transport::shm::kRingBytesMin;
using ftar::transport::shm::kRingOffset;
using ftar::transport::shm::RingReader;
using ftar::transport::shm::RingWriter;
using ftar::transport::shm::SegmentHeader;

struct alignas(4096) Segment {
  std::byte bytes[kRingOffset + kRingBytesMin] = {};
  SegmentHeader* header() { return reinterpret_cast<SegmentHeader*>(bytes); }
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  ftar::fuzz::Input input(data, size);
  const auto own = std::make_unique<Segment>(), peer = std::make_unique<Segment>();
  new (own->bytes) SegmentHeader{};
  new (peer->bytes) SegmentHeader{};
  // The peer writes what a good one writes, then its memory is damaged.
  RingWriter writer(peer->header(), own->header(), kRingBytesMin);
  RingReader reader(own->header(), peer->header(), kRingBytesMin);
  std::byte text[1024] = {};
  for (int round = 0; round < 100 && !input.empty(); ++round) {
    ftar::wire::FrameHeader header;
    header.kind = ftar::wire::FrameKind::kRaw;
    header.ext_bytes = input.Byte();
    header.payload_bytes = input.Byte() * 4u;
    if (writer.Write(header, {text, header.ext_bytes}, {text, header.payload_bytes}) ==
        RingWriter::Result::kPeerCorrupt)
      return 0;
    for (uint32_t edits = input.Below(4); edits > 0; --edits)
      peer->bytes[kRingOffset + input.Word() % kRingBytesMin] = std::byte{input.Byte()};
    if (input.Below(8) == 0) peer->header()->head.store(input.Number());
    RingReader::Record record;
    const auto more = reader.Next(&record);
    if (!more.ok()) return 0;
    if (!*more) continue;
    for (const auto& part : {record.ext, record.payload}) {
      if (part.empty()) continue;
      Require(part.data() >= peer->bytes + kRingOffset);
      Require(part.data() + part.size() <= peer->bytes + sizeof peer->bytes);
    }
    if (input.Chance()) reader.Done(record.end);
  }
  return 0;
}
