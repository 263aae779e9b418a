#include "perf/kernel_table.h"

#include <errno.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>

#include "fmt/format.h"
#include "perf/options.h"
#include "perf/output.h"
#include "perf/process.h"

namespace ftar::perf {
namespace {

using nlohmann::json;

struct KernelOptions {
  bool quick = false;
  bool host_only = false;
  double seconds = 300;
  ResultFiles files;
};

// Prints each row as it comes; the whole output at the end.
std::string Follow(int fd) {
  std::string all;
  char buffer[4096];
  size_t shown = 0;
  for (ssize_t n = 0; (n = read(fd, buffer, sizeof(buffer))) > 0;) {
    all.append(buffer, static_cast<size_t>(n));
    for (size_t end = all.find('\n', shown); end != std::string::npos;
         end = all.find('\n', shown)) {
      const json row = json::parse(all.substr(shown, end - shown), nullptr, false);
      if (row.is_object() && row.contains("kernel")) std::puts(KernelRow(row).c_str());
      shown = end + 1;
    }
    std::fflush(stdout);
  }
  return all;
}

bool Measure(const KernelOptions& options, std::string* lines) {
  int read_fd = -1, write_fd = -1;
  if (!MakePipe(&read_fd, &write_fd)) return false;
  SpawnRequest request;
  request.arguments = {CompanionPath("ftar-kernels"), "--json", "--seconds",
                       fmt::format("{}", options.seconds)};
  if (options.quick) request.arguments.push_back("--quick");
  if (options.host_only) request.arguments.push_back("--host-only");
  request.stdout_fd = write_fd;
  const pid_t child = Spawn(request);
  close(write_fd);
  if (child > 0) *lines = Follow(read_fd);
  close(read_fd);
  int status = 0;
  if (child > 0) waitpid(child, &status, 0);
  return child > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

}  // namespace

std::string KernelHead() {
  return fmt::format(
      "# {:<22} {:<14} {:<7} {:>6} {:>9} {:>2} {:>8} {:>5} {:>10} {:>11} {:>9} {:>9} {:>8}",
      "where", "kernel", "type", "in>out", "grid", "U", "checksum", "cache", "bytes", "us",
      "touched", "result", "of copy");
}

std::string KernelRow(const json& row) {
  const int blocks = row.value("blocks", 0);
  const std::string grid =
      blocks == 0 ? "-" : fmt::format("{}x{}", blocks, row.value("threads", 0));
  const double of_copy = row.value("of_copy", 0.0);
  return fmt::format(
      "  {:<22.22} {:<14} {:<7} {:>6} {:>9} {:>2} {:>8} {:>5} {:>10} {:>11.2f} {:>9.2f} {:>9.2f} "
      "{:>8}",
      row.value("where", ""), row.value("kernel", ""), row.value("type", ""),
      fmt::format("{}>{}", row.value("sources", 0), row.value("destinations", 0)), grid,
      row.value("unroll", 0), row.value("checksum", false) ? "fused" : "", row.value("cache", ""),
      row.value("bytes", uint64_t{0}), row.value("us", 0.0), row.value("touched_gbs", 0.0),
      row.value("result_gbs", 0.0), of_copy > 0 ? fmt::format("{:.3f}", of_copy) : "-");
}

json KernelDocument(const std::string& lines) {
  json document = {{"kernels", true}, {"results", json::array()}};
  size_t from = 0;
  while (from < lines.size()) {
    const size_t end = std::min(lines.find('\n', from), lines.size());
    const json row = json::parse(lines.substr(from, end - from), nullptr, false);
    if (row.is_object() && row.contains("kernel")) document["results"].push_back(row);
    if (row.is_object() && row.contains("no_device")) document["no_device"] = row["no_device"];
    from = end + 1;
  }
  return document;
}

int RunKernels(int argc, const char* const* argv) {
  KernelOptions options;
  CLI::App app("ftar-perf kernels: bandwidth of the reduction and copy kernels, of host and GPU");
  app.add_flag("--quick", options.quick, "few rows and repeats");
  app.add_flag("--host-only", options.host_only, "leave the GPU alone");
  app.add_option("--seconds", options.seconds, "begin no GPU row after so many (300)");
  app.add_option("-J,--json", options.files.json, "write the rows to this file as well");
  app.add_option("--csv", options.files.csv, "write the rows to this file as a table");
  app.add_option("--report", options.files.report, "write a page with the rows to this file");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kExitOk : kExitUsage;
  }
  const std::string unwritable = WhyNotWritable(options.files);
  if (!unwritable.empty()) {
    std::fprintf(stderr, "ftar-perf: %s\n", unwritable.c_str());
    return kExitUsage;
  }
  std::puts(KernelHead().c_str());
  std::fflush(stdout);
  std::string lines;
  const bool measured = Measure(options, &lines);
  const json document = KernelDocument(lines);
  if (document.contains("no_device")) {
    std::printf("# no GPU rows: %s\n", document["no_device"].get<std::string>().c_str());
  }
  if (!measured) std::fprintf(stderr, "# ERROR: ftar-kernels failed\n");
  const std::string unwritten = WriteResults(options.files, document);
  if (!unwritten.empty()) std::fprintf(stderr, "# ERROR: cannot write %s\n", unwritten.c_str());
  return measured && unwritten.empty() ? kExitOk : kExitWrong;
}

}  // namespace ftar::perf
