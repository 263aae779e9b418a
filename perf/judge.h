// What one fault cost: times from the strike, and what was touched.
//
// Purpose: the object `fault` of the report.  All times are CLOCK_MONOTONIC of one host.
//   detect: from the strike to the first event at a survivor about the victim, its link or its
//   eviction; decide: to the last survivor's event of the new view; finish: to the last survivor's
//   first delivery after that, or of the operation that was struck where no view changed; stall:
//   the longest time that a survivor went without a delivery around the strike.
// Threads: pure.
#ifndef FTAR_PERF_JUDGE_H_
#define FTAR_PERF_JUDGE_H_

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "perf/collector.h"

namespace ftar::perf {

struct FaultResult {
  FaultSpec fault;
  int rank = -1;
  std::optional<double> detect_ms, decide_ms, finish_ms, stall_ms;
  double pass_ms = 0;  // the median operation before the strike
  int participants_before = 0, participants_after = 0;
  uint64_t bytes_resent = 0, links_opened = 0, links_closed = 0, links_kept = 0;
  bool agreed = true;
  std::string noticed;  // the event's text
};

// `struck_ns` is 0 when the fault never struck; `struck_seq` is the operation that it struck.
FaultResult JudgeFault(const FaultSpec& fault, int victim, int64_t struck_ns, uint64_t struck_seq,
                       const std::map<int, History>& histories, bool agreed);

std::string FormatFault(const FaultResult& result);
nlohmann::json FaultJson(const FaultResult& result);

}  // namespace ftar::perf

#endif  // FTAR_PERF_JUDGE_H_
