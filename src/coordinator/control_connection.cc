#include "coordinator/control_connection.h"

#include <algorithm>
#include <utility>
#include <variant>

namespace ftar::coordinator {
namespace {

using State = MessageStream::State;

// And for so long: one that dies, or makes room among many newcomers, hangs up, too.
constexpr TimeNs kRefusedForNs = 2 * kSecond;
constexpr TimeNs kPauseMin = 10 * kMillisecond;
// A job that starts finds its coordinator starting too; long pauses there would only delay the
// first step.
constexpr TimeNs kEagerNs = 5 * kSecond;
constexpr TimeNs kEagerPauseMax = 50 * kMillisecond;
constexpr TimeNs kSpareLookNs = 5 * kMillisecond;  // nobody waits for its descriptor

// Of a coordinator to this member, which is out.
bool IsLastWord(const wire::Message& message) {
  return std::holds_alternative<wire::Evicted>(message) ||
         std::holds_alternative<wire::Rejected>(message);
}

}  // namespace

void ControlConnection::Settings::SetPatience(TimeNs timeout_ns) {
  silence_ns = timeout_ns;
  pause_max_ns = std::min(pause_max_ns, timeout_ns / 8);
  // One of several that is gone makes way for the next before anybody is missed.
  const TimeNs handshake_ns = timeout_ns / (names.size() > 1 ? 8 : 2);
  handshake_timeout_ns = std::min(handshake_timeout_ns, handshake_ns);
}

ControlConnection::ControlConnection(Settings settings, const Logger* log)
    : settings_(std::move(settings)), log_(log) {
  UseName(0);
  if (settings_.hosted) patience_ns_ = settings_.handshake_timeout_ns;
}

void ControlConnection::UseName(size_t index) {
  next_name_ = index % settings_.names.size();
  name_ = settings_.names[next_name_];
  shown_ = ShownAddress(name_);
  addresses_.clear();
  next_address_ = 0;
}

bool ControlConnection::wants_addresses(TimeNs now) const {
  if (spare_asks_) return true;
  const bool dials = !settings_.hosted || told_;
  return !closed_ && !hopeless_ && dials && !stream_ && addresses_.empty() && now >= next_try_ns_;
}

void ControlConnection::DropStreams() {
  stream_.reset();
  old_.reset();
  DropSpare();
}

void ControlConnection::BeginAttempt(TimeNs now) {
  DropStreams();
  addresses_.clear();
  next_address_ = 0;
  told_ = true;
  failed_ = silent_ = false;
  next_try_ns_ = now;
}

void ControlConnection::DialAddress(TimeNs now, const std::string& address) {
  BeginAttempt(now);
  shown_ = address;
  addresses_ = {address};
}

void ControlConnection::DialName(TimeNs now, const HostPort& name) {
  BeginAttempt(now);
  shown_ = ShownAddress(name);
  name_ = name;
}

void ControlConnection::SetAddresses(TimeNs now, Expected<std::vector<std::string>> addresses) {
  if (std::exchange(spare_asks_, false)) {
    if (addresses.ok() && !addresses->empty()) DialSpare(now, addresses->front());
    return;
  }
  if (addresses.ok()) {
    addresses_ = std::move(addresses.value());
    next_address_ = 0;
  }
  if (addresses_.empty())
    Lose(now, addresses.ok() ? Status(Code::kCoordinator, "no address") : addresses.status());
}

void ControlConnection::Dial(TimeNs now) {
  if (first_try_ns_ < 0) first_try_ns_ = now;
  dialled_ = addresses_[next_address_ % addresses_.size()];
  ++next_address_;
  Expected<transport::UniqueFd> fd = StartConnecting(dialled_);
  if (!fd.ok()) return Lose(now, fd.status());
  stream_ = NewStream(std::move(fd.value()), now);
}

std::unique_ptr<MessageStream> ControlConnection::NewStream(transport::UniqueFd fd,
                                                            TimeNs now) const {
  return std::make_unique<MessageStream>(std::move(fd), transport::Authenticator::Role::kDialler,
                                         settings_.token, settings_.self, now);
}

void ControlConnection::Lose(TimeNs now, Status why) {
  const bool was_up = std::exchange(up_, false);
  DropStreams();
  if (first_try_ns_ < 0) first_try_ns_ = now;
  // A coordinator that dies at that moment hangs up as one does that has another token.
  refusals_ = why.code() == Code::kAuth ? refusals_ + 1 : 0;
  if (refusals_ == 1) first_refusal_ns_ = now;
  const bool lasting = refused_often() && now - first_refusal_ns_ >= kRefusedForNs;
  const bool refused = lasting || why.code() == Code::kVersion;
  if (refused && !ever_up_) {
    hopeless_ = true;
    log_->Error(settings_.log_name, "coordinator " + shown_ + ": " + why.text());
  } else if (was_up && !last_word_) {
    log_->Warn(settings_.log_name, "coordinator " + shown_ + " is gone: " + why.text());
  }
  last_error_ = std::move(why);
  if (settings_.hosted) return EndAttempt(now);
  const bool eager = !ever_up_ && now - first_try_ns_ < kEagerNs;
  const TimeNs pause_max = std::max(
      kPauseMin, eager ? std::min(kEagerPauseMax, settings_.pause_max_ns) : settings_.pause_max_ns);
  pause_ns_ = was_up ? kPauseMin : std::clamp(pause_ns_ * 2, kPauseMin, pause_max);
  next_try_ns_ = now + pause_ns_;
  // A name may lead elsewhere by now: ask again once all addresses have been tried.
  if (was_up && several()) return UseName(0);
  if (next_address_ >= addresses_.size()) UseName(next_name_ + 1);
}

// A name may stand for several addresses; each is tried once.
void ControlConnection::EndAttempt(TimeNs now) {
  if (!told_) return;
  next_try_ns_ = now;
  if (next_address_ < addresses_.size()) return;
  told_ = false;
  failed_ = true;
  addresses_.clear();
}

// Nothing is said to whoever is there before it has said that it coordinates.
void ControlConnection::HearGreeting(TimeNs now, Result* result) {
  if (result->messages.empty()) return;
  const auto* greeting = std::get_if<wire::Redirect>(&result->messages.front());
  if (greeting != nullptr) result->redirect = *greeting;
  result->messages.erase(result->messages.begin());
  if (greeting != nullptr && result->redirect->here) return;
  result->messages.clear();
  next_address_ = addresses_.size();
  Lose(now, Status(Code::kCoordinator, greeting != nullptr
                                           ? "it does not coordinate"
                                           : "it is a coordinator of its own, not a member"));
}

const char* ControlConnection::Unanswered() const {
  const bool nothing = !stream_ || stream_->state() == State::kConnecting;
  if (nothing) return "no answer";
  return "something listens there, but does not answer as a coordinator (nor does one that has no "
         "descriptors left: its log says so)";
}

std::string ControlConnection::trouble() const {
  return last_error_.ok() ? Unanswered() : last_error_.text();
}

void ControlConnection::Expire(TimeNs now) {
  if (!stream_) return;
  if (stream_->state() == State::kClosed) {
    Lose(now, stream_->status());
  } else if (!up_ && now - stream_->created_ns() > patience_ns_) {
    // A slow one gets more time. What was sent into nothing comes again after pauses that double,
    // and somebody may be there long before: begin anew. Where any member may coordinate, another
    // one is looked for meanwhile.
    const bool nothing = stream_->state() == State::kConnecting;
    const TimeNs most = nothing ? std::min(settings_.silence_ns, kHandshakeMax) : kHandshakeMax;
    if (!settings_.hosted) {
      patience_ns_ = std::min(2 * patience_ns_, most);
    } else if (!ever_up_) {
      // Nobody waits for a newcomer to take over.
      patience_ns_ = std::min(2 * patience_ns_, std::max(patience_ns_, settings_.silence_ns / 2));
    }
    silent_ = true;
    Lose(now, Status(Code::kCoordinator, Unanswered()));
  } else if (up_ && now - stream_->heard_ns() > settings_.silence_ns) {
    Lose(now, Status(Code::kCoordinator, "silent"));
  }
}

void ControlConnection::ComeUp(TimeNs now, Result* result) {
  up_ = ever_up_ = true;
  told_ = false;
  pause_ns_ = 0;
  if (result->redirect) greeted_by_ = result->redirect->host;
  // Who is far away stays so.
  const TimeNs took = settings_.hosted ? now - stream_->created_ns() : 0;
  patience_ns_ = std::min(std::max(settings_.handshake_timeout_ns, 2 * took), kHandshakeMax);
  result->went_up = true;
  log_->Info(settings_.log_name, "coordinator " + shown_ + " is there");
}

// ---- a spare connection

void ControlConnection::LookAfterSpare(TimeNs now, Result* result) {
  // Who is above closes it when it has our word on the new one. Seen closing before that, it would
  // be a death.
  if (old_ && stream_->heard_ns() > renewed_ns_) old_.reset();
  if (now - stream_->heard_ns() < SpareAfter()) return DropSpare();
  if (SpareIsOver(now)) DialNextSpare(now);
  if (!spare_ || !SpareAnswers(now)) return;
  TakeSpare(now);
  result->renewed = true;
}

void ControlConnection::DropSpare() {
  spare_.reset();
  spare_name_.reset();
  spare_tries_ = 0;
  spare_asks_ = false;
}

// One of several that stands still makes way for the next, as one that is gone does.
TimeNs ControlConnection::SparePause() const {
  return several() ? settings_.handshake_timeout_ns : SpareAfter() / 2;
}

// What was sent into nothing comes again after pauses that double; the way may be good before that.
bool ControlConnection::SpareIsOver(TimeNs now) const {
  const bool unanswered = !spare_ || several() || spare_->state() == State::kConnecting;
  return unanswered && now - spare_tried_ns_ >= SparePause();
}

void ControlConnection::DialSpare(TimeNs now, const std::string& address) {
  spare_dialled_ = address;
  Expected<transport::UniqueFd> fd = StartConnecting(address);
  if (fd.ok()) spare_ = NewStream(std::move(fd.value()), now);
}

// Where the silent one goes first: who looks elsewhere alone leaves its mates behind.
void ControlConnection::DialNextSpare(TimeNs now) {
  spare_.reset();
  spare_tried_ns_ = now;
  const size_t further = several() ? spare_tries_++ : 0;
  const size_t name = (next_name_ + further) % settings_.names.size();
  spare_asks_ = name != next_name_;
  spare_name_.reset();
  if (!spare_asks_) return DialSpare(now, dialled_);
  spare_name_ = name;
}

// Nothing is said on it before: who is above would take it for the connection of this member.
bool ControlConnection::SpareAnswers(TimeNs now) {
  std::vector<wire::Message> messages;
  spare_->Poll(now, &messages);
  if (spare_->state() == State::kClosed) spare_.reset();
  if (!spare_ || spare_->state() != State::kOpen) return false;
  if (!settings_.hosted) return true;
  if (messages.empty()) return false;
  const auto* greeting = std::get_if<wire::Redirect>(&messages.front());
  if (greeting != nullptr && greeting->here && greeting->host == greeted_by_) return true;
  spare_.reset();
  return false;
}

void ControlConnection::TakeSpare(TimeNs now) {
  const TimeNs silent_ms = (now - stream_->heard_ns()) / kMillisecond;
  const std::string silent = shown_;
  if (spare_name_) {
    UseName(*spare_name_);
    // It may hear, and be unheard.
    stream_->Send(wire::Redirect{0, {}, spare_dialled_, false, true});
  }
  const std::string answers = spare_name_ ? shown_ + " answers" : "answers on another one";
  log_->Warn(settings_.log_name, "coordinator " + silent + " was silent for " +
                                     std::to_string(silent_ms) + " ms on its connection, and " +
                                     answers);
  renewed_ns_ = now;
  dialled_ = spare_dialled_;
  old_ = std::exchange(stream_, std::exchange(spare_, nullptr));
  DropSpare();
}

void ControlConnection::Poll(TimeNs now, Result* result) {
  if (closed_ || hopeless_) return;
  polled_ns_ = now;
  const bool dials = !settings_.hosted || told_;
  if (!stream_ && dials && now >= next_try_ns_ && !addresses_.empty()) {
    Dial(now);
    result->any = true;
  }
  if (stream_) {
    result->any |= stream_->Poll(now, &result->messages);
    messages_received_ += result->messages.size();
    last_word_ = last_word_ || std::ranges::any_of(result->messages, IsLastWord);
    if (!up_ && settings_.hosted) HearGreeting(now, result);
    const bool answered = !settings_.hosted || result->redirect;
    if (!up_ && answered && stream_ && stream_->state() == State::kOpen) ComeUp(now, result);
    if (up_) LookAfterSpare(now, result);
    const bool was_up = up_;
    Expire(now);
    result->went_down = was_up && !up_;
    result->any |= result->went_up || result->went_down || result->renewed;
  }
  result->dial_failed = std::exchange(failed_, false);
  result->silent = silent_;
  result->any |= result->dial_failed;
}

void ControlConnection::Send(const wire::Message& message) {
  if (!up_ || !stream_) return;
  last_word_ = last_word_ || std::holds_alternative<wire::Goodbye>(message);
  ++messages_sent_;
  stream_->Send(message);
}

TimeNs ControlConnection::next_deadline() const {
  if (closed_ || hopeless_) return kNever;
  if (failed_) return 0;
  if (!stream_) return settings_.hosted && !told_ ? kNever : next_try_ns_;
  if (!up_) return stream_->created_ns() + patience_ns_ + 1;
  if (spare_asks_) return polled_ns_;
  if (spare_) return polled_ns_ + kSpareLookNs;
  const TimeNs spare = std::max(stream_->heard_ns() + SpareAfter(), spare_tried_ns_ + SparePause());
  return std::min(spare, stream_->heard_ns() + settings_.silence_ns + 1);
}

void ControlConnection::Close() {
  closed_ = true;
  up_ = false;
  DropStreams();
}

void ControlConnection::CloseInForkedChild() {
  for (auto* stream : {&stream_, &spare_, &old_}) {
    if (*stream) (*stream)->CloseInForkedChild();
  }
}

}  // namespace ftar::coordinator
