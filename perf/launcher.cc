#include "perf/launcher.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "fmt/format.h"
#include "perf/board.h"
#include "perf/clock.h"
#include "perf/collector.h"
#include "perf/judge.h"
#include "perf/process.h"

namespace ftar::perf {
namespace {

constexpr int64_t kSecondNs = 1'000'000'000;
constexpr int64_t kGraceNs = 3 * kSecondNs;  // for a cut-off victim to notice that it is out
constexpr int kCoordinatorTimeoutS = 20;

// One started process.
struct Child {
  pid_t pid = -1;
  int index = -1;
  int fd = -1;
  LineBuffer lines;
  bool bystander = false;
  bool exited = false;
  int wait_status = 0;
  int64_t exit_ns = 0;
  int64_t stop_ns = 0;      // when it was first seen stopped
  int64_t progress_ns = 0;  // when its board slot last changed
  uint64_t signature = 0;   // of what the slot showed then
};

class Launcher {
 public:
  Launcher(const Options& options, const std::vector<std::string>& arguments)
      : options_(options),
        arguments_(arguments),
        schedule_(options, false),
        table_(options, schedule_, stdout),
        collector_(options, schedule_, &table_) {}

  ~Launcher() {
    EndAll();
    if (signal_fd_ >= 0) close(signal_fd_);
    for (auto& [index, child] : children_) {
      if (child.fd >= 0) close(child.fd);
    }
  }

  int Run();

 private:
  std::string Start();
  bool StartRank(int index, bool newcomer, bool bystander);
  void Pump(int timeout_ms);
  void ReadLines(Child* child);
  void OnLine(Child* child, const std::string& line);
  void Reap();
  void StartNewcomers();
  void WakeStopped(const EventRecord& event);
  bool Hangs();
  bool FailsEarly() const;
  bool Finished() const;
  void EndAll();
  int Conclude();
  std::vector<std::string> DeathComplaints() const;
  nlohmann::json JudgeAll(bool agreed);
  int64_t HookStruckNs(const FaultSpec& fault) const;
  const FaultSpec* FaultOf(int index) const;
  bool MayDie(int index) const;

  const Options& options_;
  const std::vector<std::string>& arguments_;
  Schedule schedule_;
  Table table_;
  Collector collector_;
  Coordinator coordinator_;
  std::unique_ptr<Board> board_;
  std::string token_;
  int signal_fd_ = -1;
  std::map<int, Child> children_;
  std::vector<bool> newcomers_started_;  // by fault
  std::vector<int64_t> started_ns_;      // by fault: when its newcomer was started
  bool hung_ = false;
  int64_t originals_done_ns_ = 0;
};

const FaultSpec* Launcher::FaultOf(int index) const {
  for (const FaultSpec& fault : options_.faults) {
    if (fault.rank == index) return &fault;
  }
  return nullptr;
}

bool Launcher::MayDie(int index) const {
  const FaultSpec* fault = FaultOf(index);
  return fault != nullptr && fault->kind != FaultKind::kDelay && fault->kind != FaultKind::kLeave;
}

std::string Launcher::Start() {
  board_ = Board::Create();
  if (board_ == nullptr) return "no memory for the board";
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGCHLD);
  sigprocmask(SIG_BLOCK, &signals, nullptr);
  signal_fd_ = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
  if (signal_fd_ < 0) return "no descriptor for signals";
  token_ = RandomToken();
  const std::string error = coordinator_.Start(token_, kCoordinatorTimeoutS);
  if (!error.empty()) return error;
  for (int i = 0; i < options_.ranks; ++i) {
    collector_.OnStart(i, true);
    if (!StartRank(i, false, false))
      return fmt::format("cannot start rank {}: {}", i, std::strerror(errno));
  }
  newcomers_started_.assign(options_.faults.size(), false);
  started_ns_.assign(options_.faults.size(), 0);
  return "";
}

bool Launcher::StartRank(int index, bool newcomer, bool bystander) {
  Child child;
  int write_fd = -1;
  if (!MakePipe(&child.fd, &write_fd)) return false;
  SpawnRequest request;
  request.arguments = {OwnPath()};
  request.arguments.insert(request.arguments.end(), arguments_.begin(), arguments_.end());
  const std::pair<const char*, int64_t> values[] = {{"--rank-index", index},
                                                    {"--rank-world", options_.ranks},
                                                    {"--rank-report-fd", write_fd},
                                                    {"--rank-board-fd", board_->fd()},
                                                    {"--rank-first-ns", NowNs()}};
  for (const auto& [name, value] : values) {
    request.arguments.insert(request.arguments.end(), {name, std::to_string(value)});
  }
  if (newcomer) request.arguments.emplace_back("--rank-newcomer");
  if (bystander) request.arguments.emplace_back("--rank-bystander");
  request.environment = {{"FTAR_COORDINATOR", coordinator_.address()}, {"FTAR_TOKEN", token_}};
  const FaultSpec* fault = FaultOf(index);
  if (fault != nullptr && (!options_.fault_stage.empty() || StrikesByHook(fault->kind))) {
    const std::string stage = options_.fault_stage.empty() ? "sending" : options_.fault_stage;
    request.environment.emplace_back(
        "FTAR_TEST_FAULT",
        HookText(*fault, schedule_.SeqOf(fault->iteration), stage, options_.fault_chunk));
  }
  request.keep = {write_fd, board_->fd()};
  child.pid = Spawn(request);
  close(write_fd);
  child.index = index;
  child.bystander = bystander;
  child.progress_ns = NowNs();
  const bool started = child.pid > 0;
  children_.emplace(index, std::move(child));
  return started;
}

void Launcher::Pump(int timeout_ms) {
  std::vector<pollfd> entries;
  std::vector<Child*> owners;
  // A child's end wakes this loop at once, so that its time is known.
  signalfd_siginfo info;
  while (read(signal_fd_, &info, sizeof info) > 0) {
  }
  for (auto& [index, child] : children_) {
    if (child.fd < 0) continue;
    entries.push_back({child.fd, POLLIN, 0});
    owners.push_back(&child);
  }
  entries.push_back({signal_fd_, POLLIN, 0});
  if (poll(entries.data(), entries.size(), timeout_ms) <= 0) return;
  for (size_t i = 0; i < owners.size(); ++i) {
    if (entries[i].revents != 0) ReadLines(owners[i]);
  }
}

void Launcher::ReadLines(Child* child) {
  const bool open = child->lines.Fill(child->fd);
  std::string line;
  while (child->lines.Next(&line)) OnLine(child, line);
  if (open) return;
  close(child->fd);
  child->fd = -1;
}

void Launcher::OnLine(Child* child, const std::string& line) {
  const std::optional<Record> record = Decode(line);
  if (!record) return;
  if (const auto* event = std::get_if<EventRecord>(&*record)) {
    if (options_.verbose) {
      fmt::print("# event at rank {}: type {} epoch {:#x} about replica {}: {}\n", child->index,
                 event->type, event->epoch, event->replica, event->text);
    }
    WakeStopped(*event);
  }
  collector_.OnRecord(child->index, *record);
}

void Launcher::Reap() {
  for (auto& [index, child] : children_) {
    if (child.exited) continue;
    int status = 0;
    if (waitpid(child.pid, &status, WNOHANG | WUNTRACED) != child.pid) continue;
    if (WIFSTOPPED(status)) {
      if (child.stop_ns == 0) child.stop_ns = NowNs();
      continue;
    }
    child.exited = true;
    child.wait_status = status;
    child.exit_ns = NowNs();
    // What it wrote before its end is in the pipe; a forked child of it may hold the other end
    // open.
    while (child.fd >= 0) {
      pollfd entry{child.fd, POLLIN, 0};
      if (poll(&entry, 1, 0) <= 0) break;
      ReadLines(&child);
    }
    if (child.fd >= 0) close(child.fd);
    child.fd = -1;
    if (!child.bystander) collector_.OnGone(index);
  }
}

// A stopped victim goes on once a survivor says that it is out: a late store of its must hurt
// nobody.
void Launcher::WakeStopped(const EventRecord& event) {
  if (event.type != FTAR_EVENT_MEMBER_LOST) return;
  const FaultSpec* fault = FaultOf(event.replica);
  const auto it = children_.find(event.replica);
  if (fault == nullptr || fault->kind != FaultKind::kStop || it == children_.end()) return;
  if (!it->second.exited) kill(it->second.pid, SIGCONT);
}

void Launcher::StartNewcomers() {
  uint64_t iteration = 0;
  for (int i = 0; i < options_.ranks; ++i) {
    iteration = std::max(iteration, board_->slot(i).iteration.load());
  }
  int index = options_.ranks;
  for (size_t i = 0; i < options_.faults.size(); ++i) {
    const FaultSpec& fault = options_.faults[i];
    if (fault.kind != FaultKind::kJoin && fault.kind != FaultKind::kStart) continue;
    const int mine = index++;
    if (newcomers_started_[i] || iteration < fault.iteration) continue;
    newcomers_started_[i] = true;
    started_ns_[i] = NowNs();
    const bool bystander = fault.kind == FaultKind::kStart;
    if (!bystander) collector_.OnStart(mine, false);
    StartRank(mine, true, bystander);
  }
}

// True when a rank that could work has shown nothing new for too long.
bool Launcher::Hangs() {
  const int64_t now_ns = NowNs();
  for (auto& [index, child] : children_) {
    if (child.exited || child.bystander) continue;
    const BoardSlot& slot = board_->slot(index);
    const uint64_t signature = slot.delivered.load() * 1'000'003 + slot.seq.load() * 31 +
                               static_cast<uint64_t>(slot.state.load());
    if (signature != child.signature) {
      child.signature = signature;
      child.progress_ns = now_ns;
    }
    const bool stopped = MayDie(index) && slot.strike_ns.load() != 0;
    if (stopped || now_ns - child.progress_ns < options_.hang_timeout_s * kSecondNs) continue;
    hung_ = true;
  }
  return hung_;
}

// A rank that ends before it has joined leaves the others waiting for it in vain.
bool Launcher::FailsEarly() const {
  for (const auto& [index, child] : children_) {
    const auto it = collector_.histories().find(index);
    const bool joined = it != collector_.histories().end() && it->second.hello.has_value();
    if (child.exited && !joined && !child.bystander && !MayDie(index)) return true;
  }
  return false;
}

bool Launcher::Finished() const {
  bool expected_left = false;
  for (const auto& [index, child] : children_) {
    if (child.exited || child.bystander) continue;
    if (!MayDie(index)) return false;
    expected_left = true;
  }
  return !expected_left || (originals_done_ns_ != 0 && NowNs() - originals_done_ns_ > kGraceNs);
}

void Launcher::EndAll() {
  for (auto& [index, child] : children_) {
    const int grandchild = board_ != nullptr ? board_->slot(index).child_pid.load() : 0;
    if (grandchild > 0) kill(grandchild, SIGKILL);
    if (child.exited) continue;
    kill(child.pid, SIGKILL);
    waitpid(child.pid, &child.wait_status, 0);
    child.exited = true;
  }
}

std::vector<std::string> Launcher::DeathComplaints() const {
  std::vector<std::string> complaints;
  for (const auto& [index, child] : children_) {
    if (child.bystander || MayDie(index)) continue;
    const std::string state = DescribeState(board_->slot(index));
    const int status = child.wait_status;
    if (hung_) {
      complaints.push_back(fmt::format("hang: rank {} was {}, no news for {:.1f} s", index, state,
                                       static_cast<double>(NowNs() - child.progress_ns) / 1e9));
    } else if (WIFSIGNALED(status)) {
      complaints.push_back(
          fmt::format("rank {} died of signal {} while {}", index, WTERMSIG(status), state));
    } else if (WEXITSTATUS(status) != kExitOk && WEXITSTATUS(status) != kExitWrong) {
      complaints.push_back(fmt::format("rank {} ended with exit code {} while {}", index,
                                       WEXITSTATUS(status), state));
    }
    const auto it = collector_.histories().find(index);
    if (it == collector_.histories().end() || !it->second.end) continue;
    const EndRecord& end = *it->second.end;
    const FaultSpec* fault = FaultOf(index);
    const bool leaves =
        fault != nullptr && fault->kind == FaultKind::kLeave && end.status == FTAR_ERR_LEFT;
    if (end.status != FTAR_OK && !leaves) {
      complaints.push_back(
          fmt::format("rank {}: {} {}", index, ftarResultString(end.status), end.text));
    }
  }
  return complaints;
}

// The library's hook leaves no time behind.  A death or a stop is seen from here, perhaps after a
// survivor saw it; of a silent strike only the last delivery before it is known, which is early.
int64_t Launcher::HookStruckNs(const FaultSpec& fault) const {
  const auto child = children_.find(fault.rank);
  if (child == children_.end()) return 0;
  int64_t seen_ns = fault.kind == FaultKind::kStop ? child->second.stop_ns : child->second.exit_ns;
  const bool silent = fault.kind != FaultKind::kStop && fault.kind != FaultKind::kKill &&
                      fault.kind != FaultKind::kExit;
  const uint64_t seq = schedule_.SeqOf(fault.iteration);
  int64_t before_ns = 0;
  for (const auto& [rank, history] : collector_.histories()) {
    for (const OpRecord& op : history.ops) {
      if (op.seq < seq) before_ns = std::max(before_ns, op.delivered_ns);
    }
    for (const EventRecord& event : history.events) {
      if (event.type != FTAR_EVENT_MEMBER_LOST || event.replica != fault.rank) continue;
      seen_ns = std::min(seen_ns, event.time_ns);
    }
  }
  return silent ? before_ns : seen_ns;
}

nlohmann::json Launcher::JudgeAll(bool agreed) {
  nlohmann::json all = nlohmann::json::array();
  int newcomer = options_.ranks;
  for (size_t i = 0; i < options_.faults.size(); ++i) {
    const FaultSpec& fault = options_.faults[i];
    const bool starts = fault.kind == FaultKind::kJoin || fault.kind == FaultKind::kStart;
    const int victim = starts ? newcomer++ : fault.rank;
    int64_t struck_ns = starts ? started_ns_[i] : board_->slot(victim).strike_ns.load();
    if (struck_ns == 0 && !starts) struck_ns = HookStruckNs(fault);
    const FaultResult result = JudgeFault(fault, victim, struck_ns, collector_.histories(), agreed);
    fmt::print("{}\n", FormatFault(result));
    all.push_back(FaultJson(result));
  }
  return all;
}

int Launcher::Conclude() {
  std::vector<std::string> errors = DeathComplaints();
  const size_t deaths = errors.size();
  for (const std::string& text : collector_.disagreements()) errors.push_back(text);
  for (const std::string& text : collector_.Complaints()) errors.push_back(text);
  if (!hung_ && deaths == 0 && collector_.wrong() == 0 && !table_.bandwidth_ok()) {
    errors.emplace_back("the bus bandwidth is below 0.9 of --min-bw");
  }
  nlohmann::json extra = nlohmann::json::object();
  extra["agreed"] = collector_.disagreements().empty();
  if (!options_.faults.empty()) {
    extra["faults"] = JudgeAll(collector_.disagreements().empty());
    extra["fault"] = extra["faults"][0];
  }
  table_.Footer(collector_.wrong(), errors, extra);
  if (hung_) return kExitHang;
  if (collector_.wrong() > 0 || !collector_.disagreements().empty()) return kExitWrong;
  if (deaths > 0) return kExitLost;
  return errors.empty() ? kExitOk : kExitWrong;
}

int Launcher::Run() {
  const std::string error = Start();
  if (!error.empty()) {
    fmt::print(stderr, "ftar-perf: {}\n", error);
    return kExitLibrary;
  }
  while (true) {
    Pump(10);
    Reap();
    StartNewcomers();
    const bool originals_done =
        std::all_of(children_.begin(), children_.end(), [&](const auto& entry) {
          return entry.second.exited || entry.second.bystander || MayDie(entry.first);
        });
    if (originals_done && originals_done_ns_ == 0) originals_done_ns_ = NowNs();
    if (Finished() || Hangs() || FailsEarly()) break;
  }
  EndAll();
  return Conclude();
}

// Another program under the same coordinator, with torchrun's names for the rank.
int RunCommand(const Options& options) {
  Coordinator coordinator;
  const std::string token = RandomToken();
  const std::string error = coordinator.Start(token, kCoordinatorTimeoutS);
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
  if (!options.command.empty()) return RunCommand(options);
  Launcher launcher(options, arguments);
  return launcher.Run();
}

}  // namespace ftar::perf
