// Pumping and waiting: who drives, when it sleeps, and the progress thread.
#include <poll.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "runtime/job_impl.h"

namespace ftar::runtime {
namespace {

// Looking at the coordinator's connection is a system call, and nothing of an operation comes from
// there: who spins does it every so often, and at once after a sleep.
constexpr TimeNs kControlNs = 100 * kMicrosecond;

}  // namespace

void Pause() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#endif
}

// ---- one round

bool Job::Impl::PumpControl(TimeNs now) {
  if (!control_ || now < look_at_control_ns_) return false;
  look_at_control_ns_ = now + kControlNs;
  if (now >= said_.next_ns) SayWhatItWaitsFor(now);
  ControlConnection::Result& result = control_result_;
  result.any = result.renewed = result.went_up = result.went_down = result.dial_failed = false;
  result.messages.clear();
  result.redirect.reset();
  if (control_->wants_addresses(now)) {
    if (auto answer = resolver_.Ask(control_->name()))
      control_->SetAddresses(now, std::move(*answer));
  }
  control_->Poll(now, &result);
  if (driver_->dropping()) {
    if (hosting_) hosting_->Silence();
    return false;
  }
  HearCoordinator(now, result);
  if (hosting_ && (result.any || now >= hosting_->next_deadline())) PumpHosting(now);
  return result.any;
}

void Job::Impl::HearCoordinator(TimeNs now, ControlConnection::Result& result) {
  if (result.renewed) driver_->Feed(now, engine::CoordinatorDown{});
  if (result.went_up || result.renewed) {
    driver_->Feed(now, engine::CoordinatorUp{});
    said_.welcomed = false;
    if (!view_ && !said_.waiting) said_.next_ns = now + SpeakAfter();
  }
  for (wire::Message& message : result.messages) {
    const auto* last_word = std::get_if<wire::Redirect>(&message);
    if (hosting_ && last_word != nullptr && last_word->leaves) hosting_->Leaves(now, *last_word);
    said_.welcomed = said_.welcomed || std::holds_alternative<wire::Welcome>(message);
    driver_->Feed(now, engine::FromCoordinator{std::move(message)});
    // One at a time: what a Prepare revokes is gone before the next message is looked at.
    driver_->Run(now);
  }
  if (result.went_down) driver_->Feed(now, engine::CoordinatorDown{});
}

void Job::Impl::PumpHosting(TimeNs now) {
  // Before the first view they are in what was promised last.
  NoteSuccessors(now);
  hosting_->Connection(now, control_result_, &*control_);
  hosting_->Pursue(now, &*control_);
}

// With every message of a coordinator, and there are as many of them as the view is large.
void Job::Impl::NoteSuccessors(TimeNs now) {
  engine::Engine::SuccessorsOf of = driver_->engine().successors_of();
  if (of == successors_of_) return;
  successors_of_ = std::move(of);
  const ViewPtr view = driver_->engine().view();
  hosting_->ViewChanged(now, view ? view->epoch : 0, driver_->engine().successors());
}

bool Job::Impl::Pump(TimeNs now) {
  // Graphs may be launched after this member's end: somebody has to answer.
  const bool streams = PumpStreams(now);
  if (closed_down_) return streams;
  ++counts_.pumps;
  bool any = driver_->Poll(now) || streams;
  any |= PumpControl(now);
  // Nobody waits for what is on the fast path: it goes on like any other.
  const bool tick = now >= driver_->next_deadline() || driver_->in_fast();
  if (tick) driver_->Feed(now, engine::Tick{});
  // What nothing has happened to wants nothing.
  if (any || tick || driver_->broken()) Settle(now);
  return any;
}

// It throws nothing: calls that have begun by then are not refused for want of memory.
void Job::Impl::Settle(TimeNs now) {
  try {
    driver_->Run(now);
  } catch (...) {  // again soon: inputs come back before calls end
    return driver_->Break();
  }
  const bool over = engine::IsOver(driver_->engine().phase()) || driver_->broken();
  if (over && !closed_down_) {
    try {
      OnPhaseEnded();
    } catch (...) {  // no memory even for that: again soon
      driver_->Break();
    }
  }
  if (std::exchange(delivered_, false) && waiters_ > 1) changed_.NotifyAll();
}

// ---- sleeping

// After events fed by a thread that does not drive: the sleeper must look again if it has to be up
// earlier, or if something waits for room in a link whose doorbell it armed before.
void Job::Impl::WakeIfNeeded() {
  if (!wheel_.DriverSleeps()) return;
  const TimeNs wanted =
      std::min({driver_->next_deadline(), driver_->devices_deadline(), stream_calls_.look_ns()});
  if (wanted < wheel_.sleeps_until() || driver_->sending() || closed_down_ ||
      !driver_->KeepArmed() || (control_ && control_->wants_write())) {
    wheel_.Wake();
  }
}

void Job::Impl::Sleep(TimeNs deadline, int wake_fd) {
  look_at_control_ns_ = 0;
  const bool deaf = closed_down_ || driver_->dropping();
  if (!deaf && !driver_->PrepareSleep()) return;
  TimeNs control = kNever;
  if (control_ && !closed_down_) {
    const TimeNs now = Now();
    const bool waits = resolver_.busy() && control_->wants_addresses(now);
    control = std::min(waits ? now + coordinator::Resolver::kLookNs : control_->next_deadline(),
                       said_.next_ns);
  }
  if (hosting_ && !closed_down_) control = std::min(control, hosting_->next_deadline());
  const TimeNs due =
      std::min({deadline, closed_down_ ? kNever : driver_->next_deadline(),
                deaf ? kNever : driver_->devices_deadline(), control, stream_calls_.look_ns()});
  std::array<pollfd, 8> fds;
  size_t count = 0;
  fds[count++] = {wake_fd, POLLIN, 0};
  if (!deaf) {
    for (const auto& device : driver_->devices()) fds[count++] = {device->wait_fd(), POLLIN, 0};
    if (control_ && control_->fd() >= 0) {
      const short wanted = control_->wants_write() ? POLLIN | POLLOUT : POLLIN;
      fds[count++] = {control_->fd(), wanted, 0};
    }
  }
  const Wheel::Who mine = wheel_.who();
  const bool nothing_came = SleepWith({fds.data(), count}, due);
  if ((fds[0].revents & POLLIN) != 0) Lower(wake_fd);
  // Whoever has taken the wheel meanwhile has put the doorbells away.
  if (wheel_.who() != mine || closed_down_) return;
  driver_->FinishSleep();
  const TimeNs end = Now();
  if (mine != Wheel::Who::kProgress || !nothing_came || end >= due) return;
  if (!GuardStepsBack(pace_, end - fast_.called_ns, Owes())) return;
  wheel_.StepBack(end);
}

// Without the lock. True: nothing has come.
bool Job::Impl::SleepWith(std::span<pollfd> fds, TimeNs due) {
  const TimeNs now = Now();
  const bool guards = wheel_.who() == Wheel::Who::kProgress;
  const TimeNs last_call = std::max(fast_.called_ns, wheel_.user_drove_ns());
  const TimeNs until = guards ? std::min(due, GuardUntil(now, last_call)) : due;
  const TimeNs span = SleepFor(now, until);
  ++counts_.sleeps;
  wheel_.FallAsleep(until);
  std::atomic<bool>& on_guard = wheel_.guards();
  const timespec timeout{static_cast<time_t>(span / kSecond), static_cast<long>(span % kSecond)};
  int came = 0;
  {
    const JobUnlock without(mutex_);
    came = ppoll(fds.data(), fds.size(), span == kNever ? nullptr : &timeout, nullptr);
    if (guards) on_guard.store(false, std::memory_order_release);
  }
  if (!guards) wheel_.UserIsUp();
  return came == 0;
}

// Something is under way, or to be sent, that whoever calls on the fast path does not look at.
bool Job::Impl::Owes() const {
  return driver_->in_fast() || driver_->engine().HeedsLane() || driver_->sending();
}

// ---- the wheel

void Job::Impl::TakeWheel() {
  if (wheel_.who() == Wheel::Who::kProgress) driver_->FinishSleep();
  wheel_.TakeForUser();
}

void Job::Impl::LeaveWheel() {
  if (wheel_.LeaveByUser(driver_->sending())) progress_.NotifyOne();
}

void Job::Impl::Drive(const Predicate& done, TimeNs deadline, Callbacks callbacks) {
  TimeNs now = Now();
  TimeNs busy_ns = now;
  int idle_polls = 0;
  bool parting = false;
  for (;; now = Now()) {
    const bool any = Pump(now);
    if (!callbacks_.empty()) {
      if (callbacks == Callbacks::kRun) RunCallbacks();
      if (callbacks == Callbacks::kLeave) progress_.NotifyOne();
    }
    if (forked()) return;
    if (done()) {
      // A peer may wait for what is not sent yet: it gets one turn more.
      if (std::exchange(parting, true) || !driver_->sending()) return;
      continue;
    }
    if (any) {
      busy_ns = now;
      idle_polls = 0;
    } else {
      ++idle_polls;
    }
    if (now >= deadline) return;
    WaitInputs in;
    in.pace = pace_;
    in.changing = driver_->engine().changing() || closed_down_;
    in.idle_ns = now - busy_ns;
    in.idle_polls = idle_polls;
    switch (any ? WaitStep::kSpin : NextWaitStep(in)) {
      case WaitStep::kSpin:
        if (mutex_.wanted()) {
          mutex_.LetOthersRun();
        } else {
          mutex_.Unlock();
          Pause();
          mutex_.Lock();
        }
        break;
      case WaitStep::kYield: mutex_.LetOthersRun(); break;
      case WaitStep::kSleep: Sleep(deadline, wheel_.user_wake_fd()); break;
    }
  }
}

bool Job::Impl::DriveUntil(const Predicate& done, TimeNs deadline, Callbacks callbacks) {
  if (done()) return true;
  ++waiters_;
  bool first = true;
  while (!done() && !forked()) {
    if (!std::exchange(first, false) && Now() >= deadline) break;
    if (wheel_.who() == Wheel::Who::kUser) {
      // Bounded, so that a driver that dies with its thread does not leave us here.
      const TimeNs until = std::min(deadline, Now() + 100 * kMillisecond);
      changed_.WaitUntil(mutex_, until);
      continue;
    }
    TakeWheel();
    try {
      Drive(done, deadline, callbacks);
    } catch (...) {  // whatever it is, it is not this wait's alone
      driver_->Break();
    }
    LeaveWheel();
    if (waiters_ > 1) changed_.NotifyAll();
  }
  --waiters_;
  return done();
}

// ---- the progress thread

void Job::Impl::ProgressTurn() {
  if (!callbacks_.empty()) RunCallbacks();
  if (forked()) return;  // by a callback, which has returned in the child
  const TimeNs now = Now();
  if (wheel_.who() == Wheel::Who::kUser) {
    const TimeNs until = now + (wheel_.AwaitUser() ? 100 * kMillisecond : pace_.look_ns);
    progress_.WaitUntil(mutex_, until);
    wheel_.AwaitsUserNoMore();
    return;
  }
  const TimeNs user_drove_ns = wheel_.user_drove_ns();
  if (user_drove_ns != 0 && now - user_drove_ns < pace_.look_ns) {
    progress_.WaitUntil(mutex_, user_drove_ns + pace_.look_ns);
    return;
  }
  wheel_.TakeForProgress();
  const bool any = Pump(now);
  if (!callbacks_.empty()) RunCallbacks();
  if (forked()) return;
  if (wheel_.who() == Wheel::Who::kProgress && !any && !stopping_)
    Sleep(kNever, wheel_.progress_wake_fd());
  wheel_.LeaveByProgress();
  if (mutex_.wanted()) mutex_.LetOthersRun();
}

void Job::Impl::ProgressMain() {
  mutex_.Lock();
  while (!stopping_ && !forked()) {
    try {
      ProgressTurn();
    } catch (...) {
      wheel_.LeaveByProgress();
      driver_->Break();
      progress_.WaitUntil(mutex_, Now() + 10 * kMillisecond);
    }
  }
  mutex_.Unlock();
}

}  // namespace ftar::runtime
