// The part of a link that moves frames; link.cc has the part that makes and repairs its streams.
#include <sys/epoll.h>

#include <algorithm>

#include "transport/steady_clock.h"
#include "transport/tcp/device.h"
#include "transport/tcp/link.h"

namespace ftar::transport::tcp {
namespace {

constexpr size_t kHoldBytesMax = 64u << 20;
constexpr uint64_t kAheadFramesMax = 1u << 20;
constexpr size_t kAheadBytesMax = 128u << 20;  // or twice the credit; one frame may be more than it
constexpr size_t kStreamQueueBytes = 256 * 1024;
constexpr size_t kBehindUrgentBytes = 2u << 20;  // two acks' worth: less costs bandwidth
// A frame whose payload is a turn's share is not cut for its header.
constexpr size_t kTurnBytesMore = 1024;
constexpr size_t kLongBytes = 128 * 1024;
constexpr size_t kLightFrames = 8, kLightBytes = 132 * 1024;  // with headers
constexpr uint64_t kAckFrames = 64;
constexpr size_t kAckBytes = 1u << 20;
constexpr TimeNs kAckDelayNs = 5 * kMillisecond;

// As its sender's credit counts it.
size_t WireBytes(const Arrived& frame) {
  return sizeof frame.header + frame.ext().size() + frame.payload().size();
}

}  // namespace

// ---- the caller's side

void TcpLink::Send(const wire::FrameHeader& header, std::span<const std::byte> ext,
                   std::span<const std::byte> payload, bool copy_payload, uint64_t cookie) {
  if (state_ == State::kDead) return;
  std::unique_ptr<OutFrame> frame = NewFrame();
  frame->header = header;
  frame->header.reserved = static_cast<uint16_t>(Transit::kDeliver);
  frame->header.flags &= static_cast<uint8_t>(~wire::kFrameHasCrc);
  frame->header.body_crc = 0;
  frame->ext.assign(ext.begin(), ext.end());
  frame->payload = payload;
  frame->cookie = cookie;
  if (ext.size() > wire::kExtBytesMax || payload.size() > wire::kPayloadBytesMax) {
    return Fail({Code::kInternal, "a frame of " + std::to_string(payload.size()) +
                                      " bytes is too long for any link"});
  }
  if (copy_payload && !frame->MakePrivate(device_->pool())) {
    return Fail(
        {Code::kMemory, "no memory for a frame of " + std::to_string(payload.size()) + " bytes"});
  }
  if (!payload.empty()) is_long_ = payload.size() >= kLongBytes;
  Enqueue(std::move(frame), device_->priorities(), &queue_);
  device_->MarkDirty(this);
}

// While operations are small one frame has come back when the next one is made.
std::unique_ptr<OutFrame> TcpLink::NewFrame() {
  return spare_frame_ ? std::move(spare_frame_) : std::make_unique<OutFrame>();
}

void TcpLink::CancelOp(uint32_t group, uint64_t seq) {
  std::erase_if(queue_, [&](const auto& frame) { return frame->belongs_to(group, seq); });
  for (size_t i = 0; i < window_.size(); ++i) {
    if (window_[i]->belongs_to(group, seq)) CancelNumbered(window_[i].get());
  }
  device_->DropSent(this, group, seq);
  Unplace([&](Stream& stream) { return stream.Unplace(group, seq); });
}

void TcpLink::PlaceNothing() {
  Unplace([](Stream& stream) { return stream.UnplaceAny(); });
}

template <typename Act>
void TcpLink::Unplace(Act act) {
  for (Slot& slot : slots_) {
    if (slot.stream == nullptr || act(*slot.stream)) continue;
    return Fail({Code::kMemory, "no memory for what arrives of a cancelled operation"});
  }
}

// One arrival at a time has a place. A frame that is sent again while the path that it came by
// first is thought lost only over there comes twice, and what the older one still brings has passed
// no CRC.
std::byte* TcpLink::PlaceFor(const wire::FrameHeader& header) {
  Placer* const placer = device_->placer();
  const uint64_t number = header.link_seq;
  if (placer == nullptr || HasCome(number)) return nullptr;
  const bool taken = std::any_of(slots_.begin(), slots_.end(), [number](const Slot& slot) {
    return slot.stream != nullptr && slot.stream->Places(number);
  });
  return taken ? nullptr : placer->PlaceFor(peer_, header);
}

void TcpLink::CancelNumbered(OutFrame* frame) {
  frame->cookie = 0;
  if (frame->state != OutFrame::State::kAssigned) return Tombstone(frame);
  Stream* stream = slots_[frame->slot].stream.get();
  if (!stream->HalfWritten(frame)) {
    // No byte of it has left: the same number goes out empty.
    Tombstone(frame);
    StampFrame(frame, frame->header.link_seq, expected_, device_->config().tcp_crc);
    stream->RecountQueue();
    return;
  }
  frame->cancelled = true;
  if (!frame->MakePrivate(device_->pool()))
    Fail({Code::kMemory, "no memory to finish a cancelled frame"});
}

void TcpLink::FinishOp(uint32_t group, uint64_t seq) {
  for (auto& frame : queue_) frame->finishing |= frame->belongs_to(group, seq);
  for (auto& frame : window_) {
    if (!frame->belongs_to(group, seq)) continue;
    frame->finishing = true;
    if (frame->state == OutFrame::State::kWritten) LetGo(frame.get());
  }
}

// Its memory is the caller's again; what has memory of its own can still travel anew. The peer may
// hold it behind a frame of a slower path, so that it counts until it is acknowledged.
void TcpLink::LetGo(OutFrame* frame) {
  if (frame->cookie != 0) TellSent(frame);
  frame->cookie = 0;
  if (!frame->copy.empty() || frame->payload.empty()) return;
  frame->payload = {};
  frame->unrepeatable = true;
}

void TcpLink::TellSent(const OutFrame* frame) {
  Completion completion;
  completion.kind = Completion::Kind::kSent;
  completion.link = this;
  completion.peer = peer_;
  completion.cookie = frame->cookie;
  completion.header = frame->header;
  device_->Emit(std::move(completion));
}

// The frame keeps its number, so that the peer's count stays whole, and what it was charged: the
// peer may have all of it, behind a frame that it waits for.
void TcpLink::Tombstone(OutFrame* frame) { frame->BecomeTombstone(); }

void TcpLink::Release(uint64_t token) {
  const Held* held = held_.Find(token);
  if (held == nullptr) return;
  if (!held->detached) held_bytes_ -= held->frame.payload().size();
  held_.Remove(token);
  Unstall();
}

Link::Detached TcpLink::Detach(uint64_t token) {
  Held* held = held_.Find(token);
  if (held == nullptr) return {};
  // Every frame has memory of its own already; from now on it does not count against the link.
  if (!held->detached) held_bytes_ -= held->frame.payload().size();
  held->detached = true;
  Unstall();
  return {held->frame.ext(), held->frame.payload()};
}

void TcpLink::Unstall() {
  if (!stalled_ || MustStall()) return;
  stalled_ = false;
  for (size_t i = 0; i < slots_.size(); ++i) UpdateInterest(static_cast<int>(i));
}

size_t TcpLink::hold_bytes_max() const { return kHoldBytesMax; }

// Not before what lies behind the oldest frame is as much as the link bears: the caller detaches
// that frame then, and nothing else would ever make the link read on.
bool TcpLink::MustStall() const { return held_bytes_ >= kHoldBytesMax + longest_; }

bool TcpLink::HasUnassigned() const { return !queue_.empty() || !resend_.empty(); }

bool TcpLink::busy() const { return HasUnassigned() || HasUnwritten(); }

bool TcpLink::HasUnwritten() const {
  return std::any_of(slots_.begin(), slots_.end(), [](const Slot& s) {
    return s.stream != nullptr && s.stream->queued_bytes() > 0;
  });
}

bool TcpLink::LightlyLoaded() const {
  if (state_ != State::kUp || queue_.size() > kLightFrames || HasUnwritten()) return false;
  size_t bytes = 0;
  for (const auto& frame : queue_) bytes += frame->wire_bytes();
  return bytes <= kLightBytes;
}

// ---- out

void TcpLink::Flush(TimeNs now) {
  // What a stream has been given goes first: at the peer all that comes behind waits for it.
  for (size_t i = 0; i < slots_.size() && state_ == State::kUp && HasUnwritten(); ++i)
    WriteSlot(static_cast<int>(i), /*more=*/false, now);
  const size_t first = FirstSlot();
  for (size_t i = 0; i < slots_.size() && state_ == State::kUp && HasUnassigned(); ++i)
    WriteSlot(static_cast<int>((first + i) % slots_.size()), /*more=*/true, now);
  if (state_ != State::kUp || now < ack_at_) return;
  SendAck(now);
}

void TcpLink::OnWritable(int slot, TimeNs now) {
  if (state_ != State::kUp || slots_[slot].stream == nullptr) return;
  slots_[slot].stream->set_blocked(false);
  WriteSlot(slot, /*more=*/true, now);
}

// While payloads are long each end begins with another stream: where both write to one, what comes
// in waits until a write is done, which does the other's work then. What is short goes both ways by
// one, where the kernel's acknowledgements ride on it.
size_t TcpLink::FirstSlot() const { return is_long_ && !dialler_ ? slots_.size() / 2 : 0; }

// Fills, if it may have `more`, and writes until the socket is full, there is nothing left, or the
// link has had its share of this turn.
void TcpLink::WriteSlot(int slot, bool more, TimeNs now) {
  if (std::exchange(turn_, device_->turn()) != device_->turn()) written_ = 0;
  const size_t share = ahead_of_peer_.bytes();
  while (slots_[slot].stream != nullptr && !slots_[slot].stream->blocked()) {
    if (written_ >= share) {
      if (busy()) device_->MarkDirty(this);
      break;
    }
    if (more && HasUnassigned()) FillStream(slot);
    Stream* stream = slots_[slot].stream.get();
    if (stream == nullptr || stream->queued_bytes() == 0) break;
    const size_t before = stream->queued_bytes();
    const TimeNs begin = before < Ahead::kTellingBytes ? 0 : SteadyNow();
    const Status status = stream->Write(share - written_ + kTurnBytesMore);
    const size_t bytes = before - stream->queued_bytes();
    written_ += bytes;
    if (begin != 0 && !queue_.empty()) ahead_of_peer_.Note(bytes, SteadyNow() - begin);
    CollectWritten(slot);
    if (!status.ok()) return LoseSlot(slot, status, now);
  }
  UpdateInterest(slot);
}

void TcpLink::FillStream(int slot) {
  while (slots_[slot].stream != nullptr &&
         slots_[slot].stream->queued_bytes() < kStreamQueueBytes) {
    OutFrame* frame = NextFrame();
    if (frame == nullptr) return;
    if (frame->unrepeatable) {
      return Fail(
          {Code::kLink,
           "data of a finished operation was lost with its connection and cannot be sent again"});
    }
    Assign(frame, slot);
  }
}

// Of what urgent data may have to follow, only so much is handed to the streams: behind that it
// would wait here and in the kernels of both ends, where nothing passes anything.
size_t TcpLink::CreditFor(const OutFrame& next) const {
  const size_t credit = device_->config().credit_bytes;
  const Priorities* const priorities = device_->priorities();
  const bool is_last = priorities != nullptr && priorities->any() && next.is_data() &&
                       priorities->Of(next.header.group) < priorities->highest();
  return is_last ? std::min(credit, kBehindUrgentBytes) : credit;
}

OutFrame* TcpLink::NextFrame() {
  while (!resend_.empty()) {
    const uint64_t number = *resend_.begin();
    resend_.erase(resend_.begin());
    if (number >= acked_) return WindowFrame(number);
  }
  if (queue_.empty() || window_bytes_ >= CreditFor(*queue_.front())) return nullptr;
  window_.push_back(std::move(queue_.front()));
  queue_.pop_front();
  OutFrame* frame = window_.back().get();
  frame->header.link_seq = next_number_++;
  frame->charged = frame->wire_bytes();
  window_bytes_ += frame->charged;
  return frame;
}

void TcpLink::Assign(OutFrame* frame, int slot) {
  Device::Counters& counters = device_->counting();
  const size_t bytes = frame->payload.size() + frame->ext.size();
  ++counters.frames_sent;
  counters.bytes_sent += bytes;
  counters.bytes_moved += frame->payload.size();
  if (frame->sent_before) counters.bytes_resent += bytes;
  frame->sent_before = true;
  const bool crc = device_->config().tcp_crc;
  StampFrame(frame, frame->header.link_seq, expected_, crc);
  if (corrupt_next_ && crc && !frame->payload.empty()) {
    // Wrong only this time: the frame is stamped anew when it is sent again.
    corrupt_next_ = false;
    frame->header.body_crc ^= 1;
    StampFrame(frame, frame->header.link_seq, expected_, crc);
    frame->body_crc_known = false;
  }
  frame->state = OutFrame::State::kAssigned;
  frame->slot = slot;
  slots_[slot].stream->Queue(frame);
  unacked_frames_ = unacked_bytes_ = 0;
  ack_at_ = kNever;
}

void TcpLink::CollectWritten(int slot) {
  slots_[slot].stream->ForEachWritten([&](OutFrame* frame) {
    if (frame == ack_frames_[slot].get()) {
      ack_frame_busy_[slot] = false;
      return;
    }
    frame->state = OutFrame::State::kWritten;
    if (frame->cancelled) Tombstone(frame);
    if (frame->finishing) LetGo(frame);
  });
  TrimWindow();
}

void TcpLink::SendAck(TimeNs now) {
  for (size_t turn = 0; turn < slots_.size(); ++turn) {
    const size_t i = (FirstSlot() + turn) % slots_.size();
    if (slots_[i].stream == nullptr || ack_frame_busy_[i]) continue;
    OutFrame* frame = ack_frames_[i].get();
    frame->header = wire::FrameHeader{};
    frame->header.kind = wire::FrameKind::kAck;
    frame->header.reserved = static_cast<uint16_t>(Transit::kLinkAck);
    StampFrame(frame, 0, expected_, false);
    ack_frame_busy_[i] = true;
    slots_[i].stream->Queue(frame);
    unacked_frames_ = unacked_bytes_ = 0;
    ack_at_ = kNever;
    return WriteSlot(static_cast<int>(i), /*more=*/false, now);
  }
  ack_at_ = now + kAckDelayNs;  // every stream still has an older one to write
}

void TcpLink::ApplyAck(uint64_t ack) {
  if (ack > next_number_)
    return Fail({Code::kCorrupt, "the peer acknowledges frames that were never sent"});
  if (ack <= acked_) return;
  acked_ = ack;
  fruitless_ = 0;
  fruitless_since_ = kNever;
  TrimWindow();
}

// Lets go of acknowledged frames from the front; one that is being written (again) must be finished
// first.
void TcpLink::TrimWindow() {
  bool trimmed = false;
  while (!window_.empty() && window_begin_ < acked_) {
    OutFrame* frame = window_.front().get();
    if (frame->state == OutFrame::State::kAssigned) break;
    if (frame->cookie != 0) TellSent(frame);
    if (!resend_.empty()) resend_.erase(window_begin_);
    window_bytes_ -= frame->charged;
    if (!spare_frame_) {
      spare_frame_ = std::move(window_.front());
      spare_frame_->Clear();
    }
    window_.pop_front();
    ++window_begin_;
    trimmed = true;
  }
  if (trimmed && !queue_.empty()) device_->MarkDirty(this);
}

void TcpLink::UpdateInterest(int slot_index) {
  Stream* stream = slots_[slot_index].stream.get();
  if (stream == nullptr) return;
  const uint32_t wanted = (stalled_ ? 0u : static_cast<uint32_t>(EPOLLIN)) |
                          (stream->blocked() ? static_cast<uint32_t>(EPOLLOUT) : 0u);
  if (wanted == stream->interest) return;
  stream->interest = wanted;
  device_->ChangeInterest(slots_[slot_index].epoll_key, stream->fd(), wanted);
}

// ---- in

size_t TcpLink::OnReadable(int slot, size_t budget_bytes, TimeNs now) {
  if (state_ != State::kUp || slots_[slot].stream == nullptr) return 0;
  arrived_.clear();  // where memory ran out some are left
  const Status status = slots_[slot].stream->Read(budget_bytes, &arrived_);
  size_t bytes = 0;
  for (Arrived& frame : arrived_) {
    bytes += frame.payload().size();
    if (state_ == State::kUp) Accept(std::move(frame), now);
  }
  arrived_.clear();
  if (status.ok() || state_ != State::kUp) return bytes;
  if (status.code() == Code::kMemory) {
    Fail(status);  // on another path the peer would send it again, and again
  } else {
    LoseSlot(slot, status, now);
  }
  return bytes;
}

void TcpLink::Accept(Arrived&& frame, TimeNs now) {
  const wire::FrameHeader& header = frame.header;
  const auto transit = static_cast<Transit>(header.reserved);
  if (transit > Transit::kTombstone) return Fail({Code::kCorrupt, "a frame of unknown purpose"});
  ApplyAck(header.link_ack);
  if (state_ != State::kUp || transit == Transit::kLinkAck) return;
  const uint64_t number = header.link_seq;
  if (HasCome(number)) {
    // Sent again although we had it: tell the peer how far we are.
    ack_at_ = now;
    return device_->MarkDirty(this);
  }
  if (number - expected_ > kAheadFramesMax ||
      ahead_bytes_ > std::max(kAheadBytesMax, 2 * device_->config().credit_bytes)) {
    return Fail({Code::kCorrupt, "the peer runs ahead of what it may send"});
  }
  // Should it be on its way by another path as well, nothing of that lands any more.
  Unplace([number](Stream& stream) { return stream.UnplaceNumber(number); });
  if (state_ != State::kUp) return;
  if (number != expected_) {
    ahead_bytes_ += WireBytes(frame);
    ahead_.emplace(number, std::move(frame));
    return;
  }
  Deliver(std::move(frame), now);
  while (!ahead_.empty() && ahead_.begin()->first == expected_) {
    Arrived next = std::move(ahead_.begin()->second);
    ahead_.erase(ahead_.begin());
    ahead_bytes_ -= WireBytes(next);
    Deliver(std::move(next), now);
  }
}

void TcpLink::Deliver(Arrived&& frame, TimeNs now) {
  ++expected_;
  const size_t bytes = frame.payload().size();
  CountForAck(bytes, now);
  if (static_cast<Transit>(frame.header.reserved) == Transit::kTombstone) return;
  Device::Counters& counters = device_->counting();
  ++counters.frames_received;
  counters.bytes_received += bytes + frame.ext().size();
  counters.bytes_moved += bytes;
  Completion completion;
  completion.kind = Completion::Kind::kReceived;
  completion.link = this;
  completion.peer = peer_;
  completion.header = frame.header;
  completion.ext = frame.ext();
  completion.payload = frame.payload();
  completion.token = held_.Add(Held{std::move(frame)});
  held_bytes_ += bytes;
  longest_ = std::max(longest_, bytes);
  device_->Emit(std::move(completion));
  if (!stalled_ && MustStall()) {
    stalled_ = true;
    for (size_t i = 0; i < slots_.size(); ++i) UpdateInterest(static_cast<int>(i));
  }
}

void TcpLink::CountForAck(size_t bytes, TimeNs now) {
  ++unacked_frames_;
  unacked_bytes_ += bytes;
  const size_t ack_bytes = std::min(kAckBytes, device_->config().credit_bytes / 4);
  if (unacked_frames_ >= kAckFrames || unacked_bytes_ >= ack_bytes) {
    ack_at_ = now;
    device_->MarkDirty(this);
  } else if (ack_at_ == kNever) {
    ack_at_ = now + kAckDelayNs;
  }
}

}  // namespace ftar::transport::tcp
