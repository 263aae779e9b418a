#include "report.h"

#include <sys/wait.h>

#include <algorithm>
#include <csignal>
#include <set>

namespace demo {
namespace {

constexpr int kEvictedExit = 3;  // of ftar-trainer
constexpr size_t kStripColumns = 72;
enum Notice { kView = 0, kLost = 3, kLinkDown = 6 };  // values of FTAR_EVENT_*

struct Told {
  const Process* process;
  const Json* line;
  int64_t ns;
};

// The first notice of these types after the strike that any process other than the victim had.
// `replica` -1: about anyone.
bool FirstNotice(const Run& run, const Strike& strike, const std::set<int>& types, int replica,
                 Told* first) {
  bool found = false;
  for (const auto& process : run.trainers()) {
    if (process.get() == strike.victim) continue;
    for (const Json& line : process->lines) {
      if (line["event"] != "notice" || types.count(line["type"]) == 0) continue;
      if (replica >= 0 && line["replica"] != replica) continue;
      const int64_t ns = line["time"];
      if (ns < strike.at_ns || (found && ns >= first->ns)) continue;
      *first = {process.get(), &line, ns};
      found = true;
    }
  }
  return found;
}

// The first operation that ended after the strike without the victim: when its last survivor had
// it, and how many replicas each bucket of its step has. Returns the step, or -1.
long long FirstWithout(const Run& run, const Strike& strike, int64_t* delivered_ns,
                       std::string* buckets) {
  int64_t before = kReplicas;  // participants of the last operation before the strike
  for (const auto& [step, seen] : run.steps()) {
    for (size_t bucket = 0; bucket < seen.front().buckets.size(); ++bucket) {
      const auto [participants, attempts, delivered] = seen.front().buckets[bucket];
      if (delivered < strike.at_ns) before = participants;
      if (delivered < strike.at_ns || (participants >= before && attempts == 1)) continue;
      *delivered_ns = 0;
      for (const Seen& one : seen) *delivered_ns = std::max(*delivered_ns, one.buckets[bucket][2]);
      for (const auto& one : seen.front().buckets) *buckets += ' ' + std::to_string(one[0]);
      return step;
    }
  }
  return -1;
}

void PrintLoss(const Run& run, const Strike& strike) {
  Told told{};
  if (FirstNotice(run, strike, {kLost, kLinkDown}, strike.victim->replica, &told)) {
    printf("            noticed   %9.2f ms  by %s\n", Ms(told.ns - strike.at_ns),
           told.process->name.c_str());
  }
  if (FirstNotice(run, strike, {kLost}, strike.victim->replica, &told)) {
    printf("            how                     %s: %s\n",
           (*told.line)["stage"].get<std::string>().c_str(),
           (*told.line)["text"].get<std::string>().c_str());
  }
  if (FirstNotice(run, strike, {kView}, -1, &told)) {
    printf("            decided   %9.2f ms  the view without it is in force\n",
           Ms(told.ns - strike.at_ns));
  }
  int64_t delivered_ns = 0;
  std::string buckets;
  const long long step = FirstWithout(run, strike, &delivered_ns, &buckets);
  if (step >= 0) {
    printf("            finished  %9.2f ms  step %lld, replicas in its buckets:%s\n",
           Ms(delivered_ns - strike.at_ns), step, buckets.c_str());
  }
}

// The longest time without a finished step that ended in [from, to), and the median of all.
int64_t LongestPause(const Run& run, int64_t from_ns, int64_t to_ns, int64_t* median_ns) {
  int64_t longest = 0, before = 0;
  std::vector<int64_t> all;
  for (const auto& [step, seen] : run.steps()) {
    const int64_t ns = seen.front().buckets.back()[2];
    if (before > 0) all.push_back(ns - before);
    if (before > 0 && ns >= from_ns && ns < to_ns) longest = std::max(longest, ns - before);
    before = ns;
  }
  std::sort(all.begin(), all.end());
  *median_ns = all.empty() ? 0 : all[all.size() / 2];
  return longest;
}

void PrintTimeline(const Run& run) {
  printf("\nWhat happened\n");
  for (size_t i = 0; i < run.strikes().size(); ++i) {
    const Strike& strike = run.strikes()[i];
    const int64_t next_ns = i + 1 < run.strikes().size() ? run.strikes()[i + 1].at_ns : INT64_MAX;
    printf("  %6.2f s  %s of %s", run.Seconds(strike.at_ns), strike.what.c_str(),
           strike.victim->name.c_str());
    printf(strike.step >= 0 ? ", inside the allreduce of step %lld\n" : "\n", strike.step);
    if (strike.what == "kill -9" || strike.what == "SIGSTOP") PrintLoss(run, strike);
    const Json* out = strike.victim->Find("out");
    if (strike.what == "SIGCONT" && out) {
      printf("            it learns %9.2f ms  %s\n",
             Ms((*out)["read_ns"].get<int64_t>() - strike.at_ns),
             (*out)["text"].get<std::string>().c_str());
    }
    const Json* state = strike.victim->Find("state");
    if (strike.what == "start" && state) {
      printf("            it has the state after %.2f ms and trains from step %lld on\n",
             Ms((*state)["read_ns"].get<int64_t>() - strike.at_ns), strike.victim->first_step);
    }
    if (strike.what == "SIGTERM")
      printf("            gone after %.2f ms, its last step is %lld\n",
             Ms(strike.victim->end_ns - strike.at_ns), strike.victim->last_step);
    if (strike.what == "SIGINT") continue;
    int64_t median_ns = 0;
    const int64_t pause_ns = LongestPause(run, strike.at_ns, next_ns, &median_ns);
    printf(
        "            longest pause between two steps until the next strike: %.1f ms (median of the "
        "run %.1f ms)\n",
        Ms(pause_ns), Ms(median_ns));
  }
}

// One row a replica, one column for a few steps: in all of them, in some, in none.
void PrintParticipants(const Run& run) {
  const long long last = run.steps().rbegin()->first;
  const long long width = last / static_cast<long long>(kStripColumns) + 1;
  printf(
      "\nParticipants (a column is %lld steps; # all of them, + some, = all, after a new start)\n",
      width);
  for (int replica = 0; replica < kReplicas; ++replica) {
    std::string row;
    for (long long from = 0; from <= last; from += width) {
      int in = 0, all = 0;
      char mark = '#';
      for (auto at = run.steps().lower_bound(from);
           at != run.steps().end() && at->first < from + width; ++at, ++all) {
        const auto& who = at->second.front().who;
        in += std::count(who.begin(), who.end(), replica) > 0;
        for (const Seen& seen : at->second) {
          if (seen.process->replica == replica) mark = seen.process->mark;
        }
      }
      row += in == 0 ? '.' : in == all ? mark : '+';
    }
    printf("  replica %d  %s\n", replica, row.c_str());
  }
}

class Checks {
 public:
  void That(bool holds, const std::string& what) {
    printf("  %s  %s\n", holds ? "ok    " : "FAILED", what.c_str());
    failed_ += holds ? 0 : 1;
  }
  bool ok() const { return failed_ == 0; }

 private:
  int failed_ = 0;
};

void CheckSteps(const Run& run, Checks* checks) {
  const long long last = run.steps().rbegin()->first;
  checks->That(
      run.steps().begin()->first == 0 && static_cast<long long>(run.steps().size()) == last + 1,
      Format("no step is lost: %lld steps, 0 to %lld, each finished",
             static_cast<long long>(run.steps().size()), last));
  long long different = -1, disagreed = -1;
  size_t compared = 0;
  for (const auto& [step, seen] : run.steps()) {
    for (const Seen& one : seen) {
      const Seen& first = seen.front();
      compared += &one != &first;
      if (one.hash != first.hash) different = step;
      bool same = one.who == first.who && one.loss == first.loss &&
                  one.buckets.size() == first.buckets.size();
      for (size_t i = 0; same && i < one.buckets.size(); ++i)
        same = one.buckets[i][0] == first.buckets[i][0];
      if (!same) disagreed = step;
    }
  }
  checks->That(
      different < 0,
      different < 0
          ? Format(
                "all replicas hold the same bits after every step (%zu comparisons), at the end %s",
                compared, run.steps().rbegin()->second.front().hash.c_str())
          : Format("replicas differ after step %lld", different));
  checks->That(disagreed < 0,
               disagreed < 0 ? "all agree on the participants of every operation"
                             : Format("disagreement on who took part in step %lld", disagreed));
  checks->That(run.problems().empty(), run.problems().empty()
                                           ? "each replica's steps follow each other"
                                           : run.problems().front());
}

void CheckLoss(const Run& run, Checks* checks) {
  constexpr size_t kParts = 4;
  double means[kParts] = {};
  size_t counts[kParts] = {};
  for (const auto& [step, seen] : run.steps()) {
    const size_t part = static_cast<size_t>(step) * kParts / run.steps().size();
    means[std::min(part, kParts - 1)] += seen.front().loss;
    ++counts[std::min(part, kParts - 1)];
  }
  bool falling = true;
  std::string text;
  for (size_t i = 0; i < kParts; ++i) {
    means[i] /= static_cast<double>(std::max<size_t>(counts[i], 1));
    falling = falling && (i == 0 || means[i] < means[i - 1]);
    text += Format("%s%.3f", i == 0 ? "" : ", ", means[i]);
  }
  checks->That(falling, "the loss falls; means of the run's quarters: " + text);
}

bool WasTold(const Process& process, int replica) {
  return std::any_of(process.lines.begin(), process.lines.end(), [&](const Json& line) {
    return line["event"] == "notice" && line["type"] == kLost && line["replica"] == replica;
  });
}

void CheckStrikes(const Run& run, Checks* checks) {
  for (const Strike& strike : run.strikes()) {
    if (strike.what != "kill -9" && strike.what != "SIGSTOP") continue;
    int told = 0, survivors = 0;
    for (const auto& process : run.trainers()) {
      const bool there = process->start_ns < strike.at_ns &&
                         (process->running() || process->end_ns > strike.at_ns);
      if (!there || process.get() == strike.victim) continue;
      ++survivors;
      told += WasTold(*process, strike.victim->replica);
    }
    checks->That(told == survivors && told > 0,
                 Format("%s of %s: %d of %d survivors name it", strike.what.c_str(),
                        strike.victim->name.c_str(), told, survivors));
    int64_t delivered_ns = 0;
    std::string buckets;
    const long long step = FirstWithout(run, strike, &delivered_ns, &buckets);
    if (strike.step < 0) continue;
    // Its death may come so late in the step that all its data had arrived; then the next step is
    // the first without it.
    checks->That(step == strike.step || step == strike.step + 1,
                 Format("the allreduce of step %lld, in which it died, ended with the survivors; "
                        "replicas in the buckets of "
                        "step %lld:%s",
                        strike.step, step, buckets.c_str()));
  }
}

// Who enters or leaves as planned does so between two steps: every operation has exactly those
// replicas that take part in its step.
void CheckPlanned(const Run& run, Checks* checks) {
  const Process &leaver = *run.trainers()[kLeaver], &newcomer = *run.trainers()[kReplicas];
  long long other = -1;
  for (auto at = run.steps().lower_bound(std::max(newcomer.first_step, 0LL));
       at != run.steps().end(); ++at) {
    const int64_t expected = at->first <= leaver.last_step ? kReplicas - 1 : kReplicas - 2;
    for (const auto& bucket : at->second.front().buckets) {
      if (bucket[0] != expected) other = at->first;
    }
  }
  checks->That(
      other < 0,
      other < 0 ? "joining and leaving cost no operation a participant"
                : Format("in step %lld the participants are others than those of the step", other));
}

void CheckEnds(const Run& run, Checks* checks) {
  const auto& all = run.trainers();
  const Process &killed = *all[kKilled], &stopped = *all[kStopped], &leaver = *all[kLeaver],
                &newcomer = *all[kReplicas];
  checks->That(WIFSIGNALED(killed.wait_status) && WTERMSIG(killed.wait_status) == SIGKILL,
               killed.name + " was killed");
  checks->That(stopped.exited_with(kEvictedExit),
               stopped.name + " was told that it is evicted, and ended");
  checks->That(newcomer.Find("state") != nullptr && newcomer.first_step > 0,
               newcomer.name + " took over the state and trained");
  checks->That(leaver.exited_with(0) && leaver.Find("left") != nullptr,
               leaver.name + " left as planned");
  for (const auto& process : all) {
    if (process.get() == &killed || process.get() == &stopped || process.get() == &leaver) continue;
    checks->That(process->exited_with(0) && process->Find("finished") != nullptr,
                 process->name + " finished");
  }
  int64_t median_ns = 0;
  const int64_t pause_ns = LongestPause(run, 0, INT64_MAX, &median_ns),
                bound_ns = run.timeout_ns() * 11 / 10 + 500 * kMillisecond;
  checks->That(pause_ns <= bound_ns,
               Format("training never stopped: longest pause %.0f ms, allowed %.0f ms (timeout "
                      "%.0f ms, and a tenth, and 500 ms)",
                      Ms(pause_ns), Ms(bound_ns), Ms(run.timeout_ns())));
}

}  // namespace

bool Report(const Run& run, bool complete) {
  if (run.steps().empty()) return false;
  PrintTimeline(run);
  PrintParticipants(run);
  if (!complete) return false;
  const Json* finished = run.trainers().back()->Find("finished");
  if (finished)
    printf("\nThe model goes on from 16 letters of the text:\n  %s\n",
           (*finished)["text"].get<std::string>().c_str());
  printf("\nChecks\n");
  Checks checks;
  CheckSteps(run, &checks);
  CheckLoss(run, &checks);
  CheckStrikes(run, &checks);
  CheckPlanned(run, &checks);
  CheckEnds(run, &checks);
  return checks.ok();
}

}  // namespace demo
