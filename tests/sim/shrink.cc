#include "shrink.h"

#include <cstdio>

#include "weather.h"
#include "world.h"

namespace ftar::sim {
namespace {

std::string InvariantOf(const std::string& failure) { return failure.substr(0, failure.find(':')); }

std::string FailureIn(uint64_t seed, const Weather& weather) {
  World world(seed, weather, /*trace=*/false);
  return world.Run();
}

// The same invariant must object; another failure is another story.
bool StillFails(uint64_t seed, const Weather& weather, const std::string& invariant) {
  return InvariantOf(FailureIn(seed, weather)) == invariant;
}

// One pass over the fields: each goes to its least, or halfway there, or one down. True if any did.
bool ShrinkOnce(uint64_t seed, const std::string& invariant, Weather* weather) {
  bool smaller = false;
  for (const WeatherField& field : WeatherFields()) {
    const int value = weather->*field.value;
    for (const int tried : {field.least, (value + field.least) / 2, value - 1}) {
      if (tried >= value || tried < field.least) continue;
      Weather candidate = *weather;
      candidate.*field.value = tried;
      if (!StillFails(seed, candidate, invariant)) continue;
      *weather = candidate;
      smaller = true;
      break;
    }
  }
  return smaller;
}

}  // namespace

int Shrink(uint64_t seed, const std::string& changes, const std::string& more) {
  Weather weather;
  static_cast<void>(WeatherOf(seed, changes, &weather));
  const std::string failure = FailureIn(seed, weather);
  if (failure.empty()) {
    std::printf("seed %llu does not fail\n", static_cast<unsigned long long>(seed));
    return 1;
  }
  const Weather drawn = DrawWeather(seed);
  while (ShrinkOnce(seed, InvariantOf(failure), &weather)) {
  }
  const std::string change = WeatherChanges(drawn, weather);
  std::printf("%s\nsmallest weather: %s\nreplay: ftar-sim%s --replay %llu%s%s\n",
              FailureIn(seed, weather).c_str(), Describe(weather).c_str(), more.c_str(),
              static_cast<unsigned long long>(seed), change.empty() ? "" : " --weather ",
              change.c_str());
  return 0;
}

}  // namespace ftar::sim
