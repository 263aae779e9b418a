// A link that can be silenced or slowed; see faulty/device.h. One thread at a time; owned by its
// device.
#ifndef FTAR_TRANSPORT_FAULTY_LINK_H_
#define FTAR_TRANSPORT_FAULTY_LINK_H_

#include <deque>
#include <memory>

#include "transport/out_frame.h"
#include "transport/transport.h"

namespace ftar::transport::faulty {

class FaultyDevice;

class FaultyLink : public Link {
 public:
  FaultyLink(FaultyDevice* device, MemberId peer, Link* inner)
      : device_(device), peer_(peer), inner_(inner) {}

  MemberId peer() const override { return peer_; }
  void Send(const wire::FrameHeader& header, std::span<const std::byte> ext,
            std::span<const std::byte> payload, bool copy_payload, uint64_t cookie) override;
  void CancelOp(uint32_t group, uint64_t seq) override;
  void FinishOp(uint32_t group, uint64_t seq) override;
  void TakeBack() override { inner_->TakeBack(); }
  void Nudge() override { inner_->Nudge(); }
  void Release(uint64_t token) override { inner_->Release(token); }
  Detached Detach(uint64_t token) override { return inner_->Detach(token); }
  bool shares_memory() const override { return inner_->shares_memory(); }
  wire::WireCosts wire_costs() const override { return inner_->wire_costs(); }
  bool Intact(uint64_t token) override { return inner_->Intact(token); }
  size_t hold_bytes_max() const override { return inner_->hold_bytes_max(); }
  bool busy() const override { return !waiting_.empty() || inner_->busy(); }
  bool down() const override { return inner_->down(); }
  std::string Describe() const override;

  // ---- for the device
  Link* inner() { return inner_; }
  void set_inner(Link* inner) { inner_ = inner; }
  void Silence(bool outgoing, bool incoming);
  void Delay(TimeNs delay_ns) { delay_ns_ = delay_ns; }
  bool deaf() const { return deaf_; }
  // Hands on what has waited long enough.
  bool Pass(TimeNs now);
  TimeNs next_deadline() const { return waiting_.empty() ? kNever : waiting_.front().due; }

 private:
  struct Waiting {
    TimeNs due = 0;
    std::unique_ptr<OutFrame> frame;
  };

  FaultyDevice* device_;
  MemberId peer_;
  Link* inner_;
  bool mute_ = false, deaf_ = false;
  TimeNs delay_ns_ = 0;
  uint64_t frames_ = 0;
  BufferPool pool_;
  std::deque<Waiting> waiting_;
};

}  // namespace ftar::transport::faulty

#endif  // FTAR_TRANSPORT_FAULTY_LINK_H_
