#include "tests/process/perf_run.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace process {

std::string PerfPath() {
  return std::filesystem::path(CoordinatorPath()).parent_path() / "ftar-perf";
}

Result RunPerf(Arguments arguments, const Variables& variables) {
  // Unique to this process, since tests run side by side, and to this run.
  static int runs = 0;
  const std::filesystem::path path =
      std::filesystem::temp_directory_path() /
      ("ftar_perf_test." + std::to_string(getpid()) + "." + std::to_string(runs++) + ".json");
  arguments.push_back("-J");
  arguments.push_back(path);
  Process perf(PerfPath(), arguments, variables);
  Result result;
  result.code = perf.WaitExit(45);
  result.text = perf.Output();
  result.errors = perf.Errors();
  std::ifstream file(path);
  if (file) result.report = nlohmann::json::parse(file, nullptr, /*allow_exceptions=*/false);
  std::filesystem::remove(path);
  return result;
}

}  // namespace process
