#include "runtime/culprits.h"

#include <algorithm>
#include <utility>

namespace ftar::runtime {
namespace {

constexpr size_t kLateShownMax = 8;

}  // namespace

std::string Shown(const Culprit& who) {
  if (who.replica < 0) return ToString(who.member) + ", which is not in the view,";
  return "replica " + std::to_string(who.replica) + " shard " + std::to_string(who.shard) + " on " +
         who.host;
}

void Culprits::ViewChanged(ViewPtr view) { previous_view_ = std::exchange(view_, std::move(view)); }

const wire::ViewEntry* Culprits::EntryOf(MemberId id, int32_t* rank) const {
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

Culprit Culprits::Of(const wire::Loss& loss, Epoch epoch) const {
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
Culprit Culprits::Of(const Op& op, Code code) const {
  const bool ended = op.done.load(std::memory_order_acquire);
  Culprit out;
  if (ended && op.outcome.culprit.valid()) {
    wire::Loss whom;
    whom.member = op.outcome.culprit;
    out = Of(whom, op.outcome.epoch);
    // Of a view before the last two: whom people have been told of.
    if (out.replica < 0 && last_.member == whom.member) out = last_;
  } else if (const Late* const late = LateIn(op); code == Code::kTimeout && late != nullptr) {
    if (late->who.size() == 1) out = late->who[0];
  } else if ((IsEpochError(code) || IsGroupError(code)) && last_.code == code) {
    out = last_;
  }
  if (ended && op.outcome.epoch != 0) out.epoch = op.outcome.epoch;
  if (out.epoch == 0 && view_) out.epoch = view_->epoch;
  out.seq = op.seq;
  return out;
}

void Culprits::BlameHolder(int32_t replica, int32_t shard) {
  last_.code = Code::kPeer;
  last_.replica = replica;
  last_.shard = shard;
}

std::optional<std::string> Culprits::NoteLate(GroupKey group, const Culprit& who) {
  Late& said = late_[group];
  if (!said.who.empty() && who.seq < said.seq) return std::nullopt;
  if (who.seq != said.seq) said = {who.seq, {}, false};
  const auto same = [&who](const Culprit& one) { return one.member == who.member; };
  if (said.more || std::ranges::any_of(said.who, same)) return std::nullopt;
  const std::string what = " not entered operation " + std::to_string(who.seq);
  said.more = said.who.size() == kLateShownMax;
  if (said.more) return "more members have" + what;
  said.who.push_back(who);
  return Shown(who) + " has" + what + ": " + who.text;
}

const Culprits::Late* Culprits::LateIn(const Op& op) const {
  const auto late = late_.find(op.group);
  return late == late_.end() || late->second.seq != op.seq ? nullptr : &late->second;
}

std::string Culprits::LateText(const Op& op) const {
  const Late* const late = LateIn(op);
  if (late == nullptr) return {};
  std::string out;
  for (const Culprit& who : late->who) out += (out.empty() ? "" : ", ") + Shown(who);
  if (late->more) out += ", and more";
  return out + (late->who.size() == 1 ? " has" : " have") + " not entered it";
}

}  // namespace ftar::runtime
