#include "membership/absentees.h"

#include <iterator>
#include <vector>

namespace ftar::membership {
namespace {

constexpr size_t kRangesMax = 8;

// "0 to 3, 7"; of many the first.
std::string Ranges(const std::vector<int32_t>& sorted) {
  std::string out;
  size_t ranges = 0;
  for (size_t at = 0, end = 0; at < sorted.size(); at = end) {
    if (++ranges > kRangesMax) return out + " and others";
    for (end = at + 1; end < sorted.size() && sorted[end] == sorted[end - 1] + 1;) ++end;
    out += (out.empty() ? "" : ", ") + std::to_string(sorted[at]);
    if (end > at + 1) out += " to " + std::to_string(sorted[end - 1]);
  }
  return out.empty() ? "none" : out;
}

std::vector<int32_t> OthersBelow(int32_t end, const std::set<int32_t>& those) {
  std::vector<int32_t> others;
  for (int32_t i = 0; i < end; ++i) {
    if (!those.contains(i)) others.push_back(i);
  }
  return others;
}

}  // namespace

std::string Absentees::InWords(TimeNs now, TimeNs recent_ns, const Reference& job,
                               const Shards& here) {
  std::erase_if(gave_up_, [&](const auto& one) { return now - one.second > recent_ns; });
  std::vector<int32_t> all, complete, gone, missing, in_part, beyond;
  for (int32_t replica = 0; replica < job.replicas; ++replica) {
    const auto found = here.find(replica);
    const bool whole = found != here.end() && std::ssize(found->second) >= job.shards;
    all.push_back(replica);
    if (whole) {
      complete.push_back(replica);
    } else if (found != here.end()) {
      in_part.push_back(replica);
    } else {
      (gave_up_.contains(replica) ? gone : missing).push_back(replica);
    }
  }
  for (auto at = here.lower_bound(job.replicas); at != here.end(); ++at)
    beyond.push_back(at->first);
  std::string text =
      "the first view waits for replicas " + Ranges(all) + "; here: " + Ranges(complete);
  if (!in_part.empty()) {
    text += "; in part: " + Ranges(in_part) + ", of replica " + std::to_string(in_part[0]) +
            " without shards " + Ranges(OthersBelow(job.shards, here.at(in_part[0])));
  }
  if (!gone.empty()) text += "; gave up: " + Ranges(gone);
  if (!missing.empty()) text += "; missing: " + Ranges(missing);
  if (!beyond.empty()) text += "; not waited for, as replicas count from 0: " + Ranges(beyond);
  return text;
}

}  // namespace ftar::membership
