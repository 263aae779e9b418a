#include "membership/verdict.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <optional>
#include <set>

#include "base/mutant.h"

namespace ftar::membership {
namespace {

using wire::Bound;
using wire::BoundOf;
using wire::ColumnStatus;
using wire::GroupStatus;
using wire::OpStatus;
using wire::Verdict;
using wire::VerdictKind;

constexpr uint8_t kReduceScatter = 1, kBroadcast = 3;  // FTAR_REDUCE_SCATTER, FTAR_BROADCAST

const GroupStatus* GroupOf(const ColumnStatus& status, GroupKey key) {
  for (const GroupStatus& group : status.groups) {
    if (group.group == key) return &group;
  }
  return nullptr;
}

const OpStatus* OpOf(const GroupStatus* group, Seq seq) {
  if (!group) return nullptr;
  for (const OpStatus& op : group->ops) {
    if (op.seq == seq) return &op;
  }
  return nullptr;
}

// J2: delivered-through counts only from the reporter's first operation on.
bool Delivered(const GroupStatus* group, Seq seq) {
  const bool own = group && (seq >= group->first_seq || FTAR_MUTANT(kDeliveredFromZero));
  return own && seq < group->delivered_end;
}

bool HasCalled(const ColumnStatus& status) {
  return std::any_of(status.groups.begin(), status.groups.end(),
                     [](const GroupStatus& group) { return group.called_end > group.first_seq; });
}

std::map<GroupKey, Seq> CalledEnds(const StatusMap& statuses) {
  std::map<GroupKey, Seq> ends;
  for (const auto& [id, status] : statuses) {
    for (const GroupStatus& group : status.groups) {
      Seq& end = ends[group.group];
      end =
          std::max(end, FTAR_MUTANT(kFreshBoundDelivered) ? group.delivered_end : group.called_end);
      // A failure uses its seq up even if all who have called it are gone since (V6).
      for (const Verdict& failed : group.failed) end = std::max(end, failed.seq + 1);
    }
  }
  return ends;
}

// The first operation that nobody has called, in every group; or the first step that nobody has
// begun. None before somebody takes part who stays (`staying`: where they begin): what lies there
// those who are lost may have delivered among themselves, and nobody here would know (J3). Where
// nobody stays there is no such place.
Bound FreshBound(const StatusMap& statuses, const std::vector<Bound>& staying) {
  if (staying.empty()) return {};
  const bool anywhere = FTAR_MUTANT(kBeginsAmongTheLost);
  Bound bound;
  bool marked = false;
  uint64_t step = 0;
  for (const auto& [id, status] : statuses) {
    marked = marked || status.steps_marked;
    step = std::max(step, status.step);
  }
  const auto least = [&](const auto& place) {
    uint64_t out = place(staying.front());
    for (const Bound& first : staying) out = std::min<uint64_t>(out, place(first));
    return anywhere ? 0 : out;
  };
  if (marked) {
    bound.kind = Bound::Kind::kStep;
    bound.step = std::max(step + 1, least([](const Bound& first) { return first.step; }));
    return bound;
  }
  bound.kind = Bound::Kind::kSeq;
  bound.default_seq = least([](const Bound& first) { return first.default_seq; });
  for (const auto& [key, end] : CalledEnds(statuses)) {
    const GroupKey group = key;
    bound.seqs.push_back(
        {group, std::max(end, least([group](const Bound& first) { return first.SeqIn(group); }))});
  }
  return bound;
}

// With step marks a newcomer takes over from the others in its first step; one that has not begun
// it has nothing to go on with.
bool HasBegun(MemberId id, const ColumnStatus& status) {
  if (!status.report.installed_view) return false;
  if (status.step > 0 || HasCalled(status)) return true;
  const wire::ViewEntry* entry = status.report.installed_view->Find(id);
  return !entry || entry->first.kind != Bound::Kind::kStep;
}

// Where newcomers begin that have no place yet: no earlier than those who are to come already. Who
// is new in a step has its last ranks.
Bound FirstOfTheNext(Bound fresh, const std::vector<Bound>& staying) {
  if (fresh.kind != Bound::Kind::kStep || FTAR_MUTANT(kBeginsAmongTheLost)) return fresh;
  for (const Bound& first : staying) fresh.step = std::max(fresh.step, first.step);
  return fresh;
}

// J1: does this report bind the bounds that its view gives? A newcomer's word of the planned view
// that takes it in does not, unless it has acted on it: it may hold a plan that nobody announced,
// and so may others who were to come with it. Leavers may have passed the ends that it gives.
bool Binds(MemberId reporter, const ColumnStatus& status) {
  if (FTAR_MUTANT(kUnheardPlanBinds)) return true;
  const wire::View& view = *status.report.installed_view;
  const wire::ViewEntry* own = view.Find(reporter);
  const bool newcomer = view.planned && own && own->joined_epoch == view.epoch;
  const bool begun = status.step > 0 && !FTAR_MUTANT(kQueuedCallsVoid);
  const bool acted = begun || HasCalled(status);
  return !newcomer || (acted && !FTAR_MUTANT(kActedNewcomerVoid));
}

// Everything the table needs to know of one operation.
struct OpFacts {
  Seq seq = 0;
  uint64_t step = 0;
  const OpStatus* sample = nullptr;  // any report of it
  std::vector<std::pair<MemberId, const OpStatus*>>
      called;                     // of the new view's members of this operation
  std::vector<MemberId> members;  // of the new view
  std::vector<MemberId> delivered;
  std::vector<std::pair<MemberId, const OpStatus*>> reports;  // of anyone who reported
};

class Table {
 public:
  Table(const wire::Prepare& prepare, int32_t shard, const StatusMap& statuses, Decision* decision)
      : prepare_(prepare), statuses_(statuses), decision_(decision) {
    for (const BoundOf& bound : decision->bounds) bounds_[bound.member] = &bound;
    for (size_t i = 0; i < prepare.members.size(); ++i) {
      ranks_[prepare.members[i].card.id] = static_cast<int32_t>(i);
      if (prepare.members[i].card.shard == shard)
        replicas_[prepare.members[i].card.id] = prepare.members[i].card.replica;
    }
  }

  wire::GroupVerdicts DecideGroup(GroupKey key, Seq called_end) {
    wire::GroupVerdicts out{key, called_end, QueuedEnd(key), {}};
    const std::map<Seq, Verdict> failed = FailedUncalled(key, called_end);
    // Only what somebody names: a range would be as long as a peer says. What nobody names is
    // delivered by all who called it, and so by all.
    std::set<Seq> named;
    for (const auto& [seq, verdict] : failed) named.insert(seq);
    for (const auto& [id, status] : statuses_) {
      const GroupStatus* group = GroupOf(status, key);
      for (const OpStatus& op : group ? group->ops : std::vector<OpStatus>{}) named.insert(op.seq);
    }
    anew_ = std::nullopt;
    for (const Seq seq : named) {
      if (seq >= called_end) continue;
      const OpFacts facts = FactsOf(key, seq);
      out.verdicts.push_back(facts.reports.empty() ? failed.at(seq) : DecideOp(key, facts));
      if (IsStrict(facts) && IsUndelivered(out.verdicts.back())) anew_ = facts.step;
    }
    return out;
  }

 private:
  // V6: whoever has not called a failed operation yet will do so after all others have delivered
  // the failure; a change in between must not take the verdict from it. A newcomer that does not
  // know where the step begins at which it enters may be in any of them.
  std::map<Seq, Verdict> FailedUncalled(GroupKey key, Seq called_end) const {
    Seq lowest = called_end;
    for (const auto& [id, status] : statuses_) {
      const GroupStatus* group = GroupOf(status, key);
      const bool somewhere = group && group->queued_end != kNoSeq;
      lowest = std::min(lowest, somewhere ? group->called_end : 0);
    }
    std::map<Seq, Verdict> failed;
    for (const auto& [id, status] : statuses_) {
      const GroupStatus* group = GroupOf(status, key);
      for (const Verdict& verdict : group ? group->failed : std::vector<Verdict>{}) {
        if (verdict.seq >= lowest && verdict.seq < called_end)
          failed.insert({verdict.seq, verdict});
      }
    }
    return failed;
  }

  // Calls of a leaver that wait for the window are its own still, and so are failed ones: whoever
  // begins after all of them begins behind them.
  Seq QueuedEnd(GroupKey key) const {
    Seq end = 0, failed = 0;
    bool known = false;
    for (const auto& [id, status] : statuses_) {
      const GroupStatus* group = GroupOf(status, key);
      if (!group) continue;
      for (const Verdict& verdict : group->failed) failed = std::max(failed, verdict.seq + 1);
      if (group->queued_end == kNoSeq) continue;
      known = true;
      end = std::max(end, group->queued_end);
    }
    return known ? std::max(end, failed) : kNoSeq;
  }

  OpFacts FactsOf(GroupKey key, Seq seq) const {
    OpFacts facts;
    facts.seq = seq;
    for (const auto& [id, status] : statuses_) {
      if (const OpStatus* op = OpOf(GroupOf(status, key), seq)) {
        facts.reports.push_back({id, op});
        facts.sample = op;
        facts.step = op->signature.step;
      }
    }
    for (const auto& [id, status] : statuses_) {
      const auto bound = bounds_.find(id);
      const bool member = bound != bounds_.end() &&
                          bound->second->first.Reached(key, seq, facts.step) &&
                          !bound->second->last.Reached(key, seq, facts.step);
      const GroupStatus* group = GroupOf(status, key);
      if (Delivered(group, seq)) facts.delivered.push_back(id);
      if (!member) continue;
      facts.members.push_back(id);
      if (const OpStatus* op = OpOf(group, seq)) facts.called.push_back({id, op});
    }
    return facts;
  }

  // V3: all survivors complete, in one and the same attempt. Who has delivered was.
  std::optional<Epoch> CompleteAttempt(const OpFacts& facts) const {
    std::optional<Epoch> attempt;
    size_t complete = 0;
    for (const auto& [id, op] : facts.called) {
      if (!op->complete && !FTAR_MUTANT(kCommitIncomplete)) return std::nullopt;
      if (attempt && *attempt != op->attempt) return std::nullopt;
      attempt = op->attempt;
      ++complete;
    }
    for (MemberId id : facts.delivered) {
      if (FTAR_MUTANT(kDeliveredNotComplete)) break;
      if (std::find(facts.members.begin(), facts.members.end(), id) != facts.members.end())
        ++complete;
    }
    return complete == facts.members.size() ? attempt : std::nullopt;
  }

  static bool IsStrict(const OpFacts& facts) {
    return facts.sample && (facts.sample->signature.flags & wire::kSignatureStrict) != 0;
  }

  // Nobody has delivered it, nor what comes behind it. A failure that somebody knew may have been.
  bool IsUndelivered(const Verdict& verdict) const {
    return verdict.kind == VerdictKind::kRetry ||
           (verdict.kind == VerdictKind::kFail && verdict.attempt == prepare_.epoch);
  }

  // V8: what is complete behind an operation of its strict step that is not is begun anew with it,
  // by the same members; but for a broadcast whose root is gone, which could only fail.
  bool BeginsAnew(const OpFacts& facts) const {
    Verdict gone;
    return IsStrict(facts) && anew_ == facts.step && facts.delivered.empty() &&
           !RootGone(facts, facts.sample->signature, &gone);
  }

  Verdict DecideOp(GroupKey key, const OpFacts& facts) {
    Verdict verdict;
    verdict.seq = facts.seq;
    for (const auto& [id, status] :
         statuses_) {  // V5: a failure that one survivor may have delivered stands for all
      const GroupStatus* group = GroupOf(status, key);
      for (const Verdict& failed : group ? group->failed : std::vector<Verdict>{}) {
        if (failed.seq == facts.seq) return failed;
      }
    }
    // Of a broadcast each may have all it wants, from roots of their own.
    if (facts.delivered.empty() && Disagree(facts, &verdict)) return verdict;
    if (const auto attempt = CompleteAttempt(facts); attempt && !BeginsAnew(facts)) {
      verdict.kind = VerdictKind::kCommit;
      verdict.attempt = *attempt;
      return verdict;
    }
    if (!facts.delivered.empty()) {
      decision_->violations.push_back("operation " + std::to_string(facts.seq) +
                                      " was delivered by " + ToString(facts.delivered.front()) +
                                      ", yet not all survivors are complete");
    }
    // Before salvage: a broadcast may be final at those who agree with its root while another
    // member called something else.
    if (Disagree(facts, &verdict)) return verdict;
    verdict.origin = OriginOf(facts);
    if (Salvage(facts, &verdict)) return verdict;
    if (RootGone(facts, facts.sample->signature, &verdict)) return verdict;
    verdict.kind = VerdictKind::kRetry;
    return verdict;
  }

  // F5: what the first attempt has settled is for whoever comes to the operation later.
  static wire::Origin OriginOf(const OpFacts& facts) {
    const OpStatus* oldest = nullptr;
    for (const auto& [id, op] : facts.reports) {
      if (!op->origin.members.empty() && (!oldest || op->attempt < oldest->attempt)) oldest = op;
    }
    return oldest ? oldest->origin : wire::Origin{};
  }

  // Every chunk final, all of one attempt, somewhere; the highest such epoch (V3, V4). Segments of
  // a reduce-scatter are final only at their owner, who would then be complete: nothing to salvage.
  // V8: a strict step's operations are not salvaged.
  bool Salvage(const OpFacts& facts, Verdict* verdict) const {
    const bool strict = IsStrict(facts) && !FTAR_MUTANT(kStrictSalvaged);
    if (facts.sample->signature.kind == kReduceScatter || strict) return false;
    std::set<Epoch, std::greater<>> attempts;
    for (const auto& [id, op] : facts.called) attempts.insert(op->attempt);
    for (Epoch attempt : attempts) {
      uint32_t chunks = 0;
      for (const auto& [id, op] : facts.called) {
        if (op->attempt == attempt) chunks = std::max(chunks, op->chunks);
      }
      if (chunks == 0) continue;
      std::vector<int32_t> holders(chunks, -1);
      for (const auto& [id, op] : facts.called) {
        const bool other = op->attempt != attempt && !FTAR_MUTANT(kSalvageMixesAttempts);
        if (other || op->chunks != chunks) continue;
        for (uint32_t c = 0; c < chunks && c / 64 < op->final_chunks.size(); ++c) {
          if (holders[c] < 0 && (op->final_chunks[c / 64] >> (c % 64) & 1))
            holders[c] = ranks_.at(id);
        }
      }
      const bool holes = std::find(holders.begin(), holders.end(), -1) != holders.end();
      if (holes && !FTAR_MUTANT(kSalvageWithHoles)) continue;
      verdict->kind = VerdictKind::kSalvage;
      verdict->attempt = attempt;
      verdict->holders = std::move(holders);
      return true;
    }
    return false;
  }

  std::string NameOf(MemberId id) const {
    if (!id.valid()) return "none";  // of a call that has no root
    const std::optional<int32_t> replica = ReplicaOf(id);
    const std::string who = replica ? "replica " + std::to_string(*replica) : "an earlier member";
    return who + " (" + ToString(id) + ")";
  }

  // Who is gone is in the views of those who knew it, or in those that attempts and steps name.
  std::optional<int32_t> ReplicaOf(MemberId id) const {
    const auto found = replicas_.find(id);
    if (found != replicas_.end()) return found->second;
    for (const auto& [reporter, status] : statuses_) {
      const auto& installed = status.report.installed_view;
      const wire::ViewEntry* entry = installed ? installed->Find(id) : nullptr;
      for (const wire::View& view : status.views) entry = entry != nullptr ? entry : view.Find(id);
      if (entry != nullptr) return entry->card.replica;
    }
    return {};
  }

  // V5: members disagree on the call. The first in list order speaks for the majority's side: both
  // are named.
  bool Disagree(const OpFacts& facts, Verdict* verdict) const {
    std::vector<std::pair<int32_t, std::pair<MemberId, const OpStatus*>>> ordered;
    for (const auto& report : facts.called) ordered.push_back({ranks_.at(report.first), report});
    std::sort(ordered.begin(), ordered.end(),
              [](const auto& a, const auto& b) { return a.first < b.first; });
    for (size_t i = 1; i < ordered.size(); ++i) {
      const auto& [first_id, first] = ordered.front().second;
      const auto& [other_id, other] = ordered[i].second;
      const std::string difference = wire::SignatureDifference(
          first->signature, other->signature, [this](MemberId id) { return NameOf(id); });
      if (difference.empty()) continue;
      if (DifferByLostRoot(facts, first->signature, other->signature, verdict)) return true;
      verdict->kind = VerdictKind::kFail;
      verdict->attempt = prepare_.epoch;
      verdict->code = Code::kMismatch;
      verdict->culprit = other_id;
      verdict->text = "operation " + std::to_string(facts.seq) + ": " + NameOf(first_id) + " and " +
                      NameOf(other_id) + " disagree: " + difference;
      return true;
    }
    return false;
  }

  // Who begins a step when its source has gone takes another member for the source.
  bool DifferByLostRoot(const OpFacts& facts, const wire::Signature& a, const wire::Signature& b,
                        Verdict* verdict) const {
    wire::Signature as_root_of_a = b;
    as_root_of_a.root = a.root;
    return wire::SignatureDifference(a, as_root_of_a).empty() &&
           (RootGone(facts, a, verdict) || RootGone(facts, b, verdict));
  }

  bool RootGone(const OpFacts& facts, const wire::Signature& signature, Verdict* verdict) const {
    if (signature.kind != kBroadcast || FTAR_MUTANT(kRootGoneRetries)) return false;
    if (std::find(facts.members.begin(), facts.members.end(), signature.root) !=
        facts.members.end())
      return false;
    verdict->kind = VerdictKind::kFail;
    verdict->attempt = prepare_.epoch;
    verdict->code = Code::kAbsent;
    verdict->culprit = signature.root;
    verdict->text = "operation " + std::to_string(facts.seq) + ": the broadcast's root, " +
                    NameOf(signature.root) + ", is gone";
    return true;
  }

  const wire::Prepare& prepare_;
  const StatusMap& statuses_;
  Decision* decision_;
  std::map<MemberId, const BoundOf*> bounds_;
  std::map<MemberId, int32_t> ranks_;
  std::map<MemberId, int32_t> replicas_;
  std::optional<uint64_t> anew_;  // the strict step of which an operation of the group begins anew
};

// J1: the bounds that survivors know. `fresh_first` where they know none.
std::vector<BoundOf> KnownBounds(const wire::Prepare& prepare, int32_t shard,
                                 const StatusMap& statuses) {
  std::vector<BoundOf> bounds;
  for (const wire::ViewEntry& member : prepare.members) {
    if (member.card.shard != shard) continue;
    BoundOf out;
    out.member = member.card.id;
    Epoch first_epoch = 0, last_epoch = 0;
    for (const auto& [reporter, status] : statuses) {
      if (!status.report.installed_view) continue;
      const wire::View& view = *status.report.installed_view;
      const wire::ViewEntry* entry = view.Find(member.card.id);
      if (!entry) continue;
      const bool binds = Binds(reporter, status);
      if (view.epoch >= first_epoch && binds) {
        first_epoch = view.epoch;
        out.first = entry->first;
      }
      // A leave boundary that any survivor knows is kept, or its operations would change members
      // (J1).
      const bool leaves = entry->leaves() && view.epoch >= last_epoch;
      if (leaves && binds && !FTAR_MUTANT(kLeaveBoundForgotten)) {
        last_epoch = view.epoch;
        out.last = entry->last;
      }
    }
    out.fresh_first = first_epoch == 0;
    bounds.push_back(std::move(out));
  }
  return bounds;
}

bool Asks(const wire::Prepare& prepare, MemberId member) {
  const wire::ViewEntry* const entry = wire::FindEntry(prepare.members, member);
  return entry != nullptr && entry->last.kind == Bound::Kind::kAlways;
}

// Steps whose calls leavers carry out in the stead of a lost member that had begun them (J5): where
// they begin, in the groups whose calls are known.
std::map<uint64_t, wire::StepMark> FollowedSteps(const StatusMap& statuses) {
  std::map<uint64_t, std::map<GroupKey, Seq>> starts;
  for (const auto& [id, status] : statuses) {
    for (const GroupStatus& group : status.groups) {
      for (const OpStatus& op : group.ops) {
        Seq& start = starts[op.signature.step].try_emplace(group.group, op.seq).first->second;
        start = std::min(start, op.seq);
      }
    }
  }
  std::map<uint64_t, wire::StepMark> marks;
  for (const auto& [step, groups] : starts) {
    wire::StepMark& mark = marks[step];
    mark.step = step;
    for (const auto& [key, seq] : groups) mark.starts.push_back({key, seq});
  }
  return marks;
}

// The first step that a survivor has not begun.
uint64_t NextStep(const std::vector<BoundOf>& bounds, const StatusMap& statuses) {
  uint64_t next = ~uint64_t{0};
  for (const BoundOf& bound : bounds) {
    const auto status = statuses.find(bound.member);
    if (status == statuses.end()) continue;
    const bool late = bound.first.kind == Bound::Kind::kStep;
    next = std::min(next, std::max(status->second.step + 1, late ? bound.first.step : 0));
  }
  return next;
}

struct StepStart {
  uint64_t step = 0;
  Seq seq = 0;
};

// A later step begins no earlier. `known`: where steps begin, by step.
bool Contradicts(const std::map<uint64_t, Seq>& known, const StepStart& start) {
  const auto later = known.lower_bound(start.step);
  return (later != known.end() && later->second < start.seq) ||
         (later != known.begin() && std::prev(later)->second > start.seq);
}

// J4: a change may have made a mark void, and those who have begun anew have made others, of later
// eras; who has not heard of that change tells it still.
void DropVoidMarks(std::map<uint64_t, wire::StepMark>* marks) {
  std::map<GroupKey, std::map<Epoch, std::vector<StepStart>, std::greater<>>> groups;
  for (const auto& [step, mark] : *marks) {
    for (const wire::SeqBound& start : mark.starts)
      groups[start.group][mark.era].push_back({step, start.seq});
  }
  std::set<uint64_t> void_steps;
  for (const auto& [key, eras] : groups) {
    if (eras.size() == 1) continue;
    std::map<uint64_t, Seq> known;
    for (const auto& [era, starts] : eras) {
      for (const StepStart& start : starts) {
        if (Contradicts(known, start)) void_steps.insert(start.step);
      }
      for (const StepStart& start : starts) {
        if (!Contradicts(known, start)) known[start.step] = start.seq;
      }
    }
  }
  for (const uint64_t step : void_steps) marks->erase(step);
}

// What is known of the steps that survivors have begun, the latest of which is `last`. A mark of
// one that none of them has begun is void (J4), see Engine::Impl::RenewMarks.
std::vector<wire::StepMark> DecideMarks(const StatusMap& statuses, uint64_t* last) {
  std::map<uint64_t, wire::StepMark> marks;
  for (const auto& [id, status] : statuses) {
    *last = std::max(*last, status.step);
    for (const wire::StepMark& mark : status.marks) {
      wire::StepMark& known = marks.try_emplace(mark.step, mark).first->second;
      if (FTAR_MUTANT(kAnyonesMark)) known = mark;
      TakeMark(mark, &known);
    }
  }
  if (!FTAR_MUTANT(kVoidMarkBack)) DropVoidMarks(&marks);
  marks.merge(FollowedSteps(statuses));  // where nobody has the root's word
  std::vector<wire::StepMark> out;
  for (auto& [step, mark] : marks) {
    if (step <= *last) out.push_back(std::move(mark));
  }
  return out;
}

}  // namespace

void TakeMark(wire::StepMark other, wire::StepMark* mark) {
  const auto place = [](const wire::StepMark& one) { return std::pair(one.joined >= 0, one.era); };
  if (place(other) > place(*mark)) std::swap(*mark, other);
  if (other.starts == mark->starts) return;  // nearly always, and there may be many groups
  for (const wire::SeqBound& start : other.starts) {
    const auto same = [&start](const wire::SeqBound& known) { return known.group == start.group; };
    if (std::ranges::none_of(mark->starts, same)) mark->starts.push_back(start);
  }
}

std::vector<BoundOf> DecideBounds(const wire::Prepare& prepare, int32_t shard,
                                  const StatusMap& statuses) {
  const bool late = std::any_of(
      prepare.members.begin(), prepare.members.end(), [shard](const wire::ViewEntry& member) {
        return member.card.shard == shard &&
               (member.first.kind == Bound::Kind::kStep || member.first.kind == Bound::Kind::kSeq);
      });
  // J3: nobody of the column has a view, and that is because none has been formed; not because only
  // those are left who came later and have not heard of theirs.
  const bool formation =
      !late && std::none_of(statuses.begin(), statuses.end(), [](const auto& entry) {
        return entry.second.report.installed_view.has_value();
      });
  const bool begun = std::any_of(statuses.begin(), statuses.end(), [](const auto& entry) {
    return HasBegun(entry.first, entry.second);
  });
  std::vector<BoundOf> bounds = KnownBounds(prepare, shard, statuses);
  std::vector<Bound> staying;
  for (const BoundOf& bound : bounds) {
    const bool ends = bound.last.kind != Bound::Kind::kNone;
    if (!bound.fresh_first && !(ends && !FTAR_MUTANT(kBeginsAmongTheLost)))
      staying.push_back(bound.first);
  }
  // Nobody here has been in: the coordinator knows what that means.
  const bool all_fresh = std::all_of(bounds.begin(), bounds.end(),
                                     [](const BoundOf& bound) { return bound.fresh_first; });
  const Bound always{Bound::Kind::kAlways, 0, 0, {}};
  if (all_fresh) staying.push_back(always);
  const Bound fresh = FreshBound(statuses, staying);
  const Bound next = formation ? always : FirstOfTheNext(fresh, staying);
  for (BoundOf& bound : bounds) {
    if (bound.fresh_first) bound.first = next;
    bound.fresh_first = !formation && (bound.fresh_first || !begun);
    if (bound.last.kind != Bound::Kind::kNone || !Asks(prepare, bound.member)) continue;
    bound.last = fresh;
    bound.fresh_last = true;
  }
  return bounds;
}

Decision Decide(const wire::Prepare& prepare, int32_t shard, const StatusMap& statuses) {
  Decision decision;
  decision.bounds = DecideBounds(prepare, shard, statuses);
  decision.verdicts.epoch = prepare.epoch;
  Table table(prepare, shard, statuses, &decision);
  for (const auto& [key, end] : CalledEnds(statuses))
    decision.verdicts.groups.push_back(table.DecideGroup(key, end));
  decision.verdicts.marks = DecideMarks(statuses, &decision.verdicts.step);
  std::set<Epoch> named;
  for (const auto& group : decision.verdicts.groups) {
    for (const Verdict& verdict : group.verdicts) named.insert(verdict.attempt);
  }
  const uint64_t next = NextStep(decision.bounds, statuses);
  for (const wire::StepMark& mark : decision.verdicts.marks) {
    if (mark.step >= next) named.insert(mark.layout);
  }
  for (const auto& [id, status] : statuses) {
    for (const wire::View& view : status.views) {
      if (named.erase(view.epoch) > 0) decision.verdicts.views.push_back(view);
    }
  }
  return decision;
}

}  // namespace ftar::membership
