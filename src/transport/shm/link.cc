#include "transport/shm/link.h"

#include <algorithm>
#include <cstring>

#include "base/copy.h"
#include "transport/shm/device.h"
#include "transport/steady_clock.h"

namespace ftar::transport::shm {

namespace {
// A reference costs the reader cold cache lines in another's memory and the bookkeeping of a loan;
// below this the copy is cheaper.
constexpr size_t kLentBytesMin = 4096;
constexpr size_t kReadAheadFrames = 1024;
}  // namespace

ShmLink::~ShmLink() {
  if (channel_ != nullptr && channel_->attached()) channel_->lender().RecallAll();
}

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
  stamped.body_crc = stamped.header_crc = 0;
  if (ext.size() > wire::kExtBytesMax || payload.size() > wire::kPayloadBytesMax) {
    return Fail({Code::kInternal, "a frame of " + std::to_string(payload.size()) +
                                      " bytes is too long for any link"});
  }
  if (state_ == State::kUp && queue_.empty() &&
      WriteToRing(stamped, ext, payload, !copy_payload, cookie)) {
    return;
  }
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
  Enqueue(std::move(frame), device_->priorities(), &queue_);
}

bool ShmLink::WriteToRing(const wire::FrameHeader& header, std::span<const std::byte> ext,
                          std::span<const std::byte> payload, bool lendable, uint64_t cookie) {
  Reference reference;
  Lender::Way way = Lender::Way::kCopy;
  if (lendable && payload.size() >= kLentBytesMin) {
    way = channel_->lender().Lend(payload, channel_->socket(), &reference);
  }
  if (way == Lender::Way::kWait) return false;
  if (way == Lender::Way::kLent) {
    wire::FrameHeader referring = header;
    referring.reserved = static_cast<uint16_t>(Transit::kReference);
    referring.payload_bytes = sizeof reference;
    channel_->lender().Lent(reference, header, cookie);
    if (!Publish(referring, ext, std::as_bytes(std::span(&reference, 1)))) {
      channel_->lender().Unsent();
      return false;
    }
    device_->counting().bytes_sent += payload.size() - sizeof reference;
    return true;
  }
  const TimeNs begin = payload.size() >= kHandOverMinBytes ? SteadyNow() : 0;
  if (!Publish(header, ext, payload)) return false;
  TellSent(header, cookie, begin > 0 ? SteadyNow() - begin : 0);
  return true;
}

bool ShmLink::Publish(const wire::FrameHeader& header, std::span<const std::byte> ext,
                      std::span<const std::byte> payload) {
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
  counters.bytes_moved += 2 * payload.size();
  return true;
}

void ShmLink::TellSent(const wire::FrameHeader& header, uint64_t cookie, TimeNs spent_ns) {
  if (cookie == 0) return;
  Completion sent;
  sent.kind = Completion::Kind::kSent;
  sent.link = this;
  sent.peer = peer_;
  sent.cookie = cookie;
  sent.header = header;
  sent.spent_ns = spent_ns;
  device_->Emit(std::move(sent));
}

bool ShmLink::CollectLoans() {
  if (state_ != State::kUp) return false;
  channel_->lender().ForgetFreed(channel_->socket());
  channel_->borrower().MapWaiting();
  bool any = false;
  // Who waits for some may have others out for long: its peer has not called their operation.
  for (Lender::Returned returned; channel_->lender().TakeReturned(&returned, loans_awaited_);
       any = true)
    TellSent(returned.header, returned.cookie, 0);
  if (channel_->lender().idle()) loans_awaited_ = false;
  return any;
}

bool ShmLink::Flush() {
  bool any = false;
  while (state_ == State::kUp && !queue_.empty()) {
    const OutFrame& frame = *queue_.front();
    if (!WriteToRing(frame.header, frame.ext, frame.payload, frame.copy.empty(), frame.cookie))
      return any;
    queue_.pop_front();
    any = true;
  }
  return any;
}

void ShmLink::CancelOp(uint32_t group, uint64_t seq) {
  // What is in the ring is a copy already, or lent.
  std::erase_if(queue_, [&](const auto& frame) { return frame->belongs_to(group, seq); });
  if (state_ == State::kUp) channel_->lender().Recall(group, seq);
  device_->DropSent(this, group, seq);
}

// kSent comes with the copy into the ring, or with the loan's return.
void ShmLink::FinishOp(uint32_t, uint64_t) {
  loans_awaited_ = state_ == State::kUp && !channel_->lender().idle();
}

void ShmLink::TakeBack() {
  if (state_ == State::kUp) channel_->lender().RecallAll();
}

void ShmLink::Nudge() {
  if (state_ == State::kUp) channel_->Ring(kWakeOnHead);
}

std::optional<Link::Place> ShmLink::Show(std::span<const std::byte> memory) {
  if (state_ != State::kUp) return {};
  return channel_->lender().Show(memory, channel_->socket());
}

std::shared_ptr<const std::byte> ShmLink::See(Place place, uint64_t bytes) {
  return state_ == State::kUp ? channel_->borrower().See(place, bytes) : nullptr;
}

// ---- in

size_t ShmLink::Receive(size_t budget_bytes) {
  size_t bytes = TakeFromRing(budget_bytes);
  while (bytes < budget_bytes && HandOut(&bytes)) {
  }
  return bytes;
}

bool ShmLink::ReadsAhead() const {
  const Priorities* const priorities = device_->priorities();
  return (priorities != nullptr && priorities->any()) || !waiting_.empty();
}

void ShmLink::Keep(Completion completion, std::deque<Completion>* queue) {
  const auto header_of = [](const Completion& kept) -> const auto& { return kept.header; };
  const auto at = PlaceInQueue(completion.header, device_->priorities(), *queue, header_of);
  // Space comes back in the ring's order, and who counts what lies behind a frame counts in the
  // order in which frames are handed out: what is passed lies in the ring no more.
  for (auto passed = at; passed != queue->end(); ++passed) {
    const Detached moved = Detach(passed->token);
    passed->ext = moved.ext;
    passed->payload = moved.payload;
  }
  queue->insert(at, std::move(completion));
}

// A word that waits may have come before it, so that it is not passed.
bool ShmLink::LentInputIsNext() const {
  if (lent_inputs_.empty() || waiting_.empty()) return !lent_inputs_.empty();
  const Priorities* const priorities = device_->priorities();
  return words_waiting_ == 0 && priorities != nullptr &&
         priorities->Of(lent_inputs_.front().header.group) >
             priorities->Of(waiting_.front().header.group);
}

bool ShmLink::HandOut(size_t* bytes) {
  std::deque<Completion>& queue = LentInputIsNext() ? lent_inputs_ : waiting_;
  if (queue.empty()) return false;
  Completion& next = queue.front();
  if (!IsData(next.header)) --words_waiting_;
  *bytes += std::max<size_t>(1, next.payload.size());
  device_->Emit(std::move(next));
  queue.pop_front();
  return true;
}

size_t ShmLink::TakeFromRing(size_t budget_bytes) {
  size_t bytes = 0;
  while (state_ == State::kUp && bytes < budget_bytes && waiting_.size() < kReadAheadFrames) {
    RingReader::Record record;
    const Expected<bool> more = channel_->reader().Next(&record);
    if (!more.ok()) {
      ++device_->counting().frames_corrupt;
      Fail(more.status());
      break;
    }
    if (!*more) break;
    bytes += std::max<size_t>(1, Deliver(record));
  }
  return bytes;
}

size_t ShmLink::Deliver(const RingReader::Record& record) {
  Completion completion;
  completion.kind = Completion::Kind::kReceived;
  completion.link = this;
  completion.peer = peer_;
  completion.header = record.header;
  completion.ext = record.ext;
  completion.payload = record.payload;
  Held held{channel_, channel_->PushRecord(record.end), record.ext, record.payload, {}, {}};
  if (static_cast<Transit>(record.header.reserved) == Transit::kReference &&
      !FollowReference(&completion, &held))
    return 0;
  Device::Counters& counters = device_->counting();
  ++counters.frames_received;
  counters.bytes_received += completion.ext.size() + completion.payload.size();
  const bool lent = held.loan.has_value();
  const bool lent_input = lent && completion.header.kind == wire::FrameKind::kRaw;
  completion.token = held_.Add(std::move(held));
  // It may be handed out behind what comes after it, and rest long: the ring goes on without it.
  if (lent) completion.ext = Detach(completion.token).ext;
  const size_t bytes = completion.payload.size();
  if (lent_input) {
    Keep(std::move(completion), &lent_inputs_);
    return 0;
  }
  if (ReadsAhead()) {
    if (!IsData(completion.header)) ++words_waiting_;
    Keep(std::move(completion), &waiting_);
    return 0;
  }
  device_->Emit(std::move(completion));
  return bytes;
}

bool ShmLink::FollowReference(Completion* completion, Held* held) {
  Reference reference;
  Expected<Borrower::Borrowed> borrowed =
      Status(Code::kCorrupt, "the peer's ring holds a reference that makes no sense");
  const wire::FrameKind kind = completion->header.kind;
  const bool data = kind != wire::FrameKind::kControl && kind != wire::FrameKind::kAck;
  if (data && completion->payload.size() == sizeof reference) {
    std::memcpy(&reference, completion->payload.data(), sizeof reference);
    borrowed = channel_->borrower().Take(reference);
  }
  if (!borrowed.ok()) {
    ++device_->counting().frames_corrupt;
    Fail(borrowed.status());
    return false;
  }
  completion->header.reserved = static_cast<uint16_t>(Transit::kDeliver);
  completion->header.payload_bytes = reference.bytes;
  completion->payload = held->payload = borrowed->payload;
  completion->lent = std::move(borrowed->memory);
  completion->on_device = borrowed->on_device;
  held->loan = reference;
  if (completion->payload.empty()) {
    // Recalled, and its memory unmapped: what is left of it is what it says of its sender.
    completion->header.kind = wire::FrameKind::kAck;
    completion->header.payload_bytes = 0;
  }
  return true;
}

void ShmLink::Release(uint64_t token) {
  Held* held = held_.Find(token);
  if (held == nullptr) return;
  if (held->loan) held->channel->borrower().GiveBack(*held->loan);
  if (held->copy.empty()) held->channel->RecordDone(held->record);
  if (held->loan) held->channel->RingIfOpen(kWakeOnTail);
  held_.Remove(token);
}

bool ShmLink::LendsDevice(std::span<const std::byte> payload) {
  return state_ == State::kUp && payload.size() >= kLentBytesMin &&
         channel_->lender().LendsDevice(payload, channel_->socket());
}

bool ShmLink::Intact(uint64_t token) {
  const Held* held = held_.Find(token);
  return held != nullptr && (!held->loan || held->channel->borrower().Intact(*held->loan));
}

Link::Detached ShmLink::Detach(uint64_t token) {
  Held* const found = held_.Find(token);
  if (found == nullptr) return {};
  Held& held = *found;
  if (held.copy.empty()) {
    const size_t payload_at = (held.ext.size() + 63) & ~size_t{63};
    const size_t moved = held.loan ? 0 : held.payload.size();
    BufferPool::Buffer copy = device_->pool()->Get(payload_at + moved);
    if (copy.empty()) return {held.ext, held.payload};  // no memory: it stays where it is
    if (!held.ext.empty()) std::memcpy(copy.data(), held.ext.data(), held.ext.size());
    if (moved > 0) std::memcpy(copy.data() + payload_at, held.payload.data(), moved);
    device_->counting().bytes_moved += 2 * moved;
    held.ext = {copy.data(), held.ext.size()};
    if (!held.loan) held.payload = {copy.data() + payload_at, moved};
    held.copy = std::move(copy);
    held.channel->RecordDone(held.record);
  }
  return {held.ext, held.payload};
}

size_t ShmLink::hold_bytes_max() const {
  // The ring frees space in its own order. So there must be room for an unreleased frame, what may
  // lie behind it, the next one, and as much again that is skipped at the ring's end.
  const size_t ring = channel_ != nullptr && channel_->attached() ? channel_->peer_ring_bytes()
                                                                  : device_->ring_bytes();
  const size_t others = 3 * RecordBytes(wire::kExtBytesMax, device_->payload_bytes_max());
  return ring > others ? std::min(ring - others, ring / 2) : 0;
}

bool ShmLink::HasWork() const {
  if (state_ != State::kUp) return false;
  if (loans_awaited_ && channel_->lender().HasReturned()) return true;
  return !lent_inputs_.empty() || !waiting_.empty() || channel_->reader().HasMore() ||
         (!queue_.empty() && channel_->writer().RoomMayHaveCome());
}

void ShmLink::Nap() {
  const bool tail = !queue_.empty() || loans_awaited_;
  channel_->Nap(kWakeOnHead | (tail ? static_cast<uint32_t>(kWakeOnTail) : 0u));
}

void ShmLink::BeginToBorrow() { channel_->borrower().Begin(); }

Borrower::Socket ShmLink::ListenForBlocks() {
  return channel_->borrower().Listen(channel_->socket());
}

// ---- the end

void ShmLink::OnPeerGone(bool exited, Status status) {
  if (state_ == State::kDead) return;
  // One that has closed and lives could write on for ever.
  if (state_ == State::kUp) channel_->reader().Stop();
  while (state_ == State::kUp && Receive(SIZE_MAX) > 0) {
  }
  if (exited) Tell(Completion::Kind::kExited);
  Fail(std::move(status));
}

void ShmLink::Fail(Status status) {
  if (state_ == State::kDead) return;
  if (state_ == State::kUp) ++device_->counting().links_closed;
  state_ = State::kDead;
  device_->Detach(this);
  if (channel_ != nullptr && channel_->attached()) channel_->lender().RecallAll();
  if (channel_ != nullptr) channel_->CloseDescriptors();
  queue_.clear();
  lent_inputs_.clear();
  waiting_.clear();
  words_waiting_ = 0;
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
