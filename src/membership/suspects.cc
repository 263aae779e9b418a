#include "membership/suspects.h"

#include <algorithm>
#include <utility>

#include "base/mutant.h"
#include "membership/coordinator_events.h"
#include "membership/failure_detector.h"

namespace ftar::membership {

void Suspects::OnClosed(TimeNs now, MemberId id, Closed closed) {
  Suspicion& suspicion = suspicions_[id];
  suspicion = {now, now + PatienceWith(closed), "control connection", std::move(closed.text)};
  suspicion.reset = closed.reset;
}

// A relay's loss is not that of those behind it: they have time to come back by another one. Unless
// their links are lost, too. And whom this coordinator left without a word, since it was stopped
// itself or cut off, had reason to look for another connection. A reset may be a middlebox's work;
// the links of a process that has ended are lost as well, if a little later.
TimeNs Suspects::PatienceWith(const Closed& closed) const {
  if (closed.links == Links::kNone || FTAR_MUTANT(kRelayLossIsDeath)) return cluster_ns_;
  const TimeNs grace = FTAR_MUTANT(kCutOffIsDeath) ? 0 : closed.grace_ns;
  const bool between = closed.reset && closed.links == Links::kSome;
  const TimeNs while_away = between ? timeout_ns_ / 2 : closed.away ? timeout_ns_ / 4 : 0;
  return std::max({grace, while_away, cluster_ns_});
}

void Suspects::OnNewcomerClosed(TimeNs now) { newcomers_closed_.push_back(now); }

void Suspects::Await(TimeNs now, MemberId id, TimeNs wait_ns, std::string stage, std::string text) {
  suspicions_.insert({id, {now, now + wait_ns, std::move(stage), std::move(text), kExtendedMost}});
}

void Suspects::ExpectTrouble(TimeNs now) {
  if (!FTAR_MUTANT(kTroubleIsOver)) trouble_until_ = now + timeout_ns_ / 2;
}

bool Suspects::OnHeard(MemberId id) {
  const auto found = suspicions_.find(id);
  if (found == suspicions_.end() || found->second.stage != kSilenceStage) return false;
  suspicions_.erase(found);
  return true;
}

void Suspects::Replace(MemberId id) {
  const auto found = suspicions_.find(id);
  if (found == suspicions_.end()) return;
  found->second.act_at = std::min(found->second.act_at, found->second.since + timeout_ns_ / 2);
  found->second.extended = kExtendedMost;
  found->second.replaced = true;
}

void Suspects::ReplaceAll() {
  for (const auto& [id, suspicion] : suspicions_) Replace(id);
}

bool Suspects::PutOff(TimeNs now, MemberId id, bool relay) const {
  const Suspicion* const found = Find(id);
  return found && (relay || found->reset || (now < trouble_until_ && found->extended == 0));
}

void Suspects::Hasten(TimeNs now, MemberId id) {
  Suspicion& suspicion = suspicions_.at(id);
  suspicion.act_at = std::min(suspicion.act_at, now + cluster_ns_);
}

Suspects::Due Suspects::DueAt(TimeNs now) const {
  Due due;
  for (const auto& [id, suspicion] : suspicions_) {
    if (suspicion.act_at > now) continue;
    due.ids.push_back(id);
    due.since = std::min(due.since, suspicion.since);
    due.fresh = due.fresh || suspicion.extended == 0;
  }
  return due;
}

size_t Suspects::NewcomersClosed(TimeNs now, TimeNs since) {
  if (FTAR_MUTANT(kMembersAloneCount)) return 0;
  std::erase_if(newcomers_closed_, [&](TimeNs at) { return at + timeout_ns_ < now; });
  return static_cast<size_t>(std::ranges::count_if(
      newcomers_closed_, [&](TimeNs at) { return at + cluster_ns_ >= since; }));
}

Suspects::Verdict Suspects::Judge(TimeNs now, MemberId id, Links links, const Census& census) {
  const auto found = suspicions_.find(id);
  if (found == suspicions_.end()) return {};  // lost with its replica meanwhile
  Suspicion& suspicion = found->second;
  const bool self_suspect =
      (2 * census.closed > census.all || census.ends) && !FTAR_MUTANT(kTrustsItself);
  if (self_suspect) ExpectTrouble(now);
  const bool patient =
      census.alone && !suspicion.replaced && now - suspicion.since < kAloneTimeouts * timeout_ns_;
  const int times = links == Links::kSome ? kExtendedMost : 1;
  if (self_suspect && (suspicion.extended < times || patient)) {
    suspicion.act_at = now + timeout_ns_ / (census.members == 1 ? 4 : census.ends ? 1 : 2);
    // Once somebody is back the others get their time, too.
    suspicion.extended = patient ? 0 : suspicion.extended + 1;
    return {false, !std::exchange(suspicion.said, true), {}, {}};
  }
  const bool has_time = links == Links::kSome || links == Links::kNobodyTells;
  if (now < trouble_until_ && suspicion.extended == 0 && has_time) {
    suspicion.act_at = trouble_until_;
    return {};
  }
  Verdict lost{true, false, std::move(suspicion.stage), std::move(suspicion.text)};
  suspicions_.erase(found);
  return lost;
}

TimeNs Suspects::NextDeadline() const {
  TimeNs next = kNever;
  for (const auto& [id, suspicion] : suspicions_) next = std::min(next, suspicion.act_at);
  return next;
}

const Suspects::Suspicion* Suspects::Find(MemberId id) const {
  const auto found = suspicions_.find(id);
  return found == suspicions_.end() ? nullptr : &found->second;
}

std::vector<MemberId> Suspects::Ids() const {
  std::vector<MemberId> ids;
  for (const auto& [id, suspicion] : suspicions_) ids.push_back(id);
  return ids;
}

}  // namespace ftar::membership
