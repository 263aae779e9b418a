#include "weather.h"

#include <algorithm>
#include <sstream>

#include "random.h"

namespace ftar::sim {

namespace {

void DrawNewerWeather(Random* dice, Weather* weather) {
  const auto one_in = [dice](uint64_t chances) { return dice->Below(chances) == 0; };
  weather->ambushes = one_in(2) ? static_cast<int>(dice->Between(1, 4)) : 0;
  weather->flaps = one_in(4) ? static_cast<int>(dice->Between(1, 3)) : 0;
  weather->hiccups = one_in(6) ? static_cast<int>(dice->Between(1, 2)) : 0;
  weather->blackouts = one_in(8) ? 1 : 0;
  weather->hangs = one_in(8) ? 1 : 0;
  weather->echoes = one_in(4) ? 1 : 0;
  weather->one_way = one_in(2) ? 1 : 0;
  weather->strict = one_in(4) ? 1 : 0;
  weather->min_replicas = one_in(6) ? std::min(2, weather->replicas) : 1;
  if (one_in(8)) weather->work_delay_max_us = 20'000;
  if (one_in(8)) weather->coordinator_restarts += 1;
  weather->skew = one_in(3) ? 1 : 0;
  // Who leaves in the middle of a step that others have finished may wait for ever; not drawn.
  weather->eager = one_in(3) && weather->leaves == 0 ? 1 : 0;
  weather->record = one_in(2) ? 1 : 0;
  // Without a record the coordinator believes whoever is back; not drawn.
  weather->strandings = one_in(4) && weather->record ? 1 : 0;
  weather->hosted = one_in(5) ? 1 : 0;
  weather->partitions = one_in(2) ? static_cast<int>(dice->Between(1, 3)) : 0;
  weather->lends = one_in(2) ? 1 : 0;
  weather->lanes = one_in(2) ? static_cast<int>(dice->Between(1, 2)) : 0;
  weather->cores = one_in(3) ? static_cast<int>(dice->Between(1, 4)) : 0;
  weather->lands = one_in(2) ? 1 : 0;
  weather->pieces = one_in(2) ? 1 : 0;
  weather->wires = one_in(2) ? 1 : 0;
}

// What came later is drawn later, so that a seed's older part stays what it was.
Weather Draw(uint64_t seed, bool newer) {
  Random dice(seed * 2654435761u + 17);
  Weather weather;
  weather.replicas = static_cast<int>(dice.Between(1, 5));
  weather.shards = dice.Below(5) == 0 ? 2 : 1;
  weather.ops = static_cast<int>(dice.Between(3, 12));
  weather.ops_per_step = dice.Below(2) == 0 ? 0 : static_cast<int>(dice.Between(1, 6));
  weather.window = static_cast<int>(dice.Between(1, 6));
  weather.delay_max_us = static_cast<int>(dice.Below(3) == 0 ? 5000 : dice.Between(20, 1000));
  weather.work_delay_max_us = static_cast<int>(dice.Below(2) == 0 ? 0 : dice.Between(1, 500));
  const auto some = [&dice](int most) {
    return dice.Below(2) == 0 ? 0 : static_cast<int>(dice.Between(1, most));
  };
  weather.kills = some(3);
  weather.stops = some(2);
  weather.joins = some(3);
  weather.leaves = some(2);
  weather.cuts = some(2);
  weather.coordinator_restarts = dice.Below(4) == 0 ? 1 : 0;
  weather.in_place = dice.Below(2) == 0 ? 1 : 0;
  weather.mismatch = dice.Below(8) == 0 ? 1 : 0;
  weather.weights = dice.Below(3) == 0 ? 1 : 0;
  weather.aborts = dice.Below(6) == 0 ? 1 : 0;
  weather.acks_pass = dice.Below(2) == 0 ? 1 : 0;
  if (newer) DrawNewerWeather(&dice, &weather);
  return weather;
}

}  // namespace

void DrawRelays(uint64_t seed, Weather* weather) {
  Random dice(seed * 2654435761u + 71);
  weather->shards = static_cast<int>(dice.Between(1, 3));
  weather->relays = static_cast<int>(dice.Between(1, 3));
  weather->relay_losses = dice.Below(2) == 0 ? 0 : static_cast<int>(dice.Between(1, 3));
}

Weather DrawWeather(uint64_t seed) { return Draw(seed, /*newer=*/true); }
Weather DrawClassicWeather(uint64_t seed) { return Draw(seed, /*newer=*/false); }

const std::vector<WeatherField>& WeatherFields() {
  static const std::vector<WeatherField> fields = {
      {"replicas", &Weather::replicas, 1},
      {"shards", &Weather::shards, 1},
      {"min_replicas", &Weather::min_replicas, 1},
      {"ops", &Weather::ops, 1},
      {"ops_per_step", &Weather::ops_per_step, 0},
      {"strict", &Weather::strict, 0},
      {"window", &Weather::window, 1},
      {"delay_max_us", &Weather::delay_max_us, 20},
      {"work_delay_max_us", &Weather::work_delay_max_us, 0},
      {"in_place", &Weather::in_place, 0},
      {"mismatch", &Weather::mismatch, 0},
      {"weights", &Weather::weights, 0},
      {"acks_pass", &Weather::acks_pass, 0},
      {"skew", &Weather::skew, 0},
      {"eager", &Weather::eager, 0},
      {"doubts", &Weather::doubts, 0},
      {"kills", &Weather::kills, 0},
      {"stops", &Weather::stops, 0},
      {"hangs", &Weather::hangs, 0},
      {"joins", &Weather::joins, 0},
      {"leaves", &Weather::leaves, 0},
      {"cuts", &Weather::cuts, 0},
      {"one_way", &Weather::one_way, 0},
      {"flaps", &Weather::flaps, 0},
      {"hiccups", &Weather::hiccups, 0},
      {"blackouts", &Weather::blackouts, 0},
      {"sparing", &Weather::sparing, 0},
      {"coordinator_restarts", &Weather::coordinator_restarts, 0},
      {"record", &Weather::record, 0},
      {"strandings", &Weather::strandings, 0},
      {"aborts", &Weather::aborts, 0},
      {"ambushes", &Weather::ambushes, 0},
      {"hosted", &Weather::hosted, 0},
      {"partitions", &Weather::partitions, 0},
      {"echoes", &Weather::echoes, 0},
      {"lends", &Weather::lends, 0},
      {"crashes", &Weather::crashes, 0},
      {"late_installs", &Weather::late_installs, 0},
      {"cutoffs", &Weather::cutoffs, 0},
      {"lanes", &Weather::lanes, 0},
      {"alike", &Weather::alike, 0},
      {"cores", &Weather::cores, 0},
      {"lands", &Weather::lands, 0},
      {"pieces", &Weather::pieces, 0},
      {"wires", &Weather::wires, 0},
      {"fades", &Weather::fades, 0},
      {"broadcasts", &Weather::broadcasts, 0},
      {"laggards", &Weather::laggards, 0},
      {"clogs", &Weather::clogs, 0},
      {"failure_deaths", &Weather::failure_deaths, 0},
      {"plan_strikes", &Weather::plan_strikes, 0},
      {"resets", &Weather::resets, 0},
      {"relays", &Weather::relays, 0},
      {"relay_losses", &Weather::relay_losses, 0},
      {"relay_stops", &Weather::relay_stops, 0},
      {"relay_tops", &Weather::relay_tops, 0},
      {"urgent", &Weather::urgent, 0},
  };
  return fields;
}

std::string Describe(const Weather& weather) {
  std::string out;
  for (const WeatherField& field : WeatherFields()) {
    const int value = weather.*field.value;
    if (value != 0)
      out += (out.empty() ? "" : ", ") + std::string(field.name) + " " + std::to_string(value);
  }
  return out;
}

std::string WeatherOf(uint64_t seed, const std::string& changes, Weather* weather) {
  *weather = DrawWeather(seed);
  std::istringstream words(changes);
  for (std::string word; std::getline(words, word, ',');) {
    if (word == "classic") {
      *weather = DrawClassicWeather(seed);
      continue;
    }
    if (word == "behind") {
      DrawRelays(seed, weather);
      continue;
    }
    if (word == "small") {
      weather->replicas = std::min(weather->replicas, 3);
      weather->shards = 1;
      continue;
    }
    const size_t equals = word.find('=');
    const auto& fields = WeatherFields();
    const auto field = std::find_if(fields.begin(), fields.end(), [&](const WeatherField& one) {
      return word.substr(0, equals) == one.name;
    });
    if (equals == std::string::npos || field == fields.end()) return "no weather like " + word;
    weather->*field->value = std::atoi(word.c_str() + equals + 1);
  }
  // Relays lead to a coordinator that is a process of its own.
  if (weather->relays > 0) weather->hosted = weather->partitions = 0;
  return "";
}

std::string WeatherChanges(const Weather& from, const Weather& to) {
  std::string out;
  for (const WeatherField& field : WeatherFields()) {
    if (from.*field.value == to.*field.value) continue;
    out +=
        (out.empty() ? "" : ",") + std::string(field.name) + "=" + std::to_string(to.*field.value);
  }
  return out;
}

}  // namespace ftar::sim
