#include "perf/output.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <vector>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "perf/report_page.h"

namespace ftar::perf {
namespace {

using nlohmann::json;
using Fields = std::map<std::string, std::string>;

constexpr const char* kFirstColumns[] = {"size", "count", "type", "redop", "root"};
constexpr std::string_view kDataMark = "@DATA@";

bool WriteAll(int fd, const std::string& text) {
  size_t done = 0;
  while (done < text.size()) {
    const ssize_t n = write(fd, text.data() + done, text.size() - done);
    if (n <= 0) return false;
    done += static_cast<size_t>(n);
  }
  return true;
}

void Flatten(const json& value, const std::string& path, Fields* fields) {
  if (value.is_object()) {
    for (const auto& [name, inner] : value.items())
      Flatten(inner, path.empty() ? name : path + "." + name, fields);
  } else if (value.is_string()) {
    (*fields)[path] = value.get<std::string>();
  } else if (!value.is_array()) {
    (*fields)[path] = value.dump();
  }
}

// Found out by a file that is there for a moment, unless it is there already and written over.
bool CanWrite(const std::string& path, bool over) {
  const std::string name = over ? path : fmt::format("{}.{}", path, getpid());
  const bool there = access(name.c_str(), F_OK) == 0;
  const int fd = open(name.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
  if (fd < 0) return false;
  close(fd);
  if (!there) unlink(name.c_str());
  return true;
}

std::string Quoted(const std::string& text) {
  if (text.find_first_of(",\"\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + "\"";
}

}  // namespace

std::string WriteNew(const std::string& path, const std::string& text) {
  for (int i = 0; i < 1000; ++i) {
    const std::string taken = i == 0 ? path : fmt::format("{}.{}", path, i);
    const int fd = open(taken.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (fd < 0 && errno == EEXIST) continue;
    const bool written = fd >= 0 && WriteAll(fd, text);
    if (fd >= 0) close(fd);
    return written ? taken : "";
  }
  return "";
}

bool WriteOver(const std::string& path, const std::string& text) {
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  const bool written = fd >= 0 && WriteAll(fd, text);
  if (fd >= 0) close(fd);
  return written;
}

std::string ToCsv(const json& results) {
  std::vector<Fields> rows;
  std::vector<std::string> columns(std::begin(kFirstColumns), std::end(kFirstColumns));
  for (const json& result : results) {
    Flatten(result, "", &rows.emplace_back());
    for (const auto& [name, value] : rows.back()) {
      if (std::find(columns.begin(), columns.end(), name) == columns.end()) columns.push_back(name);
    }
  }
  std::string text = fmt::format("{}\n", fmt::join(columns, ","));
  for (const Fields& row : rows) {
    std::vector<std::string> cells;
    for (const std::string& column : columns) {
      const auto field = row.find(column);
      cells.push_back(field == row.end() ? "" : Quoted(field->second));
    }
    text += fmt::format("{}\n", fmt::join(cells, ","));
  }
  return text;
}

std::string ToPage(const json& document) {
  std::string data = document.dump(-1, ' ', false, json::error_handler_t::replace);
  // What ends the script's element must not occur in it.
  for (size_t at = data.find('<'); at != std::string::npos; at = data.find('<', at))
    data.replace(at, 1, "\\u003c");
  std::string page(kReportPage);
  page.replace(page.find(kDataMark), kDataMark.size(), data);
  return page;
}

std::string WhyNotWritable(const ResultFiles& files) {
  for (const std::string* path : {&files.json, &files.csv, &files.report}) {
    if (!path->empty() && !CanWrite(*path, path == &files.report))
      return fmt::format("cannot write {}: {}", *path, std::strerror(errno));
  }
  return "";
}

std::string WriteResults(const ResultFiles& files, const json& document) {
  std::string failed;
  // A flag's value in another encoding is no reason to lose the results.
  const auto replace = json::error_handler_t::replace;
  if (!files.json.empty() &&
      WriteNew(files.json, document.dump(2, ' ', false, replace) + "\n").empty())
    failed = files.json;
  if (!files.csv.empty() && WriteNew(files.csv, ToCsv(document["results"])).empty())
    failed = files.csv;
  if (!files.report.empty() && !WriteOver(files.report, ToPage(document))) failed = files.report;
  return failed;
}

}  // namespace ftar::perf
