#include "transport/tcp/link.h"

#include <sys/epoll.h>

#include <algorithm>
#include <utility>

#include "transport/tcp/costs.h"
#include "transport/tcp/device.h"

namespace ftar::transport::tcp {
namespace {

constexpr size_t kDrainBytesMax = 64u << 20;
constexpr TimeNs kBackoffMinNs = kMillisecond;
constexpr TimeNs kBackoffMaxNs = 250 * kMillisecond;
// A network that resets whatever goes to a host refuses like a host without the process. Of a
// process that has ended others tell sooner: the process watch, and the coordinator.
constexpr TimeNs kRefusedNs = 250 * kMillisecond;
// Where many dial at once the peer hangs up on those that have waited longest, our proof unread.
constexpr TimeNs kRejectedNs = 500 * kMillisecond;
constexpr int kFruitlessMin = 3;  // paths of one stream that are made anew in vain

}  // namespace

TcpLink::TcpLink(TcpDevice* device, MemberId peer) : device_(device), peer_(peer) {}

TcpLink::~TcpLink() { CloseStreams(); }

int TcpLink::live_streams() const {
  return static_cast<int>(std::count_if(slots_.begin(), slots_.end(),
                                        [](const Slot& s) { return s.stream != nullptr; }));
}

void TcpLink::Tell(Completion::Kind kind, std::string text, Status status) {
  Completion completion;
  completion.kind = kind;
  completion.link = this;
  completion.peer = peer_;
  completion.status = std::move(status);
  completion.text = std::move(text);
  device_->Emit(std::move(completion));
}

// ---- opening, losing and repairing streams

void TcpLink::Open(bool dialler, uint64_t link_id, int streams, TimeNs now) {
  CloseStreams();
  DropOutput();
  state_ = State::kOpening;
  dialler_ = dialler;
  was_up_ = false;
  link_id_ = link_id;
  rejected_since_ = fruitless_since_ = kNever;
  fruitless_ = 0;
  const DeviceConfig& config = device_->config();
  give_up_at_ = now + std::max(config.path_retry_ns, config.handshake_timeout_ns);
  slots_.clear();
  slots_.resize(static_cast<size_t>(std::clamp(streams, 1, kStreamsMax)));
  ack_frames_.clear();
  for (size_t i = 0; i < slots_.size(); ++i) ack_frames_.push_back(std::make_unique<OutFrame>());
  ack_frame_busy_.assign(slots_.size(), false);
  window_begin_ = next_number_ = acked_ = 0;
  expected_ = 0;
  ahead_.clear();
  ahead_bytes_ = 0;
  unacked_frames_ = unacked_bytes_ = 0;
  ack_at_ = kNever;
  if (dialler_) {
    for (Slot& slot : slots_) slot.dial_at = now;
  }
}

void TcpLink::Reopen(uint64_t link_id, int streams, TimeNs now) {
  auto waiting = std::move(queue_);
  Open(false, link_id, streams, now);
  queue_ = std::move(waiting);
}

void TcpLink::Yield() {
  dialler_ = false;
  for (Slot& slot : slots_) {
    slot.dial_at = kNever;
    if (slot.handshake != 0) device_->AbandonHandshake(slot.handshake);
    slot.handshake = 0;
  }
}

void TcpLink::Attach(int slot_index, UniqueFd fd, uint64_t peer_received,
                     std::span<const std::byte> leftover, TimeNs now) {
  const uint64_t key = device_->WatchStream(this, slot_index, fd.get());
  // The dialler noticed the loss of the old stream before we did.
  if (slots_[slot_index].stream != nullptr) {
    LoseSlot(slot_index, {Code::kLink, "the peer replaced the connection"}, now);
    if (state_ == State::kDead) return device_->ForgetStream(key, fd.get());
  }
  Slot& slot = slots_[slot_index];
  if (slot.handshake != 0) device_->AbandonHandshake(std::exchange(slot.handshake, 0));
  slot.dial_at = slot.give_up_at = kNever;
  slot.backoff_ns = 0;
  slot.epoll_key = key;
  const DeviceConfig& config = device_->config();
  const Status set = SetOptions(fd.get(), config.path_silence_ns);
  if (!set.ok()) last_trouble_ = set.text();
  slot.stream = std::make_unique<Stream>(
      std::move(fd), device_->pool(), [this](const auto& header) { return PlaceFor(header); },
      [this](uint64_t number) { return HasCome(number); });
  slot.stream->Preload(leftover);
  slot.stream->interest = EPOLLIN;
  UpdateInterest(slot_index);  // a link that has stalled reads by none
  const bool all_were_lost = state_ != State::kUp;
  state_ = State::kUp;
  give_up_at_ = kNever;
  rejected_since_ = refused_since_ = kNever;
  if (!was_up_) {
    was_up_ = true;
    costs_ = config.wire;
    if (costs_.round_ns == 0) costs_.round_ns = RoundNs(slot.stream->fd());
    ++device_->counting().links_opened;
    if (dialler_) device_->WatchProcess(peer_, watch_name_, now);
    Tell(wants_up_ ? Completion::Kind::kUp : Completion::Kind::kAccepted, "");
  } else if (all_were_lost || slot.lost) {
    Tell(Completion::Kind::kUp, "path " + std::to_string(slot_index) + " is back");
  }
  slot.lost = false;
  ApplyAck(peer_received);
  device_->MarkDirty(this);
  if (!leftover.empty() && state_ == State::kUp) OnReadable(slot_index, leftover.size(), now);
}

void TcpLink::LoseSlot(int slot_index, const Status& why, TimeNs now) {
  Slot& slot = slots_[slot_index];
  if (slot.stream == nullptr) return;
  CollectWritten(slot_index);
  device_->ForgetStream(slot.epoll_key, slot.stream->fd());
  slot.stream.reset();
  ack_frame_busy_[slot_index] = false;
  last_trouble_ = why.text();
  slot.lost = true;
  ++device_->counting().paths_lost;
  if (why.code() == Code::kCorrupt) ++device_->counting().frames_corrupt;
  RequeueFramesOf(slot_index);
  Tell(Completion::Kind::kPathLost,
       "path " + std::to_string(slot_index) + " of " + std::to_string(slots_.size()) + ": " +
           why.text(),
       why);
  slot.give_up_at = now + device_->config().path_retry_ns;
  if (dialler_) ScheduleDial(slot_index, now);
  BreakIfNoStream(now);
  ack_at_ = now;  // one may have gone with it, and the peer waits for it
  device_->MarkDirty(this);
  CountFruitless(now);
}

// A network may let connections be made, and swallow what is sent on them: long packets, where a
// route takes shorter ones than its ends believe. Each path is back at once, and nothing goes on.
void TcpLink::CountFruitless(TimeNs now) {
  if (acked_ == next_number_) return;
  fruitless_since_ = std::min(fruitless_since_, now);
  // All streams may be lost by one event.
  const int most = std::max(kFruitlessMin, static_cast<int>(slots_.size()) + 1);
  const bool long_enough = now - fruitless_since_ >= device_->config().path_retry_ns;
  if (++fruitless_ < most || !long_enough) return;
  Fail({Code::kLink, "nothing that is sent to " + peer_address_.Text() +
                         " gets through, though connections are made; last: " + last_trouble_});
}

// What this stream carried and the peer has not acknowledged goes to the other streams now, or to
// the next connection.
void TcpLink::RequeueFramesOf(int slot_index) {
  for (auto& frame : window_) {
    if (frame->slot != slot_index || frame->state == OutFrame::State::kQueued) continue;
    frame->slot = -1;
    frame->state = OutFrame::State::kQueued;
    if (frame->cancelled) Tombstone(frame.get());
    if (frame->header.link_seq >= acked_) resend_.insert(frame->header.link_seq);
  }
  TrimWindow();
}

void TcpLink::BreakIfNoStream(TimeNs now) {
  if (state_ != State::kUp || live_streams() > 0) return;
  state_ = State::kBroken;
  give_up_at_ = now + device_->config().path_retry_ns;
  // The dialler may not have noticed: packets of an idle connection vanish unseen. And if it is
  // gone, nobody listens.
  for (size_t i = 0; i < slots_.size() && !dialler_; ++i) {
    if (slots_[i].handshake == 0) ScheduleDial(static_cast<int>(i), now);
  }
}

void TcpLink::ScheduleDial(int slot_index, TimeNs now) {
  Slot& slot = slots_[slot_index];
  // A path that stays away while others carry the link is left alone after a while.
  if (state_ == State::kUp && live_streams() > 0 && now >= slot.give_up_at) {
    slot.dial_at = kNever;
    return;
  }
  slot.dial_at = now + slot.backoff_ns;
  slot.backoff_ns = std::clamp(slot.backoff_ns * 2, kBackoffMinNs, kBackoffMaxNs);
}

void TcpLink::OnDialFailed(int slot_index, const Status& why, bool refused, bool hopeless,
                           TimeNs now) {
  if (state_ == State::kDead) return;
  slots_[slot_index].handshake = 0;
  last_trouble_ = why.text();
  // Who has been there has the token, and speaks as we do: what it said has come damaged.
  if (hopeless && !was_up_) return Fail(why);
  refused_since_ = refused && live_streams() == 0 ? std::min(refused_since_, now) : kNever;
  if (refused_since_ != kNever && now - refused_since_ >= kRefusedNs) {
    return Fail(
        {Code::kPeer, "nobody listens at " + peer_address_.Text() + ": the process is gone"});
  }
  // A hang-up may be the peer's death, or a crowd's; all that come are an opinion about our token.
  if (why.code() == Code::kAuth && !was_up_) {
    rejected_since_ = std::min(rejected_since_, now);
    if (now - rejected_since_ >= kRejectedNs) return Fail(why);
  }
  ScheduleDial(slot_index, now);
}

void TcpLink::OnCollision(int slot_index, TimeNs now) {
  if (dialler_) return Yield();
  ScheduleDial(slot_index, now);  // in case that of the dialler comes to nothing
}

void TcpLink::OnPeerExited(TimeNs now) {
  if (state_ == State::kDead)
    return Tell(Completion::Kind::kExited, "");  // stronger than what was said before
  // What it sent before it died still counts.
  for (size_t i = 0; i < slots_.size() && state_ == State::kUp; ++i) {
    if (slots_[i].stream != nullptr) OnReadable(static_cast<int>(i), kDrainBytesMax, now);
  }
  Tell(Completion::Kind::kExited, "");
  Fail({Code::kPeer, "the peer's process has exited"});
}

void TcpLink::OnTimer(TimeNs now) {
  if (state_ == State::kDead || state_ == State::kIdle) return;
  if (now >= give_up_at_) {
    return Fail({Code::kLink, "no path to " + peer_address_.Text() + (was_up_ ? " any more" : "") +
                                  (last_trouble_.empty() ? "" : "; last: " + last_trouble_)});
  }
  for (size_t i = 0; i < slots_.size() && state_ != State::kDead; ++i) {
    if (now < slots_[i].dial_at) continue;
    slots_[i].dial_at = kNever;
    device_->Dial(this, static_cast<int>(i), now);
  }
  if (now >= ack_at_) device_->MarkDirty(this);
}

TimeNs TcpLink::next_deadline() const {
  if (state_ == State::kDead || state_ == State::kIdle) return kNever;
  // Without a stream an acknowledgement waits for the next one, and is nothing to be up for.
  TimeNs deadline = std::min(give_up_at_, state_ == State::kUp ? ack_at_ : kNever);
  for (const Slot& slot : slots_) deadline = std::min(deadline, slot.dial_at);
  return deadline;
}

void TcpLink::Fail(Status status) {
  if (state_ == State::kDead) return;
  CloseStreams();
  DropOutput();
  state_ = State::kDead;
  if (was_up_) ++device_->counting().links_closed;
  Tell(Completion::Kind::kDown, status.text(), status);
}

void TcpLink::CloseStreams() {
  for (Slot& slot : slots_) {
    if (slot.stream != nullptr) device_->ForgetStream(slot.epoll_key, slot.stream->fd());
    slot.stream.reset();
    if (slot.handshake != 0) device_->AbandonHandshake(slot.handshake);
    slot.handshake = 0;
    slot.dial_at = kNever;
  }
  ack_at_ = give_up_at_ = kNever;
}

void TcpLink::DropOutput() {
  queue_.clear();
  window_.clear();
  window_bytes_ = 0;
  resend_.clear();
}

void TcpLink::CloseInForkedChild() {
  for (Slot& slot : slots_) {
    if (slot.stream != nullptr) slot.stream->fd_owner().Reset();
  }
}

bool TcpLink::Disturb(Device::Disturbance what, TimeNs now) {
  if (what == Device::Disturbance::kCorruptNextFrame) {
    corrupt_next_ = true;
    return true;
  }
  if (what != Device::Disturbance::kResetPaths) return false;
  for (size_t i = 0; i < slots_.size(); ++i) {
    if (slots_[i].stream == nullptr) continue;
    ResetAtClose(slots_[i].stream->fd());
    LoseSlot(static_cast<int>(i), {Code::kLink, "reset by fault injection"}, now);
  }
  return true;
}

std::string TcpLink::Describe() const {
  static constexpr const char* kNames[] = {"idle", "opening", "up", "broken", "dead"};
  std::string text = "tcp to " + ToString(peer_) + " at " + peer_address_.Text() + ": " +
                     kNames[static_cast<int>(state_)] + ", " + std::to_string(live_streams()) +
                     " of " + std::to_string(slots_.size()) + " paths, " +
                     std::to_string(queue_.size()) + " frames queued, " +
                     std::to_string(window_.size()) + " unacknowledged, " +
                     std::to_string(held_bytes_) + " bytes held";
  if (!last_trouble_.empty()) text += "; last trouble: " + last_trouble_;
  return text;
}

}  // namespace ftar::transport::tcp
