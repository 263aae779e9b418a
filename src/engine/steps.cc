// Step marks (rule J4). The root of a column tells the others when it begins a step; nobody is more
// than one step ahead of it. So a boundary two steps beyond the root's is one that nobody has
// reached, and everybody learns of it in time.
#include <algorithm>
#include <iterator>
#include <utility>

#include "base/mutant.h"
#include "engine/impl.h"

namespace ftar::engine {

namespace {
constexpr size_t kMarksKept = 4;  // of steps that all have begun
// Of a root that this member does not know for one yet; who leaves is not waited for meanwhile.
constexpr size_t kMarksHeld = 1024;
// Changes that may strike between one member's beginning of a step and another's.
constexpr size_t kViewsKept = 8, kEntriesKept = size_t{1} << 16;
// Of steps that others have begun and this member has not: users may be far ahead of one that comes
// late.
constexpr size_t kBoundariesKept = 256;
// As marks count, from 1; users count from 0, in int64_t.
constexpr uint64_t kStepMax = INT64_MAX;
}  // namespace

void Engine::Impl::On(const BeginStep& event) {
  pending_step_ = event;
  TryBeginStep();
}

// Where the step begins in this group; if nobody has told yet, where the last one before it did:
// it begins no earlier.
Seq Engine::Impl::FirstStepSeq(GroupKey group, uint64_t step) const {
  Seq first = 0;
  for (const wire::StepMark& mark : marks_) {
    if (mark.step > step) break;
    if (mark.step < step && FTAR_MUTANT(kUntoldStepIsFirst)) continue;
    for (const wire::SeqBound& start : mark.starts) {
      if (start.group == group) first = start.seq;
    }
  }
  return first;
}

// Where the first step begins, of those from this one on, that is known to begin; null if none is.
const wire::StepMark* Engine::Impl::MarkFrom(uint64_t step) const {
  const auto mark = std::ranges::find_if(
      marks_, [step](const wire::StepMark& mark) { return mark.step >= step; });
  return mark == marks_.end() ? nullptr : &*mark;
}

// Of a newcomer that enters at a step; 0 of others.
uint64_t Engine::Impl::OwnBound() const {
  const wire::ViewEntry* self = view_ ? view_->Find(config_.self.id) : nullptr;
  return self && self->first.kind == wire::Bound::Kind::kStep ? self->first.step : 0;
}

// The mark at which a newcomer does; null if it is not known.
const wire::StepMark* Engine::Impl::OwnBeginning() const {
  return OwnBound() > 0 ? MarkFrom(OwnBound()) : nullptr;
}

// Where a member begins, as far as it is known here: who comes at a step begins with the first one
// that a root begins from there on.
Seq Engine::Impl::FirstSeqOf(const wire::ViewEntry& entry, GroupKey group) const {
  if (entry.first.kind != wire::Bound::Kind::kStep) return entry.first.SeqIn(group);
  const wire::StepMark* mark = MarkFrom(entry.first.step);
  const bool begun = mark && !FTAR_MUTANT(kBeginsAtItsBoundary);
  return FirstStepSeq(group, begun ? mark->step : entry.first.step);
}

// A newcomer's first operation is the first one of the step it enters at, which may have begun
// already when it learns of its bound.
void Engine::Impl::EnterAtMark(GroupKey key, collective::GroupMachine& group) {
  const wire::StepMark* mark = OwnBeginning();
  if (mark && !group.knows_first()) group.LearnFirstAt(now_, FirstStepSeq(key, mark->step));
}

// `next`: the one that would have been begun; 0: none.
void Engine::Impl::RefuseStep(Code why, uint64_t next) {
  pending_step_.reset();
  ready_.step = StepBegun{.status = why, .epoch = view_->epoch, .as_of = view_->epoch};
  if (next > 0) ready_.step->step = static_cast<int64_t>(next - 1);
}

// The one that this member begins next, if its user names no later one. A newcomer's first is the
// first one that the root begins at or after its boundary; none: it is not known which.
std::optional<uint64_t> Engine::Impl::NextStep() const {
  if (!IsEntering()) return step_ + 1;
  if (const wire::StepMark* const mark = OwnBeginning()) return mark->step;
  const bool placed = IsRoot() && std::ranges::all_of(groups_, [](const auto& entry) {
                        return entry.second->knows_first();
                      });
  if (placed) return OwnBound();  // see EnterAsRoot
  return std::nullopt;
}

void Engine::Impl::TryBeginStep() {
  if (!pending_step_ || frozen_ || !view_) return;
  if (phase_ != Phase::kMember) return RefuseStep(Code::kLeft, 0);
  const std::optional<uint64_t> next = NextStep();
  if (!next) return;
  const bool entering = IsEntering();
  const int64_t wanted = pending_step_->step;
  const uint64_t target = wanted >= 0 ? static_cast<uint64_t>(wanted) + 1 : *next;
  const bool fits = target > step_ && target <= kStepMax && (!entering || target == *next);
  if (!fits) return RefuseStep(Code::kArg, *next);
  if (reserved_step_ > 0 && target + 1 >= reserved_step_ && !FTAR_MUTANT(kReservedStepBegun))
    return;  // J3: first the announcement
  const bool alone = ColumnOf(view_->entries).size() == 1;
  const bool first_of_all = step_ == 0 && !entering;
  const bool follows = !alone && !IsRoot() && !entering && !first_of_all;
  if (follows && root_step_ + 1 < target && !FTAR_MUTANT(kRunsAheadOfRoot)) return;
  FinishBeginStep(target);
}

// Whoever waits for a root to begin the last step hears who that is, once. A change is nobody's
// lateness, and a wait that is taken up again is the same one.
void Engine::Impl::TellOfLateRoot() {
  if (frozen_) late_root_ = {};
  if (frozen_ || !pending_step_ || !view_) return;  // first: to find the root, all are looked at
  const MemberId root = RootOf(*view_);
  if (root == config_.self.id) {
    late_root_ = {};
    return;
  }
  if (late_root_.member != root) late_root_ = {root, now_, now_ + config_.timeout_ns};
  if (now_ < late_root_.tell_at) return;
  late_root_.tell_at = kNever;
  Notify(Notice::Kind::kLate, {}, {root, 0, kNoSeq, now_ - late_root_.since});
}

void Engine::Impl::FinishBeginStep(uint64_t step) {
  const uint64_t previous = step_ == 0 ? step - 1 : step_;
  strict_ = pending_step_->strict;
  pending_step_.reset();
  late_root_ = {};
  step_ = step;
  steps_marked_ = true;
  const auto told = boundaries_.find(step);
  const bool heard = told != boundaries_.end() && !FTAR_MUTANT(kOwnWordOfABoundary);
  Boundary boundary = heard ? told->second : BoundaryOf(step, previous);
  boundaries_.erase(boundaries_.begin(), boundaries_.upper_bound(step));
  NameRanks(step, FTAR_MUTANT(kRanksOfToday) ? 0 : boundary.layout);
  if (boundary.layout == 0) boundary.layout = step_view_->epoch;
  AnnounceStep(step, boundary);
  ready_.step = DescribeStep(step, boundary);
  lost_since_step_ = 0;
}

void Engine::Impl::AnnounceStep(uint64_t step, const Boundary& boundary) {
  wire::StepMark mark{era_, step, {}, boundary.joined, boundary.source, boundary.layout};
  for (const auto& [key, group] : groups_) mark.starts.push_back({key, group->next_seq()});
  KeepMark(mark);  // also if another is the root: it may go before it has begun this step itself
  if (!IsRoot()) return;
  root_step_ = step;
  SendColumn(*view_, mark);
}

// A step begins at the same operations for all, so it does not matter whose word is kept; but one
// of an era that has ended since may be void.
void Engine::Impl::KeepMark(const wire::StepMark& mark) {
  const auto at = std::find_if(marks_.begin(), marks_.end(),
                               [&](const wire::StepMark& m) { return m.step >= mark.step; });
  if (at != marks_.end() && at->step == mark.step) {
    membership::TakeMark(mark, &*at);
    return;
  }
  marks_.insert(at, mark);
  // A change may make a boundary of any step that only a lost root had begun: one for each
  // operation of the window, if they are short.
  const bool few = FTAR_MUTANT(kMarksAheadForgotten) || FTAR_MUTANT(kBeginningForgotten);
  const size_t ahead = few ? 0 : config_.group.window;
  if (marks_.size() <= kMarksKept + ahead) return;
  // A leaver needs the one at its end until it is there, however far the others go meanwhile, and a
  // newcomer that where it begins; all keep them, since a change may make these ask again.
  size_t spare = 0;
  while (spare + 2 < marks_.size() && MarksABound(spare)) ++spare;
  marks_.erase(marks_.begin() + static_cast<std::ptrdiff_t>(spare));
}

// J4: a mark that the survivors do not bring is void, one of a step that none of them has begun,
// say: only the lost root had called what lies before that step, so it may begin elsewhere. What
// they know counts for this member, too.
void Engine::Impl::RenewMarks(const wire::ColumnVerdicts& verdicts) {
  era_step_ = verdicts.step;
  root_step_ = 0;
  boundaries_.clear();
  const auto has = [](const auto& marks, uint64_t step) {
    return std::ranges::any_of(marks, [step](const auto& mark) { return mark.step == step; });
  };
  std::erase_if(marks_, [&](const wire::StepMark& mine) {
    return FTAR_MUTANT(kVoidMarkBack) ? mine.step > era_step_ : !has(verdicts.marks, mine.step);
  });
  for (const wire::StepMark& mark : verdicts.marks) {
    LearnBoundary(mark);
    if (has(marks_, mark.step) || MarksABoundNearer(mark)) KeepMark(mark);
  }
}

// Nearer to where somebody of the column ends, or begins, than any mark that is known here. Others
// may have carried out calls of that step in the stead of lost ones, and nobody who stays begins
// it; and where another begins, or ends, a leaver has to know so as not to wait for its calls, nor
// to pass what it takes part in. This member's own beginning is of the past once it has begun.
bool Engine::Impl::MarksABoundNearer(const wire::StepMark& mark) const {
  const auto nearest = [&](const wire::Bound& bound) {
    if (bound.kind != wire::Bound::Kind::kStep || mark.step < bound.step) return false;
    const wire::StepMark* known = MarkFrom(bound.step);
    return !known || mark.step < known->step;
  };
  return std::ranges::any_of(view_->entries, [&](const wire::ViewEntry& entry) {
    const bool own = entry.card.id == config_.self.id;
    if (entry.card.shard != config_.self.shard || (!own && FTAR_MUTANT(kOwnBoundsAlone)))
      return false;
    return nearest(entry.last) || (!(own && step_ > 0) && nearest(entry.first));
  });
}

// The first mark at or behind the end of somebody who leaves, or behind the beginning of somebody
// who has not begun, as far as it is known here: nothing from there on is delivered.
bool Engine::Impl::MarksABound(size_t index) const {
  if (!view_) return false;
  const wire::StepMark& mark = marks_[index];
  const auto behind = [&](const wire::Bound& bound) {
    return bound.kind == wire::Bound::Kind::kStep && mark.step >= bound.step &&
           (index == 0 || marks_[index - 1].step < bound.step);
  };
  const bool begun = std::ranges::any_of(mark.starts, [this](const wire::SeqBound& start) {
    const auto found = groups_.find(start.group);
    return found != groups_.end() && found->second->delivered_end() > start.seq;
  });
  return std::ranges::any_of(view_->entries, [&](const wire::ViewEntry& entry) {
    if (entry.card.shard != config_.self.shard) return false;
    return (behind(entry.last) && !FTAR_MUTANT(kEndForgotten)) ||
           (behind(entry.first) && !begun && !FTAR_MUTANT(kBeginningForgotten));
  });
}

// All who were in before have gone or are going: the root is a newcomer, and nobody will tell it
// where its first step begins. It begins where somebody who was ahead of the root before has begun
// it (RenewMarks), or else behind what those who leave have called (J1): they carry that out in
// steps before. The floor, which the calls of lost members have raised, counts where nobody is left
// who had begun: a leaver cannot get past what nobody calls.
void Engine::Impl::EnterAsRoot(const wire::ColumnVerdicts& verdicts) {
  if (!IsRoot() || OwnBound() == 0 || OwnBeginning()) return;
  std::map<GroupKey, Seq> starts;
  for (const auto& [key, group] : groups_) starts[key] = group->floor();
  for (const wire::GroupVerdicts& group : verdicts.groups) {
    if (group.queued_end != kNoSeq) starts[group.group] = group.queued_end;
  }
  for (auto& [key, group] : groups_) {
    // No earlier than a step before it: leavers pass what lies before that one.
    const Seq passed = FTAR_MUTANT(kRootBeginsBefore) ? 0 : FirstStepSeq(key, OwnBound());
    group->LearnFirstAt(now_, std::max(starts[key], passed));
  }
}

// A new view may have a new root, a new era, or newcomers: who lacks the newest marks gets them.
void Engine::Impl::PassMarksOn(const collective::ViewPtr& before) {
  if (!IsRoot()) {
    const auto held = other_marks_.find(RootOf(*view_));
    if (held == other_marks_.end()) return;
    const auto [root, marks] = *held;
    other_marks_.clear();
    for (const wire::StepMark& mark : marks) {
      if (mark.era == era_) OnPeer(root, mark);
    }
    return;
  }
  const bool to_all = !before || before->era != era_ || RootOf(*before) != config_.self.id;
  for (wire::StepMark& mark : marks_) {
    mark.era = era_;
    for (MemberId id : ColumnOf(view_->entries)) {
      if (id != config_.self.id && (to_all || !before->Find(id))) SendPeer(id, mark);
    }
  }
  root_step_ = std::max(root_step_, step_);
}

void Engine::Impl::OnPeer(MemberId from, const wire::StepMark& message) {
  if (from != RootOf(*view_)) {
    std::deque<wire::StepMark>& held = other_marks_[from];  // the root of a view on its way here?
    held.push_back(message);
    if (held.size() > kMarksHeld) held.pop_front();
    return;
  }
  steps_marked_ = true;
  root_step_ = std::max(root_step_, message.step);
  KeepMark(message);
  LearnBoundary(message);
  if (OwnBound() > 0 && message.step >= OwnBound()) {
    for (auto& [key, group] : groups_) {
      if (!group->knows_first()) group->LearnFirstAt(now_, FirstStepSeq(key, message.step));
    }
  }
  TryBeginStep();
}

// What somebody who has begun a step has heard of its boundary holds for whoever begins it later,
// also in another view (J4): users call more where somebody joins, and by that all must do the
// same. Marks go with each change to all, so nobody begins a step before it has those of the view
// before.
void Engine::Impl::LearnBoundary(const wire::StepMark& mark) {
  if (mark.joined < 0 || mark.step <= step_) return;
  boundaries_.try_emplace(mark.step, Boundary{mark.joined, mark.source, mark.layout});
  if (boundaries_.size() > kBoundariesKept) boundaries_.erase(boundaries_.begin());
}

bool Engine::Impl::TakesPart(const wire::ViewEntry& entry, uint64_t step) const {
  const bool early = entry.first.kind == wire::Bound::Kind::kStep && entry.first.step > step;
  const bool late = entry.last.kind == wire::Bound::Kind::kStep && entry.last.step <= step;
  return entry.card.shard == config_.self.shard && !early && !late;
}

// Who enters at this boundary, and who was here before, of those of this view.
Engine::Impl::Boundary Engine::Impl::BoundaryOf(uint64_t step, uint64_t previous) const {
  Boundary out;
  const wire::ViewEntry* source = nullptr;
  for (const wire::ViewEntry& entry : view_->entries) {
    if (!TakesPart(entry, step)) continue;
    if (entry.first.kind == wire::Bound::Kind::kStep && entry.first.step > previous) {
      ++out.joined;
    } else if (previous > 0 && (!source || entry.joined_epoch < source->joined_epoch)) {
      source = &entry;
      out.source = entry.card.id;
    }
  }
  return out;
}

// Where a change strikes between the first member's beginning of a step and the last one's, all
// name its ranks by the view of the first (F7): their calls have the same segments and roots.
void Engine::Impl::KeepView(collective::ViewPtr view) {
  if (!view) return;
  past_views_.push_back(std::move(view));
  const size_t entries = past_views_.size() * past_views_.back()->entries.size();
  const bool large = entries > kEntriesKept && past_views_.size() > 1;
  if (past_views_.size() <= kViewsKept && !large) return;
  const auto newest = std::prev(past_views_.end());  // others' words of it may be on their way
  const auto spare = std::find_if_not(past_views_.begin(), newest, [this](const auto& one) {
    return IsNamed(one->epoch) && !FTAR_MUTANT(kNamedViewForgotten);
  });
  past_views_.erase(spare == newest ? past_views_.begin() : spare);
}

// Of a step that this member may begin yet, or of one that it may have to tell others of.
bool Engine::Impl::IsNamed(Epoch epoch) const {
  return std::ranges::any_of(marks_, [&](const auto& mark) { return mark.layout == epoch; }) ||
         std::ranges::any_of(boundaries_,
                             [&](const auto& told) { return told.second.layout == epoch; });
}

collective::ViewPtr Engine::Impl::NamedView(Epoch epoch) const {
  for (const collective::ViewPtr& view : {view_, base_, step_view_}) {
    if (view && view->epoch == epoch) return view;
  }
  const auto found =
      std::ranges::find_if(past_views_, [epoch](const auto& view) { return view->epoch == epoch; });
  return found == past_views_.end() ? nullptr : *found;
}

// Others may have begun a step in a view that never came here.
void Engine::Impl::LearnNamedViews(const wire::ColumnVerdicts& verdicts,
                                   const std::vector<collective::ViewPtr>& views) {
  const uint64_t next = std::max(step_ + 1, OwnBound());
  for (const collective::ViewPtr& view : views) {
    const bool names = std::ranges::any_of(verdicts.marks, [&](const wire::StepMark& mark) {
      return mark.step >= next && mark.layout == view->epoch;
    });
    if (names && !NamedView(view->epoch)) KeepView(view);
  }
}

// By the view that this member has heard of, if it knows that one; else by its own.
void Engine::Impl::NameRanks(uint64_t step, Epoch told) {
  step_view_ = NamedView(told);
  if (!step_view_ || !step_view_->Find(config_.self.id)) {
    step_view_ = ViewAt(0, 0, step);
    // Without step marks before, a planned view's boundary is an operation.
    for (const auto& [key, group] : groups_) {
      if (ViewAt(key, group->next_seq(), step) == view_) step_view_ = view_;
    }
  }
  // Later steps are named by views as new, or newer. Who is behind begins those of the marks yet.
  std::erase_if(past_views_, [this](const auto& view) {
    const bool kept = IsNamed(view->epoch) && !FTAR_MUTANT(kNamedViewForgotten);
    return view->epoch < step_view_->epoch && !kept;
  });
}

std::shared_ptr<const wire::View> Engine::Impl::StepView(GroupKey key) const {
  return step_view_ ? NextMembers(*step_view_, key) : nullptr;
}

// Where no view is known in which the source was, whoever has been here for longest stands for it,
// so that all make the same calls; the one by which it sends its state fails, as others have named
// the source.
StepBegun Engine::Impl::DescribeStep(uint64_t step, const Boundary& boundary) const {
  StepBegun out;
  out.step = static_cast<int64_t>(step - 1);
  out.epoch = step_view_->epoch;
  out.as_of = view_->epoch;
  out.left = lost_since_step_;
  out.joined = boundary.joined;
  const wire::ViewEntry* source = nullptr;
  for (const wire::ViewEntry& entry : step_view_->entries) {
    if (!TakesPart(entry, step)) continue;
    if (entry.card.id == config_.self.id) out.rank = out.participants;
    const bool is_source = entry.card.id == boundary.source;
    const bool stands_in = !source || (source->card.id != boundary.source &&
                                       entry.joined_epoch < source->joined_epoch);
    if (boundary.source.valid() && (is_source || stands_in)) {
      source = &entry;
      out.source = out.participants;
    }
    ++out.participants;
  }
  out.weight_sum = out.participants;
  return out;
}

}  // namespace ftar::engine
