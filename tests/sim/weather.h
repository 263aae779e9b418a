// The weather of a simulated job: how large it is, how fast, and what befalls it. A seed draws it;
// a test may change single fields, by name.
#ifndef FTAR_TESTS_SIM_WEATHER_H_
#define FTAR_TESTS_SIM_WEATHER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "base/ids.h"
#include "plan/role.h"

namespace ftar::sim {

struct Weather {
  int replicas = 3;
  int shards = 1;
  int min_replicas = 1;
  int ops = 20;          // to deliver after the last fault
  int ops_per_step = 0;  // 0: no step marks
  int strict = 0;        // steps share one participant set (rule V8)
  int window = 4;
  int delay_max_us = 1000;
  int work_delay_max_us = 0;
  int in_place = 0;
  int mismatch = 0;  // somebody calls something else once; 2: every fourth time
  int weights = 0;
  int acks_pass = 0;
  int skew = 0;   // some links are much slower than others
  int eager = 0;  // users begin a step while operations of the one before are under way
  int doubts = 0;  // users take back that they begin a step which does not begin, and ask later
  // What befalls it, and how often.
  int kills = 0;
  int stops = 0;  // a process stands still for a while
  int hangs = 0;  // or for good
  int joins = 0, leaves = 0;
  int cuts = 0;       // a link fails for good, both ends live
  int one_way = 0;    // cuts strike one direction only
  int flaps = 0;      // a link fails and comes back soon
  int hiccups = 0;    // a member loses its coordinator and comes back
  int blackouts = 0;  // all do at once: it is the coordinator's side (rule Q7)
  int sparing = 0;    // but half of the members keep theirs, where newcomers make up for them
  int coordinator_restarts = 0;
  int record = 0;      // the coordinator has a disk for what its successor must know
  int strandings = 0;  // one who was evicted and not told is back first, the others are far away
  int aborts = 0;      // members that give up by themselves, most of them early (rule Q8)
  int ambushes = 0;  // deaths and restarts right behind a word of the coordinator: inside a change
  int resets = 1;    // connections to the coordinator that are cut end by resets, half of them
  int relays = 0;    // so many shards of a replica stand behind one; 0: there are none
  int relay_losses = 0;   // a relay is lost, its members live (rule Q7)
  int relay_stops = 0;    // or stands still for a while
  int relay_tops = 0;     // so many relays of a replica stand behind another one; 0: behind none
  int hosted = 0;         // members coordinate by turns (rule Q5)
  int partitions = 0;     // hosted: some do not reach the others for a while
  int echoes = 0;         // its Prepares and Installs may arrive again, much later (rules Q2, V10)
  int lends = 0;          // payload stays in its sender's memory until it is read (rule F1)
  int crashes = 0;        // some never get what was on its way to them from one who dies
  int late_installs = 0;  // an Install comes late to one member, often too late: a restart, a death
  int cutoffs = 0;        // nobody reaches the coordinator for longer than `timeout` (rule Q7)
  int lanes = 0;  // small operations go through shared memory (rule F4); 2: some do not see others
  int alike = 0;  // and their users call mostly the same, one after the other, and look for long

  int cores = 0;  // of the one host of all; fewer than members: few messages (design 8)
  int fades = 0;  // who is first in the list clogs towards some, and dies; and who comes after it
  int broadcasts = 0;  // of 20 operations so many more
  // Aimed at what members do (aims.cc).
  int laggards = 0;        // of 16 calls of a member so many come late
  int clogs = 0;           // a word between members is late, and what comes behind it
  int failure_deaths = 0;  // who delivers a failure dies
  int plan_strikes = 0;    // deaths, stops and hiccups behind a word of a planned change
  int urgent = 0;          // a second group whose data passes the first one's on every wire
  int lands = 0;           // results arrive bit by bit where they belong; 2: and stall on the way

  int pieces = 0;  // operations are cut by how many members they begin with (rule F5)
  int wires = 0;   // what wires cost is known, and no two cost the same (design 8)

  // Members come and go as they please, and that is all.
  bool harmless() const {
    return kills + stops + hangs + cuts + flaps + hiccups + blackouts + coordinator_restarts +
               strandings + aborts + ambushes + relay_losses + relay_stops + partitions +
               late_installs + cutoffs + fades + clogs + failure_deaths + plan_strikes ==
           0;
  }
};

Weather DrawWeather(uint64_t seed);
// As it was before newer fields came: what the seeds of older regression tests mean.
Weather DrawClassicWeather(uint64_t seed);
// Puts relays between; a weather of its own, so that seeds mean what they did.
void DrawRelays(uint64_t seed, Weather* weather);
std::string Describe(const Weather& weather);

// The fields by name, in the order above.
struct WeatherField {
  const char* name;
  int Weather::*value;
  int least;  // what shrinking tries to come down to
};
const std::vector<WeatherField>& WeatherFields();

// What a seed brings, changed by "name=value,...". Some words stand for more: "classic" as
// above, "small" for a world of at most three members, "behind" for one with relays. An error text
// if it is not understood.
std::string WeatherOf(uint64_t seed, const std::string& changes, Weather* weather);
// The changes that lead from one to the other.
std::string WeatherChanges(const Weather& from, const Weather& to);

}  // namespace ftar::sim

#endif  // FTAR_TESTS_SIM_WEATHER_H_
