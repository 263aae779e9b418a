#include "membership/succession.h"

#include <algorithm>

#include "base/mutant.h"

namespace ftar::membership {
namespace {

constexpr int64_t kParts = 4;  // of a step: neighbours on the list differ by one

}  // namespace

void Succession::Step(TimeNs now, const SuccessionEvent& event) {
  now_ = std::max(now, now_);
  if (!started_) began_at_ = lost_at_ = dial_at_ = now_;
  started_ = true;
  std::visit([this](const auto& concrete) { On(concrete); }, event);
}

// A last look that is under way begins anew: its place is one in the list.
void Succession::On(const SuccessorsKnown& event) {
  if (event.list == successors_) return;
  successors_ = event.list;
  last_look_ = false;
}

void Succession::On(const HostExited& event) {
  exited_.insert(event.member);
  const bool in_time = !sat_down_ && now_ - gone_at_ <= config_.grace_ns;
  // Who waits beside a coordinator that lacks a quorum does not know what others do meanwhile.
  const bool led = event.led || FTAR_MUTANT(kAnyHostCounts);
  if (!hosting_ && led && (following_ || in_time)) witnessed_.insert(event.member);
}

void Succession::On(const CoordinatorFound& event) {
  if (event.host != config_.self && event.host != host_) witnessed_.clear();
  host_ = event.host;
  following_ = true;
  dialling_ = sat_down_ = last_look_ = false;
}

// No death, and as good as one for those who wait: what it has numbered all of them hold.
void Succession::On(const CoordinatorLeaves&) {
  if (following_ && host_ && *host_ != config_.self) exited_.insert(*host_);
}

void Succession::On(const CoordinatorGone&) {
  dialling_ = false;
  if (!following_) return;
  following_ = false;
  lost_at_ = dial_at_ = now_;
  tried_ = 0;
  if (!hosting_) gone_at_ = now_;
  // It may be back at once: the connection was lost, not the coordinator.
  const auto place = std::find(successors_.begin(), successors_.end(), host_);
  cursor_ = place == successors_.end() ? 0 : static_cast<size_t>(place - successors_.begin());
}

void Succession::On(const DialFailed& event) {
  dialling_ = false;
  const bool ask_again = event.silent && now_ - began_at_ < config_.asks_again_ns;
  looked_ = ask_again ? 0 : looked_ + 1;
  const bool round_over = ++tried_ >= Others() + (LooksFurther() ? 1 : 0);
  if (round_over) tried_ = 0;
  dial_at_ = now_ + (round_over ? config_.retry_ns : 0);
}

void Succession::On(const StoodDown&) {
  if (!hosting_) return;
  hosting_ = following_ = dialling_ = last_look_ = false;
  sat_down_ = true;
  ++times_sat_down_;
  lost_at_ = dial_at_ = now_;
  cursor_ = 0;
  tried_ = 0;
}

// Those on the list before this one may come first; and the coordinator itself, if it was only the
// connection that was lost. Who is known to be dead keeps nobody waiting.
TimeNs Succession::TakeOverAt() const {
  if (config_.founder && !host_) return begun_ || looked_ < config_.looks_first ? kNever : lost_at_;
  const auto self = std::find(successors_.begin(), successors_.end(), config_.self);
  if (self == successors_.end()) return kNever;
  int64_t before =
      std::count_if(successors_.begin(), self, [this](MemberId id) { return !Exited(id); });
  const bool counted = std::find(successors_.begin(), self, host_) != self;
  if (host_ && !counted && *host_ != config_.self && !Exited(*host_)) ++before;
  if (sat_down_) {
    // Two who know of different deaths may be even, and would step up and sit down at the same time
    // for ever. So each waits a little more or less from time to time, by its own dice.
    before += static_cast<int64_t>(successors_.size());
    before += config_.incarnation >> 2 * (times_sat_down_ % 8) & 3;
  }
  if (before == 0) return lost_at_;
  // Who knows of one death more than its neighbour is even with it. So of neighbours the first
  // steps up a little earlier, and is found by the second.
  const int64_t place = self - successors_.begin();
  return lost_at_ + before * config_.step_ns + place % kParts * config_.step_ns / kParts;
}

int64_t Succession::Others() const {
  return std::count_if(successors_.begin(), successors_.end(), [this](MemberId id) {
    return id != config_.self && !Exited(id);
  });
}

// Once each of the list has had its turn, or nobody has listened to this one, the job may be with
// those who came later. They are known where it meets.
bool Succession::LooksFurther() const {
  if (successors_.empty()) return true;
  if (FTAR_MUTANT(kMeetingForgotten)) return false;
  const auto turns = static_cast<int64_t>(successors_.size()) + 1;
  return sat_down_ || now_ - lost_at_ > turns * config_.step_ns;
}

// Invalid once all on the list have been tried in this round.
MemberId Succession::NextToDial() {
  if (tried_ >= Others()) return {};
  for (size_t tried = 0; tried < successors_.size(); ++tried) {
    const MemberId next = successors_[cursor_++ % successors_.size()];
    if (next != config_.self && !Exited(next)) return next;
  }
  return {};
}

// Those who may have stepped up just now, each once. Invalid once all have been tried.
MemberId Succession::NextInLastLook() {
  const auto self = std::find(successors_.begin(), successors_.end(), config_.self);
  const size_t end = sat_down_ ? successors_.size() : self - successors_.begin();
  while (cursor_ < end) {
    const MemberId next = successors_[cursor_++];
    if (next != config_.self && !Exited(next)) return next;
  }
  return {};
}

// Its turn has come. Who is even with it may be there by now, and who stands still may have kept
// the last dial waiting: so all who may be there are dialled once more first.
void Succession::StepUp(SuccessionReady* ready) {
  if (!last_look_) {
    last_look_ = true;
    dialling_ = false;
    cursor_ = 0;
  }
  if (dialling_) return;
  const MemberId next = NextInLastLook();
  if (next.valid()) {
    dialling_ = true;
    ready->dial = next;
    return;
  }
  hosting_ = ready->take_over = true;
  last_look_ = false;
  dial_at_ = now_;
}

SuccessionReady Succession::TakeReady() {
  SuccessionReady ready;
  if (!started_ || following_) return ready;
  if (!hosting_ && now_ >= TakeOverAt()) {
    StepUp(&ready);
    if (!hosting_) return ready;
  } else {
    last_look_ = false;  // its turn has moved on; whom it has found absent may be there at the next
  }
  if (!dialling_ && now_ >= dial_at_) {
    const MemberId next = hosting_ ? config_.self : NextToDial();
    if (next.valid() || LooksFurther()) {
      dialling_ = true;
      ready.dial = next;
    } else {
      tried_ = 0;
      dial_at_ = now_ + config_.retry_ns;
    }
  }
  if (!hosting_) ready.next_deadline = TakeOverAt();
  if (!dialling_) ready.next_deadline = std::min(ready.next_deadline, dial_at_);
  return ready;
}

}  // namespace ftar::membership
