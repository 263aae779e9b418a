#include "runtime/control_connection.h"

#include <algorithm>
#include <utility>

namespace ftar::runtime {
namespace {

using State = coordinator::MessageStream::State;

constexpr TimeNs kPauseMin = 10 * kMillisecond;
// A job that starts finds its coordinator starting too; long pauses there would only delay the
// first step.
constexpr TimeNs kEagerNs = 5 * kSecond;
constexpr TimeNs kEagerPauseMax = 50 * kMillisecond;

}  // namespace

ControlConnection::ControlConnection(Settings settings, const Logger* log)
    : settings_(std::move(settings)), log_(log) {}

bool ControlConnection::wants_addresses(TimeNs now) const {
  return !closed_ && !hopeless_ && !stream_ && addresses_.empty() && now >= next_try_ns_;
}

void ControlConnection::SetAddresses(TimeNs now, Expected<std::vector<std::string>> addresses) {
  if (addresses.ok()) {
    addresses_ = std::move(addresses.value());
    next_address_ = 0;
  }
  if (addresses_.empty())
    Lose(now, addresses.ok() ? Status(Code::kCoordinator, "no address") : addresses.status());
}

void ControlConnection::Dial(TimeNs now) {
  if (first_try_ns_ < 0) first_try_ns_ = now;
  const std::string& address = addresses_[next_address_ % addresses_.size()];
  ++next_address_;
  Expected<transport::UniqueFd> fd = coordinator::StartConnecting(address);
  if (!fd.ok()) return Lose(now, fd.status());
  stream_.emplace(std::move(fd.value()), transport::Authenticator::Role::kDialler, settings_.token,
                  settings_.self, now);
}

void ControlConnection::Lose(TimeNs now, Status why) {
  const bool was_up = std::exchange(up_, false);
  stream_.reset();
  if (first_try_ns_ < 0) first_try_ns_ = now;
  const bool refused = why.code() == Code::kAuth || why.code() == Code::kVersion;
  if (refused && !ever_up_) {
    hopeless_ = true;
    log_->Error("runtime", "coordinator " + settings_.shown_address + ": " + why.text());
  } else if (was_up) {
    log_->Warn("runtime", "coordinator " + settings_.shown_address + " is gone: " + why.text());
  }
  last_error_ = std::move(why);
  const bool eager = !ever_up_ && now - first_try_ns_ < kEagerNs;
  const TimeNs pause_max = std::max(
      kPauseMin, eager ? std::min(kEagerPauseMax, settings_.pause_max_ns) : settings_.pause_max_ns);
  pause_ns_ = was_up ? kPauseMin : std::clamp(pause_ns_ * 2, kPauseMin, pause_max);
  next_try_ns_ = now + pause_ns_;
  // A name may lead elsewhere by now: ask again once all addresses have been tried.
  if (!addresses_.empty() && next_address_ >= addresses_.size()) {
    addresses_.clear();
    next_address_ = 0;
  }
}

void ControlConnection::Poll(TimeNs now, Result* result) {
  if (closed_ || hopeless_) return;
  if (!stream_) {
    if (now < next_try_ns_ || addresses_.empty()) return;
    Dial(now);
    result->any = true;
    if (!stream_) return;
  }
  result->any |= stream_->Poll(now, &result->messages);
  messages_received_ += result->messages.size();
  if (stream_->state() == State::kOpen && !up_) {
    up_ = ever_up_ = true;
    pause_ns_ = 0;
    patience_ns_ = std::min(settings_.handshake_timeout_ns, kHandshakeMax);
    result->went_up = true;
    log_->Info("runtime", "coordinator " + settings_.shown_address + " is there");
  }
  const bool was_up = up_;
  if (stream_->state() == State::kClosed) {
    Lose(now, stream_->status());
  } else if (!up_ && now - stream_->created_ns() > patience_ns_) {
    patience_ns_ = std::min(2 * patience_ns_, kHandshakeMax);
    Lose(now, Status(Code::kCoordinator, "no answer"));
  } else if (up_ && now - stream_->heard_ns() > settings_.silence_ns) {
    Lose(now, Status(Code::kCoordinator, "silent"));
  }
  result->went_down = was_up && !up_;
  result->any |= result->went_up || result->went_down;
}

void ControlConnection::Send(const wire::Message& message) {
  if (!up_ || !stream_) return;
  ++messages_sent_;
  stream_->Send(message);
}

TimeNs ControlConnection::next_deadline() const {
  if (closed_ || hopeless_) return kNever;
  if (!stream_) return next_try_ns_;
  if (!up_) return stream_->created_ns() + patience_ns_ + 1;
  return stream_->heard_ns() + settings_.silence_ns + 1;
}

void ControlConnection::Close() {
  closed_ = true;
  up_ = false;
  stream_.reset();
}

void ControlConnection::CloseInForkedChild() {
  if (stream_) stream_->CloseInForkedChild();
}

}  // namespace ftar::runtime
