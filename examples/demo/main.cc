// ftar-demo: four replicas train while one is killed, one is stopped, one joins and one leaves;
// then proves that nothing was lost.
//
// It starts ftar-coordinator and ftar-trainer from its own folder on loopback, strikes from
// outside, and reads the trainers' logs. At the end it prints what failed, who noticed and how, and
// who took part in each step, and checks that training never stopped, no step is missing, and all
// replicas held the same bits after every step. Exit status 0 only if every check holds.
// Single-threaded; children die with it; nothing here waits without a deadline.
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "report.h"
#include "run.h"

namespace demo {
namespace {

constexpr unsigned kWatchdogSeconds = 240;

// The last resort, should even this program stand still: its children die with it.
void OnAlarm(int) {
  static const char kText[] = "ftar-demo: the watchdog ended a run that did not end by itself\n";
  if (write(STDERR_FILENO, kText, sizeof kText - 1) < 0) _exit(125);
  _exit(124);
}

int Main(int argc, char** argv) {
  std::string logs;
  int64_t timeout_ns = 2 * kSecond;
  const bool help = argc == 2 && (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h"));
  bool known = argc % 2 == 1;
  for (int i = 1; known && i < argc; i += 2) {
    if (strcmp(argv[i], "--logs") == 0) {
      logs = argv[i + 1];
    } else if (strcmp(argv[i], "--timeout-ms") == 0) {
      timeout_ns = std::atoll(argv[i + 1]) * kMillisecond;
    } else {
      known = false;
    }
  }
  if (!known || timeout_ns < 100 * kMillisecond) {
    fprintf(
        help ? stdout : stderr,
        "usage: %s [--logs FOLDER] [--timeout-ms N]\n"
        "Four replicas train; one is killed, one stopped, one joins, one leaves. N is the job's\n"
        "timeout, 2000 by default and 100 at least. Exit status 0: every check holds.\n",
        argv[0]);
    return help ? 0 : 2;
  }
  char made[] = "/tmp/ftar-demo-XXXXXX";
  if (logs.empty()) logs = mkdtemp(made) ? made : "";
  mkdir(logs.c_str(), 0755);
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGALRM, OnAlarm);
  alarm(kWatchdogSeconds);

  Run run(logs, timeout_ns);
  std::string failure;
  try {
    run.Play();
  } catch (const std::exception& error) {
    failure = error.what();
  }
  const bool ok = Report(run, failure.empty());
  if (!failure.empty()) printf("\nThe demo could not go on: %s\n", failure.c_str());
  printf("\n%s; logs in %s\n", ok ? "All checks hold" : "FAILED", run.logs().c_str());
  return ok ? 0 : 1;
}

}  // namespace
}  // namespace demo

int main(int argc, char** argv) { return demo::Main(argc, argv); }
