// A frame on its way out, as both transports queue it: a descriptor whose payload is the caller's
// memory, or a private copy. One thread at a time; whoever holds the object owns the copies, never
// the referenced payload.
#ifndef FTAR_TRANSPORT_OUT_FRAME_H_
#define FTAR_TRANSPORT_OUT_FRAME_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "base/copy.h"
#include "transport/buffer_pool.h"
#include "transport/priorities.h"
#include "wire/frame.h"

namespace ftar::transport {

// What a frame is to the transport itself, in FrameHeader::reserved.
enum class Transit : uint16_t {
  kDeliver = 0,
  kLinkAck = 1,    // nothing but link_ack; has no number of its own and is not delivered
  kTombstone = 2,  // stands for a numbered frame that was cancelled; not delivered
  kReference = 3,  // shm: what follows says where the payload lies
};

// How far a frame has come, and what has become of it.
struct Journey {
  enum class State : uint8_t { kQueued, kAssigned, kWritten };

  uint64_t cookie = 0;
  State state = State::kQueued;
  int slot = -1;  // stream it was assigned to
  bool body_crc_known = false;
  // Finished from a private copy; if it must travel again it does so as a tombstone.
  bool cancelled = false;
  bool finishing = false;     // FinishOp: its memory goes back when it is written
  bool unrepeatable = false;  // and has gone: it cannot travel again
  bool sent_before = false;
  size_t charged = 0;  // tcp: of the credit, until the peer has acknowledged it
};

struct OutFrame : Journey {
  wire::FrameHeader header;
  std::vector<std::byte> ext;
  std::span<const std::byte> payload;
  BufferPool::Buffer copy;  // backs `payload` when it is private

  size_t wire_bytes() const { return sizeof(wire::FrameHeader) + ext.size() + payload.size(); }
  bool is_data() const { return IsData(header); }
  bool belongs_to(uint32_t group, uint64_t seq) const {
    return is_data() && header.group == group && header.seq == seq;
  }

  // Moves the payload to memory of the frame's own. False if there is no memory.
  bool MakePrivate(BufferPool* pool) {
    if (!copy.empty() || payload.empty()) return true;
    copy = pool->Get(payload.size());
    if (copy.empty()) return false;
    CopyShort(copy.data(), payload.data(), payload.size());
    payload = {copy.data(), payload.size()};
    return true;
  }

  // As if it were new, but for the ext's memory.
  void Clear() {
    static_cast<Journey&>(*this) = {};
    header = {};
    ext.clear();
    payload = {};
    copy = {};
  }

  // The frame keeps its number and loses its content.
  void BecomeTombstone() {
    header.reserved = static_cast<uint16_t>(Transit::kTombstone);
    header.kind = wire::FrameKind::kAck;
    header.flags = 0;
    header.ext_bytes = header.payload_bytes = header.body_crc = 0;
    ext.clear();
    payload = {};
    copy = {};
    cookie = 0;
    cancelled = finishing = unrepeatable = false;
    body_crc_known = true;
  }
};

using OutQueue = std::deque<std::unique_ptr<OutFrame>>;

inline void Enqueue(std::unique_ptr<OutFrame> frame, const Priorities* priorities,
                    OutQueue* queue) {
  const auto header_of = [](const auto& queued) -> const auto& { return queued->header; };
  const auto at = PlaceInQueue(frame->header, priorities, *queue, header_of);
  // Into an empty one insert would put it in front, where there is no memory yet.
  if (at == queue->end()) return queue->push_back(std::move(frame));
  queue->insert(at, std::move(frame));
}

}  // namespace ftar::transport

#endif  // FTAR_TRANSPORT_OUT_FRAME_H_
