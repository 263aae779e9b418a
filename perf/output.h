// Files that a run leaves behind: JSON as it is, the same as CSV, and the report page.
//
// Threads: pure but for those that write.
#ifndef FTAR_PERF_OUTPUT_H_
#define FTAR_PERF_OUTPUT_H_

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace ftar::perf {

// Where a run's results go; an empty path is no file.
struct ResultFiles {
  std::string json, csv, report;
};

// Never overwrites: NAME, then NAME.1, NAME.2, as nccl-tests does. Answers the name that it took;
// empty when nothing could be written.
std::string WriteNew(const std::string& path, const std::string& text);
// For what a browser shows again under the same name.
bool WriteOver(const std::string& path, const std::string& text);

// A line for each result and a column for each of its numbers and names; lists are left out. A
// column's name is the path to it, as out_of_place.bus_bw.
std::string ToCsv(const nlohmann::json& results);

// The report: one page that needs nothing else, with this document in it.
std::string ToPage(const nlohmann::json& document);

// Why one of them cannot be written, found out before anything is measured; empty: all can.
std::string WhyNotWritable(const ResultFiles& files);
// Answers the path that could not be written; empty: all were.
std::string WriteResults(const ResultFiles& files, const nlohmann::json& document);

}  // namespace ftar::perf

#endif  // FTAR_PERF_OUTPUT_H_
