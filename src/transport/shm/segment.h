// What two members share while their link lives: one segment each, a doorbell each, and a socket
// whose end is the end. A Channel is one incarnation of a link; received frames keep it alive (and
// mapped) until they are released. One thread at a time.
#ifndef FTAR_TRANSPORT_SHM_SEGMENT_H_
#define FTAR_TRANSPORT_SHM_SEGMENT_H_

#include <deque>
#include <memory>
#include <optional>

#include "base/status.h"
#include "transport/fd.h"
#include "transport/local_exchange.h"
#include "transport/sealed_memory.h"
#include "transport/shm/loans.h"
#include "transport/shm/ring.h"

namespace ftar::transport::shm {

class Channel {
 public:
  enum class Verdict : uint32_t { kWelcome = 0, kCollision = 1, kTryAgain = 2 };
  // What travels with the descriptors segment, doorbell, watch, lane.
  struct Offer {
    uint32_t magic = kMagic;
    Verdict verdict = Verdict::kWelcome;
    uint64_t ring_bytes = 0;
    uint32_t watch_index = 0;
    uint32_t has_lane = 0;  // behind the watch there is the lane's descriptor
    static constexpr uint32_t kMagic = 0x6d68736f;
  };

  // Makes the own segment and doorbell.
  static Expected<std::shared_ptr<Channel>> Create(size_t ring_bytes);
  // The message that gives the peer its part. `watch_fd` and `lane_fd` are duplicated; without a
  // lane that is -1.
  Expected<LocalExchange::Message> MakeOffer(int watch_fd, uint32_t watch_index, int lane_fd) const;
  static LocalExchange::Message MakeVerdict(Verdict verdict);
  // Reads a peer's message; kPeer if it is malformed.
  static Expected<Offer> ParseOffer(const LocalExchange::Message& message);
  // Takes the peer's segment and doorbell, after checking both. The watch descriptor stays in the
  // message. `exports` may be null.
  Status Attach(const Offer& offer, LocalExchange::Message* message, UniqueFd socket,
                std::shared_ptr<const ExportedMemory> exports);
  void set_socket(UniqueFd socket) { socket_ = std::move(socket); }
  // Closes descriptors; mappings stay as long as the object.
  void CloseDescriptors();

  RingWriter& writer() { return *writer_; }
  RingReader& reader() { return *reader_; }
  Lender& lender() { return *lender_; }
  Borrower& borrower() { return *borrower_; }
  bool attached() const { return reader_.has_value(); }
  int doorbell() const { return own_doorbell_.get(); }
  int socket() const { return socket_.get(); }
  size_t ring_bytes() const { return ring_bytes_; }
  size_t peer_ring_bytes() const { return peer_ring_bytes_; }

  // Wakes the peer if it sleeps and wants to know (WakeBits).
  void Ring(uint32_t bit);
  void RingIfOpen(uint32_t bit) {
    if (peer_doorbell_.valid()) Ring(bit);
  }
  void Nap(uint32_t bits);
  void Awake();
  void ClearDoorbell();

  // Frames in the order of the ring; space is given back in that order, whatever the order of
  // release.
  uint64_t PushRecord(uint64_t end);
  void RecordDone(uint64_t number);

 private:
  struct RecordState {
    uint64_t end = 0;
    bool done = false;
  };
  SegmentHeader* own() const { return reinterpret_cast<SegmentHeader*>(own_memory_->data()); }
  const SegmentHeader* peer() const {
    return reinterpret_cast<const SegmentHeader*>(peer_memory_->data());
  }

  size_t ring_bytes_ = 0, peer_ring_bytes_ = 0;
  std::shared_ptr<MappedMemory> own_memory_, peer_memory_;
  UniqueFd segment_fd_, own_doorbell_, peer_doorbell_, socket_;
  std::optional<RingWriter> writer_;
  std::optional<RingReader> reader_;
  std::optional<Lender> lender_;
  std::optional<Borrower> borrower_;
  std::deque<RecordState> records_;
  uint64_t first_record_ = 0;
  uint32_t nap_ = 0, last_rung_ = 0;
};

}  // namespace ftar::transport::shm

#endif  // FTAR_TRANSPORT_SHM_SEGMENT_H_
