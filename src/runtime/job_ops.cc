// Operations: started, waited for, delivered.
#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

#include "base/copy.h"
#include "base/undo.h"
#include "membership/bounds.h"
#include "runtime/job_impl.h"
#include "runtime/overlap.h"

namespace ftar::runtime {
namespace {

constexpr uint64_t kGatheredBytesMax = 16 * 1024;
constexpr size_t kGatheredOpsMax = 8;

ByteRange RangeOf(const void* data, uint64_t bytes) {
  const auto begin = reinterpret_cast<uintptr_t>(data);
  return {begin, begin + bytes};
}

OpRanges RangesOf(const OpPtr& op) {
  return {RangeOf(op->request.send, op->send_bytes), RangeOf(op->request.recv, op->recv_bytes)};
}

// A field of the call's descriptor `i` of `n`.
std::string FieldOf(const char* field, size_t i, size_t n) {
  return (n == 1 ? "desc." : "desc[" + std::to_string(i) + "].") + field;
}

constexpr const char* kOneWrites = ", and one of the two writes";

// Of some of one call that collide: the first one that does so with one before it.
Status ClashWithin(std::span<const OpRanges> ops) {
  size_t well = 1, bad = ops.size();  // so many from the first on do not, and do
  while (bad - well > 1) {
    const size_t middle = well + (bad - well) / 2;
    (OverlapIndex(ops.first(middle)).collide() ? bad : well) = middle;
  }
  const size_t last = bad - 1;
  Clash clash;
  size_t other = 0;
  while (other < last && (clash = ClashOf(ops[last], ops[other])).first == nullptr) ++other;
  const std::string field = FieldOf(clash.first, last, ops.size());
  return Status(Code::kArg, field,
                field + " overlaps " + FieldOf(clash.second, other, ops.size()) + " of this call" +
                    kOneWrites);
}

// Of one of `ops` with one that is in flight, in the group of that name.
Status ClashWith(const OpPtr& flying, const std::string& group, std::span<const OpRanges> ops) {
  const OpRanges theirs = RangesOf(flying);
  size_t mine = 0;
  while (mine + 1 < ops.size() && ClashOf(ops[mine], theirs).first == nullptr) ++mine;
  const Clash clash = ClashOf(ops[mine], theirs);
  const std::string which = flying->seq == kNoSeq ? "an operation that has no seq yet"
                                                  : "operation " + std::to_string(flying->seq);
  const std::string field = FieldOf(clash.first, mine, ops.size());
  return Status(Code::kArg, field,
                field + " overlaps " + clash.second + " of " + which + " in group '" + group +
                    "', which is in flight" + kOneWrites);
}

}  // namespace

Status Job::Impl::CheckUsable() const {
  if (forked()) return ForkedError();
  if (destroyed_) return Status(Code::kState, "job", "the job is destroyed");
  return ended_;
}

Expected<GroupPtr> Job::Impl::OpenGroup(const std::string& name, int32_t window, int32_t priority) {
  const JobLock lock(mutex_);
  FTAR_RETURN_IF_ERROR(CheckUsable());
  LookForGpu();
  auto group = std::make_shared<Group>();
  group->name = name;
  group->key = engine::KeyOf(name);
  GroupState& state = groups_[group->key];
  if (state.name.empty()) state.name = name;
  if (state.name != name) {
    return Status(Code::kArg, "config.name",
                  "on wires '" + name + "' and '" + state.name +
                      "' are one group, as their hashes are equal: one needs another name");
  }
  const TimeNs now = Now();
  priorities_->Set(group->key, priority);
  const Seq known_window = static_cast<Seq>(std::max(window, 0));
  driver_->Feed(now, engine::OpenGroup{group->key, known_window, priority});
  Settle(now);
  WakeIfNeeded();
  return group;
}

GroupInfo Job::Impl::group_info(GroupKey key, Epoch epoch) {
  GroupInfo out;
  out.self = self_;
  if (forked()) return out;
  const JobLock lock(mutex_);
  out.shard = place_.shard;
  if (destroyed_) return out;
  const auto state = groups_.find(key);
  std::optional<Layout> layout;
  if (epoch != 0 && state != groups_.end()) {
    if (const Layout* const found = FindLayout(state->second, key, epoch)) layout = *found;
  } else if (const ViewPtr current = driver_->engine().group_view(key)) {
    layout = LayoutOf(*current);
    // Calls that name its epoch mean these members.
    if (state != groups_.end()) state->second.layouts.Remember(current->epoch, *current);
  }
  if (layout) {
    out.members = static_cast<int32_t>(layout->members.size());
    for (int32_t i = 0; i < out.members; ++i) {
      if (layout->members[static_cast<size_t>(i)] == self_) out.rank = i;
    }
    out.epoch = layout->epoch;
  }
  if (const auto info = driver_->engine().group_info(key)) {
    out.first_seq = info->first_seq;
    out.next_seq = info->next_seq + (state == groups_.end() ? 0 : state->second.held.size());
  }
  return out;
}

// A view may be named that was given out and that no call has met. With a leaver in it the column
// is not the same for each call: then those count that calls have met.
void Job::Impl::RememberColumn() {
  const wire::View column = membership::ColumnOf(*view_, place_.shard);
  if (std::ranges::any_of(column.entries, &wire::ViewEntry::leaves)) return;
  columns_.Remember(column.epoch, column);
}

// The group's members as of its next call, or as of the epoch that the caller names.
// Null if there is none. Good until the next call.
const Layout* Job::Impl::FindLayout(GroupState& state, GroupKey group, Epoch epoch) {
  const ViewPtr current = driver_->engine().group_view(group);
  if (current) state.layouts.Remember(current->epoch, *current);
  if (epoch == 0 && current) epoch = current->epoch;
  const Layout* const found = state.layouts.Find(epoch);
  return found != nullptr ? found : columns_.Find(epoch);
}

// What is asked for, as of this call; what it reaches.
Status Job::Impl::Prepare(TimeNs now, GroupState& state, GroupKey group, Op* op) {
  OpRequest& request = op->request;
  collective::OpSpec& spec = request.spec;
  const bool segmented = plan::HasSegments(spec.kind);
  uint64_t segments = 1;
  if (segmented || spec.kind == plan::Kind::kBroadcast) {
    const Layout* const layout = FindLayout(state, group, request.layout_epoch);
    if (layout == nullptr) {
      return Status(
          Code::kArg, "epoch",
          "epoch " + std::to_string(request.layout_epoch) + " is none of this group's last views");
    }
    if (segmented) {
      spec.layout = layout->epoch;
      spec.layout_members = layout->members;
      segments = layout->members.size();
    } else {
      if (request.root_rank < 0 || request.root_rank >= std::ssize(layout->members)) {
        return Status(
            Code::kArg, "root",
            "root " + std::to_string(request.root_rank) + " is no rank of this group's view");
      }
      spec.root = layout->members[static_cast<size_t>(request.root_rank)];
    }
  }
  if (!segmented) spec.layout = 0;
  spec.weight = std::isnan(request.weight) ? steps_.weight() : request.weight;
  if (!TakesWeight(spec, spec.weight)) {
    return Status(Code::kArg, "weight",
                  "the weight is out of the range of numbers in which FTAR_WAVG adds this type");
  }
  if (spec.plan == plan::PlanKind::kRing) SayIfNoRing();
  spec.timeout_ns = request.timeout_ns;
  spec.on_device = request.on_device;
  const uint64_t unit = spec.count * spec.element_bytes;
  op->send_bytes = spec.kind == plan::Kind::kReduceScatter ? unit * segments : unit;
  op->recv_bytes = spec.kind == plan::Kind::kAllGather ? unit * segments : unit;
  if (request.send == nullptr) op->send_bytes = 0;
  if (request.recv == nullptr) op->recv_bytes = 0;
  // Who only receives a broadcast has no input.
  if (spec.kind == plan::Kind::kBroadcast && spec.root != self_) op->send_bytes = 0;
  op->lends = op->recv_bytes >= kHandOverMinBytes &&
              exports_->Find(op->request.recv, op->recv_bytes) != nullptr;
  op->group = group;
  op->start_ns = now;
  op->step = steps_.number();
  op->handle = next_handle_++;
  return Status::Ok();
}

Status Job::Impl::CheckOverlap(std::span<const OpPtr> fresh) const {
  std::vector<OpRanges> ranges;
  for (const OpPtr& op : fresh) ranges.push_back(RangesOf(op));
  const OverlapIndex index(ranges);
  if (index.collide()) return ClashWithin(ranges);
  for (const auto& [key, state] : groups_) {
    for (const std::deque<OpPtr>* const ops : {&state.ops, &state.unnumbered}) {
      for (const OpPtr& op : *ops) {
        if (index.CollidesWith(RangesOf(op))) return ClashWith(op, state.name, ranges);
      }
    }
  }
  return Status::Ok();
}

// Known when a ring is asked for, by the knob or by a call.
void Job::Impl::SayIfNoRing() {
  if (!config_.on(KnobId::kDeterministic) || std::exchange(said_.no_ring, true)) return;
  log_.Warn("runtime",
            "deterministic is on, and a ring does not add in member order: the plan is direct");
}

bool Job::Impl::NothingUnderWay() const {
  return std::ranges::all_of(groups_, [](const auto& entry) { return entry.second.idle(); });
}

Status Job::Impl::CheckStart(const GroupPtr& group) const {
  FTAR_RETURN_IF_ERROR(CheckUsable());
  if (group->closed) return Status(Code::kState, "group", "the group is closed");
  if (leave_asked_ns_) return Status(Code::kLeft, "this member is leaving");
  if (driver_->engine().phase() == engine::Phase::kJoining) {
    return Status(Code::kState, "job", "the job is not ready yet");
  }
  return Status::Ok();
}

Status Job::Impl::MayStart(const GroupPtr& group) {
  if (forked()) return ForkedError();
  const JobLock lock(mutex_);
  return CheckStart(group);
}

// Before the engine hears of the first: without memory for all of them none is called. Should this
// member be out before it has heard of the last, those that are left end with the rest.
void Job::Impl::Enlist(std::span<const OpPtr> ops) {
  starting_.insert(starting_.end(), ops.begin(), ops.end());
  Undo undo([&]() FTAR_REQUIRES(mutex_) { starting_.resize(starting_.size() - ops.size()); });
  steps_.Add(ops);
  undo.Keep();
}

// The engine hears of the call, which is enlisted.
void Job::Impl::Launch(TimeNs now, const OpPtr& op) {
  op->begun = true;
  if (driver_->hook().armed()) {
    const auto info = driver_->engine().group_info(op->group);
    driver_->StrikeBefore(info ? info->next_seq : 0);
  }
  try {
    driver_->Feed(now, engine::StartOp{op->group, op->request.spec, op->handle});
  } catch (...) {  // no memory to say it; those of the same call before it have begun
    driver_->Break();
  }
  Settle(now);
}

// What is small goes out together; of what is not, a system call each is the least.
void Job::Impl::LaunchAll(TimeNs now, std::span<const OpPtr> ops) {
  Enlist(ops);
  EngineDriver::Gathering gathering(driver_.get(), now);
  size_t waiting = 0;
  for (const OpPtr& op : ops) {
    Launch(now, op);
    if (op->send_bytes <= kGatheredBytesMax && ++waiting < kGatheredOpsMax) continue;
    gathering.Write();
    waiting = 0;
  }
}

Status Job::Impl::Start(const GroupPtr& group, std::span<const OpPtr> ops) {
  const JobLock lock(mutex_);
  FTAR_RETURN_IF_ERROR(CheckUsable());
  const TimeNs now = Now();
  LookUp(now);
  FTAR_RETURN_IF_ERROR(CheckStart(group));
  GroupState& state = groups_[group->key];
  fast_.last = nullptr;
  for (size_t i = 0; i < ops.size(); ++i) {
    const Status fits = Prepare(now, state, group->key, ops[i].get());
    if (fits.ok()) continue;
    const std::string field = FieldOf(fits.argument().c_str(), i, ops.size());
    return Status(fits.code(), field, field + ": " + fits.text());
  }
  if (std::ranges::any_of(ops, [](const OpPtr& op) { return op->request.on_stream; })) {
    FTAR_RETURN_IF_ERROR(StartOnStreams(group, ops));
  } else if (!state.held.empty()) {
    Undo undo([&]() FTAR_REQUIRES(mutex_) { LetGo(state, ops, Code::kMemory); });
    for (const OpPtr& op : ops) Hold(now, state, op);
    undo.Keep();
    TryStartHeld(now, state);
  } else {
    // Where others are under way the next call has to be held against them, whatever it is like.
    const bool alone = NothingUnderWay();
    if (!alone || ops.size() > 1) FTAR_RETURN_IF_ERROR(CheckOverlap(ops));
    const bool fast = ops.size() == 1 && StartFast(now, ops[0], Likeness::kNone);
    if (!alone) fast_.last = nullptr;
    if (fast) {
      LeaveCallbacks();
      return Status::Ok();
    }
    LaunchAll(now, ops);
  }
  WakeIfNeeded();
  LeaveCallbacks();
  return Status::Ok();
}

void Job::Impl::OnStarted(const engine::Started& started) {
  const auto found = std::find_if(starting_.begin(), starting_.end(), [&started](const OpPtr& one) {
    return one->handle == started.handle;
  });
  if (found == starting_.end()) return;
  const OpPtr op = *found;
  GroupState& state = groups_[started.group];
  op->seq = started.seq;
  if (started.seq != kNoSeq) {
    NumberOps(state, started.seq);
    state.ops.push_back(op);
  } else if (driver_->engine().phase() == engine::Phase::kMember) {
    state.unnumbered.push_back(op);
  } else {
    collective::Outcome outcome;
    outcome.status = Code::kLeft;
    outcome.text = "this member has left";
    FinishOp(op, std::move(outcome));
  }
  starting_.erase(found);  // last: it is somewhere even if there was no memory
}

// Calls made before this member knew its first number get theirs in order, once it does: the last
// ones before `end`.
void Job::Impl::NumberOps(GroupState& state, Seq end) {
  if (end < state.unnumbered.size()) return;
  Seq seq = end - state.unnumbered.size();
  for (const OpPtr& op : state.unnumbered) {
    op->seq = seq++;
    state.ops.push_back(op);
  }
  state.unnumbered.clear();
}

// The end of `ops` if nobody called it here.
std::deque<OpPtr>::iterator Job::Impl::PlaceOf(GroupKey group, GroupState& state, Seq seq) {
  if (!state.unnumbered.empty()) {
    const auto info = driver_->engine().group_info(group);
    NumberOps(state, info ? info->next_seq : 0);
  }
  if (!state.ops.empty() && state.ops.front()->seq == seq) return state.ops.begin();
  const auto place = std::lower_bound(state.ops.begin(), state.ops.end(), seq,
                                      [](const OpPtr& op, Seq wanted) { return op->seq < wanted; });
  return place == state.ops.end() || (*place)->seq == seq ? place : state.ops.end();
}

Op* Job::Impl::FindOp(GroupKey group, Seq seq) {
  GroupState& state = groups_[group];
  const auto place = PlaceOf(group, state, seq);
  return place == state.ops.end() ? nullptr : place->get();
}

void Job::Impl::OnDelivered(GroupKey group, collective::Outcome&& outcome) {
  const Seq seq = outcome.seq;
  GroupState& state = groups_[group];
  ++counts_.ops_delivered;
  const auto place = PlaceOf(group, state, seq);
  const bool called = place != state.ops.end();
  if (called) outcome.start_ns = (*place)->start_ns;  // which the engine heard of a little later
  state.history.Add(outcome);
  if (!called) return;  // a leaver's stand-in
  FinishOp(*place, std::move(outcome));  // without memory it stays where it can be ended
  if (place == state.ops.begin()) return state.ops.pop_front();
  state.ops.erase(place);
}

void Job::Impl::FinishOp(const OpPtr& op, collective::Outcome&& outcome) {
  if (op->done.load(std::memory_order_relaxed)) return;
  op->outcome = std::move(outcome);
  op->outcome.tag = op->request.spec.tag;
  op->outcome.start_ns = op->start_ns;
  EndOp(op);
}

// With the outcome that it has.
[[gnu::hot]] void Job::Impl::EndOp(const OpPtr& op) {
  if (op->outcome.status != Code::kOk || !op->status.ok() || op->gate != nullptr ||
      op->aside != nullptr || op->request.on_done)
    CleanUp(op);
  op->done.store(true, std::memory_order_release);
  delivered_ = true;
  steps_.SumUp();
}

// Most operations have nothing of this.
[[gnu::noinline]] void Job::Impl::CleanUp(const OpPtr& op) {
  const collective::Outcome& outcome = op->outcome;
  op->status = outcome.status == Code::kOk ? Status::Ok() : Status(outcome.status, outcome.text);
  if (op->gate != nullptr) OpenGate(op);
  op->aside.reset();
  // Last: what finds no memory is done once more, and this is to be there once.
  if (op->request.on_done) callbacks_.push_back([op] { op->request.on_done(op->outcome); });
}

// This member is out.
void Job::Impl::EndWith(const OpPtr& op, const Status& why) {
  collective::Outcome outcome;
  outcome.status = why.code();
  outcome.text = why.text();
  outcome.seq = op->seq;
  FinishOp(op, std::move(outcome));
}

void Job::Impl::FinishAll(const Status& status) {
  std::vector<OpPtr> open;
  for (auto& [key, state] : groups_) {
    for (const OpPtr& op : state.ops) open.push_back(op);
    for (const OpPtr& op : state.unnumbered) open.push_back(op);
  }
  for (const OpPtr& op : starting_) open.push_back(op);
  for (auto& [key, state] : groups_) {
    for (const HeldCall& held : state.held) open.push_back(held.op);
  }
  std::sort(open.begin(), open.end(),
            [](const OpPtr& a, const OpPtr& b) { return a->handle < b->handle; });
  for (const OpPtr& op : open) EndWith(op, status);
  // For whoever asks by seq: nobody may have a handle.
  for (auto& [key, state] : groups_) {
    for (const OpPtr& op : state.ops) {
      const Seq next = state.history.end();
      if (next == 0 || op->seq == next) state.history.Add(op->outcome);
    }
  }
  // Only now: without memory for all of it, it is done again.
  for (auto& [key, state] : groups_) {
    state.ops.clear();
    state.unnumbered.clear();
    stream_calls_.LetGo(state.held.size());
    state.held.clear();
  }
  starting_.clear();
}

// Why a wait may end before its operation: nobody can decide (design 5). The operation lives on.
Status Job::Impl::Undecided(const char* what, TimeNs since_ns, TimeNs span_ns, TimeNs begun_ns) {
  const engine::Engine& engine = driver_->engine();
  const TimeNs now = Now();
  // A second wait for the same thing is not to return at once for ever.
  constexpr TimeNs kLeastNs = 100 * kMillisecond;
  if (engine.quorum_lost() && now - begun_ns >= kLeastNs) {
    return Status(Code::kQuorum,
                  culprits_.last().text.empty() ? "the quorum is lost" : culprits_.last().text);
  }
  if (engine.coordinator_up() || place_.solo()) return Status::Ok();
  if (now - since_ns < span_ns || now - begun_ns < std::min(span_ns, kLeastNs)) return Status::Ok();
  return Status(Code::kCoordinator, "coordinator", NoCoordinator() + "; " + what + " is undecided");
}

// For people, while there is none.
std::string Job::Impl::NoCoordinator() const {
  const std::string why =
      control_->up() ? "a relay that has none either" : control_->last_error().text();
  return "no coordinator at " + control_->shown_address() + " (" + why + ")";
}

Status Job::Impl::WaitVerdict(const Op& op, TimeNs begun_ns) {
  const TimeNs span = op.request.timeout_ns > 0 ? op.request.timeout_ns : timeout_ns_;
  return Undecided("the operation", op.start_ns, span, begun_ns);
}

Status Job::Impl::Wait(const OpPtr& op, int64_t timeout_ns) {
  if (op->done.load(std::memory_order_acquire)) return op->status;
  if (forked()) return ForkedError();
  if (Job::InCallback()) return Status(Code::kState, "a callback must not wait");
  const TimeNs begun = Now();
  const TimeNs deadline = timeout_ns < 0 ? kNever : After(begun, timeout_ns);
  const JobLock lock(mutex_);
  if (fast_.op == op.get()) {
    WaitFast(op, timeout_ns != 0);
    if (!callbacks_.empty()) RunCallbacks();
  }
  const Predicate done = [&]() FTAR_REQUIRES(mutex_) {
    return op->done.load(std::memory_order_relaxed) || IsOver();
  };
  const auto undecided = [&]() FTAR_REQUIRES(mutex_) { return WaitVerdict(*op, begun); };
  const Status early = UntilDecided(done, deadline, undecided);
  if (!ended_.ok() && !op->done.load(std::memory_order_relaxed) && !destroyed_) return ended_;
  const bool open = !op->done.load(std::memory_order_acquire);
  std::string late = open && timeout_ns != 0 ? culprits_.LateText(*op) : "";
  if (!late.empty()) late.insert(0, "; ");
  if (!open) return op->status;
  if (forked()) return ForkedError();
  if (!early.ok()) return early;
  if (timeout_ns == 0) return Status(Code::kInProgress, "in progress");
  return Status(Code::kTimeout, "the wait's time is over; the operation goes on" + late);
}

Expected<collective::Outcome> Job::Impl::OutcomeOf(GroupKey group, Seq seq) {
  if (forked()) return ForkedError();
  const JobLock lock(mutex_);
  const auto state = groups_.find(group);
  if (state != groups_.end()) {
    if (auto outcome = state->second.history.Find(seq)) return *std::move(outcome);
    if (FindOp(group, seq) != nullptr) return Status(Code::kInProgress, "in progress");
  }
  return Status(Code::kArg, "seq",
                "seq " + std::to_string(seq) + " is none of this group's last 1024 operations");
}

OpPtr NewOp() { return std::make_shared<Op>(); }
OpRequest& RequestOf(const OpPtr& op) { return op->request; }

Status OpStatusOf(const OpPtr& op) {
  return op->done.load(std::memory_order_acquire) ? op->status
                                                  : Status(Code::kInProgress, "in progress");
}

const collective::Outcome* OutcomeOf(const OpPtr& op) {
  return op->done.load(std::memory_order_acquire) ? &op->outcome : nullptr;
}

}  // namespace ftar::runtime
