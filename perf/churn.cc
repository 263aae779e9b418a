#include "perf/churn.h"

#include <dirent.h>
#include <signal.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <random>
#include <set>

#include "fmt/format.h"
#include "perf/clock.h"
#include "perf/collector.h"
#include "perf/fleet.h"
#include "perf/stats.h"

namespace ftar::perf {
namespace {

constexpr int kMore = 4;           // members above those at the start
constexpr size_t kHistory = 4096;  // operations compared at a time
constexpr int kEach = 50;          // more actions than these are not printed one by one
constexpr std::array kDone = {"killed", "stopped", "told to leave", "started"};
constexpr int64_t kPauseMinNs = 20'000'000, kPauseMaxNs = 250'000'000;
constexpr int64_t kSampleNs = 1'000'000'000;

struct Sample {
  int actions = 0;
  Footprint footprint;
};

class Churn {
 public:
  Churn(const Options& options, const std::vector<std::string>& arguments)
      : options_(options),
        schedule_(options, false),
        table_(options, schedule_, nullptr),
        collector_(options, schedule_, &table_),
        random_(options.seed),
        fleet_(
            options, arguments,
            [this](const RankProcess& process, const Record& record) { OnRecord(process, record); },
            [this](const RankProcess& process) { OnGone(process); }) {
    collector_.LimitHistory(kHistory);
  }

  int Run();

 private:
  std::string Start();
  void OnRecord(const RankProcess& process, const Record& record);
  void OnGone(const RankProcess& process);
  void Act();
  // Both answer whom they chose; -1: nobody.
  int Strike(ChurnAction action);
  int Join();
  RankProcess* PickVictim();
  bool Hangs();
  bool GoesWell() { return !Hangs() && errors_.empty() && collector_.wrong() == 0; }
  bool Settled();
  void TakeSample();
  bool AllJoined() const;
  void EndRun();
  int Conclude();
  nlohmann::json Report(const std::vector<double>& descriptors, const std::vector<double>& mappings,
                        const std::vector<double>& memory) const;

  const Options& options_;
  Schedule schedule_;
  Table table_;
  Collector collector_;
  std::mt19937_64 random_;
  Fleet fleet_;
  std::map<int, int>
      holders_;           // replica -> number of the process that has, or will have, the place
  std::set<int> struck_;  // numbers of processes that may end as they like
  std::map<int, int64_t> stopped_;  // number -> when it was stopped
  std::array<int, 4> counts_{};     // actions by kind
  int actions_ = 0;
  int next_number_ = 0;
  int64_t next_action_ns_ = 0, next_sample_ns_ = 0;
  std::vector<Sample> samples_;
  std::vector<std::string> errors_;
  bool hung_ = false;
};

std::string Churn::Start() {
  const std::string error = fleet_.Open();
  if (!error.empty()) return error;
  for (int i = 0; i < options_.ranks; ++i) {
    collector_.OnStart(i, true);
    if (!fleet_.StartRank({i, i, false, false, {}})) return fmt::format("cannot start rank {}", i);
    holders_[i] = i;
  }
  next_number_ = options_.ranks;
  return "";
}

void Churn::OnRecord(const RankProcess& process, const Record& record) {
  collector_.OnRecord(process.number, record);
  const auto* event = std::get_if<EventRecord>(&record);
  if (event == nullptr || event->type != FTAR_EVENT_MEMBER_LOST) return;
  // A stopped process goes on when it is out, and must find out that it is.
  for (auto it = stopped_.begin(); it != stopped_.end();) {
    const auto found = fleet_.processes().find(it->first);
    const bool out = found->second.replica == event->replica && event->time_ns > it->second;
    if (out) kill(found->second.pid, SIGCONT);
    it = out ? stopped_.erase(it) : std::next(it);
  }
}

void Churn::OnGone(const RankProcess& process) {
  collector_.OnGone(process.number);
  const int status = process.wait_status;
  if (struck_.count(process.number) == 0 &&
      (WIFSIGNALED(status) || WEXITSTATUS(status) != kExitOk)) {
    const auto& end = collector_.histories().at(process.number).end;
    errors_.push_back(fmt::format(
        "process {} (replica {}) ended by itself, status {:#x}, while {}: {}", process.number,
        process.replica, status, DescribeState(fleet_.slot(process.number)), end ? end->text : ""));
  }
  if (process.replica > 0) holders_.erase(process.replica);
}

RankProcess* Churn::PickVictim() {
  std::vector<RankProcess*> candidates;
  for (const auto& [replica, number] : holders_) {
    RankProcess& process = fleet_.processes().at(number);
    const bool working = fleet_.slot(number).delivered.load() > 0;
    if (replica > 0 && working && !process.exited && struck_.count(number) == 0)
      candidates.push_back(&process);
  }
  return candidates.empty() ? nullptr : candidates[random_() % candidates.size()];
}

int Churn::Join() {
  int replica = 0;
  while (holders_.count(replica) != 0) ++replica;
  const int number = next_number_++;
  collector_.OnStart(number, false);
  if (!fleet_.StartRank({number, replica, true, false, {}})) {
    errors_.push_back(fmt::format("cannot start process {}: of a run there are at most {}", number,
                                  kMaxProcesses));
    return -1;
  }
  holders_[replica] = number;
  return replica;
}

int Churn::Strike(ChurnAction action) {
  RankProcess* victim = PickVictim();
  if (victim == nullptr) return -1;
  struck_.insert(victim->number);
  if (action == ChurnAction::kLeave) {
    fleet_.slot(victim->number).leave.store(1);
    return victim->replica;
  }
  if (action == ChurnAction::kStop) stopped_[victim->number] = NowNs();
  kill(victim->pid, action == ChurnAction::kKill ? SIGKILL : SIGSTOP);
  return victim->replica;
}

void Churn::Act() {
  const int64_t now_ns = NowNs();
  if (now_ns < next_action_ns_ || !AllJoined()) return;
  int members = 0;
  for (const auto& [replica, number] : holders_) members += struck_.count(number) == 0 ? 1 : 0;
  const ChurnAction action =
      ChooseAction(members, options_.ranks, options_.ranks + kMore, random_());
  const int whom = action == ChurnAction::kJoin ? Join() : Strike(action);
  if (whom < 0) return;  // nobody to strike yet: that is no action
  ++counts_[static_cast<size_t>(action)];
  ++actions_;
  next_action_ns_ =
      now_ns + kPauseMinNs + static_cast<int64_t>(random_() % (kPauseMaxNs - kPauseMinNs));
  if (options_.churn <= kEach) {
    fmt::print("# action {}: of {} members, {} operations compared, replica {} is {}\n", actions_,
               members, collector_.compared(), whom, kDone[static_cast<size_t>(action)]);
  } else if (actions_ % kEach == 0) {
    fmt::print("# {} actions, {} operations compared, {} members\n", actions_,
               collector_.compared(), members);
  }
  std::fflush(stdout);
}

// Before the first action everybody who starts must be in.
bool Churn::AllJoined() const {
  for (int i = 0; i < options_.ranks; ++i) {
    const auto it = collector_.histories().find(i);
    if (it == collector_.histories().end() || !it->second.hello) return false;
  }
  return true;
}

bool Churn::Hangs() {
  for (auto& [number, process] : fleet_.processes()) {
    if (process.exited || stopped_.count(number) != 0 || !fleet_.StandsStill(&process)) continue;
    hung_ = true;
    errors_.push_back(fmt::format("hang: process {} (replica {}) was {}", number, process.replica,
                                  DescribeState(fleet_.slot(number))));
  }
  return hung_;
}

void Churn::TakeSample() {
  const int64_t now_ns = NowNs();
  if (now_ns < next_sample_ns_) return;
  next_sample_ns_ = now_ns + kSampleNs;
  samples_.push_back({actions_, FootprintOf(fleet_.processes().at(0).pid)});
}

// Whoever was struck is gone, and whoever was started works: nobody comes to a job that has ended.
bool Churn::Settled() {
  return std::all_of(fleet_.processes().begin(), fleet_.processes().end(), [this](auto& entry) {
    const auto& [number, process] = entry;
    return process.exited ||
           (struck_.count(number) == 0 && fleet_.slot(number).delivered.load() > 0);
  });
}

// Lets all that live finish the same operation, the last one.
void Churn::EndRun() {
  while (!Settled() && GoesWell()) fleet_.Pump(10);
  fleet_.slot(0).end_asked.store(1);
  const auto alive = [&] {
    return std::any_of(fleet_.processes().begin(), fleet_.processes().end(),
                       [](const auto& entry) { return !entry.second.exited; });
  };
  while (alive() && !Hangs()) fleet_.Pump(10);
}

nlohmann::json Churn::Report(const std::vector<double>& descriptors,
                             const std::vector<double>& mappings,
                             const std::vector<double>& memory) const {
  return {{"actions", actions_},
          {"kills", counts_[0]},
          {"stops", counts_[1]},
          {"leaves", counts_[2]},
          {"joins", counts_[3]},
          {"compared", collector_.compared()},
          {"wrong", collector_.wrong()},
          {"disagreements", collector_.disagreements().size()},
          {"hang", hung_},
          {"descriptors", descriptors},
          {"mappings", mappings},
          {"private_kib", memory},
          {"errors", errors_}};
}

int Churn::Conclude() {
  std::vector<double> descriptors, mappings, memory;
  for (const Sample& sample : samples_) {
    descriptors.push_back(static_cast<double>(sample.footprint.descriptors));
    mappings.push_back(static_cast<double>(sample.footprint.mappings));
    memory.push_back(static_cast<double>(sample.footprint.private_kib));
  }
  for (const std::string& text : collector_.disagreements()) errors_.push_back(text);
  fmt::print(
      "# Churn: {} kills, {} stops, {} leaves, {} joins; {} operations compared, {} wrong, {} "
      "disagreements{}\n",
      counts_[0], counts_[1], counts_[2], counts_[3], collector_.compared(), collector_.wrong(),
      collector_.disagreements().size(), hung_ ? ", HANG" : "");
  for (const std::string& error : errors_) fmt::print("# ERROR: {}\n", error);
  const std::string unwritten =
      WriteResults({options_.files.json, "", ""}, Report(descriptors, mappings, memory));
  if (!unwritten.empty()) fmt::print(stderr, "ftar-perf: cannot write {}\n", unwritten);
  if (hung_) return kExitHang;
  if (collector_.wrong() > 0 || !collector_.disagreements().empty()) return kExitWrong;
  if (!errors_.empty()) return kExitLost;
  return unwritten.empty() ? kExitOk : kExitWrong;
}

int Churn::Run() {
  const std::string error = Start();
  if (!error.empty()) {
    fmt::print(stderr, "ftar-perf: {}\n", error);
    return kExitLibrary;
  }
  while (actions_ < options_.churn && GoesWell()) {
    fleet_.Pump(5);
    Act();
    TakeSample();
  }
  if (!hung_ && errors_.empty()) EndRun();
  if (hung_) fleet_.DumpAll();
  fleet_.EndAll();
  return Conclude();
}

}  // namespace

ChurnAction ChooseAction(int members, int low, int high, uint64_t random) {
  if (members <= low) return ChurnAction::kJoin;
  const uint64_t part = random % 100;
  if (members < high && part < 45) return ChurnAction::kJoin;
  if (part % 20 < 11) return ChurnAction::kKill;
  return part % 20 < 14 ? ChurnAction::kStop : ChurnAction::kLeave;
}

namespace {

template <typename Act>
void EachLine(const std::string& path, const Act& act) {
  std::FILE* file = std::fopen(path.c_str(), "re");
  if (file == nullptr) return;
  char line[512];
  while (std::fgets(line, sizeof line, file) != nullptr) act(line);
  std::fclose(file);
}

}  // namespace

Footprint FootprintOf(int64_t pid) {
  Footprint footprint;
  DIR* folder = opendir(fmt::format("/proc/{}/fd", pid).c_str());
  if (folder == nullptr) return footprint;
  while (readdir(folder) != nullptr) ++footprint.descriptors;
  closedir(folder);
  footprint.descriptors -= 2;  // "." and ".."
  EachLine(fmt::format("/proc/{}/status", pid), [&footprint](const char* line) {
    unsigned long long kib = 0;
    if (std::sscanf(line, "RssAnon: %llu", &kib) == 1) footprint.private_kib += kib;
    if (std::sscanf(line, "RssFile: %llu", &kib) == 1) footprint.private_kib += kib;
  });
  EachLine(fmt::format("/proc/{}/maps", pid), [&footprint](const char*) { ++footprint.mappings; });
  return footprint;
}

int RunChurn(const Options& options, const std::vector<std::string>& arguments) {
  // One row without end: the launcher says when it is enough.
  Options endless = options;
  endless.out_of_place = true;
  endless.in_place = false;
  endless.iters = 2'000'000'000;
  endless.check_every = true;
  std::vector<std::string> more = arguments;
  for (const char* flag : {"--iters", "2000000000", "--placement", "out", "--check-every"})
    more.emplace_back(flag);
  Churn churn(endless, more);
  return churn.Run();
}

}  // namespace ftar::perf
