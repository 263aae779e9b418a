#include "perf/launcher.h"

#include <errno.h>
#include <signal.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>

#include "fmt/format.h"
#include "perf/buffers.h"
#include "perf/churn.h"
#include "perf/clock.h"
#include "perf/collector.h"
#include "perf/fleet.h"
#include "perf/ideal.h"
#include "perf/judge.h"
#include "perf/matmul.h"
#include "perf/process.h"
#include "perf/progress.h"

namespace ftar::perf {
namespace {

// Until a leaver is out and a newcomer in: for each, the library's window behind all that perf's
// own lets others start.
constexpr uint64_t kLeaveIterations = 64;
constexpr int64_t kGraceNs = 3'000'000'000;  // for a cut-off victim to notice that it is out
#ifdef FTAR_TEST_HOOKS
constexpr bool kTestHooks = true;
#else
constexpr bool kTestHooks = false;
#endif

class Launcher {
 public:
  Launcher(const Options& options, const std::vector<std::string>& arguments)
      : options_(options),
        schedule_(options, false),
        table_(options, schedule_, stdout),
        collector_(options, schedule_, &table_),
        fleet_(
            options, arguments,
            [this](const RankProcess& process, const Record& record) { OnRecord(process, record); },
            [this](const RankProcess& process) {
              if (!process.bystander) collector_.OnGone(process.number);
            }) {}

  int Run();

 private:
  std::string Start();
  void OnRecord(const RankProcess& process, const Record& record);
  void StartNewcomers();
  void WakeStopped(const EventRecord& event);
  bool Hangs();
  bool FailsEarly() const;
  bool Finished();
  int Conclude(std::vector<std::string> errors);
  std::string DeathComplaint(const RankProcess& process) const;
  std::vector<std::string> Complaints() const;
  nlohmann::json JudgeAll(bool agreed, std::vector<std::string>* errors);
  nlohmann::json OpsJson() const;
  nlohmann::json EventsJson() const;
  uint64_t Delivered();
  int64_t HookStruckNs(const FaultSpec& fault) const;
  const FaultSpec* FaultOf(int number) const;
  bool ByHook(const FaultSpec& fault) const;
  std::string CheckHooks() const;
  std::vector<std::pair<std::string, std::string>> HookOf(int number) const;
  bool MayDie(int number) const;

  const Options& options_;
  Schedule schedule_;
  Table table_;
  Collector collector_;
  Progress progress_{stderr};
  Fleet fleet_;                      // a process's number is its replica here
  std::vector<int64_t> started_ns_;  // by fault: when its newcomer was started
  bool hung_ = false;
  int64_t all_done_ns_ = 0;  // when only victims were left
};

const FaultSpec* Launcher::FaultOf(int number) const {
  for (const FaultSpec& fault : options_.faults) {
    if (fault.rank == number) return &fault;
  }
  return nullptr;
}

bool Launcher::MayDie(int number) const {
  const FaultSpec* fault = FaultOf(number);
  return fault != nullptr && RemovesVictim(fault->kind) && fault->kind != FaultKind::kLeave;
}

bool Launcher::ByHook(const FaultSpec& fault) const {
  return options_.fault_stage.empty() ? StrikesByHook(fault.kind) : StrikesAtStage(fault.kind);
}

// A library as it is installed has no hooks: ranks that ask for one could not join.
std::string Launcher::CheckHooks() const {
  for (const FaultSpec& fault : options_.faults) {
    if (kTestHooks || !ByHook(fault)) continue;
    return fmt::format(
        "--fault {}{}: this build has no test hooks, without which there are kill, stop, leave, "
        "join and delay, at no chosen stage; 'cmake --preset release' builds with them",
        ToString(fault), options_.fault_stage.empty() ? "" : " --fault-stage");
  }
  return "";
}

// What tells the library's hook to strike this rank.
std::vector<std::pair<std::string, std::string>> Launcher::HookOf(int number) const {
  const FaultSpec* fault = FaultOf(number);
  if (fault == nullptr || !ByHook(*fault)) return {};
  const std::string stage = options_.fault_stage.empty() ? "sending" : options_.fault_stage;
  return {{"FTAR_TEST_FAULT",
           HookText(*fault, schedule_.SeqOf(fault->iteration), stage, options_.fault_chunk)}};
}

std::string Launcher::Start() {
  if (std::string refused = CheckHooks(); !refused.empty()) return refused;
  uint64_t part_bytes = options_.fresh ? 1 : 0;
  if (options_.ideal == IdealKind::kPull || options_.ideal == IdealKind::kPush)
    part_bytes = Ideal::PartBytes(BufferBytes(options_, schedule_, options_.ranks));
  const std::string error = fleet_.Open(part_bytes);
  if (!error.empty()) return error;
  started_ns_.assign(options_.faults.size(), 0);
  if (options_.threads) {
    for (int i = 0; i < options_.ranks; ++i) collector_.OnStart(i, true);
    return fleet_.StartThreads() ? "" : fmt::format("cannot start: {}", std::strerror(errno));
  }
  for (int i = 0; i < options_.ranks; ++i) {
    collector_.OnStart(i, true);
    if (!fleet_.StartRank({i, i, false, false, HookOf(i)})) {
      return fmt::format("cannot start rank {}: {}", i, std::strerror(errno));
    }
  }
  return "";
}

void Launcher::OnRecord(const RankProcess& process, const Record& record) {
  // What may bring forth a line.
  if (!std::holds_alternative<OpRecord>(record)) progress_.Clear();
  if (const auto* event = std::get_if<EventRecord>(&record)) {
    if (options_.verbose) {
      fmt::print("# event at rank {}: type {} epoch {:#x} about replica {}: {}\n", process.number,
                 event->type, event->epoch, event->replica, event->text);
    }
    WakeStopped(*event);
  }
  collector_.OnRecord(process.number, record);
}

// A stopped victim goes on once a survivor says that it is out: a late store of its must hurt
// nobody.
void Launcher::WakeStopped(const EventRecord& event) {
  if (event.type != FTAR_EVENT_MEMBER_LOST) return;
  const FaultSpec* fault = FaultOf(event.replica);
  const auto it = fleet_.processes().find(event.replica);
  if (fault == nullptr || fault->kind != FaultKind::kStop || it == fleet_.processes().end()) return;
  if (!it->second.exited) kill(it->second.pid, SIGCONT);
}

void Launcher::StartNewcomers() {
  uint64_t iteration = 0;
  for (int i = 0; i < options_.ranks; ++i) {
    iteration = std::max(iteration, fleet_.slot(i).iteration.load());
  }
  int number = options_.ranks;
  for (size_t i = 0; i < options_.faults.size(); ++i) {
    const FaultSpec& fault = options_.faults[i];
    if (fault.kind != FaultKind::kJoin && fault.kind != FaultKind::kStart) continue;
    const int mine = number++;
    if (started_ns_[i] != 0 || iteration < fault.iteration) continue;
    started_ns_[i] = NowNs();
    const bool bystander = fault.kind == FaultKind::kStart;
    if (!bystander) collector_.OnStart(mine, false);
    fleet_.StartRank({mine, mine, true, bystander, HookOf(mine)});
  }
}

// True when a rank that could work has shown nothing new for too long.
bool Launcher::Hangs() {
  for (auto& [number, process] : fleet_.processes()) {
    if (process.exited || process.bystander) continue;
    const BoardSlot& slot = fleet_.slot(number);
    // A thread that is done waits for the others.
    if (options_.threads && slot.state.load() == static_cast<int32_t>(RankState::kDone)) continue;
    const bool struck = MayDie(number) && slot.strike_ns.load() != 0;
    if (fleet_.StandsStill(&process) && !struck) hung_ = true;
  }
  return hung_;
}

// A rank that ends before it has joined leaves the others waiting for it in vain, and so does one
// that dies where they meet it outside the library.
bool Launcher::FailsEarly() const {
  for (const auto& [number, process] : fleet_.processes()) {
    const auto it = collector_.histories().find(number);
    const bool known = it != collector_.histories().end();
    const bool joined = known && it->second.hello.has_value();
    const bool ended = process.exited || (known && it->second.end.has_value());
    const bool done = known && it->second.end && it->second.end->status == FTAR_OK;
    const bool missed = !joined || (options_.fresh && !done);
    if (ended && missed && !process.bystander) return true;
  }
  return false;
}

bool Launcher::Finished() {
  bool victims_left = false;
  for (const auto& [number, process] : fleet_.processes()) {
    if (process.exited || process.bystander) continue;
    if (!MayDie(number)) return false;
    victims_left = true;
  }
  if (all_done_ns_ == 0) all_done_ns_ = NowNs();
  return !victims_left || NowNs() - all_done_ns_ > kGraceNs;
}

std::string Launcher::DeathComplaint(const RankProcess& process) const {
  const std::string state = DescribeState(fleet_.slot(process.number));
  const int status = process.wait_status;
  if (!process.exited) {
    if (!hung_) return "";
    return fmt::format("hang: rank {} was {}, no news for {:.1f} s", process.number, state,
                       static_cast<double>(NowNs() - process.progress_ns) / 1e9);
  }
  if (WIFSIGNALED(status)) {
    return fmt::format("rank {} died of signal {} while {}", process.number, WTERMSIG(status),
                       state);
  }
  if (WEXITSTATUS(status) == kExitOk || WEXITSTATUS(status) == kExitWrong) return "";
  const auto history = collector_.histories().find(process.number);
  const bool ended = history != collector_.histories().end() && history->second.end.has_value();
  if (options_.threads && ended) return "";  // the code is that of the worst of them
  return fmt::format("rank {} ended with exit code {} while {}", process.number,
                     WEXITSTATUS(status), state);
}

std::vector<std::string> Launcher::Complaints() const {
  std::vector<std::string> complaints;
  for (const auto& [number, process] : fleet_.processes()) {
    const auto it = collector_.histories().find(number);
    const bool joined = it != collector_.histories().end() && it->second.hello.has_value();
    if (process.bystander || (MayDie(number) && (joined || !process.exited))) continue;
    const std::string death = DeathComplaint(process);
    if (!death.empty()) complaints.push_back(death);
    if (it == collector_.histories().end() || !it->second.end) continue;
    const EndRecord& end = *it->second.end;
    const FaultSpec* fault = FaultOf(number);
    const bool leaves = fault != nullptr && fault->kind == FaultKind::kLeave;
    // A link that cannot be repaired costs the victim its place, which is an outcome of these.
    const bool cut_off = fault != nullptr && NeedsTcp(fault->kind);
    if (end.status != FTAR_OK && !(leaves && end.status == FTAR_ERR_LEFT) &&
        !(cut_off && end.status == FTAR_ERR_EVICTED)) {
      const std::string name = ftarResultString(end.status);
      const bool named = end.text.find(name) != std::string::npos;
      complaints.push_back(fmt::format("rank {}: {}{}", number, named ? "" : name + " ", end.text));
    }
  }
  return complaints;
}

// A death or a stop by the library's hook is seen from here, perhaps after a survivor saw it.
int64_t Launcher::HookStruckNs(const FaultSpec& fault) const {
  const auto it = fleet_.processes().find(fault.rank);
  if (it == fleet_.processes().end()) return 0;
  const RankProcess& process = it->second;
  int64_t seen_ns = fault.kind == FaultKind::kStop ? process.stop_ns : process.exit_ns;
  for (const auto& [number, history] : collector_.histories()) {
    for (const EventRecord& event : history.events) {
      if (event.type != FTAR_EVENT_MEMBER_LOST || event.replica != fault.rank) continue;
      seen_ns = std::min(seen_ns, event.time_ns);
    }
  }
  return seen_ns;
}

nlohmann::json Launcher::JudgeAll(bool agreed, std::vector<std::string>* errors) {
  nlohmann::json all = nlohmann::json::array();
  int newcomer = options_.ranks;
  for (size_t i = 0; i < options_.faults.size(); ++i) {
    const FaultSpec& fault = options_.faults[i];
    const bool starts = fault.kind == FaultKind::kJoin || fault.kind == FaultKind::kStart;
    const int victim = starts ? newcomer++ : fault.rank;
    int64_t struck_ns = starts ? started_ns_[i] : fleet_.slot(victim).strike_ns.load();
    // What the hook does otherwise the rank has dated.
    const bool ends = StrikesBySignal(fault.kind) || fault.kind == FaultKind::kExit;
    if (struck_ns == 0 && ends) struck_ns = HookStruckNs(fault);
    if (struck_ns == 0 && errors->empty())
      errors->push_back(fmt::format("{} never struck", ToString(fault)));
    const FaultResult result = JudgeFault(
        fault, victim, struck_ns, schedule_.SeqOf(fault.iteration), collector_.histories(), agreed);
    fmt::print("{}\n", FormatFault(result));
    // Whoever takes damaged bytes for good ones proves nothing by agreeing on them.
    if (fault.kind == FaultKind::kCorrupt && !result.detect_ms)
      errors->push_back(fmt::format("nobody noticed {}", ToString(fault)));
    all.push_back(FaultJson(result));
    all.back()["struck_ns"] = struck_ns;
  }
  return all;
}

// [seq, start, delivered, participants] of each checked operation, by rank.
nlohmann::json Launcher::OpsJson() const {
  nlohmann::json ranks = nlohmann::json::object();
  for (const auto& [number, history] : collector_.histories()) {
    nlohmann::json ops = nlohmann::json::array();
    for (const OpRecord& op : history.ops) {
      ops.push_back({op.seq, op.start_ns, op.delivered_ns, op.participants.size()});
    }
    ranks[std::to_string(number)] = ops;
  }
  return ranks;
}

nlohmann::json Launcher::EventsJson() const {
  nlohmann::json events = nlohmann::json::array();
  for (const auto& [number, history] : collector_.histories()) {
    for (const EventRecord& event : history.events) {
      events.push_back({{"rank", number},
                        {"time_ns", event.time_ns},
                        {"about", event.replica},
                        {"text", event.text}});
    }
  }
  return events;
}

// By whoever is furthest.
uint64_t Launcher::Delivered() {
  uint64_t most = 0;
  for (const auto& [number, process] : fleet_.processes())
    most = std::max(most, fleet_.slot(number).delivered.load());
  return most;
}

int Launcher::Conclude(std::vector<std::string> errors) {
  const size_t deaths = errors.size();
  for (const std::string& text : collector_.disagreements()) errors.push_back(text);
  for (const std::string& text : collector_.Complaints()) errors.push_back(text);
  if (!hung_ && deaths == 0 && collector_.wrong() == 0 && !table_.bandwidth_ok()) {
    errors.emplace_back("the bus bandwidth is below 0.9 of --min-bw");
  }
  nlohmann::json extra = nlohmann::json::object();
  extra["agreed"] = collector_.disagreements().empty();
  if (!options_.faults.empty()) {
    extra["faults"] = JudgeAll(collector_.disagreements().empty(), &errors);
    extra["fault"] = extra["faults"][0];
  }
  const bool timeline = !options_.files.report.empty() && !options_.faults.empty();
  if (options_.json_ops || timeline) extra["ops"] = OpsJson();
  if (timeline) extra["events"] = EventsJson();
  const bool written = table_.Footer(collector_.wrong(), errors, extra);
  if (hung_) return kExitHang;
  if (collector_.wrong() > 0 || !collector_.disagreements().empty()) return kExitWrong;
  // What only a rank can find, as that cuBLAS does not start.
  const auto refused = [](const auto& entry) {
    const RankProcess& process = entry.second;
    return process.exited && WIFEXITED(process.wait_status) &&
           WEXITSTATUS(process.wait_status) == kExitUsage;
  };
  const auto& all = fleet_.processes();
  if (std::any_of(all.begin(), all.end(), refused)) return kExitUsage;
  if (deaths > 0) return kExitLost;
  return errors.empty() && written ? kExitOk : kExitWrong;
}

int Launcher::Run() {
  const std::string error = Start();
  if (!error.empty()) {
    fmt::print(stderr, "ftar-perf: {}\n", error);
    return kExitLibrary;
  }
  do {
    fleet_.Pump(10);
    StartNewcomers();
    progress_.Show(Delivered(), schedule_.size());
  } while (!Finished() && !Hangs() && !FailsEarly());
  progress_.Clear();
  if (hung_) fleet_.DumpAll();
  // What they did until now, before the first of them is ended.
  std::vector<std::string> errors = Complaints();
  fleet_.EndAll();
  return Conclude(std::move(errors));
}

// Faults that the run would end before.
std::string TooLate(const Options& options) {
  const uint64_t iterations = Schedule(options, false).iterations();
  for (const FaultSpec& fault : options.faults) {
    if (fault.iteration >= iterations) {
      return fmt::format("--fault {}: the run has only {} timed iterations", ToString(fault),
                         iterations);
    }
    for (const FaultSpec& join : options.faults) {
      if (fault.kind != FaultKind::kLeave || join.kind != FaultKind::kJoin ||
          fault.iteration > join.iteration || fault.iteration + kLeaveIterations < iterations)
        continue;
      return fmt::format("--fault {}: {} comes after it, and both take {} of {} timed iterations",
                         ToString(fault), ToString(join), kLeaveIterations, iterations);
    }
  }
  return "";
}

// Another program under the same coordinator, with torchrun's names for the rank.
int RunCommand(const Options& options) {
  Coordinator coordinator;
  const std::string token = RandomToken();
  const std::string error = coordinator.Start(token, options.hang_timeout_s);
  if (!error.empty()) {
    fmt::print(stderr, "ftar-perf: {}\n", error);
    return kExitLibrary;
  }
  std::vector<pid_t> children;
  for (int i = 0; i < options.ranks; ++i) {
    const std::string rank = std::to_string(i), world = std::to_string(options.ranks);
    SpawnRequest request;
    request.arguments = options.command;
    request.environment = {{"FTAR_COORDINATOR", coordinator.address()},
                           {"FTAR_TOKEN", token},
                           {"RANK", rank},
                           {"LOCAL_RANK", rank},
                           {"WORLD_SIZE", world},
                           {"LOCAL_WORLD_SIZE", world}};
    children.push_back(Spawn(request));
  }
  int code = kExitOk;
  for (pid_t child : children) {
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) != child || WIFSIGNALED(status)) {
      code = kExitLost;
    } else if (WEXITSTATUS(status) != 0 && code == kExitOk) {
      code = WEXITSTATUS(status);
    }
  }
  return code;
}

}  // namespace

int RunLauncher(const Options& options, const std::vector<std::string>& arguments) {
  signal(SIGPIPE, SIG_IGN);
  const std::string late = TooLate(options);
  if (!late.empty()) {
    fmt::print(stderr, "ftar-perf: {}\n", late);
    return kExitUsage;
  }
  std::string missing = options.OnDevice() ? Cuda::Missing(options.cuda_runtime) : "";
  if (missing.empty() && options.matmul > 0) missing = Matmul::Missing(options.cublas);
  if (missing.empty()) missing = WhyNotWritable(options.files);
  if (!missing.empty()) {
    fmt::print(stderr, "ftar-perf: {}\n", missing);
    return kExitUsage;
  }
  if (!options.command.empty()) return RunCommand(options);
  if (options.churn > 0) return RunChurn(options, arguments);
  Launcher launcher(options, arguments);
  return launcher.Run();
}

}  // namespace ftar::perf
