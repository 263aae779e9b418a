#include "perf/fleet.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "fmt/format.h"
#include "perf/clock.h"

namespace ftar::perf {
namespace {

constexpr int64_t kDumpNs = kSecondNs;  // for the ranks to write their recorders
constexpr int kCoordinatorTimeoutS = 20;
constexpr const char* kQueues = "CUDA_DEVICE_MAX_CONNECTIONS";
constexpr const char* kQueuesMost = "32";
constexpr int kStreamsFew = 4;  // there are 8 queues by default, and some streams of the library's

using Pairs = std::vector<std::pair<std::string, std::string>>;

}  // namespace

Fleet::Fleet(const Options& options, std::vector<std::string> arguments, OnRecord on_record,
             OnGone on_gone)
    : options_(options),
      arguments_(std::move(arguments)),
      on_record_(std::move(on_record)),
      on_gone_(std::move(on_gone)) {}

Fleet::~Fleet() {
  EndAll();
  for (auto& [number, process] : processes_) {
    if (process.fd >= 0) close(process.fd);
  }
  if (signal_fd_ >= 0) close(signal_fd_);
}

std::string Fleet::Open(uint64_t arena_part_bytes) {
  board_ = Board::Create();
  if (board_ == nullptr) return "no memory for the board";
  if (arena_part_bytes > 0) {
    arena_ = Arena::Create(options_.ranks, arena_part_bytes);
    if (arena_ == nullptr) return "no memory for the arena";
  }
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGCHLD);
  sigprocmask(SIG_BLOCK, &signals, nullptr);
  signal_fd_ = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
  if (signal_fd_ < 0) return "no descriptor for signals";
  token_ = RandomToken();
  if (options_.hosted) {
    meeting_ = FreeAddresses(options_.ranks);
    return meeting_.empty() ? "no free port on loopback" : "";
  }
  std::string error = coordinator_.Start(token_, kCoordinatorTimeoutS);
  if (error.empty() && options_.ideal == IdealKind::kKnobs)
    error = second_coordinator_.Start(token_, kCoordinatorTimeoutS);
  return error;
}

SpawnRequest Fleet::Request(const Pairs& environment, const Pairs& own) const {
  SpawnRequest request;
  request.arguments = {OwnPath()};
  request.arguments.insert(request.arguments.end(), arguments_.begin(), arguments_.end());
  const int arena_fd = arena_ != nullptr ? arena_->fd() : -1;
  Pairs all = {{"--rank-world", std::to_string(options_.ranks)},
               {"--rank-board-fd", std::to_string(board_->fd())},
               {"--rank-arena-fd", std::to_string(arena_fd)}};
  all.insert(all.end(), own.begin(), own.end());
  if (options_.ideal == IdealKind::kKnobs)
    all.emplace_back("--rank-second-coordinator", second_coordinator_.address());
  for (const auto& [name, value] : all)
    request.arguments.insert(request.arguments.end(), {name, value});
  request.environment = environment;
  // Streams that share a queue of the GPU's wait for each other: a rank's kernel would stand behind
  // the wait of another stream, for ever.
  if (options_.OnDevice() && (options_.threads || options_.streams > kStreamsFew) &&
      std::getenv(kQueues) == nullptr) {
    request.environment.emplace_back(kQueues, kQueuesMost);
  }
  if (options_.hosted) request.environment.emplace_back("FTAR_COORDINATOR_KIND", "hosted");
  request.environment.emplace_back("FTAR_COORDINATOR",
                                   options_.hosted ? meeting_ : coordinator_.address());
  request.environment.emplace_back("FTAR_TOKEN", token_);
  request.keep = {board_->fd()};
  if (arena_fd >= 0) request.keep.push_back(arena_fd);
  return request;
}

void Fleet::Note(int number, const RankStart& start, pid_t pid, int fd) {
  RankProcess process;
  process.pid = pid;
  process.number = number;
  process.replica = start.replica;
  process.fd = fd;
  process.bystander = start.bystander;
  process.progress_ns = NowNs();
  process.exited = pid < 0;
  processes_.emplace(number, std::move(process));
}

bool Fleet::StartRank(const RankStart& start) {
  int read_fd = -1, write_fd = -1;
  if (start.number >= kMaxProcesses || !MakePipe(&read_fd, &write_fd)) return false;
  SpawnRequest request =
      Request(start.environment, {{"--rank-index", std::to_string(start.replica)},
                                  {"--rank-slot", std::to_string(start.number)},
                                  {"--rank-report-fd", std::to_string(write_fd)}});
  if (start.newcomer) request.arguments.emplace_back("--rank-newcomer");
  if (start.bystander) request.arguments.emplace_back("--rank-bystander");
  request.keep.push_back(write_fd);
  const pid_t pid = Spawn(request);
  close(write_fd);
  Note(start.number, start, pid, read_fd);
  return pid > 0;
}

bool Fleet::StartThreads() {
  std::vector<int> read_fds, write_fds;
  std::string list;
  bool good = true;
  for (int i = 0; i < options_.ranks && good; ++i) {
    int read_fd = -1, write_fd = -1;
    good = MakePipe(&read_fd, &write_fd);
    if (!good) break;
    read_fds.push_back(read_fd);
    write_fds.push_back(write_fd);
    list += (i == 0 ? "" : ",") + std::to_string(write_fd);
  }
  pid_t pid = -1;
  if (good) {
    SpawnRequest request = Request({}, {{"--rank-report-fds", list}});
    request.keep.insert(request.keep.end(), write_fds.begin(), write_fds.end());
    pid = Spawn(request);
  }
  for (const int fd : write_fds) close(fd);
  for (size_t i = 0; i < read_fds.size(); ++i) {
    const auto number = static_cast<int>(i);
    Note(number, {number, number, false, false, {}}, pid, read_fds[i]);
  }
  return pid > 0;
}

void Fleet::Pump(int timeout_ms) {
  std::vector<pollfd> entries;
  std::vector<RankProcess*> owners;
  for (auto& [number, process] : processes_) {
    if (process.fd < 0) continue;
    entries.push_back({process.fd, POLLIN, 0});
    owners.push_back(&process);
  }
  // A child's end wakes this at once, so that its time is known.
  entries.push_back({signal_fd_, POLLIN, 0});
  if (poll(entries.data(), entries.size(), timeout_ms) > 0) {
    for (size_t i = 0; i < owners.size(); ++i) {
      if (entries[i].revents != 0) ReadLines(owners[i]);
    }
  }
  Reap();
}

void Fleet::ReadLines(RankProcess* process) {
  const bool open = process->lines.Fill(process->fd);
  std::string line;
  while (process->lines.Next(&line)) {
    const std::optional<Record> record = Decode(line);
    if (record) on_record_(*process, *record);
  }
  if (open) return;
  close(process->fd);
  process->fd = -1;
}

void Fleet::Reap() {
  signalfd_siginfo info;
  while (read(signal_fd_, &info, sizeof info) > 0) {
  }
  for (auto& [number, process] : processes_) {
    int status = 0;
    if (process.exited || waitpid(process.pid, &status, WNOHANG | WUNTRACED) != process.pid)
      continue;
    const int64_t now_ns = NowNs();
    if (WIFSTOPPED(status)) {
      process.stop_ns = now_ns;
      continue;
    }
    // With its threads.
    const pid_t pid = process.pid;
    for (auto& [other, rank] : processes_) {
      if (!rank.exited && rank.pid == pid) NoteEnd(&rank, status, now_ns);
    }
  }
}

void Fleet::NoteEnd(RankProcess* process, int status, int64_t now_ns) {
  process->exited = true;
  process->wait_status = status;
  process->exit_ns = now_ns;
  // What it wrote before its end is in the pipe; a forked child may hold the other end open.
  while (process->fd >= 0) {
    pollfd entry{process->fd, POLLIN, 0};
    if (poll(&entry, 1, 0) <= 0) break;
    ReadLines(process);
  }
  if (process->fd >= 0) close(process->fd);
  process->fd = -1;
  on_gone_(*process);
}

bool Fleet::StandsStill(RankProcess* process) {
  const int64_t now_ns = NowNs();
  const BoardSlot& show = slot(process->number);
  const uint64_t signature = show.delivered.load() * 1'000'003 + show.seq.load() * 31 +
                             static_cast<uint64_t>(show.state.load());
  if (signature != process->signature) {
    process->signature = signature;
    process->progress_ns = now_ns;
  }
  return now_ns - process->progress_ns >= options_.hang_timeout_s * kSecondNs;
}

void Fleet::DumpAll() {
  if (options_.dump_folder.empty()) return;
  for (auto& [number, process] : processes_) {
    if (!process.exited) kill(process.pid, SIGUSR1);
  }
  SleepNs(kDumpNs);
}

void Fleet::EndAll() {
  for (auto& [number, process] : processes_) {
    const int grandchild = slot(number).child_pid.load();
    if (grandchild > 0) kill(grandchild, SIGKILL);
    if (process.exited) continue;
    kill(process.pid, SIGKILL);
    int status = 0;
    waitpid(process.pid, &status, 0);
    const pid_t pid = process.pid;
    for (auto& [other, rank] : processes_) {
      if (rank.pid != pid) continue;
      rank.wait_status = status;
      rank.exited = true;
    }
  }
}

}  // namespace ftar::perf
