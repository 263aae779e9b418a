// ftar-device-sim: the executors and the resident kernel over a simulated device, from seeds; and
// the planted mistakes of FTAR_DEVICE_MUTANT_LIST, each of which must make a seed fail.
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "base/mutant.h"
#include "world.h"

namespace ftar::device_sim {
namespace {

struct PlantedMistake {
  Mutant mutant;
  const char* name;
  const char* rule;
  const char* mistake;
};
constexpr PlantedMistake kMistakes[] = {
#define FTAR_MUTANT_ROW(name, rule, mistake) {Mutant::name, #name, rule, mistake},
    FTAR_DEVICE_MUTANT_LIST(FTAR_MUTANT_ROW)
#undef FTAR_MUTANT_ROW
};

struct Options {
  uint64_t from = 1, to = 2000;
  bool mutants = false;
  bool markdown = false;
  bool replay = false;
  const char* mutant = nullptr;
};

using Clock = std::chrono::steady_clock;

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

int RunSeeds(const Options& options) {
  World world;
  const auto start = Clock::now();
  int failures = 0;
  for (uint64_t seed = options.from; seed <= options.to && failures < 5; ++seed) {
    const std::string failure = world.Run(seed);
    if (options.replay) std::printf("%s\n", world.weather().Text().c_str());
    if (failure.empty()) continue;
    ++failures;
    std::printf("FAILED %s\n  replay: ftar-device-sim --replay %llu%s%s\n", failure.c_str(),
                static_cast<unsigned long long>(seed),
                options.mutant != nullptr ? " --mutant " : "",
                options.mutant != nullptr ? options.mutant : "");
  }
  const World::Reached& r = world.reached();
  const double seconds = SecondsSince(start);
  const auto runs = static_cast<double>(options.to - options.from + 1);
  std::printf(
      "%.0f seeds, %d failures; %llu plans, %llu launched, %llu batches, %llu aborts, %llu kernels "
      "launched again; %.0f runs a second, %.1f million steps a second\n",
      runs, failures, static_cast<unsigned long long>(r.plans),
      static_cast<unsigned long long>(r.launches), static_cast<unsigned long long>(r.batches),
      static_cast<unsigned long long>(r.aborts), static_cast<unsigned long long>(r.relaunches),
      runs / seconds, static_cast<double>(r.steps) / seconds / 1e6);
  return failures > 0 ? 1 : 0;
}

// What a child tells: it may die of its mistake.
struct Found {
  uint64_t seed = 0;  // 0: none
  char failure[200] = {};
};

[[noreturn]] void Hunt(const PlantedMistake& mistake, const Options& options, int pipe) {
  if (std::freopen("/dev/null", "w", stderr) == nullptr) std::fclose(stderr);
  mutant_in_force = mistake.mutant;
  World world;
  Found found;
  for (uint64_t seed = options.from; seed <= options.to; ++seed) {
    found.seed = seed;
    std::strcpy(found.failure, "crash: the program died of it");
    static_cast<void>(::pwrite(pipe, &found, sizeof found, 0));
    const std::string failure = world.Run(seed);
    if (failure.empty()) continue;
    std::snprintf(found.failure, sizeof found.failure, "%s", failure.c_str());
    static_cast<void>(::pwrite(pipe, &found, sizeof found, 0));
    _exit(0);
  }
  found.seed = 0;
  static_cast<void>(::pwrite(pipe, &found, sizeof found, 0));
  _exit(0);
}

Found Search(const PlantedMistake& mistake, const Options& options) {
  Found found;
  std::FILE* file = std::tmpfile();
  if (file == nullptr) return found;
  const pid_t child = fork();
  if (child == 0) Hunt(mistake, options, fileno(file));
  int status = 0;
  waitpid(child, &status, 0);
  if (::pread(fileno(file), &found, sizeof found, 0) != sizeof found) found = {};
  std::fclose(file);
  return found;
}

int HuntAll(const Options& options) {
  size_t found_count = 0;
  const auto start = Clock::now();
  if (options.markdown) {
    std::printf("| mutant | rule | the mistake | caught by | seeds |\n|---|---|---|---|---|\n");
  }
  for (const PlantedMistake& mistake : kMistakes) {
    const Found found = Search(mistake, options);
    found_count += found.seed > 0 ? 1 : 0;
    const std::string text = found.seed > 0 ? found.failure : "NOT FOUND";
    const std::string rule = text.substr(0, text.find(':'));
    const auto seeds = static_cast<unsigned long long>(
        found.seed > 0 ? found.seed - options.from + 1 : options.to - options.from + 1);
    if (options.markdown) {
      std::printf("| `%s` | %s | %s | %s | %llu |\n", mistake.name, mistake.rule, mistake.mistake,
                  rule.c_str(), seeds);
    } else {
      std::printf("%-24s %5llu  %s\n", mistake.name, seeds, text.c_str());
    }
  }
  if (!options.markdown) {
    std::printf("%zu mutants, %zu found, %.1f s\n", std::size(kMistakes), found_count,
                SecondsSince(start));
  }
  return found_count == std::size(kMistakes) ? 0 : 1;
}

bool Parse(int argc, char** argv, Options* options) {
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--mutants") {
      options->mutants = true;
    } else if (word == "--markdown") {
      options->markdown = true;
    } else if (word == "--seeds" && i + 1 < argc) {
      char* end = nullptr;
      options->from = std::strtoull(argv[++i], &end, 10);
      if (*end != ':') return false;
      options->to = std::strtoull(end + 1, nullptr, 10);
    } else if (word == "--replay" && i + 1 < argc) {
      options->from = options->to = std::strtoull(argv[++i], nullptr, 10);
      options->replay = true;
    } else if (word == "--mutant" && i + 1 < argc) {
      options->mutant = argv[++i];
    } else {
      return false;
    }
  }
  return options->from > 0 && options->from <= options->to;
}

int Main(int argc, char** argv) {
  Options options;
  if (!Parse(argc, argv, &options)) {
    std::fprintf(stderr,
                 "usage: ftar-device-sim [--seeds A:B | --replay SEED] [--mutant NAME]\n"
                 "       ftar-device-sim --mutants [--seeds A:B] [--markdown]\n");
    return 2;
  }
  if (options.mutants) return HuntAll(options);
  for (const PlantedMistake& mistake : kMistakes) {
    if (options.mutant != nullptr && std::strcmp(options.mutant, mistake.name) == 0) {
      mutant_in_force = mistake.mutant;
    }
  }
  if (options.mutant != nullptr && mutant_in_force == Mutant::kNone) {
    std::fprintf(stderr, "ftar-device-sim: there is no mutant %s\n", options.mutant);
    return 2;
  }
  return RunSeeds(options);
}

}  // namespace
}  // namespace ftar::device_sim

int main(int argc, char** argv) { return ftar::device_sim::Main(argc, argv); }
