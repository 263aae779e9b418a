// ftar-sim: whole jobs in simulation.
//   ftar-sim --seed N              one seed
//   ftar-sim --seeds FROM:COUNT    many; a failing one prints the line that replays it
//   ftar-sim --replay N            one seed, and every step of it
//   ftar-sim --shrink N            the smallest weather in which a failing seed still fails
//   ftar-sim --story FILE          plays a story, and prints every step of it
//   ftar-sim --stories DIR         plays all stories of a directory
//   ftar-sim --explore FILE|DIR    plays such stories in every order of their events
//   ftar-sim --mutants             plants mistakes in the core, and looks for each
#include <cstdio>
#include <ctime>
#include <string>

#include <CLI/CLI.hpp>

#include "mutants.h"
#include "shrink.h"
#include "story/explorer.h"
#include "story/stories.h"
#include "world.h"

namespace {

using ftar::sim::Weather;

struct Options {
  uint64_t seed = 0, replay = 0, shrink = 0;
  std::string seeds, weather, mutant, story, stories, explore;
  int failures_max = 5;
  uint64_t orders_max = 2'000'000;
  bool mutants = false;
  ftar::sim::MutantSearch search;
};

// What a replay of this run needs to be told besides the seed.
std::string Circumstances(const Options& options) {
  std::string out;
  if (!options.mutant.empty()) out += " --mutant " + options.mutant;
  if (!options.weather.empty()) out += " --weather " + options.weather;
  return out;
}

int RunSeed(const Options& options, uint64_t seed, bool trace, uint64_t* faults) {
  Weather weather;
  static_cast<void>(ftar::sim::WeatherOf(seed, options.weather, &weather));
  const auto number = static_cast<unsigned long long>(seed);
  if (trace) std::printf("seed %llu: %s\n", number, ftar::sim::Describe(weather).c_str());
  ftar::sim::World world(seed, weather, trace);
  const std::string failure = world.Run();
  *faults += world.faults_injected();
  if (failure.empty()) return 0;
  std::printf("FAILED %s\n  replay: ftar-sim --replay %llu%s\n", failure.c_str(), number,
              Circumstances(options).c_str());
  return 1;
}

// Speed is per core, so it counts processor time: others may be at work on this machine.
int RunSeeds(const Options& options, uint64_t from, uint64_t count) {
  const std::clock_t begin = std::clock();
  int failures = 0;
  uint64_t ran = 0, faults = 0;
  for (; ran < count && failures < options.failures_max; ++ran)
    failures += RunSeed(options, from + ran, /*trace=*/false, &faults);
  const double seconds = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
  std::printf("%llu seeds, %llu faults, %d failed, %.1f s, %.0f faults a second and core\n",
              static_cast<unsigned long long>(ran), static_cast<unsigned long long>(faults),
              failures, seconds, static_cast<double>(faults) / seconds);
  return failures > 0 ? 1 : 0;
}

void Declare(CLI::App* app, Options* options) {
  app->add_option("--seed", options->seed, "run one seed");
  app->add_option("--seeds", options->seeds, "FROM:COUNT, run many");
  app->add_option("--failures", options->failures_max, "stop after so many failing seeds");
  app->add_option("--replay", options->replay, "run one seed and print every step of it");
  app->add_option("--shrink", options->shrink, "find the smallest weather in which it fails");
  app->add_option("--weather", options->weather,
                  "NAME=VALUE,... changes what a seed draws; or small, or classic");
  app->add_option("--story", options->story, "play a story and print every step of it");
  app->add_option("--stories", options->stories,
                  "play all stories of a directory; with --mutants look by them too");
  app->add_option("--explore", options->explore,
                  "play a story, or those of a directory, in every order of its events");
  app->add_option("--orders", options->orders_max, "with --explore: give up after so many");
  app->add_flag("--mutants", options->mutants, "plant mistakes in the core, and look for each");
  app->add_option("--mutant", options->mutant, "plant this one; with --mutants look for it alone");
  app->add_option("--record", options->search.record,
                  "with --mutants: docs/mutants.md; what found each then is tried first");
  app->add_option("-j", options->search.jobs, "with --mutants: processes side by side");
  app->add_flag("--by-story", options->search.by_story,
                "with --mutants and --stories: print docs/stories.md");
  app->add_flag("--markdown", options->search.markdown, "with --mutants: print docs/mutants.md");
}

int Complain(const std::string& what) {
  std::fprintf(stderr, "ftar-sim: %s\n", what.c_str());
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Simulates whole libftar jobs: real machines, pretended wires, seeded faults."};
  Options options;
  Declare(&app, &options);
  CLI11_PARSE(app, argc, argv);
  Weather unused;
  if (const std::string wrong = ftar::sim::WeatherOf(1, options.weather, &unused); !wrong.empty())
    return Complain(wrong);
  uint64_t from = options.seed, count = 1;
  if (!options.seeds.empty()) {
    const size_t colon = options.seeds.find(':');
    from = std::stoull(options.seeds.substr(0, colon));
    if (colon != std::string::npos) count = std::stoull(options.seeds.substr(colon + 1));
  }
  const ftar::sim::PlantedMistake* mistake = ftar::sim::FindMistake(options.mutant);
  if (!options.mutant.empty() && mistake == nullptr)
    return Complain("no mutant of the name " + options.mutant);
  if (options.mutants) {
    options.search.only = options.mutant;
    options.search.stories = options.stories;
    if (!options.seeds.empty()) options.search.from = from, options.search.seeds = count;
    return ftar::sim::HuntMutants(options.search);
  }
  if (mistake != nullptr) ftar::mutant_in_force = mistake->mutant;
  if (!options.story.empty()) return ftar::sim::PlayStories(options.story, /*trace=*/true);
  if (!options.stories.empty()) return ftar::sim::PlayStories(options.stories, /*trace=*/false);
  if (!options.explore.empty())
    return ftar::sim::ExploreStories(options.explore, options.orders_max);
  uint64_t faults = 0;
  if (options.replay != 0) return RunSeed(options, options.replay, /*trace=*/true, &faults);
  if (options.shrink != 0) {
    const std::string more = options.mutant.empty() ? "" : " --mutant " + options.mutant;
    return ftar::sim::Shrink(options.shrink, options.weather, more);
  }
  return RunSeeds(options, from, count);
}
