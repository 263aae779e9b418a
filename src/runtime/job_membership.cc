// Getting in and getting out.
#include <algorithm>

#include "base/knob_value.h"
#include "runtime/job_impl.h"

namespace ftar::runtime {
namespace {

constexpr TimeNs kHandOverMax = 2 * kSecond;
constexpr TimeNs kSpeakAfter = 3 * kSecond;  // most jobs are there by then

TimeNs DeadlineOf(int64_t timeout_ns) { return timeout_ns < 0 ? kNever : After(Now(), timeout_ns); }

}  // namespace

Job::Impl::~Impl() {
  UnregisterForkAware(this);
  if (thread_.joinable()) {  // Open failed half way, or nobody called Destroy
    static_cast<void>(Destroy());
  }
}

TimeNs Job::Impl::JoinLimit() const {
  return created_ns_ + config_.duration_ns(KnobId::kJoinTimeout);
}

// Why joining took too long, as exactly as it can be said from here.
Status Job::Impl::JoinFailure(TimeNs now, TimeNs deadline) {
  const TimeNs limit = JoinLimit();
  if (now < limit) {
    return deadline <= now ? Status(Code::kTimeout, "not ready yet") : Status::Ok();
  }
  if (control_ && !control_->ever_up()) {
    if (control_->refused_often()) return RefusedByCoordinator();
    return Status(Code::kCoordinator, "coordinator",
                  "no coordinator at " + control_->shown_address() +
                      " within join_timeout: " + control_->trouble());
  }
  return Status(Code::kTimeout, "join_timeout",
                "the job did not become ready within join_timeout: " + AwaitedToJoin());
}

// By whoever answers there.
Status Job::Impl::RefusedByCoordinator() const {
  return Status(control_->last_error().code(), "token",
                "coordinator " + control_->shown_address() + ": " + control_->last_error().text());
}

// What this member waits for while it joins, as far as it is known here.
std::string Job::Impl::AwaitedToJoin() const {
  const std::string self = std::to_string(place_.replica);
  if (said_.welcomed)
    return "waiting for links to the others and to be taken in, as replica " + self;
  if (place_.replica >= place_.replicas) {
    const bool unset = config_.integer(KnobId::kReplicas) < 0 && place_.launcher == "configuration";
    return "replicas count from 0; with replicas=" + std::to_string(place_.replicas) +
           (unset ? " (FTAR_REPLICAS is not set)" : "") +
           " the first view does not wait for replica " + self;
  }
  const std::string all = place_.replicas == 1 ? "replica " : "replicas 0 to ";
  return "the first view waits for " + all + std::to_string(place_.replicas - 1) +
         "; this is replica " + self;
}

TimeNs Job::Impl::SpeakAfter() const {
  return std::min(kSpeakAfter, config_.duration_ns(KnobId::kJoinTimeout) / 2);
}

// To whoever looks at a job that does not begin: the errors of a join come much later.
void Job::Impl::SayWhatItWaitsFor(TimeNs now) {
  if (std::exchange(said_.next_ns, kNever) == 0) {
    said_.next_ns = now + SpeakAfter();
    return SayWhatIsOdd();
  }
  if (driver_->engine().phase() != engine::Phase::kJoining) return;
  const std::string end = "; giving up after join_timeout (" +
                          FormatDuration(config_.duration_ns(KnobId::kJoinTimeout)) + ")";
  const std::string where = control_->shown_address();
  if (!control_->up()) {
    return log_.Warn("runtime",
                     "waiting for a coordinator at " + where + ": " + control_->trouble() + end);
  }
  said_.waiting = true;
  const std::string held =
      said_.welcomed ? ""
                     : "; where another process is replica " + std::to_string(place_.replica) +
                           ", this one waits for its end";
  log_.Warn("runtime", "connected to the coordinator at " + where +
                           ", but in no view yet: " + AwaitedToJoin() + held + end);
}

// Legal, and more often a mistake.
void Job::Impl::SayWhatIsOdd() {
  if (place_.replica >= place_.replicas) {
    log_.Warn("runtime", AwaitedToJoin() + ", which can only join later");
  }
  const bool placed = config_.integer(KnobId::kReplica) >= 0 ||
                      config_.integer(KnobId::kReplicas) >= 0 ||
                      place_.launcher != "configuration" || place_.shards > 1;
  if (!placed) {
    log_.Warn("runtime",
              "FTAR_COORDINATOR is set, but neither FTAR_REPLICA nor FTAR_REPLICAS: this is a job "
              "of one");
  }
}

// Only the coordinator knows what this member has been waiting for. It says so, if it knows, and
// closes the connection; if it does not, this member ends without.
void Job::Impl::GiveUpJoining(TimeNs deadline, const Status& why) {
  const auto over = [this]() FTAR_REQUIRES(mutex_) {
    return IsOver() || driver_->engine().view() != nullptr;
  };
  const Predicate heard = [&]() FTAR_REQUIRES(mutex_) {
    return over() || !control_ || !control_->up();
  };
  for (int times = 0; times < 2 && !over() && !forked(); ++times) {
    driver_->Feed(Now(), engine::AbortSelf{Code::kTimeout, why.text()});
    Settle(Now());
    DriveUntil(heard, std::min(deadline, Now() + std::min(timeout_ns_, kSecond)));
  }
}

Status Job::Impl::WaitReady(int64_t timeout_ns) {
  if (forked()) return ForkedError();
  const TimeNs deadline = DeadlineOf(timeout_ns);
  const JobLock lock(mutex_);
  const Predicate done = [this]() FTAR_REQUIRES(mutex_) {
    return IsOver() || driver_->engine().view() != nullptr || (control_ && control_->hopeless());
  };
  for (;;) {
    const TimeNs limit = JoinLimit();
    const bool ready = DriveUntil(done, std::min(deadline, limit));
    if (forked()) return ForkedError();
    if (ready) break;
    const Status failure = JoinFailure(Now(), deadline);
    if (failure.ok()) continue;
    if (failure.argument() != "join_timeout") return failure;
    GiveUpJoining(deadline, failure);
    break;
  }
  if (!join_failed_.ok()) return join_failed_;
  FTAR_RETURN_IF_ERROR(CheckUsable());
  return control_ && control_->hopeless() ? RefusedByCoordinator() : Status::Ok();
}

Status Job::Impl::Leave(int64_t timeout_ns) {
  if (forked()) return ForkedError();
  if (Job::InCallback()) return Status(Code::kState, "a callback must not wait");
  const TimeNs deadline = DeadlineOf(timeout_ns);
  const JobLock lock(mutex_);
  if (ended_.code() == Code::kLeft || !join_failed_.ok()) return Status::Ok();
  FTAR_RETURN_IF_ERROR(CheckUsable());
  if (driver_->engine().phase() == engine::Phase::kJoining || place_.solo()) {
    // Alone, or not in yet: nobody's operations depend on this member. What runs here is delivered
    // first.
    const Predicate idle = [this]() FTAR_REQUIRES(mutex_) { return IsOver() || NothingUnderWay(); };
    if (!leave_asked_ns_) leave_asked_ns_ = Now();
    if (!DriveUntil(idle, deadline)) return Status(Code::kTimeout, "leaving goes on");
    if (ended_.ok()) driver_->Feed(Now(), engine::AbortSelf{Code::kLeft, "left"});
    Settle(Now());
    return ended_.code() == Code::kLeft ? Status::Ok() : CheckUsable();
  }
  // What was called on streams comes before the leave, though it has no number yet.
  const Predicate arrived = [this]() FTAR_REQUIRES(mutex_) { return StreamsArrived(); };
  if (!leave_asked_ns_ && !DriveUntil(arrived, deadline) && !forked()) {
    return Status(Code::kTimeout, "a stream has not come to what was called on it; call again");
  }
  const TimeNs begun = Now();
  if (!leave_asked_ns_) leave_asked_ns_ = begun;
  if (ended_.ok()) driver_->Feed(begun, engine::RequestLeave{});  // heard once
  Settle(Now());
  const Predicate done = [this]() FTAR_REQUIRES(mutex_) { return IsOver(); };
  const auto undecided = [&]() FTAR_REQUIRES(mutex_) {
    return Undecided("leaving", *leave_asked_ns_, timeout_ns_, begun);
  };
  FTAR_RETURN_IF_ERROR(UntilDecided(done, deadline, undecided));
  if (forked()) return ForkedError();
  if (!done()) return Status(Code::kTimeout, "leaving takes longer; it goes on");
  RunCallbacks();
  if (hosting_) AwaitHandOver();
  return ended_.code() == Code::kLeft ? Status::Ok() : CheckUsable();
}

// While this member coordinated, others wait for somebody else to. It is quick, or it is not to be:
// they have to agree, and there may be too few of them. Of two threads, one that leaves and one
// that destroys the job, the second ends what the first waits in.
void Job::Impl::AwaitHandOver() {
  std::shared_ptr<Hosting> hosting = hosting_;
  bool over = false;
  {
    const JobUnlock without(mutex_);
    over = hosting->WaitDormant(std::min(timeout_ns_, kHandOverMax));
    hosting.reset();  // the last one ends its thread
  }
  if (over) return;
  try {
    log_.Warn("runtime", "the others could not take over from this member in time");
  } catch (...) {  // there is more to end
  }
}

Status Job::Impl::Abort(const std::string& reason, Code cause) {
  const JobLock lock(mutex_);
  FTAR_RETURN_IF_ERROR(CheckUsable());
  const TimeNs now = Now();
  driver_->Feed(now, engine::AbortSelf{cause, reason.empty() ? "aborted" : reason});
  Settle(now);
  changed_.NotifyAll();
  wheel_.Wake();
  return Status::Ok();
}

Status Job::Impl::Report(Code cause, const std::string& text) {
  const JobLock lock(mutex_);
  FTAR_RETURN_IF_ERROR(CheckUsable());
  const TimeNs now = Now();
  driver_->Feed(now, engine::ReportSelf{cause, text});
  Settle(now);
  WakeIfNeeded();
  return Status::Ok();
}

Status Job::Impl::Evict(MemberId member, const std::string& reason) {
  const JobLock lock(mutex_);
  FTAR_RETURN_IF_ERROR(CheckUsable());
  if (!view_ || view_->Find(member) == nullptr) {
    return Status(Code::kArg, "member", "no member " + ToFullString(member) + " is in the view");
  }
  const TimeNs now = Now();
  driver_->Feed(now, engine::EvictPeer{member, reason});
  Settle(now);
  WakeIfNeeded();
  return Status::Ok();
}

// This member is out, one way or another. Links go first, so that nobody reads or writes buffers
// any more when their operations end (contract 9).
void Job::Impl::OnPhaseEnded() {
  const engine::Phase phase = driver_->engine().phase();
  // Waits end by this, even if all that follows has to be tried again for want of memory.
  if (driver_->broken() && ended_.ok()) ended_ = std::move(no_memory_);
  Status why = driver_->engine().phase_status();
  if (driver_->broken()) {
    why = ended_;
    driver_->Abandon(Now(), why);
  } else if (phase == engine::Phase::kLeft || why.ok()) {
    why = Status(Code::kLeft, "this member has left");
  }
  // For whoever waits for the join; other calls are not to be made again.
  if (why.code() == Code::kTimeout) {
    join_failed_ = Status(Code::kTimeout, "join_timeout", why.text());
    why = Status(Code::kState, "job", "this member has given up joining: " + join_failed_.text());
  }
  // Of the holder of its place it knows that place; the text has the rest.
  if (why.code() == Code::kPeer && why.argument() == "replica") {
    culprits_.BlameHolder(place_.replica, place_.shard);
  }
  driver_->FinishSleep();
  driver_->ForgetAll(Now());
  if (control_) control_->Close();
  if (hosting_) hosting_->Retire();
  FinishAll(why);
  ended_ = std::move(why);
  closed_down_ = true;
  if (phase == engine::Phase::kAborted) log_.Info("runtime", "out: " + ended_.text());
  wheel_.Wake();
}

// Whoever has no memory to say that it goes is lost to the others, and goes all the same.
void Job::Impl::EndHere(Code cause, std::string_view why) {
  if (!driver_ || !ended_.ok()) return;
  try {
    const TimeNs now = Now();
    driver_->Feed(now, engine::AbortSelf{cause, std::string(why)});
    Settle(now);
  } catch (...) {
    driver_->Break();
  }
  changed_.NotifyAll();
  wheel_.Wake();
}

Status Job::Impl::Destroy() {
  if (forked()) return ForkedError();
  if (Job::InCallback()) return Status(Code::kState, "a callback must not destroy its job");
  {
    const JobLock lock(mutex_);
    if (std::exchange(destroyed_, true)) return Status::Ok();
    EndHere(Code::kAborted, "the job was destroyed");
    stopping_ = true;
    changed_.NotifyAll();
    progress_.NotifyAll();
    wheel_.WakeAll();
    // Threads inside a wait see `destroyed_` and go; nobody waits longer than one look. A callback
    // ends when it ends: what it uses is free to go when this call returns.
    for (int i = 0; running_callbacks_ || (i < 100 && waiters_ > 0); ++i) {
      changed_.WaitUntil(mutex_, Now() + 50 * kMillisecond);
    }
    RunCallbacks();
    if (hosting_) AwaitHandOver();
  }
  if (thread_.joinable()) thread_.join();
  const JobLock lock(mutex_);
  if (driver_ && !closed_down_) Settle(Now());  // there was no memory to end what runs
  RunCallbacks();
  hosting_.reset();
  if (driver_) driver_->Close();
  events_.Close();
  return Status::Ok();
}

void Job::Impl::BeforeFork() {
  mutex_.Lock();
  if (hosting_) hosting_->BeforeFork();
}

void Job::Impl::AfterForkInParent() {
  if (hosting_) hosting_->AfterForkInParent();
  mutex_.Unlock();
}

void Job::Impl::AfterForkInChild() {
  forked_.store(true, std::memory_order_relaxed);
  if (driver_) driver_->CloseInForkedChild();
  if (control_) control_->CloseInForkedChild();
  if (hosting_) hosting_->CloseInForkedChild();
  events_.CloseInForkedChild();
  wheel_.CloseInForkedChild();
  mutex_.Unlock();
}

ViewPtr Job::Impl::view() {
  if (forked()) return nullptr;
  const JobLock lock(mutex_);
  return driver_ ? driver_->engine().view() : nullptr;
}

ViewPtr Job::Impl::group_view(GroupKey key) {
  if (forked()) return nullptr;
  const JobLock lock(mutex_);
  if (!driver_) return nullptr;
  ViewPtr view = driver_->engine().group_view(key);
  const auto state = groups_.find(key);
  // Calls that name its epoch mean these members.
  if (view && state != groups_.end()) state->second.layouts.Remember(view->epoch, *view);
  return view;
}

Culprit Job::Impl::last_culprit() {
  if (forked()) return {};
  const JobLock lock(mutex_);
  return culprits_.last();
}

}  // namespace ftar::runtime
