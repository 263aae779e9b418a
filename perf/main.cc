// ftar-perf: measures libftar's collectives and proves their results, with nccl-tests' flags and
// table.
#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

#include "perf/kernel_table.h"
#include "perf/launcher.h"
#include "perf/options.h"
#include "perf/rank.h"

namespace {

// Where a standard stream is closed, the next file would take its number, and the table's lines
// would go into that: into memory that the ranks share, or a coordinator's pipe.
void KeepStandardNumbers() {
  int fd = open("/dev/null", O_RDWR);
  while (fd >= 0 && fd <= STDERR_FILENO) fd = open("/dev/null", O_RDWR);
  if (fd >= 0) close(fd);
}

}  // namespace

int main(int argc, char** argv) {
  KeepStandardNumbers();
  if (argc > 1 && std::strcmp(argv[1], "kernels") == 0) {
    return ftar::perf::RunKernels(argc - 1, argv + 1);
  }
  const ftar::perf::ParseResult parsed = ftar::perf::ParseOptions(argc, argv);
  if (!parsed.run) {
    std::fputs(parsed.text.c_str(), parsed.exit_code == 0 ? stdout : stderr);
    return parsed.exit_code;
  }
  const ftar::perf::Options& options = parsed.options;
  // A process that the launcher started has a rank already, whatever else its command line says.
  if (!options.role.report_fds.empty()) return ftar::perf::RunThreads(options);
  if (options.role.index < 0 && options.ranks > 0) {
    return ftar::perf::RunLauncher(options, {argv + 1, argv + argc});
  }
  return ftar::perf::RunRank(options);
}
