#include "transport/shm/link.h"

#include <algorithm>
#include <cstring>

#include "transport/shm/device.h"

namespace ftar::transport::shm {

void ShmLink::Tell(Completion::Kind kind, Status status) {
  Completion completion;
  completion.kind = kind;
  completion.link = this;
  completion.peer = peer_;
  completion.text = status.text();
  completion.status = std::move(status);
  device_->Emit(std::move(completion));
}

void ShmLink::Open(bool as_dialler, std::string peer_address, TimeNs keep_trying_until) {
  state_ = State::kOpening;
  dialler = as_dialler;
  address = std::move(peer_address);
  give_up_at = keep_trying_until;
  dial_at = as_dialler ? 0 : kNever;
  backoff_ns = 0;
  auth_rejections = 0;
  channel_.reset();
}

void ShmLink::Attach(std::shared_ptr<Channel> channel) {
  channel_ = std::move(channel);
  offered.reset();
  ticket = 0;
  dial_at = give_up_at = kNever;
  state_ = State::kUp;
  ++device_->counting().links_opened;
  Tell(wants_up ? Completion::Kind::kUp : Completion::Kind::kAccepted);
  Flush();
}

// ---- out

void ShmLink::Send(const wire::FrameHeader& header, std::span<const std::byte> ext,
                   std::span<const std::byte> payload, bool copy_payload, uint64_t cookie) {
  if (state_ == State::kDead) return;
  wire::FrameHeader stamped = header;
  stamped.reserved = static_cast<uint16_t>(Transit::kDeliver);
  stamped.flags &= static_cast<uint8_t>(~wire::kFrameHasCrc);
  stamped.ext_bytes = static_cast<uint32_t>(ext.size());
  stamped.payload_bytes = static_cast<uint32_t>(payload.size());
  stamped.payload_crc = stamped.header_crc = 0;
  if (ext.size() > wire::kExtBytesMax || payload.size() > wire::kPayloadBytesMax) {
    return Fail({Code::kInternal, "a frame of " + std::to_string(payload.size()) +
                                      " bytes is too long for any link"});
  }
  if (state_ == State::kUp && queue_.empty() && WriteToRing(stamped, ext, payload, cookie)) return;
  if (state_ == State::kDead) return;
  auto frame = std::make_unique<OutFrame>();
  frame->header = stamped;
  frame->ext.assign(ext.begin(), ext.end());
  frame->payload = payload;
  frame->cookie = cookie;
  if (copy_payload && !frame->MakePrivate(device_->pool())) {
    return Fail(
        {Code::kMemory, "no memory for a frame of " + std::to_string(payload.size()) + " bytes"});
  }
  Enqueue(std::move(frame), &queue_);
}

bool ShmLink::WriteToRing(const wire::FrameHeader& header, std::span<const std::byte> ext,
                          std::span<const std::byte> payload, uint64_t cookie) {
  RingWriter& writer = channel_->writer();
  if (RecordBytes(ext.size(), payload.size()) > writer.record_bytes_max()) {
    Fail({Code::kConfig, "shm_ring",
          "a frame of " + std::to_string(payload.size()) +
              " bytes needs a shared-memory ring of more than " +
              std::to_string(channel_->ring_bytes()) + " bytes (knob shm_ring)"});
    return false;
  }
  switch (writer.Write(header, ext, payload)) {
    case RingWriter::Result::kFull: return false;
    case RingWriter::Result::kPeerCorrupt:
      Fail({Code::kCorrupt, "the peer's ring progress makes no sense"});
      return false;
    case RingWriter::Result::kWritten: break;
  }
  channel_->Ring(kWakeOnHead);
  Device::Counters& counters = device_->counting();
  ++counters.frames_sent;
  counters.bytes_sent += ext.size() + payload.size();
  if (cookie != 0) {
    Completion sent;
    sent.kind = Completion::Kind::kSent;
    sent.link = this;
    sent.peer = peer_;
    sent.cookie = cookie;
    sent.header = header;
    device_->Emit(std::move(sent));
  }
  return true;
}

bool ShmLink::Flush() {
  bool any = false;
  while (state_ == State::kUp && !queue_.empty()) {
    const OutFrame& frame = *queue_.front();
    if (!WriteToRing(frame.header, frame.ext, frame.payload, frame.cookie)) return any;
    queue_.pop_front();
    any = true;
  }
  return any;
}

void ShmLink::CancelOp(uint32_t group, uint64_t seq) {
  // What is in the ring is a copy already.
  std::erase_if(queue_, [&](const auto& frame) { return frame->belongs_to(group, seq); });
  device_->DropSent(this, group, seq);
}

// ---- in

size_t ShmLink::Receive(size_t budget_bytes) {
  size_t bytes = 0;
  while (state_ == State::kUp && bytes < budget_bytes) {
    RingReader::Record record;
    const Expected<bool> more = channel_->reader().Next(&record);
    if (!more.ok()) {
      ++device_->counting().frames_corrupt;
      Fail(more.status());
      break;
    }
    if (!*more) break;
    bytes += std::max<size_t>(1, record.payload.size());
    Deliver(record);
  }
  return bytes;
}

void ShmLink::Deliver(const RingReader::Record& record) {
  Device::Counters& counters = device_->counting();
  ++counters.frames_received;
  counters.bytes_received += record.ext.size() + record.payload.size();
  Completion completion;
  completion.kind = Completion::Kind::kReceived;
  completion.link = this;
  completion.peer = peer_;
  completion.header = record.header;
  completion.ext = record.ext;
  completion.payload = record.payload;
  completion.token =
      held_.Add(Held{channel_, channel_->PushRecord(record.end), record.ext, record.payload, {}});
  device_->Emit(std::move(completion));
}

void ShmLink::Release(uint64_t token) {
  Held* held = held_.Find(token);
  if (held == nullptr) return;
  if (held->copy.empty()) held->channel->RecordDone(held->record);
  held_.Remove(token);
}

Link::Detached ShmLink::Detach(uint64_t token) {
  Held* const found = held_.Find(token);
  if (found == nullptr) return {};
  Held& held = *found;
  if (held.copy.empty()) {
    const size_t payload_at = (held.ext.size() + 63) & ~size_t{63};
    BufferPool::Buffer copy = device_->pool()->Get(payload_at + held.payload.size());
    if (copy.empty()) return {held.ext, held.payload};  // no memory: it stays where it is
    if (!held.ext.empty()) std::memcpy(copy.data(), held.ext.data(), held.ext.size());
    if (!held.payload.empty())
      std::memcpy(copy.data() + payload_at, held.payload.data(), held.payload.size());
    held.ext = {copy.data(), held.ext.size()};
    held.payload = {copy.data() + payload_at, held.payload.size()};
    held.copy = std::move(copy);
    held.channel->RecordDone(held.record);
  }
  return {held.ext, held.payload};
}

size_t ShmLink::hold_bytes_max() const {
  // The ring frees space in its own order, so half of it is what may lie behind an unreleased
  // frame.
  return (channel_ != nullptr && channel_->attached() ? channel_->peer_ring_bytes()
                                                      : device_->ring_bytes()) /
         2;
}

bool ShmLink::HasWork() const {
  if (state_ != State::kUp) return false;
  return channel_->reader().HasMore() || (!queue_.empty() && channel_->writer().RoomMayHaveCome());
}

void ShmLink::Nap() {
  channel_->Nap(kWakeOnHead | (queue_.empty() ? 0u : static_cast<uint32_t>(kWakeOnTail)));
}

// ---- the end

void ShmLink::OnPeerGone(bool exited, Status status) {
  if (state_ == State::kDead) return;
  Receive(SIZE_MAX);
  if (exited) Tell(Completion::Kind::kExited);
  Fail(std::move(status));
}

void ShmLink::Fail(Status status) {
  if (state_ == State::kDead) return;
  if (state_ == State::kUp) ++device_->counting().links_closed;
  state_ = State::kDead;
  device_->Detach(this);
  if (channel_ != nullptr) channel_->CloseDescriptors();
  queue_.clear();
  offered.reset();
  dial_at = give_up_at = kNever;
  Tell(Completion::Kind::kDown, std::move(status));
}

void ShmLink::CloseInForkedChild() {
  if (channel_ != nullptr) channel_->CloseDescriptors();
  if (offered != nullptr) offered->CloseDescriptors();
}

std::string ShmLink::Describe() const {
  static constexpr const char* kNames[] = {"idle", "opening", "up", "dead"};
  std::string text = "shm to " + ToString(peer_) + ": " + kNames[static_cast<int>(state_)] + ", " +
                     std::to_string(queue_.size()) + " frames queued, " +
                     std::to_string(held_.size()) + " held";
  if (channel_ != nullptr) text += ", ring of " + std::to_string(channel_->ring_bytes()) + " bytes";
  if (!last_trouble.empty()) text += "; last trouble: " + last_trouble;
  return text;
}

}  // namespace ftar::transport::shm
