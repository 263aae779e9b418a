// The table of nccl-tests and its JSON file.
//
// Purpose: turns the records of all ranks for one half of a row into printed text, and keeps what
// the JSON file needs. Threads: single-threaded.  Ownership: owns its results; borrows options and
// schedule.
#ifndef FTAR_PERF_TABLE_H_
#define FTAR_PERF_TABLE_H_

#include <cstdint>
#include <cstdio>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "perf/options.h"
#include "perf/records.h"
#include "perf/schedule.h"

namespace ftar::perf {

// One half of a row, all ranks taken together.
struct PlaceResult {
  double time_us = 0;
  double algorithm_bandwidth = 0;  // GB/s
  double bus_bandwidth = 0;
  int64_t wrong = -1;            // -1: unchecked
  std::vector<double> times_us;  // per iteration, the slowest rank's
};

// Combines the ranks' records as -a says; `records` is in the order of ranks and not empty.
PlaceResult Combine(const Row& row, const std::vector<RowRecord>& records, Average average);

// One line of the table, without the newline.
std::string FormatRow(const Row& row, uint64_t count, uint64_t bytes,
                      const std::optional<PlaceResult>& out_of_place,
                      const std::optional<PlaceResult>& in_place);

class Table {
 public:
  // Prints to `out`; null prints nothing.
  Table(const Options& options, const Schedule& schedule, std::FILE* out);
  ~Table();

  void Header(const std::vector<HelloRecord>& ranks);
  // Prints the row as soon as both its halves are known.
  void Add(const std::vector<RowRecord>& records);
  // `extra` lines (faults, errors) go into the JSON file as they are.
  void Footer(uint64_t wrong, const std::vector<std::string>& errors, const nlohmann::json& extra);

  double average_bus_bandwidth() const;
  bool bandwidth_ok() const;
  const std::string& json_path() const { return json_path_; }

 private:
  size_t MembersAtStart() const;
  struct Entry {
    std::optional<PlaceResult> out_of_place, in_place;
    int32_t members = 0;
  };
  void PrintTitles(ftarKind_t kind);
  void PrintRow(size_t index, const Entry& entry);
  nlohmann::json ToJson(uint64_t wrong, const std::vector<std::string>& errors) const;

  const Options& options_;
  const Schedule& schedule_;
  std::FILE* out_;
  int64_t started_s_ = 0;
  std::vector<HelloRecord> ranks_;  // those who report here
  std::map<size_t, Entry> entries_;
  std::optional<ftarKind_t> kind_;
  std::string json_path_;
};

}  // namespace ftar::perf

#endif  // FTAR_PERF_TABLE_H_
