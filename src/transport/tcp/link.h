// A tcp link: frames numbered from 0, spread over several streams, put back in order by number,
// kept until acknowledged.
//
// Payload is referenced until the peer has acknowledged the frame (kSent), so that a lost stream's
// frames can be sent again on another stream or a new connection; the receiver drops what it has
// already (exactly once). A frame gets its number when it is handed to a stream, not when it is
// queued, so cancelling a queued frame leaves no gap; a numbered one that is cancelled travels as a
// tombstone if it must travel again. Acknowledgements ride in every header; frames of their own are
// sent only after 64 frames or 1 MiB, or when the link has been idle for a moment.
//
// One thread at a time; owned by the device. Received payload is in heap memory of its own from the
// start, so Detach is free.
#ifndef FTAR_TRANSPORT_TCP_LINK_H_
#define FTAR_TRANSPORT_TCP_LINK_H_

#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/slot_table.h"
#include "transport/tcp/ahead.h"
#include "transport/tcp/socket.h"
#include "transport/tcp/stream.h"
#include "transport/transport.h"

namespace ftar::transport::tcp {

class TcpDevice;

class TcpLink : public Link {
 public:
  enum class State {
    kIdle,     // known, neither dialled nor up
    kOpening,  // dialled, no stream yet
    kUp,       // at least one stream
    kBroken,   // all streams lost; being dialled again from both ends
    kDead,     // kDown was said
  };
  struct Slot {
    std::unique_ptr<Stream> stream;
    uint64_t handshake = 0;   // the device's key of a dial in progress
    TimeNs dial_at = kNever;  // next attempt; an acceptor's only once all streams are lost
    TimeNs backoff_ns = 0;
    TimeNs give_up_at = kNever;  // when a slot that alone is lost is left alone
    bool lost = false;           // kPathLost was said
    uint64_t epoll_key = 0;
  };

  TcpLink(TcpDevice* device, MemberId peer);
  ~TcpLink() override;

  MemberId peer() const override { return peer_; }
  void Send(const wire::FrameHeader& header, std::span<const std::byte> ext,
            std::span<const std::byte> payload, bool copy_payload, uint64_t cookie) override;
  void CancelOp(uint32_t group, uint64_t seq) override;
  void FinishOp(uint32_t group, uint64_t seq) override;
  void Release(uint64_t token) override;
  Detached Detach(uint64_t token) override;
  wire::WireCosts wire_costs() const override { return costs_; }
  size_t hold_bytes_max() const override;
  bool busy() const override;
  bool down() const override { return state_ == State::kDead || state_ == State::kIdle; }
  std::string Describe() const override;

  // ---- for the device
  State state() const { return state_; }
  bool dialler() const { return dialler_; }
  bool was_up() const { return was_up_; }
  uint64_t link_id() const { return link_id_; }
  uint64_t received() const { return expected_; }
  int live_streams() const;
  std::vector<Slot>& slots() { return slots_; }
  const SocketAddress& peer_address() const { return peer_address_; }

  // Begins anew as dialler or acceptor; what an earlier incarnation had queued is dropped, its
  // tokens stay valid.
  void Open(bool dialler, uint64_t link_id, int streams, TimeNs now);
  // As Open for an accepted dial; frames that were queued before the link was up go out on it.
  void Reopen(uint64_t link_id, int streams, TimeNs now);
  void set_peer_address(const SocketAddress& address) { peer_address_ = address; }
  // Where the peer's process can be watched, if it is on this host; used when the link comes up.
  void set_watch_name(std::string name) { watch_name_ = std::move(name); }
  // Connect was called here: the outcome is kUp, not kAccepted.
  void WantUp() { wants_up_ = true; }
  // The peer's own greeting of this slot's new connection says how many frames it has.
  void Attach(int slot, UniqueFd fd, uint64_t peer_received, std::span<const std::byte> leftover,
              TimeNs now);
  // Returns the bytes of payload that came.
  size_t OnReadable(int slot, size_t budget_bytes, TimeNs now);
  void OnWritable(int slot, TimeNs now);
  // A dial of `slot` failed. `hopeless`: dialling again does not help whoever has never been there.
  void OnDialFailed(int slot, const Status& why, bool refused, bool hopeless, TimeNs now);
  // Both sides dial and the peer's dial goes on: wait for it.
  void Yield();
  void OnCollision(int slot, TimeNs now);  // the peer said so
  void OnPeerExited(TimeNs now);
  void OnTimer(TimeNs now);
  TimeNs next_deadline() const;
  // Hands queued frames to streams and writes what the sockets take.
  void Flush(TimeNs now);
  void Fail(Status status);
  void CloseStreams();
  void CloseInForkedChild();
  bool Disturb(Device::Disturbance what, TimeNs now);
  void PlaceNothing();
  bool drained() const { return queue_.empty() && window_.empty(); }
  // What waits is written by one system call, about.
  bool LightlyLoaded() const;
  // Nothing is to be done for it but to read the next frame of this stream: it is not stalled, and
  // no stream waits for its socket to take more.
  bool OnlyReads(int slot) const {
    return !stalled_ && slots_[slot].stream != nullptr && slots_[slot].stream->between_frames() &&
           !HasUnwritten();
  }

  bool dirty = false;  // the device's: is to be flushed

 private:
  struct Held {
    Arrived frame;
    bool detached = false;
  };

  void LoseSlot(int slot, const Status& why, TimeNs now);
  void Tell(Completion::Kind kind, std::string text, Status status = {});
  void RequeueFramesOf(int slot);
  void BreakIfNoStream(TimeNs now);
  void CountFruitless(TimeNs now);
  void ScheduleDial(int slot, TimeNs now);
  void FillStream(int slot);
  size_t CreditFor(const OutFrame& next) const;
  std::unique_ptr<OutFrame> NewFrame();
  OutFrame* NextFrame();
  void Assign(OutFrame* frame, int slot);
  void CollectWritten(int slot);
  size_t FirstSlot() const;
  void WriteSlot(int slot, bool more, TimeNs now);
  void SendAck(TimeNs now);
  void ApplyAck(uint64_t ack);
  void TrimWindow();
  void Tombstone(OutFrame* frame);
  void LetGo(OutFrame* frame);
  void TellSent(const OutFrame* frame);
  void CancelNumbered(OutFrame* frame);
  template <typename Act>
  void Unplace(Act act);
  std::byte* PlaceFor(const wire::FrameHeader& header);
  bool HasCome(uint64_t number) const { return number < expected_ || ahead_.contains(number); }
  bool MustStall() const;
  void Unstall();
  bool HasUnwritten() const;
  bool HasUnassigned() const;
  void Accept(Arrived&& frame, TimeNs now);
  void Deliver(Arrived&& frame, TimeNs now);
  void CountForAck(size_t bytes, TimeNs now);
  void UpdateInterest(int slot);
  void DropOutput();
  OutFrame* WindowFrame(uint64_t number) { return window_[number - window_begin_].get(); }

  TcpDevice* const device_;
  const MemberId peer_;
  SocketAddress peer_address_;
  std::string watch_name_;
  State state_ = State::kIdle;
  bool dialler_ = false;
  bool was_up_ = false;
  bool wants_up_ = false;  // Connect was called here: say kUp, not kAccepted
  uint64_t link_id_ = 0;
  TimeNs rejected_since_ = kNever;
  TimeNs give_up_at_ = kNever;  // while kOpening or kBroken
  TimeNs refused_since_ = kNever;
  // Paths that were lost since the peer acknowledged something last, and since when.
  int fruitless_ = 0;
  TimeNs fruitless_since_ = kNever;
  std::vector<Slot> slots_;
  std::string last_trouble_;

  // Out: queue_ has no numbers yet; window_ holds frames window_begin_ .. next_number_ until
  // acknowledged.
  OutQueue queue_;
  std::deque<std::unique_ptr<OutFrame>> window_;
  std::unique_ptr<OutFrame> spare_frame_;  // or null
  uint64_t window_begin_ = 0, next_number_ = 0, acked_ = 0;
  size_t window_bytes_ = 0;
  std::set<uint64_t> resend_;
  std::vector<std::unique_ptr<OutFrame>> ack_frames_;  // one a slot
  std::vector<bool> ack_frame_busy_;
  bool corrupt_next_ = false;
  bool is_long_ = false;  // the payload that was sent last
  uint64_t turn_ = 0;     // the device's, in which
  size_t written_ = 0;    // so much was written
  Ahead ahead_of_peer_;

  // In: next number to deliver, frames ahead of it, frames the user holds.
  uint64_t expected_ = 0;
  std::map<uint64_t, Arrived> ahead_;
  size_t ahead_bytes_ = 0;
  SlotTable<Held> held_;
  wire::WireCosts costs_;
  size_t held_bytes_ = 0;
  size_t longest_ = 0;  // payload that has come
  bool stalled_ = false;
  uint64_t unacked_frames_ = 0;
  size_t unacked_bytes_ = 0;
  TimeNs ack_at_ = kNever;
  std::vector<Arrived> arrived_;  // scratch
};

}  // namespace ftar::transport::tcp

#endif  // FTAR_TRANSPORT_TCP_LINK_H_
