// What the engine notices becomes events, log lines and callbacks.
#include <algorithm>
#include <atomic>

#include "runtime/job_impl.h"

namespace ftar::runtime {
namespace {

thread_local int t_callback_depth = 0;
// Of all threads: while none is in one, which is most of the time, nobody looks for its own.
std::atomic<int> g_callbacks{0};

}  // namespace

CallbackScope::CallbackScope() {
  ++t_callback_depth;
  g_callbacks.fetch_add(1, std::memory_order_relaxed);
}
CallbackScope::~CallbackScope() {
  --t_callback_depth;
  g_callbacks.fetch_sub(1, std::memory_order_relaxed);
}

bool Job::InCallback() {
  return g_callbacks.load(std::memory_order_relaxed) > 0 && t_callback_depth > 0;
}

// What it throws ends here, also where there is no memory to say so: the thread goes on to take the
// lock, and nobody else runs callbacks before it has.
void Job::Impl::RunCallback(const std::function<void()>& call) {
  try {
    const CallbackScope scope;
    return call();
  } catch (...) {
  }
  try {
    log_.Error("runtime", "a callback threw an exception; it is ignored");
  } catch (...) {
  }
}

// Callbacks run one after the other, in order, whoever calls them; a thread that finds another at
// it leaves them there. Those of a forked child are the parent's.
void Job::Impl::RunCallbacks() {
  if (running_callbacks_ || callbacks_.empty()) return;
  running_callbacks_ = true;
  while (!callbacks_.empty() && !forked()) {
    std::function<void()> call = std::move(callbacks_.front());
    callbacks_.pop_front();
    const JobUnlock without(mutex_);
    RunCallback(call);
    call = nullptr;  // what it holds may be the last reference to something that takes the lock
  }
  running_callbacks_ = false;
}

// To the progress thread, or whoever waits: the caller may hold a lock that a callback takes.
void Job::Impl::LeaveCallbacks() {
  if (callbacks_.empty()) return;
  wheel_.Wake();
  progress_.NotifyOne();
}

Culprit Job::Impl::CulpritOf(const Op& op, Code code) {
  if (forked()) return {};
  const JobLock lock(mutex_);
  return culprits_.Of(op, code);
}

void Job::Impl::Emit(JobEvent event) {
  event.time_ns = Now();
  event.who.code = event.cause;
  events_.Push(event);
  recent_events_.Push(event);
  if (on_event_) {
    callbacks_.push_back([this, event = std::move(event)] { on_event_(event); });
  }
}

void Job::Impl::LateEvent(const wire::LateNotice& late, JobEvent* event) {
  wire::Loss whom;
  whom.member = late.member;
  whom.stage = "late";
  event->type = EventType::kLate;
  event->who = culprits_.Of(whom, event->epoch);
  const std::string span = std::to_string(late.since_ns / kMillisecond) + " ms";
  if (late.seq == kNoSeq) {
    event->who.text = "the next step has waited for it for " + span;
    const std::string which =
        steps_.begun() ? "step " + std::to_string(steps_.begin().step) : "a step to enter at";
    log_.Warn("runtime", Shown(event->who) + " has not begun " + which + ": " + event->who.text);
    return;
  }
  const auto group = groups_.find(late.group);
  const std::string where = group == groups_.end() ? "" : " in group '" + group->second.name + "'";
  event->seq = event->who.seq = late.seq;
  event->who.text = "others have waited for it for " + span + where;
  if (const auto line = culprits_.NoteLate(late.group, event->who)) log_.Warn("runtime", *line);
}

void Job::Impl::OnNotice(const engine::Notice& notice) {
  using Kind = engine::Notice::Kind;
  JobEvent event;
  event.epoch = notice.epoch;
  event.who = culprits_.Of(notice.loss, notice.epoch);
  event.seq = event.who.seq;
  event.cause = notice.loss.member.valid() ? notice.loss.cause : Code::kOk;
  const std::string who = Shown(event.who);
  switch (notice.kind) {
    case Kind::kView:
      event.type = EventType::kView;
      event.who.text = "view " + std::to_string(EpochCounter(notice.epoch)) + " is installed";
      break;
    case Kind::kJoined:
      event.type = EventType::kMemberJoined;
      event.cause = Code::kOk;
      event.who.text = who + " has joined";
      log_.Info("runtime", event.who.text);
      break;
    case Kind::kLeft:
      event.type = EventType::kMemberLeft;
      event.cause = Code::kLeft;
      event.who.text = who + " has left";
      log_.Info("runtime", event.who.text);
      break;
    case Kind::kLost:
      event.type = EventType::kMemberLost;
      culprits_.Blame(event.who);
      log_.Warn("runtime", who + " is lost (" + event.who.stage + "): " + event.who.text);
      break;
    case Kind::kLate: LateEvent(notice.late, &event); break;
    case Kind::kLinkDown:
      event.type = EventType::kLinkDown;
      log_.Warn("runtime", "link to " + who + " is down: " + event.who.text);
      break;
    case Kind::kLinkUp:
      event.type = EventType::kLinkUp;
      event.who.text = "link to " + who + " is up";
      break;
    case Kind::kCoordinatorDown:
      event.type = EventType::kCoordinatorDown;
      event.cause = Code::kCoordinator;
      event.who.text = NoCoordinator();
      break;
    case Kind::kCoordinatorUp:
      event.type = EventType::kCoordinatorUp;
      event.who.text = "the coordinator is back";
      break;
    case Kind::kQuorum:
      culprits_.Blame(event.who, Code::kQuorum);
      log_.Error("runtime", "the quorum is lost: " + notice.loss.text);
      return;
    case Kind::kEvicted:
      event.type = EventType::kEvicted;
      event.cause = Code::kEvicted;
      culprits_.Blame(event.who, Code::kEvicted);
      log_.Error("runtime", "this member was evicted: " + event.who.text);
      break;
  }
  Emit(std::move(event));
}

// The link repairs itself; that bytes change on the way is for people to know.
void Job::Impl::OnPathLost(MemberId peer, const Status& why) {
  if (why.code() != Code::kCorrupt) return;
  wire::Loss loss;
  loss.member = peer;
  loss.cause = Code::kCorrupt;
  loss.stage = "link";
  loss.text = why.text();
  JobEvent event;
  event.type = EventType::kCorrupt;
  event.cause = Code::kCorrupt;
  event.epoch = view_ ? view_->epoch : 0;
  event.who = culprits_.Of(loss, event.epoch);
  log_.Warn("runtime", Shown(event.who) + " sent what arrived damaged: " + why.text());
  Emit(std::move(event));
}

// Proof that it coordinates no longer, if it did.
void Job::Impl::OnPeerExited(MemberId peer) {
  if (hosting_) hosting_->Exited(Now(), peer, driver_->engine().led());
}

void Job::Impl::OnViewChanged() {
  view_ = driver_->engine().view();
  culprits_.ViewChanged(view_);
  ++counts_.view_changes;
  if (!view_) return;
  said_.next_ns = kNever;
  if (hosting_) NoteSuccessors(Now());
  RememberColumn();
  const wire::ViewEntry* self = view_->Find(self_);
  int ranks_on_host = 1;
  if (self != nullptr) {
    ranks_on_host = static_cast<int>(std::count_if(
        view_->entries.begin(), view_->entries.end(),
        [&mine = self->card](const wire::ViewEntry& entry) {
          return entry.card.host_key == mine.host_key && entry.card.core_set == mine.core_set;
        }));
  }
  pace_ = PaceOf(ranks_on_host, cores_.count);
  delivered_ = true;  // whoever waits for readiness looks again
}

void Job::Impl::SendToCoordinator(const wire::Message& message) {
  if (control_) control_->Send(message);
}

}  // namespace ftar::runtime
