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
#include "perf/stats.h"

namespace ftar::perf {

// libftar's times over the ideal's, by pairs of blocks of iterations.
struct Gap {
  double ideal_us = 0;  // the ideal's median iteration
  double ratio = 0;     // the median of the pairs
  int64_t wrong = -1;   // of the ideal's elements; -1: unchecked
  Interval interval;    // of it
  // Bytes that a rank reads and writes for each byte of an operation, the mean of the ranks.
  double moved = 0, ideal_moved = 0;
  std::vector<double> ratios;
};

// What a matrix product and the operation cost each other.
struct Slowdown {
  double product_us = 0, product_beside_us = 0;  // the mean of the ranks
  double operation_beside_us = 0;
  double product_percent = 0, operation_percent = 0;
};

// One half of a row, all ranks taken together.
struct PlaceResult {
  double time_us = 0;
  double algorithm_bandwidth = 0;  // GB/s
  double bus_bandwidth = 0;
  int64_t wrong = -1;            // -1: unchecked
  std::vector<double> times_us;  // per iteration, the slowest rank's
  std::vector<double> ideal_us;  // the ideal's
  std::optional<Gap> gap;
  // Blocks of the GPU's kernels times the time that they were there, for each GB of payload.
  std::optional<double> block_seconds_per_gb;
  std::optional<Slowdown> slowdown;
  std::optional<double> bulk_bandwidth;  // GB/s, of the operations beside, as algbw counts them
};

// The gap of iterations that were taken in `pairs` pairs of blocks.
Gap GapOf(const std::vector<double>& times_us, const std::vector<double>& ideal_us, int pairs);

// Combines the ranks' records as -a says; `records` is in the order of ranks and not empty.
PlaceResult Combine(const Row& row, const std::vector<RowRecord>& records, Average average);

// One line of the table, without the newline.
std::string FormatRow(const Row& row, uint64_t count, uint64_t bytes,
                      const std::optional<PlaceResult>& out_of_place,
                      const std::optional<PlaceResult>& in_place);

// What follows a row: the percentiles of its iterations and its gap, empty where not measured.
std::string FormatTail(const std::optional<PlaceResult>& place);
std::string TailTitles(const Options& options, bool units);

class Table {
 public:
  // Prints to `out`; null prints nothing.
  Table(const Options& options, const Schedule& schedule, std::FILE* out);
  ~Table();

  void Header(const std::vector<HelloRecord>& ranks);
  // Prints the row as soon as both its halves are known.
  void Add(const std::vector<RowRecord>& records);
  // Prints the end, and writes the files that the options name; `extra` (faults, timeline) goes
  // into them as it is. Answers false when one of the files could not be written.
  bool Footer(uint64_t wrong, const std::vector<std::string>& errors, const nlohmann::json& extra);

  double average_bus_bandwidth() const;
  bool bandwidth_ok() const;

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
};

}  // namespace ftar::perf

#endif  // FTAR_PERF_TABLE_H_
