// One connected socket of a link: cuts arriving bytes into frames and writes queued frames out. It
// knows no frame numbers; order, acknowledgement and repetition are the link's.
//
// One thread at a time. It owns the socket and arriving payload; frames to write stay the link's
// and must live until `ForEachWritten` has told of them or the stream is destroyed.
#ifndef FTAR_TRANSPORT_TCP_STREAM_H_
#define FTAR_TRANSPORT_TCP_STREAM_H_

#include <sys/types.h>
#include <sys/uio.h>

#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "base/status.h"
#include "transport/buffer_pool.h"
#include "transport/fd.h"
#include "transport/out_frame.h"

namespace ftar::transport::tcp {

// A whole frame, checked by CRC where there is one. `memory` holds ext, padded to 64 bytes, then
// payload, unless that is where a Placer wanted it.
struct Arrived {
  wire::FrameHeader header;
  BufferPool::Buffer memory;
  std::byte* placed = nullptr;

  std::span<const std::byte> ext() const { return {memory.data(), header.ext_bytes}; }
  std::span<const std::byte> payload() const {
    const std::byte* own = memory.data() + PaddedExt(header.ext_bytes);
    return {placed != nullptr ? placed : own, header.payload_bytes};
  }
  static size_t PaddedExt(uint32_t bytes) { return (size_t{bytes} + 63) & ~size_t{63}; }
};

class Stream {
 public:
  // Asked for every frame of some size; may give null.
  using Place = std::function<std::byte*(const wire::FrameHeader&)>;
  // Whether the frame of this number has come before, by another stream.
  using Known = std::function<bool(uint64_t number)>;

  Stream(UniqueFd fd, BufferPool* pool, Place place = {}, Known known = {});

  int fd() const { return fd_.get(); }
  UniqueFd& fd_owner() { return fd_; }

  // Bytes that were read together with the handshake. At most kStagingBytes.
  void Preload(std::span<const std::byte> bytes);
  // Reads at most about `budget_bytes`, appends whole frames to `out`. An error means that the
  // stream is of no more use: kLink (closed, reset), kCorrupt (CRC or header wrong), kMemory.
  Status Read(size_t budget_bytes, std::vector<Arrived>* out);

  // If what is arriving is of that operation, or of any, its rest goes to memory of its own. False
  // if there is none.
  bool Unplace(uint32_t group, uint64_t seq);
  bool UnplaceAny();
  bool UnplaceNumber(uint64_t number);
  // That frame of the link is arriving in the place that was given for it.
  bool Places(uint64_t number) const {
    return in_body_ && current_.placed != nullptr && current_.header.link_seq == number;
  }

  // No part of a frame has come whose rest has not.
  bool between_frames() const { return !in_body_ && header_have_ == 0; }

  // `frame` must be stamped, that is complete but for being written.
  void Queue(OutFrame* frame);
  // Writes what the socket takes, at most `bytes_max`. Sets blocked() if it takes no more.
  Status Write(size_t bytes_max);
  // Calls `act` with each frame that was written completely since the last time, in order.
  template <typename Act>
  void ForEachWritten(Act act) {
    taken_.clear();
    taken_.swap(written_);  // also where memory runs out in between, each is told of once
    for (OutFrame* const frame : taken_) act(frame);
  }
  size_t queued_bytes() const { return queued_bytes_; }
  bool blocked() const { return blocked_; }
  void set_blocked(bool blocked) { blocked_ = blocked; }
  // True if some of this frame's bytes are in the socket and some are not.
  bool HalfWritten(const OutFrame* frame) const {
    return !queue_.empty() && queue_.front() == frame && offset_ > 0;
  }
  // Call after shortening a queued frame that is not half written.
  void RecountQueue();

  // Link-side tags, kept here so that a stream is found with its state.
  uint32_t interest = 0;  // epoll events armed now

 private:
  static constexpr size_t kStagingBytes = 20 * 1024;  // a small operation and what follows it
  static constexpr size_t kIovecsMax = 64;

  Status Parse(std::vector<Arrived>* out);
  Status BeginBody();
  std::byte* FindPlace() const;
  Status FinishFrame(std::vector<Arrived>* out);
  void AddToBody(const std::byte* data, size_t bytes);
  void CountBody(size_t bytes);
  size_t BodyIovecs(iovec* iov) const;
  size_t body_bytes() const {
    return size_t{current_.header.ext_bytes} + current_.header.payload_bytes;
  }
  size_t GatherOutput(size_t bytes_max, iovec* iov) const;
  ssize_t Send(size_t bytes_max) const;
  void AdvanceOutput(size_t bytes);

  UniqueFd fd_;
  BufferPool* pool_;
  const Place place_;
  const Known known_;

  // Arriving: header bytes first, then the body straight into its own memory; small frames come
  // through staging_.
  std::unique_ptr<std::byte[]> staging_;
  size_t staging_begin_ = 0, staging_end_ = 0;
  bool in_body_ = false;
  bool long_came_ = false;  // the last frame with a body was one; so is the next, most likely
  size_t header_have_ = 0, body_have_ = 0;
  uint32_t body_crc_ = 0;
  Arrived current_;

  std::deque<OutFrame*> queue_;
  std::vector<OutFrame*> written_, taken_;
  size_t offset_ = 0;  // bytes of the front frame that are written
  size_t queued_bytes_ = 0;
  bool blocked_ = false;
};

// Fills the header's fields that are the transport's: lengths, checksums, link_ack. `number` is the
// frame's link_seq.
void StampFrame(OutFrame* frame, uint64_t number, uint64_t ack, bool crc);

}  // namespace ftar::transport::tcp

#endif  // FTAR_TRANSPORT_TCP_STREAM_H_
