// What the launcher knows of all ranks, and what it concludes from it.
//
// Purpose: brings the records of the ranks together: rows of the table, agreement on every checked
// operation, and a history for judging faults.  Needs no process and no clock.
// Threads: single-threaded.  Ownership: borrows schedule and table.
#ifndef FTAR_PERF_COLLECTOR_H_
#define FTAR_PERF_COLLECTOR_H_

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "perf/options.h"
#include "perf/records.h"
#include "perf/schedule.h"
#include "perf/table.h"

namespace ftar::perf {

// Everything one rank said.
struct History {
  bool original = true;  // there from the start
  bool gone = false;     // its process has ended
  std::optional<HelloRecord> hello;
  std::vector<OpRecord> ops;  // in the order of delivery
  std::vector<EventRecord> events;
  std::vector<CountersRecord> counters;
  std::optional<EndRecord> end;
};

// Empty when two members' records of the same operation agree, else what differs.
std::string Difference(const OpRecord& left, const OpRecord& right);

class Collector {
 public:
  Collector(const Options& options, const Schedule& schedule, Table* table);

  void OnStart(int rank, bool original);
  void OnRecord(int rank, const Record& record);
  void OnGone(int rank);

  // Keeps only about the last `n` operations of each rank, and compares only within them.
  void LimitHistory(size_t n) { limit_ = n; }

  uint64_t wrong() const { return wrong_; }
  uint64_t compared() const { return compared_; }  // pairs of records
  const std::vector<std::string>& disagreements() const { return disagreements_; }
  const std::map<int, History>& histories() const { return histories_; }
  // Verdicts other than OK, and participants that should not have been there or are missing.
  std::vector<std::string> Complaints() const;

 private:
  void OnOp(int rank, const OpRecord& record);
  void CheckHeader();
  void CheckRow(size_t row, bool in_place);
  bool Lost(const History& history) const { return history.gone || history.end.has_value(); }

  struct First {
    int rank;
    OpRecord record;
  };
  const Options& options_;
  const Schedule& schedule_;
  Table* table_;
  bool header_printed_ = false;
  uint64_t wrong_ = 0;
  uint64_t compared_ = 0;
  size_t limit_ = 0;  // 0: none
  std::map<int, History> histories_;
  std::map<uint64_t, First> first_;  // the first record of each operation
  std::map<std::pair<size_t, bool>, std::map<int, RowRecord>> rows_;  // incomplete ones
  std::vector<std::string> disagreements_;
};

}  // namespace ftar::perf

#endif  // FTAR_PERF_COLLECTOR_H_
