// ftar-sim: whole jobs in simulation. `ftar-sim --seed N` runs one seed, `--seeds FROM:COUNT` many,
// `--replay N` tells the story.
#include <chrono>
#include <cstdio>
#include <string>

#include <CLI/CLI.hpp>

#include "mutants.h"
#include "world.h"

namespace {

int RunSeed(uint64_t seed, const std::string& changes, bool trace, uint64_t* faults) {
  ftar::sim::Weather weather;
  static_cast<void>(ftar::sim::WeatherOf(seed, changes, &weather));
  if (trace)
    std::printf("seed %llu: %s\n", static_cast<unsigned long long>(seed),
                ftar::sim::Describe(weather).c_str());
  ftar::sim::World world(seed, weather, trace);
  const std::string failure = world.Run();
  *faults += world.faults_injected();
  if (failure.empty()) return 0;
  const std::string more = changes.empty() ? "" : " --weather " + changes;
  std::printf("FAILED %s\n  replay: ftar-sim --replay %llu%s\n", failure.c_str(),
              static_cast<unsigned long long>(seed), more.c_str());
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Simulates whole libftar jobs: real machines, pretended wires, seeded faults."};
  uint64_t seed = 0, replay = 0;
  std::string seeds;
  int failures_max = 5;
  app.add_option("--seed", seed, "run one seed");
  app.add_option("--replay", replay, "run one seed and print every step of it");
  app.add_option("--seeds", seeds, "FROM:COUNT, run many");
  app.add_option("--failures", failures_max, "stop after so many failing seeds");
  bool mutants = false;
  ftar::sim::MutantSearch search;
  std::string mutant;
  app.add_flag("--mutants", mutants, "plant mistakes in the core, and look for each");
  app.add_option("--mutant", mutant, "plant this mistake; with --mutants look for it alone");
  app.add_option("-j", search.jobs, "with --mutants: processes side by side");
  app.add_flag("--markdown", search.markdown, "with --mutants: print docs/mutants.md");
  std::string weather;
  app.add_option("--weather", weather,
                 "NAME=VALUE,... changes what the seeds draw; or small, classic");
  CLI11_PARSE(app, argc, argv);
  ftar::sim::Weather unused;
  if (const std::string wrong = ftar::sim::WeatherOf(1, weather, &unused); !wrong.empty()) {
    std::fprintf(stderr, "ftar-sim: %s\n", wrong.c_str());
    return 2;
  }

  if (!mutant.empty() && !mutants) {
    const ftar::sim::PlantedMistake* mistake = ftar::sim::FindMistake(mutant);
    if (mistake == nullptr) {
      std::fprintf(stderr, "ftar-sim: no mutant of the name %s\n", mutant.c_str());
      return 2;
    }
    ftar::mutant_in_force = mistake->mutant;
  }
  uint64_t faults = 0;
  if (replay != 0) return RunSeed(replay, weather, true, &faults);
  uint64_t from = seed, count = 1;
  if (!seeds.empty()) {
    const size_t colon = seeds.find(':');
    from = std::stoull(seeds.substr(0, colon));
    count = colon == std::string::npos ? 1 : std::stoull(seeds.substr(colon + 1));
  }
  if (mutants) {
    search.only = mutant;
    if (!seeds.empty()) search.from = from, search.seeds = count;
    return ftar::sim::HuntMutants(search);
  }
  const auto begin = std::chrono::steady_clock::now();
  int failures = 0;
  uint64_t ran = 0;
  for (uint64_t i = 0; i < count && failures < failures_max; ++i, ++ran)
    failures += RunSeed(from + i, weather, false, &faults);
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  std::printf("%llu seeds, %llu faults, %d failed, %.1f s, %.0f faults a second\n",
              static_cast<unsigned long long>(ran), static_cast<unsigned long long>(faults),
              failures, seconds, static_cast<double>(faults) / seconds);
  return failures > 0 ? 1 : 0;
}
