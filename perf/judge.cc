#include "perf/judge.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "fmt/format.h"
#include "perf/stats.h"

namespace ftar::perf {
namespace {

using nlohmann::json;

double Milliseconds(int64_t ns) { return static_cast<double>(ns) / 1e6; }

// Whether an event at a survivor says that this fault was noticed.  A death shows as a link that
// went down with its peer, or as the eviction itself.
bool Notices(const EventRecord& event, FaultKind kind, int victim) {
  const bool about = event.replica == victim;
  switch (kind) {
    case FaultKind::kLeave: return about && event.type == FTAR_EVENT_MEMBER_LEFT;
    case FaultKind::kJoin: return about && event.type == FTAR_EVENT_MEMBER_JOINED;
    case FaultKind::kDelay: return about && event.type == FTAR_EVENT_LATE;
    case FaultKind::kReset: return about && event.type == FTAR_EVENT_LINK_DOWN;
    case FaultKind::kCorrupt: return about && event.type == FTAR_EVENT_CORRUPT;
    default:
      return about && (event.type == FTAR_EVENT_LINK_DOWN || event.type == FTAR_EVENT_MEMBER_LOST);
  }
}

// Whether an event says that the victim's membership changed as this fault changes it.
bool Moves(const EventRecord& event, FaultKind kind, int victim) {
  if (event.replica != victim) return false;
  switch (kind) {
    case FaultKind::kLeave: return event.type == FTAR_EVENT_MEMBER_LEFT;
    case FaultKind::kJoin: return event.type == FTAR_EVENT_MEMBER_JOINED;
    default: return event.type == FTAR_EVENT_MEMBER_LOST;
  }
}

// What comes after a survivor's last delivery is the end of the run, when everybody leaves.
bool Concerns(const History& history, const EventRecord& event, int64_t from_ns) {
  return event.time_ns >= from_ns && event.time_ns <= history.ops.back().delivered_ns;
}

const EventRecord* FirstNotice(const History& history, FaultKind kind, int victim,
                               int64_t from_ns) {
  for (const EventRecord& event : history.events) {
    if (Concerns(history, event, from_ns) && Notices(event, kind, victim)) return &event;
  }
  return nullptr;
}

// The view that moved the victim, and not one that something else brought.
const EventRecord* ViewOf(const History& history, FaultKind kind, int victim, int64_t from_ns) {
  const EventRecord* move = nullptr;
  for (const EventRecord& event : history.events) {
    if (!Concerns(history, event, from_ns)) continue;
    if (move == nullptr && Moves(event, kind, victim)) move = &event;
    if (move != nullptr && event.type == FTAR_EVENT_VIEW && event.epoch == move->epoch)
      return &event;
  }
  return nullptr;
}

const OpRecord* FirstDelivery(const History& history, int64_t from_ns, uint64_t from_seq) {
  for (const OpRecord& op : history.ops) {
    if (op.delivered_ns >= from_ns && op.seq >= from_seq) return &op;
  }
  return nullptr;
}

// The longest gap between deliveries that overlaps [struck, end].
int64_t LongestGap(const History& history, int64_t struck_ns, int64_t end_ns) {
  int64_t longest = 0;
  for (size_t i = 1; i < history.ops.size(); ++i) {
    const int64_t begin = history.ops[i - 1].delivered_ns, end = history.ops[i].delivered_ns;
    if (end >= struck_ns && begin <= end_ns) longest = std::max(longest, end - begin);
  }
  return longest;
}

// The counters as they were before the strike, and at the end of the change.
struct CounterPair {
  CountersRecord before, after;
};
CounterPair CountersAround(const History& history, int64_t struck_ns, int64_t until_ns) {
  CounterPair pair;
  if (history.counters.empty()) return pair;
  pair.before = pair.after = history.counters.front();
  for (const CountersRecord& record : history.counters) {
    if (record.time_ns < struck_ns) pair.before = record;
    pair.after = record;
    if (record.time_ns >= until_ns) break;
  }
  return pair;
}

// Somebody who was there when the fault struck, is not its victim, and went on afterwards.
bool Survives(const History& history, int rank, int victim, int64_t struck_ns) {
  if (rank == victim || history.ops.empty()) return false;
  return history.ops.front().delivered_ns < struck_ns &&
         history.ops.back().delivered_ns >= struck_ns;
}

int ParticipantsBefore(const History& history, int64_t struck_ns) {
  int count = 0;
  for (const OpRecord& op : history.ops) {
    if (op.delivered_ns < struck_ns) count = static_cast<int>(op.participants.size());
  }
  return count;
}

// The first other number of participants after the strike; as before when it never changes.
int ParticipantsAfter(const History& history, int64_t struck_ns, int before) {
  for (const OpRecord& op : history.ops) {
    const auto count = static_cast<int>(op.participants.size());
    if (op.delivered_ns >= struck_ns && op.status == FTAR_OK && count != before) return count;
  }
  return before;
}

double MedianPass(const History& history, int64_t struck_ns) {
  std::vector<double> passes;
  for (const OpRecord& op : history.ops) {
    if (op.delivered_ns < struck_ns) passes.push_back(Milliseconds(op.delivered_ns - op.start_ns));
  }
  return Quantile(passes, 0.5);
}

void Earliest(std::optional<double>* value, double ms) {
  *value = std::min(value->value_or(ms), ms);
}
void Latest(std::optional<double>* value, double ms) { *value = std::max(value->value_or(ms), ms); }

void JudgeSurvivor(const History& history, int64_t struck_ns, uint64_t struck_seq,
                   FaultResult* result) {
  const EventRecord* notice = FirstNotice(history, result->fault.kind, result->rank, struck_ns);
  int64_t settled_ns = struck_ns;
  if (notice != nullptr) {
    if (result->noticed.empty()) result->noticed = notice->text;
    Earliest(&result->detect_ms, Milliseconds(notice->time_ns - struck_ns));
    settled_ns = notice->time_ns;
  }
  const EventRecord* view = ViewOf(history, result->fault.kind, result->rank, struck_ns);
  if (view != nullptr) {
    Latest(&result->decide_ms, Milliseconds(view->time_ns - struck_ns));
    settled_ns = view->time_ns;
  }
  // Without a new view the operation that was struck is what has to end.
  const OpRecord* finished = FirstDelivery(history, settled_ns, view == nullptr ? struck_seq : 0);
  int64_t end_ns = settled_ns;
  if (finished != nullptr) {
    end_ns = finished->delivered_ns;
    Latest(&result->finish_ms, Milliseconds(end_ns - struck_ns));
  }
  Latest(&result->stall_ms, Milliseconds(LongestGap(history, struck_ns, end_ns)));
  const CounterPair counters = CountersAround(history, struck_ns, end_ns);
  const auto change = [&](int i) { return counters.after.values[i] - counters.before.values[i]; };
  result->bytes_resent += change(kBytesResent);
  result->links_opened += change(kLinksOpened);
  result->links_closed += change(kLinksClosed);
  // The library counts what a change kept; where the view did not change that is whatever is up.
  const auto& end = counters.after.values;
  result->links_kept += view != nullptr ? end[kLinksKept] : end[kLinksOpened] - end[kLinksClosed];
}

json OrNull(const std::optional<double>& value) { return value ? json(*value) : json(nullptr); }

std::string OrDash(const std::optional<double>& value) {
  return value ? fmt::format("{:.3f}", *value) : "-";
}

}  // namespace

FaultResult JudgeFault(const FaultSpec& fault, int victim, int64_t struck_ns, uint64_t struck_seq,
                       const std::map<int, History>& histories, bool agreed) {
  FaultResult result;
  result.fault = fault;
  result.rank = victim;
  result.agreed = agreed;
  if (struck_ns == 0) return result;
  bool first = true;
  for (const auto& [rank, history] : histories) {
    if (!Survives(history, rank, victim, struck_ns)) continue;
    if (first) {
      result.participants_before = ParticipantsBefore(history, struck_ns);
      result.participants_after = ParticipantsAfter(history, struck_ns, result.participants_before);
      result.pass_ms = MedianPass(history, struck_ns);
      first = false;
    }
    JudgeSurvivor(history, struck_ns, struck_seq, &result);
  }
  return result;
}

std::string FormatFault(const FaultResult& r) {
  return fmt::format(
      "# Fault {}: rank {} detect {} ms, decide {} ms, finish {} ms, stall {} ms, participants {} "
      "-> {}, "
      "bytes resent {}, links opened {} closed {} kept {}, survivors {}{}{}",
      ToString(r.fault), r.rank, OrDash(r.detect_ms), OrDash(r.decide_ms), OrDash(r.finish_ms),
      OrDash(r.stall_ms), r.participants_before, r.participants_after, r.bytes_resent,
      r.links_opened, r.links_closed, r.links_kept, r.agreed ? "agreed" : "DISAGREED",
      r.noticed.empty() ? "" : "; noticed: ", r.noticed);
}

json FaultJson(const FaultResult& r) {
  return {{"kind", FaultName(r.fault.kind)},
          {"rank", r.rank},
          {"iteration", r.fault.iteration},
          {"detect_ms", OrNull(r.detect_ms)},
          {"decide_ms", OrNull(r.decide_ms)},
          {"finish_ms", OrNull(r.finish_ms)},
          {"stall_ms", OrNull(r.stall_ms)},
          {"pass_ms", r.pass_ms},
          {"participants_before", r.participants_before},
          {"participants_after", r.participants_after},
          {"bytes_resent", r.bytes_resent},
          {"links_opened", r.links_opened},
          {"links_closed", r.links_closed},
          {"links_kept", r.links_kept},
          {"agreed", r.agreed},
          {"noticed", r.noticed}};
}

}  // namespace ftar::perf
