// A shared-memory link: frames are copied once, into a ring that the peer reads in place (ring.h).
// Payload in exported memory is not even copied: the frame says where it lies (loans.h).
//
// A frame is sent when it is in the ring, so kSent comes at once unless the ring is full, or when
// the peer gives back what it was lent; what does not fit waits as a descriptor in a queue. There
// is one path and no repetition: memory does not lose bytes. The link dies with the peer's process
// (lock word: kExited) or when the peer closes it. One thread at a time; owned by the device.
// Received frames lie in the peer's memory until Release or Detach.
#ifndef FTAR_TRANSPORT_SHM_LINK_H_
#define FTAR_TRANSPORT_SHM_LINK_H_

#include <deque>
#include <memory>
#include <string>

#include "base/slot_table.h"
#include "transport/out_frame.h"
#include "transport/shm/segment.h"
#include "transport/transport.h"

namespace ftar::transport::shm {

class ShmDevice;

class ShmLink : public Link {
 public:
  enum class State { kIdle, kOpening, kUp, kDead };

  ShmLink(ShmDevice* device, MemberId peer) : device_(device), peer_(peer) {}
  ~ShmLink() override;

  MemberId peer() const override { return peer_; }
  void Send(const wire::FrameHeader& header, std::span<const std::byte> ext,
            std::span<const std::byte> payload, bool copy_payload, uint64_t cookie) override;
  void CancelOp(uint32_t group, uint64_t seq) override;
  void FinishOp(uint32_t group, uint64_t seq) override;
  void TakeBack() override;
  void Nudge() override;
  std::optional<Place> Show(std::span<const std::byte> memory) override;
  std::shared_ptr<const std::byte> See(Place place, uint64_t bytes) override;
  void Release(uint64_t token) override;
  Detached Detach(uint64_t token) override;
  bool LendsDevice(std::span<const std::byte> payload) override;
  bool shares_memory() const override { return true; }
  bool Intact(uint64_t token) override;
  size_t hold_bytes_max() const override;
  // Nor is it idle while somebody waits for what is lent: who sleeps has to ask to be woken for it.
  bool busy() const override { return !queue_.empty() || loans_awaited_; }
  bool down() const override { return state_ == State::kDead || state_ == State::kIdle; }
  std::string Describe() const override;

  // ---- for the device
  State state() const { return state_; }
  Channel* channel() { return channel_.get(); }
  // Begins to open; frames queued so far stay queued. `keep_trying_until` bounds the attempts.
  void Open(bool dialler, std::string address, TimeNs keep_trying_until);
  void Attach(std::shared_ptr<Channel> channel);
  // Reads at most about `budget_bytes` of payload; returns what it read, counting a frame as one
  // byte at least.
  size_t Receive(size_t budget_bytes);
  // Writes what waits and fits. True if something was written.
  bool Flush();
  // Says kSent for what the peer has given back. True if there was any.
  bool CollectLoans();
  // The link's socket is here, or has something.
  void BeginToBorrow();
  Borrower::Socket ListenForBlocks();
  bool HasWork() const;
  void Nap();
  void Fail(Status status);
  // The peer has gone, in order or by death: what it wrote before is delivered first.
  void OnPeerGone(bool exited, Status status);
  void CloseInForkedChild();

  bool dialler = false;
  bool wants_up = false;             // Connect was called here
  std::string address;               // where the dialler dials
  std::shared_ptr<Channel> offered;  // dialler: made for the dial under way
  uint64_t ticket = 0;               // of that dial
  TimeNs dial_at = kNever, give_up_at = kNever, backoff_ns = 0;
  int auth_rejections = 0;
  std::string last_trouble;
  uint64_t doorbell_key = 0, socket_key = 0;

 private:
  struct Held {
    std::shared_ptr<Channel> channel;
    uint64_t record = 0;
    std::span<const std::byte> ext, payload;
    BufferPool::Buffer copy;
    std::optional<Reference> loan;  // the payload is lent; copy holds the ext if it has moved
  };

  // `lendable`: the payload is the caller's until kSent.
  bool WriteToRing(const wire::FrameHeader& header, std::span<const std::byte> ext,
                   std::span<const std::byte> payload, bool lendable, uint64_t cookie);
  bool Publish(const wire::FrameHeader& header, std::span<const std::byte> ext,
               std::span<const std::byte> payload);
  void TellSent(const wire::FrameHeader& header, uint64_t cookie, TimeNs spent_ns);
  size_t TakeFromRing(size_t budget_bytes);
  // Where groups differ the ring is read ahead of what is handed out: urgent data may be behind.
  bool ReadsAhead() const;
  void Keep(Completion completion, std::deque<Completion>* queue);
  bool LentInputIsNext() const;
  // Gives out what is next of all that waits here. False: nothing does.
  bool HandOut(size_t* bytes);
  // Returns the bytes of payload that were given out.
  size_t Deliver(const RingReader::Record& record);
  // Puts the payload that a record refers to in the reference's place. False if it makes no sense.
  bool FollowReference(Completion* completion, Held* held);
  void Tell(Completion::Kind kind, Status status = {});

  ShmDevice* const device_;
  const MemberId peer_;
  State state_ = State::kIdle;
  std::shared_ptr<Channel> channel_;
  OutQueue queue_;
  SlotTable<Held> held_;
  // They wait nowhere but here, so that what comes behind them need not wait for the reductions
  // that they will cause: a result that the peer has just made is still in the caches.
  std::deque<Completion> lent_inputs_;
  std::deque<Completion> waiting_;  // read ahead
  size_t words_waiting_ = 0;        // control frames and acks among them
  bool loans_awaited_ = false;      // FinishOp: somebody waits for what is lent
};

}  // namespace ftar::transport::shm

#endif  // FTAR_TRANSPORT_SHM_LINK_H_
