// One direction of a shared-memory link: a ring of frames in the writer's own segment, and the
// words that go with it.
//
// Each side writes only its own segment (rule F1): the writer publishes `head`, the reader's
// progress `tail` lies in the reader's segment. So no word has two writers, and peers map each
// other read-only. Nothing read from a peer is trusted: the frame header is copied out first and
// checked then, positions must move forward and stay within the ring. Publishing is a sequentially
// consistent store followed by a load of the peer's `sleeping` word; the sleeper does the opposite
// (raise the word, then look at head), so one of them always sees the other: no wake-up is lost and
// no system call made while both are awake. No standalone fences: ThreadSanitizer does not know
// them.
//
// Why an evicted and stopped peer does no harm (design 1.9): a stopped writer can only write its
// own segment, which the others have unmapped; a stopped reader goes on reading segments that their
// writers have unmapped and never use again, so it sees stale but whole bytes. One thread on each
// side. The memory is the caller's and must outlive the object.
#ifndef FTAR_TRANSPORT_SHM_RING_H_
#define FTAR_TRANSPORT_SHM_RING_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

#include "base/status.h"
#include "wire/frame.h"

namespace ftar::transport::shm {

inline constexpr uint32_t kLoansMax = 2048;

// The first pages of a segment.
struct SegmentHeader {
  static constexpr uint64_t kMagic = 0x32676573'74667461;
  uint64_t magic = kMagic;
  uint64_t ring_bytes = 0;                    // power of two
  alignas(64) std::atomic<uint64_t> head{0};  // bytes the owner has published
  alignas(64) std::atomic<uint64_t> tail{
      0};  // bytes of the peer's ring that the owner is done with
  alignas(64) std::atomic<uint32_t> sleeping{0};  // see WakeBits
  // Loans (loans.h): whether the owner takes any, how many of the peer's blocks it has mapped, and
  // of its GPU's, the ages of what it lends, and one more than the ages of what it has given back.
  alignas(64) std::atomic<uint32_t> borrows{0};
  std::atomic<uint64_t> blocks_mapped{0};
  std::atomic<uint64_t> device_blocks_mapped{0};
  alignas(64) std::atomic<uint32_t> loan_ages[kLoansMax] = {};
  alignas(64) std::atomic<uint32_t> loans_returned[kLoansMax] = {};
  static_assert(std::atomic<uint64_t>::is_always_lock_free);
};
// What the owner wants to be woken for; the bits above count its naps, so that a waker rings once a
// nap.
enum WakeBits : uint32_t { kWakeOnHead = 1, kWakeOnTail = 2, kNapUnit = 4 };

inline constexpr size_t kRingOffset = 20480;
static_assert(sizeof(SegmentHeader) <= kRingOffset);
inline constexpr size_t kRingBytesMin = 4096;
inline constexpr size_t kRingBytesMax = size_t{16} << 30;

// Bytes of a frame in the ring.
size_t RecordBytes(size_t ext_bytes, size_t payload_bytes);
// The longest record that always fits sooner or later.
constexpr size_t RecordBytesMax(size_t ring_bytes) { return ring_bytes / 2; }

class RingWriter {
 public:
  enum class Result { kWritten, kFull, kPeerCorrupt };
  // `own` is written, `peer` only read. `ring_bytes` is the own ring's size.
  RingWriter(SegmentHeader* own, const SegmentHeader* peer, size_t ring_bytes);

  size_t record_bytes_max() const { return RecordBytesMax(ring_bytes_); }
  // Copies the frame into the ring and publishes it.
  Result Write(const wire::FrameHeader& header, std::span<const std::byte> ext,
               std::span<const std::byte> payload);
  // True if the peer has taken something since the last Write that found no room.
  bool RoomMayHaveCome() const { return peer_->tail.load(std::memory_order_seq_cst) != tail_; }

 private:
  std::byte* At(uint64_t position) const;

  SegmentHeader* own_;
  const SegmentHeader* peer_;
  size_t ring_bytes_;
  uint64_t head_ = 0, tail_ = 0;
};

class RingReader {
 public:
  struct Record {
    wire::FrameHeader header;                 // a copy, checked
    std::span<const std::byte> ext, payload;  // in the peer's memory
    uint64_t end = 0;                         // give to Done when no longer needed
  };
  RingReader(SegmentHeader* own, const SegmentHeader* peer, size_t peer_ring_bytes);

  bool HasMore() const { return peer_->head.load(std::memory_order_seq_cst) != position_; }
  // Of what the peer publishes from now on nothing is read.
  void Stop() { end_ = peer_->head.load(std::memory_order_acquire); }
  // False if there is none. An error means that the peer's memory makes no sense.
  Expected<bool> Next(Record* record);
  // Everything before `end` may be overwritten.
  void Done(uint64_t end);

 private:
  const std::byte* At(uint64_t position) const;

  SegmentHeader* own_;
  const SegmentHeader* peer_;
  size_t ring_bytes_;
  uint64_t position_ = 0, done_ = 0;
  uint64_t end_ = std::numeric_limits<uint64_t>::max();
};

}  // namespace ftar::transport::shm

#endif  // FTAR_TRANSPORT_SHM_RING_H_
