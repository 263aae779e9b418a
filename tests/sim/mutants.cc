#include "mutants.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <regex>
#include <string_view>
#include <thread>
#include <utility>

#include "story/stories.h"
#include "world.h"

namespace ftar::sim {
namespace {

constexpr int kSeedSeconds = 5;  // of processor time; then it hangs
constexpr size_t kStoriesMax = 1000;
constexpr uint64_t kChildBytes = 4ull << 30;  // of address space

// What a child tells, in memory that outlives it: it may be killed by its own mistake.
struct Trail {
  uint64_t seed = 0;  // the one that runs, or the one that failed
  uint64_t tried = 0;
  bool by_record = false;  // it is the one of MutantSearch::record
  bool failed = false;
  bool ended = false;
  char failure[400] = {};
  size_t story = 0;  // the one that is played
  bool fails[kStoriesMax] = {};
};

struct Found {
  bool found = false;
  uint64_t seed = 0, tried = 0;
  bool by_record = false;
  std::string caught_by, failure;
  std::vector<std::string> stories;  // that fail by it
};

struct NamedStory {
  std::string name;
  Story story;
};

void LimitChild() {
  rlimit limit{kChildBytes, kChildBytes};
  setrlimit(RLIMIT_AS, &limit);
  limit = {0, 0};
  setrlimit(RLIMIT_CORE, &limit);
  // What a mutated machine complains of on its way down is of no interest.
  if (std::freopen("/dev/null", "w", stderr) == nullptr) std::fclose(stderr);
}

void SetAlarm(int seconds) {
  itimerval timer{};
  timer.it_value.tv_sec = seconds;
  setitimer(ITIMER_PROF, &timer, nullptr);
}

// The weather to look in for mistakes that are made only where there are relays, or where members
// coordinate by turns, or that need more of something than is drawn. Without it those seeds are
// clean (FailsAnyway).
struct Where {
  Mutant mistake;
  const char* weather;
};
constexpr const char* kHandOvers =
    "hosted=1,shards=1,leaves=2,kills=0,stops=0,hangs=0,aborts=0,cuts=0,partitions=0,"
    "coordinator_restarts=0,ambushes=0,blackouts=0,hiccups=0,strandings=0,flaps=0";
// Two processes a replica: what one of them knows, or does, the other need not.
constexpr const char* kHostedPairs =
    "hosted=1,replicas=4,shards=2,joins=3,leaves=3,partitions=3,kills=3,stops=3";
// Who is first in the list clogs and dies while members come, and so does who comes after it.
constexpr const char* kFades =
    "replicas=2,joins=3,fades=3,hosted=0,kills=0,stops=0,cuts=0,leaves=0,ambushes=0,aborts=0,"
    "mismatch=0,strandings=0,coordinator_restarts=0,ops_per_step=1,delay_max_us=5000";
// Calls that differ, members that come, go and die, and much of what is said comes late.
constexpr const char* kStrikes =
    "ops_per_step=1,eager=1,joins=3,leaves=2,kills=3,ambushes=4,late_installs=3,clogs=6,"
    "plan_strikes=4,hosted=0,record=1,replicas=4,mismatch=2";
constexpr Where kWhere[] = {
    {Mutant::kGoneWithAllLost,
     "ops_per_step=1,eager=1,joins=3,leaves=2,kills=3,ambushes=4,late_installs=3,clogs=6,"
     "plan_strikes=4,hosted=0,record=1,replicas=4,resets=0"},
    {Mutant::kHandsOverUnheld,
     "hosted=1,shards=1,leaves=2,joins=2,replicas=3,kills=0,stops=0,hangs=0,aborts=0,cuts=0,"
     "partitions=0,coordinator_restarts=0,ambushes=0,blackouts=0,hiccups=0,strandings=0,flaps=0,"
     "skew=1,delay_max_us=5000,lanes=0,window=1"},
    {Mutant::kLeavesUnreplaced, kHandOvers},
    {Mutant::kGoodbyesUnawaited,
     "shards=2,replicas=2,hosted=1,leaves=2,kills=0,stops=0,hangs=0,aborts=0,cuts=0,partitions=0,"
     "coordinator_restarts=0,ambushes=0,blackouts=0,hiccups=0,strandings=0,flaps=0"},
    {Mutant::kRelayStillCounts,
     "behind,relay_losses=0,relay_stops=3,flaps=0,cuts=0,coordinator_restarts=0,resets=0,skew=0,"
     "delay_max_us=1000"},
    {Mutant::kRelayHidesTheLast, "relays=2,shards=2,relay_losses=2,coordinator_restarts=1"},
    {Mutant::kRelayMissesHolders, "relays=2,shards=2,hangs=1,hosted=0"},
    {Mutant::kRelayPreparedUntold, "relays=1,shards=1,relay_losses=3,hosted=0"},
    {Mutant::kLateRosterUntold,
     "hiccups=4,relays=2,relay_losses=2,coordinator_restarts=2,hosted=0,record=1"},
    {Mutant::kOldTermStands,
     "ops_per_step=3,leaves=2,joins=3,ambushes=6,relays=2,shards=1,coordinator_restarts=1,"
     "hosted=0"},
    {Mutant::kViewlessInChange,
     "relays=2,shards=2,relay_losses=3,joins=3,ambushes=4,coordinator_restarts=1,resets=0"},
    {Mutant::kRelayToldUnsaid,
     "ops_per_step=3,joins=3,ambushes=6,relays=2,shards=1,coordinator_restarts=1,hosted=0,"
     "record=0"},
    {Mutant::kLateInstallUnasked, "relays=1,shards=2,relay_losses=2,coordinator_restarts=1"},
    {Mutant::kUpperRelayStays,
     "relays=1,relay_tops=2,shards=4,relay_losses=3,replicas=3,delay_max_us=500,skew=0,ops=3,"
     "mismatch=0,record=1"},
    {Mutant::kRelayMixesLives, "relays=2,shards=2,relay_losses=2"},
    {Mutant::kLaneSharedScanned,
     "lanes=1,hosted=0,cores=0,skew=1,delay_max_us=100,in_place=0,ambushes=4,kills=2,cuts=3"},
    {Mutant::kLaneWordIsTheHubs, "cores=1,lanes=1,hosted=0"},
    {Mutant::kPromisedElsewhere,
     "hosted=1,replicas=4,shards=1,joins=3,leaves=2,partitions=3,kills=3,stops=3"},
    {Mutant::kMeetingForgotten,
     "hosted=1,replicas=4,shards=1,joins=3,leaves=2,partitions=3,kills=3,wires=0"},
    {Mutant::kCutOffIsDeath,
     "cutoffs=1,hosted=0,coordinator_restarts=0,ambushes=0,blackouts=0,hiccups=0,strandings=0,"
     "leaves=0,joins=0"},
    {Mutant::kSalvageMixesAttempts,
     "replicas=5,crashes=1,late_installs=3,kills=2,skew=1,hosted=0,leaves=0,joins=0,cuts=0,"
     "aborts=0,mismatch=0"},
    {Mutant::kEndsInHaste,
     "replicas=1,shards=3,cutoffs=1,hosted=0,leaves=0,joins=0,kills=0,stops=0,cuts=0"},
    {Mutant::kMarksAheadForgotten,
     "eager=1,leaves=2,hosted=0,ops_per_step=1,window=5,kills=3,joins=3,partitions=3"},
    {Mutant::kLeaversCallsAwaited, "eager=1,leaves=2,hosted=0"},
    {Mutant::kOwnBoundsAlone,
     "ops_per_step=1,eager=1,joins=3,leaves=2,kills=3,ambushes=4,late_installs=3,clogs=6,"
     "plan_strikes=4,hosted=0,record=1,replicas=4,doubts=1,coordinator_restarts=1"},
    {Mutant::kQueuedCallsVoid, kStrikes},
    {Mutant::kVoidMarkBack, kStrikes},
    {Mutant::kRootBeginsBefore,
     "replicas=3,ops=1,ops_per_step=1,strict=0,kills=3,joins=4,leaves=3,record=0,ambushes=2,"
     "late_installs=2,cores=0,wires=0,broadcasts=1,clogs=6,plan_strikes=4,urgent=1"},
    {Mutant::kUntoldStepIsFirst, "eager=1,leaves=2,hosted=0,joins=3,kills=3,window=1"},
    {Mutant::kHeardAgainAlone, "hosted=1,joins=3,hiccups=5,kills=0,leaves=0"},
    {Mutant::kDeadTakenBack,
     "record=1,replicas=2,shards=2,min_replicas=2,coordinator_restarts=2,kills=1"},
    {Mutant::kAnnouncedMoved,
     "replicas=3,shards=2,min_replicas=3,cuts=3,coordinator_restarts=2,stops=2,hosted=0,"
     "blackouts=0"},
    {Mutant::kRelayNewcomersStay, "relays=2,shards=2,relay_losses=2,joins=2"},
    {Mutant::kTroubleIsOver,
     "replicas=2,shards=2,blackouts=3,coordinator_restarts=2,record=1,hosted=0,leaves=0,joins=0,"
     "kills=0,stops=0,cuts=0"},
    {Mutant::kLinkBackUntold,
     "hosted=1,replicas=4,shards=1,partitions=3,joins=3,leaves=0,kills=0,stops=0,"
     "coordinator_restarts=0"},
    {Mutant::kLedAsleep,
     "hosted=1,replicas=4,shards=1,partitions=3,kills=3,stops=3,coordinator_restarts=2,joins=2,"
     "leaves=0,cuts=0,ambushes=3,min_replicas=1"},
    {Mutant::kFramesBesideLane,
     "lanes=1,hosted=0,replicas=3,stops=0,ambushes=0,hiccups=0,skew=1,ops_per_step=3,eager=0,"
     "aborts=1,hangs=1,mismatch=0,late_installs=3,plan_strikes=0"},
    {Mutant::kOutUnflagged,
     "lanes=1,hosted=0,ambushes=4,delay_max_us=100,in_place=0,aborts=1,mismatch=0"},
    {Mutant::kUrgentPassesControl, "urgent=1,skew=1,joins=3,kills=3,ambushes=4,hosted=0"},
    {Mutant::kAwayLinkKept,
     "hosted=0,cuts=2,hiccups=8,joins=3,one_way=1,leaves=0,kills=0,stops=0,aborts=0,replicas=2,"
     "skew=1,delay_max_us=5000"},
    {Mutant::kAnyProofCounts, "hosted=1"},
    {Mutant::kAnyHostCounts,
     "hosted=1,replicas=4,shards=1,partitions=3,kills=3,coordinator_restarts=2,joins=0,"
     "leaves=0,cuts=0,stops=0,flaps=0,delay_max_us=5000,resets=0"},
    {Mutant::kInstallsUnheard,
     "hosted=1,replicas=2,shards=1,hiccups=5,kills=2,cuts=2,partitions=0,coordinator_restarts=2,"
     "ambushes=0,leaves=0,joins=0,stops=0,blackouts=0,aborts=0,window=1,min_replicas=1"},
    {Mutant::kNewcomersPromiseIgnored,
     "replicas=3,joins=3,fades=4,hosted=0,kills=0,stops=0,cuts=0,leaves=0,ambushes=0,aborts=0,"
     "mismatch=0,strandings=0,coordinator_restarts=2,record=0,hiccups=3,delay_max_us=1000,"
     "min_replicas=2"},
    {Mutant::kPlanOfThePastOvertakes, "hosted=1"},
    {Mutant::kPlanOfThePastWins, "hosted=1"},
    {Mutant::kAnyonesMark, kFades},
    {Mutant::kOldFirstKept, "ops_per_step=1,joins=3,kills=3,replicas=4,hosted=0"},
    {Mutant::kOwnWordOfABoundary, "ops_per_step=1,joins=3,kills=3,replicas=4,hosted=0"},
    {Mutant::kNamedViewUntold, "late_installs=1,coordinator_restarts=2,ops_per_step=1,hosted=0"},
    {Mutant::kNamedViewForgotten,
     "late_installs=3,kills=3,joins=3,ops_per_step=1,shards=1,hosted=0,eager=1"},
    {Mutant::kOldMarkForgotten, kFades},
    {Mutant::kEntersUnheard, kFades},
    {Mutant::kViewlessNeverLeads, kHostedPairs},
    {Mutant::kLeaversCountAsGone, kHostedPairs},
    {Mutant::kReportsNotAwaited, "hosted=1"},
    {Mutant::kPlanOutdoesPromise,
     "hosted=1,partitions=2,kills=3,joins=3,leaves=2,replicas=5,record=1"},
    {Mutant::kPromisedAlone, "hosted=1,partitions=2,replicas=4,kills=1"},
    {Mutant::kLatestSurvives, "replicas=1,joins=3,kills=3,ambushes=4,hosted=0,leaves=0,eager=0"},
    {Mutant::kOldEraRead,
     "acks_pass=1,skew=1,kills=3,ambushes=4,stops=2,hosted=0,window=1,leaves=0"},
    {Mutant::kKeptFailureUntold,
     "mismatch=2,laggards=5,failure_deaths=3,replicas=4,hosted=0,leaves=0,joins=0"},
    {Mutant::kHoldersOfToday,
     "hosted=0,lanes=0,shards=1,strandings=0,cuts=0,aborts=0,hangs=0,replicas=3,broadcasts=4,"
     "laggards=3,mismatch=1,kills=1,leaves=3,joins=3,window=4,delay_max_us=200,"
     "coordinator_restarts=0,ambushes=0,ops_per_step=0,stops=0,work_delay_max_us=0,skew=1"},
    {Mutant::kAnnouncedLeftOut,
     "hosted=1,lanes=0,shards=1,replicas=3,min_replicas=1,kills=0,joins=2,leaves=0,cuts=0,"
     "aborts=0,hangs=0,delay_max_us=1000,coordinator_restarts=0,ambushes=0,stops=2,"
     "plan_strikes=6,partitions=0,hiccups=0,flaps=0"},
    {Mutant::kSegmentlessUntold,
     "hosted=0,lanes=0,weights=1,replicas=2,shards=2,kills=1,ambushes=0,leaves=3,"
     "work_delay_max_us=500,delay_max_us=500,skew=1,ops_per_step=0,window=2,"
     "coordinator_restarts=2"},
    {Mutant::kPromisedUnawaited,
     "record=0,strandings=0,hosted=0,coordinator_restarts=2,late_installs=4,joins=3,kills=2,"
     "leaves=0,cuts=0,stops=0,hangs=0,mismatch=0"},
    {Mutant::kPlansStarve,
     "shards=2,delay_max_us=5000,joins=3,mismatch=2,ops_per_step=0,hosted=0,lanes=0,kills=0,"
     "stops=0,cuts=0,leaves=0,ambushes=0"},
    {Mutant::kGoesUnheard, "shards=2,leaves=2,blackouts=3,hosted=0"},
    {Mutant::kMembersAloneCount,
     "replicas=2,shards=1,joins=3,blackouts=4,sparing=1,cuts=0,aborts=0,hosted=0,leaves=0,kills=0,"
     "stops=0,coordinator_restarts=0,ambushes=0"},
    {Mutant::kMuteConnectionsCount, "cutoffs=1,blackouts=2,hosted=0,leaves=0"},
    {Mutant::kOldReportsStand, "blackouts=4,flaps=8,coordinator_restarts=3,hosted=0,leaves=0"},
    {Mutant::kWaitersUncalled,
     "hosted=0,lanes=0,min_replicas=2,shards=1,replicas=2,joins=2,leaves=3,stops=2,ambushes=0,"
     "hiccups=0,kills=1,coordinator_restarts=0,plan_strikes=4,window=1,late_installs=0"},
    {Mutant::kUnannouncedLost,
     "shards=2,replicas=2,leaves=3,joins=1,blackouts=2,hosted=0,delay_max_us=5000,cuts=0,"
     "ops_per_step=1,flaps=0,hiccups=0"},
    {Mutant::kDeadVote,
     "hosted=1,replicas=3,partitions=3,kills=2,coordinator_restarts=2,cuts=0,leaves=0,joins=0"},
    {Mutant::kHubSpeaksEarly, "cores=1,kills=3,ambushes=4,hosted=0,lanes=0"},
    {Mutant::kLaneSlotReused, "lanes=1,window=15,hosted=0"},
    {Mutant::kLaneScanDelivers,
     "lanes=1,hosted=0,stops=6,ambushes=4,kills=3,window=6,ops_per_step=0,leaves=0,joins=3,"
     "replicas=5,work_delay_max_us=20000,mismatch=0"},
    {Mutant::kRelayBrokenKept,
     "behind,joins=3,coordinator_restarts=3,ambushes=6,kills=3,relay_losses=0,leaves=0,resets=0,"
     "shards=1,relays=1"},
    {Mutant::kGoneLeaverAwaited,
     "hosted=1,leaves=2,kills=2,coordinator_restarts=2,ambushes=4,joins=0,partitions=0,cuts=0"},
    {Mutant::kRevokedMayJoin,
     "hosted=1,partitions=3,shards=1,skew=1,delay_max_us=5000,replicas=4,cuts=0,joins=3,kills=2"},
    {Mutant::kGoneLeaverLost,
     "shards=2,leaves=2,kills=3,ambushes=4,coordinator_restarts=2,hosted=0,joins=0,replicas=4"},
    {Mutant::kReportForgotten,
     "record=0,strandings=0,hosted=0,hiccups=2,coordinator_restarts=3,kills=3,leaves=0,"
     "joins=0,replicas=5,ambushes=6,cores=0,lanes=0"},
    {Mutant::kEndUnheard,
     "replicas=2,leaves=2,joins=3,skew=1,ops_per_step=0,hosted=0,delay_max_us=500,window=1,"
     "kills=1,stops=1,cuts=2,ambushes=4,clogs=8,lanes=0,shards=1"},
    {Mutant::kBeginsAmongTheLost,
     "replicas=2,ops_per_step=1,leaves=2,joins=3,stops=2,cuts=2,hosted=0,window=2,kills=2"},
    {Mutant::kBeginningForgotten,
     "window=7,lanes=0,hosted=0,kills=3,late_installs=3,eager=1,joins=3,ops_per_step=1,leaves=0,"
     "mismatch=0,record=1,coordinator_restarts=2"},
    {Mutant::kCompleteOutlivesVerdict,
     "hosted=0,lanes=0,shards=1,replicas=4,window=4,joins=3,leaves=0,kills=3,ambushes=4,"
     "ops_per_step=3,mismatch=2,delay_max_us=500,acks_pass=1,weights=1,eager=0,skew=1,cores=0,"
     "coordinator_restarts=0,stops=2"},
    {Mutant::kInstalledBaseAlone,
     "hosted=1,replicas=2,partitions=3,joins=3,coordinator_restarts=2,cuts=0,leaves=0"},
};

const char* WeatherFor(const PlantedMistake& mistake) {
  const auto* const found = std::ranges::find(kWhere, mistake.mutant, &Where::mistake);
  if (found != std::end(kWhere)) return found->weather;
  const std::string_view name = mistake.name;
  if (name.starts_with("kRelay")) return "behind";
  if (name.starts_with("kFast")) return "lanes=1,hosted=0,alike=1,work_delay_max_us=0";
  constexpr std::string_view kOfTheLane[] = {"kLane", "kShared", "kDone"};
  const bool by_lane = std::ranges::any_of(
      kOfTheLane, [name](std::string_view prefix) { return name.starts_with(prefix); });
  return by_lane ? "lanes=1,hosted=0" : "";
}

std::string RunSeed(const PlantedMistake& mistake, uint64_t seed) {
  SetAlarm(kSeedSeconds);
  Weather weather;
  WeatherOf(seed, WeatherFor(mistake), &weather);
  return World(seed, weather, /*trace=*/false).Run();
}

// A seed that fails without the mistake, too, does not show it.
bool FailsAnyway(const PlantedMistake& mistake, uint64_t seed) {
  const Mutant before = std::exchange(mutant_in_force, Mutant::kNone);
  const bool fails = !RunSeed(mistake, seed).empty();
  SetAlarm(0);
  mutant_in_force = before;
  return fails;
}

// Behind the seed of the record come all others.
void GoOn(const MutantSearch& search, Trail* trail) {
  if (std::exchange(trail->by_record, false)) {
    trail->seed = search.from;
    trail->tried = 0;
  } else {
    ++trail->seed;
  }
}

// In the child: seeds one after the other, from trail->seed on, until one fails by it.
[[noreturn]] void Search(const PlantedMistake& mistake, const MutantSearch& search, Trail* trail) {
  LimitChild();
  mutant_in_force = mistake.mutant;
  for (; trail->tried < search.seeds; GoOn(search, trail)) {
    ++trail->tried;
    const std::string failure = RunSeed(mistake, trail->seed);
    if (failure.empty() || FailsAnyway(mistake, trail->seed)) continue;
    std::strncpy(trail->failure, failure.c_str(), sizeof trail->failure - 1);
    trail->failed = true;
    break;
  }
  trail->ended = true;
  _exit(0);
}

// In the child: one story after the other, from trail->story on.
[[noreturn]] void Tell(const PlantedMistake& mistake, const std::vector<NamedStory>& stories,
                       Trail* trail) {
  LimitChild();
  mutant_in_force = mistake.mutant;
  for (; trail->story < stories.size(); ++trail->story) {
    SetAlarm(kSeedSeconds);
    const std::string failure = PlayStory(stories[trail->story].story, /*trace=*/false);
    if (failure.empty()) continue;
    trail->fails[trail->story] = true;
    if (std::exchange(trail->failed, true)) continue;
    std::strncpy(trail->failure, failure.c_str(), sizeof trail->failure - 1);
  }
  trail->ended = true;
  _exit(0);
}

Found Judge(const Trail& trail, int status) {
  Found found;
  found.seed = trail.seed;
  found.tried = trail.tried;
  found.by_record = trail.by_record;
  if (trail.failed) {
    found.found = true;
    found.failure = trail.failure;
    found.caught_by = found.failure.substr(0, found.failure.find(':'));
  } else if (!trail.ended) {
    found.found = true;
    const bool late = WIFSIGNALED(status) && WTERMSIG(status) == SIGPROF;
    found.caught_by = late ? "hang" : "crash";
    found.failure = WIFSIGNALED(status) ? strsignal(WTERMSIG(status)) : "ended by itself";
  }
  return found;
}

class Hunt {
 public:
  explicit Hunt(const MutantSearch& search) : search_(search) {
    for (const PlantedMistake& mistake : PlantedMistakes()) {
      if (search.only.empty() || search.only == mistake.name) targets_.push_back(&mistake);
    }
    bytes_ = sizeof(Trail) * std::max<size_t>(targets_.size(), 1);
    void* shared = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    trails_ = shared == MAP_FAILED ? nullptr : static_cast<Trail*>(shared);
    found_.resize(targets_.size());
  }
  ~Hunt() {
    if (trails_ != nullptr) munmap(trails_, bytes_);
  }
  Hunt(const Hunt&) = delete;
  Hunt& operator=(const Hunt&) = delete;

  bool Run() {
    if (trails_ == nullptr || targets_.empty() || !ReadStories() || !ReadRecord()) return false;
    for (telling_ = false;; telling_ = true) {
      for (size_t next = 0; next < targets_.size() || !running_.empty();) {
        if (next == targets_.size() || running_.size() == Jobs()) {
          if (!Reap()) return false;
        } else if (!Start(next++)) {
          return false;
        }
      }
      if (telling_ || stories_.empty()) break;
    }
    RankStories();
    return true;
  }

  const std::vector<const PlantedMistake*>& targets() const { return targets_; }
  const std::vector<Found>& found() const { return found_; }
  const std::vector<NamedStory>& stories() const { return stories_; }

 private:
  size_t Jobs() const {
    const int cores = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
    return static_cast<size_t>(search_.jobs > 0 ? search_.jobs : cores);
  }

  bool ReadStories() {
    if (search_.stories.empty()) return true;
    for (const std::string& file : StoryFiles(search_.stories)) {
      stories_.push_back({StoryName(file), {}});
      if (!ReadStory(file, &stories_.back().story).empty()) return false;
    }
    return stories_.size() <= kStoriesMax;
  }

  // The rows of docs/mutants.md, as PrintMarkdown writes them.
  bool ReadRecord() {
    if (search_.record.empty()) return true;
    std::ifstream file(search_.record);
    const std::regex row("^\\| `(\\w+)` \\|.*\\| ([0-9]+|\\*\\*none\\*\\*) \\|[^|]*\\|$");
    std::smatch found;
    for (std::string line; std::getline(file, line);) {
      if (!std::regex_match(line, found, row)) continue;
      const bool by_seed = found[2].str().front() != '*';
      recorded_[found[1]] = by_seed ? std::stoull(found[2]) : 0;
    }
    return !recorded_.empty();
  }

  bool Start(size_t index) {
    const auto recorded = recorded_.find(targets_[index]->name);
    const bool by_record = recorded != recorded_.end();
    const bool by_story_alone = by_record && recorded->second == 0;
    if (!telling_ && (by_story_alone || search_.seeds == 0)) return true;
    if (telling_ && found_[index].by_record) return true;
    trails_[index] = Trail{};
    trails_[index].by_record = by_record;
    trails_[index].seed = by_record ? recorded->second : search_.from;
    return Fork(index);
  }

  bool Fork(size_t index) {
    std::fflush(stdout);
    const pid_t child = fork();
    if (child == 0 && telling_) Tell(*targets_[index], stories_, &trails_[index]);
    if (child == 0) Search(*targets_[index], search_, &trails_[index]);
    if (child > 0) running_[child] = index;
    return child > 0;
  }

  bool Reap() {
    int status = 0;
    const pid_t child = wait(&status);
    const auto running = running_.find(child);
    if (running == running_.end()) return child > 0;
    const size_t index = running->second;
    running_.erase(running);
    Trail& trail = trails_[index];
    Found& found = found_[index];
    if (!telling_) {
      if (!trail.ended && FailsAnyway(*targets_[index], trail.seed)) {
        GoOn(search_, &trail);
        return Fork(index);
      }
      found = Judge(trail, status);
      return true;
    }
    const Found told = Judge(trail, status);
    if (told.found && found.caught_by.empty()) {
      found.caught_by = told.caught_by;
      found.failure = told.failure;
    }
    if (!trail.ended) {  // it has died of this story; the next one
      trail.fails[trail.story++] = true;
      return Fork(index);
    }
    for (size_t i = 0; i < stories_.size(); ++i) {
      if (trail.fails[i]) found.stories.push_back(stories_[i].name);
    }
    return true;
  }

  // First the story that is about little else.
  void RankStories() {
    std::map<std::string, int> catches;
    for (const Found& found : found_) {
      for (const std::string& story : found.stories) ++catches[story];
    }
    for (Found& found : found_) {
      std::stable_sort(found.stories.begin(), found.stories.end(),
                       [&](const auto& a, const auto& b) { return catches[a] < catches[b]; });
    }
  }

  const MutantSearch search_;
  std::vector<const PlantedMistake*> targets_;
  std::vector<Found> found_;
  std::vector<NamedStory> stories_;
  std::map<std::string, uint64_t> recorded_;  // mutant to seed; 0: a story alone finds it
  bool telling_ = false;                      // stories, not seeds
  std::map<pid_t, size_t> running_;
  Trail* trails_ = nullptr;
  size_t bytes_ = 0;
};

std::string FirstLine(const std::string& text) { return text.substr(0, text.find('\n')); }

// "name", or "name and 3 more".
std::string StoriesOf(const Found& found) {
  if (found.stories.empty()) return "";
  const size_t more = found.stories.size() - 1;
  return found.stories.front() + (more > 0 ? " and " + std::to_string(more) + " more" : "");
}

void PrintTable(const Hunt& hunt, const MutantSearch& search) {
  std::printf("%-26s %-4s %-14s %7s  %s\n", "mutant", "rule", "caught by", "seeds", "replay");
  for (size_t i = 0; i < hunt.targets().size(); ++i) {
    const PlantedMistake& mistake = *hunt.targets()[i];
    const Found& found = hunt.found()[i];
    const std::string stories =
        found.stories.empty() ? "" : "story " + StoriesOf(found) + (found.found ? "; " : "");
    if (!found.found && stories.empty()) {
      std::printf("%-26s %-4s %-14s %7llu  %s\n", mistake.name, mistake.rule, "NOT FOUND",
                  static_cast<unsigned long long>(found.tried), mistake.mistake);
      continue;
    }
    const std::string weather = WeatherFor(mistake);
    const std::string replay = "ftar-sim --mutant " + std::string(mistake.name) + " --replay " +
                               std::to_string(found.seed) +
                               (weather.empty() ? "" : " --weather " + weather);
    std::printf("%-26s %-4s %-14s %7llu  %s%s\n", mistake.name, mistake.rule,
                found.caught_by.c_str(),
                static_cast<unsigned long long>(found.found ? found.tried : 0), stories.c_str(),
                found.found ? replay.c_str() : "");
    if (!search.only.empty()) std::printf("  %s\n", FirstLine(found.failure).c_str());
  }
}

constexpr char kIntroduction[] =
    "# Planted mistakes\n"
    "\n"
    "Generated; renew it with `build/release/bin/ftar-sim --mutants --stories tests/sim/stories "
    "--markdown > docs/mutants.md`.\n"
    "\n"
    "Each line is a mistake that `ftar-sim` can plant in its own build of the core "
    "(`src/base/mutant_list.h`), at the place that\n"
    "enforces the rule. *Caught by* is the invariant that objected, *seeds* how many seeds from 1 "
    "on it took;\n"
    "**none** if the seeds tried found nothing, and a story did. *Stories* fail by it, each told "
    "in "
    "a few lines ([stories.md](stories.md)).\n"
    "The rules are those of [protocol.md](protocol.md). Where there is a *weather*, it is the one "
    "to "
    "look in (`--weather`): it has\n"
    "what the mistake needs: relays, members that coordinate by turns, more failures of a kind.\n"
    "ctest tries these seeds first (`--record docs/mutants.md`), `scripts/show mutants` all from 1 "
    "on.\n"
    "\n"
    "| mutant | rule | the mistake | weather | caught by | seeds | stories |\n"
    "|---|---|---|---|---|---|---|\n";

void PrintMarkdown(const Hunt& hunt) {
  std::fputs(kIntroduction, stdout);
  for (size_t i = 0; i < hunt.targets().size(); ++i) {
    const PlantedMistake& mistake = *hunt.targets()[i];
    const Found& found = hunt.found()[i];
    const bool any = found.found || !found.stories.empty();
    std::printf(
        "| `%s` | %s | %s | %s | %s | %s | %s |\n", mistake.name, mistake.rule, mistake.mistake,
        WeatherFor(mistake), any ? found.caught_by.c_str() : "**not found**",
        found.found ? std::to_string(found.tried).c_str() : "**none**", StoriesOf(found).c_str());
  }
}

constexpr char kStoriesIntroduction[] =
    "# Stories\n"
    "\n"
    "Generated; renew it with `build/release/bin/ftar-sim --mutants --seeds 1:0 --stories "
    "tests/sim/stories --by-story > docs/stories.md`.\n"
    "\n"
    "Each is a small job, `tests/sim/stories/NAME.story`, in which chosen things happen at chosen "
    "moments. `ftar-sim --story FILE`\n"
    "prints what every member does then; [its README](../tests/sim/stories/README.md) tells the "
    "language, [protocol.md](protocol.md) the rules.\n"
    "*Fails by*: the planted mistakes ([mutants.md](mutants.md)) that make the story fail, first "
    "those that few others notice.\n"
    "\n"
    "| story | rules | what happens | fails by |\n"
    "|---|---|---|---|\n";

// The mistakes that a story fails by; first those that few others fail by.
std::string MistakesOf(const Hunt& hunt, const std::string& story) {
  constexpr size_t kShown = 4;
  std::vector<std::pair<size_t, std::string>> mistakes;  // how many stories, name
  for (size_t i = 0; i < hunt.targets().size(); ++i) {
    const std::vector<std::string>& stories = hunt.found()[i].stories;
    if (std::find(stories.begin(), stories.end(), story) != stories.end())
      mistakes.push_back({stories.size(), hunt.targets()[i]->name});
  }
  std::sort(mistakes.begin(), mistakes.end());
  std::string out;
  for (size_t i = 0; i < std::min(kShown, mistakes.size()); ++i)
    out += (i > 0 ? ", `" : "`") + mistakes[i].second + "`";
  if (mistakes.size() > kShown) out += " and " + std::to_string(mistakes.size() - kShown) + " more";
  return out;
}

// docs/stories.md
void PrintStories(const Hunt& hunt) {
  std::fputs(kStoriesIntroduction, stdout);
  for (const NamedStory& one : hunt.stories()) {
    std::printf("| %s | %s | %s | %s |\n", one.name.c_str(), one.story.rule.c_str(),
                one.story.title.c_str(), MistakesOf(hunt, one.name).c_str());
  }
}

}  // namespace

const std::vector<PlantedMistake>& PlantedMistakes() {
  static const std::vector<PlantedMistake> all = {
#define FTAR_MUTANT_ROW(name, rule, mistake) {Mutant::name, #name, rule, mistake},
      FTAR_MUTANT_LIST(FTAR_MUTANT_ROW)
#undef FTAR_MUTANT_ROW
  };
  return all;
}

const PlantedMistake* FindMistake(const std::string& name) {
  for (const PlantedMistake& mistake : PlantedMistakes()) {
    if (name == mistake.name) return &mistake;
  }
  return nullptr;
}

int HuntMutants(const MutantSearch& search) {
  const auto begin = std::chrono::steady_clock::now();
  Hunt hunt(search);
  if (!hunt.Run()) {
    std::fprintf(stderr, "ftar-sim: no such mutant, no process for it, or a story unread\n");
    return 2;
  }
  if (search.by_story) {
    PrintStories(hunt);
    return 0;
  }
  if (search.markdown) {
    PrintMarkdown(hunt);
  } else {
    PrintTable(hunt, search);
  }
  size_t found = 0;
  uint64_t most = 0;
  for (const Found& one : hunt.found()) {
    found += one.found || !one.stories.empty() ? 1 : 0;
    most = std::max(most, one.tried);
  }
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  if (!search.markdown)
    std::printf("%zu mutants, %zu found, at most %llu seeds, %.0f s\n", hunt.targets().size(),
                found, static_cast<unsigned long long>(most), seconds);
  return found == hunt.targets().size() ? 0 : 1;
}

}  // namespace ftar::sim
