#include "story/explorer.h"

#include <algorithm>
#include <cstdio>
#include <ctime>

#include "node.h"
#include "story/director.h"
#include "story/stories.h"

namespace ftar::sim {
namespace {
constexpr TimeNs kFrom = 50 * kMillisecond;          // by then the first view is installed
constexpr uint64_t kStrikeLane = uint64_t{1} << 61;  // no other lane has this bit
}  // namespace

// ---- one run ----

// From a moment on at which all are in and nothing is under way; until nothing is under way again.
// Then time goes on, and what waits for timers comes by their order.
bool Explorer::Rules(World& world) {
  if (phase_ == Phase::kBefore && world.now_ >= kFrom && world.in_lanes_ == 0) Open(world);
  if (phase_ != Phase::kOpen) return false;
  const bool open = std::any_of(lanes_.begin(), lanes_.end(),
                                [](const auto& lane) { return !lane.second.pending.empty(); });
  if (!open || redundant_) phase_ = Phase::kOver;
  return phase_ == Phase::kOpen;
}

void Explorer::Open(World& world) {
  phase_ = Phase::kOpen;
  sending_ = {};
  for (const auto& node : world.nodes_) {
    World::Node* user = node.get();
    if (story_.all_call) awake_.insert(user);
    if (story_.all_call) world.Drain(*user);
    if (story_.all_call) continue;
    world.AtNode(*user, World::OfUser(*user, world.now_), [this, &world, user] {
      awake_.insert(user);
      world.Drain(*user);
    });
  }
  uint64_t lane = kStrikeLane;
  for (size_t scene = 0; scene < story_.scenes.size(); ++scene) {
    if (story_.scenes[scene].moment.verb != Moment::Verb::kWhenever) continue;
    for (Director::Blow& blow : world.director_->BlowsOf(scene))
      world.At({world.now_, ++lane, blow.on->index}, std::move(blow.strike));
  }
}

void Explorer::Offer(uint64_t lane, uint64_t object, uint32_t slot) {
  if (object >= kObjectsMax) {
    wrong_ = "explorer: too many members";
    object = 0;
  }
  Lane& place = lanes_[lane];
  place.object = object;
  place.pending.push_back({slot, ++offered_, sending_});
}

uint32_t Explorer::Choose() {
  const uint64_t chosen = ChooseLane();
  Lane& lane = lanes_.at(chosen);
  const Pending next = lane.pending.front();
  lane.pending.pop_front();
  if (!redundant_ && story_.overtakings < 0) NoteRace(chosen, next.sent);
  Clock& clock = clocks_[lane.object];
  for (size_t i = 0; i < kObjectsMax; ++i) clock[i] = std::max(clock[i], next.sent[i]);
  ++clock[lane.object];
  at_object_[lane.object].push_back(past_.size());
  past_.push_back({chosen, lane.object, clock[lane.object]});
  sending_ = clock;
  return next.slot;
}

uint64_t Explorer::ChooseLane() {
  if (past_.size() == forks_.size() && story_.overtakings >= 0) {
    Fork fork = MakeFork();
    ListOptions(&fork);
    fork.chosen = fork.options.front().lane;
    forks_.push_back(std::move(fork));
  } else if (past_.size() == forks_.size()) {
    Fork fork = MakeFork();
    const auto first = std::find_if(fork.open.begin(), fork.open.end(), [&](const auto& lane) {
      return !fork.asleep.contains(lane.first);
    });
    redundant_ = first == fork.open.end();
    fork.chosen = redundant_ ? fork.open.begin()->first : first->first;
    forks_.push_back(std::move(fork));
  }
  const Fork& fork = forks_[past_.size()];
  if (!fork.open.contains(fork.chosen) || lanes_[fork.chosen].pending.empty())
    wrong_ = "explorer: a run is not repeated by its choices";
  return fork.chosen;
}

// What another run has begun with here need not be tried again before something happens that it
// depends on.
Explorer::Fork Explorer::MakeFork() const {
  Fork fork;
  for (const auto& [id, lane] : lanes_) {
    if (!lane.pending.empty()) fork.open[id] = lane.object;
  }
  if (forks_.empty() || story_.overtakings >= 0) return fork;
  const Fork& before = forks_.back();
  const uint64_t object = before.open.at(before.chosen);
  for (const std::set<uint64_t>* seen_to : {&before.asleep, &before.done}) {
    for (const uint64_t lane : *seen_to) {
      if (lane != before.chosen && before.open.at(lane) != object) fork.asleep.insert(lane);
    }
  }
  return fork;
}

// What was sent first comes for nothing, what was sent behind so many others for as much; a strike
// costs nothing, and comes last if it may.
void Explorer::ListOptions(Fork* fork) const {
  std::map<uint64_t, uint64_t> by_age, strikes;
  for (const auto& [id, lane] : lanes_) {
    if (lane.pending.empty()) continue;
    (id & kStrikeLane ? strikes : by_age)[lane.pending.front().number] = id;
  }
  int costs = 0;
  for (const auto& [age, lane] : by_age) fork->options.push_back({lane, costs++});
  for (const auto& [age, lane] : strikes) fork->options.push_back({lane, 0});
  if (forks_.empty()) return;
  const Fork& before = forks_.back();
  fork->spent = before.spent + before.options[before.option].costs;
}

bool Explorer::NextOption(Fork* fork) const {
  while (++fork->option < fork->options.size()) {
    const Fork::Option& option = fork->options[fork->option];
    fork->chosen = option.lane;
    if (fork->spent + option.costs <= story_.overtakings) return true;
  }
  return false;
}

// ---- the search ----

// The last event at the same object that this one could have come before: one that is neither in
// its past nor ahead of it in its lane.
void Explorer::NoteRace(uint64_t lane, const Clock& sent) {
  const uint64_t object = lanes_.at(lane).object;
  if (at_object_[object].empty()) return;
  const size_t last = at_object_[object].back();
  const Event& event = past_[last];
  if (event.lane == lane || event.number <= sent[object]) return;
  WantBefore(last, lane, sent);
}

// Have another run begin there with it, or with what leads to it.
void Explorer::WantBefore(size_t at, uint64_t lane, const Clock& sent) {
  Fork& fork = forks_[at];
  uint64_t want = lane;
  if (!fork.open.contains(lane)) {
    size_t leads = at + 1;
    while (leads < past_.size() && past_[leads].number > sent[past_[leads].object]) ++leads;
    if (leads < past_.size()) want = past_[leads].lane;
  }
  // What is open and what it does to whom must not depend on the order of things that commute.
  if (!fork.open.contains(want)) wrong_ = "explorer: what ought to commute does not";
  fork.wanted.insert(want);
}

// To the last fork with something left to try. False if there is none.
bool Explorer::Backtrack() {
  for (; !forks_.empty(); forks_.pop_back()) {
    Fork& fork = forks_.back();
    if (story_.overtakings >= 0 && NextOption(&fork)) return true;
    fork.done.insert(fork.chosen);
    for (const uint64_t lane : fork.wanted) {
      if (fork.done.contains(lane) || fork.asleep.contains(lane)) continue;
      fork.chosen = lane;
      return true;
    }
  }
  return false;
}

std::string Explorer::RunOnce(bool trace) {
  phase_ = Phase::kBefore;
  redundant_ = false;
  lanes_.clear();
  offered_ = 0;
  past_.clear();
  at_object_ = {};
  clocks_ = {};
  awake_.clear();
  World world(/*seed=*/1, story_.weather, trace, &story_, this);
  return world.Run();
}

Explorer::Report Explorer::Search() {
  Report report;
  forks_.clear();
  while (report.failure.empty() && report.runs + report.redundant < most_runs_) {
    report.failure = RunOnce(/*trace=*/false);
    report.redundant += redundant_ ? 1 : 0;
    report.runs += redundant_ ? 0 : 1;
    report.events += past_.size();
    report.longest = std::max(report.longest, past_.size());
    if (!report.failure.empty()) break;
    if (phase_ == Phase::kBefore) wrong_ = "explorer: never began";
    report.failure = wrong_;
    report.whole = !Backtrack();
    if (report.whole) break;
  }
  return report;
}

void Explorer::Replay() { static_cast<void>(RunOnce(/*trace=*/true)); }

int ExploreStories(const std::string& path, uint64_t most_runs) {
  int failed = 0;
  for (const std::string& file : StoryFiles(path)) {
    Story story;
    if (const std::string wrong = ReadStory(file, &story); !wrong.empty()) {
      std::fprintf(stderr, "ftar-sim: %s\n", wrong.c_str());
      return 2;
    }
    const std::clock_t begin = std::clock();
    Explorer explorer(story, most_runs);
    const Explorer::Report report = explorer.Search();
    const double seconds = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
    if (!report.failure.empty()) explorer.Replay();
    const bool good = report.failure.empty() && report.whole;
    failed += good ? 0 : 1;
    std::printf("%-28s %s%llu orders, %llu broken off, %llu events, %zu at most in one, %.1f s%s\n",
                StoryName(file).c_str(), good ? "" : "FAILED ",
                static_cast<unsigned long long>(report.runs),
                static_cast<unsigned long long>(report.redundant),
                static_cast<unsigned long long>(report.events), report.longest, seconds,
                report.failure.empty() ? (report.whole ? ", all" : ", NOT ALL")
                                       : (": " + report.failure).c_str());
    std::fflush(stdout);
  }
  return failed > 0 ? 1 : 0;
}

}  // namespace ftar::sim
