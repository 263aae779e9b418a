#include "transport/shm/ring.h"

#include <algorithm>
#include <cstring>

#include "base/copy.h"

namespace ftar::transport::shm {
namespace {

constexpr size_t kLine = 64;
// The frame header with room to the next line boundary.
constexpr size_t kPrefixBytes = 128;
static_assert(sizeof(wire::FrameHeader) <= kPrefixBytes);
// In the place of a frame's magic: the rest of the ring up to its end is unused.
constexpr uint16_t kSkipMagic = 0x5366;
static_assert(kSkipMagic != wire::kFrameMagic);

constexpr size_t Padded(size_t bytes) { return (bytes + kLine - 1) & ~(kLine - 1); }

}  // namespace

size_t RecordBytes(size_t ext_bytes, size_t payload_bytes) {
  return kPrefixBytes + Padded(ext_bytes) + Padded(payload_bytes);
}

RingWriter::RingWriter(SegmentHeader* own, const SegmentHeader* peer, size_t ring_bytes)
    : own_(own), peer_(peer), ring_bytes_(ring_bytes) {}

std::byte* RingWriter::At(uint64_t position) const {
  return reinterpret_cast<std::byte*>(own_) + kRingOffset + (position & (ring_bytes_ - 1));
}

RingWriter::Result RingWriter::Write(const wire::FrameHeader& header,
                                     std::span<const std::byte> ext,
                                     std::span<const std::byte> payload) {
  const size_t need = RecordBytes(ext.size(), payload.size());
  const size_t to_end = ring_bytes_ - (head_ & (ring_bytes_ - 1));
  const size_t skip = need <= to_end ? 0 : to_end;
  if (head_ + skip + need - tail_ > ring_bytes_) {
    const uint64_t tail = peer_->tail.load(std::memory_order_seq_cst);
    if (tail < tail_ || tail > head_) return Result::kPeerCorrupt;
    tail_ = tail;
    if (head_ + skip + need - tail_ > ring_bytes_) return Result::kFull;
  }
  if (skip > 0) std::memcpy(At(head_), &kSkipMagic, sizeof kSkipMagic);
  std::byte* place = At(head_ + skip);
  std::memcpy(place, &header, sizeof header);
  CopyShort(place + kPrefixBytes, ext.data(), ext.size());
  const bool streamed = (header.flags & wire::kFrameStreamed) != 0;
  Copy(place + kPrefixBytes + Padded(ext.size()), payload.data(), payload.size(),
       streamed ? CopyMode::kHandOver : CopyMode::kCached);
  head_ += skip + need;
  own_->head.store(head_, std::memory_order_seq_cst);
  return Result::kWritten;
}

RingReader::RingReader(SegmentHeader* own, const SegmentHeader* peer, size_t peer_ring_bytes)
    : own_(own), peer_(peer), ring_bytes_(peer_ring_bytes) {}

const std::byte* RingReader::At(uint64_t position) const {
  return reinterpret_cast<const std::byte*>(peer_) + kRingOffset + (position & (ring_bytes_ - 1));
}

Expected<bool> RingReader::Next(Record* record) {
  const uint64_t head = std::min(peer_->head.load(std::memory_order_acquire), end_);
  if (head == position_) return false;
  if (head < position_ || head - done_ > ring_bytes_ || head % kLine != 0) {
    return Status(Code::kCorrupt, "the peer's ring position makes no sense");
  }
  size_t to_end = ring_bytes_ - (position_ & (ring_bytes_ - 1));
  uint16_t magic;
  std::memcpy(&magic, At(position_), sizeof magic);
  if (magic == kSkipMagic) {
    position_ += to_end;
    if (position_ >= head) return Status(Code::kCorrupt, "the peer's ring skips beyond its end");
    to_end = ring_bytes_;
  }
  const size_t available = std::min<uint64_t>(head - position_, to_end);
  if (available < kPrefixBytes)
    return Status(Code::kCorrupt, "the peer's ring holds a truncated frame");
  const std::byte* place = At(position_);
  // Copied before it is checked: the peer could change it in between.
  std::memcpy(&record->header, place, sizeof record->header);
  if (const Status status = wire::ValidateHeader(record->header); !status.ok()) {
    return Status(Code::kCorrupt, "the peer's ring: " + status.text());
  }
  const size_t bytes = RecordBytes(record->header.ext_bytes, record->header.payload_bytes);
  if (bytes > available) return Status(Code::kCorrupt, "the peer's ring holds a truncated frame");
  record->ext = {place + kPrefixBytes, record->header.ext_bytes};
  record->payload = {place + kPrefixBytes + Padded(record->header.ext_bytes),
                     record->header.payload_bytes};
  position_ += bytes;
  record->end = position_;
  return true;
}

void RingReader::Done(uint64_t end) {
  done_ = end;
  own_->tail.store(end, std::memory_order_seq_cst);
}

}  // namespace ftar::transport::shm
