// What the engine notices becomes events, log lines and callbacks.
#include <algorithm>

#include "runtime/job_impl.h"

namespace ftar::runtime {
namespace {

thread_local int t_callback_depth = 0;

constexpr size_t kLateShownMax = 8;

std::string Shown(const Culprit& who) {
  if (who.replica < 0) return ToString(who.member) + ", which is not in the view,";
  return "replica " + std::to_string(who.replica) + " shard " + std::to_string(who.shard) + " on " +
         who.host;
}

}  // namespace

CallbackScope::CallbackScope() { ++t_callback_depth; }
CallbackScope::~CallbackScope() { --t_callback_depth; }

bool Job::InCallback() { return t_callback_depth > 0; }

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
  Wake();
  progress_.NotifyOne();
}

const wire::ViewEntry* Job::Impl::EntryOf(MemberId id, int32_t* rank) const {
  for (const ViewPtr& view : {view_, previous_view_}) {
    if (!view) continue;
    for (size_t i = 0; i < view->entries.size(); ++i) {
      if (view->entries[i].card.id != id) continue;
      *rank = static_cast<int32_t>(i);
      return &view->entries[i];
    }
  }
  return nullptr;
}

Culprit Job::Impl::CulpritOf(const wire::Loss& loss, Epoch epoch) const {
  Culprit out;
  out.code = loss.cause;
  out.member = loss.member;
  out.replica = loss.replica;
  out.shard = loss.shard;
  out.epoch = epoch;
  out.seq = loss.seq;
  out.last_progress_ns = loss.last_progress_ns;
  out.host = loss.host;
  out.stage = loss.stage;
  out.text = loss.text;
  if (const wire::ViewEntry* entry = EntryOf(loss.member, &out.rank)) {
    out.replica = entry->card.replica;
    out.shard = entry->card.shard;
    if (out.host.empty()) out.host = entry->card.host;
  }
  return out;
}

// Who died earlier has nothing to do with a verdict, nor with what a wait was too short for.
Culprit Job::Impl::CulpritOf(const Op& op, Code code) {
  if (forked()) return {};
  const JobLock lock(mutex_);
  const bool ended = op.done.load(std::memory_order_acquire);
  Culprit out;
  if (ended && op.outcome.culprit.valid()) {
    wire::Loss whom;
    whom.member = op.outcome.culprit;
    out = CulpritOf(whom, op.outcome.epoch);
    // Of a view before the last two: whom people have been told of.
    if (out.replica < 0 && last_culprit_.member == whom.member) out = last_culprit_;
  } else if (const Late* const late = LateIn(op); code == Code::kTimeout && late != nullptr) {
    if (late->who.size() == 1) out = late->who[0];
  } else if ((IsEpochError(code) || IsGroupError(code)) && last_culprit_.code == code) {
    out = last_culprit_;
  }
  if (ended && op.outcome.epoch != 0) out.epoch = op.outcome.epoch;
  if (out.epoch == 0 && view_) out.epoch = view_->epoch;
  out.seq = op.seq;
  return out;
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

// The coordinator tells of it again and again; people hear it once an operation, of some.
void Job::Impl::SayLate(GroupKey group, const Culprit& who) {
  Late& said = late_[group];
  if (!said.who.empty() && who.seq < said.seq) return;
  if (who.seq != said.seq) said = {who.seq, {}, false};
  const auto same = [&who](const Culprit& one) { return one.member == who.member; };
  if (said.more || std::ranges::any_of(said.who, same)) return;
  const std::string what = " not entered operation " + std::to_string(who.seq);
  said.more = said.who.size() == kLateShownMax;
  if (said.more) return log_.Warn("runtime", "more members have" + what);
  said.who.push_back(who);
  log_.Warn("runtime", Shown(who) + " has" + what + ": " + who.text);
}

std::string Job::Impl::LateText(const Late& late) {
  std::string out;
  for (const Culprit& who : late.who) out += (out.empty() ? "" : ", ") + Shown(who);
  if (late.more) out += ", and more";
  return out + (late.who.size() == 1 ? " has" : " have") + " not entered it";
}

void Job::Impl::LateEvent(const wire::LateNotice& late, JobEvent* event) {
  wire::Loss whom;
  whom.member = late.member;
  whom.stage = "late";
  event->type = EventType::kLate;
  event->who = CulpritOf(whom, event->epoch);
  const std::string span = std::to_string(late.since_ns / kMillisecond) + " ms";
  if (late.seq == kNoSeq) {
    event->who.text = "the next step has waited for it for " + span;
    const std::string which =
        step_number_ > 0 ? "step " + std::to_string(current_step_.step) : "a step to enter at";
    log_.Warn("runtime", Shown(event->who) + " has not begun " + which + ": " + event->who.text);
    return;
  }
  const auto group = groups_.find(late.group);
  const std::string where = group == groups_.end() ? "" : " in group '" + group->second.name + "'";
  event->seq = event->who.seq = late.seq;
  event->who.text = "others have waited for it for " + span + where;
  SayLate(late.group, event->who);
}

void Job::Impl::OnNotice(const engine::Notice& notice) {
  using Kind = engine::Notice::Kind;
  JobEvent event;
  event.epoch = notice.epoch;
  event.who = CulpritOf(notice.loss, notice.epoch);
  event.seq = event.who.seq;
  event.cause = notice.loss.member.valid() ? notice.loss.cause : Code::kOk;
  const std::string who = Shown(event.who);
  switch (notice.kind) {
    case Kind::kView:
      event.type = EventType::kView;
      event.who.text = "view " + std::to_string(notice.epoch) + " is installed";
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
      last_culprit_ = event.who;
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
      last_culprit_ = event.who;
      last_culprit_.code = Code::kQuorum;
      log_.Error("runtime", "the quorum is lost: " + notice.loss.text);
      return;
    case Kind::kEvicted:
      event.type = EventType::kEvicted;
      event.cause = Code::kEvicted;
      last_culprit_ = event.who;
      last_culprit_.code = Code::kEvicted;
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
  event.who = CulpritOf(loss, event.epoch);
  log_.Warn("runtime", Shown(event.who) + " sent what arrived damaged: " + why.text());
  Emit(std::move(event));
}

// Proof that it coordinates no longer, if it did.
void Job::Impl::OnPeerExited(MemberId peer) {
  if (hosting_) hosting_->Exited(Now(), peer, driver_->engine().led());
}

void Job::Impl::OnViewChanged() {
  previous_view_ = view_;
  view_ = driver_->engine().view();
  ++view_changes_;
  if (!view_) return;
  speak_ns_ = kNever;
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
