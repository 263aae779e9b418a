#include "membership/failure_detector.h"

#include <algorithm>

namespace ftar::membership {
namespace {

const wire::GroupProgress* GroupOf(const wire::Heartbeat& beat, GroupKey key) {
  for (const wire::GroupProgress& group : beat.groups) {
    if (group.group == key) return &group;
  }
  return nullptr;
}

// A group in which the member is inside an operation and lacks nobody's data.
const wire::GroupProgress* HoldsAll(const wire::Heartbeat& beat) {
  for (const wire::GroupProgress& group : beat.groups) {
    if (group.called_end > group.delivered_end && group.waits_for.empty()) return &group;
  }
  return nullptr;
}

bool SameProgress(const wire::Heartbeat& a, const wire::Heartbeat& b) {
  if (a.installed != b.installed || a.groups.size() != b.groups.size()) return false;
  for (size_t i = 0; i < a.groups.size(); ++i) {
    const wire::GroupProgress &x = a.groups[i], &y = b.groups[i];
    if (x.group != y.group || x.called_end != y.called_end || x.delivered_end != y.delivered_end ||
        x.counter != y.counter || x.waits_for != y.waits_for) {
      return false;
    }
  }
  return true;
}

}  // namespace

void FailureDetector::Configure(TimeNs timeout_ns, TimeNs late_timeout_ns, bool enabled) {
  timeout_ns_ = timeout_ns;
  late_timeout_ns_ = late_timeout_ns;
  enabled_ = enabled;
}

void FailureDetector::Watch(TimeNs now, MemberId member) {
  Advance(now);
  const auto [found, fresh] = members_.insert({member, {}});
  if (!fresh) return;
  found->second.heard = found->second.moved = awake_;
  next_check_ = std::min(next_check_, awake_ + tick_ns());
  beats_changed_ = true;
}

void FailureDetector::Forget(MemberId member) {
  if (members_.erase(member) > 0) beats_changed_ = true;
}

void FailureDetector::Clear() { members_.clear(); }

void FailureDetector::Advance(TimeNs now) {
  if (!advanced_) {
    advanced_ = true;
    last_now_ = now;
    return;
  }
  TimeNs gap = std::max<TimeNs>(now - last_now_, 0);
  last_now_ = std::max(now, last_now_);
  if (gap > tick_ns() + timeout_ns_ / 4) {  // slept through: see the header
    gap = tick_ns();
    woke_at_ = now;
  }
  quiet_ += gap;
  if (!Deaf()) awake_ += gap;
}

bool FailureDetector::Deaf() const {
  return members_.size() > 1 && quiet_ > timeout_ns_ / 2 && quiet_ < kAloneTimeouts * timeout_ns_;
}

TimeNs FailureDetector::Grace() const {
  const TimeNs left = std::max<TimeNs>(back_by_ - last_now_, 0);
  return Deaf() ? std::max({quiet_, timeout_ns_, left}) : left;
}

void FailureDetector::Heard(MemberId member) {
  // All have to find their way back, not all at once: what got lost is sent again after pauses that
  // double, so the last may come as late again as the first (RFC 6298, 5.5).
  if (Deaf()) {
    back_by_ = last_now_ + Grace();
    const TimeNs grace = std::max<TimeNs>(quiet_ - timeout_ns_, 0);
    // What they did meanwhile has not been heard either.
    for (auto& [id, watched] : members_) {
      watched.heard = std::max(watched.heard, awake_ + grace);
      watched.moved = std::max(watched.moved, awake_ + grace);
    }
  }
  quiet_ = 0;
  const auto found = members_.find(member);
  if (found == members_.end()) return;
  found->second.heard = std::max(found->second.heard, awake_);  // it may be an echo of the past
  found->second.silent_told = false;
}

void FailureDetector::Beat(MemberId member, const wire::Heartbeat& beat) {
  const auto found = members_.find(member);
  if (found == members_.end()) return;
  Watched& watched = found->second;
  if (SameProgress(watched.beat, beat)) return;
  watched.beat = beat;
  watched.moved = awake_;
  watched.stuck_told = false;
  const wire::GroupProgress* group = HoldsAll(beat);
  watched.stuck = group != nullptr;
  if (group != nullptr) {
    watched.stuck_group = group->group;
    watched.stuck_seq = group->delivered_end;
  }
  beats_changed_ = true;
}

// Late: somebody lacks this member's data in an operation that this member has not called. The
// clock starts when that is first seen and starts again with every operation, since who comes late
// to each one still comes.
void FailureDetector::FindLate() {
  std::map<MemberId, std::pair<GroupKey, Seq>> late;
  for (const auto& [id, watched] : members_) {
    for (const wire::GroupProgress& group : watched.beat.groups) {
      for (MemberId lacked : group.waits_for) {
        const auto target = members_.find(lacked);
        if (target == members_.end()) continue;
        const wire::GroupProgress* theirs = GroupOf(target->second.beat, group.group);
        const Seq called_end = theirs == nullptr ? 0 : theirs->called_end;
        if (called_end <= group.delivered_end)
          late.insert({lacked, {group.group, group.delivered_end}});
      }
    }
  }
  for (auto& [id, watched] : members_) {
    const auto found = late.find(id);
    if (found == late.end()) {
      watched.late_since = kNever;
      continue;
    }
    const auto [group, seq] = found->second;
    if (watched.late_since != kNever && watched.late_group == group && watched.late_seq == seq)
      continue;
    watched.late_since = awake_;
    watched.late_group = group;
    watched.late_seq = seq;
    watched.late_told_after = timeout_ns_;
    watched.late_too_long_told = false;
  }
}

void FailureDetector::CheckLate(MemberId id, Watched& watched, std::vector<Finding>* found) {
  if (watched.late_since == kNever) return;
  const TimeNs late_for = awake_ - watched.late_since;
  Finding finding{Finding::Kind::kLate, id, watched.late_group, watched.late_seq, late_for};
  if (late_timeout_ns_ > 0 && late_for >= late_timeout_ns_ && !watched.late_too_long_told) {
    watched.late_too_long_told = true;
    finding.kind = Finding::Kind::kLateTooLong;
    found->push_back(finding);
    return;
  }
  if (late_for < watched.late_told_after) return;
  watched.late_told_after = 2 * late_for;
  found->push_back(finding);
}

void FailureDetector::CheckOne(MemberId id, Watched& watched, std::vector<Finding>* found) {
  const TimeNs silent_for = awake_ - watched.heard;
  if (silent_for >= timeout_ns_) {
    if (!watched.silent_told) found->push_back({Finding::Kind::kSilent, id, 0, 0, silent_for});
    watched.silent_told = true;
    return;  // who is silent is not also called stuck or late
  }
  const TimeNs stuck_for = awake_ - watched.moved;
  if (watched.stuck && stuck_for >= timeout_ns_ && !watched.stuck_told) {
    watched.stuck_told = true;
    found->push_back(
        {Finding::Kind::kStuck, id, watched.stuck_group, watched.stuck_seq, stuck_for});
  }
  CheckLate(id, watched, found);
}

std::vector<Finding> FailureDetector::Check() {
  std::vector<Finding> found;
  if (!enabled_) return found;
  if (beats_changed_) FindLate();
  beats_changed_ = false;
  // Remembered, not asked for at every message: a beat can only put a deadline off.
  next_check_ = awake_ + tick_ns();
  for (auto& [id, watched] : members_) {
    CheckOne(id, watched, &found);
    if (!watched.silent_told) next_check_ = std::min(next_check_, watched.heard + timeout_ns_);
  }
  return found;
}

TimeNs FailureDetector::NextCheck() const {
  if (!enabled_ || members_.empty()) return kNever;
  return last_now_ + std::max<TimeNs>(next_check_ - awake_, 0);
}

TimeNs FailureDetector::SilentFor(MemberId member) const {
  const auto found = members_.find(member);
  return found == members_.end() ? 0 : std::max<TimeNs>(awake_ - found->second.heard, 0);
}

bool FailureDetector::HoldsOthersUp(MemberId member) const {
  const auto found = members_.find(member);
  return found != members_.end() && (found->second.stuck || found->second.late_since != kNever);
}

bool FailureDetector::WaitsFor(MemberId reporter, MemberId subject) const {
  const auto found = members_.find(reporter);
  if (found == members_.end()) return false;
  for (const wire::GroupProgress& group : found->second.beat.groups) {
    if (std::find(group.waits_for.begin(), group.waits_for.end(), subject) != group.waits_for.end())
      return true;
  }
  return false;
}

void FailureDetector::Excuse(MemberId member) {
  const auto found = members_.find(member);
  if (found == members_.end()) return;
  found->second.moved = awake_;
  found->second.stuck_told = false;
}

void FailureDetector::Restart() {
  for (auto& [id, watched] : members_) {
    watched.moved = awake_;
    watched.stuck = false;
    watched.late_since = kNever;
    watched.beat = {};
  }
}

}  // namespace ftar::membership
