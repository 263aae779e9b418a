// One run of ftar-perf to its end, with what it wrote.
#ifndef FTAR_TESTS_PROCESS_PERF_RUN_H_
#define FTAR_TESTS_PROCESS_PERF_RUN_H_

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/process/harness.h"

namespace process {

using Arguments = std::vector<std::string>;

std::string PerfPath();

struct Result {
  int code = -1;
  std::string text, errors;
  nlohmann::json report;  // the file of -J
};
Result RunPerf(Arguments arguments, const Variables& variables = {});

}  // namespace process

#endif  // FTAR_TESTS_PROCESS_PERF_RUN_H_
